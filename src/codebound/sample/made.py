"""Origin of inputs, or of a base, in a header (docs/format.md, 4.3 and 4.4); texts and numbers for one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import DataError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_CHARACTERS = 400
LICENCE = " (licence: "
"""In front of the licence of an encoder, behind its name."""


@dataclass(frozen=True, slots=True)
class Made:
    """Something that was made before.

    Attributes:
        by: Who made it: a learner's class, parameters, seed and versions.
        of: Name of the data that it was made of.
        rows: How many of the first rows of the sample are among these.
        sha256: Hash of its file.
    """

    by: str
    of: str
    rows: int
    sha256: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", printable(self.by))
        object.__setattr__(self, "of", printable(self.of))

    @property
    def name(self) -> str:
        """Name of an encoder, without its licence."""
        return self.by.partition(LICENCE)[0]

    def as_record(self) -> dict[str, Any]:
        """Object of a header."""
        return asdict(self)


def printable(text: str) -> str:
    """The text as a header can have it."""
    return "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in text)[:MAX_CHARACTERS]


def require_printable(name: str, text: object) -> None:
    """Refuse a text that no header can have."""
    if not isinstance(text, str) or text != printable(text):
        raise UsageError(f"{name}: at most {MAX_CHARACTERS} printable ASCII characters. Got {text!r:.80}.")


def whole(name: str, value: object) -> int:
    """Python's own integer for that of a library; others are refused."""
    if not isinstance(value, Integral):
        raise UsageError(f"{name} is a whole number. Got {value!r:.80}.")
    return int(value)


def integers(name: str, values: object) -> NDArray[np.int64]:
    """Array of integers in a list, a series or another array; others are refused."""
    found = np.asarray(values)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "biu"):
        raise DataError(f"{name} must be integers in a row. Got {found.dtype} of shape {found.shape}.")
    return found.astype(np.int64, copy=False)
