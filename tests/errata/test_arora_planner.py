"""Errata of Arora et al. 2018 on fully connected networks, with the numbers they were found with."""

import math

import pytest
from worlds.facts import stable_layer, stable_network

from codebound_papers.arora18.projection_plan import compression_threshold, plan_projection, published_total
from codebound_papers.facts import NetworkFacts


def square_layers(
    depth: int, *, width: int, cushion: float = 1.0, contraction: float = 1.0, epsilon: float = 1.0
) -> NetworkFacts:
    """A margin that allows the accuracy, and cushions behind every layer as large as they can be."""
    measured = {"cushion": cushion, "interlayer_cushion": 1.0 / math.sqrt(width), "contraction": contraction}
    layers = [stable_layer(str(i), rows=width, columns=width, **measured) for i in range(depth)]
    return stable_network(*layers, margin=epsilon * math.sqrt(2.0) * 9.0)


def test_a_e6_with_six_the_induction_adds_up_and_with_four_it_does_not():
    """One step may add eps/d: the linear part is 2 c eps_i / (mu mu), smoothness adds 2 eps / (3 d)."""
    for layer in plan_projection(
        square_layers(4, width=64, cushion=0.2, contraction=1.7, epsilon=0.3)
    ).layers:
        linear = 2 * 1.7 * layer.epsilon / (layer.cushion * layer.interlayer_cushion)
        smooth, allowed = 2 * 0.3 / (3 * 4), 0.3 / 4
        assert linear + smooth == pytest.approx(allowed)
        assert linear * 6 / 4 + smooth == pytest.approx(7 / 6 * allowed)


@pytest.mark.parametrize(
    ("examples", "depth", "width", "delta"), [(50_000, 19, 512, 0.05), (100, 3, 10, 0.5), (6, 1, 1, 0.99)]
)
def test_a_e6_seventy_two_is_twice_thirty_six(examples, depth, width, delta):
    exact = math.log(6 * depth**2 * width**2 * examples / delta)
    assert exact <= 2 * math.log(examples * depth * width / delta)


@pytest.mark.parametrize(
    ("depth", "cushion", "width", "product", "root"),
    [(4, 0.1, 500, 3.0e5, 1.5e5), (5, 0.1, 500, 3.7e6, 2.1e5), (16, 0.05, 512, 7.7e22, 2.5e6)],
)
def test_a_e15_the_product_of_cushions_is_not_below_the_root_of_the_count(
    depth, cushion, width, product, root
):
    """The proof needs e^2 d / prod mu < sqrt(q), the printed left side, or more, with contractions."""
    contraction = 1.5
    facts = square_layers(depth, width=width, cushion=cushion, contraction=contraction)
    count = published_total(facts, epsilon=math.sqrt(0.5))
    assert math.sqrt(count) == pytest.approx(root, rel=0.03)
    claimed = math.e**2 * depth / cushion**depth
    assert claimed == pytest.approx(product, rel=0.03)
    assert claimed > math.sqrt(count)


@pytest.mark.parametrize(("cushion", "holds"), [(0.1, True), (0.03, False)])
def test_a_e15_it_holds_for_three_layers_with_large_cushions(cushion, holds):
    count = published_total(
        square_layers(3, width=500, cushion=cushion, contraction=1.5), epsilon=math.sqrt(0.5)
    )
    assert (math.e**2 * 3 / cushion**3 < math.sqrt(count)) is holds


@pytest.mark.parametrize(("depth", "factor"), [(2, 6.0e3), (3, 1.4e4), (5, 3.9e4), (19, 6.0e5)])
def test_a_e26_the_lemma_never_compresses_a_realistic_layer(depth, factor):
    assert compression_threshold(square_layers(depth, width=500)) == pytest.approx(factor, rel=0.03)


def test_a_e26_even_perfect_cushions_compress_nothing():
    """Stable rank 1, contraction 1, the largest accuracy: the best case of a 784-500-500-10 network."""
    for layer in plan_projection(square_layers(3, width=500)).layers:
        assert layer.count > layer.weights
        assert layer.published == pytest.approx(1.4e4 * 500, rel=0.03)
