"""Weights and risk of a lottery ticket as published, with the conditions on its target."""

import math
from dataclasses import replace

import pytest
from worlds.facts import layers_between, network_facts

from codebound.run.errors import UsageError
from codebound_papers.facts import NetworkFacts
from codebound_papers.guha23.lottery import ticket_risk, ticket_weights


def target(*, spectral=0.9, input_norm=1.0, margin=0.5) -> NetworkFacts:
    layers = layers_between((784, 30, 30, 10), spectral=spectral, frobenius=2.0, l2_1=4.0, l1_inf=2.0)
    given = {"examples": 60_000, "margin_loss": 0.02, "largest_output": 1.0, "delta": 0.01}
    return network_facts(*layers, input_norm=input_norm, margin=margin, **given)


def test_weights_as_printed_and_of_the_target():
    value = ticket_weights(target(), random_width=10_000)
    assert value.value == pytest.approx(784 * 10_000 + 3 * 10_000**2)
    assert value.unit == "numbers"
    assert f"{784 * 30 + 3 * 900:,}" in value.sentence
    assert value.failure_published == 0.01


def test_risk_by_hand():
    value = ticket_risk(target(), random_width=10_000, step=1 / 256)
    nats = (30 * 784 + 3 * 30**2) * math.log(10_000) ** 2 * math.log(256)
    assert value.value == pytest.approx(0.02 + math.sqrt(nats / 60_000), rel=1e-12)
    assert value.failure_published == pytest.approx(0.01 + 3 * 1e-8)
    assert value.failure_corrected == pytest.approx(0.02 + 3 * 1e-8)


def test_the_sketch_is_smaller_than_theorem_5_1_allows():
    """G-E21 iv: 276 against 921."""
    (unmet,) = ticket_risk(target(), random_width=10_000, step=0.01).unmet
    assert unmet.found == "276.3 of 921"
    assert not ticket_risk(target(), random_width=900, step=0.01).unmet


def test_conditions_on_the_target():
    value = ticket_weights(target(spectral=1.5, input_norm=2.0), random_width=900)
    assert [each.found for each in value.unmet] == ["layer fc0: 1.5", "2"]
    assert [each.holds for each in ticket_weights(target(), random_width=900).hypotheses] == [
        True,
        None,
        True,
        None,
        True,
        True,
    ]
    assert [
        each.statement for each in ticket_weights(replace(target(), parameters=10**6), random_width=900).unmet
    ] == ["the network has no biases"]


@pytest.mark.parametrize(("distance", "holds"), [(None, None), (0.25, True), (0.3, False)])
def test_the_margin_is_twice_the_distance(distance, holds):
    value = ticket_risk(target(), random_width=900, step=0.01, distance=distance)
    (found,) = [each for each in value.hypotheses if "distance of ticket and target" in each.statement]
    assert found.holds is holds


def test_limits():
    coarse = ticket_risk(target(), random_width=900, step=1.0)
    assert coarse.value == pytest.approx(0.02)
    assert [each.statement for each in coarse.unmet] == ["the step rho is below 1"]
    assert ticket_risk(target(margin=0.0), random_width=900, step=0.1).value == math.inf
    with pytest.raises(UsageError, match="at least the width of the target, 30"):
        ticket_weights(target(), random_width=29)
    with pytest.raises(UsageError, match="step"):
        ticket_risk(target(), random_width=900, step=0.0)
    wide = replace(target(), input_size=10**6)
    assert ticket_weights(wide, random_width=10**9).log10 == pytest.approx(math.log10(3e18 + 1e15))
