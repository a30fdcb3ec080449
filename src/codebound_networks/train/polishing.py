"""Local search on trained integers: the errors themselves are counted, and the bits of the code.

Training sees a smooth stand-in for both. Moving one integer, or two, by one changes a few dozen decisions;
what lowers errors and bits together is kept. In a linear layer, one weight moves one logit of every example
by a known amount, so all changes of one weight are counted exactly in the time of a few evaluations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.bounds.risk import count_of
from codebound.run.progress import Progress, silent
from codebound_networks.codes.bell import MAX_BELL_LEVEL, best_bell
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.modes import encode_tensors
from codebound_networks.train.subspace import Expansion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from codebound_networks.train.subspace import Features, SubspaceSettings

_CHUNK = 20_000  # examples at a time
_PROBES = 8  # moves that show how far one changes a margin
_SINGLES = 0.8  # share of the dimension: moves of one integer tried in a round
_PARTNERS, _PAIRS = 90, 1200  # moves that are paired, and pairs tried, when no single one helps
_FRESH = 15  # moves after which examples near the boundary are looked for again
_LEAST_NEAR = 100  # examples that judge a move, however clear all decisions are
_ATTEMPTS = 60  # most promising changes of a linear layer that are looked at
_COLUMNS = 64  # weights whose changes are counted at a time
_cost = attrgetter("cost")


def polish(
    features: Features,
    settings: SubspaceSettings,
    integers: NDArray[np.int32],
    *,
    evaluations: int,
    base: Mapping[str, Tensor] | None = None,
    progress: Progress = silent,
) -> NDArray[np.int32]:
    """Integers near the given ones with fewer errors + price x bits; those given, if none are found.

    Candidates are ranked by the gradient of a smooth count, and judged by the examples whose decision one
    move can change; every round ends with a count of all. At most ``evaluations`` candidates are tried.
    """
    search = _Search(features, settings, base)
    if np.abs(integers).max() > MAX_BELL_LEVEL:
        return integers
    here = search.count(torch.from_numpy(integers).to(features.labels.device, torch.float32))
    start, tried = here, 0

    def report(more: int) -> None:
        note = (
            f"{count_of(here.errors, 'error')}, {here.bits:.0f} bits (from {start.errors}, {start.bits:.0f})"
        )
        progress(tried + more, evaluations, note)

    while tried < evaluations:
        found, more = search.round(here, evaluations - tried, report)
        tried += more
        if found.cost >= here.cost:
            break
        here = found
    return _levels(here.values)


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """Integers, and what they cost."""

    values: Tensor  # the integers, as float32
    margins: Tensor  # margins of all examples
    errors: int  # number of examples with a margin of at most 0
    bits: float  # length of the code of the integers
    price: float  # errors that one bit is worth

    @property
    def cost(self) -> float:
        return self.errors + self.price * self.bits


class _Search:
    def __init__(
        self, features: Features, settings: SubspaceSettings, base: Mapping[str, Tensor] | None
    ) -> None:
        self.features, self.price = features, settings.price
        device = features.labels.device
        self.expansion = Expansion(features.learner, settings, base=base, device=device)
        self.everything = torch.arange(len(features.labels), device=device)
        self.random = np.random.default_rng(settings.seed)

    def margins(self, values: Tensor, examples: Tensor) -> Tensor:
        tensors, features = self.expansion.tensors(values), self.features
        parts = torch.split(examples, _CHUNK)
        return torch.cat(
            [_margins(features.logits(tensors, part).T, features.labels[part]) for part in parts]
        )

    @torch.no_grad()
    def count(self, values: Tensor) -> _Point:
        margins = self.margins(values, self.everything)
        return _Point(values, margins, int((margins <= 0.0).sum()), _bits(values), self.price)

    def round(self, start: _Point, evaluations: int, report: Callable[[int], None]) -> tuple[_Point, int]:
        """A better point, counted anew, and the number of candidates tried; ``start`` if none is found."""
        climb = _Climb(self, start, report)
        dimension = len(start.values)
        order = self.rank_moves(climb)[: round(_SINGLES * dimension)]
        for move in order:
            if climb.tried < evaluations:
                climb.attempt((move,))
        if not climb.accepted:
            best = sorted(order, key=lambda move: climb.cost_of.get(move, np.inf))[:_PARTNERS]
            pairs = [pair for pair in combinations(best, 2) if (pair[0] - pair[1]) % dimension]
            pairs.sort(key=lambda pair: sum(climb.cost_of.get(move, np.inf) for move in pair))
            for pair in pairs[:_PAIRS]:
                if climb.tried < evaluations:
                    climb.attempt(pair)
        end = self.count(climb.here.values) if climb.accepted else start
        return min((start, end), key=_cost), climb.tried

    def rank_moves(self, climb: _Climb) -> list[int]:
        """All moves, the most promising first: move m < d adds 1 to integer m, move d + m takes 1 away."""
        point, near = climb.here, climb.near
        values = point.values.clone().requires_grad_()
        width = max(float(point.margins[near].abs().max()) / 6.0, 1e-6)
        slope = torch.zeros_like(values)
        for part in torch.split(near, _CHUNK):
            smooth = torch.sigmoid(-self.margins(values, part) / width).sum()
            slope += torch.autograd.grad(smooth, values)[0]
        rates = self.price * _bit_changes(point.values)
        changes = torch.cat([slope, -slope]).cpu().numpy() + rates
        return [int(move) for move in np.argsort(changes, kind="stable")]

    @torch.no_grad()
    def near(self, point: _Point) -> Tensor:
        """Examples whose decision a move can be expected to change."""
        changes = []
        for place in self.random.integers(len(point.values), size=_PROBES):
            moved = point.values.clone()
            moved[place] += 1.0
            sample = self.everything[:: max(1, len(self.everything) // 5000)]
            changes.append((self.margins(moved, sample) - point.margins[sample]).abs())
        reach = 4.0 * float(torch.cat(changes).square().mean().sqrt())
        distances = point.margins.abs()
        nearest = distances.kthvalue(min(_LEAST_NEAR, len(distances))).values
        return (distances <= max(reach, float(nearest))).nonzero().squeeze(1)


class _Climb:
    """One round: a point that moves, judged by the examples near the boundary."""

    def __init__(self, search: _Search, start: _Point, report: Callable[[int], None]) -> None:
        self.search, self.here, self.report = search, start, report
        self.tried = self.accepted = 0
        self.cost_of: dict[int, float] = {}  # change in cost of single moves that were tried
        self.look()

    def look(self) -> None:
        self.near = self.search.near(self.here)
        self.far_errors = self.here.errors - int((self.here.margins[self.near] <= 0.0).sum())

    @torch.no_grad()
    def attempt(self, moves: Sequence[int]) -> None:
        """Makes the moves if the cost falls."""
        values, dimension = self.here.values.clone(), len(self.here.values)
        for move in moves:
            values[move % dimension] += 1.0 if move < dimension else -1.0
        margins = self.search.margins(values, self.near)
        errors = self.far_errors + int((margins <= 0.0).sum())
        there = _Point(values, self.here.margins, errors, _bits(values), self.search.price)
        self.tried += 1
        self.report(self.tried)
        if len(moves) == 1:
            self.cost_of[moves[0]] = there.cost - self.here.cost
        if there.cost < self.here.cost:
            self.here = there
            self.accepted += 1
            if self.accepted % _FRESH == 0:
                self.here = self.search.count(values)
                self.look()


def _levels(values: Tensor) -> NDArray[np.int32]:
    return values.to(torch.int32).cpu().numpy()


def _bits(values: Tensor) -> float:
    levels = _levels(values)
    return best_bell(levels, 0)[0] if np.abs(levels).max() <= MAX_BELL_LEVEL else math.inf


def _bit_changes(values: Tensor) -> NDArray[np.float64]:
    """Change in bits of every move, at the width that is best now."""
    levels = _levels(values)
    lengths = best_bell(levels, 0)[1].lengths()
    moved = np.minimum(np.abs(np.concatenate([levels + 1, levels - 1])), MAX_BELL_LEVEL)
    changes: NDArray[np.float64] = lengths[moved] - np.tile(lengths[np.abs(levels)], 2)
    return changes


def polish_linear(
    inputs: Tensor,
    labels: Tensor,
    levels: NDArray[np.int32],
    *,
    price: float,
    counts: int,
    strides: Sequence[int] = (),
    progress: Progress = silent,
) -> NDArray[np.int32]:
    """Levels near the given ones with fewer errors + ``price`` x bits; those given, if none are found.

    A count finds the errors after every change of one weight by one, and after every removal. The most
    promising changes are then made, one after the other, where errors and bits, now those of the shortest
    code, fall together. When none does, pairs are tried: each of those changes, and what is best after it.
    Inputs have one row per example, levels one row per class; ``counts`` is the most counts that are made.

    >>> inputs, labels = torch.eye(2).repeat(50, 1), torch.tensor([0, 1]).repeat(50)
    >>> polish_linear(inputs, labels, np.array([[1, 1], [0, 0]], np.int32), price=0.5, counts=2).tolist()
    [[1, -1], [0, 0]]
    """
    search = _LinearSearch(inputs, labels, price, strides)
    start = here = search.point(levels)
    done = 0

    def report() -> None:
        note = f"{count_of(here.errors, 'error')}, {here.bits} bits (from {start.errors}, {start.bits})"
        progress(done, counts, note)

    while done < counts:
        before, changes, done = here, search.select_changes(here), done + 1
        for change in changes:
            here = min(here, search.after(here, change), key=_cost)
        for change in changes if here is before else ():
            if done < counts:
                report()
                between, done = search.after(here, change), done + 1
                here = min(here, search.after(between, search.select_changes(between)[0]), key=_cost)
        report()
        if here is before:
            break
    return here.levels


@dataclass(frozen=True, slots=True)
class _Change:
    """One weight takes another level."""

    row: int
    column: int
    level: int


@dataclass(frozen=True, slots=True, eq=False)
class _LinearPoint:
    """Levels and what they cost; the logits have one row per class."""

    levels: NDArray[np.int32]
    logits: Tensor
    errors: int
    bits: int
    cost: float


class _LinearSearch:
    def __init__(self, inputs: Tensor, labels: Tensor, price: float, strides: Sequence[int]) -> None:
        self.columns = inputs.T.float().contiguous()
        self.labels, self.price, self.strides = labels, price, strides
        self.reach = float(self.columns.abs().max())

    def point(self, levels: NDArray[np.int32], logits: Tensor | None = None) -> _LinearPoint:
        if logits is None:
            logits = torch.from_numpy(levels).to(self.columns) @ self.columns
        errors = int((_margins(logits, self.labels) <= 0.0).sum())
        bits = encode_tensors([best_tensor_code(levels, step=0, strides=self.strides)]).length
        return _LinearPoint(levels, logits, errors, bits, errors + self.price * bits)

    def after(self, point: _LinearPoint, change: _Change) -> _LinearPoint:
        levels, logits = point.levels.copy(), point.logits.clone()
        levels[change.row, change.column] = change.level
        move = change.level - int(point.levels[change.row, change.column])
        logits[change.row] += move * self.columns[change.column]
        return self.point(levels, logits)

    def select_changes(self, point: _LinearPoint) -> list[_Change]:
        """The changes that cost least, the best first; bits are those of a code without contexts here."""
        found: list[tuple[float, _Change]] = []
        bits = _lengths(point.levels)
        for row, levels in enumerate(point.levels):
            moved = np.stack([levels + 1, levels - 1, np.where(np.abs(levels) > 1, 0, levels)])
            costs = self.count_errors(point, row, moved - levels) + self.price * (
                bits[np.abs(moved)] - bits[np.abs(levels)]
            )
            costs[moved == levels] = np.inf
            for place in np.argsort(costs, axis=None, kind="stable")[:_ATTEMPTS]:
                way, column = divmod(int(place), len(levels))
                change = _Change(row, column, int(moved[way, column]))
                found.append((float(costs[way, column]), change))
        return [change for _, change in sorted(found, key=lambda each: each[0])[:_ATTEMPTS]]

    def count_errors(self, point: _LinearPoint, row: int, moves: NDArray[np.int32]) -> NDArray[np.float64]:
        """Errors after each move of a weight of this row, less those now."""
        others = point.logits.clone()
        others[row] = -torch.inf
        is_own = self.labels == row
        # an example of this class needs this logit above all others; another one needs it below the logit
        # of its label, and is lost anyway if that is not the largest of the others
        needed = torch.where(is_own, others.amax(0), others.gather(0, self.labels[None]).squeeze(0))
        side = torch.where(is_own, 1.0, -1.0)
        slack = side * (point.logits[row] - needed)
        is_open = is_own | (_margins(others, self.labels) > 0.0)
        near = (is_open & (slack.abs() <= self.reach * np.abs(moves).max())).nonzero().squeeze(1)
        slack, side = slack[near], side[near]
        now = int((slack <= 0.0).sum())
        changes = np.zeros(moves.shape)
        for start in range(0, moves.shape[1], _COLUMNS):
            part = slice(start, start + _COLUMNS)
            seen = self.columns[part][:, near] * side
            for way, steps in enumerate(moves[:, part]):
                places = np.flatnonzero(steps)
                moved = seen[places] * torch.from_numpy(steps[places]).to(seen)[:, None]
                changes[way, start + places] = ((slack + moved) <= 0.0).sum(1).cpu().numpy() - now
        return changes


def _margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the label less the largest other; the logits have one row per class."""
    own = logits.gather(0, labels[None])
    return (own - logits.scatter(0, labels[None], -torch.inf).amax(0)).squeeze(0)


def _lengths(levels: NDArray[np.int32]) -> NDArray[np.float64]:
    """Bits of the absolute levels, up to one above the largest, by their frequency."""
    sizes = np.bincount(np.abs(levels).ravel(), minlength=int(np.abs(levels).max()) + 2) + 0.5
    lengths: NDArray[np.float64] = np.log2(sizes.sum() / sizes) + (np.arange(len(sizes)) > 0)
    return lengths
