"""Matrix-Project: against dense sign matrices, within its promise, bit for bit; the induction of lemma 3."""

import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from worlds.networks import gaussian_linear, gaussian_mlp

from codebound.bits.stream import Stream
from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound_networks.codes.arithmetic import Writer
from codebound_networks.codes.quantization import step_size
from codebound_networks.reading.walk import wrap
from codebound_networks.views.layers import view_of
from codebound_papers.arora18.projection import MatrixProject, induction, project_matrix
from codebound_papers.arora18.projection_plan import (
    eta_for_pairs,
    gaussian_count,
    published_count,
    sign_count,
)
from codebound_papers.arora18.vector import VectorProject
from codebound_papers.compress.codes import Projected
from codebound_papers.compress.compressors import FromInitial, compress
from codebound_papers.compress.methods import project

EPSILONS = st.floats(0.01, 1.0)
ETAS = st.floats(1e-9, 0.9)


def dense_signs(count: int, size: int, seed: int) -> np.ndarray:
    """Row i of the helper starts with a new word: written out, one row at a time."""
    stream = Stream(seed, "project")
    return np.array([stream.signs(size) for _ in range(count)], dtype=np.float64)


@given(st.integers(1, 9), st.integers(1, 90), st.integers(1, 40), st.integers(0, 9))
def test_equals_the_product_with_dense_sign_matrices(rows, columns, count, seed):
    matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)).double()
    signs = dense_signs(count, rows * columns, seed)
    expected = (signs.T @ (signs @ matrix.flatten().numpy()) / count).reshape(rows, columns)
    assert np.allclose(project_matrix(matrix, count=count, seed=seed).numpy(), expected)


def test_blocks_change_nothing(monkeypatch):
    matrix = torch.randn(7, 13, generator=torch.Generator().manual_seed(0)).double()
    whole = project_matrix(matrix, count=50, seed=3)
    monkeypatch.setattr(sys.modules["codebound_papers.arora18.projection"], "_BLOCK_ENTRIES", 300)
    assert torch.allclose(project_matrix(matrix, count=50, seed=3), whole)


def test_is_unbiased():
    matrix = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).double()
    mean = torch.stack([project_matrix(matrix, count=10, seed=seed) for seed in range(2000)]).mean(dim=0)
    spread = float(matrix.norm()) / math.sqrt(10 * 2000)
    assert float((mean - matrix).abs().max()) < 5 * spread


@pytest.mark.thorough
def test_lemma_2_holds_for_all_pairs_at_once():
    """All 6 pairs of a matrix U with 3 rows and a vector x; teeth: the published count for one direction."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(6, 8, generator=generator).double()
    pairs = [
        (torch.randn(3, 6, generator=generator).double(), torch.randn(8, generator=generator).double())
        for _ in range(5)
    ]
    left, _, right = torch.linalg.svd(matrix)
    pairs.append((left[:, :1].T.repeat(3, 1), right[0]))
    epsilon, delta, repeats = 0.5, 0.05, 600

    def failures(count: int) -> int:
        failed = 0
        for seed in range(repeats):
            change = project_matrix(matrix, count=count, seed=seed) - matrix
            failed += any(
                float((u @ change @ x).norm()) > epsilon * float(matrix.norm() * u.norm() * x.norm())
                for u, x in pairs
            )
        return failed

    eta = eta_for_pairs(delta, pairs=len(pairs), rows=3)
    assert eta == pytest.approx(0.05 / 18)
    assert failures(sign_count(epsilon, eta)) / repeats <= delta
    assert binom.sf(failures(3) - 1, repeats, delta) < 1e-9


@given(EPSILONS, ETAS)
def test_corrected_counts_exceed_the_published_one(epsilon, eta):
    published = published_count(epsilon, eta)
    assert sign_count(epsilon, eta) > 3 * math.log(1 / eta) / epsilon**2
    assert min(sign_count(epsilon, eta), gaussian_count(epsilon, eta)) >= published


@pytest.mark.parametrize(
    ("epsilon", "eta"), [(0.0, 0.1), (1.1, 0.1), (0.5, 0.0), (0.5, 1.0), (math.nan, 0.1)]
)
def test_accuracies_out_of_range_are_refused(epsilon, eta):
    for count in (published_count, sign_count, gaussian_count):
        with pytest.raises(UsageError, match="epsilon is in"):
            count(epsilon, eta)


def test_decoded_weights_are_integers_times_a_step_and_close_to_the_unrounded_estimate():
    layer = gaussian_linear(12, 30)
    found = MatrixProject(count=40, levels=4001).compress(view_of("fc", layer), seed=5)
    assert isinstance(found.code, Projected)
    z = found.code.inner
    signs = dense_signs(40, 360, 5)
    exact = (z.levels.astype(np.float64) @ signs).reshape(12, 30) * step_size(z.step)
    assert np.array_equal(found.weight.numpy(), exact.astype(np.float32))
    unrounded = project_matrix(layer.weight, count=40, seed=5).numpy()
    # rounding moves at most half a step per number, times the norm of the sign matrix
    allowed = step_size(z.step) / 2 * math.sqrt(40) * np.linalg.norm(signs, 2)
    assert np.linalg.norm(exact - unrounded) <= allowed


def test_fewer_weights_than_numbers_are_rounded_themselves():
    layer = gaussian_linear(5, 4)
    found = MatrixProject(count=20, levels=255).compress(view_of("fc", layer), seed=0)
    assert not isinstance(found.code, Projected)
    assert torch.allclose(found.weight, layer.weight, atol=0.02)


def test_epsilon_takes_the_place_of_count():
    assert MatrixProject(epsilon=0.1, eta=1e-6).numbers == 6516
    assert MatrixProject(count=7).numbers == 7


def test_too_much_work_is_carried_with_the_reason():
    compressed = project(wrap(torch.nn.Sequential(gaussian_linear(400, 300))), count=70_000)
    assert "70,000 numbers for 120,000 weights are too much for a message" in compressed.carried["0"]
    with pytest.raises(UnsupportedLayerError, match="layer fc"):
        MatrixProject(count=70_000).compress(view_of("fc", gaussian_linear(400, 300)), seed=0)


@pytest.mark.parametrize("algorithm", [MatrixProject(count=20), VectorProject(count=20)])
def test_the_work_that_is_refused_is_the_work_that_a_message_charges(algorithm, monkeypatch):
    layer = view_of("fc", gaussian_linear(3, 50))
    writer = Writer()
    algorithm.compress(layer, seed=0).code.code(writer)
    monkeypatch.setattr(sys.modules["codebound_papers.arora18.projection"], "MAX_WORK", writer._work)
    algorithm.compress(layer, seed=0)
    monkeypatch.setattr(sys.modules["codebound_papers.arora18.projection"], "MAX_WORK", writer._work - 1)
    with pytest.raises(UnsupportedLayerError, match="too much for a message"):
        algorithm.compress(layer, seed=0)


def test_zero_weights_stay_zero():
    layer = torch.nn.Linear(30, 20)
    torch.nn.init.zeros_(layer.weight)
    assert not MatrixProject(count=9).compress(view_of("fc", layer), seed=0).weight.any()


@pytest.mark.parametrize("count", [0, -3])
def test_no_numbers_are_refused(count):
    with pytest.raises(UsageError):
        project_matrix(torch.ones(2, 2), count=count)
    with pytest.raises(UsageError, match="count is at least 1"):
        project(wrap(torch.nn.Sequential(gaussian_linear(4, 4))), count=count)


@pytest.mark.parametrize("levels", [1, 4])
def test_levels_that_are_no_grid_are_refused(levels):
    with pytest.raises(UsageError, match="odd and at least 3"):
        MatrixProject(levels=levels)


def test_distance_to_initialisation_codes_the_difference():
    start = gaussian_linear(30, 40, seed=1)
    trained = gaussian_linear(30, 40, seed=1)
    change = 0.01 * torch.randn(30, 40, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        trained.weight.add_(change)
    network, initial = wrap(torch.nn.Sequential(trained)), wrap(torch.nn.Sequential(start))
    algorithm = FromInitial(MatrixProject(count=600), initial)
    compressed = compress(network, algorithm, seed=4)
    g = compressed.module()[0].weight.detach()
    plain = project(network, count=600, seed=4).module()[0].weight.detach()
    weight = trained.weight.detach()
    assert float((g - weight).norm()) < 0.02 * float((plain - weight).norm())
    # one rounding, of the sum: docs/format.md, 5.3
    base = start.weight.detach().numpy()
    expected = (compressed.layers[0].code.values() + base.astype(np.float64)).astype(np.float32)
    assert np.array_equal(g.numpy(), expected)
    assert torch.equal(compressed.module()[0].bias, trained.bias)


def test_another_architecture_is_no_base():
    network, initial = (
        wrap(torch.nn.Sequential(gaussian_linear(4, 5))),
        wrap(torch.nn.Sequential(gaussian_linear(5, 4))),
    )
    compressed = compress(network, FromInitial(MatrixProject(), initial))
    assert "the initial network has no such layer of shape (4, 5)" in compressed.carried["0"]


def test_induction_measures_the_largest_relative_deviation_of_all_later_layers():
    model = gaussian_mlp(8, 12, 10, 4)
    inputs = torch.randn(20, 8, generator=torch.Generator().manual_seed(1))
    compressed = project(wrap(model), count=60, seed=0)
    originals = [model[0].weight, model[2].weight, model[4].weight]
    replacements = [layer.weight for layer in compressed.layers]

    def pre_activations(weights: list[torch.Tensor]) -> list[torch.Tensor]:
        found, x = [], inputs
        for weight in weights:
            found.append(x @ weight.detach().T)
            x = found[-1].relu()
        return found

    x = pre_activations(originals)
    for i, step in enumerate(induction(compressed, inputs, epsilon=0.6, batch=7)):
        moved = pre_activations(replacements[: i + 1] + originals[i + 1 :])
        ratios = [float(((b - a).norm(dim=1) / a.norm(dim=1)).max()) for a, b in zip(x, moved, strict=True)]
        assert step.deviation == pytest.approx(max(ratios[i:]), rel=1e-4)
        assert step.worst == ("0", "2", "4")[i:][ratios[i:].index(max(ratios[i:]))]
        assert step.allowed == pytest.approx(0.6 * (i + 1) / 3)
        assert step.holds == (step.deviation <= step.allowed)


def test_the_induction_holds_for_fine_rounding_and_fails_for_few_numbers():
    """The second is the teeth of the first."""
    network, inputs = (
        wrap(gaussian_mlp(8, 12, 10, 4)),
        torch.randn(30, 8, generator=torch.Generator().manual_seed(1)),
    )
    fine = compress(network, MatrixProject(count=10**4, levels=4001))
    assert all(step.holds for step in induction(fine, inputs, epsilon=0.1))
    assert not any(step.holds for step in induction(project(network, count=5), inputs, epsilon=0.1))


def test_layers_that_are_carried_change_nothing():
    network, inputs = (
        wrap(gaussian_mlp(8, 12, 4)),
        torch.randn(5, 8, generator=torch.Generator().manual_seed(1)),
    )
    compressed = compress(network, MatrixProject(count=20), layers=["2"])
    first, second = induction(compressed, inputs, epsilon=0.1)
    assert first.deviation == 0.0 < second.deviation
    assert first.holds


def test_a_dead_layer_that_wakes_up_is_infinitely_far_off():
    model = gaussian_mlp(4, 5, 3)
    with torch.no_grad():
        model[0].weight.copy_(-model[0].weight.abs())
    compressed = project(wrap(model), count=2)
    steps = induction(compressed, torch.rand(6, 4, generator=torch.Generator().manual_seed(0)), epsilon=1.0)
    assert steps[0].deviation == math.inf
    assert not steps[0].holds
