"""Tensors of integers inside the code of another tensor: docs/format.md, sections 4.8 to 4.12."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from codebound.coding.bell import Bell
from codebound.coding.numbers import gamma
from codebound.coding.quantization import step_size
from codebound.coding.tensors import (
    AbstractGridCode,
    AbstractTensorCode,
    Adaptive,
    Dense,
    Enumerative,
    Static,
    Zero,
    require_size,
)
from codebound.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.coding.arithmetic import AbstractCoder
    from codebound.coding.bits import Bits
    from codebound.coding.tensors import Shape

Inner = AbstractGridCode | Zero
INNER_MODES: dict[int, type[Inner]] = {
    code.mode: code for code in (Adaptive, Zero, Dense, Enumerative, Static, Bell)
}


@dataclass(frozen=True, eq=False)
class AbstractStreamCode(AbstractTensorCode):
    """A code around inner tensors of integers, which are the fields named in ``parts``, in message order."""

    parts: ClassVar[tuple[str, ...]] = ("inner",)

    def blocks(self) -> list[Bits]:  # noqa: D102
        return [block for part in self.parts for block in getattr(self, part).blocks()]

    def with_blocks(self, bits: Bits, start: int) -> tuple[AbstractTensorCode, int]:  # noqa: D102
        complete = {}
        for part in self.parts:
            complete[part], start = getattr(self, part).with_blocks(bits, start)
        return replace(self, **complete), start


def integers(code: AbstractTensorCode) -> Inner:
    """The same, known to hold levels and a step."""
    if not isinstance(code, AbstractGridCode | Zero):
        raise UsageError(f"an inner tensor holds integers and a step; {type(code).__name__} does not.")
    return code


def check_inner(code: AbstractTensorCode, sizes: tuple[int | None, ...]) -> None:
    """Refuses an inner tensor of other sizes; None stands for any."""
    shape = integers(code).shape
    if len(shape) != len(sizes) or any(
        size not in (None, found) for size, found in zip(sizes, shape, strict=True)
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in sizes)
        raise UsageError(f"an inner tensor of shape {shape} does not fit here; it has sizes ({wanted}).")


def code_inner(coder: AbstractCoder, given: AbstractTensorCode, shape: Shape) -> Inner:
    """An inner tensor; a reader, which is given any, returns one of this shape."""
    require_size(coder, shape)
    coder.charge_inner(math.prod(shape))
    mode = gamma(coder, given.mode)
    coder.require(mode in INNER_MODES, f"an inner tensor cannot have mode {mode}.")
    blank = given if (given.mode, given.shape) == (mode, shape) else INNER_MODES[mode].blank(shape)
    return integers(blank.code(coder))


def code_seed(coder: AbstractCoder, seed: int) -> int:
    """The seed of a helper, which is paid."""
    coder.require(seed >= 0, f"a seed is not negative. Got {seed}.")
    return gamma(coder, seed + 1) - 1


def scaled(levels: NDArray[np.integer[Any]] | NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """Integers times the step, multiplied in float64."""
    return np.multiply(levels, step_size(step), dtype=np.float64)
