"""Carrying out a rule on the sample: learn, and pick (docs/format.md, sections 7.7 to 7.9)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..refusal import Refused
from ..sample import parts
from .exact import Doubles, Integers, full_precision
from .kernel import Kernel, Points, feature_map
from .learned import Learned
from .leaving_out import choose_widths
from .ridge import PIECE, Ridge, outputs, targets_of

if TYPE_CHECKING:
    from ..order import Arranged
    from ..sample import Data, Progress
    from .choices import Rule
    from .rule import PickRule, Split

GAP = 0.5e-6  # half of the writer's


def learn_split(split: Split, data: Data, arranged: Arranged, progress: Progress | None = None) -> Learned:
    """Learn from the known share; raises :class:`Refused` where a decision is in doubt."""
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


def carry_out(rule: PickRule, data: Data, arranged: Arranged, progress: Progress | None = None) -> Learned:
    """Pick and learn; raises :class:`Refused` where a decision is in doubt."""
    with full_precision():
        return _Run(rule, data, arranged).run(progress)


class _Run:
    """The sample, and what was picked of it so far."""

    def __init__(self, pick_rule: PickRule, data: Data, arranged: Arranged) -> None:
        self._pick_rule, self._rule, self._data, self._arranged = pick_rule, pick_rule.rule, data, arranged
        self._left = np.ones(len(data.y), bool)

    def run(self, progress: Progress | None) -> Learned:
        """Pick, and learn at last."""
        rule, x, rows = self._rule, self._data.x, len(self._data.y)
        assert rule.gamma is not None  # a message of picks names it
        first, classes = self._arranged.known, self._pick_rule.classes
        kernel = Kernel(feature_map(rule, self._data, first), copies=rule.copies, gamma=rule.gamma)
        points = kernel.points(x, np.arange(rows), progress)
        capacity = rule.supports(len(first) + sum(self._pick_rule.batches))
        supports = Points.empty(capacity, points.vectors.shape[1], kernel.blocks)
        own = capacity if rule.supports(1) > 1 else 0  # supports that are no rows are points of their own
        kept = kernel.allocate(capacity, rows + own)
        learner, places = Ridge(rule, len(classes), picks=True), np.empty(0, np.int64)
        batch, picked, count, rho = first, [first], 0, 0.0
        for size in (*self._pick_rule.batches, None):
            self._left[batch] = False
            new = slice(count, count + rule.supports(len(batch)))
            where, seen = batch, rows
            if own:
                made = kernel.supports(x, batch)
                supports.vectors[new], supports.squares[new] = made.vectors, made.squares
                before, seen = rows + new.start, rows + new.stop
                where = np.arange(before, seen)
                kept.set(new, slice(rows, seen), supports[new], supports[: new.stop])
                kept.numbers[: new.start, before:seen] = kept.numbers[new, rows:before].T
            else:
                supports.vectors[new], supports.squares[new] = points.vectors[batch], points.squares[batch]
            kept.set(new, slice(rows), supports[new], points)
            targets = np.tile(targets_of(self._data.y[batch], classes), (rule.supports(1), 1))
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
                batch = self._choose(found, size)
                picked.append(batch)
        batches = self._pick_rule.batches
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
            data=self._data,
            batches=tuple(batches),
            found=found[:rows].copy(),
        )

    def _choose(self, found: Doubles, size: int) -> Integers:
        """The rows with the smallest scores, if none is in doubt; one without a class is never picked."""
        places, classes = self._arranged.places, len(self._pick_rule.classes)
        candidates = places[self._left[places] & (self._data.y[places] < classes)]
        if size > len(candidates):
            raise Refused(f"Rule: {size} rows are to be picked; {len(candidates)} are left.")
        labels, own = self._data.y[candidates], np.arange(len(candidates))
        values = found[candidates]
        right = values[own, labels]
        values[own, labels] = -np.inf
        scores = np.abs(right - values.max(axis=1) + self._pick_rule.score)
        order = np.argsort(scores, kind="stable")
        if size < len(order):
            self._settle(scores[order], candidates, order, size)
        return candidates[order[:size]]

    def _settle(self, scores: Doubles, candidates: Integers, order: Integers, size: int) -> None:
        """Refuse a batch without a gap behind it, unless the rows around the border are equal.

        Then those that come first in the order of the sample are picked, on every machine.
        """
        if scores[size] - scores[size - 1] > GAP:
            return
        near = slice(
            np.searchsorted(scores, scores[size] - GAP),
            np.searchsorted(scores, scores[size - 1] + GAP, "right"),
        )
        some = candidates[order[near]]
        fields = (self._arranged.inputs, self._data.y, self._arranged.groups)
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
