"""Weights and risk of a lottery ticket as published, with the conditions on its target."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from worlds.facts import layers_between, network_facts

from codebound.run.errors import UsageError
from codebound_networks.reading.loading import load_model
from codebound_networks.reading.walk import wrap
from codebound_papers.facts import NetworkFacts
from codebound_papers.guha23.lottery import find_ticket, ticket_distances, ticket_risk, ticket_weights


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


def random_target(sides=(5, 4, 3), seed=0):
    rng = np.random.default_rng(seed)
    pairs = zip(sides[1:], sides[:-1], strict=True)
    return [torch.from_numpy(rng.uniform(-0.5, 0.5, size=pair)).float() for pair in pairs]


def test_a_ticket_is_a_part_of_a_random_network_of_twice_the_depth():
    target, width = random_target(), 3000
    ticket, active, drawn = find_ticket(target, random_width=width, seed=3)
    weights = [layer.weight.double().numpy() for layer in ticket if hasattr(layer, "weight")]
    assert [each.shape for each in weights] == [(width, 5), (4, width), (width, 4), (3, width)]
    assert drawn == width * (5 + 4 + 4 + 3)
    assert sum(np.count_nonzero(each) for each in weights) == active
    assert active <= 2 * 2 * (5 * 4) + 2 * 4 * 3
    assert all(np.abs(each).max() <= 1.0 for each in weights)
    for into in weights[::2]:
        assert np.count_nonzero(into, axis=1).max() == 1  # a unit takes one input
    for place, matrix in enumerate(target):
        into, out = weights[2 * place], weights[2 * place + 1]
        for sign in (1.0, -1.0) if place == 0 else (1.0,):
            heard = np.where(sign * into > 0.0, into, 0.0)
            assert np.abs(out @ heard - matrix.double().numpy()).max() < 0.02


def test_a_weight_of_the_target_is_one_product_or_zero_whichever_is_nearest():
    matrix = np.array([[0.31, 0.0], [-0.004, 0.2]])
    ticket, _, _ = find_ticket([torch.from_numpy(matrix).float()], random_width=40, seed=1)
    into, out = (ticket[place].weight.double().numpy() for place in (0, 2))
    for sign in (1.0, -1.0):
        products = out[:, :, None] * np.where(sign * into > 0.0, into, 0.0)[None]  # rows, units, columns
        assert np.count_nonzero(products, axis=1).max() <= 1
        assert (np.abs(products.sum(axis=1) - matrix) <= np.abs(matrix) + 1e-7).all()


def test_distances_shrink_with_the_width_and_are_those_of_a_forward_pass():
    model = load_model("mlp:depth=3,width=8,bias=false", input_shape=(1, 3, 3), classes=4, seed=5)
    x = torch.randn((40, 1, 3, 3), generator=torch.Generator().manual_seed(0))
    rows = ticket_distances(wrap(model), x, factors=(4, 64, 1024), seed=0)
    assert [row["random_width"] for row in rows] == [32, 512, 8192]
    assert rows[2]["distance"] < rows[1]["distance"] < rows[0]["distance"]
    assert rows[2]["distance"] < 0.02 * rows[2]["largest_score"]
    assert rows[2]["agreement"] == 1.0
    matrices = [each.detach().double().numpy() for each in model.parameters()]
    scaled = [
        each / max(np.linalg.norm(each, 2), np.abs(each).max() * math.sqrt(len(each))) for each in matrices
    ]
    flat = x.flatten(1).double().numpy()
    hidden = flat / np.linalg.norm(flat, axis=1).max()
    for each in scaled[:-1]:
        hidden = np.maximum(hidden @ each.T, 0.0)
    assert rows[0]["largest_score"] == pytest.approx(np.abs(hidden @ scaled[-1].T).max(), rel=1e-4)


@pytest.mark.parametrize("spec", ["mlp:depth=2,width=8", "lenet5"])
def test_there_are_no_distances_of_a_network_with_biases_or_convolutions(spec):
    model, x = load_model(spec, input_shape=(1, 8, 8), classes=4), torch.randn(3, 1, 8, 8)
    assert ticket_distances(wrap(model), x) == []
