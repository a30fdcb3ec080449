"""Deviations of pruned and rounded networks: as printed, as proved, and on Gaussian networks."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from worlds.facts import layer_facts, network_facts

from codebound.bounds.original import LayerBounds, output_deviation
from codebound.run.errors import UsageError
from codebound_networks.train.rng import torch_stream
from codebound_papers.compress.compression_summary import exponential_deviation
from codebound_papers.facts import NetworkFacts
from codebound_papers.guha23.kappa import (
    SpreadInputs,
    layer_kappa,
    released_needed_margin,
    spread_perturbation,
    spread_pruned_deviation,
    spread_rounded_deviation,
)
from codebound_papers.guha23.magnitude import prune_randomly
from codebound_papers.guha23.pruning import (
    PrunedLayer,
    PruningFacts,
    gaussian_pruning,
    pruned_deviation,
    pruned_deviation_corrected,
    rounded_deviation,
    rounded_deviation_corrected,
    strength_for,
)

DEVIATIONS = (pruned_deviation, pruned_deviation_corrected, rounded_deviation, rounded_deviation_corrected)
SMALL_CHANGES = "every layer changes by at most its spectral norm over the number of layers"


def gaussian_facts(spectral=(2.0, 3.0, 1.5), *, sides=(30, 20, 20, 5), **changes) -> NetworkFacts:
    """Of matrices with these spectral norms, whose entries have the variance that such norms are due to."""
    layers = (
        layer_facts(
            f"fc{i}",
            rows=sides[i + 1],
            columns=sides[i],
            spectral=norm,
            l2_1=5.0 * norm,
            l1_inf=6.0 * norm,
            variance=(norm / (math.sqrt(sides[i]) + math.sqrt(sides[i + 1]))) ** 2,
        )
        for i, norm in enumerate(spectral)
    )
    return network_facts(*layers, **{"classes": 5, "input_norm": 4.0, **changes})


def pruning(facts: NetworkFacts, *, gamma=(0.02, 0.04, 0.01), slack=6.0, step=0.001, change=0.02):
    layers = tuple(
        PrunedLayer(
            name=layer.name,
            strength=0.1,
            kept_share=0.8,
            expected_change=each,
            step=step,
            nonzeros=100,
            change=change,
        )
        for layer, each in zip(facts.layers, gamma, strict=True)
    )
    return PruningFacts(layers=layers, slack=slack, sparsity_slack=6.0)


def condition(value, statement=SMALL_CHANGES):
    (found,) = [each for each in value.hypotheses if each.statement == statement]
    return found


def test_by_hand():
    facts = gaussian_facts()
    prunes = pruning(facts)
    relative = 6.0 * (0.02 / 2 + 0.04 / 3 + 0.01 / 1.5)
    rounding = 0.001 * 100 * (1 / 2 + 1 / 3 + 1 / 1.5)
    half_root = 0.001 * 10 / 2 * (1 / 2 + 1 / 3 + 1 / 1.5)
    expected = [
        math.e * 30 * 9 * relative,
        math.e * 4 * 9 * relative,
        math.e * 30 * 9 * (relative + rounding),
        math.e * 4 * 9 * (relative + half_root),
    ]
    found = [function(facts, pruning=prunes) for function in DEVIATIONS]
    assert [each.value for each in found] == pytest.approx(expected, rel=1e-12)
    assert all(each.failure_published == each.failure_corrected == 0.5 for each in found)
    assert all(each.unit == "deviation" for each in found)
    assert all(condition(each).holds for each in found)


@given(
    spectral=st.tuples(*[st.floats(0.1, 10.0)] * 3),
    shares=st.tuples(*[st.floats(0.0, 0.99)] * 3),
)
def test_the_corrected_lemma_is_the_proved_e_form_and_above_the_recursion(spectral, shares):
    facts = gaussian_facts(spectral)
    gamma = tuple(norm * share / (3 * 6.0) for norm, share in zip(spectral, shares, strict=True))
    value = pruned_deviation_corrected(facts, pruning=pruning(facts, gamma=gamma))
    layers = [LayerBounds(weight=a, weight_change=6.0 * u) for a, u in zip(spectral, gamma, strict=True)]
    assert value.value == pytest.approx(exponential_deviation(layers, input_norm=4.0), rel=1e-9)
    assert output_deviation(layers, input_norm=4.0) <= value.value * (1 + 1e-9)
    assert condition(value).holds


def test_outputs_of_a_pruned_gaussian_network_stay_within_the_lemma():
    """Three square layers at a strength that meets the condition with the measured norms."""
    stream = torch_stream(0, "test")
    weights = [torch.randn(120, 120, generator=stream, dtype=torch.float64) / 11.0 for _ in range(3)]
    strength = strength_for(0.75)
    kept = [
        prune_randomly(w, strength=strength, variance=1 / 121, generator=torch_stream(i, "prune"))
        for i, w in enumerate(weights)
    ]
    x = torch.randn(50, 120, generator=stream, dtype=torch.float64)
    f, g = x, x
    for place, (w, v) in enumerate(zip(weights, kept, strict=True)):
        f, g = (f if place == 0 else f.relu()) @ w.T, (g if place == 0 else g.relu()) @ v.T
    facts = gaussian_facts(
        tuple(float(torch.linalg.matrix_norm(w, ord=2)) for w in weights),
        sides=(120, 120, 120, 120),
        input_norm=float(x.norm(dim=1).max()),
    )
    facts = replace(facts, layers=tuple(replace(layer, variance=1 / 121) for layer in facts.layers))
    predicted = gaussian_pruning(facts, strength=strength, step=1e-6, slack=1.0, sparsity_slack=6.0)
    largest = float((f - g).norm(dim=1).max())
    assert 0.0 < largest < pruned_deviation_corrected(facts, pruning=predicted).value
    assert largest < pruned_deviation(facts, pruning=predicted).value
    for layer, w, v in zip(predicted.layers, weights, kept, strict=True):
        assert float(torch.linalg.matrix_norm(w - v, ord=2)) < layer.expected_change
        assert abs(layer.nonzeros - int(v.count_nonzero())) < 6 * 120


@pytest.mark.parametrize(
    ("kept", "slack", "holds"), [(0.60, 1.0, False), (0.93, 10.0, False), (0.999, 1.0, True)]
)
def test_the_condition_never_allows_sparsity_in_five_layers(kept, slack, holds):
    """G-E6: five layers need chi >= 0.66 with exact norms; Gamma is larger than those."""
    sides = (784,) * 6
    facts = gaussian_facts((56.0,) * 5, sides=sides)
    assert facts.layers[0].variance == pytest.approx(1.0)
    prunes = gaussian_pruning(facts, strength=strength_for(kept), step=1e-9, slack=slack, sparsity_slack=10.0)
    value = pruned_deviation(facts, pruning=prunes)
    assert condition(value).holds is holds
    assert condition(value).found.startswith("layer fc")
    assert math.isfinite(value.log_value)


def test_conditions_that_fail_are_named():
    facts = gaussian_facts(input_norm=31.0, biases=7)
    loose = pruning(facts, slack=0.9, change=5.0)
    unmet = {each.statement: each.found for each in pruned_deviation(facts, pruning=loose).unmet}
    assert unmet["the norm of an input is at most its dimension"] == "31 against 30"  # G-E5
    assert unmet["eps_l is above 1, for Markov's inequality"] == "0.9"
    assert unmet["pruning took at most eps_l Gamma_l from every layer"] == "more from fc0, fc1, fc2"
    assert "7 parameters" in unmet["the network has no biases"]
    unmeasured = condition(
        pruned_deviation(facts, pruning=pruning(facts, change=None)),
        "pruning took at most eps_l Gamma_l from every layer",
    )
    assert unmeasured.holds is None


def test_appendix_c_multiplies_with_its_factors():
    facts = gaussian_facts((2.0, 3.0, 1.5), sides=(784, 500, 500, 10))
    prunes, spread = pruning(facts), SpreadInputs(n=1000, failure=0.02, a=2.0, b=0.5)
    factor = 1.0
    for inputs, outputs in ((784, 500), (500, 500), (500, 10)):
        t = math.sqrt(math.log(1000 * 2.0 / 0.02) / (0.5 * inputs))  # n a exp(-b t^2 d) = failure
        factor *= math.sqrt(outputs) * t
        kappa = layer_kappa("fc", inputs=inputs, outputs=outputs, spread=spread)
        assert kappa.proved == pytest.approx(math.sqrt(outputs) * t)
    for spread_form, plain in (
        (spread_pruned_deviation, pruned_deviation),
        (spread_rounded_deviation, rounded_deviation),
    ):
        value = spread_form(facts, pruning=prunes, spread=spread)
        assert value.value == pytest.approx(factor * plain(facts, pruning=prunes).value, rel=1e-12)
        assert value.failure_published == pytest.approx(3 * (1 / 6 + 0.02))
        assert value.failure_corrected is None
        assert "G-E11" in value.errata
    measured = spread_perturbation(facts, pruning=prunes, spread=spread)
    changes = 0.02 * (1 / 2 + 1 / 3 + 1 / 1.5)
    assert measured.value == pytest.approx(math.e * 784 * 9 * factor * changes, rel=1e-12)


def test_the_released_margin_uses_norms_and_factors_of_at_most_one():
    facts = gaussian_facts((2.0, 3.0, 1.5), sides=(784, 500, 500, 10))
    value = released_needed_margin(facts, pruning=pruning(facts))
    kappa = math.sqrt(10 * math.log(48_000 / 0.01) / 500)  # the others are 1
    assert kappa < 1.0
    expected = math.e * 4.0 * 9.0 * 0.02 * (1 / 2 + 1 / 3 + 1 / 1.5) * kappa
    assert value.value == pytest.approx(expected, rel=1e-12)
    assert released_needed_margin(facts, pruning=pruning(facts, change=0.0)).value == 0.0


def test_nonsense_is_refused():
    facts = gaussian_facts()
    other = replace(facts, layers=facts.layers[::-1])
    with pytest.raises(UsageError, match="fc2, fc1, fc0 in place of fc0, fc1, fc2"):
        pruned_deviation(facts, pruning=pruning(other))
    with pytest.raises(UsageError, match="layer fc0: the spectral norm of its change was not measured"):
        released_needed_margin(facts, pruning=pruning(facts, change=None))
    with pytest.raises(UsageError, match="layer fc0"):
        pruning(facts, step=0.0)
    with pytest.raises(UsageError, match="layer fc0"):
        pruning(facts, change=math.nan)
    with pytest.raises(UsageError, match="slacks"):
        pruning(facts, slack=0.0)
    crowded = replace(pruning(facts).layers[0], nonzeros=601)
    with pytest.raises(UsageError, match="layer fc0: 601 non-zeros do not fit 600 weights"):
        rounded_deviation(
            facts, pruning=replace(pruning(facts), layers=(crowded, *pruning(facts).layers[1:]))
        )
    with pytest.raises(UsageError, match="kappa needs"):
        SpreadInputs(n=0)


def test_a_zero_layer_is_no_error():
    facts = gaussian_facts((2.0, 0.0, 1.5))
    value = pruned_deviation(facts, pruning=pruning(facts))
    assert np.isfinite(value.log_value)
    assert condition(value).holds is False
