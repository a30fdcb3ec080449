"""Errata of Arora et al. 2018 on fully connected networks, with the numbers they were found with."""

import math

import pytest

from codebound_papers.arora18.projection_plan import (
    LayerCushions,
    PlanSettings,
    compression_threshold,
    plan_projection,
    published_total,
)


def layers(depth: int, *, cushion: float, width: int) -> list[LayerCushions]:
    interlayer = 1.0 / math.sqrt(width)
    return [
        LayerCushions(name=str(i), weights=width**2, cushion=cushion, interlayer_cushion=interlayer)
        for i in range(depth)
    ]


def test_a_e6_with_six_the_induction_adds_up_and_with_four_it_does_not():
    """One step may add eps/d: the linear part is 2 c eps_i / (mu mu), smoothness adds 2 eps / (3 d)."""
    setting = PlanSettings(contraction=1.7, epsilon=0.3, delta=0.05, examples=1000, width=64)
    stack = layers(4, cushion=0.2, width=64)
    for layer, planned in zip(stack, plan_projection(stack, setting).layers, strict=True):
        linear = 2 * setting.contraction * planned.epsilon / (layer.cushion * layer.interlayer_cushion)
        smooth = 2 * setting.epsilon / (3 * len(stack))
        allowed = setting.epsilon / len(stack)
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
    [(5, 0.1, 500, 2.8e7, 2.1e5), (16, 0.05, 512, 5e25, 2.5e6)],
)
def test_a_e15_the_product_of_cushions_is_not_below_the_root_of_the_count(
    depth, cushion, width, product, root
):
    """The number of levels needs e^2 d c^d / prod mu < sqrt(q): off by orders of magnitude."""
    contraction = 1.5
    setting = PlanSettings(
        contraction=contraction, epsilon=math.sqrt(0.5), delta=0.05, examples=50_000, width=width
    )
    count = published_total(layers(depth, cushion=cushion, width=width), setting)
    assert math.sqrt(count) == pytest.approx(root, rel=0.03)
    claimed = math.e**2 * depth * (contraction / cushion) ** depth
    assert claimed == pytest.approx(product, rel=0.1)
    assert claimed > 100 * math.sqrt(count)


@pytest.mark.parametrize(("depth", "factor"), [(2, 6.0e3), (3, 1.4e4), (5, 3.9e4), (19, 6.0e5)])
def test_a_e26_the_lemma_never_compresses_a_realistic_layer(depth, factor):
    found = compression_threshold(depth=depth, width=500, examples=50_000, delta=0.05)
    assert found == pytest.approx(factor, rel=0.03)


def test_a_e26_even_perfect_cushions_compress_nothing():
    """Stable rank 1, contraction 1, the largest accuracy: the best case of a 784-500-500-10 network."""
    setting = PlanSettings(contraction=1.0, epsilon=1.0, delta=0.05, examples=50_000, width=500)
    plan = plan_projection(layers(3, cushion=1.0, width=500), setting)
    for layer in plan.layers:
        assert layer.count > layer.weights
        assert layer.published == pytest.approx(1.4e4 * 500, rel=0.03)
