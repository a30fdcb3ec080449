"""Shin 2021 as published: theorem 2, its thresholds and its entropy integral."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.facts import is_met, layers_between, stable_network

from codebound.run.errors import UsageError
from codebound_papers.facts import NetworkFacts
from codebound_papers.framework import dudley_integral
from codebound_papers.shin21.heavy_tails import (
    heavy_tail_risk,
    heavy_tail_risk_with_logarithms,
    published_replacement_failure,
    replacement_failure,
    replacement_thresholds,
)


def square_layers(
    depth: int = 3, width: int = 100, cushion: float = 0.3, *, frobenius: float = 1.0, **changes
) -> NetworkFacts:
    """Interlayer cushions are 1/sqrt(width), and the margin is the largest one that outputs allow."""
    norms = {"frobenius": frobenius, "spectral": frobenius / 2, "l2_1": 1.0, "l1_inf": 1.0, "variance": 1.0}
    measured = {"cushion": cushion, "interlayer_cushion": 1 / math.sqrt(width), "contraction": 1.4}
    layers = layers_between([width] * (depth + 1), **norms, **measured)
    given = {"margin": math.sqrt(2.0), "input_norm": 1.0, "input_size": width, "largest_output": 1.0}
    return stable_network(*layers, **{**given, "smoothness": 100.0, **changes})


def test_theorem_2_is_the_root_of_the_kept_weights():
    found = heavy_tail_risk(square_layers(), kept=[10_000, 500, 20])
    assert found.value == pytest.approx(0.02 + math.sqrt(10_520 / 50_000))
    assert found.failure_published == 0.05
    assert found.failure_corrected is None
    assert {"S-E6", "S-E7", "S-E12", "S-E21", "S-E22"} <= set(found.errata)
    assert heavy_tail_risk(square_layers(), kept=[0, 0, 0]).value == pytest.approx(0.02)


def test_with_logarithms_by_hand():
    kappa = math.e**2 * 1.4**3 * 1.0 * 3 / 0.3**3
    q = 10_520
    log = math.log(2 * q * kappa)
    tail = q * kappa * math.sqrt(math.pi) * math.erfc(math.sqrt(log))
    integral = math.sqrt(q) * (math.sqrt(log) + tail)
    found = heavy_tail_risk_with_logarithms(square_layers(), kept=[10_000, 500, 20])
    assert found.value == pytest.approx(0.02 + integral / math.sqrt(50_000))
    assert heavy_tail_risk_with_logarithms(square_layers(), kept=[0, 0, 0]).value == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("depth", "width", "cushion", "threshold", "typical"),
    [(3, 100, 0.3, 1.8e-4, 1e-2), (5, 500, 0.2, 3e-5, 2e-3)],
)
def test_s_e22_the_thresholds_lie_far_below_a_typical_weight(depth, width, cushion, threshold, typical):
    for row in replacement_thresholds(square_layers(depth, width, cushion)):
        assert row.scale_free == pytest.approx(threshold, rel=0.05)
        assert row.typical == pytest.approx(typical)
        assert row.published < row.typical / 10


def test_s_e2_the_printed_threshold_is_too_high():
    """tau^2 is eps^2 / ln(3/eta) as printed, and eps^2 / (2 ln(2/eta)) where the tail bound holds."""
    (row, *_) = replacement_thresholds(square_layers())
    epsilon, eta = 0.3 * 0.1 / (6 * 1.4 * 3), 0.05 / (2 * 9 * 100 * 50_000)
    assert row.epsilon == pytest.approx(epsilon)
    assert row.published == pytest.approx(epsilon / math.sqrt(math.log(3 / eta)))
    assert row.scale_free == pytest.approx(epsilon / math.sqrt(2 * math.log(2 / eta)))
    assert row.published > row.scale_free


def test_only_the_corrected_threshold_follows_the_scale_of_the_weights():
    """S-E8: with all layers ten times larger the printed threshold stays where it was."""
    here, there = (
        replacement_thresholds(square_layers()),
        replacement_thresholds(square_layers(frobenius=10.0)),
    )
    assert there[0].scale_free == pytest.approx(10 * here[0].scale_free)
    assert there[0].published == here[0].published


def test_at_the_thresholds_the_failures_are_what_the_union_allows():
    """d layers, examples m, coordinates h, eta each: d^2 h m eta = delta/2 with the right constant."""
    facts = square_layers()
    rows = replacement_thresholds(facts)
    corrected = replacement_failure(facts, thresholds=[row.scale_free for row in rows])
    assert corrected.value == pytest.approx(0.05 / 2)
    assert corrected.unit == "probability"
    printed = published_replacement_failure(facts, thresholds=[row.published for row in rows])
    assert printed.value > 1.0  # S-E2: by its own tail bound the printed constant fails
    assert is_met(printed, "power law") is is_met(corrected, "mean zero") is None  # S-E1


def test_more_noise_or_higher_thresholds_never_lower_the_failure():
    facts = square_layers(frobenius=50.0)
    for failure in (published_replacement_failure, replacement_failure):
        values = [
            failure(facts, thresholds=[tau] * 3, variance=t).log_value
            for tau, t in ((0.0, 0.0), (1e-4, 0.0), (2e-4, 0.0), (2e-4, 1e-8), (1.0, 1.0))
        ]
        assert values == sorted(values)
        assert values[0] == -math.inf
        assert values[-1] == pytest.approx(math.log(3 * 100 * 50_000 * 3))


@pytest.mark.parametrize(
    ("changes", "statement", "holds"),
    [
        ({}, "smoothness", True),
        ({"smoothness": 8.0}, "smoothness", False),
        ({"smoothness": None}, "smoothness", None),
        ({}, "||W||_F >= 1", True),
        ({"frobenius": 0.99}, "||W||_F >= 1", False),
        ({}, "same Frobenius norm", True),
        ({}, "positive margin", True),
        ({}, "power law", None),
        ({}, "fully connected", True),
    ],
)
def test_hypotheses(changes, statement, holds):
    assert is_met(heavy_tail_risk(square_layers(**changes), kept=[10, 10, 10]), statement) is holds


def test_layers_of_different_norms_are_not_balanced():
    facts = square_layers()
    layers = (replace(facts.layers[0], frobenius=1.02), *facts.layers[1:])
    assert is_met(heavy_tail_risk(replace(facts, layers=layers), kept=[1, 1, 1]), "same Frobenius") is False


def test_something_must_be_replaced():
    facts = square_layers()
    assert is_met(heavy_tail_risk(facts, kept=[10_000] * 3), "replaced") is False
    value = heavy_tail_risk(facts, kept=[9_999, 10_000, 10_000])
    assert is_met(value, "replaced") is True
    (found,) = [each.found for each in value.hypotheses if "replaced" in each.statement]
    assert found.startswith("1 of 30,000 weights; the theorem's thresholds are at most 0.0")


@pytest.mark.parametrize("margin", [0.0, -2.0])
def test_without_a_positive_margin_everything_is_infinite(margin):
    facts = square_layers(margin=margin)
    assert {(row.published, row.scale_free) for row in replacement_thresholds(facts)} == {(0.0, 0.0)}
    for value in (
        heavy_tail_risk(facts, kept=[1, 1, 1]),
        heavy_tail_risk_with_logarithms(facts, kept=[1, 1, 1]),
        replacement_failure(facts, thresholds=[1.0] * 3),
    ):
        assert value.log_value == math.inf
        assert is_met(value, "positive margin") is False


def test_deep_networks_with_tiny_cushions_do_not_overflow():
    value = heavy_tail_risk_with_logarithms(square_layers(300, 10, cushion=1e-3), kept=[5] * 300)
    assert math.isfinite(value.value)


@given(st.floats(0.1, 1e6), st.floats(-3.0, 300.0), st.floats(0.01, 10.0))
def test_the_integral_grows_with_everything(numbers, log_kappa, diameter):
    here = dudley_integral(numbers, log_kappa=log_kappa, diameter=diameter)
    assert here > 0.0
    assert dudley_integral(1.1 * numbers, log_kappa=log_kappa, diameter=diameter) > here
    assert dudley_integral(numbers, log_kappa=log_kappa + 0.1, diameter=diameter) > here
    assert dudley_integral(numbers, log_kappa=log_kappa, diameter=1.1 * diameter) >= here


def test_nothing_kept_has_no_entropy():
    assert dudley_integral(0, log_kappa=5.0) == dudley_integral(0, log_kappa=math.inf) == 0.0
    assert dudley_integral(3, log_kappa=math.inf) == math.inf


def test_bad_input_is_refused_by_name():
    facts = square_layers()
    with pytest.raises(UsageError, match="3 layers; got a count for 2"):
        heavy_tail_risk(facts, kept=[1, 2])
    with pytest.raises(UsageError, match="layer fc1 has 10,000 weights and cannot keep 10,001"):
        heavy_tail_risk_with_logarithms(facts, kept=[1, 10_001, 2])
    with pytest.raises(UsageError, match="layer fc0 has 10,000 weights and cannot keep -1"):
        heavy_tail_risk(facts, kept=[-1, 0, 0])
    with pytest.raises(UsageError, match="at least 0"):
        replacement_failure(facts, thresholds=[1.0, -1.0, 1.0])
    with pytest.raises(UsageError, match="D positive"):
        dudley_integral(3, log_kappa=1.0, diameter=0.0)
    blind = replace(facts, layers=(replace(facts.layers[0], cushion=None), *facts.layers[1:]))
    with pytest.raises(UsageError, match="layer fc0 has no layer cushion"):
        heavy_tail_risk(blind, kept=[1, 1, 1])
