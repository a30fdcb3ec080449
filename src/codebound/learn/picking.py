"""A rule that is carried out, and the kernel that suits its rows best (docs/format.md, 7.7 to 7.9)."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.bits.plain_code import PICKS, TABLES, USUAL_SPLIT
from codebound.bounds.risk import count_of
from codebound.learn.features import RoomError, features_of, prepare, vectors_of
from codebound.learn.kernels import Kernel, most_supports
from codebound.learn.learner import Learned, Learner, RoundCounts, room_of
from codebound.learn.rule import LONGEST, ROUNDS, Rule, families_of, move_while, usual_rule
from codebound.run.device import exact_products
from codebound.run.errors import ModelError, UsageError
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.order import usual_share

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.learn.features import Prepared
    from codebound.sample.order import Arranged

_GAMMAS = {True: (3, 4, 5), False: (4, 5, 6, 7)}  # indices that are tried, by whether inputs are pictures
_RIDGES = {True: (2, 4, 6), False: (2, 4, 6, 8)}
_ROWS = 1000  # that the usual kernel is chosen on
_APART = 1e-9  # relatively, by which the second best is worse; a verifier asks for half of it
_PART = 2400  # rows that learners are compared on
_SUPPORTS = 4000  # at most, where changed copies are learned from too
_LEAST = 12  # rows that learners can be compared on
_NEAR = 1.2  # times the fewest errors: what makes no more is moved too
_CLEARLY = 0.9  # of a sum of squares
_MOVED = 2  # kinds of features whose numbers are moved
_NEXT, _FAR = (-1, 1), (-1, 1, -3, 3)  # steps on the grids of width and ridge


def leave_out(inner: Tensor, ridge: float, targets: Tensor, groups: Tensor) -> Tensor:
    """Targets less what is said by a learner without the group of each support; changes the diagonal."""
    inner.diagonal().add_(ridge)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(inner))
    found, order = inverse @ targets, groups.argsort(stable=True)
    sizes = groups.bincount()
    for size in set(sizes.tolist()):
        rows = order[sizes[groups[order]] == size].view(-1, size)
        blocks = inverse[rows[:, :, None], rows[:, None, :]]
        found[rows] = torch.linalg.solve(blocks, found[rows])
    return found


@torch.no_grad()
def usual_kernel(rule: Rule, arranged: Arranged, first: int, prepared: Prepared) -> tuple[Rule, bool]:
    """The rule with the kernel that suits its known rows best, and whether it is clearly the best one."""
    known = arranged.split(first)[0]
    rows, labels = known[:_ROWS], arranged.sample.y
    own = prepared.vectors[torch.from_numpy(rows)]
    groups, targets = _groups(arranged, rows, np.unique(labels[known]), own.device)
    is_picture, found = rule.features.has_pictures, []
    with exact_products():
        # to the rows as they are, not to their mirror images
        apart = Kernel(rule.gamma, prepared.features.unit, rule.is_mirrored).distances(own, own)[0]
    for gamma, ridge in itertools.product(_GAMMAS[is_picture], _RIDGES[is_picture]):
        tried = replace(rule, gamma_index=gamma, ridge_index=ridge)
        inner = Kernel(tried.gamma, prepared.features.unit).values([apart.clone()])
        errors = leave_out(inner, tried.ridge, targets, groups)
        found.append((float(errors.square().mean()), tried))
    found.sort(key=lambda each: each[0])
    (least, best), (second, _) = found[:2]
    return best, second - least > _APART * least


def _groups(
    arranged: Arranged, rows: NDArray[np.int64], classes: NDArray[np.int64], device: str | torch.device
) -> tuple[Tensor, Tensor]:
    """Groups of rows with equal inputs, from 0; and targets, +1 for the class of a row, -1 for the others."""
    groups = np.unique(arranged.inputs[rows], return_inverse=True)[1].reshape(-1)
    targets = np.where(arranged.sample.y[rows][:, None] == classes, 1.0, -1.0)
    return torch.from_numpy(groups).to(device), torch.from_numpy(targets).to(device)


@torch.no_grad()
def compare_rules(
    arranged: Arranged, first: int, *, device: str | torch.device = "cpu", progress: Progress = silent
) -> tuple[Rule, int, int]:
    """The learner with the fewest errors on known rows that are left out, these errors, and the rows.

    Raises:
        UsageError: There are too few of them, or no learner suits them.
    """
    rows = arranged.split(first)[0][:_PART]
    if len(rows) < _LEAST:
        raise UsageError(f"a kernel is learned from at least {_LEAST} rows. Got {len(rows)}.")
    tried: list[_Trial] = []
    for family in families_of(arranged.sample.input_shape, len(rows)):
        progress(len(tried), None, f"comparing learners on {len(rows)} rows")
        is_small = family.supports_each * len(rows) <= _SUPPORTS
        for rule in dict.fromkeys(
            (replace(family, copies=family.copies if family.is_mirrored else 0), family)
        ):
            if is_small or rule.supports_each == 1:
                with suppress(ModelError, RoomError):
                    tried.append(_Trial(rule, arranged, rows, device))
    if not tried:
        raise UsageError("no kernel suits these inputs. Give scores of a learner of your own.")
    tried.sort(key=_Trial.best)
    fewest = tried[0].best()[0]
    for trial in tried[:_MOVED]:
        if trial.best()[0] <= _NEAR * fewest:
            trial.improve()
    best = min(tried, key=_Trial.best)
    return best.rule, best.best()[0], len(rows)


class _Trial:
    """One kind of features on known rows."""

    def __init__(
        self, rule: Rule, arranged: Arranged, rows: NDArray[np.int64], device: str | torch.device
    ) -> None:
        sample, count = arranged.sample, rule.supports_each
        self.rule, self.labels = rule, torch.from_numpy(sample.y[rows]).to(device)
        features, stored = features_of(rule, sample, rows, device=device), torch.from_numpy(sample.x[rows])
        vectors = torch.cat(
            [vectors_of(features, stored, change=change, device=device) for change in rule.changes()]
        )
        groups, targets = _groups(arranged, rows, np.arange(sample.classes), device)
        self.groups, self.targets = groups.repeat(count), targets.repeat(count, 1)
        self.unit = features.unit
        with exact_products():
            self.apart = Kernel(rule.gamma, self.unit, rule.is_mirrored).distances(vectors, vectors)
        self.found: dict[Rule, tuple[int, float]] = {}
        self._try(rule)

    def best(self) -> tuple[int, float]:
        """Errors and squared deviation at the best width and ridge."""
        return self.found[self.rule]

    def _try(self, rule: Rule) -> tuple[int, float]:
        """Errors on what is left out; and where these are the same, how far outputs are off."""
        if rule not in self.found:
            kernel = Kernel(rule.gamma, self.unit, rule.is_mirrored)
            inner = kernel.values([each.clone() for each in self.apart])
            off = leave_out(inner, rule.ridge, self.targets, self.groups)[: len(self.labels)]
            said = (self.targets[: len(off)] - off).argmax(1)
            self.found[rule] = int((said != self.labels).sum()), float(off.square().sum())
        return self.found[rule]

    def improve(self) -> None:
        """Moves width and ridge as long as errors become fewer, or outputs are clearly less far off.

        For tables, whose scale tells little of the width, farther too and until nothing helps: where one
        error more or less, which is rounding, ends a way, another one leads there.
        """

        def helps(moved: Rule, rule: Rule) -> bool:
            (errors, apart), (fewest, least) = self._try(moved), self.found[rule]
            return errors < fewest or (errors == fewest and apart <= _CLEARLY * least)

        is_table, before = not self.rule.features.has_pictures, None
        while before != self.rule:
            before = self.rule
            moves = itertools.product(("ridge_index", "gamma_index"), _FAR if is_table else _NEXT)
            self.rule = move_while(helps, before, moves)
            if not is_table:
                break


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
    with exact_products():
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
                coefficients = self.learner.ridge.coefficients()
                outputs = self.learner.rows.outputs(coefficients)
                self.states[number] = coefficients, outputs
                if self.is_checked:
                    off = self.learner.ridge.bound_rounding(coefficients)
                    self.rounding = max(self.rounding, off)
                    if not off <= _ROUNDING[self.rule.rounds > 0]:
                        raise RoomError(
                            f"rounding errors may reach {off:.1e} in round {number}: take a larger ridge."
                        )
                margins = self.learner.margins(outputs)
                # wrong, or nearly: another machine might count the latter as wrong
                is_wrong = ~(margins > room_of(outputs, picks=self.rule.rounds > 0))
                errors = int((is_wrong & self.is_open).sum())
                self.rounds.append(RoundCounts(sum(map(len, self.batches)), errors))
                self.states = {each: self.states[each] for each in {self.best(), number}}
                counts = f"{count_of(self.rounds[-1].picks, 'pick')}, {count_of(errors, 'error')}"
                progress(number, self.rule.rounds, counts)
                if number == self.rule.rounds or (patience and self._is_done()):
                    return
                rows = self._next(margins, number)
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

    def _next(self, margin: Tensor, number: int) -> Tensor:
        """The rows with the smallest scores; some more of them where the next one is too close."""
        scores = (margin + (self.rule.score_index + 1) / 8.0).abs_().masked_fill_(~self.is_open, math.inf)
        most = min(self.rule.batch + LONGEST + 1, int(self.is_open.sum()))
        found = scores.topk(most, largest=False)
        for count in range(self.rule.batch, most):
            gap = float(found.values[count] - found.values[count - 1])
            low, high = found.values[count] - _GAP, found.values[count - 1] + _GAP
            near = self.named[((scores >= low) & (scores <= high)).cpu().numpy()]
            if gap > _GAP or (near == near[:1]).all():  # of equal rows it does not matter which go in
                self.gap = min(self.gap, gap) if gap > _GAP else self.gap
                if count > self.rule.batch:
                    self.longer.append((number, count - self.rule.batch))
                return found.indices[:count]
        raise RoomError(f"rows cannot be told apart in round {number}: take another batch size.")
