"""The compression framework as published, against the certified forms that it should have been."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.facts import layer_facts, network_facts

from codebound.bounds.occam import occam_hoeffding
from codebound.bounds.risk import OccamFacts
from codebound.run.errors import UsageError
from codebound_papers.facts import NetworkFacts
from codebound_papers.framework import (
    big_o_risk,
    counting_framework,
    parameter_framework,
    parameter_framework_with_outliers,
)


def one_layer(**changes) -> NetworkFacts:
    """Of a linear classifier of MNIST."""
    layer = layer_facts(rows=10, columns=784, spectral=3.0, frobenius=9.0, l2_1=28.0, l1_inf=80.0)
    given = {"examples": 60_000, "margin_loss": 0.1, "input_norm": 28.0, "largest_output": 9.0}
    return network_facts(layer, **given | changes)


def test_by_hand():
    value = parameter_framework(one_layer(), parameters=500, levels=256)
    assert value.value == pytest.approx(0.1 + math.sqrt(500 * 5.545177444479562 / 60_000), rel=1e-12)
    assert value.subject == "g"
    assert value.unit == "risk"
    assert value.guarantee == "none"
    assert "C-4" in value.sentence


@pytest.mark.parametrize(("parameters", "levels"), [(5, 16), (20, 4), (3, 256)])
def test_the_papers_choice_is_hoeffding_at_a_failure_of_one_network(parameters, levels):
    """A-Thm2.1 takes sqrt(q ln r / n), which is C-4 at delta = r^-q."""
    published = parameter_framework(one_layer(), parameters=parameters, levels=levels)
    assert published.failure_published is None
    assert published.failure_corrected == pytest.approx(float(levels) ** -parameters, rel=1e-12)
    certified = occam_hoeffding(
        OccamFacts(
            errors=6000,
            n=60_000,
            code_bits=parameters * math.log2(levels),
            delta=float(levels) ** -parameters,
        )
    )
    assert published.value == pytest.approx(certified.value, rel=1e-12)


@given(st.floats(0.0, 1e6), st.floats(1e-6, 0.5))
def test_counting_is_hoeffding_for_a_class(log_count, delta):
    published = counting_framework(one_layer(delta=delta), log_count=log_count)
    certified = occam_hoeffding(
        OccamFacts(errors=6000, n=60_000, code_bits=log_count / math.log(2.0), delta=delta)
    )
    assert min(1.0, published.value) == pytest.approx(certified.value, rel=1e-9)
    assert published.failure_corrected == published.failure_published == delta


def test_outliers_are_added():
    plain = parameter_framework(one_layer(), parameters=500, levels=256)
    with_some = parameter_framework_with_outliers(one_layer(), parameters=500, levels=256, outliers=0.03)
    with_none = parameter_framework_with_outliers(one_layer(), parameters=500, levels=256, outliers=0.0)
    assert with_some.value - plain.value == pytest.approx(0.03)
    assert with_none.value == pytest.approx(plain.value)
    assert with_some.ref == with_none.ref == "A-CorA.1"


def test_closeness_is_half_of_what_the_papers_ask():
    """G-E2: with gamma = 1 and scores that move by 0.95 the network errs, so gamma is not enough."""
    for deviation, holds in ((0.95, False), (0.5, True), (None, None)):
        for value in (
            parameter_framework(one_layer(margin=1.0), parameters=5, levels=2, deviation=deviation),
            counting_framework(one_layer(margin=1.0), log_count=3.0, deviation=deviation),
        ):
            assert value.hypotheses[1].holds is holds
            assert "G-E2" in value.errata


@pytest.mark.parametrize("margin", [0.0, -1.0])
def test_without_a_margin_there_is_no_bound(margin):
    facts = one_layer(margin=margin)
    assert big_o_risk(facts, log_nats=0.0) == math.inf
    for value in (
        parameter_framework(facts, parameters=5, levels=2),
        parameter_framework_with_outliers(facts, parameters=5, levels=2, outliers=0.1),
        counting_framework(facts, log_count=1.0),
    ):
        assert value.value == math.inf
        assert value.unmet[0].statement == "f separates the sample with a positive margin"


def test_big_o_risk_survives_what_no_double_holds():
    assert big_o_risk(one_layer(), log_nats=3000.0) == pytest.approx(1500.0 - 0.5 * math.log(60_000))


def test_nonsense_is_refused():
    with pytest.raises(UsageError, match="at least 1 parameter"):
        parameter_framework(one_layer(), parameters=0, levels=2)
    with pytest.raises(UsageError, match="at least 2 levels"):
        parameter_framework(one_layer(), parameters=1, levels=1)
    with pytest.raises(UsageError, match="outliers"):
        parameter_framework_with_outliers(one_layer(), parameters=1, levels=2, outliers=1.5)
    with pytest.raises(UsageError, match="log_count"):
        counting_framework(one_layer(), log_count=-1.0)
