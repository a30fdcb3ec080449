import math

import pytest

from codebound.bounds.certified import (
    LayerBounds,
    RiskBound,
    chernoff_tail,
    choice_bits,
    class_bits,
    elias_gamma_bits,
    holdout,
    margin_for_deviation,
    mixture_bits,
    occam_binomial,
    occam_zero_errors,
    output_deviation,
    parameter_bits,
    raw_weight_bits,
    theta_on_grid,
    weighted_choice_bits,
)
from codebound.errors import UsageError
from codebound.facts import DisagreementFacts, DomainFacts, HoldoutFacts, MarginFacts, OccamFacts, SplitFacts

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
        lambda: HoldoutFacts(errors=1, n=10, delta=0.05, networks=0),
        lambda: MarginFacts(counted=GOOD, outliers=4, theta=1.0),
        lambda: MarginFacts(counted=GOOD, outliers=-1, theta=1.0),
        lambda: MarginFacts(counted=GOOD, outliers=1, theta=math.inf),
        lambda: SplitFacts(certify=GOOD, n_prior=0),
        lambda: DomainFacts(at_theta=GOOD, theta_index=8001),
        lambda: DisagreementFacts(
            risk=OccamFacts(errors=0, n=1, code_bits=0, delta=0.6),
            disagreement=HoldoutFacts(errors=0, n=1, delta=0.5),
        ),
        lambda: LayerBounds(weight=math.inf, weight_change=0.0),
        lambda: output_deviation([], input_norm=-1.0),
        lambda: margin_for_deviation(-1.0, norm="sup"),
        lambda: theta_on_grid(0.0),
        lambda: theta_on_grid(math.nan),
        lambda: class_bits(0),
        lambda: choice_bits(0),
        lambda: parameter_bits(3, levels=0),
        lambda: weighted_choice_bits(0.0),
        lambda: elias_gamma_bits(0),
        lambda: mixture_bits([], []),
        lambda: mixture_bits([1.0], [0.5, 0.5]),
        lambda: mixture_bits([1.0, 1.0], [0.6, 0.5]),
        lambda: mixture_bits([-1.0], [0.5]),
        lambda: chernoff_tail(1, 10, risk=1.1),
        lambda: occam_zero_errors(GOOD),
    ],
)
def test_every_other_door_checks_its_range(make):
    with pytest.raises(UsageError):
        make()


def test_facts_cannot_be_changed_afterwards():
    with pytest.raises(AttributeError):
        GOOD.errors = 0  # type: ignore[misc]


def test_several_networks_share_the_level():
    alone = holdout(HoldoutFacts(errors=3, n=100, delta=0.01)).value
    shared = holdout(HoldoutFacts(errors=3, n=100, delta=0.05, networks=5)).value
    assert shared == pytest.approx(alone, rel=1e-9)


def test_a_code_without_a_word_contributes_nothing():
    assert mixture_bits([math.inf, 7.0], [0.5, 0.5]) == 8.0
    assert mixture_bits([math.inf], [1.0]) == math.inf


def test_raw_weights_cost_32_bits_each():
    assert raw_weight_bits(7) == 224.0


@pytest.mark.parametrize(
    ("value", "classes", "vacuous"),
    [(0.9, 10, True), (0.8999, 10, False), (0.5, 2, True), (0.999, None, False), (1.0, None, True)],
)
def test_vacuous_means_no_better_than_guessing(value, classes, vacuous):
    facts = OccamFacts(errors=0, n=1, code_bits=0, delta=0.05, classes=classes)
    bound = RiskBound(ref="C-2", value=value, delta=0.05, subject="g", facts=facts, assumptions=())
    assert bound.vacuous is vacuous
    assert ("VACUOUS" in bound.sentence) is vacuous


def test_a_bound_says_what_it_is_about():
    bound = occam_binomial(GOOD)
    assert bound.subject == "g"
    assert bound.delta == 0.05
    assert any("independent draw" in line for line in bound.assumptions)
    assert "decoded network g" in bound.sentence
