"""Price of a network when the whole design is paid for: as a program, given Python, NumPy and PyTorch.

Every other file of this folder is a program: a function ``f(s, x)`` that decodes the integers of a
certificate from the binary digits of the fraction s, and returns the logits of stored inputs x, but for a
positive factor. It is charged with its raw deflate stream, comments excluded, and with the payload. Both say
themselves where they end, so programs with payloads are a prefix-free code that was fixed before any sample
was seen: nothing of the design is unpaid but Python, NumPy and PyTorch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound_networks.chains.message import decode
from codebound_networks.codes.random_subspace import Subspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from codebound.certificate.file import Certificate

HERE = Path(__file__).parent
Program = Callable[[Any, torch.Tensor], torch.Tensor]


def source(name: str) -> str:
    """The program without its comments: what is counted."""
    lines = (HERE / f"{name}.py").read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


def program(name: str) -> Program:
    """The function that the source defines."""
    names: dict[str, Any] = {}
    exec(compile(source(name), name, "exec"), names)
    found: Program = names["f"]
    return found


def deflated(text: str) -> bytes:
    """The text as a raw deflate stream, which says itself where it ends."""
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    return squeezer.compress(text.encode()) + squeezer.flush()


def integers(certificate: Certificate) -> NDArray[np.int32]:
    """The integers that the message of a certificate codes, in its order."""
    message = decode(certificate.bits, input_shape=certificate.sample.input_shape)
    codes = message.codes
    tensors: list[Any] = [codes.inner] if isinstance(codes, Subspace) else list(codes.values())
    return np.concatenate([tensor.levels.ravel() for tensor in tensors])


@dataclass
class Digits:
    """The fraction numerator / denominator, exactly and never reduced, with what a program does to its s."""

    numerator: int
    denominator: int

    def __imul__(self, total: int) -> Digits:
        self.numerator *= int(total)
        return self

    def __ge__(self, frequency: int) -> bool:
        return self.numerator >= int(frequency) * self.denominator

    def __isub__(self, frequency: int) -> Digits:
        self.numerator -= int(frequency) * self.denominator
        return self

    def __itruediv__(self, frequency: int) -> Digits:
        self.denominator *= int(frequency)
        return self


@dataclass
class Steered:
    """Stands in for s: leads a program to given symbols, and notes the interval of their fractions.

    Attributes:
        symbols: How often each loop of comparisons says yes.
        low: Start of the interval, times the scale.
        width: Its length, times the scale.
        scale: Product of all totals.
    """

    symbols: Iterator[int]
    low: int = 0
    width: int = 1
    scale: int = 1
    _below: int = 0
    _to_go: int = 0

    def __imul__(self, total: int) -> Steered:
        self.low, self.scale = self.low * int(total), self.scale * int(total)
        self._below, self._to_go = 0, next(self.symbols)
        return self

    def __ge__(self, frequency: int) -> bool:
        return self._to_go > 0

    def __isub__(self, frequency: int) -> Steered:
        self._below += int(frequency)
        self._to_go -= 1
        return self

    def __itruediv__(self, frequency: int) -> Steered:
        self.low += self.width * self._below
        self.width *= int(frequency)
        return self


def payload(name: str, certificate: Certificate) -> tuple[int, int]:
    """The integers of the certificate as the program reads them: a number, and with how many bits.

    All fractions whose digits begin with these bits lie in the interval of the integers.
    """
    steered = Steered(iter((integers(certificate) - SMALLEST[name]).tolist()))
    program(name)(steered, torch.zeros(1, *certificate.sample.input_shape, dtype=torch.uint8))
    if next(steered.symbols, None) is not None:
        raise ValueError(f"{name}: the program reads fewer integers than the message codes.")
    bits = max(0, steered.scale.bit_length() - steered.width.bit_length() - 1)
    while True:
        number = -(-(steered.low << bits) // steered.scale)
        if (number + 1) * steered.scale <= (steered.low + steered.width) << bits:
            return number, bits
        bits += 1


SMALLEST = {
    "mnist-subspace": -20,
    "fashion-subspace": -20,
    "cifar10-subspace": -20,
    "mnist-features": -2,
    "fashion-features": -2,
    "digits-features": -2,
    "digits-linear": -2,
    "mnist-guha-mlp": -3,
}
"""The integer that the first symbol of each program stands for."""
