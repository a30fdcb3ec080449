"""Splits: learners and shares that are compared, and the best of them carried out and counted.

Where a share is learned from and nothing is picked, the rest is a hold-out set. A message says which share
and which learner: in at most 20 bits for tables, and for the usual learner of pictures. What a share may come
to is estimated first; such estimates decide what is carried out, and are printed nowhere.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from codebound.bounds.facts import LookFacts
from codebound.bounds.held_out import looked_risk
from codebound.bounds.risk import percent
from codebound.certificate.assessment import assess_picked
from codebound.certificate.statement import Term
from codebound.learn.features import ColumnFeatures, RoomError
from codebound.learn.picking import features_of, is_wrong, learner_of, permutation, pick
from codebound.learn.rule import PickedMessage, Rule, usual_rule
from codebound.methods.rule_search import MEMORY, go_on_after, memory_of, move_while
from codebound.methods.search import UnsuitedError
from codebound.run.device import exact_products
from codebound.run.errors import ModelError, UsageError

if TYPE_CHECKING:
    from codebound.methods.search import Search
    from codebound.sample.dataset import Dataset

TENTHS = (1, 2, 3, 5, 7, 8, 9)
"""Of a sample, that a rival learns from; whoever takes the best of them pays for the choice."""
_WHOLE = 4000  # supports up to which every share is carried out; errors of larger ones are reckoned
_PART = 8000  # examples that they are reckoned from
_HALVINGS = (4, 2, 1)  # parts of what is learned from there
_MOST_SUPPORTS = {"quick": 4000, "standard": 16_000, "max": 20_000}  # of a share that is carried out
_TRIALS = 4  # shares that are carried out, where the first ones fail, or come to more than was reckoned
_LEAST = 12  # examples that a share can be taken of
_FEW = 1500  # examples for which learners are moved
_KNOWN = 500  # examples that columns are scaled by, until a share is carried out


@dataclass(frozen=True, slots=True)
class HoldoutBound:
    """Hold-out bound of a learner after a share, counted or estimated.

    Attributes:
        rule: The learner; copies of what is learned from are left out where there would be too many.
        value: The bound of a learner that was fixed before, with the choice among shares paid for.
        learned: Examples that were learned from.
        tenths: Which share of the sample they are.
        errors: Errors on the others.
        n: The others.
        shares: Shares that were compared.
        dimension: Numbers in a vector of features.
        is_reckoned: Whether the errors were not counted but reckoned from those after smaller shares.
    """

    rule: Rule
    value: float
    learned: int
    tenths: int
    errors: int
    n: int
    shares: int
    dimension: int
    is_reckoned: bool = False

    def is_affordable(self, effort: str) -> bool:
        """Return True if memory and effort allow the share."""
        copies = self.rule.supports_each
        supports = copies * self.learned
        needed = memory_of(
            self.learned + self.n, self.dimension, supports, copies=copies, is_joined=self.rule.is_mirrored
        )
        return supports <= _MOST_SUPPORTS[effort] and needed <= MEMORY


@torch.no_grad()
def bound_shares(
    rule: Rule,
    sample: Dataset,
    *,
    delta: float,
    keeps_copies: bool = False,
    counts_all: bool = False,
    device: str | torch.device = "cpu",
) -> list[HoldoutBound]:
    """The hold-out bound of the learner of a rule for every share of the sample.

    The shares are fixed beforehand, so the best of them costs as much as that many looks (C-16). Where much
    is learned from, errors are reckoned from those after smaller shares; unless all are to be counted,
    however long that takes.
    """
    sizes = {max(1, tenths * sample.n // 10): tenths for tenths in TENTHS}
    most = max(sizes)
    if most * rule.supports_each > _WHOLE and not keeps_copies:
        rule = replace(rule, copies=rule.copies if rule.is_mirrored else 0)
    is_reckoned = most * rule.supports_each > _WHOLE and not counts_all
    if is_reckoned:
        rates, dimension = _extrapolate(list(sizes), rule, sample, device)
        counts = [math.ceil(rate * (sample.n - size)) for size, rate in zip(sizes, rates, strict=True)]
    else:
        counts, dimension = errors_after(list(sizes), rule, sample, device)
    found = []
    for (size, tenths), errors in zip(sizes.items(), counts, strict=True):
        n = sample.n - size
        value = looked_risk(LookFacts(errors=errors, n=n, delta=delta, looks=len(sizes))).value
        found.append(HoldoutBound(rule, value, size, tenths, errors, n, len(sizes), dimension, is_reckoned))
    return found


def _extrapolate(
    sizes: list[int], rule: Rule, sample: Dataset, device: str | torch.device
) -> tuple[list[float], int]:
    """Shares of errors after learning from so many examples, by a curve through those of a part.

    What is above a floor falls by the same factor with every doubling; the floor is what three sizes show.
    """
    part = sample
    if sample.n > _PART:
        part = sample.select(permutation(sample.n)[:_PART], role="certify")
    most = min(_WHOLE // rule.supports_each, part.n // 2)
    tried = sorted({max(1, most // each) for each in _HALVINGS})
    counts, dimension = errors_after(tried, rule, part, device)
    rates = [(count + 0.5) / (part.n - size + 1.0) for size, count in zip(tried, counts, strict=True)]
    if len(rates) < len(_HALVINGS):
        return [rates[-1] for _ in sizes], dimension
    many, some, few = rates
    bend = many + few - 2.0 * some
    floor = max(0.0, (many * few - some * some) / bend) if bend > 0.0 and few < some < many else 0.0
    factor = min(1.0, max(0.5, (few - floor) / max(some - floor, 1e-12)))
    return [floor + (few - floor) * factor ** math.log2(size / tried[-1]) for size in sizes], dimension


def errors_after(
    sizes: list[int], rule: Rule, sample: Dataset, device: str | torch.device
) -> tuple[list[int], int]:
    """Errors on the rest after learning from so many of the first examples, in the order of C-10.

    And how many numbers a vector of features has.
    """
    features, vectors = features_of(rule, sample, device=device)
    labels = torch.from_numpy(sample.y).to(vectors.device)
    order = torch.from_numpy(permutation(sample.n)).to(vectors.device)
    changes = () if rule.is_mirrored else rule.changes()[1:]
    found: list[int] = []
    with exact_products():
        capacity = sizes[-1] * (len(changes) + 1)
        learner = learner_of(rule, features, vectors, labels, classes=sample.classes, capacity=capacity)
        for start, stop in zip([0, *sizes], sizes, strict=False):
            rows = order[start:stop]
            stored = torch.from_numpy(sample.x[rows.cpu().numpy()]).to(rows.device)
            learner.add(rows, [features(stored, change) for change in changes])
            wrong = is_wrong(learner.outputs(learner.coefficients()), labels)
            found.append(int(wrong[order[stop:]].sum()))
    return found, vectors.shape[1]


def propose_split(search: Search) -> None:
    """Share and learner of the best hold-out set that was found, as a rule that picks nothing (C-15)."""
    task, sample = search.task, search.task.sample
    if not task.claim.allows_picks or task.base is not None:
        raise UnsuitedError(
            "what learns from a share is a network of its own, counted on the rest of the sample."
        )
    if sample.n < _LEAST:
        raise UnsuitedError(f"a share needs at least {_LEAST} examples. Got {sample.n}.")
    learners = _Learners(search)
    ranked = learners.rank()
    for _ in range(min(_TRIALS, len(ranked))):
        known = search.routes.get("split")
        if not ranked or (known is not None and known.bound <= ranked[0][0]):
            break
        promise, held = ranked.pop(0)
        is_costly = held.is_reckoned or held.rule.features.has_pictures
        if is_costly and not search.is_asked and search.best is not None and promise >= search.best.rank[0]:
            if known is not None:
                break
            raise UnsuitedError(
                f"by an estimate no share comes below the {percent(search.best.rank[0])} of {search.method}. "
                "To run it all the same, choose the method split."
            )
        try:
            learners.carry_out(held)
        except RoomError:  # larger shares of the same learner have no room either
            ranked = [each for each in ranked if each[1].rule != held.rule or each[1].learned < held.learned]
    if "split" not in search.routes and not search.refusals:
        effort = "" if search.effort == "max" else "a higher effort, or "
        raise UnsuitedError(
            "the shares of these examples are too large to be learned from in the time and memory that every "
            f"machine has. Choose {effort}the method picks."
        )


class _Learners:
    """Learners without picks, each at its best share, and the bounds that they promise."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.found: dict[Rule, list[tuple[float, HoldoutBound]]] = {}  # the smallest bound first

    def rank(self) -> list[tuple[float, HoldoutBound]]:
        """The bounds that are promised, smallest first, and what promises them."""
        search, shape = self.search, self.search.task.sample.input_shape
        starts = [usual_rule(shape)]
        if not starts[0].features.has_pictures:
            starts.append(Rule(ColumnFeatures(True), gamma_index=11, ridge_index=5))
        best = search.best.rules if search.best is not None else ()
        starts += [replace(rule, features=rule.features.plain) for rule in best]  # no split says a layer
        starts += self._tune()
        for rule in starts:
            self._try(rule)
            if rule.supports_each > 1:
                self._try(rule, keeps_copies=True)
        if self.found and search.effort != "quick" and search.task.sample.n <= _FEW:
            self._improve()
        return sorted(itertools.chain.from_iterable(self.found.values()), key=lambda each: each[0])

    def carry_out(self, held: HoldoutBound) -> None:
        """Learns from the share and counts on the rest, as a certificate needs it."""
        search = self.search
        picked = pick(_drop_picks(held), search.task.sample, device=search.device, progress=search.progress)
        search.offer(assess_picked(picked, search.task))
        errors = picked.last.errors
        looks = LookFacts(errors=errors, n=held.n, delta=search.task.delta, looks=held.shares)
        self._remember(replace(held, errors=errors, value=looked_risk(looks).value, is_reckoned=False))
        go_on_after(picked, search)

    def _improve(self) -> None:
        """Moves width and ridge of the best one while that helps."""

        def helps(moved: Rule, rule: Rule) -> bool:
            self._try(moved)
            return moved in self.found and self._least(moved) < self._least(rule)

        moves = itertools.product(("gamma_index", "ridge_index"), (-1, 1))
        move_while(helps, min(self.found, key=self._least), moves)

    def _tune(self) -> list[Rule]:
        """The learner whose width and ridge suit a part of a larger table; smaller ones are moved later."""
        from codebound.methods.kernel_share import best_rule

        search, sample = self.search, self.search.task.sample
        if (
            search.effort == "quick"
            or sample.n <= _FEW
            or usual_rule(sample.input_shape).features.has_pictures
        ):
            return []
        with suppress(UsageError):
            return [replace(best_rule(sample, search.device, search.progress), first=_KNOWN)]
        return []

    def _try(self, rule: Rule, *, keeps_copies: bool = False) -> None:
        task, device = self.search.task, self.search.device
        self.search.progress(len(self.found), None, f"shares that are learned from {self.search.note}")
        try:
            shares = bound_shares(
                rule, task.sample, delta=task.delta, keeps_copies=keeps_copies, device=device
            )
        except (ModelError, RoomError):
            return
        self._remember(min(shares, key=lambda each: each.value))
        found = [(self._promise(held), held) for held in shares if held.is_affordable(self.search.effort)]
        found = [each for each in found if each[0] < math.inf]
        if found:
            self.found[rule] = sorted(self.found.get(rule, []) + found, key=lambda each: each[0])

    def _least(self, rule: Rule) -> float:
        return self.found[rule][0][0]

    def _promise(self, held: HoldoutBound) -> float:
        """The bound that a share may come to, with its message."""
        task = self.search.task
        message = PickedMessage(task.options, _drop_picks(held), task.sample.input_shape)
        try:
            bits = message.encode()[0].length
        except UsageError:  # a literal scaling of pictures has no short code
            return math.inf
        return Term("binomial", held.errors, held.n, bits).limit(task.delta)

    def _remember(self, held: HoldoutBound) -> None:
        """Keeps the smallest bound of a hold-out set; a count replaces what was reckoned for its share."""
        known = self.search.held_out
        is_counted = known is not None and known.is_reckoned and not held.is_reckoned
        is_same = known is not None and (known.rule, known.tenths) == (held.rule, held.tenths)
        if known is None or held.value < known.value or (is_counted and is_same):
            self.search.held_out = held


def _drop_picks(held: HoldoutBound) -> Rule:
    """The learner with its share, and without picks: numbers that only picks have are as they are read."""
    unread: dict[str, Any] = {"batch": Rule().batch, "score_index": Rule().score_index}
    return replace(held.rule, first=held.learned, rounds=0, longer=(), tenths=held.tenths, **unread)
