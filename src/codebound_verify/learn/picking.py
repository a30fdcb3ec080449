"""Running a rule on the sample: pick, learn, count (docs/format.md, section 10.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..checks import check_count, counted_places
from ..cores import side_by_side
from ..header import Header, PartOfPicks, Picked
from ..losses import WRONG, Loss
from ..refusal import Refused, quote
from ..sample import Inputs, Labels, permutation
from .exact import Doubles, Integers, Vectors, full_precision, parts
from .kernel import Kept, Kernel, Points, check_finite, feature_map
from .ridge import Ridge, check_solution, outputs
from .rule import COPIES, MIRRORED, Rule, check_share, check_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ..sample import Progress

GAP = 0.5e-6  # half of the writer's, as what follows
TOLERANCE = 0.5e-4
LEAST_MARGIN = 0.5e-6
STEP = 256  # examples whose vectors are made at a time


@dataclass(frozen=True)
class LearnedNetwork:
    """The network g: a sum over supports.

    ``picked`` are the examples that it was learned from, in order; ``outputs`` are those of the whole sample.
    """

    rule: Rule
    kernel: Kernel
    supports: Points
    coefficients: Doubles
    picked: Integers
    outputs: Doubles

    def count(self, y: Labels, places: Integers, loss: Loss = WRONG) -> tuple[int, int]:
        """Picks among some places of the sample, and the losses on the others there."""
        left = np.setdiff1d(places, self.picked)
        return len(places) - len(left), _errors(self.outputs[left], y[left], loss)

    def count_errors(self, x: Inputs, y: Labels, loss: Loss = WRONG) -> int:
        """Errors, or other losses, on stored inputs, counted as on the sample."""
        check_finite(x)
        count = 0
        with full_precision():
            for part in parts(len(x), 4 * STEP):
                points = points_of(self.kernel, x[part])
                kept = self._keep_kernel(points)
                count += _errors(outputs(kept, self.coefficients, len(points)), y[part], loss)
        return count

    def check_weights(self, tensors: Mapping[str, NDArray[Any]], x: Inputs, y: Labels) -> None:
        """Refuse weights of another network: their picks are these, and their residual is as small.

        ``picks`` are inputs as stored, in the order of picking, and ``examples`` their places in the sample;
        ``coefficients`` has a row for every copy of them: (copies, picks, classes). All others are what the
        features took from the first of them (docs/howto/picks.md).
        """
        picks, given = tensors.get("picks"), tensors.get("coefficients")
        if picks is None or not np.array_equal(picks, x[self.picked]):
            raise Refused("Weights: their picks are not the examples that the rule picks from this sample.")
        if not self._are_picked(tensors.get("examples"), x, y):
            raise Refused("Weights: their examples are not the places of the picks in this sample.")
        expected = self.kernel.features.known
        for name in sorted({*expected, *tensors} - {"picks", "examples", "coefficients"}):
            if name not in expected or not np.array_equal(tensors.get(name, ()), expected[name]):
                raise Refused(
                    f"Weights: {quote(name)} is not what the rule takes from the examples it starts with."
                )
        copies, (supports, classes) = COPIES[self.rule.copies], self.coefficients.shape
        if given is None or given.shape != (copies, len(picks), classes):
            raise Refused("Weights: their coefficients are not of the shape that the rule learns.")
        order, start = [], 0
        for size in (self.rule.first, *self.rule.batches):  # batch by batch, then copy by copy (10.6)
            order.append(np.arange(copies)[:, None] * len(picks) + np.arange(start, start + size))
            start += size
        places = np.concatenate([each.ravel() for each in order])
        solution = np.ascontiguousarray(given.reshape(supports, classes)[places], np.float64)
        with full_precision():
            kept = self._keep_kernel(self.supports)
        check_solution(kept, solution, y[self.picked[places % len(picks)]], self.rule)

    def _are_picked(self, places: NDArray[Any] | None, x: Inputs, y: Labels) -> bool:
        """Return True if places are those of the picks, or of equal examples."""
        if places is None or places.shape != self.picked.shape or places.dtype.kind not in "iu":
            return False
        if places.min() < 0 or places.max() >= len(x):
            return False
        return np.array_equal(x[places], x[self.picked]) and np.array_equal(y[places], y[self.picked])

    def _keep_kernel(self, points: Points) -> Kept:
        """The kernel of the supports with points."""
        kept, everything = self.kernel.allocate(len(self.supports), len(points)), slice(None)
        kept.set(everything, everything, self.supports, points)
        return kept


def points_of(kernel: Kernel, x: Inputs, progress: Progress | None = None) -> Points:
    """The vectors of stored inputs."""

    def made(part: slice) -> Vectors:
        return kernel.vectors(x[part])

    blocks = parts(len(x), min(STEP, -(-len(x) // 8)))
    found = None
    for block, some in zip(blocks, side_by_side(made, blocks), strict=True):
        if found is None:
            found = Points.empty(len(x), some.shape[1], kernel.blocks)
        found.set(block, some)
        if progress is not None:
            progress(block.stop, len(x))
    assert found is not None  # there is an example
    return found


def learn(
    rule: Rule, header: Header, x: Inputs, y: Labels, progress: Progress | None = None
) -> LearnedNetwork:
    """Run a rule on the whole sample; raises :class:`Refused` where a decision is in doubt."""
    check_sizes(rule, header.input_shape, examples=len(x), classes=header.classes)
    check_finite(x)
    with full_precision():
        return _Run(rule, header, x, y).run(progress)


def check_picks(
    header: Header, rule: Rule, sample: tuple[Inputs, Labels], progress: Progress | None
) -> LearnedNetwork:
    """Check that the network that the rule learns makes no more errors than stated (section 10.6)."""
    stated = header.extra
    assert isinstance(stated, Picked)  # the statement is C-15
    if (stated.first, stated.picks) != (rule.first, rule.picks):
        raise Refused(
            f"Facts: first is {stated.first} and picks {stated.picks}; the rule starts with {rule.first} "
            f"examples and picks {rule.picks}."
        )
    check_share(rule, sample[1], permutation(len(sample[1])), header.classes)
    learned = learn(rule, header, *sample, progress)
    places = counted_places(header, sample[1])
    picks, errors = learned.count(sample[1], places, header.loss)
    if isinstance(header.tally, PartOfPicks) and header.tally.picks != picks:
        raise Refused(f"Facts: tally.picks is {header.tally.picks}; the rule picks {picks} of that part.")
    check_count(header, errors, len(places) - picks, "the network that the rule learns")
    return learned


class _Run:
    """The sample, and what was picked of it so far."""

    def __init__(self, rule: Rule, header: Header, x: Inputs, y: Labels) -> None:
        self._rule, self._x, self._y = rule, x, y
        self._divisor, self._classes = header.scaling.divisor, header.classes
        self._copies = COPIES[rule.copies]

    def run(self, progress: Progress | None) -> LearnedNetwork:
        """Pick, learn and count."""
        rule, examples = self._rule, len(self._x)
        first = permutation(examples)[: rule.first]
        features = feature_map(rule, self._x[first], divisor=self._divisor, labels=self._y[first])
        kernel = Kernel(rule, features)
        points = points_of(kernel, self._x, progress)
        capacity = rule.supports(rule.first + rule.picks)
        supports = Points.empty(capacity, points.vectors.shape[1], kernel.blocks)
        own = capacity if self._copies > 1 else 0  # supports that are no examples are points of their own
        kept = kernel.allocate(capacity, examples + own)
        ridge = Ridge(
            kept, ridge=rule.ridge, classes=self._classes, kappa=2 if rule.copies == MIRRORED else 1
        )
        left = np.ones(examples, bool)
        batch, picked, count = first, [first], 0
        for size in (*rule.batches, None):
            left[batch] = False
            new = slice(count, count + rule.supports(len(batch)))
            where, seen = batch, examples
            if own:
                supports.set(new, kernel.supports_of(self._x[batch]))
                before, seen = examples + new.start, examples + new.stop
                where = np.arange(before, seen)
                kept.set(new, slice(examples, seen), supports[new], supports[: new.stop])
                kept.numbers[: new.start, before:seen] = kept.numbers[new, examples:before].T
            else:
                supports.set(new, points.vectors[batch])
            kept.set(new, slice(examples), supports[new], points)
            found = ridge.learn(where, np.tile(self._y[batch], self._copies), seen)[:examples]
            count = new.stop
            if progress is not None:
                progress(count, capacity)
            if size is not None:
                batch = self._choose(found, left, size)
                picked.append(batch)
        return LearnedNetwork(
            rule, kernel, supports, ridge.coefficients, np.concatenate(picked), outputs=found.copy()
        )

    def _choose(self, found: Doubles, left: np.ndarray, size: int) -> Integers:
        """The examples with the smallest scores, if none of them is in doubt."""
        candidates = np.flatnonzero(left)
        margins = WRONG.distances(torch.from_numpy(found[candidates]), torch.from_numpy(self._y[candidates]))
        scores = np.abs(margins.numpy() + self._rule.target)
        order = np.argsort(scores, kind="stable")
        scores, candidates = scores[order], candidates[order]
        self._check_gap(scores, candidates, size)
        return candidates[:size]

    def _check_gap(self, scores: Doubles, candidates: Integers, size: int) -> None:
        """Between the batch and the rest is a gap, or the examples around the border are all the same."""
        if size == len(candidates) or scores[size] - scores[size - 1] > GAP:
            return
        near = slice(
            np.searchsorted(scores, scores[size] - GAP),
            np.searchsorted(scores, scores[size - 1] + GAP, "right"),
        )
        some = candidates[near]
        if len({(int(self._y[i]), self._x[i].tobytes()) for i in some}) > 1:
            raise Refused(
                f"Rule: the scores of the examples {', '.join(map(str, some[:6]))} are within {GAP:g} of "
                "each other, and some of them are picked."
            )


def _errors(found: Doubles, labels: Labels, loss: Loss) -> int:
    """Outputs that are not right with room for rounding."""
    far = loss.distances(torch.from_numpy(found), torch.from_numpy(labels)).numpy()
    room = np.maximum(TOLERANCE * np.abs(found).max(axis=1, initial=0.0), LEAST_MARGIN)
    right = (far > room) & np.isfinite(found).all(axis=1)
    return int((~right).sum())
