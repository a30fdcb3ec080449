"""Errata of Guha, Dubey, Huo 2023 on losses, margins and the deviation of outputs, with their numbers."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from codebound.bounds.occam import occam_hoeffding
from codebound.bounds.original import LayerBounds, margin_for_deviation, output_deviation
from codebound.bounds.risk import OccamFacts
from codebound_networks.train.rng import torch_stream
from codebound_papers.compress.compression_summary import exponential_deviation
from codebound_papers.guha23.magnitude import prune_randomly
from codebound_papers.measure.outputs import MarginReport, published_margin_loss


def margins(scores: np.ndarray) -> np.ndarray:
    """Of the first class."""
    return scores[..., 0] - scores[..., 1:].max(axis=-1)


def test_g_e1_the_printed_loss_is_largest_for_a_perfect_network():
    perfect, hopeless = MarginReport(np.full(9, 3.0)), MarginReport(np.full(9, -3.0))
    assert [published_margin_loss(report, 1.0) for report in (perfect, hopeless)] == [1.0, 0.0]
    assert [report.loss(1.0) for report in (perfect, hopeless)] == [0.0, 1.0]


def test_g_e2_scores_within_gamma_do_not_keep_the_label():
    gamma = 1.0
    f, g = np.array([1.5, 0.0]), np.array([0.55, 0.95])
    assert np.abs(f - g).max() == pytest.approx(0.95)
    assert margins(f) > gamma
    assert margins(g) < 0.0


@pytest.mark.parametrize("kind", ["sup", "l2"])
def test_g_e2_half_of_gamma_or_its_root_of_two_do(kind):
    """The largest change found for an l2 distance of 1 is 1.405, below sqrt(2); gamma itself would be 1."""
    stream = np.random.default_rng(0)
    f = stream.normal(size=(20_000, 5))
    g = f + stream.normal(size=f.shape) * stream.random((20_000, 1))
    size = np.abs(f - g).max(axis=1) if kind == "sup" else np.linalg.norm(f - g, axis=1)
    moved = ((margins(f) - margins(g)) / size).max()
    assert 0.99 * margin_for_deviation(1.0, norm=kind) < moved <= margin_for_deviation(1.0, norm=kind)


def test_g_e5_the_dimension_of_the_input_does_not_bound_its_norm():
    """A raw MNIST image may have norm 7140, above its dimension 784; scaled to [-1, 1] it has 28."""
    assert math.isclose(255 * math.sqrt(784), 7140)
    assert math.isclose(math.sqrt(784), 28)
    layer = LayerBounds(weight=1.0, weight_change=1.0)  # one layer A = I that is pruned away
    happens = 7140.0
    assert math.e * 784 * layer.weight_change < happens  # as printed
    assert (
        happens
        <= output_deviation([layer], input_norm=7140)
        < exponential_deviation([layer], input_norm=7140)
    )


def test_g_e7_the_norm_of_a_gaussian_matrix_has_the_deviation_of_its_entries():
    deviation = 0.01
    matrix = deviation * np.random.default_rng(0).normal(size=(200, 100))
    lower = (math.sqrt(200) + math.sqrt(100)) / 4
    assert deviation * lower <= np.linalg.norm(matrix, 2) < lower


def test_g_e11_a_bound_on_one_direction_is_none_on_the_norm():
    """A vector on a sphere is always as long as its radius, and seldom long in one direction: 1 in 6.31."""
    size = 200
    y = np.random.default_rng(0).normal(size=(20_000, size))
    y *= math.sqrt(size) / np.linalg.norm(y, axis=1, keepdims=True)  # the radius is sqrt(d) t, at t = 1
    one_direction = (y[:, 0] >= 1.0).mean()
    assert one_direction == pytest.approx(norm.sf(1.0), abs=0.01)
    assert 1.0 / norm.sf(1.0) == pytest.approx(6.31, abs=0.01)
    norm_reached = (np.linalg.norm(y, axis=1) >= math.sqrt(size) * (1 - 1e-12)).mean()
    assert one_direction < norm_reached == 1.0 <= 6.4 * one_direction


def test_g_e11_inputs_after_a_relu_are_not_spread_over_directions():
    """Half-Gaussian inputs have cosine 0.56 with the constant vector in every dimension, not 1/sqrt(d)."""
    for size in (500, 2000):
        x = np.maximum(np.random.default_rng(0).normal(size=(200, size)), 0.0)
        cosines = x.sum(axis=1) / (np.linalg.norm(x, axis=1) * math.sqrt(size))
        assert cosines.mean() == pytest.approx(0.56, abs=0.01)
        kappa = math.sqrt(math.log(200 / 0.01) / size)  # of a layer with one output, with a = b = 1
        assert (cosines > kappa).all()
        assert (cosines <= 1.0).all()  # what holds without kappa


def test_g_e12_the_exponent_of_the_proof_has_the_square_of_tau():
    """One classifier of risk 1/2: the training error is below risk - tau far too often with exp(-2 tau n)."""
    n, delta = 200, 0.05
    printed = math.log(1 / delta) / (2 * n)
    squared = occam_hoeffding(OccamFacts(errors=0, n=n, code_bits=0, delta=delta)).value
    assert squared == pytest.approx(
        math.sqrt(math.log(math.sqrt(1 / delta)) / n)
    )  # the display of the theorem
    assert binom.cdf(math.floor(n * (0.5 - printed)), n, 0.5) > 8 * delta
    assert binom.cdf(math.floor(n * (0.5 - squared)), n, 0.5) <= delta


def latala(squares: float, fourths: float, *, entries: int) -> tuple[float, float]:
    """The right side of lemma B.1 for a diagonal matrix, without its constant: printed, and of all pairs."""
    lines = 2.0 * math.sqrt(squares)
    return lines + fourths**0.25, lines + (entries * fourths) ** 0.25


@pytest.mark.parametrize("size", [1e2, 1e4, 1e6])
def test_g_e8_without_the_sum_over_rows_no_constant_makes_the_inequality_true(size):
    """On a diagonal of size^2 entries, each +-size with probability size^-2 and else 0: its norm is the
    largest entry. As printed the ratio grows like the root of the size; with all pairs it stays below 1.
    """
    entries = round(size**2)
    norm_mean = -size * math.expm1(entries * math.log1p(-1.0 / size**2))
    printed, true = latala(1.0, size**2, entries=entries)
    assert norm_mean / printed > 0.5 * math.sqrt(size)
    assert norm_mean / true < 1.0


def test_g_e28_the_bound_on_rounding_is_none_on_pruning():
    """rho J bounds what rounding does to a pruned matrix; what pruning did to the original is far above."""
    stream = torch_stream(0, "g-e28")
    original = torch.randn(60, 60, generator=stream)
    pruned = prune_randomly(original, strength=1.0, variance=1.0, generator=stream)
    step, nonzeros = 1e-4, int(pruned.count_nonzero())
    rounding, pruning = (
        float(torch.linalg.matrix_norm(change.double(), 2))
        for change in ((pruned / step).round() * step - pruned, pruned - original)
    )
    assert rounding <= 0.5 * step * math.sqrt(nonzeros) < step * nonzeros < pruning


def test_g_e30_what_holds_on_a_sample_need_not_hold_on_all_inputs():
    target, ticket = np.array([1.0, 0.0]), np.array([1.0, 5.0])
    sample = np.array([[0.3, 0.0], [-0.9, 0.0]])
    assert np.abs(sample @ (target - ticket)).max() == 0.0
    inputs = np.random.default_rng(0).normal(size=(1000, 2))
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    assert np.abs(inputs @ (target - ticket)).max() > 4.9
