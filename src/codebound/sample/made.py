"""Origin of inputs, or of a base, in a header (docs/format.md, 4.3 and 4.4)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

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

    @property
    def name(self) -> str:
        """Name of an encoder, without its licence."""
        return self.by.partition(LICENCE)[0]

    def as_record(self) -> dict[str, Any]:
        """Object of a header."""
        return asdict(self)
