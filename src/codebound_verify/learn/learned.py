"""The classifier of a rule: a sum over supports, and its scores (docs/format.md, sections 7.7 and 7.8)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..refusal import Refused
from ..sample import hash_arrays, parts
from .exact import Doubles, Integers, full_precision

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..sample import Data, Progress
    from .choices import Rule
    from .kernel import Kernel, Points

TOLERANCE = 0.5e-4  # of the largest score: half of the writer's, as what follows
LEAST = {True: 0.5e-6, False: 0.5e-5}
"""Least room, by whether the rule picks."""
CLOSE = 1e-4  # of the largest coefficient, by which two machines may differ
TOGETHER = 1 << 24  # numbers in the vectors of one block of rows
MOST = 1 << 14  # rows in it


@dataclass(frozen=True, kw_only=True)
class Learned:
    """The classifier of a rule, with the scores that it gives to rows.

    ``rows`` are those that it was learned from, in the order of picking, and ``picks`` those behind the first
    ones, as stored, in ``batches``. ``found`` has the scores of the whole sample where they are known anyway.
    """

    rule: Rule
    classes: Integers  # the label of each score
    kernel: Kernel
    supports: Points
    coefficients: Doubles
    rows: Integers
    picks: Integers
    sentences: tuple[str, ...]
    data: Data
    batches: tuple[int, ...] = ()
    found: Doubles | None = None
    progress: Progress | None = None
    theta: float = 0.0

    def blocks(self, rows: Integers) -> Iterator[tuple[Integers, Doubles, Doubles]]:
        """Scores of rows, some at a time, and how far apart two must be to be told apart (7.8)."""
        dimension = self.supports.vectors.shape[1]
        for part in parts(len(rows), max(1, min(MOST, TOGETHER // dimension))):
            own = rows[part]
            values = self._values(own)
            with np.errstate(invalid="ignore"):
                largest = np.abs(values).max(axis=1)
            room = np.maximum(TOLERANCE * largest, LEAST[len(self.picks) > 0])
            yield own, values, np.where(np.isfinite(largest), room, np.inf)
            if self.progress is not None:
                self.progress(part.stop, len(rows))

    def on(self, data: Data) -> Learned:
        """The same on other data, such as a test sample."""
        return replace(self, data=data, found=None)

    def check_weights(self, given: Mapping[str, Doubles]) -> None:
        """Refuse the tensors of another classifier; constants of its features are not compared.

        ``examples`` are places in the sample in the order of picking, ``inputs`` what is stored there, and
        ``coefficients`` have the supports copy by copy.
        """
        rows, count, at = self.rows, len(self.coefficients) // len(self.rows), 0
        order = []
        for size in (len(rows) - len(self.picks), *self.batches):  # here they stand batch by batch
            order.append(np.arange(count)[:, None] * len(rows) + np.arange(at, at + size))
            at += size
        places = np.concatenate([each.ravel() for each in order])
        wanted = {"examples": rows, "inputs": self.data.x[rows], "classes": self.classes}
        none = np.empty(0)  # hashes are compared, since a gap in a cell equals nothing
        other = [name for name, it in wanted.items() if hash_arrays(given.get(name, none)) != hash_arrays(it)]
        found, own = given.get("coefficients", none), self.coefficients
        close = CLOSE * (1 + np.abs(own).max())
        if found.shape != own.shape or not np.abs(found[places] - own).max() <= close:
            other.append("coefficients")
        if other:
            raise Refused(f"Weights: {', '.join(other)} are not those of the classifier.")

    def _values(self, rows: Integers) -> Doubles:
        if self.found is not None:
            return self.found[rows]
        with full_precision():
            points = self.kernel.points(self.data.x, rows)
            return self.kernel.sums(self.supports, points, self.coefficients)
