"""Counting with modules that a factory made (docs/format.md, section 5.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from ..evaluate import Evaluator, Functions, Logits, Progress
from .backwards import Backwards
from .factory import Forward, Made, check_function, loaded

if TYPE_CHECKING:
    from ..header import Header
    from ..message import Network
    from ..rounding import Rounded
    from ..sample import Inputs

FLOAT32_SHARE = 2.0**-10  # of what float32 is off: taken for the error of float64, which is far smaller
ORDER_SHARE = 10.0  # of what sums in another order are off: they must agree within a millionth
GUESSED_WIDTH = 64  # numbers that an unknown module holds for each number of its input


def module_evaluator(header: Header, network: Network, made: Made, progress: Progress | None) -> Evaluator:
    """An evaluator of the module with the decoded tensors."""
    wide, narrow = (made.forward(network.tensors, dtype) for dtype in (torch.float64, torch.float32))
    return _evaluator(of_module(wide, narrow), header, progress)


def check_module(header: Header, network: Network, made: Made, x: Inputs) -> None:
    """The module with the decoded tensors is a function of one example, and the one that was traced."""
    module = _evaluator(unbounded(loaded(made.module, network.tensors)), header)
    graph = None if made.graph is None else _evaluator(unbounded(made.forward(network.tensors)), header)
    check_function(module, graph, x)


def of_module(wide: Forward, narrow: Forward) -> Functions:
    """A module that is given in float64 and in float32, and of which nothing else is known.

    What float32 is off, and sums in another order, say how much it makes of a rounding: this is checked, not
    proven.
    """

    def carrying(x: Rounded) -> Logits:
        logits = wide(x.values)
        with Backwards():  # type: ignore[no-untyped-call]
            other = wide(x.values)
        off = (narrow(x.values.float()).double() - logits).abs().amax(1)
        return Logits(
            logits, torch.maximum(FLOAT32_SHARE * off, ORDER_SHARE * (other - logits).abs().amax(1))
        )

    return Functions(carrying)


def unbounded(forward: Forward) -> Functions:
    """A network whose logits are compared, not counted with."""
    return Functions(lambda x: Logits(forward(x.values), torch.full((len(x.values),), math.inf)))


def _evaluator(functions: Functions, header: Header, progress: Progress | None = None) -> Evaluator:
    width = GUESSED_WIDTH * math.prod(header.input_shape)
    return Evaluator(functions, header=header, widest=width, progress=progress)
