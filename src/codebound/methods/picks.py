"""Networks learned from few picked examples: which rule suits a sample.

Rules are compared on a part of the sample; the best of them is carried out on all of it. Whatever is compared
is a point of the grid of docs/format.md, 5.5, so that every choice is inside the message.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from codebound.bits.plain_code import PICKS
from codebound.certificate.offers import rule_outcome
from codebound.learn.features import FEATURES, RoomError, prepare
from codebound.learn.kernels import memory_of
from codebound.learn.patch_features import PatchFeatures
from codebound.learn.picking import carry_out
from codebound.learn.rule import (
    BATCHES,
    FIRST,
    LONGEST,
    MOST_NUMBERS,
    NUMBERS,
    ROUNDS,
    Rule,
    RuleChoice,
    families_of,
    move_while,
    usual_rule,
)
from codebound.methods.search import UnsuitedError
from codebound.methods.split import require_own
from codebound.run.errors import ModelError, UsageError
from codebound.run.progress import finish_block
from codebound.sample.counting import Term
from codebound.sample.order import Arranged, Design, arrange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codebound.learn.features import Prepared
    from codebound.learn.learner import Learned
    from codebound.methods.search import Search

_PART = {"quick": 1000, "standard": 3000, "max": 8000}  # examples that rules are compared on
_PASSES = {"quick": 0, "standard": 1, "max": 2}  # over the numbers of a rule
_FAMILIES = {"quick": 1, "standard": 2, "max": 4}  # of features whose numbers are tried
_NEAR = 1.2  # times the best bound: what promises no more is not worth a second look
_CLOSE = 1.12  # times the best bound: a larger share that promises no less is left out
_WORTH = 0.97  # times the bound without weights: what promises no less is not carried out
_STRENGTHS = {"quick": (), "standard": (2, 1, 3), "max": (2, 1, 3)}  # of weights that are computed
_NEXT = (-1, 1)  # steps on the grids of numbers
_FIRST_SHARE = 12  # one example in so many comes first
_LEAST_SHARE, _MOST_SHARE = 4, 60  # the same for tables, where shares are compared
_TYPICAL_ROUNDS, _ROUNDS_OF_MANY = 16, 12  # each reads the whole kernel
_MANY = 20_000  # examples
_MANY_LABELS = 1000  # times those that occur
_MOST_ROUNDS = 54
_PART_ROUNDS = 30
_GROWTH = 0.65  # the picks grow with the sample like this power of its size
_MEMORY = 6.5e9  # bytes of vectors, kernel and Cholesky factor
_SEEDS = 4
_FACTORS = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5)  # of a batch, that are tried for a table
_SPLITS = (0.2, 0.35, 0.5, 0.65)  # larger shares that may come first
_SPLIT_VALUES = {"quick": 2e7, "standard": 6e7, "max": 4e8}  # of the kernel of all with the first ones


@dataclass(frozen=True, slots=True)
class _Plan:
    """A rule, and how many examples come first."""

    rule: Rule
    first: int


def propose_picks(search: Search) -> None:
    """Compares rules on a part of the sample, and carries out the best one on all of it."""
    require_own(search)
    whole = search.task.arranged
    if whole.clusters is not None:
        raise UnsuitedError("of clusters one row counts, and picks count all rows.")
    if whole.sample.y.max() > _MANY_LABELS * len(set(whole.sample.y.tolist())):
        raise UnsuitedError(
            "most labels never occur. numpy.unique(labels, return_inverse=True)[1] renumbers."
        )
    n, most = whole.sample.n, max(_PART[search.effort], 2 * search.task.made_of)
    is_part = n > most or len(whole.sample.input_shape) > 1
    part = whole
    if is_part:
        chosen = whole.sample.select(whole.places[:most], role="certify")
        part = arrange(chosen, Design(order="file", copies=whole.design.copies))
    least = 1.0
    for found in _Comparison(part, search).best():
        done = [_scale_up(found, part.sample.n, search)]
        least = min(least, _offer(done[0], search))
        for first in _larger_shares(found, search):
            if first <= done[-1].first or _extrapolate_bound(first, done, search) >= _CLOSE * least:
                continue
            with suppress(UnsuitedError):  # the rules until then are kept
                done.append(_scale_up(found, part.sample.n, search, first))
                least = min(least, _offer(done[-1], search))


def _offer(learned: Learned, search: Search) -> float:
    """Hands over what was picked, and says its bound."""
    with finish_block():
        assessed = search.offer(rule_outcome(learned, search.task.arranged))
    _go_on_after(learned, search)
    return assessed.bound


def _go_on_after(learned: Learned, search: Search) -> None:
    """Ends the search where somebody interrupted the picking, which kept its rounds until then."""
    if learned.is_interrupted:
        search.require_time(is_kept=True)
        raise KeyboardInterrupt


def _extrapolate_bound(first: int, done: Sequence[Learned], search: Search) -> float:
    """Extrapolate the bound to a larger first share by a power law."""
    if len(done) == 1:
        return 0.0
    before, last = done[-2:]
    fall = math.log((last.last.counted + 0.5) / (before.last.counted + 0.5))
    power = min(0.0, fall / math.log(last.first / before.first))
    counted = (last.last.counted + 0.5) * (first / last.first) ** power
    return _bound(int(counted), search.task.sample.n - first, _Plan(last.rule, first), search)


def _bound(counted: int, n: int, plan: _Plan, search: Search) -> float:
    """The bound for so many counted examples among n, with the message of a rule."""
    sample = search.task.sample
    choice = RuleChoice.of(PICKS, plan.rule, first=plan.first, units=sample.n, classes=sample.classes)
    bits = choice.encode(sample.input_shape)[0].length
    return Term("picked", counted, n, bits).limit(search.task.delta)


def _larger_shares(found: Learned, search: Search) -> list[int]:
    """Numbers of examples that may come first beside the usual one, where they are affordable.

    What comes first is not counted, so a large share is nearly a hold-out set, and every pick that removes
    more than one error improves on it.
    """
    n = search.task.sample.n
    most = _SPLIT_VALUES[search.effort] / (n * found.rule.supports_each)
    wanted = _SPLITS[1:2] if search.effort == "quick" else _SPLITS
    shares = {max((each for each in FIRST if each <= share * n), default=0) for share in wanted}
    least = max(n / _FIRST_SHARE, search.task.made_of)
    return sorted(each for each in shares if least < each <= most)


class _Comparison:
    """Rules and what they came to on a part of the sample; features are computed once."""

    def __init__(self, part: Arranged, search: Search) -> None:
        self.part, self.search = part, search
        self.prepared: dict[_Plan, Prepared] = {}
        self.found: dict[_Plan, Learned] = {}

    def best(self) -> list[Learned]:
        """The best rule; and where that is quick, the one to start from as well, which has fewer bits."""
        families = [plan for plan in self._start() if self._try(plan) is not None]
        if not families:
            raise UnsuitedError("no rule suits these inputs.")
        ranked = self._rank(families)
        enough = _NEAR * self._extrapolate(self.found[ranked[0]])
        for plan in ranked[: _FAMILIES[self.search.effort]]:
            if self._extrapolate(self.found[plan]) >= enough:
                break
            for _ in range(_PASSES[self.search.effort]):
                plan = self._improve(plan)
        best = self._rank(self.found)[0]
        if not best.rule.features.has_pictures:  # a table is small enough to try
            for plan in dict.fromkeys((best, families[0])):
                self._resize(plan)
            best = self._rank(self.found)[0]
            weighted = self._weigh_features(best)
            return [self.found[best]] if weighted is None else [weighted, self.found[best]]
        is_whole = self.part.sample.n == self.search.task.sample.n
        first = families[0]
        return [self.found[each] for each in dict.fromkeys((best, first) if is_whole else (best,))]

    def _start(self) -> list[_Plan]:
        """Rules to start from, with batches that suit the part."""
        n = self.part.sample.n
        first, batch = _first(n / _FIRST_SHARE, n, self.search.task.made_of), _nearest(BATCHES, n / 100)
        rounds = _rounds(n, first, batch, most=_PART_ROUNDS)
        usual = usual_rule(self.part.sample.input_shape, first)
        rules = dict.fromkeys((usual, *families_of(self.part.sample.input_shape, first)))
        return [_Plan(replace(rule, batch=batch, rounds=rounds), first) for rule in rules]

    def _weigh_features(self, plain: _Plan) -> Learned | None:
        """The best rule with computed weights, if it promises more than the best one without."""
        usual = usual_rule(self.part.sample.input_shape, plain.first)
        numbers: dict[str, Any] = {name: getattr(usual, name) for name in NUMBERS}
        for strength in _STRENGTHS[self.search.effort]:
            for rule in dict.fromkeys((plain.rule, replace(plain.rule, **numbers))):
                self._try(_Plan(replace(rule, weights=strength, longer=()), plain.first))
        best = self._rank(self.found)[0]
        if self._extrapolate(self.found[best]) >= _WORTH * self._extrapolate(self.found[plain]):
            return None
        self._resize(best)
        return self.found[self._rank(self.found)[0]]

    def _resize(self, plan: _Plan) -> None:
        """Tries how many examples come first and how many a round picks."""
        low, high = self.part.sample.n / _MOST_SHARE, self.part.sample.n / _LEAST_SHARE
        low = max(low, self.search.task.made_of)
        firsts = [self._of_size(plan, first, plan.rule.batch) for first in FIRST if low <= first <= high]
        for best in self._rank([each for each in firsts if self._try(each) is not None])[:2]:
            for batch in sorted({_nearest(BATCHES, plan.rule.batch * factor) for factor in _FACTORS}):
                self._try(self._of_size(plan, best.first, batch))

    def _of_size(self, plan: _Plan, first: int, batch: int) -> _Plan:
        rounds = _rounds(self.part.sample.n, first, batch, most=_MOST_ROUNDS)
        return _Plan(replace(plan.rule, batch=batch, rounds=rounds, longer=()), first)

    def _improve(self, plan: _Plan) -> _Plan:
        """The rule with each of its numbers moved while that helps."""

        def helps(moved: Rule, rule: Rule) -> bool:
            found = self._try(_Plan(moved, plan.first))
            before = self.found[_Plan(rule, plan.first)]
            return found is not None and self._extrapolate(found) < self._extrapolate(before)

        return _Plan(move_while(helps, plan.rule, itertools.product(NUMBERS, _NEXT)), plan.first)

    def _prepare(self, plan: _Plan) -> Prepared:
        """The features of a rule, which others share that differ in the learner alone."""
        plain = Rule(plan.rule.features, plan.rule.weights, plan.rule.copies)
        known = _Plan(plain, plan.first)
        if known not in self.prepared:
            self.prepared[known] = prepare(plain, self.part, plan.first, device=self.search.device)
        return self.prepared[known]

    def _try(self, plan: _Plan) -> Learned | None:
        search = self.search
        search.progress(
            len(self.found), None, f"comparing rules on {self.part.sample.n} examples {search.note}"
        )
        if plan not in self.found:
            try:
                learned = carry_out(
                    plan.rule,
                    self.part,
                    form=PICKS,
                    first=plan.first,
                    prepared=self._prepare(plan),
                    is_checked=False,
                    patience=True,
                    device=search.device,
                )
            except (ModelError, RoomError, UsageError):
                return None
            _go_on_after(learned, search)
            self.found[plan] = learned
        return self.found[plan]

    def _rank(self, plans: Iterable[_Plan]) -> list[_Plan]:
        return sorted(plans, key=lambda plan: self._extrapolate(self.found[plan]))

    def _extrapolate(self, learned: Learned) -> float:
        """Extrapolate the bound of a rule to the whole sample. It serves to choose, and is no bound."""
        n, whole = self.part.sample.n, self.search.task.sample.n
        rest = whole - int(learned.first / n * whole)
        counted = min(rest, learned.last.counted * (whole / n) ** _GROWTH)
        return _bound(int(counted), rest, _Plan(learned.rule, learned.first), self.search)


def _first(wanted: float, room: float, least: int) -> int:
    """Largest number of first examples that is wanted and fits. If none is, the smallest that may be."""
    allowed = [count for count in FIRST if count >= least] or [FIRST[-1]]
    return max((count for count in allowed if count <= min(wanted, room)), default=allowed[0])


def _rounds(n: int, first: int, batch: int, *, most: float) -> int:
    """Rounds that a sample has examples for, all of them longer than planned."""
    return max(
        (each for each in ROUNDS if each <= max(1.0, most) and first + each * (batch + LONGEST) < n),
        default=1,
    )


def _room(n: int, dimension: int, rule: Rule) -> float:
    """Most examples that fit into memory as supports."""
    low, high = 1, n
    while low < high:
        middle = (low + high + 1) // 2
        s = middle * rule.supports_each
        needed = memory_of(n, dimension, s, is_joined=rule.is_mirrored, keeps_rows=True)
        low, high = (middle, high) if needed <= _MEMORY and (n + s) * s <= MOST_NUMBERS else (low, middle - 1)
    return low


def _nearest(values: tuple[int, ...], wanted: float) -> int:
    return min(values, key=lambda value: abs(value - wanted))


def _scale_up(found: Learned, part: int, search: Search, given: int | None = None) -> Learned:
    """The rule on the whole sample, with batches for its size, and first examples unless they are given."""
    arranged, rule = search.task.arranged, found.rule
    n = arranged.sample.n
    picks = found.last.picks * (n / part) ** _GROWTH
    room = _room(n, found.features.dimension, rule)
    share = 1.0 / _FIRST_SHARE if rule.features.has_pictures else found.first / part
    first = given or _first(n * share, max(room / 4.0, room - picks), search.task.made_of)
    rounds = _TYPICAL_ROUNDS if n <= _MANY else _ROUNDS_OF_MANY
    batch = _nearest(BATCHES, max(1.0, picks / rounds))
    if given is None and part == n and not rule.features.has_pictures:
        first, batch = found.first, rule.batch
    rounds = _rounds(n, first, batch, most=min(_MOST_ROUNDS, (room - first) / batch))
    rule = replace(rule, batch=batch, rounds=rounds, longer=())

    def report(done: int, total: int | None, note: str = "") -> None:
        search.progress(done, total, note)
        search.require_time(is_kept=note != FEATURES)  # the rounds until then are kept

    reason: Exception | None = None
    for seed in range(_SEEDS):
        if isinstance(rule.features, PatchFeatures):
            rule = replace(rule, features=replace(rule.features, seed=seed))
        elif seed:
            break
        try:
            prepared = prepare(
                rule,
                arranged,
                first,
                device=search.device,
                progress=report,
            )
            return carry_out(
                rule,
                arranged,
                form=PICKS,
                first=first,
                prepared=prepared,
                patience=True,
                device=search.device,
                progress=report,
            )
        except RoomError as error:
            reason = error
        except (ModelError, UsageError) as error:
            raise UnsuitedError(str(error)) from error
    raise UnsuitedError(f"no rule picks the same examples on every machine: {reason}")
