"""Origin of networks and encoders: what is remembered of it, refused for it, and declared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from codebound.run.errors import CertificateError, UsageError
from codebound.run.tensor_files import state_sha256, state_tensors
from codebound.sample.dataset import seen_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from codebound.sample.dataset import Sample

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

    def add_training(self, data_sha256: str, rows: NDArray[np.uint64] = _NONE) -> Origin:
        """The same after a training on a sample.

        Example:
            >>> Origin().add_training("a").add_training("a").add_training("b").data_sha256
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


def count_seen(origin: Origin, sample: Sample, *, given: Sample | None = None) -> int:
    """Number of inputs that a network is known to have seen, without those that it was given to know."""
    if origin.has_seen(sample.sha256):
        return sample.n
    if not len(origin.rows):
        return 0
    known = origin.rows if given is None else np.setdiff1d(origin.rows, seen_rows(given))
    return int(np.isin(seen_rows(sample), known).sum())


def require_unseen(
    origin: Origin, sample: Sample, *, who: str, advice: str, given: Sample | None = None
) -> None:
    """Refuses a network that is known to have seen an input of a sample, in whatever order or company.

    Raises:
        CertificateError: It has seen some; labels or not, the bound would not hold.
    """
    if shared := count_seen(origin, sample, given=given):
        is_same = origin.has_seen(sample.sha256)
        saw = "this very sample" if is_same else f"{shared} of the {sample.n} inputs of this sample"
        raise CertificateError(
            f"{who} was trained on {saw}, and must not have seen any: the bound would not hold. {advice}"
        )


MAX_WORDS = 200
BASE_FILE = "base.safetensors"
"""Name of the base in a certificate's folder. Only a base that its claim trains has seen the sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Pretrained:
    """A network that was neither trained nor selected on the sample; whoever makes one declares that.

    Attributes:
        says: Where it comes from, in words.
        zeroed: Tensors of its last layer that start at zero, because it had none that fit.
        same_data: Data of the name of the sample, where its training folder says that it has seen such.
    """

    network: nn.Module
    says: str
    zeroed: tuple[str, ...] = ()
    same_data: str = ""

    def __post_init__(self) -> None:
        if not self.says.strip() or len(self.says) > MAX_WORDS or not self.says.isprintable():
            raise UsageError(
                f"a base is described in one line of 1 to {MAX_WORDS} characters, such as 'trained on "
                f"Fashion-MNIST'. Got {self.says!r:.80}."
            )

    @property
    def name(self) -> str:
        """Its name in a certificate."""
        zeroed = "; its last layer starts at zero" if self.zeroed else ""
        shared = f"; trained on {self.same_data[:60]!r}, data of the same name: none of these rows"
        return self.says + zeroed + (shared if self.same_data else "")
