"""Local search on trained integers beside brute force: it never loses, and where it ends no move helps."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound.sample.dataset import DeviceData, Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import Linear
from codebound_networks.codes.bell import MAX_BELL_LEVEL, best_bell
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.train import polishing as module
from codebound_networks.train.polishing import polish
from codebound_networks.train.subspace import Features, Learner, SubspaceSettings

CHAIN = Chain((4,), (Linear(6, False), Linear(3, False)))
LEARNER = Learner(CHAIN)
PLAN = SubspaceSettings(dimension=6, step=0)


def drawn_features(n: int, seed: int) -> Features:
    """Three noisy classes; half precision, as features are."""
    stream = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=stream).half().float()
    y = (x[:, :3] + 0.5 * torch.randn(n, 3, generator=stream)).argmax(1)
    return Features.of(LEARNER, DeviceData(x, y, Scaling()))


def cost(integers: np.ndarray, features: Features, price: float) -> float:
    """By the weights that a decoder returns, in float64."""
    code = Subspace(best_tensor_code(integers, step=0), PLAN.entries_log2, PLAN.step, PLAN.zero_head, 0)
    first, last = (
        each.astype(np.float64) for each in code.weights(CHAIN.tensor_shapes(), LEARNER.head).values()
    )
    logits = np.maximum(features.shifts[0].double().numpy() @ first.T, 0.0) @ last.T
    labels = features.labels.numpy()
    own = logits[np.arange(len(labels)), labels]
    logits[np.arange(len(labels)), labels] = -np.inf
    return float((own <= logits.max(1)).sum()) + price * best_bell(integers, 0)[0]


def start_at(seed: int) -> np.ndarray:
    integers = np.random.default_rng(seed).integers(-3, 4, PLAN.dimension).astype(np.int32)
    integers[0] = 2  # not all zero: then all logits tie
    return integers


def accept_everything(integers: np.ndarray, seed: int) -> np.ndarray:
    """What a search would return that never asks what a move costs."""
    return (integers + np.random.default_rng(seed).choice([-1, 1], len(integers))).astype(np.int32)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 2.0]), st.integers(0, 60))
@examples(25)
def test_it_never_makes_errors_and_bits_worse(seed, price, evaluations):
    features, start = drawn_features(80, seed), start_at(seed)
    found = polish(features, replace(PLAN, price=price), start, evaluations=evaluations)
    assert found.dtype == np.int32
    assert cost(found, features, price) <= cost(start, features, price) + 1e-9


def test_a_search_that_accepts_everything_would_be_noticed():
    worse = 0
    for seed in range(10):
        features = drawn_features(80, seed)
        start = polish(features, replace(PLAN, price=0.3), start_at(seed), evaluations=30)
        worse += cost(accept_everything(start, seed), features, 0.3) > cost(start, features, 0.3) + 1e-9
    assert worse >= 5


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_where_it_ends_no_single_move_and_no_pair_helps(seed, monkeypatch):
    monkeypatch.setattr(module, "_SINGLES", 2.0)  # all moves, judged by all examples
    monkeypatch.setattr(module._Search, "near", lambda search, point: search.everything)
    features, price = drawn_features(60, seed), 0.3
    found = polish(features, replace(PLAN, price=price), start_at(seed), evaluations=10_000)
    end = cost(found, features, price)
    moves = [sign * unit for unit in np.eye(PLAN.dimension, dtype=np.int32) for sign in (1, -1)]
    singles = [cost(found + move, features, price) for move in moves]
    pairs = [
        cost(found + a + b, features, price) for a, b in itertools.combinations(moves, 2) if (a + b).any()
    ]
    assert end <= min(singles) + 1e-9
    assert end <= min(pairs) + 1e-9


def test_every_move_is_judged_as_brute_force_judges_it(monkeypatch):
    monkeypatch.setattr(module, "_SINGLES", 2.0)
    monkeypatch.setattr(module._Search, "near", lambda search, point: search.everything)
    features, price, dimension = drawn_features(60, 1), 0.3, PLAN.dimension
    end = polish(features, replace(PLAN, price=price), start_at(1), evaluations=10_000)
    search = module._Search(features, replace(PLAN, price=price), None)
    climb = module._Climb(search, search.count(torch.from_numpy(end).float()), lambda tried: None)
    moves = np.concatenate([np.eye(dimension, dtype=np.int32), -np.eye(dimension, dtype=np.int32)])
    for number, move in enumerate(moves):
        climb.attempt((number,))  # none helps, so none is made
        expected = cost(end + move, features, price) - cost(end, features, price)
        assert climb.cost_of[number] == pytest.approx(expected, abs=1e-9)


def test_the_same_arguments_find_the_same_and_no_evaluations_nothing():
    features, start = drawn_features(80, 3), start_at(3)
    first, again = (polish(features, replace(PLAN, price=0.3), start, evaluations=50) for _ in range(2))
    assert (first == again).all()
    assert (polish(features, replace(PLAN, price=0.3), start, evaluations=0) == start).all()


def test_integers_without_a_short_code_are_left_alone():
    start = start_at(0)
    start[1] = MAX_BELL_LEVEL + 1
    assert (polish(drawn_features(40, 0), replace(PLAN, price=0.3), start, evaluations=50) == start).all()


@pytest.mark.thorough
def test_bits_are_saved_where_no_decision_is_near(monkeypatch):
    """All margins are larger than a move can change; the nearest examples judge all the same."""
    features = drawn_features(80, 2)
    start = polish(features, replace(PLAN, price=0.3), start_at(2), evaluations=400)
    search = module._Search(features, replace(PLAN, price=0.3), None)
    right = search.count(torch.from_numpy(start).float())
    clear = right.margins > 0.5 * right.margins.max()
    easy = Features(LEARNER, tuple(view[clear] for view in features.shifts), features.labels[clear])
    monkeypatch.setattr(module, "_LEAST_NEAR", 3)
    found = polish(easy, replace(PLAN, price=0.3), start * 20, evaluations=400)
    assert cost(found, easy, 0.3) < cost(start * 20, easy, 0.3)


def test_it_tells_of_every_candidate():
    told = []
    polish(
        drawn_features(80, 3),
        replace(PLAN, price=0.3),
        start_at(3),
        evaluations=50,
        progress=lambda *seen: told.append(seen),
    )
    assert [done for done, _, _ in told] == list(range(1, len(told) + 1))
    assert 5 < len(told) <= 50
    assert all(total == 50 and "errors" in note for _, total, note in told)
