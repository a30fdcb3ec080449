"""The older bounds on networks with known norms: dense matrices, invariances, conditions."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.facts import layer_facts, network_facts

from codebound_papers import baselines
from codebound_papers.baselines import (
    arora_figure,
    guha_code,
    literature,
    parameter_counting,
    released_bartlett17,
)
from codebound_papers.facts import LayerFacts, NetworkFacts


def measured_layer(name: str, matrix: np.ndarray) -> LayerFacts:
    return layer_facts(
        name,
        rows=matrix.shape[0],
        columns=matrix.shape[1],
        frobenius=float(np.linalg.norm(matrix)),
        spectral=float(np.linalg.norm(matrix, 2)),
        l2_1=float(np.linalg.norm(matrix, axis=1).sum()),
        l1_inf=float(np.abs(matrix).sum(axis=1).max()),
        variance=float(matrix.var()),
    )


def measured_network(matrices: list[np.ndarray], **changes) -> NetworkFacts:
    layers = (measured_layer(str(i), matrix) for i, matrix in enumerate(matrices))
    given = {"examples": 1000, "classes": 5, "margin": 0.7, "margin_loss": 0.02}
    return network_facts(*layers, **{**given, "input_norm": 3.0, "largest_output": 2.0, **changes})


def matrices(seed: int = 0) -> list[np.ndarray]:
    stream = np.random.default_rng(seed)
    return [stream.normal(size=shape) for shape in ((20, 30), (12, 20), (5, 12))]


def all_forms(facts: NetworkFacts):
    return (*literature(facts), parameter_counting(facts), *arora_figure(facts), *guha_code(facts))


@given(st.integers(0, 1000), st.floats(0.01, 100.0))
def test_moving_scale_between_layers_changes_nothing(seed, scale):
    first, second, last = matrices(seed)
    before = all_forms(measured_network([first, second, last]))
    after = all_forms(measured_network([first * scale, second / scale, last]))
    for one, other in zip(before, after, strict=True):
        assert other.log_value == pytest.approx(one.log_value, rel=1e-9, abs=1e-9)


@given(st.integers(0, 1000), st.floats(0.01, 100.0))
def test_scaling_the_outputs_and_the_margin_changes_nothing_but_the_unsquared_bar(seed, scale):
    first, second, last = matrices(seed)
    before = all_forms(measured_network([first, second, last]))
    after = all_forms(measured_network([first, second, last * scale], margin=0.7 * scale))
    for one, other in zip(before, after, strict=True):
        off = -math.log(scale) if one.name == "l1,inf (BM02)" else 0.0  # A-E22: it lacks its square
        assert other.log_value - one.log_value == pytest.approx(off, abs=1e-9)


def test_bartlett_in_the_released_code_is_below_bartlett():
    facts = measured_network(matrices())
    assert released_bartlett17(facts).log_value < arora_figure(facts)[2].log_value


def test_like_for_like_is_the_literature_form_without_its_factors():
    facts = replace(measured_network(matrices()), margin_loss=0.0, input_norm=1.0)
    bar = arora_figure(facts)[1].like_for_like(facts.examples)
    assert baselines.neyshabur15(facts).value / bar.value == pytest.approx(2.0**3)
    assert bar.unit == "risk"


@pytest.mark.parametrize("margin", [0.0, -0.3])
def test_without_a_margin_the_value_is_infinite_and_says_why(margin):
    for value in all_forms(measured_network(matrices(), margin=margin)):
        if value.name != "Parameters":
            assert value.value == math.inf
            assert "f separates the sample with a positive margin" in [each.statement for each in value.unmet]


def test_a_layer_of_zeros_leaves_the_margin_loss():
    facts = measured_network([np.zeros((4, 6)), np.ones((3, 4))])
    assert [value.value for value in literature(facts)] == pytest.approx([0.02] * 4)


def test_conditions_are_read_off_the_network():
    clean = measured_network(matrices())
    assert not any(value.unmet for value in literature(clean))
    assert [each.holds for each in baselines.bm02(clean).hypotheses][-1] is None
    assert [each.holds for each in baselines.bm02(replace(clean, input_norm=0.9)).hypotheses][-1] is True
    (biased,) = baselines.bartlett17(measured_network(matrices(), biases=37)).unmet
    assert biased.found.startswith("37 parameters")
    norm = clean.layers[0].spectral
    filters = replace(clean.layers[0], patch=3, operator_norm=2.5 * norm)
    (found,) = baselines.neyshabur17(replace(clean, layers=(filters, *clean.layers[1:]))).unmet
    assert found.found == "taken as its filter matrix: 0; the map on images has up to 2.5 times its norm"
    zero = replace(clean, layers=(replace(filters, spectral=0.0), *clean.layers[1:]))
    (found,) = baselines.neyshabur17(zero).unmet
    assert found.statement == "every layer is fully connected"


def test_every_value_says_what_it_is():
    facts = measured_network(matrices())
    for value in all_forms(facts):
        assert value.subject == "f"
        assert value.sentence.endswith(".")
        assert value.unit == ("risk" if value.ref == "I-17" else "capacity")
        assert (value.margin_loss is None) == (value.unit == "capacity")
    assert all(value.constants[0].symbol == "O(.)" for value in literature(facts))
    assert [value.name for value in guha_code(facts)] == ["Neyshabur 2015", "Neyshabur 2017", "Bartlett 2017"]
