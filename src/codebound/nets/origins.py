"""What is known of how a network was made, as long as its numbers are what they were then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from codebound.nets.tensors import state_sha256, state_tensors

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Origin:
    """What a network was trained on.

    Attributes:
        data_sha256: Hash of the sample, or of all of them with commas; empty where there is none.
        is_whole: Whether that is all: it started from numbers that were drawn here.
    """

    data_sha256: str = ""
    is_whole: bool = True

    def trained(self, data_sha256: str) -> Origin:
        """The same after a training on a sample.

        Example:
            >>> Origin().trained("a").trained("a").trained("b").data_sha256
            'a,b'
        """
        seen = dict.fromkeys([*filter(None, self.data_sha256.split(",")), data_sha256])
        return Origin(",".join(seen), self.is_whole)

    def has_seen(self, data_sha256: str) -> bool:
        """Whether it is known to have been trained on a sample."""
        return data_sha256 in self.data_sha256.split(",")


UNKNOWN = Origin(is_whole=False)
"""Of a network that somebody made elsewhere."""

_KNOWN: WeakKeyDictionary[nn.Module, tuple[str, Origin]] = WeakKeyDictionary()


def remember(module: nn.Module, origin: Origin) -> None:
    """Notes how a network was made."""
    _KNOWN[module] = state_sha256(state_tensors(module)), origin


def origin_of(module: nn.Module) -> Origin:
    """How a network was made, where that was noted and none of its numbers has changed since.

    Example:
        >>> from torch import nn
        >>> network = nn.Linear(2, 2)
        >>> remember(network, Origin())
        >>> _ = network.weight.data.mul_(2.0)
        >>> origin_of(network) == UNKNOWN
        True
    """
    known = _KNOWN.get(module)
    if known is None or known[0] != state_sha256(state_tensors(module)):
        return UNKNOWN
    return known[1]
