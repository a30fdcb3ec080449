"""Pruning by magnitude: closed forms, statistics with teeth, counts against enumeration, and the codes."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc
from scipy.stats import binom
from worlds.networks import mlp

from codebound.run.errors import UsageError
from codebound_networks.codes.modes import encode_tensors
from codebound_networks.codes.tensors import Enumerative
from codebound_networks.reading.walk import wrap
from codebound_networks.train.rng import torch_stream
from codebound_papers.compress.compressors import compress
from codebound_papers.compress.methods import mbp, naive
from codebound_papers.guha23.magnitude import (
    MagnitudePruning,
    binomial_tail,
    common_variance,
    count_bits,
    keep_largest,
    kept_count,
    most_nonzeros,
    prunable_share,
    prune_randomly,
    published_prunable_probability,
    published_pruned_probability,
)
from codebound_papers.guha23.pruning import (
    change_moments,
    expected_change_norm,
    expected_nonzeros,
    kept_share,
    strength_for,
)
from codebound_papers.guha23.sketching import published_count_nats


@given(st.floats(1e-6, 1.0))
def test_strength_and_share_are_inverse(kept):
    assert kept_share(strength_for(kept)) == pytest.approx(kept, rel=1e-9)


def gaussian(rows: int, columns: int, *, variance: float = 1.0, seed: int = 0) -> torch.Tensor:
    return math.sqrt(variance) * torch.randn(rows, columns, generator=torch_stream(seed, "test"))


def pruned(matrix, strength, *, variance=1.0, seed=1, keep_diagonal=True):
    return prune_randomly(
        matrix,
        strength=strength,
        variance=variance,
        generator=torch_stream(seed, "mbp"),
        keep_diagonal=keep_diagonal,
    )


def is_plausible(kept: int, *, trials: int, share: float) -> bool:
    """The count is not in a tail of probability 1e-9."""
    return min(binom.cdf(kept, trials, share), binom.sf(kept - 1, trials, share)) > 1e-9


@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("variance", [1.0, 1e-4])
def test_as_many_entries_are_kept_as_predicted(strength, variance):
    rows, columns = 400, 300
    kept = pruned(gaussian(rows, columns, variance=variance), strength, variance=variance)
    trials, share = rows * columns - columns, kept_share(strength)
    count = int(kept.count_nonzero()) - columns
    assert is_plausible(count, trials=trials, share=share)
    # teeth: the published label (G-E3), a strength that is off by a tenth, a wrong variance
    assert not is_plausible(count, trials=trials, share=1.0 - share)
    assert not is_plausible(count, trials=trials, share=kept_share(1.1 * strength))
    wrong = pruned(gaussian(rows, columns, variance=variance), strength, variance=1.2 * variance)
    assert not is_plausible(int(wrong.count_nonzero()) - columns, trials=trials, share=share)


@pytest.mark.parametrize("strength", [0.5, 2.0])
def test_what_is_taken_away_has_the_predicted_moments(strength):
    entries = gaussian(1000, 500, variance=0.3)
    taken = (entries - pruned(entries, strength, variance=0.3, keep_diagonal=False)).double()
    second, fourth = change_moments(strength, 0.3)
    errors = [float((taken**power).std()) / math.sqrt(taken.numel()) for power in (1, 2, 4)]
    for power, expected, error in zip((1, 2, 4), (0.0, second, fourth), errors, strict=True):
        assert abs(float((taken**power).mean()) - expected) < 6.0 * error
    # teeth: the exponents of the main text, without the square root, are many errors away
    ratio = strength / (strength + 2.0)
    assert abs(float((taken**2).mean()) - 0.3 * ratio) > 20.0 * errors[1]


def test_each_entry_goes_with_its_own_probability():
    values = torch.tensor([0.1, 0.5, 1.0, 2.0]).repeat_interleave(50_000).view(4, -1)
    kept = pruned(values, 1.5, keep_diagonal=False).count_nonzero(dim=1)
    for value, count in zip((0.1, 0.5, 1.0, 2.0), kept.tolist(), strict=True):
        assert is_plausible(count, trials=50_000, share=1.0 - math.exp(-(value**2) / 1.5))


def test_the_diagonal_is_kept_if_and_only_if_asked_for():
    entries = gaussian(60, 40)
    kept = pruned(entries, 50.0)
    assert torch.equal(kept.diagonal(), entries.diagonal())
    assert int(pruned(entries, 50.0, keep_diagonal=False).diagonal().count_nonzero()) < 10
    off = kept.clone().fill_diagonal_(0.0)
    assert torch.equal(off, pruned(entries, 50.0, keep_diagonal=False).fill_diagonal_(0.0))


def test_kept_entries_are_unchanged_and_strength_zero_keeps_all():
    entries = gaussian(30, 50)
    kept = pruned(entries, 1.0)
    assert torch.equal(kept[kept != 0], entries[kept != 0])
    assert torch.equal(pruned(entries, 0.0), entries)
    constant = torch.full((3, 4), 0.25)
    assert torch.equal(pruned(constant, 1.0, variance=0.0), constant)


def test_expected_nonzeros_counts_the_diagonal():
    counts = [int(pruned(gaussian(200, 200), 100.0, seed=seed).count_nonzero()) for seed in range(20)]
    expected = expected_nonzeros(200, 200, strength=100.0)
    error = math.sqrt(20 * 200 * 199 * kept_share(100.0)) / 20
    assert abs(np.mean(counts) - expected) < 6 * error
    without = expected_nonzeros(200, 200, strength=100.0, keep_diagonal=False)
    assert abs(np.mean(counts) - without) > 20 * error


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan])
def test_a_constant_that_predicts_nothing_is_refused(constant):
    with pytest.raises(UsageError, match="the constant of lemma"):
        expected_change_norm(9, 4, strength=1.0, variance=1.0, constant=constant)


def test_expected_change_norm_covers_the_measured_one_with_constant_one():
    entries = gaussian(300, 200, variance=0.04)
    for strength in (0.1, 1.0):
        change = torch.linalg.matrix_norm(entries - pruned(entries, strength, variance=0.04), ord=2)
        predicted = expected_change_norm(300, 200, strength=strength, variance=0.04)
        assert 1.5 < predicted / float(change) < 2.5
    assert expected_change_norm(9, 4, strength=1.0, variance=1.0, constant=3.0) == pytest.approx(
        3.0 * (math.sqrt(3**-1.5) * 5.0 + (36.0 * 3.0 * 3**-2.5) ** 0.25)
    )


def small():
    return wrap(mlp(40, 30, 7).eval())


def test_the_compressor_rounds_what_the_algorithm_left():
    net = small()
    code = mbp(net, strength=1.0, levels=31, seed=5)
    for position, (layer, view) in enumerate(zip(code.layers, net.layers, strict=True)):
        kept = prune_randomly(
            view.matrix,
            strength=1.0,
            variance=float(np.var(view.matrix.double().numpy())),
            generator=torch_stream(5 + position, "mbp"),
        )
        assert not layer.weight[kept == 0].any()
        step = float(layer.weight.abs().max()) / 15
        assert float((layer.weight - kept).abs().max()) <= 0.5 * step * 1.1
        assert layer.predicted_error > float(torch.linalg.matrix_norm(layer.weight - view.weight, ord=2))
        assert "unknown and taken as C = 1" in layer.predicted_by


def test_one_variance_for_all_layers_or_each_its_own():
    net = small()
    everything = torch.cat([view.weight.flatten() for view in net.layers]).double().numpy()
    assert common_variance(net) == pytest.approx(float(np.var(everything)))
    own, common = mbp(net), mbp(net, variance=common_variance(net))
    assert any(not torch.equal(a.weight, b.weight) for a, b in zip(own.layers, common.layers, strict=True))


@pytest.mark.parametrize(
    "wrong", [{"strength": -1.0}, {"strength": math.inf}, {"variance": -1.0}, {"levels": 4}, {"levels": 1}]
)
def test_options_outside_their_range_are_refused(wrong):
    with pytest.raises(UsageError):
        compress(small(), MagnitudePruning(**wrong))
    with pytest.raises(UsageError):
        strength_for(0.0)


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


@pytest.mark.thorough
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


def test_the_compressor_keeps_the_share_it_was_asked_for():
    net = small()
    compressed = naive(net, density=0.2, levels=255)
    for layer, view in zip(compressed.layers, net.layers, strict=True):
        kept = keep_largest(view.weight, round(0.2 * view.weight.numel()))
        assert torch.equal(layer.weight != 0, kept != 0)
        assert float((layer.weight - kept).abs().max()) < float(kept.abs().max()) / 200


def test_no_layer_is_emptied_and_bad_densities_are_refused():
    assert kept_count(10, 1e-6) == 1
    for density in (0.0, 1.5, float("nan")):
        with pytest.raises(UsageError, match="density"):
            naive(small(), density=density)
    with pytest.raises(UsageError):
        keep_largest(torch.zeros(3), 4)
    with pytest.raises(UsageError):
        count_bits(3, nonzeros=4, levels=3)
    with pytest.raises(UsageError):
        most_nonzeros(3, 4, strength=1.0, failure=0.0)
