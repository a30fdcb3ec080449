"""Local search on the integers of a sparse linear layer: errors are counted, and the bits of its code.

Changing one weight moves one logit of every example by a known amount, so all changes of one weight can be
counted exactly in the time of a few evaluations of the layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.coding.choose import best_tensor_code
from codebound.coding.modes import encode_tensors
from codebound.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

_ATTEMPTS = 60  # most promising changes that are looked at
_COLUMNS = 64  # weights whose changes are counted at a time


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

    Args:
        inputs: What the layer sees, one row per example.
        labels: Labels.
        levels: Where to start: one row of integers per class.
        price: Errors that one bit is worth.
        counts: Most counts of all changes.
        strides: Passed to ``best_tensor_code``.
        progress: Told the counts made.

    Example:
        >>> inputs, labels = torch.eye(2).repeat(50, 1), torch.tensor([0, 1]).repeat(50)
        >>> polish_linear(inputs, labels, np.array([[1, 1], [0, 0]], np.int32), price=0.5, counts=2).tolist()
        [[1, -1], [0, 0]]
    """
    search = _Search(inputs, labels, price, strides)
    start = here = search.point(levels)
    done = 0

    def report() -> None:
        note = f"{here.errors} errors, {here.bits} bits (from {start.errors}, {start.bits})"
        progress(done, counts, note)

    while done < counts:
        before, changes, done = here, search.promising(here), done + 1
        for change in changes:
            here = min(here, search.after(here, change), key=_cost)
        for change in changes if here is before else ():
            if done < counts:
                report()
                between, done = search.after(here, change), done + 1
                here = min(here, search.after(between, search.promising(between)[0]), key=_cost)
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
class _Point:
    """Levels and what they cost; the logits have one row per class."""

    levels: NDArray[np.int32]
    logits: Tensor
    errors: int
    bits: int
    cost: float


class _Search:
    def __init__(self, inputs: Tensor, labels: Tensor, price: float, strides: Sequence[int]) -> None:
        self.columns = inputs.T.float().contiguous()
        self.labels, self.price, self.strides = labels, price, strides
        self.reach = float(self.columns.abs().max())

    def point(self, levels: NDArray[np.int32], logits: Tensor | None = None) -> _Point:
        if logits is None:
            logits = torch.from_numpy(levels).to(self.columns) @ self.columns
        errors = int((_margins(logits, self.labels) <= 0.0).sum())
        bits = encode_tensors([best_tensor_code(levels, step=0, strides=self.strides)]).length
        return _Point(levels, logits, errors, bits, errors + self.price * bits)

    def after(self, point: _Point, change: _Change) -> _Point:
        levels, logits = point.levels.copy(), point.logits.clone()
        levels[change.row, change.column] = change.level
        move = change.level - int(point.levels[change.row, change.column])
        logits[change.row] += move * self.columns[change.column]
        return self.point(levels, logits)

    def promising(self, point: _Point) -> list[_Change]:
        """The changes that cost least, the best first; bits are those of a code without contexts here."""
        found: list[tuple[float, _Change]] = []
        bits = _lengths(point.levels)
        for row, levels in enumerate(point.levels):
            moved = np.stack([levels + 1, levels - 1, np.where(np.abs(levels) > 1, 0, levels)])
            costs = self.counted(point, row, moved - levels) + self.price * (
                bits[np.abs(moved)] - bits[np.abs(levels)]
            )
            costs[moved == levels] = np.inf
            for place in np.argsort(costs, axis=None, kind="stable")[:_ATTEMPTS]:
                way, column = divmod(int(place), len(levels))
                change = _Change(row, column, int(moved[way, column]))
                found.append((float(costs[way, column]), change))
        return [change for _, change in sorted(found, key=lambda each: each[0])[:_ATTEMPTS]]

    def counted(self, point: _Point, row: int, moves: NDArray[np.int32]) -> NDArray[np.float64]:
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


def _cost(point: _Point) -> float:
    return point.cost


def _margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the label less the largest other; the logits have one row per class."""
    own = logits.gather(0, labels[None])
    return (own - logits.scatter(0, labels[None], -torch.inf).amax(0)).squeeze(0)


def _lengths(levels: NDArray[np.int32]) -> NDArray[np.float64]:
    """Bits of the absolute levels, up to one above the largest, by their frequency."""
    sizes = np.bincount(np.abs(levels).ravel(), minlength=int(np.abs(levels).max()) + 2) + 0.5
    lengths: NDArray[np.float64] = np.log2(sizes.sum() / sizes) + (np.arange(len(sizes)) > 0)
    return lengths
