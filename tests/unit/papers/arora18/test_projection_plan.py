"""Plans are arithmetic on measured numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.errors import UsageError
from codebound_papers.arora18.projection_plan import (
    LayerCushions,
    PlanSettings,
    epsilon_for_margin,
    plan_projection,
    published_total,
)

SETTING = PlanSettings(contraction=1.5, epsilon=0.5, delta=0.05, examples=1000, width=30)


def stability(**changes) -> LayerCushions:
    return LayerCushions(
        **{"name": "fc", "weights": 900, "cushion": 0.5, "interlayer_cushion": 0.2, **changes}
    )


def test_accuracy_and_counts_of_a_plan_by_hand():
    stack = [stability(name="a"), stability(name="b", cushion=0.3)]
    plan = plan_projection(stack, SETTING)
    eta = 0.05 / (2 * 4 * 30 * 1000)
    assert plan.eta == pytest.approx(eta)
    for layer, planned in zip(stack, plan.layers, strict=True):
        epsilon = 0.5 * layer.cushion * 0.2 / (6 * 1.5 * 2)
        assert planned.epsilon == pytest.approx(epsilon)
        assert planned.count == math.ceil(4 * math.log(4 / eta) / (epsilon**2 * (1 - 2 * epsilon / 3)))
    total = 72 * 1.5**2 * 2**2 * math.log(1000 * 2 * 30 / 0.05) / 0.5**2
    inverse = 1 / (0.5 * 0.2) ** 2 + 1 / (0.3 * 0.2) ** 2
    assert published_total(stack, SETTING) == pytest.approx(total * inverse)
    assert sum(layer.published for layer in plan.layers) == pytest.approx(total * inverse)


def test_a_convolution_has_a_published_count_and_no_proven_one():
    conv = stability(patch=3)
    (planned,) = plan_projection([conv], SETTING, spread=2.0, constant=5.0).layers
    epsilon = 0.5 * 0.5 * 0.2 / (6 * 1.5 * 2.0)
    assert planned.epsilon == pytest.approx(epsilon)
    eta = 0.05 / (2 * 30 * 1000)
    mixes = math.ceil(5.0 * 9 * math.log(1 / eta) ** 2 / epsilon**2)
    assert planned.published == mixes * 2 * math.ceil(math.log2(1 / eta) / 2)
    assert planned.count is None


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.floats(1.0, 10.0))
def test_more_noise_needs_more_numbers(cushion, interlayer, contraction):
    def count(**changes) -> int:
        setting = PlanSettings(contraction=contraction, epsilon=0.5, delta=0.05, examples=10, width=5)
        measured = {"cushion": cushion, "interlayer_cushion": interlayer, **changes}
        return plan_projection([stability(**measured)], setting).layers[0].count

    assert count(cushion=cushion / 2) > count()
    assert count(interlayer_cushion=interlayer / 2) > count()


def test_lemma_10_uses_the_root_of_two():
    assert epsilon_for_margin(1.0, largest_output=5.0) == pytest.approx(1 / (5 * math.sqrt(2)))
    assert epsilon_for_margin(math.sqrt(2.0) * 0.3, largest_output=0.3) == 1.0  # not a rounding error above
    for margin in (10.0, 1e200):
        with pytest.raises(UsageError, match="smaller margin"):
            epsilon_for_margin(margin, largest_output=5.0)


@pytest.mark.parametrize(
    "changes",
    [{"contraction": 0.5}, {"epsilon": 0.0}, {"epsilon": 1.5}, {"delta": 0.0}, {"examples": 0}, {"width": 0}],
)
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(UsageError, match="Got PlanSettings"):
        PlanSettings(
            **{"contraction": 1.5, "epsilon": 0.5, "delta": 0.05, "examples": 10, "width": 3, **changes}
        )


@pytest.mark.parametrize(
    "changes", [{"cushion": 0.0}, {"interlayer_cushion": -1.0}, {"weights": 0}, {"patch": 0}]
)
def test_measures_out_of_range_are_refused(changes):
    with pytest.raises(UsageError, match="cushions are positive"):
        stability(**changes)


def test_a_plan_needs_a_layer():
    with pytest.raises(UsageError, match="at least one layer"):
        plan_projection([], SETTING)
