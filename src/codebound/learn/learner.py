"""The learner of a rule on a sample, and what it learned (docs/format.md, 7.8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from codebound.learn.kernels import KeptRows, Kernel, StreamedRows
from codebound.learn.ridge import KernelRidge
from codebound.learn.rule_code import RuleChoice
from codebound.learn.vectors import vectors_of
from codebound.run.device import exact_products
from codebound.run.progress import Progress, silent
from codebound.sample.losses import WRONG

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.learn.features import FeatureMap
    from codebound.learn.prepared import Prepared
    from codebound.learn.rule import Rule
    from codebound.learn.spread import Spread
    from codebound.sample.dataset import Dataset
    from codebound.sample.order import Arranged

_TOLERANCE = 1e-4  # as in counting; a verifier uses half of these two
_LEAST_MARGIN = {True: 1e-6, False: 1e-5}  # by whether the rule picks


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """Counts after some rounds.

    Attributes:
        picks: Rows picked until then.
        errors: Other rows that are wrong, without known ones.
    """

    picks: int
    errors: int

    @property
    def counted(self) -> int:
        """Count that enters the bound."""
        return self.picks + self.errors


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """A rule with what it learned, and picked.

    Attributes:
        form: Of the message that names it.
        first: The known share, in rows or clusters.
        rule: The rule, with the rounds that had to be longer.
        classes: Label of each column of its scores, rising.
        features: The feature map.
        known: Known rows that were learned from, as stored, in their order.
        picks: Rows that were picked, as stored, in the order of picking.
        coefficients: Of every support, shape (supports, classes).
        outputs: Scores of every row; of a split those of known rows are zero.
        rounds: What was counted before the first round and after each.
        gap: The smallest gap between a row that was picked and one that was not.
        rounding: The largest bound on rounding errors.
        is_interrupted: Whether there would have been more rounds.
    """

    form: str
    first: int
    rule: Rule
    classes: NDArray[np.int64]
    features: FeatureMap
    known: NDArray[np.int64]
    picks: NDArray[np.int64]
    coefficients: Tensor
    outputs: Tensor
    rounds: tuple[RoundCounts, ...]
    gap: float = math.inf
    rounding: float = 0.0
    is_interrupted: bool = False

    @property
    def last(self) -> RoundCounts:
        """Counts at the end."""
        return self.rounds[-1]

    def scores(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores of every row, and by how much a difference has to be larger than nothing."""
        return self.outputs.numpy(), room_of(self.outputs, picks=self.rule.rounds > 0).numpy()

    def choice(self, arranged: Arranged) -> RuleChoice:
        """The words of its message."""
        classes = len(self.classes)
        return RuleChoice.of(self.form, self.rule, first=self.first, units=arranged.units, classes=classes)


def room_of(outputs: Tensor, *, picks: bool) -> Tensor:
    """By how much differences have to be larger, so that every machine says the same."""
    return (_TOLERANCE * outputs.abs().amax(dim=1)).clamp(min=_LEAST_MARGIN[picks])


class Learner:
    """The learner of a rule, which rows of a sample are added to.

    Args:
        rule: The rule.
        sample: The sample.
        prepared: Its features.
        classes: Label of each column, rising.
        capacity: Most rows that are learned from.
        wanted: Rows whose scores are computed once; None: those of all rows, again and again.
        dtype: In float32 it holds twice as many supports, less exactly.
        progress: Told how far kernel and factor are.
    """

    def __init__(
        self,
        rule: Rule,
        sample: Dataset,
        prepared: Prepared,
        *,
        classes: NDArray[np.int64],
        capacity: int,
        wanted: NDArray[np.int64] | None = None,
        dtype: torch.dtype = torch.float64,
        progress: Progress = silent,
    ) -> None:
        self._rule, self._sample, self._prepared, self._classes = rule, sample, prepared, classes
        vectors, kernel = prepared.vectors, Kernel.of(rule, prepared.features)
        self.device = vectors.device if isinstance(vectors, torch.Tensor) else torch.device("cpu")
        self._labels = torch.from_numpy(sample.y).to(self.device)
        self._ridge = KernelRidge(
            kernel,
            rule.ridge,
            capacity=capacity * rule.supports_each,
            dtype=dtype,
            device=self.device,
            progress=progress,
        )
        self._order = torch.zeros(0, dtype=torch.int64, device=self.device)
        self._rows: KeptRows | StreamedRows | Spread
        if not isinstance(vectors, torch.Tensor):
            self._rows = vectors.reopen(kernel)
        elif wanted is None:
            self._rows = KeptRows(vectors, kernel)
        else:
            self._rows = StreamedRows(vectors, kernel, torch.from_numpy(wanted).to(self.device))

    def add(self, rows: Tensor) -> None:
        """Adds rows of the sample, as stored: all of them for the first copy, then for the second, ..."""
        vectors, features = self._prepared.vectors, self._prepared.features
        own = vectors[rows] if isinstance(vectors, torch.Tensor) else vectors.vectors_at(rows)
        changes = self._rule.changes()[1:]
        stored = torch.from_numpy(self._sample.x[rows.cpu().numpy()]) if changes else own
        copies = [vectors_of(features, stored, change=each, device=self.device) for each in changes]
        added, classes = torch.cat([own, *copies]), torch.from_numpy(self._classes).to(self.device)
        targets = 2.0 * (self._labels[rows][:, None] == classes).double() - 1.0
        with exact_products():
            kept = self._rows.add(added)
            self._order = torch.cat([self._order, rows])
            among = None
            if kept is not None and not copies:
                among = kept.gather(1, self._order.expand(len(kept), -1)).T
            self._ridge.add(added, targets.repeat(1 + len(copies), 1), among)

    def learn(self) -> tuple[Tensor, Tensor]:
        """Coefficients of all supports, and scores of the rows."""
        with exact_products():
            found = self._ridge.coefficients()
            return found, self._rows.outputs(found)

    def bound_rounding(self, coefficients: Tensor) -> float:
        """By how much scores of exact arithmetic can differ from those computed with these coefficients."""
        with exact_products():
            return self._ridge.bound_rounding(coefficients)

    def margins(self, outputs: Tensor) -> Tensor:
        """By how much the score of the label exceeds the others, for each row."""
        return WRONG.differences(outputs, self._labels, self._classes)

    def wrong(self, outputs: Tensor) -> Tensor:
        """Return a mask of wrong and nearly wrong rows. Another machine might count the latter as wrong."""
        return ~(self.margins(outputs) > room_of(outputs, picks=self._rule.rounds > 0))
