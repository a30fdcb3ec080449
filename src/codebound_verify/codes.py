"""All codes of tensors, by mode (docs/format.md, section 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .papers import random_tensors
from .refusal import Refused
from .tensors import CODES, Content, Recipe, Shape, read_coded

if TYPE_CHECKING:
    from collections.abc import Callable

    from .arithmetic import Decoder

OF_THE_PAPERS: dict[int, Callable[[Decoder, Shape], Recipe]] = {
    8: random_tensors.read_projected,
    9: random_tensors.read_low_rank,
    10: random_tensors.read_filled,
    11: random_tensors.read_ticket,
    12: random_tensors.read_mixed,
    13: random_tensors.read_sketched,
}


def read_tensor(decoder: Decoder, shape: Shape) -> Recipe:
    """The next tensor."""
    mode = decoder.gamma()
    if mode in OF_THE_PAPERS:
        return OF_THE_PAPERS[mode](decoder, shape)
    if mode not in CODES:
        raise Refused(f"Message: there is no tensor mode {mode}; modes are 1 to {max(CODES)}.")
    return Recipe((read_coded(decoder, mode, shape),), Content.values)
