"""The printed tables of Guha et al. 2023 (MNIST, CIFAR10), and what can be deduced from them."""

import math
from dataclasses import replace

import pytest
from worlds.facts import layers_between, network_facts

from codebound_papers.baselines import (
    decimal_orders,
    guha_code,
    parameter_counting,
    released_bartlett17,
    released_neyshabur17,
)
from codebound_papers.facts import NetworkFacts
from codebound_papers.guha23.pruning import PrunedLayer, PruningFacts
from codebound_papers.guha23.sketching import implied_kept_share, released_sketching
from codebound_papers.value import PublishedValue

WIDTHS = (500, 784, 1000, 1500, 2000, 2500)
MNIST, CIFAR = 48_000, 40_000
# natural logarithms, in the order of guha_code
TABLE_1 = {784: (23.56, 18.34, 11.68)}
TABLE_2 = (33.19, 30.10, 22.40)
OURS = dict(zip(WIDTHS, (3.36, 3.77, 4.00, 4.40, 4.73, 4.96), strict=True))


def printed_network(sides: list[int], *, examples: int = MNIST, stable_rank: float = 9.0) -> NetworkFacts:
    norms = {"frobenius": 2.0 * math.sqrt(stable_rank), "l2_1": 40.0, "l1_inf": 60.0}
    layers = layers_between(sides, **norms)
    return network_facts(*layers, examples=examples, input_norm=28.0, largest_output=5.0)


def mlp(width: int) -> NetworkFacts:
    return printed_network([784, width, width, width, width, 10])


def unpruned(facts: NetworkFacts, *, kept: float = 1.0) -> PruningFacts:
    layers = tuple(
        PrunedLayer(
            name=layer.name,
            strength=0.0,
            kept_share=kept,
            expected_change=0.0,
            step=0.01,
            nonzeros=layer.weights,
            change=0.0,
        )
        for layer in facts.layers
    )
    return PruningFacts(layers=layers, slack=10.0, sparsity_slack=10.0)


@pytest.mark.parametrize(
    ("width", "expected"), list(zip(WIDTHS, (3.439, 3.866, 4.118, 4.544, 4.851, 5.091), strict=True))
)
def test_released_value_of_a_network_that_is_not_pruned(width, expected):
    facts = mlp(width)
    value = released_sketching(facts, pruning=unpruned(facts), needed_loss=0.0)
    assert round(value.log_value, 3) == expected


@pytest.mark.parametrize(
    ("width", "chi"), list(zip(WIDTHS, (0.85, 0.83, 0.79, 0.75, 0.79, 0.77), strict=True))
)
def test_kept_share_that_the_printed_value_implies(width, chi):
    """G-E22 iv: three quarters and more of the weights were kept."""
    facts = mlp(width)
    implied = implied_kept_share(facts, log_value=OURS[width])
    assert implied == pytest.approx(chi, abs=0.006)  # the tables have two decimals
    again = released_sketching(facts, pruning=unpruned(facts, kept=implied), needed_loss=0.0)
    assert again.log_value == pytest.approx(OURS[width])


def as_value(log_value: float) -> PublishedValue:
    return PublishedValue(
        ref="I-17:guha-code", name="row", log_value=log_value, unit="capacity", subject="f", sentence="A row."
    )


@pytest.mark.parametrize(
    ("printed", "examples", "expected"),
    [
        *zip(TABLE_1[784], [MNIST] * 3, (6.39, 3.78, 0.45), strict=True),
        *zip(TABLE_2, [CIFAR] * 3, (11.30, 9.75, 5.90), strict=True),
    ],
)
def test_rows_like_for_like(printed, examples, expected):
    """G-E22 v: divided by n and square-rooted, the row called Bartlett is below the paper's own."""
    found = as_value(printed).like_for_like(examples)
    assert found.log_value == pytest.approx(expected, abs=0.006)
    assert found.unit == "risk"


def test_two_rows_differ_by_the_logarithm_of_the_fan_in():
    """G-E22 ii: 18.34 - 11.68 = ln 784, which is so only with Frobenius norms for Bartlett's."""
    facts = mlp(784)
    difference = released_neyshabur17(facts).log_value - released_bartlett17(facts).log_value
    assert difference == pytest.approx(math.log(784), rel=1e-12)
    assert difference == pytest.approx(TABLE_1[784][1] - TABLE_1[784][2], abs=0.011)
    names = [value.name for value in guha_code(facts)]
    assert names == ["Neyshabur 2015", "Neyshabur 2017", "Bartlett 2017"]
    # teeth: norms that are not those of the other row break the equality
    other = replace(facts, layers=tuple(replace(layer, frobenius=layer.l2_1) for layer in facts.layers))
    assert released_neyshabur17(facts).log_value - released_bartlett17(other).log_value < math.log(784) - 1.0


def test_the_same_difference_betrays_the_width_of_the_cifar_network():
    """G-E22 iii: 7.70 = ln((3072 + 4 * 2000) / 5)."""
    facts = printed_network([3072, 2000, 2000, 2000, 2000, 10], examples=CIFAR)
    difference = released_neyshabur17(facts).log_value - released_bartlett17(facts).log_value
    assert difference == pytest.approx(TABLE_2[1] - TABLE_2[2], abs=0.011)
    narrow = printed_network([3072, 784, 784, 784, 784, 10], examples=CIFAR)
    assert released_neyshabur17(narrow).log_value - released_bartlett17(narrow).log_value < 7.3


def test_parameter_counting_is_below_the_papers_own_value():
    """G-E22 vi: 1.79 against 3.77."""
    counting = parameter_counting(mlp(784))
    assert round(counting.log_value, 2) == 1.79


def test_orders_of_magnitude_between_the_tables():
    """G-E23: 4.2 to 5.1 decimal orders where the paper says at least 7."""
    orders = [decimal_orders(b - a) for a, b in zip(TABLE_1[784], TABLE_2, strict=True)]
    assert min(orders) == pytest.approx(4.2, abs=0.05)
    assert max(orders) == pytest.approx(5.1, abs=0.05)
    assert math.exp(4.68 - OURS[784]) == pytest.approx(2.5, abs=0.05)
    assert decimal_orders(TABLE_1[784][2] - OURS[784]) == pytest.approx(3.4, abs=0.05)
    assert decimal_orders(TABLE_2[2] - 4.68) == pytest.approx(7.7, abs=0.05)
