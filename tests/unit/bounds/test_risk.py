import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bounds.held_out import holdout
from codebound.bounds.occam import (
    choice_bits,
    elias_gamma_bits,
    occam_binomial,
    parameter_bits,
    raw_weight_bits,
)
from codebound.bounds.original import (
    LayerBounds,
    margin_for_deviation,
    occam_domain,
    occam_margin,
    output_deviation,
    theta_on_grid,
)
from codebound.bounds.risk import HoldoutFacts, OccamFacts, RiskBound, percent
from codebound.run.errors import UsageError

GOOD = OccamFacts(errors=3, n=10, code_bits=5, delta=0.05)
FRESH = HoldoutFacts(errors=3, n=10, delta=0.05)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"errors": -1}, "errors"),
        ({"errors": 11}, "errors"),
        ({"n": 0}, "`n`"),
        ({"n": 10**13}, "`n`"),
        ({"code_bits": -0.1}, "code_bits"),
        ({"code_bits": math.nan}, "code_bits"),
        ({"code_bits": math.inf}, "code_bits"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"classes": 1}, "classes"),
        ({"errors": 2.5}, "errors"),
        ({"errors": "3"}, "errors"),
        ({"delta": "0.05"}, "delta"),
    ],
)
def test_occam_facts_refuse_what_no_sample_can_have(change, word):
    good = {"errors": 3, "n": 10, "code_bits": 5, "delta": 0.05}
    with pytest.raises(UsageError, match=word):
        OccamFacts(**{**good, **change})


@pytest.mark.parametrize(
    "make",
    [
        lambda: HoldoutFacts(errors=11, n=10, delta=0.05),
        lambda: HoldoutFacts(errors=1, n=10, delta=0.05, subject="h"),
        lambda: occam_domain(GOOD, theta_index=8001),
        lambda: LayerBounds(weight=math.inf, weight_change=0.0),
        lambda: output_deviation([], input_norm=-1.0),
        lambda: margin_for_deviation(-1.0, norm="sup"),
        lambda: theta_on_grid(0.0),
        lambda: theta_on_grid(math.nan),
        lambda: choice_bits(0),
        lambda: parameter_bits(3, levels=0),
        lambda: elias_gamma_bits(0),
    ],
)
def test_every_other_door_checks_its_range(make):
    with pytest.raises(UsageError):
        make()


@pytest.mark.parametrize("whole", [np.int32, np.int64, np.uint32])
def test_numbers_of_numpy_give_the_same_bound(whole):
    """In 32 bits errors * (n - errors) overflows, and float32 has too few digits for a bound."""
    plain = OccamFacts(errors=40_000, n=100_000, code_bits=1000, delta=0.0625)
    fixed = OccamFacts(
        errors=whole(40_000), n=whole(100_000), code_bits=np.float32(1000), delta=np.float32(0.0625)
    )
    assert fixed == plain
    assert occam_binomial(fixed) == occam_binomial(plain)
    assert all(
        type(number) in (int, float) for number in (fixed.errors, fixed.n, fixed.code_bits, fixed.delta)
    )


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from([2, 4]))
def test_a_printed_bound_is_never_below_the_bound(millionths, towards, digits):
    bound = min(1.0, math.nextafter(millionths / 10**6, towards))
    printed = Fraction(percent(bound, digits).removesuffix(" %")) / 100
    assert Fraction(bound) <= printed < Fraction(bound) + Fraction(1, 10 ** (digits + 2))


def test_raw_weights_cost_32_bits_each():
    assert raw_weight_bits(7) == 224.0


@pytest.mark.parametrize(
    ("value", "classes", "vacuous"),
    [(0.9, 10, True), (0.8999, 10, False), (0.5, 2, True), (0.999, None, False), (1.0, None, True)],
)
def test_vacuous_means_no_better_than_guessing(value, classes, vacuous):
    facts = OccamFacts(errors=0, n=1, code_bits=0, delta=0.05, classes=classes)
    bound = RiskBound(ref="C-2", value=value, delta=0.05, subject="g", facts=facts)
    assert bound.vacuous is vacuous
    assert ("VACUOUS" in bound.sentence) is vacuous


@pytest.mark.parametrize(
    ("bound", "ref", "subject", "delta"),
    [
        (lambda: occam_binomial(GOOD), "C-2", "g", 0.05),
        (lambda: occam_margin(GOOD), "C-7", "g", 0.05),
        (lambda: holdout(replace(FRESH, subject="f")), "C-11", "f", 0.05),
        (lambda: occam_domain(GOOD, theta_index=3), "C-12a", "f", 0.05),
    ],
)
def test_every_route_states_its_subject_and_its_level(bound, ref, subject, delta):
    stated = bound()
    assert (stated.ref, stated.subject, stated.delta) == (ref, subject, delta)
    assert {"g": "the classifier", "f": "the given network"}[subject] in stated.sentence
