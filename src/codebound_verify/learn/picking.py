"""Carrying out a rule on the sample: learn, and pick (docs/format.md, sections 7.7 to 7.9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..losses import Mask
from ..order import Arranged
from ..refusal import Refused
from ..sample import Data, Progress, hash_arrays, parts
from .exact import Doubles, Integers, full_precision
from .features import feature_map
from .kernel import Kernel, Points
from .ridge import PIECE, Ridge, choose_widths, outputs, targets_of
from .rule import PickRule, Rule, Split

TOLERANCE = 0.5e-4  # of the largest score: half of the writer's, as what follows
LEAST = {True: 0.5e-6, False: 0.5e-5}
"""Least room, by whether the rule picks."""
CLOSE = 1e-4  # of the largest coefficient, by which two machines may differ
TOGETHER = 1 << 24  # numbers in the vectors of one block of rows
MOST = 1 << 14  # rows in it
GAP = 0.5e-6  # half of the writer's


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
        """Refuse the tensors of another classifier. Constants of its features are not compared.

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


def learn_split(split: Split, data: Data, arranged: Arranged, progress: Progress | None = None) -> Learned:
    """Learn from the known share. Raises :class:`Refused` where a decision is in doubt."""
    rule, first, classes = split.rule, arranged.known, split.classes
    with full_precision():
        features = feature_map(rule, data, first)
        targets = targets_of(data.y[first], classes)
        if rule.gamma is None:
            gamma, ridge = choose_widths(rule, features, data, first, inputs=arranged.inputs, targets=targets)
            rule = replace(rule, gamma=gamma, ridge=ridge)
        assert rule.gamma is not None
        kernel = Kernel(features, copies=rule.copies, gamma=rule.gamma)
        supports = kernel.supports(data.x, first)
        learner = Ridge(rule, len(classes), picks=False)
        targets = np.tile(targets, (len(supports) // len(first), 1))
        for piece in parts(len(supports), PIECE):
            learner.extend(kernel.between(supports[piece], supports[: piece.stop]), targets[piece])
            if progress is not None:
                progress(piece.stop, len(supports))
        learner.solve()
        coefficients = learner.coefficients
        sums = kernel.sums(supports, supports, np.concatenate([coefficients, np.abs(coefficients)], axis=1))
    rho = learner.check(sums[:, : len(classes)], sums[:, len(classes) :])
    return Learned(
        rule=rule,
        classes=classes,
        kernel=kernel,
        supports=supports,
        coefficients=coefficients,
        rows=first,
        picks=np.empty(0, np.int64),
        sentences=(_describe(rule, len(first), rho),),
        data=data,
        progress=progress,
    )


@full_precision()
def carry_out(
    pick_rule: PickRule, data: Data, arranged: Arranged, progress: Progress | None = None
) -> Learned:
    """Pick, and learn at last. Raises :class:`Refused` where a decision is in doubt."""
    rule, rows, first, classes = pick_rule.rule, len(data.y), arranged.known, pick_rule.classes
    assert rule.gamma is not None  # a message of picks names it
    kernel = Kernel(feature_map(rule, data, first), copies=rule.copies, gamma=rule.gamma)
    points = kernel.points(data.x, np.arange(rows), progress)
    capacity = rule.supports(len(first) + sum(pick_rule.batches))
    supports = Points.empty(capacity, points.vectors.shape[1], kernel.blocks)
    own = capacity if rule.supports(1) > 1 else 0  # supports that are no rows are points of their own
    kept = kernel.allocate(capacity, rows + own)
    learner, places = Ridge(rule, len(classes), picks=True), np.empty(0, np.int64)
    batch, picked, count, rho, is_left = first, [first], 0, 0.0, np.ones(rows, bool)
    for size in (*pick_rule.batches, None):
        is_left[batch] = False
        new = slice(count, count + rule.supports(len(batch)))
        where, seen = batch, rows
        if own:
            supports.put(new, kernel.supports(data.x, batch))
            before, seen = rows + new.start, rows + new.stop
            where = np.arange(before, seen)
            kept.set(new, slice(rows, seen), supports[new], supports[: new.stop])
            kept.numbers[: new.start, before:seen] = kept.numbers[new, rows:before].T
        else:
            supports.put(new, points[batch])
        kept.set(new, slice(rows), supports[new], points)
        targets = np.tile(targets_of(data.y[batch], classes), (rule.supports(1), 1))
        for piece in parts(len(where), PIECE):
            old = new.start + piece.stop
            learner.extend(kept[slice(old), where[piece]].T, targets[piece])
        places, count = np.concatenate([places, where]), new.stop
        learner.solve()
        found = outputs(kept, learner.coefficients, seen)
        rho = learner.check(found[places], outputs(kept, np.abs(learner.coefficients), places))
        if progress is not None:
            progress(count, capacity)
        if size is not None:
            batch = _choose(pick_rule, data, arranged, found, is_left, size)
            picked.append(batch)
    batches = pick_rule.batches
    told = f"It picks {sum(batches)} rows in {len(batches)} rounds, none of them in doubt."
    return Learned(
        rule=rule,
        classes=classes,
        kernel=kernel,
        supports=supports,
        coefficients=learner.coefficients,
        rows=np.concatenate(picked),
        picks=np.concatenate([np.empty(0, np.int64), *picked[1:]]),
        sentences=(_describe(rule, len(first), rho), told),
        data=data,
        batches=tuple(batches),
        found=found[:rows].copy(),
    )


def _choose(
    pick_rule: PickRule, data: Data, arranged: Arranged, found: Doubles, is_left: Mask, size: int
) -> Integers:
    """The rows with the smallest scores, if none is in doubt. One without a class is never picked."""
    places = arranged.places
    candidates = places[is_left[places] & (data.y[places] < len(pick_rule.classes))]
    if size > len(candidates):
        raise Refused(f"Rule: {size} rows are to be picked; {len(candidates)} are left.")
    labels, own = data.y[candidates], np.arange(len(candidates))
    values = found[candidates]
    right = values[own, labels]
    values[own, labels] = -np.inf
    scores = np.abs(right - values.max(axis=1) + pick_rule.score)
    order = np.argsort(scores, kind="stable")
    if size < len(order):
        _settle(scores[order], candidates, order, size, (arranged.inputs, data.y, arranged.groups))
    return candidates[order[:size]]


def _settle(
    scores: Doubles, candidates: Integers, order: Integers, size: int, fields: tuple[Integers | None, ...]
) -> None:
    """Refuse a batch without a gap behind it, unless the rows around the border are equal in all fields.

    Then those that come first in the order of the sample are picked, on every machine.
    """
    if scores[size] - scores[size - 1] > GAP:
        return
    ends = scores[size] - GAP, scores[size - 1] + GAP
    near = slice(np.searchsorted(scores, ends[0]), np.searchsorted(scores, ends[1], "right"))
    some = candidates[order[near]]
    if any(len(set(each[some].tolist())) > 1 for each in fields if each is not None):
        raise Refused(
            f"Rule: the scores of rows {', '.join(map(str, some[:6]))} are within {GAP:g} of each other, "
            "and some of them are picked."
        )
    order[near] = np.sort(order[near])


def _describe(rule: Rule, first: int, rho: float) -> str:
    """The classifier in words."""
    kind = type(rule.features).__name__.lower()
    return (
        f"The rule starts with {first} known rows and learns from {kind}, with gamma {rule.gamma:g} and "
        f"lambda {rule.ridge:g}; rounding moves no score by more than {rho:.1e}."
    )
