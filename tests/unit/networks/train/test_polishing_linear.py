"""Local search on a sparse layer beside brute force: every count, every move, and where it ends."""

import itertools

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.modes import encode_tensors
from codebound_networks.train.polishing import _LinearSearch, polish_linear


def problem(seed: int, n: int = 60, size: int = 5, classes: int = 3):
    """Inputs in quarters, so that logits are exact and ties occur; labels with noise; sparse levels."""
    rng = np.random.default_rng(seed)
    x = np.round(4.0 * rng.normal(size=(n, size))) / 4.0
    y = (x[:, :classes] + 0.3 * rng.normal(size=(n, classes))).argmax(1)
    levels = rng.integers(-2, 3, (classes, size)) * (rng.random((classes, size)) < 0.4)
    return torch.from_numpy(x).half(), torch.from_numpy(y), levels.astype(np.int32)


def errors_of(x: torch.Tensor, y: torch.Tensor, levels: np.ndarray) -> int:
    wrong = 0
    for row, label in zip(x.double().numpy(), y.tolist(), strict=True):
        logits = levels @ row
        wrong += any(logits[other] >= logits[label] for other in range(len(levels)) if other != label)
    return wrong


def cost(x: torch.Tensor, y: torch.Tensor, levels: np.ndarray, price: float) -> float:
    return errors_of(x, y, levels) + price * encode_tensors([best_tensor_code(levels, step=0)]).length


@given(st.integers(0, 10**6))
@examples(15)
def test_every_count_is_that_of_the_changed_layer(seed):
    x, y, levels = problem(seed, n=40, size=5)
    search = _LinearSearch(x, y, 0.5, ())
    point = search.point(levels)
    assert point.errors == errors_of(x, y, levels)
    moves = np.array([[1] * 5, [-1] * 5, [0, 3, 0, -2, 1]], dtype=np.int32)
    for row in range(len(levels)):
        found = search.count_errors(point, row, moves)
        for way, column in itertools.product(range(3), range(5)):
            changed = levels.copy()
            changed[row, column] += moves[way, column]
            assert found[way, column] == errors_of(x, y, changed) - point.errors


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 2.0]), st.integers(0, 3))
@examples(10)
def test_it_never_makes_errors_and_bits_worse(seed, price, counts):
    x, y, levels = problem(seed)
    before = levels.copy()
    found = polish_linear(x, y, levels, price=price, counts=counts)
    assert (levels == before).all()
    assert cost(x, y, found, price) <= cost(x, y, levels, price)


def test_a_search_that_accepts_everything_would_be_noticed():
    worse = 0
    for seed in range(6):
        x, y, levels = problem(seed)
        broken = levels + np.random.default_rng(seed).choice([-1, 1], levels.shape).astype(np.int32)
        worse += cost(x, y, broken, 0.3) > cost(x, y, levels, 0.3)
    assert worse >= 2


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_where_it_ends_no_change_of_one_weight_helps(seed):
    x, y, levels = problem(seed)
    found = polish_linear(x, y, levels, price=0.3, counts=150)
    end = cost(x, y, found, 0.3)
    assert end < cost(x, y, levels, 0.3)
    for row, column in np.ndindex(*levels.shape):
        for level in {found[row, column] - 1, found[row, column] + 1, 0}:
            changed = found.copy()
            changed[row, column] = level
            assert end <= cost(x, y, changed, 0.3)


def test_pairs_are_tried_when_no_single_change_helps():
    """Twenty examples need a weight moved from one column to the other: each half of it alone loses."""
    x = torch.tensor([[1.0, 0.9]] * 30 + [[-1.0, 1.1]] * 20)
    y = torch.tensor([0] * 50)
    levels = np.array([[1, 0], [0, 0]], dtype=np.int32)
    found = polish_linear(x, y, levels, price=4.0, counts=50)
    assert errors_of(x, y, levels) == 20
    assert errors_of(x, y, found) == 0


def test_the_same_arguments_find_the_same_and_no_counts_nothing():
    x, y, levels = problem(1)
    first, again = (polish_linear(x, y, levels, price=0.3, counts=3) for _ in range(2))
    assert (first == again).all()
    assert (polish_linear(x, y, levels, price=0.3, counts=0) == levels).all()


def test_it_tells_how_far_it_is():
    x, y, levels = problem(1)
    told = []
    polish_linear(x, y, levels, price=0.3, counts=5, progress=lambda *seen: told.append(seen))
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert all(done <= total == 5 and "errors" in note for done, total, note in told)
