"""Numbers that were computed elsewhere (check scripts of the specification), to the digits given there."""

import math

import pytest

from codebound.bounds.held_out import holdout
from codebound.bounds.numerics import kl_inverse_upper, log2_choose
from codebound.bounds.occam import occam_binomial, occam_hoeffding, occam_kl
from codebound.bounds.risk import HoldoutFacts, OccamFacts


@pytest.mark.parametrize(
    ("q", "nats", "expected"),
    [
        (0.0, 0.01, 0.00995016625083195),
        (0.02, 0.01, 0.04651592106776776),
        (0.02, 0.1, 0.15081151211866958),
        (0.1, 0.5, 0.5748172910133391),
        (0.0, math.log(2.0), 0.5),
    ],
)
def test_kl_inverse(q, nats, expected):
    assert kl_inverse_upper(q, nats) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("errors", "n", "delta", "expected"),
    [
        (0, 100, 0.05, 0.029513049607),
        (5, 100, 0.05, 0.102253377643),
        (200, 10_000, 0.01, 0.023502558682),
        (215, 10_000, 0.05, 0.024041827678),
    ],
)
def test_clopper_pearson(errors, n, delta, expected):
    assert holdout(HoldoutFacts(errors=errors, n=n, delta=delta)).value == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize(
    ("errors", "code_bits", "hoeffding", "kl", "binomial"),
    [
        (0, 1000, 0.0762, 0.0115, 0.0115),
        (300, 5000, 0.1750, 0.0738, 0.0737),
        (1200, 20_000, 0.3599, 0.2657, 0.2656),
        (0, 60_000, 0.5887, 0.5000, 0.5000),
    ],
)
def test_occam_forms(errors, code_bits, hoeffding, kl, binomial):
    facts = OccamFacts(errors=errors, n=60_000, code_bits=code_bits, delta=0.05)
    assert round(occam_hoeffding(facts).value, 4) == hoeffding
    assert round(occam_kl(facts).value, 4) == kl
    assert round(occam_binomial(facts).value, 4) == binomial


def test_log2_of_a_large_binomial_coefficient():
    assert log2_choose(614_656, 61_466) == pytest.approx(288263.02004, abs=5e-6)


# Budget table for n = 60,000 and delta = 0.05 (kl form, per cent): (training error %, bits) -> bound.
@pytest.mark.parametrize(
    ("percent", "code_bits", "expected"),
    [(0.5, 250, 1.25), (1, 1000, 3.34), (2, 2000, 6.59), (5, 4000, 14.42), (15, 8000, 34.0)],
)
def test_budget_table(percent, code_bits, expected):
    facts = OccamFacts(errors=round(600 * percent), n=60_000, code_bits=code_bits, delta=0.05)
    assert 100.0 * occam_kl(facts).value == pytest.approx(expected, abs=0.06)
