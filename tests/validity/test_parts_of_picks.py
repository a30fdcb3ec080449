"""C-15 on a part of the data, in worlds of known risk; what is broken is caught.

Inputs are cells with a probability of the label 1 each. The learner votes among the picks of a
cell, so that everything about it is known exactly.
"""

from functools import cache, partial

import numpy as np
import pytest
from worlds import rates

from codebound.bounds.held_out import picked_risk
from codebound.bounds.risk import PickedFacts

N, CELLS, DELTA, REPS = 80, 12, 0.2, 600
WORLDS = {
    "noisy": np.repeat([0.2, 0.8], CELLS // 2),
    "coins": np.full(CELLS, 0.5),
    "few ones": np.repeat([0.05, 0.4], CELLS // 2),
}


exceeds = partial(rates.exceeds, reps=REPS, delta=DELTA)


def votes(cells: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.bincount(cells, weights=2.0 * labels - 1.0, minlength=CELLS) + 0.25


def runs(world: np.ndarray, rounds: int):
    """Cells, labels, picks and the votes that were learned: in each round the two worst are picked."""
    rng = np.random.default_rng(0)
    for _ in range(REPS):
        cells = rng.integers(CELLS, size=N)
        labels = (rng.random(N) < world[cells]).astype(int)
        order = np.lexsort((labels, cells))
        cells, labels = cells[order], labels[order]
        picked = np.zeros(N, dtype=bool)
        for _ in range(rounds):
            margins = (2.0 * labels - 1.0) * votes(cells[picked], labels[picked])[cells]
            margins[picked] = np.inf
            picked[np.argsort(margins, kind="stable")[:2]] = True
        yield cells, labels, picked, votes(cells[picked], labels[picked])


def part_misses(world: np.ndarray, bound) -> int:
    """How often the bound on the errors on label 1 lies below their probability."""
    found = 0
    for cells, labels, picked, scores in runs(world, 10):
        is_one = labels == 1
        wrong = is_one & ~picked & (scores[cells] <= 0.0)
        risk = float(world[scores <= 0.0].sum() / world.sum())
        found += (
            bool(is_one.any())
            and bound(int((is_one & picked).sum()), int(wrong.sum()), int(is_one.sum())) < risk
        )
    return found


@cache
def honest(picks: int, errors: int, n: int) -> float:
    return picked_risk(PickedFacts(picks=picks, errors=errors, n=n, delta=DELTA)).value


def test_a_part_is_bounded_by_its_own_picks_errors_and_examples():
    for world in WORLDS.values():
        assert not exceeds(part_misses(world, honest))


@pytest.mark.parametrize(
    "broken",
    [lambda picks, errors, n: honest(0, errors, n), lambda picks, errors, n: honest(picks, errors, N)],
    ids=["picks not counted", "the whole sample"],
)
def test_a_part_without_its_picks_or_with_all_examples_is_caught(broken):
    assert any(exceeds(part_misses(world, broken)) for world in WORLDS.values())
