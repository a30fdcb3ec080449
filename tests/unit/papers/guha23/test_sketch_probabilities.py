"""Published probabilities and costs against exact numbers and simulation."""

import math

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import binom

from codebound.errors import UsageError
from codebound_papers.guha23.sketching import (
    code_costs,
    dropped_failure_probability,
    least_mean_load,
    max_load_probability,
    published_max_load_probability,
    published_sparsity_probability,
    sketch_numbers,
    sparsity_probability,
)


def load_frequency(bins, per_bin, *, trials=200):
    rng = np.random.default_rng(0)
    balls = int(per_bin * bins)
    loads = (np.bincount(rng.integers(0, bins, balls), minlength=bins).max() for _ in range(trials))
    return np.mean([load <= 3 * balls / bins for load in loads])


@pytest.mark.parametrize(("bins", "per_bin", "observed"), [(784, 1, 0.0), (784, 2, 0.03), (2000, 4, 0.56)])
def test_the_published_load_is_false_for_few_balls(bins, per_bin, observed):
    frequency = load_frequency(bins, per_bin)
    assert frequency == pytest.approx(observed, abs=0.15)
    assert frequency < published_max_load_probability(bins) - 0.2


def test_the_corrected_load_never_claims_more_than_happens():
    for bins in (100, 784):
        for per_bin in (1, 2, 4, 8):
            assert max_load_probability(per_bin * bins, bins) <= load_frequency(bins, per_bin) + 0.05


def test_the_published_load_is_proven_from_a_logarithm_of_the_bins_on():
    assert least_mean_load(784) / math.log(784) == pytest.approx(1.029, abs=5e-4)
    bins = 784
    enough = math.ceil(least_mean_load(bins) * bins)
    assert max_load_probability(enough, bins) >= published_max_load_probability(bins)
    assert max_load_probability(enough - 2 * bins, bins) < published_max_load_probability(bins)


def test_exact_line_counts_are_the_binomial_tails():
    expected = 784 * binom.sf(19, 783, 0.01) * 2
    assert sparsity_probability(20, 20, d1=784, d2=784, chi=0.01) == pytest.approx(1 - expected, rel=1e-9)
    tall = 10 * binom.sf(4, 9, 0.1) + 774 * binom.sf(5, 10, 0.1) + 10 * binom.sf(119, 783, 0.1)
    assert sparsity_probability(120, 5, d1=784, d2=10, chi=0.1) == pytest.approx(1 - tall, abs=1e-9)


def test_exact_line_counts_hold_in_simulation_and_beat_the_published_ones():
    rng, chi, j = np.random.default_rng(1), 0.02, 16
    hits = 0
    for _ in range(200):
        kept = rng.random((200, 200)) < chi
        np.fill_diagonal(kept, True)
        hits += max(kept.sum(0).max(), kept.sum(1).max()) <= j
    claimed = sparsity_probability(j, j, d1=200, d2=200, chi=chi)
    assert 0.5 < claimed <= hits / 200 + 0.05
    assert published_sparsity_probability(1.5, d1=200, d2=200) < 0 < claimed


@pytest.mark.parametrize(("width", "checked"), [(784, 1.44), (500, 1.58), (2500, 1.16)])
def test_the_dropped_probability_alone_exceeds_one(width, checked):
    assert dropped_failure_probability([784] + 4 * [width] + [10]) == pytest.approx(checked, abs=5e-3)


def test_the_published_count_is_off_by_the_ratio_of_the_sides():
    proof, formula = sketch_numbers(784, 10, chi=0.1, slack=2.0)
    assert proof / formula == pytest.approx(78.4)


@pytest.mark.parametrize(
    ("p", "chi", "levels", "checked"),
    [
        (784, 0.1, 3, 11.22),
        (784, 1 / 784, 3, 5.57),
        (784, 0.5, 256, 35.53),
        (784, 1 / 784, 256, 18.65),
        (2500, 0.5, 256, 48.97),
    ],
)
def test_sketching_costs_more_than_naming_the_positions(p, chi, levels, checked):
    costs = code_costs(int(chi * p * p), d1=p, d2=p, levels=levels)
    assert costs.sketch / costs.naive == pytest.approx(checked, abs=5e-3)


def test_naive_cost_is_the_log_of_the_count_and_dense_wins_above_the_stated_density():
    costs = code_costs(614, d1=784, d2=784, levels=16)
    n, k = 784**2, 614
    expected = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + k * math.log(16)
    assert costs.naive == pytest.approx(expected, rel=1e-9)
    density = 1 / math.log(784) ** 2  # 2.2 %
    above, below = (code_costs(int(s * density * n), d1=784, d2=784, levels=3) for s in (1.01, 0.99))
    assert above.sketch > above.dense
    assert below.sketch < below.dense


def test_nonsense_is_refused():
    with pytest.raises(UsageError):
        code_costs(5, d1=2, d2=2, levels=3)
    with pytest.raises(UsageError):
        max_load_probability(1, 0)
    with pytest.raises(UsageError):
        sparsity_probability(1, 1, d1=2, d2=2, chi=1.5)
