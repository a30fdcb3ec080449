"""Networks of stored pictures: they learn, are the same twice, and come back from their weights."""

import pytest
import torch
from worlds.samples import noise_images

from codebound.run.extensions import find_extensions, resolve
from codebound.sample.load import load_sample
from codebound_networks.train.pictures import load_network, train_network

DIGITS = load_sample("digits")


@pytest.fixture(scope="module")
def network():
    return train_network(DIGITS.select(range(1000), role="prior"))


def test_stored_pictures_are_learned(network):
    with torch.no_grad():
        said = network(torch.from_numpy(DIGITS.x[1000:])).argmax(1).numpy()
    assert (said == DIGITS.y[1000:]).mean() > 0.9


def test_the_same_pictures_give_the_same_network():
    one, other = (train_network(DIGITS.select(range(100), role="prior")).state_dict() for _ in range(2))
    assert all(torch.equal(each, other[name]) for name, each in one.items())


def test_weights_are_the_network(network):
    stored = torch.from_numpy(DIGITS.x[:50])
    again = load_network(network.state_dict(), DIGITS.input_shape)
    with torch.no_grad():
        assert torch.equal(again(stored), network(stored))


def test_the_table_of_the_extension_names_it():
    assert resolve(find_extensions()["LEARNERS"]["pictures"]) is train_network


def test_any_size_of_pictures_fits():
    sample = noise_images(40)
    network = train_network(sample)
    assert network(torch.from_numpy(sample.x)).shape == (40, sample.classes)
