from pathlib import Path

import pytest
import torch

from codebound.run.errors import ModelError
from codebound_networks.chains.from_module import chain_of
from codebound_networks.chains.operations import Shifts
from codebound_networks.chains.original import Original
from codebound_networks.reading.loading import load_model
from codebound_networks.train.few_bits import image_chain, image_chains, image_network

RESULTS = Path(__file__).parents[4] / "results"
SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32), (1, 12, 12), (3, 12, 15), (3, 16, 16)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_message_can_describe_the_networks(shape):
    chain, network = image_chain(shape, 7), image_network(input_shape=shape, classes=7)
    assert chain_of(network, shape)[0] == Original.read(network, shape).chain == chain
    assert chain.classes == 7


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_decisions_depend_on_the_scale_of_no_layer_and_on_no_other_example(shape):
    torch.manual_seed(0)
    network = image_network(input_shape=shape, classes=5).double()
    x = torch.rand(6, *shape, dtype=torch.float64)
    before = network(x)
    assert torch.allclose(network(x[:1]), before[:1])
    with torch.no_grad():
        for weight in network.parameters():
            weight *= 8.0
    assert torch.equal(network(x).argmax(1), before.argmax(1))


def test_weights_come_from_the_seed_of_the_caller():
    spec = "few-bits"
    first, second, other = (
        load_model(spec, input_shape=(1, 8, 8), classes=3, seed=seed) for seed in (0, 0, 1)
    )
    weights = [next(network.parameters()) for network in (first, second, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("shape", [(64,), (1, 3, 28)])
def test_inputs_that_are_too_small_are_refused(shape):
    with pytest.raises(ModelError, match="at least 4 x 4"):
        image_chain(shape, 3)


def test_grey_images_are_compared_with_and_without_views_and_colours_are_not():
    for shape in ((1, 8, 8), (1, 28, 28)):
        upright, plain = image_chains(shape, 10, kinds=(3, None))
        assert upright.operations == (Shifts(3), *plain.operations)
    assert image_chains((1, 28, 28), 10, kinds=(None,)) == (image_chain((1, 28, 28), 10),)
    assert image_chains((3, 32, 32), 10, kinds=(3, None)) == (image_chain((3, 32, 32), 10),)
    with pytest.raises(ModelError, match="at least 4 x 4"):
        image_chains((1, 3, 28), 3, kinds=(3,))
