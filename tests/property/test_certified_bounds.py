"""What must hold for every certified bound, whatever the numbers."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from codebound.bounds.occam import (
    choice_bits,
    elias_gamma_bits,
    occam_binomial,
    occam_hoeffding,
    occam_kl,
    parameter_bits,
)
from codebound.bounds.original import (
    LayerBounds,
    grid_theta,
    margin_for_deviation,
    occam_domain,
    occam_margin,
    output_deviation,
    theta_on_grid,
    through_disagreement,
)
from codebound.bounds.risk import HoldoutFacts, OccamFacts

FORMS = [occam_binomial, occam_kl, occam_hoeffding]
DELTAS = st.floats(1e-12, 0.999)
BITS = st.one_of(st.integers(0, 10**7), st.floats(0.0, 1e4))


@st.composite
def occam_facts(draw):
    n = draw(st.one_of(st.integers(1, 100), st.integers(1, 10**5), st.just(10**9)))
    errors = draw(st.integers(0, min(n, 10**5)))
    return OccamFacts(errors=errors, n=n, code_bits=draw(BITS), delta=draw(DELTAS))


@given(occam_facts())
def test_the_forms_are_nested(facts):
    values = [form(facts).value for form in (occam_binomial, occam_kl, occam_hoeffding)]
    assert values == sorted(values)
    assert all(0.0 <= value <= 1.0 for value in values)
    assert occam_kl(facts).value >= facts.errors / facts.n


@given(occam_facts(), st.floats(0.0, 1000.0))
def test_a_longer_message_never_helps(facts, more):
    longer = replace(facts, code_bits=facts.code_bits + more)
    for form in FORMS:
        assert form(longer).value >= form(facts).value * (1.0 - 1e-11)


@given(occam_facts())
def test_one_more_error_never_helps(facts):
    if facts.errors < facts.n:
        worse = replace(facts, errors=facts.errors + 1)
        for form in FORMS:
            assert form(worse).value >= form(facts).value * (1.0 - 1e-11)


@given(occam_facts())
def test_a_larger_sample_with_the_same_errors_never_hurts(facts):
    larger = replace(facts, n=facts.n + 1)
    for form in FORMS:
        assert form(larger).value <= form(facts).value * (1.0 + 1e-11)


@given(occam_facts(), st.floats(0.01, 0.99))
def test_a_smaller_delta_never_helps(facts, factor):
    stricter = replace(facts, delta=facts.delta * factor)
    for form in FORMS:
        assert form(stricter).value >= form(facts).value * (1.0 - 1e-11)


@given(occam_facts())
def test_zero_errors_have_a_closed_form(facts):
    none = replace(facts, errors=0)
    assert occam_binomial(none).value == pytest.approx(-math.expm1(-none.nats / none.n), rel=1e-9)


@given(occam_facts(), st.integers(-8000, 8000))
def test_the_special_routes_reduce_to_the_direct_one(facts, index):
    direct = occam_binomial(facts)
    assert occam_margin(facts).value == direct.value
    domain = occam_domain(facts, theta_index=index)
    theta_bits = 2 * math.floor(math.log2(2 * abs(index) + (index >= 0))) + 1  # gamma of the zigzag index + 1
    assert domain.value == occam_binomial(replace(facts, code_bits=facts.code_bits + theta_bits)).value
    assert domain.subject == "f"


@given(occam_facts(), st.integers(0, 100), st.floats(1e-6, 1e-3))
def test_disagreement_adds_up(facts, disagreements, delta):
    apart = HoldoutFacts(errors=disagreements, n=1000, delta=delta)
    limit = beta.isf(delta, disagreements + 1, 1000 - disagreements)
    risk = occam_binomial(replace(facts, delta=0.01)).value
    assert through_disagreement(risk, apart) == pytest.approx(min(1.0, risk + limit), rel=1e-9)


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_a_margin_moves_by_at_most_the_stated_amount(classes, seed):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(200, classes))
    g = f + rng.normal(size=f.shape) * rng.random()

    def margin(scores):
        return scores[:, 0] - scores[:, 1:].max(axis=1)

    moved = np.abs(margin(f) - margin(g))
    sup, l2 = np.abs(f - g).max(axis=1), np.linalg.norm(f - g, axis=1)
    assert all(m <= margin_for_deviation(e, norm="sup") + 1e-12 for m, e in zip(moved, sup, strict=True))
    assert all(m <= margin_for_deviation(e, norm="l2") + 1e-12 for m, e in zip(moved, l2, strict=True))


@given(st.integers(1, 10**30))
def test_class_bits_are_never_too_short(size):
    assert 2.0 ** choice_bits(size) >= size * (1.0 - 1e-12)
    assert choice_bits(size) <= size.bit_length()


@given(st.integers(0, 1000), st.integers(1, 1000))
def test_parameter_bits_are_a_sum_of_class_bits(parameters, levels):
    assert parameter_bits(parameters, levels=levels) == pytest.approx(parameters * math.log2(levels))


def test_the_gamma_code_satisfies_kraft():
    total = sum(2.0 ** -elias_gamma_bits(k) for k in range(1, 2**12))
    assert 0.99 < total <= 1.0


def test_the_code_of_theta_satisfies_kraft():
    total = sum(2.0 ** -grid_theta(j).code_bits for j in range(-2000, 2001))
    assert 0.99 < total <= 1.0


@given(st.floats(1e-200, 1e200))
def test_theta_covers_the_deviation_and_wastes_less_than_an_eighth_of_an_octave(deviation):
    theta = theta_on_grid(deviation)
    assert math.sqrt(2.0) * deviation * (1.0 - 1e-15) <= theta.value
    assert theta.value <= math.sqrt(2.0) * deviation * 2.0**0.125 * (1.0 + 1e-6)
    assert grid_theta(theta.index) == theta


def test_the_grid_of_theta_is_correctly_rounded():
    import mpmath

    with mpmath.workdps(60):
        for index in range(8):
            assert (
                int(mpmath.nint(mpmath.mpf(2) ** (23 + mpmath.mpf(index) / 8)))
                == grid_theta(index).value * 2**23
            )


@given(st.integers(1, 5), st.floats(0.0, 0.3), st.integers(0, 2**32 - 1))
def test_the_recursion_covers_the_actual_deviation(depth, change, seed):
    rng = np.random.default_rng(seed)
    sizes = [7, *([9] * (depth - 1)), 4]
    weights = [rng.normal(size=(o, i)) / math.sqrt(i) for i, o in pairwise(sizes)]
    biases = [0.3 * rng.normal(size=len(w)) for w in weights]
    w_changes = [change * rng.normal(size=w.shape) for w in weights]
    b_changes = [change * rng.normal(size=len(b)) for b in biases]
    x = rng.normal(size=(7, 50))
    x /= np.linalg.norm(x, axis=0)
    f, g = x, x
    for layer in range(depth):
        f = weights[layer] @ (np.maximum(f, 0) if layer else f) + biases[layer][:, None]
        g = (weights[layer] + w_changes[layer]) @ (np.maximum(g, 0) if layer else g)
        g += (biases[layer] + b_changes[layer])[:, None]
    layers = [
        LayerBounds(
            weight=np.linalg.norm(w, 2) * (1 + 1e-12),
            weight_change=np.linalg.norm(u, 2) * (1 + 1e-12),
            bias=np.linalg.norm(b) * (1 + 1e-12),
            bias_change=np.linalg.norm(v) * (1 + 1e-12),
        )
        for w, u, b, v in zip(weights, w_changes, biases, b_changes, strict=True)
    ]
    actual = np.linalg.norm(f - g, axis=0).max()
    assert actual <= output_deviation(layers, input_norm=1.0) + 1e-12


def test_the_recursion_needs_its_cross_term():
    """Teeth: leaving the change out of the factor in front of the old deviation gives a false bound."""
    layers = [LayerBounds(weight=1.0, weight_change=1.0)] * 3
    deviation, magnitude = 0.0, 1.0
    for layer in layers:
        deviation = layer.weight * deviation + layer.weight_change * magnitude
        magnitude *= layer.weight
    actual = 2.0**3 - 1.0  # scalar net f(x) = x against g(x) = 8 x
    assert deviation < actual <= output_deviation(layers, input_norm=1.0)
