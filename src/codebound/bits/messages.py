"""Options of a message, the schemes of the format, and what the product asks of every message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from codebound.bits.numbers import bit, signed, uniform

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from codebound.bits.arithmetic import AbstractCoder
    from codebound.bits.bitstring import Bits
    from codebound.bits.setting import Setting

TENSORS, SUBSPACE, PICKED = 1, 2, 3
"""The schemes of the format: every tensor by itself, all of them from one subspace, or a rule by which a
network is learned from the sample (``codebound.learn``)."""
MAX_THETA_INDEX = 8000
MAX_WITNESS = 1 << 24
"""Bytes of all proofs of a message."""

Ledger = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Options:
    """Decoder-side choices in front of the architecture.

    Attributes:
        tenths: Tenths of the sample that shaped the helper (C-10), or None.
        theta_index: Index of the margin of C-12a, or None.
        has_base: Whether tensors are differences to the base of the helper.
        setting: Classes and scaling; None: those of the task it is assessed for, or the classes of the chain
            and inputs as they are stored.
    """

    tenths: int | None = None
    theta_index: int | None = None
    has_base: bool = False
    setting: Setting | None = None


def code_options(coder: AbstractCoder, options: Options) -> Options:
    """The options without the setting, which stands in front."""
    tenths, theta = options.tenths, options.theta_index
    if bit(coder, tenths is not None):
        tenths = uniform(coder, (tenths or 1) - 1, 9) + 1
    if bit(coder, theta is not None):
        theta = signed(coder, theta or 0)
        coder.require(
            abs(theta) <= MAX_THETA_INDEX, f"theta has an index within {MAX_THETA_INDEX}. Got {theta}."
        )
    return Options(tenths, theta, bool(bit(coder, options.has_base)), options.setting)


class AbstractMessage(Protocol):
    """A message that a network is decoded from.

    Attributes:
        options: Choices in front of the network.
        is_short: Whether it is written in the few bits of a base with biases (docs/format-3.md, 5.7).
    """

    __slots__ = ()
    options: Options
    is_short: bool

    @property
    def version(self) -> int:
        """The oldest version of the format, from the second on, that can say it."""

    @property
    def setting(self) -> Setting:
        """Setting at the start of the message."""

    def with_options(self, options: Options) -> Self:
        """The same network behind other options."""

    def shorten(self) -> Self:
        """The same as a short message, if one can say it."""

    def encode(self) -> tuple[Bits, Ledger]:
        """The bits, and how many of them each part takes."""

    def word(self) -> tuple[Bits, Ledger]:
        """The bits in front of the blocks, and how many of them each part takes."""

    def with_blocks(self, word: Bits, ledger: Ledger) -> tuple[Bits, Ledger]:
        """The whole message, from its word."""

    def length_limits(self, word: Bits) -> tuple[int, int]:
        """Bits that the whole message has at least and at most, from its word."""

    def block_keys(self) -> list[Hashable]:
        """Equal for messages whose blocks are known to be equal."""

    def witness(self) -> bytes:
        """The proofs that a decoder would have to search for (docs/format.md, section 1)."""

    @property
    def parts(self) -> dict[str, object]:
        """Everything but the numbers, by name: equal in a message and in what its bits are read as."""

    def build(self, base: Mapping[str, NDArray[np.float32]] | None) -> nn.Module:
        """The network that it describes, in evaluation mode."""
