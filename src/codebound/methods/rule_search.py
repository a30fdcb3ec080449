"""Networks learned from few picked examples: which rule suits a sample.

Rules are compared on a part of the sample; the best of them is carried out on all of it. Whatever is compared
is a point of the grid of docs/format.md, 10.1, so that every choice is inside the message.
"""

from __future__ import annotations

import itertools
import math
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from codebound.certificate.assessment import assess_picked
from codebound.certificate.statement import Term
from codebound.learn.feature_weights import LayerFeatures
from codebound.learn.features import ColumnFeatures, PatchFeatures, RoomError
from codebound.learn.picking import FEATURES, features_of, permutation, pick
from codebound.learn.ridge import KEPT
from codebound.learn.rule import BATCHES, FIRST, ROUNDS, PickedMessage, Rule, usual_rule
from codebound.methods.search import UnsuitedError
from codebound.run.errors import ModelError
from codebound.run.interrupts import finish_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torch import Tensor

    from codebound.certificate.task import Task
    from codebound.learn.features import FeatureMap
    from codebound.learn.picking import Picked
    from codebound.learn.spread import Spread
    from codebound.methods.search import Search
    from codebound.sample.dataset import Dataset

_PART = {"quick": 1000, "standard": 3000, "max": 8000}  # examples that rules are compared on
_PASSES = {"quick": 0, "standard": 1, "max": 2}  # over the numbers of a rule
_FAMILIES = {"quick": 1, "standard": 2, "max": 4}  # of features whose numbers are tried
_NEAR = 1.2  # times the best bound: what promises no more is not worth a second look
_CLOSE = 1.12  # times the best bound: a larger share that promises no less is left out
_WORTH = 0.97  # times the bound without weights: what promises no less is not carried out
_STRENGTHS = {"quick": (), "standard": (2, 1, 3), "max": (2, 1, 3)}  # of weights that are computed
_LIMITS = {"ridge_index": 16, "gamma_index": 16, "score_index": 8}
_NEXT = (-1, 1)  # steps on the grids of these numbers
_FIRST_SHARE = 12  # one example in so many comes first
_LEAST_SHARE, _MOST_SHARE = 4, 60  # the same for tables, where shares are compared
_LEAST = 12  # examples that a rule can be tried on
_TYPICAL_ROUNDS, _ROUNDS_OF_MANY = 16, 12  # each reads the whole kernel
_MANY = 20_000  # examples
_MOST_ROUNDS = 54
_PART_ROUNDS = 30
_GROWTH = 0.65  # the picks grow with the sample like this power of its size
MEMORY = 6.5e9
"""Bytes of vectors, kernel and Cholesky factor."""
_SEEDS = 4
_FACTORS = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5)  # of a batch, that are tried for a table
_SPLITS = (0.2, 0.35, 0.5, 0.65)  # larger shares that may come first
_SPLIT_VALUES = {"quick": 2e7, "standard": 6e7, "max": 4e8}  # of the kernel of all with the first ones


def propose_picks(search: Search) -> None:
    """Compares rules on a part of the sample, and carries out the best one on all of it."""
    task, sample = search.task, search.task.sample
    if not task.claim.allows_picks or task.base is not None:
        raise UnsuitedError(
            "picks make a network of their own, learned from the sample and counted on all of it. Certify it "
            "alone; codebound through bounds f by it and by how often the two differ."
        )
    if sample.n < _LEAST:
        raise UnsuitedError(f"picks need at least {_LEAST} examples. Got {sample.n}.")
    part = sample
    if sample.n > _PART[search.effort] or len(sample.input_shape) > 1:
        part = sample.select(permutation(sample.n)[: _PART[search.effort]], role="certify")
    least = 1.0
    for found in _Comparison(part, search).best():
        done = [_scale_up(found, part.n, search)]
        least = min(least, _offer(done[0], search))
        for first in _larger_shares(found, search):
            if first <= done[-1].rule.first or _extrapolate_bound(first, done, search) >= _CLOSE * least:
                continue
            with suppress(UnsuitedError):  # the rules until then are kept
                done.append(_scale_up(found, part.n, search, first))
                least = min(least, _offer(done[-1], search))


def _offer(picked: Picked, search: Search) -> float:
    """Hands over what was picked, and says its bound."""
    with finish_block():
        assessed = assess_picked(picked, search.task)
        search.offer(assessed)
    go_on_after(picked, search)
    return assessed.rank[0]


def go_on_after(picked: Picked, search: Search) -> None:
    """Ends the search where somebody interrupted the picking, which kept its rounds until then."""
    if picked.is_interrupted:
        search.require_time(is_kept=True)
        raise KeyboardInterrupt


def _extrapolate_bound(first: int, done: Sequence[Picked], search: Search) -> float:
    """Extrapolate the bound to a larger first share by a power law."""
    if len(done) == 1:
        return 0.0
    before, last = done[-2:]
    fall = math.log((last.last.counted + 0.5) / (before.last.counted + 0.5))
    power = min(0.0, fall / math.log(last.rule.first / before.rule.first))
    counted = (last.last.counted + 0.5) * (first / last.rule.first) ** power
    return _bound(int(counted), search.task.sample.n - first, last.rule, search.task)


def _bound(counted: int, n: int, rule: Rule, task: Task) -> float:
    """The bound for so many counted examples among n, with the message of a rule."""
    bits = PickedMessage(task.options, rule, task.sample.input_shape).encode()[0].length
    return Term("picked", counted, n, bits).limit(task.delta)


def _larger_shares(found: Picked, search: Search) -> list[int]:
    """Numbers of examples that may come first beside the usual one, where they are affordable.

    What comes first is not counted, so a large share is a split: with nothing picked the bound is nearly that
    of a hold-out set, and every pick that removes more than one error improves on it.
    """
    n = search.task.sample.n
    most = _SPLIT_VALUES[search.effort] / (n * found.rule.supports_each)
    wanted = _SPLITS[1:2] if search.effort == "quick" else _SPLITS
    shares = {max((each for each in FIRST if each <= share * n), default=0) for share in wanted}
    return sorted(each for each in shares if n / _FIRST_SHARE < each <= most)


class _Comparison:
    """Rules and what they came to on a part of the sample; features are computed once."""

    def __init__(self, part: Dataset, search: Search) -> None:
        self.part, self.search = part, search
        self.known: dict[Rule, tuple[FeatureMap, Tensor]] = {}
        self.found: dict[Rule, Picked] = {}

    def best(self) -> list[Picked]:
        """The best rule; and where that is quick, the one to start from as well, which has fewer bits."""
        families = [rule for rule in families_of(self.part) if self._try(rule) is not None]
        if not families:
            raise UnsuitedError("no rule suits these inputs.")
        ranked = self._rank(families)
        enough = _NEAR * self._extrapolate(self.found[ranked[0]])
        for rule in ranked[: _FAMILIES[self.search.effort]]:
            if self._extrapolate(self.found[rule]) >= enough:
                break
            for _ in range(_PASSES[self.search.effort]):
                rule = self._improve(rule)
        best = min(self.found.values(), key=self._extrapolate)
        if not best.rule.features.plain.has_pictures:  # a table is small enough to try
            for rule in dict.fromkeys((best.rule, families[0])):
                self._resize(rule)
            best = min(self.found.values(), key=self._extrapolate)
            weighted = self._weigh_features(self._rank(self.found)[0])
            return [best] if weighted is None else [weighted, best]
        first = self.found[families[0]]
        return [best, first] if first is not best and self.part.n == self.search.task.sample.n else [best]

    def _weigh_features(self, plain: Rule) -> Picked | None:
        """The best rule with a layer of computed weights, if it promises more than the best one without."""
        usual = usual_rule(self.part.input_shape)
        numbers = {name: getattr(usual, name) for name in _LIMITS}
        for strength in _STRENGTHS[self.search.effort]:
            features = LayerFeatures(plain.features.plain, (), strength=strength)
            for rule in dict.fromkeys((plain, replace(plain, **numbers))):
                self._try(replace(rule, features=features, longer=()))
        best = self._rank(self.found)[0]
        if self._extrapolate(self.found[best]) >= _WORTH * self._extrapolate(self.found[plain]):
            return None
        self._resize(best)
        return min(self.found.values(), key=self._extrapolate)

    def _resize(self, rule: Rule) -> None:
        """Tries how many examples come first and how many a round picks."""
        low, high = self.part.n / _MOST_SHARE, self.part.n / _LEAST_SHARE
        firsts = [self._of_size(rule, first, rule.batch) for first in FIRST if low <= first <= high]
        for best in self._rank([each for each in firsts if self._try(each) is not None])[:2]:
            for batch in sorted({_nearest(BATCHES, rule.batch * factor) for factor in _FACTORS}):
                self._try(self._of_size(rule, best.first, batch))

    def _of_size(self, rule: Rule, first: int, batch: int) -> Rule:
        rounds = _rounds(self.part.n, first, batch, most=_MOST_ROUNDS)
        return replace(rule, first=first, batch=batch, rounds=rounds, longer=())

    def _improve(self, rule: Rule) -> Rule:
        """The rule with each of its numbers moved while that helps."""

        def helps(moved: Rule, rule: Rule) -> bool:
            found = self._try(moved)
            return found is not None and self._extrapolate(found) < self._extrapolate(self.found[rule])

        return move_while(helps, rule, itertools.product(_LIMITS, _NEXT))

    def _features(self, rule: Rule) -> tuple[FeatureMap, Tensor]:
        """The features of a rule, which others share that differ in the learner alone."""
        known = replace(rule, gamma_index=0, ridge_index=0, score_index=0)
        if known not in self.known:
            self.known[known] = features_of(rule, self.part, device=self.search.device)
        return self.known[known]

    def _try(self, rule: Rule) -> Picked | None:
        search = self.search
        search.progress(len(self.found), None, f"comparing rules on {self.part.n} examples {search.note}")
        if rule not in self.found:
            try:
                picked = pick(
                    rule,
                    self.part,
                    device=search.device,
                    is_checked=False,
                    patience=True,
                    features=self._features(rule),
                )
            except (ModelError, RoomError):
                return None
            go_on_after(picked, search)
            self.found[rule] = picked.best()
        return self.found[rule]

    def _rank(self, rules: Iterable[Rule]) -> list[Rule]:
        return sorted(rules, key=lambda rule: self._extrapolate(self.found[rule]))

    def _extrapolate(self, picked: Picked) -> float:
        """Extrapolate the bound of a rule to the whole sample. It serves to choose, and is no bound."""
        task = self.search.task
        share = picked.rule.first / self.part.n
        n = task.sample.n - int(share * task.sample.n)
        counted = min(n, picked.last.counted * (task.sample.n / self.part.n) ** _GROWTH)
        return _bound(int(counted), n, picked.rule, task)


def move_while(helps: Callable[[Rule, Rule], bool], rule: Rule, moves: Iterable[tuple[str, int]]) -> Rule:
    """A rule with its numbers moved by steps, each as far as one step after the other helps."""
    for name, step in moves:
        while 0 <= getattr(rule, name) + step < _LIMITS[name]:
            moved = replace(rule, **{name: getattr(rule, name) + step})
            if not helps(moved, rule):
                break
            rule = moved
    return rule


def families_of(part: Dataset) -> Iterator[Rule]:
    """A rule to start from for each kind of features that the inputs may have."""
    shape = part.input_shape
    first, batch = _first(part.n / _FIRST_SHARE, part.n), _nearest(BATCHES, part.n / 100)
    sized = Rule(first=first, batch=batch, rounds=_rounds(part.n, first, batch, most=_PART_ROUNDS))
    usual = replace(usual_rule(shape), first=sized.first, batch=sized.batch, rounds=sized.rounds)
    yield usual
    if not usual.features.has_pictures:
        yield replace(usual, features=ColumnFeatures(True))
        return
    side = min(shape[1:])
    size, grid = (3, 3) if side < 16 else (5, 4) if side < 30 else (6, 3)
    patches = PatchFeatures(size, 256 * min(2, shape[0]), 4, grid, 3 * min(2, shape[0]))
    for copies in (1, 0):
        yield replace(sized, features=patches, copies=copies, gamma_index=5, ridge_index=6)


def _first(wanted: float, room: float) -> int:
    """Largest number of first examples that is wanted and fits. If none is, the smallest."""
    return max((count for count in FIRST if count <= min(wanted, room)), default=FIRST[0])


def _rounds(n: int, first: int, batch: int, *, most: float) -> int:
    """Rounds that a sample has examples for, all of them longer than planned."""
    return max(each for each in ROUNDS if each <= max(0.0, most) and first + each * (batch + 8) < n)


def _room(n: int, dimension: int, copies: int) -> float:
    """Most picks that fit into memory. S supports take 2 n D + 8 n S bytes, and some S x S matrices."""
    matrices = _matrices(copies)
    left = max(0.0, MEMORY - 2.0 * n * dimension)
    return (math.sqrt(16.0 * n * n + matrices * left) - 4.0 * n) / matrices / copies


def memory_of(n: int, dimension: int, supports: int, *, copies: int, is_joined: bool) -> float:
    """Bytes that supports of one batch take; a large kernel is kept in half, unless images are joined."""
    kernel = 8.0 * n * supports
    kernel /= 2.0 if kernel > KEPT and not is_joined else 1.0
    return 2.0 * n * dimension + kernel + _matrices(copies) * supports**2


def _matrices(copies: int) -> float:
    """Bytes for each pair of supports, measured.

    Supports that are no examples have a kernel of their own, which a verifier keeps beside the factor.
    """
    return 12.0 if copies == 1 else 30.0


def _nearest(values: tuple[int, ...], wanted: float) -> int:
    return min(values, key=lambda value: abs(value - wanted))


def _scale_up(found: Picked, part: int, search: Search, given: int | None = None) -> Picked:
    """The rule on the whole sample, with batches for its size, and first examples unless they are given."""
    sample, rule = search.task.sample, found.rule
    picks = found.last.picks * (sample.n / part) ** _GROWTH
    room = _room(sample.n, found.dimension, rule.supports_each)
    share = 1.0 / _FIRST_SHARE if rule.features.plain.has_pictures else rule.first / part
    first = given or _first(sample.n * share, max(room / 4.0, room - picks))
    rounds = _TYPICAL_ROUNDS if sample.n <= _MANY else _ROUNDS_OF_MANY
    batch = _nearest(BATCHES, max(1.0, picks / rounds))
    if given is None and part == sample.n and not rule.features.plain.has_pictures:
        first, batch = rule.first, rule.batch
    rounds = _rounds(sample.n, first, batch, most=min(_MOST_ROUNDS, (room - first) / batch))
    rule = replace(rule, first=first, batch=batch, rounds=rounds, longer=())

    def report(done: int, total: int | None, note: str = "") -> None:
        search.progress(done, total, note)
        search.require_time(is_kept=note != FEATURES)  # the rounds until then are kept

    for seed in range(_SEEDS):
        if isinstance(rule.features, PatchFeatures):
            rule = replace(rule, features=replace(rule.features, seed=seed))
        try:
            with _compute_features(rule, search) as features:
                picked = pick(
                    rule, sample, device=search.device, patience=True, features=features, progress=report
                )
            return picked.best()
        except RoomError as error:
            reason = error
    raise UnsuitedError(f"no rule picks the same examples on every machine: {reason}")


@contextmanager
def _compute_features(rule: Rule, search: Search) -> Iterator[tuple[FeatureMap, Tensor | Spread]]:
    """The features of the sample: on the nodes of a cluster, if there is one, else here."""
    sample = search.task.sample
    if search.engine is None or not search.engine.has_nodes or str(search.device) != "cpu":
        yield features_of(rule, sample, device=search.device, progress=search.progress)
        return
    from codebound.learn.spread import spread_features

    features = spread_features(rule, sample, search.engine)
    with closing(features[1]):
        yield features
