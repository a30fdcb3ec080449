"""Pruned layers as sketches: f stays as it is, and a part of the sample chooses density and levels."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from codebound.chains.message import Message
from codebound.coding.tensors import AbstractGridCode
from codebound.search.pruned import quantised_code
from codebound.search.search import Search, UnsuitedError
from codebound_papers.guha23.sketch.codec import plain_bits, smallest_sketch

if TYPE_CHECKING:
    from codebound.coding.tensors import AbstractTensorCode

_OPTIONS = ((0.1, 7), (0.05, 3), (0.02, 3))  # density and levels
_MOST_ELEMENTS = 1 << 22  # sketched in one message: half of what its decoder may be asked for


def propose_sketched(search: Search) -> None:
    """Sketched layers where they can be recovered, plain codes for the others."""
    if search.task.claim.stays_near_f:
        raise UnsuitedError("sketch prunes, which moves the network too far for a statement about f.")
    search.consider([partial(_message, search, density, levels) for density, levels in _OPTIONS])
    if search.best is None:
        raise UnsuitedError(
            "sketch recovers no layer of this network from fewer numbers than it has; `codebound sketch` "
            "says why, layer by layer."
        )


def _message(search: Search, density: float, levels: int) -> Message | None:
    """The message at a density; None if it has no sketch in it."""
    codes: dict[str, AbstractTensorCode] = {}
    left, found = _MOST_ELEMENTS, False
    for name in search.task.f.tensors:
        plain = codes[name] = quantised_code(name, search.task, density=density, levels=levels)
        if len(plain.shape) < 2 or not isinstance(plain, AbstractGridCode) or plain.levels.size > left:
            continue
        # In competition a sketch that is longer is not worth solving; alone, sketches are what was asked for.
        naive = plain_bits(plain.levels, step=plain.step).sparse if search.best is not None else math.inf
        attempt = smallest_sketch(plain.levels, step=plain.step, most_bits=naive)
        if attempt.code is not None:
            codes[name], found = attempt.code, True
            left -= plain.levels.size
    return Message(search.task.options, search.task.f.chain, codes) if found else None
