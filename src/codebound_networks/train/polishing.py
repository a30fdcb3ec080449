"""Local search on trained integers: the errors themselves are counted, and the bits of the code.

Training sees a smooth stand-in for both. Moving one integer, or two, by one changes a few dozen decisions;
what lowers errors and bits together is kept.
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
    """Integers near the given ones with fewer errors + price x bits. Those given, if none are found.

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
        """A better point, counted anew, and the number of candidates tried. ``start`` if none is found."""
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


def _margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the label less the largest other. The logits have one row per class."""
    own = logits.gather(0, labels[None])
    return (own - logits.scatter(0, labels[None], -torch.inf).amax(0)).squeeze(0)
