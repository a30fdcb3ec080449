"""Counting, binomial tails and pruning to a number of non-zeros, against enumeration and SciPy."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc
from scipy.stats import binom
from torch import nn

from codebound.coding.modes import encode_tensors
from codebound.coding.tensors import Enumerative
from codebound.errors import UsageError
from codebound.nets.walk import wrap
from codebound_papers.compress.functions import naive
from codebound_papers.guha23.magnitude import (
    binomial_tail,
    count_bits,
    keep_largest,
    kept_count,
    most_nonzeros,
    prunable_share,
    published_prunable_probability,
    published_pruned_probability,
)
from codebound_papers.guha23.pruning_law import kept_share
from codebound_papers.guha23.sketching import published_count_nats


def test_count_bits_is_the_length_of_the_enumerative_code():
    levels = np.zeros((20, 30), dtype=np.int32)
    levels.ravel()[::25] = [1, -2, 3] * 8
    code = Enumerative(levels, 0, 3)
    header = encode_tensors([Enumerative(np.zeros((1, 1), dtype=np.int32), 0, 3)]).length
    length = encode_tensors([code]).length
    assert abs(length - header - count_bits(600, nonzeros=24, levels=7)) < 3


@pytest.mark.parametrize(("entries", "levels"), [(1, 3), (4, 3), (3, 5)])
def test_count_bits_is_a_complete_code(entries, levels):
    mass = sum(
        2.0 ** -count_bits(entries, nonzeros=np.count_nonzero(word), levels=levels)
        for word in itertools.product(range(levels), repeat=entries)
    )
    assert mass == pytest.approx(1.0)


def test_published_count_nats_is_as_printed():
    expected = math.log(math.comb(50, 7)) + 7 * math.log(20)
    assert published_count_nats(50, nonzeros=7, size=0.05) == pytest.approx(expected)


def test_prunable_share_has_its_golden_values():
    assert prunable_share(1.0, probability=0.5) == pytest.approx(0.5949040335669752, rel=1e-14)
    assert prunable_share(2.0, probability=0.9) == pytest.approx(0.3537971468350556, rel=1e-14)


def test_prunable_share_is_the_share_of_entries_with_that_probability():
    entries = np.random.default_rng(0).normal(size=200_000)
    count = int((np.exp(-(entries**2) / 1.7) >= 0.3).sum())
    share = prunable_share(1.7, probability=0.3)
    assert min(binom.cdf(count, 200_000, share), binom.sf(count, 200_000, share)) > 1e-9


@given(st.integers(1, 400), st.data(), st.floats(0.0, 1.0))
def test_binomial_tail_agrees_with_scipy(trials, data, probability):
    count = data.draw(st.integers(0, trials))
    expected = binom.sf(count - 1, trials, probability)
    assert binomial_tail(count, trials=trials, probability=probability) == pytest.approx(expected, abs=1e-11)


def test_published_probabilities_are_the_printed_beta_functions():
    share = prunable_share(2.0, probability=0.4)
    found = published_prunable_probability(500, prunable=240, strength=2.0, probability=0.4)
    assert found == pytest.approx(1.0 - betainc(500 - 240, 1 + 240, 1.0 - share), rel=1e-10)
    found = published_pruned_probability(pruned=110, prunable=240, probability=0.4)
    assert found == pytest.approx(1.0 - betainc(240 - 110, 110 + 1, 1.0 - 0.4), rel=1e-9)


@pytest.mark.parametrize("failure", [0.5, 0.01, 1e-6])
def test_most_nonzeros_is_the_binomial_quantile(failure):
    rows, columns, strength = 50, 80, 3.0
    expected = 50 + binom.isf(failure, rows * columns - 50, kept_share(strength))
    assert most_nonzeros(rows, columns, strength=strength, failure=failure) == expected


def test_the_exact_quantile_beats_the_two_published_steps():
    """At equal failure probability, split evenly and over a grid of kappa, two steps promise fewer zeros."""
    entries, strength, failure = 4000, 3.0, 0.01
    best = 0
    for probability in np.linspace(0.05, 0.95, 19):
        prunable = max(
            (
                tau
                for tau in range(0, entries, 10)
                if published_prunable_probability(
                    entries, prunable=tau, strength=strength, probability=probability
                )
                >= 1.0 - failure / 2
            ),
            default=0,
        )
        pruned = [
            alpha
            for alpha in range(0, prunable, 10)
            if published_pruned_probability(pruned=alpha, prunable=prunable, probability=probability)
            >= 1.0 - failure / 2
        ]
        best = max([best, *pruned])
    exact = binom.ppf(failure, entries, 1.0 - kept_share(strength))
    assert 0 < best < 0.9 * exact


@given(st.integers(0, 2**32), st.integers(1, 40), st.data())
def test_keep_largest_keeps_exactly_the_largest(seed, size, data):
    values = np.random.default_rng(seed).integers(-4, 5, size=size).astype(np.float32)
    count = data.draw(st.integers(0, size))
    kept = keep_largest(torch.from_numpy(values), count).numpy()
    order = sorted(range(size), key=lambda i: (-abs(values[i]), i))  # of equals, the first
    expected = np.zeros(size, dtype=np.float32)
    expected[order[:count]] = values[order[:count]]
    assert (kept == expected).all()


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return wrap(nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 7)).eval())


def test_the_compressor_keeps_the_share_it_was_asked_for():
    net = network()
    compressed = naive(net, density=0.2, levels=255)
    for layer, view in zip(compressed.layers, net.layers, strict=True):
        kept = keep_largest(view.weight, round(0.2 * view.weight.numel()))
        assert torch.equal(layer.weight != 0, kept != 0)
        assert float((layer.weight - kept).abs().max()) < float(kept.abs().max()) / 200


def test_no_layer_is_emptied_and_bad_densities_are_refused():
    assert kept_count(10, 1e-6) == 1
    for density in (0.0, 1.5, float("nan")):
        with pytest.raises(UsageError, match="density"):
            naive(network(), density=density)
    with pytest.raises(UsageError):
        keep_largest(torch.zeros(3), 4)
    with pytest.raises(UsageError):
        count_bits(3, nonzeros=4, levels=3)
    with pytest.raises(UsageError):
        most_nonzeros(3, 4, strength=1.0, failure=0.0)
