"""The datasets themselves, where the cache has them: published counts and means. Never downloads."""

import numpy as np
import pytest

from codebound.sample.dataset import count_copies
from codebound.sample.formats.catalogue import KNOWN, cache_folder, find
from codebound.sample.load import load_sample

# Class counts of the training splits as their authors give them; Fashion-MNIST and CIFAR-10 are balanced.
COUNTS = {
    "mnist": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "fashion-mnist": [6000] * 10,
    "cifar10": [5000] * 10,
}


def real(name: str, role: str):
    if find(KNOWN[name], role, cache_folder() / name) is None:
        pytest.skip(f"{name} is not in the cache {cache_folder()}: codebound data get {name}")
    return load_sample(name, role=role)


@pytest.mark.parametrize("name", COUNTS)
def test_sizes_and_class_counts(name):
    train, test = real(name, "train"), real(name, "test")
    assert {"train": train.n, "test": test.n} == KNOWN[name].sizes
    assert train.input_shape == test.input_shape == KNOWN[name].input_shape
    assert np.bincount(train.y).tolist() == COUNTS[name]


def test_channel_means_of_cifar10():
    means = real("cifar10", "train").x.mean(axis=(0, 2, 3)) / 255.0
    np.testing.assert_allclose(means, [0.49139968, 0.48215841, 0.44653091], atol=1e-7)


def test_mean_and_deviation_of_mnist():
    x = real("mnist", "train").x
    assert x.mean() / 255.0 == pytest.approx(0.1307, abs=5e-5)
    assert x.std() / 255.0 == pytest.approx(0.3081, abs=5e-5)


def test_mnist_does_not_leak():
    train, test = real("mnist", "train"), real("mnist", "test")
    assert count_copies(train, test) == 0
    assert count_copies(train, train.select(range(100), role="test")) == 100
