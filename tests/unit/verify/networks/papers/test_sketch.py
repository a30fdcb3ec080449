"""Independence of columns of zeros and ones: never by chance, and none too long a way to it."""

import numpy as np
import pytest

from codebound_verify.networks.papers import sketch
from codebound_verify.networks.papers.sketch import are_independent


def cycle(n: int) -> np.ndarray:
    return np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)


def random_cells(seed: int, columns: int, rows: int, ones: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.stack([np.sort(random.choice(rows, ones, replace=False)) for _ in range(columns)])


LARGE = pytest.mark.thorough


@pytest.mark.parametrize(
    ("n", "is_so"),
    [
        *((3, True), (4, False), (201, True), (200, False)),
        *(pytest.param(n, n % 2 == 1, marks=LARGE) for n in (999, 1000)),
    ],
)
def test_cycles(n, is_so):
    """Their determinant is 2 or 0, by whether they are odd."""
    assert are_independent(cycle(n)) == is_so


def test_a_core_is_limited_and_a_way_to_it_is_not():
    assert not are_independent(cycle(1001))
    path = np.stack([np.arange(4000), np.arange(1, 4001)], axis=1)
    assert are_independent(path)
    assert are_independent(np.vstack([path, 5000 + cycle(7)]))
    assert not are_independent(np.vstack([path, 5000 + cycle(8)]))


@pytest.mark.parametrize(
    ("columns", "rows", "ones"),
    [
        (300, 340, 4),
        (300, 340, 9),
        *(pytest.param(*sizes, marks=LARGE) for sizes in ((600, 680, 4), (600, 680, 9), (500, 3000, 25))),
    ],
)
def test_random_columns_are_independent(columns, rows, ones):
    cells = random_cells(0, columns, rows, ones)
    assert are_independent(cells)
    assert sketch._has_full_rank(cells)
    assert not sketch._has_full_rank(np.vstack([cells, cells[:1]]))


def test_small_ones_have_the_rank_of_the_dense_matrix():
    for seed in range(200):
        columns, rows, ones = np.random.default_rng(seed).integers((1, 3, 1), (30, 40, 4)).tolist()
        cells = random_cells(seed, columns, rows, ones)
        dense = np.zeros((rows, columns))
        dense[cells.T, np.arange(columns)] = 1
        is_so = np.linalg.matrix_rank(dense) == columns
        assert are_independent(cells) == sketch._has_full_rank(cells) == is_so
