"""Plans are arithmetic on measured numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.facts import stable_layer, stable_network

from codebound.run.errors import UsageError
from codebound_papers.arora18.projection_plan import epsilon_for_margin, plan_projection, published_total
from codebound_papers.facts import LayerFacts


def layer(name: str = "fc", **changes) -> LayerFacts:
    return stable_layer(
        name,
        **{"rows": 30, "columns": 30, "cushion": 0.5, "interlayer_cushion": 0.2, "contraction": 1.5}
        | changes,
    )


def accurate_network(*layers: LayerFacts, epsilon: float = 0.5):
    """A margin that allows the accuracy."""
    return stable_network(*layers, examples=1000, margin=epsilon * math.sqrt(2.0) * 9.0)


def test_accuracy_and_counts_of_a_plan_by_hand():
    facts = accurate_network(layer("a"), layer("b", cushion=0.3))
    plan = plan_projection(facts)
    eta = 0.05 / (2 * 4 * 30 * 1000)
    assert plan.eta == pytest.approx(eta)
    for each, planned in zip(facts.layers, plan.layers, strict=True):
        epsilon = 0.5 * each.cushion * 0.2 / (6 * 1.5 * 2)
        assert planned.epsilon == pytest.approx(epsilon)
        assert planned.count == math.ceil(4 * math.log(4 / eta) / (epsilon**2 * (1 - 2 * epsilon / 3)))
    total = 72 * 1.5**2 * 2**2 * math.log(1000 * 2 * 30 / 0.05) / 0.5**2
    inverse = 1 / (0.5 * 0.2) ** 2 + 1 / (0.3 * 0.2) ** 2
    assert published_total(facts, epsilon=0.5) == pytest.approx(total * inverse)
    assert sum(layer.published for layer in plan.layers) == pytest.approx(total * inverse)


def test_a_convolution_has_a_published_count_and_no_proven_one():
    (planned,) = plan_projection(accurate_network(layer(patch=3)), contraction=1.5, spread=2.0).layers
    epsilon = 0.5 * 0.5 * 0.2 / (6 * 1.5 * 2.0)
    assert planned.epsilon == pytest.approx(epsilon)
    eta = 0.05 / (2 * 30 * 1000)
    mixes = math.ceil(9 * math.log(1 / eta) ** 2 / epsilon**2)
    assert planned.published == mixes * 2 * math.ceil(math.log2(1 / eta) / 2)
    assert planned.count is None


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.floats(1.0, 10.0))
def test_more_noise_needs_more_numbers(cushion, interlayer, contraction):
    def count(**changes) -> int:
        measured = {"cushion": cushion, "interlayer_cushion": interlayer, **changes}
        return plan_projection(accurate_network(layer(**measured)), contraction=contraction).layers[0].count

    assert count(cushion=cushion / 2) > count()
    assert count(interlayer_cushion=interlayer / 2) > count()


def test_lemma_10_uses_the_root_of_two():
    assert epsilon_for_margin(1.0, largest_output=5.0) == pytest.approx(1 / (5 * math.sqrt(2)))
    assert epsilon_for_margin(math.sqrt(2.0) * 0.3, largest_output=0.3) == 1.0  # not a rounding error above
    for margin in (10.0, 1e200):
        with pytest.raises(UsageError, match="smaller margin"):
            epsilon_for_margin(margin, largest_output=5.0)
