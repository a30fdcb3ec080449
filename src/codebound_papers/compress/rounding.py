"""Rounding a layer to multiples of a step: the code it gets, and how far it can move the layer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.coding.choose import best_tensor_code
from codebound.coding.quantization import quantize, step_for_levels, step_size
from codebound.errors import UnsupportedLayerError, UsageError
from codebound.refs import implements
from codebound_papers.guha23.pruning import rounding_bound

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.coding.tensors import AbstractTensorCode
    from codebound.nets.layers import AbstractLayerView

MAX_ENTRIES = 1 << 25
"""Most elements of a tensor in a message."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """A weight on a grid.

    Attributes:
        code: The shortest code of the integers.
        size: Size of the step.
        nonzeros: Non-zero weights before rounding, J; the small ones among them may have become zero.
    """

    code: AbstractTensorCode = field(repr=False)
    size: float
    nonzeros: int

    @property
    def error(self) -> float:
        """Most that rounding changed the layer, in Frobenius and so in spectral norm."""
        return rounding_bound(self.size, nonzeros=self.nonzeros)


@implements("G-Disc", "I-11", kind="algorithm")
def rounded(weight: Tensor, levels: int) -> Rounded:
    """The weight on ``levels`` = 2L + 1 multiples of the smallest step that reaches all of it.

    Zeros stay zero.

    Differs.    The step is one of the coded ones, 2^(j/8), so that the decoder knows it.

    Example:
        >>> grid = rounded(torch.tensor([[1.0, -0.52], [0.0, 0.02]]), levels=5)
        >>> grid.code.values().round(3).tolist(), grid.nonzeros
        ([[0.841, -0.42], [0.0, 0.0]], 3)
    """
    values = weight.detach().cpu().numpy()
    step = step_for_levels(values, levels)
    code = best_tensor_code(quantize(values, step), step=step)
    return Rounded(code, step_size(step), int(np.count_nonzero(values)))


@implements("G-E10", kind="numerics")
def number_of_levels(largest: float, size: float) -> int:
    """Multiples of ``size`` that weights of magnitude up to ``largest`` are rounded to, zero included.

    Differs.    G counts 1/rho, which leaves out the range of the weights and is below 1 for rho > 1.

    Example:
        >>> number_of_levels(1.0, 0.3)
        7
    """
    if not (0.0 <= largest < math.inf and 0.0 < size < math.inf):
        raise UsageError(f"a range is at least 0 and a step above 0. Got {largest} and {size}.")
    return 2 * math.floor(largest / size + 0.5) + 1


def weight_of(layer: AbstractLayerView) -> Tensor:
    """The weight of a layer in memory, or the reason why no code can take it.

    Raises:
        UnsupportedLayerError: It is not float32, or too long for a message.
    """
    weight = layer.weight
    if weight.dtype != torch.float32:
        raise UnsupportedLayerError(
            f"layer {layer.name}: its weight is {str(weight.dtype).removeprefix('torch.')}, and codes "
            "decode to float32. Convert the network with .float() first."
        )
    if weight.numel() > MAX_ENTRIES:
        raise UnsupportedLayerError(
            f"layer {layer.name}: its weight has {weight.numel():,} elements; a message takes at most "
            f"{MAX_ENTRIES:,} per tensor."
        )
    return weight.detach().cpu()
