"""Tensors in a message: the code word, then blocks; and tensors inside others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from codebound.bits.plain_code import Bits, join
from codebound.run.errors import FormatError, UsageError
from codebound.run.extensions import find_extensions, resolve
from codebound_networks.codes.arithmetic import Reader, Writer
from codebound_networks.codes.bell import Bell
from codebound_networks.codes.numbers import gamma
from codebound_networks.codes.tensors import (
    AbstractGridCode,
    AbstractTensorCode,
    Adaptive,
    Codebook,
    Dense,
    Enumerative,
    Raw,
    Static,
    Zero,
    require_size,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codebound_networks.codes.arithmetic import AbstractCoder
    from codebound_networks.codes.tensors import Shape

MODES: dict[int, type[AbstractTensorCode]] = {
    code.mode: code for code in (Adaptive, Zero, Dense, Enumerative, Codebook, Raw, Static, Bell)
}
Integers = AbstractGridCode | Zero
"""Codes that may stand inside the code of another tensor."""


def code_of_mode(mode: int, reader: Reader) -> type[AbstractTensorCode]:
    """The code of a mode, ours or that of an extension."""
    if mode in MODES:
        return MODES[mode]
    added = find_extensions()["TENSOR_CODES"]
    reader.require(mode in added, f"there is no tensor code of mode {mode}.{find_extensions().advice}")
    found: type[AbstractTensorCode] = resolve(added[mode])
    return found


def write_tensor(writer: Writer, code: AbstractTensorCode) -> None:
    """The mode of a tensor and its content, except for a block."""
    require_size(writer, code.shape)
    gamma(writer, code.mode)
    code.code(writer)


def read_tensor(reader: Reader, shape: Shape) -> AbstractTensorCode:
    """The next tensor. What stands in blocks is blank until ``read_blocks`` has filled it."""
    require_size(reader, shape)
    mode = gamma(reader, 0)
    return code_of_mode(mode, reader).blank(shape).code(reader)


def read_blocks(
    bits: Bits, start: int, codes: Iterable[AbstractTensorCode]
) -> tuple[list[AbstractTensorCode], int]:
    """The tensors with their blocks, which begin at bit ``start``, and the bit where the last one ends."""
    complete: list[AbstractTensorCode] = []
    for code in codes:
        filled, start = code.with_blocks(bits, start)
        complete.append(filled)
    return complete, start


def integers(code: AbstractTensorCode) -> Integers:
    """The same, known to hold levels and a step."""
    if not isinstance(code, Integers):
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


def code_inner(coder: AbstractCoder, given: AbstractTensorCode, shape: Shape) -> Integers:
    """An inner tensor. A reader, which is given any, returns one of this shape."""
    require_size(coder, shape)
    coder.charge_inner(math.prod(shape))
    mode = gamma(coder, given.mode)
    coder.require(issubclass(MODES.get(mode, Raw), Integers), f"an inner tensor cannot have mode {mode}.")
    blank = given if (given.mode, given.shape) == (mode, shape) else MODES[mode].blank(shape)
    return integers(blank.code(coder))


def code_seed(coder: AbstractCoder, seed: int) -> int:
    """The seed of a helper, which is paid."""
    coder.require(seed >= 0, f"a seed is not negative. Got {seed}.")
    return gamma(coder, seed + 1) - 1


def encode_tensors(codes: Sequence[AbstractTensorCode]) -> Bits:
    """A message of tensors alone. Its length is what they cost together.

    >>> import numpy as np
    >>> from codebound_networks.codes.choose import best_tensor_code
    >>> code = best_tensor_code(np.array([[0, 1, 0], [0, 0, -1]]), step=-16)
    >>> message = encode_tensors([code])
    >>> decode_tensors(message, [(2, 3)])[0].weights().tolist()
    [[0.0, 0.25, 0.0], [0.0, 0.0, -0.25]]
    """
    writer = Writer()
    for code in codes:
        write_tensor(writer, code)
    return join(writer.finish(), *(block for code in codes for block in code.blocks()))


def decode_tensors(bits: Bits, shapes: Sequence[Shape]) -> list[AbstractTensorCode]:
    """The inverse of ``encode_tensors``. Refuses anything that is not exactly such a message."""
    reader = Reader(bits)
    codes = [read_tensor(reader, shape) for shape in shapes]
    complete, end = read_blocks(bits, reader.finish(), codes)
    if end != bits.length:
        raise FormatError(f"the message has {bits.length} bits, its tensors end after {end}.")
    return complete
