"""The bounds on pruned networks by hand; their probabilities and costs, exactly and in simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln
from scipy.stats import binom
from worlds.facts import layers_between, network_facts

from codebound.run.errors import UsageError
from codebound_papers.facts import NetworkFacts
from codebound_papers.guha23.pruning import PrunedLayer, PruningFacts, gaussian_pruning
from codebound_papers.guha23.sketching import (
    code_costs,
    implied_kept_share,
    max_load_probability,
    naive_risk,
    published_sparsity_probability,
    released_sketching,
    sketching_risk,
    sketching_risk_by_proof,
    sparsity_failure,
    sparsity_probability,
)

PRINTED = "gamma is at least the printed deviation of lemma 4.4"
PROVED = "gamma is at least sqrt(2) times the corrected deviation of lemma 4.4"


def network_between(sides, *, variance=0.01, **changes) -> NetworkFacts:
    return network_facts(*layers_between(sides, variance=variance), **{"margin_loss": 0.01, **changes})


def pruning(facts, *, chi=0.2, step=0.01, slack=20.0, sparsity_slack=10.0, gamma=1e-6) -> PruningFacts:
    layers = tuple(
        PrunedLayer(
            name=layer.name,
            strength=1.0,
            kept_share=chi,
            expected_change=gamma,
            step=step,
            nonzeros=round(chi * layer.weights),
        )
        for layer in facts.layers
    )
    return PruningFacts(layers=layers, slack=slack, sparsity_slack=sparsity_slack)


def holds(value, statement):
    (found,) = [each for each in value.hypotheses if each.statement == statement]
    return found.holds


def test_sketching_by_hand():
    facts = network_between([784, 100, 10])
    value = sketching_risk(facts, pruning=pruning(facts), exponent=2.0)
    numbers = 784 * 100 * math.log(784) ** 2 + 100 * 10 * math.log(100) ** 2
    expected = 0.01 + math.sqrt(3 * 10 * 0.2 * numbers * math.log(100) / 48_000)
    assert value.value == pytest.approx(expected, rel=1e-12)
    assert value.failure_published == pytest.approx(2 / 10 + 2 / 20 + 784**-2 + 100**-2)
    by_proof = sketching_risk_by_proof(facts, pruning=pruning(facts))
    squares = 784**2 * math.log(784) ** 2 + 100**2 * math.log(100) ** 2
    assert by_proof.value == pytest.approx(
        0.01 + math.sqrt(3 * 10 * 0.2 * squares * math.log(100) / 48_000), rel=1e-12
    )
    assert by_proof.failure_corrected == value.failure_corrected


@pytest.mark.parametrize(("width", "dropped"), [(784, 1.44), (500, 1.58), (2500, 1.16)])
def test_the_probability_of_the_main_theorem_is_empty(width, dropped):
    """G-E16: what it leaves out exceeds 1 for the paper's networks, whatever the slacks are."""
    facts = network_between([784, width, width, width, width, 10])
    value = sketching_risk(facts, pruning=pruning(facts, slack=1e9, sparsity_slack=1e9))
    assert value.failure_published < 0.02
    assert value.failure_corrected - value.failure_published - facts.delta == pytest.approx(dropped, abs=5e-3)
    assert value.failure_corrected > 1.0


def test_naive_by_hand():
    facts = network_between([30, 20, 5])
    value = naive_risk(facts, pruning=pruning(facts, chi=0.1, step=0.05))
    nats = 0.0
    for entries in (600, 100):
        k = entries // 10
        nats += gammaln(entries + 1) - gammaln(k + 1) - gammaln(entries - k + 1) + k * math.log(20)
    assert value.value == pytest.approx(0.01 + math.sqrt(nats / 48_000), rel=1e-9)


@given(st.integers(30, 3000), st.floats(1e-3, 1.0), st.floats(1e-6, 1 / 3), st.floats(1.0, 20.0))
def test_sketching_never_beats_the_naive_count(side, chi, step, slack):
    """G-E18, for square layers of at least 30 units."""
    facts = network_between([side, side])
    prunes = pruning(facts, chi=chi, step=step, sparsity_slack=slack)
    if prunes.layers[0].nonzeros >= side:
        assert naive_risk(facts, pruning=prunes).value < sketching_risk(facts, pruning=prunes).value


def test_the_margin_condition_as_printed_and_as_proved():
    facts = network_between([30, 20, 5])
    prunes = pruning(facts, chi=0.1, step=1e-6)
    changes = [20 * 1e-6 + 1e-6 * round(0.1 * size) for size in (600, 100)]
    roots = [20 * 1e-6 + 1e-6 * math.sqrt(round(0.1 * size)) / 2 for size in (600, 100)]
    printed = math.e * 30 * 4 * sum(changes) / 2
    proved = math.sqrt(2) * math.e * 5.0 * 4 * sum(roots) / 2
    assert proved < printed
    for function in (naive_risk, sketching_risk):
        for margin, expected in (
            (1.001 * printed, (True, True)),
            (0.999 * printed, (False, True)),
            (0.999 * proved, (False, False)),
        ):
            value = function(replace(facts, margin=margin), pruning=prunes)
            assert (holds(value, PRINTED), holds(value, PROVED)) == expected


def test_the_paper_setting_meets_none_of_its_conditions():
    """Five layers of width 784, Gaussian, pruned to a tenth."""
    facts = network_between([784] * 5 + [10], variance=1 / 784)
    prunes = gaussian_pruning(facts, strength=8.5263157895, step=0.01, slack=10.0, sparsity_slack=10.0)
    value = sketching_risk(facts, pruning=prunes)
    unmet = [each.statement for each in value.unmet]
    assert PRINTED in unmet
    assert PROVED in unmet
    assert "every layer changes by at most its spectral norm over the number of layers" in unmet
    assert "f separates the sample with a positive margin" not in unmet


def test_few_balls_and_small_slacks_are_named():
    facts = network_between([784, 784])
    value = sparsity_failure(facts, pruning=pruning(facts, chi=0.004, sparsity_slack=0.5))
    statements = [each.statement for each in value.unmet]
    assert "every layer keeps enough weights per row and column for lemma E.1" in statements  # G-E15
    assert "lambda_l is above 1, for Markov's inequality" in statements
    enough = sparsity_failure(facts, pruning=pruning(facts, chi=0.01, sparsity_slack=2.0))
    assert not enough.unmet


def test_sparsity_failure_printed_and_exact():
    facts = network_between([200, 200])
    value = sparsity_failure(facts, pruning=pruning(facts, chi=0.03, sparsity_slack=1.1))
    assert value.unit == "probability"
    assert value.value == pytest.approx(1 / 1.1 + 2 * 200 ** (-1 / 3))
    limit = math.floor(3 * 1.1 * 0.03 * 200)
    assert value.failure_corrected == pytest.approx(400 * binom.sf(limit - 1, 199, 0.03), rel=1e-6)
    assert value.failure_corrected < value.failure_published


def test_steps_of_one_and_more_have_no_levels():
    """G-E10: the printed logarithm is negative there."""
    facts = network_between([30, 20])
    coarse = pruning(facts, step=2.0)
    assert sketching_risk(facts, pruning=coarse).value == pytest.approx(0.01)
    assert naive_risk(facts, pruning=coarse).value > 0.01
    for function in (sketching_risk, naive_risk):
        assert not holds(function(facts, pruning=coarse), "all steps rho_l are below 1")


def test_without_a_margin_only_the_released_code_has_a_value():
    facts = network_between([30, 20, 5], margin=-0.1)
    for function in (naive_risk, sketching_risk, sketching_risk_by_proof):
        value = function(facts, pruning=pruning(facts))
        assert value.value == math.inf
        assert value.unmet[0].statement == "f separates the sample with a positive margin"
    whole = gaussian_pruning(facts, strength=0.0, step=0.01, slack=10.0, sparsity_slack=10.0)
    value = released_sketching(facts, pruning=whole, needed_loss=0.3)
    numbers = 600 * math.log(30) ** 2 + 100 * math.log(20) ** 2
    assert value.value == pytest.approx(0.3 + math.sqrt(numbers / 48_000))
    assert not value.unmet
    assert released_sketching(facts, pruning=pruning(facts), needed_loss=0.3).unmet


def test_implied_share_is_the_inverse():
    facts = network_between([784, 100, 10])
    value = released_sketching(facts, pruning=pruning(facts, chi=0.37), needed_loss=0.0)
    assert implied_kept_share(facts, log_value=value.log_value) == pytest.approx(0.37)


def test_nonsense_is_refused():
    facts = network_between([30, 20])
    with pytest.raises(UsageError, match="needed_loss"):
        released_sketching(facts, pruning=pruning(facts), needed_loss=-0.1)
    with pytest.raises(UsageError, match="strength"):
        gaussian_pruning(facts, strength=-1.0, step=0.1, slack=2.0, sparsity_slack=2.0)


def load_frequency(bins, per_bin, *, trials=200):
    rng = np.random.default_rng(0)
    balls = int(per_bin * bins)
    loads = (np.bincount(rng.integers(0, bins, balls), minlength=bins).max() for _ in range(trials))
    return np.mean([load <= 3 * balls / bins for load in loads])


def test_the_corrected_load_never_claims_more_than_happens():
    for bins in (100, 784):
        for per_bin in (1, 2, 4, 8):
            assert max_load_probability(per_bin * bins, bins) <= load_frequency(bins, per_bin) + 0.05


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


def test_naive_cost_is_the_log_of_the_count_and_dense_wins_above_the_stated_density():
    costs = code_costs(614, d1=784, d2=784, levels=16)
    n, k = 784**2, 614
    expected = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + k * math.log(16)
    assert costs.naive == pytest.approx(expected, rel=1e-9)
    density = 1 / math.log(784) ** 2  # 2.2 %
    above, below = (code_costs(int(s * density * n), d1=784, d2=784, levels=3) for s in (1.01, 0.99))
    assert above.sketch > above.dense
    assert below.sketch < below.dense


def test_impossible_counts_are_refused():
    with pytest.raises(UsageError):
        code_costs(5, d1=2, d2=2, levels=3)
    with pytest.raises(UsageError):
        max_load_probability(1, 0)
    with pytest.raises(UsageError):
        sparsity_probability(1, 1, d1=2, d2=2, chi=1.5)
