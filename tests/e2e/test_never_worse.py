"""Without a method, ``certify`` ends no worse than with any method that could have been named instead."""

from contextlib import suppress

import numpy as np
import pytest
from worlds.bright_rows import images, solved

from codebound.certification import certify
from codebound.methods.search import list_methods
from codebound.request import Run
from codebound.run.errors import CertificateError, ModelError
from codebound.sample.arrays import from_arrays
from codebound.sample.load import load_sample
from codebound_networks.reading.loading import load_model
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit


def pictures(count=300):
    digits = load_sample("digits").select(range(count), role="train")
    return digits, trained("linear", digits)


def table(noise=0.0, count=200):
    """Two classes, told apart by a sum of two columns, and labels that are wrong as often as ``noise``."""
    stream = np.random.default_rng(1)
    x = stream.normal(size=(count, 4)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 0) ^ (stream.random(count) < noise)
    sample = from_arrays(x, y.astype(int), name="sums")
    return sample, trained("mlp:widths=6", sample)


def trained(spec, sample):
    model = load_model(spec, input_shape=sample.input_shape, classes=sample.classes)
    return fit(model, sample, TrainConfig(epochs=15, learning_rate=0.01)).model


WORLDS = {
    "rows": lambda: (images(), solved().build()),
    "table": table,
    "labels that are often wrong": lambda: table(0.3),
    "pictures": pictures,
    "pictures, no network": lambda: (pictures()[0], None),
}


def bounds(sample, model, effort):
    """What every method that suits comes to by itself."""
    found = {}
    for name in list_methods():
        with suppress(CertificateError, ModelError):
            found[name] = certify(sample, network=model, method=name, run=Run(effort=effort)).bound
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("world", "effort"),
    [
        ("rows", "quick"),
        ("table", "quick"),
        ("labels that are often wrong", "quick"),
        *(pytest.param(world, "standard", marks=pytest.mark.slow) for world in WORLDS),
    ],
)
def test_no_method_by_name_is_better(world, effort):
    sample, model = WORLDS[world]()
    each = bounds(sample, model, effort)
    assert len(each) >= (2 if model is None else 5)
    assert certify(sample, network=model, run=Run(effort=effort)).bound <= min(each.values()), each


def test_it_would_be_noticed(monkeypatch):
    """The same comparison fails where all but the last resort are given up."""
    sample, model = images(), solved().build()
    alone = certify(sample, network=model, method="prune", run=Run(effort="quick")).bound
    last = {"constant": list_methods()["constant"]}
    monkeypatch.setattr("codebound.methods.search.list_methods", lambda: last)
    assert certify(sample, network=model, run=Run(effort="quick")).bound > alone
