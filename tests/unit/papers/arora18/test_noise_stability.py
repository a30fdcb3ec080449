"""Arora et al. 2018 as published: noise stability and spectral norms, on facts written by hand."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from worlds.facts import is_met, stable_layer, stable_network

from codebound.run.errors import UsageError
from codebound_papers.arora18.noise_stability import (
    convolutional_numbers,
    convolutional_risk,
    convolutional_risk_with_outliers,
    covering_nats,
    fully_connected_risk,
    margin_numbers,
    noise_stability_bar,
    proven_numbers,
    table_rows,
)
from codebound_papers.arora18.projection_plan import published_total
from codebound_papers.arora18.truncation import printed_spectral_margin_risk, spectral_margin_risk
from codebound_papers.facts import NetworkFacts
from codebound_papers.framework import dudley_integral

RISKS = (spectral_margin_risk, printed_spectral_margin_risk, fully_connected_risk, convolutional_risk)
STABILITY = (
    margin_numbers,
    proven_numbers,
    fully_connected_risk,
    convolutional_numbers,
    convolutional_risk,
    noise_stability_bar,
)


def convolutional(**changes) -> NetworkFacts:
    conv = stable_layer("conv", rows=16, columns=27, patch=3, spread=1.2)
    return stable_network(conv, stable_layer("fc", contraction=None), **changes)


def test_theorem_4_1_by_hand():
    terms = 1 / (0.3 * 0.1) ** 2 + 1 / (0.2 * 0.1) ** 2 + 1 / (0.3 * 0.1) ** 2
    expected = 0.02 + math.sqrt(1.4**2 * 3**2 * 9**2 * terms / (0.5**2 * 50_000))
    found = fully_connected_risk(stable_network())
    assert found.value == pytest.approx(expected)
    assert found.guarantee == "none"
    assert found.subject == "g"
    assert found.failure_published == 0.05
    assert found.failure_corrected == pytest.approx(0.1)
    assert fully_connected_risk(stable_network()).failure_corrected == pytest.approx(0.1)
    assert fully_connected_risk(stable_network(), outliers=0.25).value == pytest.approx(expected + 0.25)


def test_the_cover_of_theorem_4_1_and_its_entropy_integral():
    """By quadrature; no cover is smaller than one network."""
    q, width, log_kappa = 300, 50, 12.0

    def root(distance):
        nats = covering_nats(q, width=width, log_kappa=log_kappa, log_distance=math.log(distance))
        return math.sqrt(nats)

    assert root(0.25) ** 2 == pytest.approx(2 * q * math.log(math.exp(log_kappa) * width / 0.25))
    integral, _ = integrate.quad(root, 0.0, 1.0)
    closed = dudley_integral(2 * q, log_kappa=log_kappa + math.log(width / (4 * q)))
    assert closed == pytest.approx(integral, rel=1e-7)
    assert covering_nats(7, width=3, log_kappa=0.0, log_distance=5.0) == 0.0
    with pytest.raises(UsageError, match="width"):
        covering_nats(7, width=0, log_kappa=0.0)


def test_theorem_5_1_by_hand():
    terms = 3**2 / (0.3 * 0.1) ** 2 + 1 / (0.3 * 0.1) ** 2
    expected = 0.02 + math.sqrt(1.2**2 * 1.4**2 * 2**2 * 9**2 * terms / (0.5**2 * 50_000))
    found = convolutional_risk(convolutional())
    assert found.value == pytest.approx(expected)
    assert found.failure_corrected is None
    assert found.ref == "A-Thm5.1"
    assert "A-E17" in found.errata
    assert is_met(found, "independent") is False
    with_outliers = convolutional_risk_with_outliers(convolutional(), outliers=0.1)
    assert with_outliers.ref == "A-CorC.1"
    assert with_outliers.value == pytest.approx(expected + 0.1)


def test_on_fully_connected_layers_the_two_theorems_agree():
    assert convolutional_risk(stable_network()).log_value == fully_connected_risk(stable_network()).log_value
    assert is_met(convolutional_risk(stable_network()), "independent") is True


def test_theorem_2_2_by_hand():
    capacity = 100 * 3**2 * 7**2 * (2**2) ** 3 * 3 * (6 / 2) ** 2 / 0.5**2
    found = spectral_margin_risk(stable_network())
    assert found.value == pytest.approx(0.02 + math.sqrt(capacity / 50_000))
    assert printed_spectral_margin_risk(stable_network()).value == pytest.approx(
        0.02 + math.sqrt(capacity / 7 / 50_000)
    )
    assert found.failure_published is found.failure_corrected is None
    assert is_met(found, "gamma <= e") is True


def test_a_e10_only_the_square_of_the_input_norm_makes_the_value_free_of_units():
    """Measuring inputs in other units scales the norm of x and nothing else that can be undone."""
    facts = stable_network(margin_loss=0.0)
    halved = tuple(
        replace(each, frobenius=each.frobenius / 2, spectral=each.spectral / 2) if each.name == "a" else each
        for each in facts.layers
    )
    rescaled = replace(facts, layers=halved, input_norm=2 * facts.input_norm)
    assert spectral_margin_risk(rescaled).value == pytest.approx(spectral_margin_risk(facts).value)
    printed = printed_spectral_margin_risk(facts).value
    assert printed_spectral_margin_risk(rescaled).value == pytest.approx(printed / math.sqrt(2))


@pytest.mark.parametrize(
    ("margin", "holds"), [(math.e * 7 * 8 * 0.999, True), (math.e * 7 * 8 * 1.001, False)]
)
def test_theorem_2_2_needs_a_margin_that_the_layers_can_lose(margin, holds):
    assert is_met(spectral_margin_risk(stable_network(margin=margin)), "gamma <= e") is holds


def test_lemma_10_is_lemma_3_with_twice_the_constant():
    facts = stable_network()
    lemma_3 = published_total(facts, epsilon=0.5 / (math.sqrt(2) * 9))
    assert margin_numbers(facts).value == pytest.approx(lemma_3)
    terms = 2 / (0.3 * 0.1) ** 2 + 1 / (0.2 * 0.1) ** 2
    explicit = 144 * 1.4**2 * 3**2 * math.log(50_000 * 3 * 100 / 0.05) * 9**2 / 0.5**2 * terms
    assert margin_numbers(facts).value == pytest.approx(explicit)


def test_proven_numbers_by_hand_and_above_the_published_ones():
    facts = stable_network()
    eta = 0.05 / (2 * 3**2 * 100 * 50_000)
    total = 0
    for cushion in (0.3, 0.2, 0.3):
        epsilon = 0.5 / (math.sqrt(2) * 9) * cushion * 0.1 / (6 * 1.4 * 3)
        total += math.ceil(4 * math.log(4 / eta) / (epsilon**2 * (1 - 2 * epsilon / 3)))
    found = proven_numbers(facts)
    assert found.value == pytest.approx(total)
    assert found.value > margin_numbers(facts).value
    assert found.failure_corrected == pytest.approx(0.025 + 0.05)
    assert is_met(found, "fewer numbers") is False


def test_a_layer_large_enough_is_compressed():
    best = stable_layer(rows=1, columns=10**6, cushion=1.0, interlayer_cushion=1.0)
    value = fully_connected_risk(stable_network(best, margin=1.0, largest_output=1.0, examples=100))
    assert is_met(value, "fewer numbers") is True


def test_numbers_of_convolutions_by_hand():
    eta = 0.05 / (2 * 2**2 * 100 * 50_000)
    epsilon = 0.5 / (math.sqrt(2) * 9)
    accuracy = epsilon * 0.3 * 0.1 / (6 * 1.4 * 2 * 1.2)
    mixes = math.ceil((3 * math.log(1 / eta) / accuracy) ** 2)
    conv = mixes * 2 * math.ceil(math.log2(1 / eta) / 2)
    dense = 72 * 1.4**2 * 2**2 * math.log(50_000 * 2 * 100 / 0.05) / (epsilon * 0.3 * 0.1) ** 2
    found = convolutional_numbers(convolutional())
    assert found.value == pytest.approx(conv + dense)
    assert found.constants[0].value == 1.0
    assert found.failure_corrected is None


def test_the_bar_uses_the_contraction_and_spread_of_each_layer():
    facts = convolutional(margin=2.0)
    rows = table_rows(facts)
    assert [row.value for row in rows] == pytest.approx([(1.4 * 1.2 * 3 / 0.03) ** 2, 1 / 0.03**2])
    assert [row.name for row in rows] == ["conv", "fc"]
    assert rows[0].percent == pytest.approx(100 * rows[0].value / (16 * 27))
    bar = noise_stability_bar(facts)
    assert bar.unit == "capacity"
    assert bar.value == pytest.approx(9**2 / 2**2 * sum(row.value for row in rows))
    assert bar.like_for_like(50_000).value == pytest.approx(math.sqrt(bar.value / 50_000))


@given(st.floats(1e-6, 1e6), st.integers(0, 2))
def test_rescaling_a_layer_changes_nothing(scale, place):
    """A layer times s moves its norms, the outputs and the margin; cushions and their ratio stay."""
    facts = stable_network()
    layers = list(facts.layers)
    layers[place] = replace(
        layers[place],
        **{
            name: scale * getattr(layers[place], name)
            for name in ("frobenius", "spectral", "operator_norm", "l2_1", "l1_inf")
        },
    )
    scaled = replace(
        facts, layers=tuple(layers), margin=scale * facts.margin, largest_output=scale * facts.largest_output
    )
    for expression in STABILITY:
        assert expression(scaled).log_value == pytest.approx(expression(facts).log_value, abs=1e-9)
    assert spectral_margin_risk(scaled).log_value == pytest.approx(spectral_margin_risk(facts).log_value)


@given(st.floats(0.01, 1.0), st.floats(0.1, 0.9))
def test_less_stability_is_never_better(cushion, factor):
    def at(**changes) -> NetworkFacts:
        return stable_network(
            stable_layer("a", **{"cushion": cushion, **changes}), stable_layer("b", contraction=None)
        )

    for expression in STABILITY:
        here = expression(at()).log_value
        assert expression(at(cushion=factor * cushion)).log_value > here
        assert expression(at(interlayer_cushion=factor * 0.1)).log_value > here
        assert expression(at(contraction=1.4 / factor)).log_value > here


def test_nineteen_layers_of_tiny_cushions_do_not_overflow():
    layers = [
        stable_layer(str(i), cushion=1e-3, interlayer_cushion=1e-3, spectral=1e30, frobenius=1e30)
        for i in range(19)
    ]
    facts = stable_network(*layers)
    for expression in (*STABILITY, *RISKS):
        assert math.isfinite(expression(facts).log_value)
    capacity = 19**2 * 1.4**2 * 9**2 * 19 * 1e12 / 0.5**2
    assert fully_connected_risk(facts).value == pytest.approx(0.02 + math.sqrt(capacity / 50_000))
    assert spectral_margin_risk(facts).value == math.inf
    assert spectral_margin_risk(facts).log10 == pytest.approx(19 * 30 + 1.7148, abs=1e-4)


def test_cushions_at_the_end_of_the_doubles_ask_for_infinitely_many_numbers():
    facts = stable_network(stable_layer(cushion=1e-200, interlayer_cushion=1e-200))
    assert math.isfinite(fully_connected_risk(facts).log_value)
    assert proven_numbers(facts).value == math.inf


@pytest.mark.parametrize("expression", [*STABILITY, *RISKS[:2]])
@pytest.mark.parametrize("margin", [0.0, -1.0])
def test_without_a_positive_margin_everything_is_infinite(expression, margin):
    value = expression(stable_network(margin=margin))
    assert value.log_value == math.inf
    assert value.unmet


@pytest.mark.parametrize("expression", STABILITY)
def test_a_cushion_of_zero_is_infinitely_bad(expression):
    assert expression(stable_network(stable_layer(cushion=0.0))).log_value == math.inf


@pytest.mark.parametrize(("smoothness", "holds"), [(None, None), (8.9, False), (9.0, True)])
def test_smoothness_must_reach_three_times_the_depth(smoothness, holds):
    assert is_met(fully_connected_risk(stable_network(smoothness=smoothness)), "smoothness") is holds


def test_a_margin_beyond_the_outputs_is_flagged():
    value = fully_connected_risk(stable_network(margin=10.0, largest_output=7.0))
    assert is_met(value, "gamma^2 <= 2") is False
    assert math.isfinite(value.log_value)


def test_accuracies_above_one_are_flagged():
    value = convolutional_risk(
        stable_network(
            stable_layer(patch=1, cushion=30.0, interlayer_cushion=1.0), margin=1.0, largest_output=1.0
        )
    )
    assert is_met(value, "eps_i <= 1") is False


def test_distance_cushions_are_just_other_cushions():
    """A-Imp-i: the distance from the initial weights is shorter, so cushions are larger and the risk less."""
    from_zero = stable_network()
    from_initial = replace(
        from_zero, layers=tuple(replace(x, cushion=3 * x.cushion) for x in from_zero.layers)
    )
    excess = [fully_connected_risk(replace(x, margin_loss=0.0)).value for x in (from_zero, from_initial)]
    assert excess[0] == pytest.approx(3 * excess[1])


@pytest.mark.parametrize(
    ("missing", "name"),
    [
        ("cushion", "layer cushion"),
        ("interlayer_cushion", "interlayer cushion"),
        ("contraction", "activation contraction"),
        ("spread", "Jacobian spread"),
    ],
)
def test_a_missing_measurement_is_named_with_its_layer(missing, name):
    conv = stable_layer("conv7", patch=3, spread=1.0)
    facts = stable_network(replace(conv, **{missing: None}), stable_layer("fc"))
    for expression in (convolutional_risk, convolutional_numbers, noise_stability_bar, table_rows):
        with pytest.raises(UsageError, match=f"layer conv7 has no {name}"):
            expression(facts)


@pytest.mark.parametrize("expression", [fully_connected_risk, margin_numbers, proven_numbers])
def test_section_4_refuses_convolutions(expression):
    with pytest.raises(UsageError, match="layer conv is a convolution"):
        expression(convolutional())


@pytest.mark.parametrize("outliers", [-0.1, 1.1, math.nan])
def test_outliers_are_a_share(outliers):
    with pytest.raises(UsageError, match="outliers"):
        fully_connected_risk(stable_network(), outliers=outliers)
