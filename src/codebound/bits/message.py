"""Messages as the product sees them; the package of a form says what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from codebound.bits.bitstring import Bits
    from codebound.bits.options import Ledger, Options
    from codebound.bits.setting import Setting

MAX_WITNESS = 1 << 24
"""Bytes of all proofs of a message."""


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

    def shortened(self) -> Self:
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
