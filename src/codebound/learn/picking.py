"""A rule that is carried out: it learns, and picks where it has rounds (docs/format.md, 7.8 and 7.9)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.bits.forms import PICKS, TABLES, USUAL_SPLIT
from codebound.bounds.risk import count_of
from codebound.learn.features import RoomError
from codebound.learn.learner import Learned, Learner, RoundCounts
from codebound.learn.leaving_out import usual_kernel
from codebound.learn.prepared import prepare
from codebound.learn.ridge import most_supports
from codebound.learn.rule import LONGEST, ROUNDS, Rule, usual_rule
from codebound.run.errors import UsageError
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.order import usual_share

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.learn.prepared import Prepared
    from codebound.sample.order import Arranged

_GAP = 1e-6  # a verifier asks for half of it
_ROUNDING = {True: 0.6e-7, False: 0.6e-6}  # by whether the rule picks; a verifier allows 1e-7 and 1e-6
_PATIENCE = 8


def usual_split(
    arranged: Arranged, *, device: str | torch.device = "cpu", progress: Progress = silent
) -> Learned | None:
    """The usual learner of the usual share, or None where two kernels suit it equally well."""
    first = usual_share(arranged.units, is_rule=True)
    rule = usual_rule(arranged.sample.input_shape, arranged.cut(first))
    _check_work(rule, arranged, first)
    prepared = prepare(rule, arranged, first, device=device, progress=progress)
    rule, is_clear = usual_kernel(rule, arranged, first, prepared)
    if not is_clear:
        return None
    return carry_out(rule, arranged, form=USUAL_SPLIT, first=first, prepared=prepared, progress=progress)


@implements("C-15:rule", kind="algorithm")
@torch.no_grad()
def carry_out(
    rule: Rule,
    arranged: Arranged,
    *,
    form: str,
    first: int,
    prepared: Prepared | None = None,
    is_checked: bool = True,
    patience: bool = False,
    device: str | torch.device = "cpu",
    progress: Progress = silent,
) -> Learned:
    """Carries out a rule on a sample.

    Args:
        rule: The rule; rounds that do not separate what is picked from the rest become longer.
        arranged: All rows, with their order.
        form: Of the message that will name it. That of a table names none: it learns in float32 from as many
            of the known rows as there is memory for, and its scores are declared.
        first: The known share, in rows or clusters.
        prepared: What ``prepare`` found, where it is known already.
        is_checked: Whether rounding errors are bounded, as a certificate needs it; a search does not.
        patience: Whether to stop when the count has not fallen for some rounds, or no longer can, and to
            take the best round of those whose number has a code.
        device: Where it is computed; the result is the same everywhere.
        progress: Told the rounds done.

    Raises:
        RoomError: Two machines might pick or count differently.
        ModelError: The rule does not suit the inputs, or is too much work.
    """
    sample, (known, counted) = arranged.sample, arranged.split(first)
    is_table = form in TABLES
    classes = np.arange(sample.classes if is_table else int(sample.y.max()) + 1)
    if form not in (PICKS, *TABLES):
        classes = np.unique(sample.y[known])
    if len(classes) < 2 or len(known) + rule.picks >= sample.n or (rule.rounds > 0) != (form == PICKS):
        raise UsageError(
            f"a rule learns from rows of two classes or more, and leaves some. Got {len(known)} known rows "
            f"with {len(classes)} of them, and {rule.picks} picks, of {sample.n}, for {form}."
        )
    if not is_table:
        _check_work(rule, arranged, first, classes=len(classes))
    prepared = prepared or prepare(rule, arranged, first, device=device, progress=progress)
    if is_table:
        known = known[: most_supports(prepared.features.dimension) // rule.supports_each]
    else:
        _check_work(rule, arranged, first, classes=len(classes), dimension=prepared.features.dimension)
    learner = Learner(
        rule,
        sample,
        prepared,
        classes=classes,
        capacity=len(known) + rule.rounds * (rule.batch + LONGEST),
        wanted=None if rule.rounds else counted,
        dtype=torch.float32 if is_table else torch.float64,
        progress=silent if rule.rounds else progress,
    )
    run = _Run(rule, arranged, learner, counted, is_checked=is_checked and not is_table)
    run.go(torch.from_numpy(known).to(learner.device), progress, patience=patience)
    end = run.best() if patience or run.is_interrupted else rule.rounds
    coefficients, outputs = run.states[end]
    return Learned(
        form=form,
        first=first,
        rule=replace(rule, rounds=end, longer=tuple(each for each in run.longer if each[0] < end)),
        classes=classes,
        features=prepared.features,
        known=known,
        picks=np.concatenate([np.zeros(0, np.int64), *(each.cpu().numpy() for each in run.batches[:end])]),
        coefficients=coefficients.cpu(),
        outputs=outputs.cpu(),
        rounds=tuple(run.rounds[: end + 1]),
        gap=run.gap,
        rounding=run.rounding,
        is_interrupted=run.is_interrupted,
    )


def _check_work(
    rule: Rule, arranged: Arranged, first: int, *, classes: int = 2, dimension: int | None = None
) -> None:
    """Refuse too much work, as far as it is known; of pictures that is before anything is computed."""
    shape = arranged.sample.input_shape
    rule.features.check(shape)
    if dimension is None and rule.features.has_pictures:
        dimension = rule.features.dimension(shape, {})
    learned = arranged.cut(first) + rule.picks
    rule.check(shape, n=arranged.sample.n, learned=learned, classes=classes, dimension=dimension or 1)


class _Run:
    """A rule while it is carried out."""

    def __init__(
        self,
        rule: Rule,
        arranged: Arranged,
        learner: Learner,
        counted: NDArray[np.int64],
        *,
        is_checked: bool,
    ) -> None:
        self.rule, self.learner, self.is_checked = rule, learner, is_checked
        groups = arranged.design.groups
        named = [arranged.inputs, arranged.sample.y, *([] if groups is None else [groups])]
        self.named = np.stack(named, axis=1)
        self.is_open = torch.zeros(arranged.sample.n, dtype=torch.bool, device=learner.device)
        self.is_open[torch.from_numpy(counted)] = True
        self.batches: list[Tensor] = []
        self.rounds: list[RoundCounts] = []
        self.states: dict[int, tuple[Tensor, Tensor]] = {}  # what was learned at the best round and the last
        self.longer: list[tuple[int, int]] = []
        self.gap, self.rounding, self.is_interrupted = math.inf, 0.0, False

    def go(self, rows: Tensor, progress: Progress, *, patience: bool) -> None:
        """Learns from the first rows, and from everything that the rule picks."""
        try:
            for number in range(self.rule.rounds + 1):
                self.learner.add(rows)
                outputs = self._learn(number)
                errors = int((self.learner.wrong(outputs) & self.is_open).sum())
                self.rounds.append(RoundCounts(sum(map(len, self.batches)), errors))
                self.states = {each: self.states[each] for each in {self.best(), number}}
                counts = f"{count_of(self.rounds[-1].picks, 'pick')}, {count_of(errors, 'error')}"
                progress(number, self.rule.rounds, counts)
                if number == self.rule.rounds or (patience and self._is_done()):
                    return
                rows = self._next(self.learner.margins(outputs), number)
                self.is_open[rows] = False
                self.batches.append(rows)
        except RoomError:
            if not patience or len(self.rounds) < 2:  # the rounds until then are sound
                raise
        except KeyboardInterrupt:
            if len(self.rounds) < 2:
                raise
            self.is_interrupted = True

    def best(self) -> int:
        """The number of rounds, of those with a code, after which least was counted; 0 before the first."""
        coded = [each for each in ROUNDS if each < len(self.rounds)]
        return min(coded, key=lambda each: self.rounds[each].counted, default=0)

    def _is_done(self) -> bool:
        """Return True if further rounds are unlikely to help.

        The count has not fallen for long, or the next picks alone are as many as its least.
        """
        counted = [each.counted for each in self.rounds]
        next_picks = self.rounds[-1].picks + self.rule.batch
        is_stale = len(counted) - 1 - counted.index(min(counted)) >= _PATIENCE
        return len(counted) > 1 and (is_stale or next_picks >= counted[self.best()])

    def _learn(self, number: int) -> Tensor:
        coefficients, outputs = self.states[number] = self.learner.learn()
        if self.is_checked:
            found = self.learner.bound_rounding(coefficients)
            self.rounding = max(self.rounding, found)
            if not found <= _ROUNDING[self.rule.rounds > 0]:
                raise RoomError(
                    f"rounding errors may reach {found:.1e} in round {number}: take a larger ridge."
                )
        return outputs

    def _next(self, margin: Tensor, number: int) -> Tensor:
        """The rows with the smallest scores; some more of them where the next one is too close."""
        scores = (margin - self.rule.wanted_margin).abs_().masked_fill_(~self.is_open, math.inf)
        most = min(self.rule.batch + LONGEST + 1, int(self.is_open.sum()))
        found = scores.topk(most, largest=False)
        for count in range(self.rule.batch, most):
            gap = float(found.values[count] - found.values[count - 1])
            if gap > _GAP or self._are_equal(scores, found.values, count):
                self.gap = min(self.gap, gap) if gap > _GAP else self.gap
                if count > self.rule.batch:
                    self.longer.append((number, count - self.rule.batch))
                return found.indices[:count]
        raise RoomError(f"rows cannot be told apart in round {number}: take another batch size.")

    def _are_equal(self, scores: Tensor, rising: Tensor, count: int) -> bool:
        """Return True if all rows around the border are equal, so that it does not matter which go in."""
        low, high = rising[count] - _GAP, rising[count - 1] + _GAP
        near = self.named[((scores >= low) & (scores <= high)).cpu().numpy()]
        return bool((near == near[:1]).all())
