"""Origin of a network, as long as its numbers are what they were then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from codebound.run.tensor_files import state_sha256, state_tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

_NONE = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Origin:
    """Training data of a network.

    Attributes:
        data_sha256: Hash of the sample, or of all of them with commas; empty where there is none.
        is_whole: Whether that is all: it started from numbers that were drawn here.
        rows: Digests of the inputs of all of them, in order, as ``sample.dataset.seen_rows`` makes them.
    """

    data_sha256: str = ""
    is_whole: bool = True
    rows: NDArray[np.uint64] = field(default_factory=lambda: _NONE, repr=False, compare=False)

    def trained(self, data_sha256: str, rows: NDArray[np.uint64] = _NONE) -> Origin:
        """The same after a training on a sample.

        Example:
            >>> Origin().trained("a").trained("a").trained("b").data_sha256
            'a,b'
        """
        seen = dict.fromkeys([*filter(None, self.data_sha256.split(",")), data_sha256])
        return Origin(",".join(seen), self.is_whole, np.union1d(self.rows, rows))

    def has_seen(self, data_sha256: str) -> bool:
        """Return True if it is known to have been trained on a sample, as it is stored and in its order."""
        return data_sha256 in self.data_sha256.split(",")


UNKNOWN = Origin(is_whole=False)
"""Of a network that somebody made elsewhere."""

_KNOWN: WeakKeyDictionary[nn.Module, tuple[str, Origin]] = WeakKeyDictionary()


def remember(module: nn.Module, origin: Origin) -> None:
    """Notes how a network was made."""
    _KNOWN[module] = state_sha256(state_tensors(module)), origin


def origin_of(module: nn.Module) -> Origin:
    """Return the origin of a network. It is unknown if it was not noted, or if a number has changed since.

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


def origin_of_parts(module: nn.Module) -> Origin:
    """Joint origin of a network and the networks inside of it."""
    known = [origin_of(part) for part in module.modules() if part in _KNOWN]
    hashes = dict.fromkeys(each.data_sha256 for each in known if each.data_sha256)
    rows = [each.rows for each in known]
    return Origin(",".join(hashes), False, np.unique(np.concatenate([_NONE, *rows])))
