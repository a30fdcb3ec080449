"""Errata of Guha, Dubey, Huo 2023 on pruning, rounding, counting and lottery tickets, with their numbers."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from codebound.bounds.original import LayerBounds, output_deviation
from codebound_networks.train.rng import torch_stream
from codebound_papers.compress.compression_summary import exponential_deviation
from codebound_papers.compress.compressors import number_of_levels, rounding_bound
from codebound_papers.guha23.lottery import least_sketch_side, published_sketch_side
from codebound_papers.guha23.magnitude import (
    binomial_tail,
    count_bits,
    prune_randomly,
    published_pruned_probability,
)
from codebound_papers.guha23.masks import ticket_bits
from codebound_papers.guha23.pruning import (
    change_moments,
    expected_change_norm,
    expected_nonzeros,
    kept_share,
    least_kept_share,
    published_rounding_bound,
    strength_for,
)
from codebound_papers.guha23.sketching import published_count_nats


@pytest.mark.parametrize("strength", [0.01, 0.1, 1.0, 5.0, 50.0])
def test_g_e3_chi_is_the_probability_of_being_kept(strength):
    """G-E3 and G-Lem4.1 by quadrature: the integral of Eq. (11) is 1 - chi, not chi."""
    variance = 0.37

    def pruned_moment(power: int) -> float:
        def weighted(a: float) -> float:
            density = math.exp(-a * a / (2 * variance)) / math.sqrt(2 * math.pi * variance)
            return a**power * math.exp(-a * a / (strength * variance)) * density

        return quad(weighted, -8, 8, points=[0.0], epsabs=1e-13)[0]

    assert pruned_moment(0) == pytest.approx(1.0 - kept_share(strength), abs=1e-10)
    assert abs(pruned_moment(0) - kept_share(strength)) > 0.05
    assert [pruned_moment(2), pruned_moment(4)] == pytest.approx(
        change_moments(strength, variance), abs=1e-10
    )


def test_g_e4_the_diagonal_doubles_the_count():
    found = expected_nonzeros(784, 784, strength=strength_for(0.001))
    assert round(found) == 1398
    assert round(0.001 * 784 * 784) == 615


@pytest.mark.few(2)
@pytest.mark.parametrize(("strength", "ratio"), [(0.05, 0.0617), (0.2, 0.1656), (1.0, 0.439)])
def test_g_e6_the_change_of_a_gaussian_matrix_is_a_fixed_share_of_it(strength, ratio):
    """Also G-Lem4.2: with C = 1, Gamma is between 1.7 and 2.1 times the measured norm."""
    entries = torch.randn(784, 784, generator=torch_stream(0, "g-e6"))
    pruned = prune_randomly(entries, strength=strength, variance=1.0, generator=torch_stream(1, "g-e6"))
    change, norm = (float(torch.linalg.matrix_norm(m, ord=2)) for m in (entries - pruned, entries))
    assert (strength / (strength + 2.0)) ** 0.75 == pytest.approx(ratio, rel=2e-3)
    assert change / norm == pytest.approx(ratio, rel=0.03)
    assert 1.7 < expected_change_norm(784, 784, strength=strength, variance=1.0) / change < 2.1


def test_g_e6_the_condition_of_lemma_4_3_forbids_real_sparsity():
    assert [round(least_kept_share(depth), 2) for depth in (2, 3, 5, 10)] == [0.37, 0.52, 0.66, 0.78]
    assert round(least_kept_share(5, slack=10.0), 3) == 0.926
    # at the least share the condition ||Delta|| <= ||A|| / L holds with equality
    strength = strength_for(least_kept_share(5))
    assert (strength / (strength + 2.0)) ** 0.75 == pytest.approx(1 / 5)


def test_g_e9_rounding_is_bounded_by_the_root_of_the_count():
    assert rounding_bound(0.05, nonzeros=5972) == pytest.approx(1.93, abs=0.005)
    assert published_rounding_bound(0.05, nonzeros=5972) == pytest.approx(298.6, abs=0.05)
    stream = np.random.default_rng(0)
    matrix = stream.normal(size=(200, 300)) * (stream.random((200, 300)) < 0.1)
    change = np.round(matrix / 0.05) * 0.05 - matrix
    assert np.linalg.norm(change, 2) == pytest.approx(0.150, abs=0.01)


def test_g_e10_the_number_of_levels_depends_on_the_range():
    assert number_of_levels(1.0, 0.1) == 21
    assert number_of_levels(8.0, 2.0) == 9
    assert math.log(1.0 / 2.0) < 0.0  # what the published count charges for each weight at rho = 2
    assert published_count_nats(4, nonzeros=4, size=2.0) < 0.0 < count_bits(4, nonzeros=4, levels=9)


def test_g_e13_the_count_holds_with_the_value_zero_and_fails_without_it():
    """Over all small cases; of ternary matrices of four entries 33 have at most two non-zeros."""

    def most(entries: int, nonzeros: int, values: int) -> int:
        return round(math.exp(published_count_nats(entries, nonzeros=nonzeros, size=1 / values)))

    falls_short = 0
    for entries, values in itertools.product(range(1, 6), range(2, 5)):
        words = np.array(list(itertools.product(range(values), repeat=entries)))
        for nonzeros in range(entries + 1):
            there_are = int((np.count_nonzero(words, axis=1) <= nonzeros).sum())
            assert there_are <= most(entries, nonzeros, values)
            falls_short += there_are > most(entries, nonzeros, values - 1)
    assert falls_short > 20
    assert (most(4, 2, 3), most(4, 2, 2)) == (54, 24)
    words = list(itertools.product((-1, 0, 1), repeat=4))
    assert sum(np.count_nonzero(word) <= 2 for word in words) == 33
    mass = sum(2.0 ** -count_bits(4, nonzeros=np.count_nonzero(word), levels=3) for word in words)
    assert mass == pytest.approx(1.0)


def test_g_e14_the_printed_tail_is_one_off():
    assert binomial_tail(17, trials=50, probability=0.3) == pytest.approx(0.31612138, abs=5e-9)
    printed = published_pruned_probability(pruned=17, prunable=50, probability=0.3)
    assert printed == pytest.approx(0.21780694, abs=5e-9)


def test_g_e21_a_sketch_of_a_ticket_is_larger_than_claimed_and_the_mask_is_smaller():
    claimed = published_sketch_side(width=30, random_width=10**4)
    assert round(claimed) == 276
    assert round(least_sketch_side(random_width=10**4)) == 921
    assert round(8 * claimed**2 / 1000) == 611  # kilobits of the sketch at 8 bits a value
    assert round(ticket_bits(10**8, kept=900) / 1000, 1) == 16.4


def chain(depth: int, stream: np.random.Generator):
    """A random network, and a change of two per cent of its weights that meets the condition."""
    sizes = [30, *[40] * (depth - 1), 10]
    shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
    layers = [stream.normal(size=shape) / math.sqrt(shape[1]) for shape in shapes]
    changes = [layer * (stream.random(layer.shape) < 0.02) for layer in layers]
    for layer, change in zip(layers, changes, strict=True):
        change *= min(1.0, (1 - 1e-12) * np.linalg.norm(layer, 2) / depth / np.linalg.norm(change, 2))
    x = stream.normal(size=(30, 500))
    f = g = x / np.linalg.norm(x, axis=0)
    for number, (layer, change) in enumerate(zip(layers, changes, strict=True)):
        f, g = layer @ f, (layer - change) @ g
        if number < depth - 1:
            f, g = np.maximum(f, 0.0), np.maximum(g, 0.0)
    bounds = [
        LayerBounds(weight=np.linalg.norm(layer, 2), weight_change=np.linalg.norm(change, 2))
        for layer, change in zip(layers, changes, strict=True)
    ]
    return float(np.linalg.norm(f - g, axis=0).max()), bounds


def test_g_lem_b2_actual_recursion_and_e_form():
    """0.10, 0.80, 2.07 at depth 2 and 0.06, 25.4, 48.2 at depth 5."""
    stream = np.random.default_rng(0)
    found = {}
    for depth in (2, 3, 5):
        actual, bounds = chain(depth, stream)
        recursion = output_deviation(bounds, input_norm=1.0)
        found[depth] = actual, recursion, exponential_deviation(bounds, input_norm=1.0)
        assert list(found[depth]) == sorted(found[depth])
    assert found[2] == pytest.approx((0.10, 0.80, 2.07), abs=0.006)
    assert found[5] == pytest.approx((0.06, 25.4, 48.2), abs=0.06)
