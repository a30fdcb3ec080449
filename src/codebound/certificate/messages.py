"""Messages of networks, as far as the product asks (docs/format.md, section 8), and the choices in front."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from codebound.bits.bitstring import Bits
    from codebound.bits.plain_code import Ledger
    from codebound.certificate.setting import Setting


@dataclass(frozen=True, slots=True)
class Options:
    """Choices in front of the architecture.

    Attributes:
        theta_index: Index of the margin of C-12a, or None.
        has_base: Whether tensors are differences to the base.
        setting: Classes and scaling; None: those of the task it is assessed for, or the classes of the chain
            and inputs as they are stored.
    """

    theta_index: int | None = None
    has_base: bool = False
    setting: Setting | None = None


class AbstractMessage(Protocol):
    """A message that a network is decoded from.

    Attributes:
        options: Choices in front of the network.
    """

    __slots__ = ()
    options: Options

    @property
    def setting(self) -> Setting:
        """Setting at the start of the message."""

    @property
    def theta(self) -> float:
        """The margin that differences have to exceed; 0.0 without one."""

    @property
    def parts(self) -> dict[str, object]:
        """Everything but the numbers, by name: equal in a message and in what its bits are read as."""

    def with_options(self, options: Options) -> Self:
        """The same network behind other options."""

    def encode(self) -> tuple[Bits, Ledger]:
        """The bits from the word of the form on, and how many of them each part takes."""

    def word(self) -> tuple[Bits, Ledger]:
        """The bits in front of the blocks, and how many of them each part takes."""

    def with_blocks(self, word: Bits, ledger: Ledger) -> tuple[Bits, Ledger]:
        """The whole message, from its word."""

    def length_limits(self, word: Bits) -> tuple[int, int]:
        """Bits that the whole message has at least and at most, from its word."""

    def block_keys(self) -> list[Hashable]:
        """Equal for messages whose blocks are known to be equal."""

    def witness(self) -> bytes:
        """The proofs that a decoder would have to search for (docs/format.md, 8.9)."""

    def build(self, base: Mapping[str, NDArray[np.float32]] | None) -> nn.Module:
        """The network that it describes, in evaluation mode."""
