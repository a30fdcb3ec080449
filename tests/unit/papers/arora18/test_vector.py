"""Linear classifiers with a margin: sparse rows, projected rows, and what their codes decode to."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from worlds.networks import gaussian_linear, unit_vector

from codebound.bits.stream import Stream
from codebound.run.errors import UsageError
from codebound_networks.codes.quantization import step_size
from codebound_networks.views.layers import view_of
from codebound_papers.arora18.vector import (
    VectorCompress,
    VectorProject,
    compress_vectors,
    discretize_vectors,
    keep_probabilities,
    nonzeros_bound,
    project_vectors,
    projected_rate,
    published_vector_count,
    sparse_rate,
    vector_count,
)
from codebound_papers.compress.codes import Projected

MARGINS = st.floats(0.05, 1.0)
ETAS = st.floats(0.01, 1.0)


@given(st.integers(1, 200), MARGINS, ETAS, st.integers(0, 99))
def test_probabilities_are_probabilities_and_their_sum_is_bounded(size, margin, eta, seed):
    p = keep_probabilities(unit_vector(size, seed), margin=margin, eta=eta)
    assert 0.0 <= float(p.min()) <= float(p.max()) <= 1.0
    assert float(p.sum()) <= nonzeros_bound(margin=margin, eta=eta) * (1 + 1e-9)


def test_vector_compress_is_unbiased():
    c = unit_vector(30, 0)
    mean = torch.stack([compress_vectors(c, margin=0.9, eta=0.9, seed=seed) for seed in range(4000)]).mean(
        dim=0
    )
    assert float((mean - c).abs().max()) < 5 * math.sqrt(0.9**3 / 2 / 4000)


def test_vector_project_is_unbiased():
    c = unit_vector(20, 0)
    mean = torch.stack([project_vectors(c, count=10, seed=seed) for seed in range(2000)]).mean(dim=0)
    assert float((mean - c).abs().max()) < 6 / math.sqrt(10 * 2000)


def test_vector_project_keeps_its_promise_with_rounding():
    margin, eta, size, repeats = 0.5, 0.1, 50, 300
    c = unit_vector(size, 0)
    count = vector_count(margin=margin, eta=eta)
    rounding = margin / (2 * math.sqrt(size * count))
    wrong = sum(
        abs(float(project_vectors(c, count=count, rounding=rounding, seed=seed) @ c) - 1.0) > margin
        for seed in range(repeats)
    )
    assert wrong / repeats <= eta


def test_rows_share_the_random_vectors():
    rows = torch.stack([unit_vector(9, 0), unit_vector(9, 1)])
    together = project_vectors(rows, count=7, seed=3)
    alone = project_vectors(rows[1], count=7, seed=3)
    assert torch.allclose(together[1], alone)


@given(MARGINS, st.floats(1e-9, 0.9))
def test_the_corrected_count_exceeds_the_published_one(margin, eta):
    assert vector_count(margin=margin, eta=eta) > published_vector_count(margin=margin, eta=eta)


def test_rates_shrink_with_the_sample():
    assert sparse_rate(margin=0.1, examples=10**5) == pytest.approx(0.1)
    assert projected_rate(margin=0.1, examples=10**6) == pytest.approx(0.01)


def test_sparse_rows_are_the_rows_of_lemma_5_on_the_grid():
    layer, margin = gaussian_linear(6, 900), 0.8
    found = VectorCompress(margin=margin, eta=1.0).compress(view_of("fc", layer), seed=1)
    scale = float(layer.weight.detach().norm(dim=1).max())
    expected = discretize_vectors(layer.weight.detach() / scale, margin=margin, eta=1.0, seed=1) * scale
    step = step_size(found.code.step)
    assert step <= scale * margin / (2 * math.sqrt(900)) < step * 2 ** (1 / 8) * 1.001
    assert 0 < int(found.weight.count_nonzero()) < 0.75 * found.weight.numel()
    assert bool(((found.weight != 0) | (expected.abs() < 1.5 * step)).all())
    assert float((found.weight - expected).abs().max()) <= step * 1.1


def test_projected_rows_are_integers_times_a_step_and_unbiased():
    layer = gaussian_linear(4, 60)
    found = VectorProject(count=25, levels=4001).compress(view_of("fc", layer), seed=7)
    assert isinstance(found.code, Projected)
    stream = Stream(7, "project")
    gaussians = np.array([stream.gaussian_quarters(60) for _ in range(25)], dtype=np.float64)
    z = found.code.inner
    exact = z.levels.astype(np.float64) @ gaussians * step_size(z.step)
    assert np.array_equal(found.weight.numpy(), exact.astype(np.float32))
    unrounded = layer.weight.detach().double().numpy() @ (gaussians.T / 4) @ (gaussians / 4) / 25
    assert np.abs(exact - unrounded).max() < 0.02 * np.abs(unrounded).max()


def test_rows_no_longer_than_the_numbers_are_rounded_themselves():
    layer = gaussian_linear(5, 8)
    found = VectorProject(count=8, levels=255).compress(view_of("fc", layer), seed=0)
    assert not isinstance(found.code, Projected)
    assert torch.allclose(found.weight, layer.weight, atol=0.02)


def test_margin_takes_the_place_of_count():
    assert VectorProject(margin=1.0, eta=1e-6).numbers == vector_count(margin=1.0, eta=1e-6)


def test_zero_and_huge_weights_are_taken():
    layer = gaussian_linear(5, 8)
    for scale in (0.0, 1e-20, 1e20):
        with torch.no_grad():
            scaled = torch.nn.Linear(8, 5)
            scaled.weight.copy_(layer.weight * scale)
        for algorithm in (VectorCompress(), VectorProject(count=3)):
            found = algorithm.compress(view_of("fc", scaled), seed=0)
            assert bool(found.weight.any()) == (scale > 0.0)


@pytest.mark.parametrize(("margin", "eta"), [(0.0, 0.1), (1.5, 0.1), (0.5, 0.0), (0.5, 1.5), (math.nan, 0.1)])
def test_margins_out_of_range_are_refused(margin, eta):
    with pytest.raises(UsageError, match="a margin is in"):
        compress_vectors(torch.ones(2), margin=margin, eta=eta)
    with pytest.raises(UsageError, match="a margin is in"):
        VectorCompress(margin=margin, eta=eta)


@pytest.mark.parametrize(("count", "rounding"), [(0, 0.0), (3, -1.0)])
def test_no_projection_is_refused(count, rounding):
    with pytest.raises(UsageError):
        project_vectors(torch.ones(2), count=count, rounding=rounding)
