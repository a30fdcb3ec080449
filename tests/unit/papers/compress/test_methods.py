"""Methods by name: every option can be written, read back, and is checked."""

import pytest
import torch
from worlds.samples import noise_images

from codebound.run.errors import UsageError
from codebound_networks.reading.walk import wrap
from codebound_networks.views.zoo import build
from codebound_papers.compress.catalogue import COMPRESSORS
from codebound_papers.compress.compressors import CompressedNetwork, Job, LocalNetwork
from codebound_papers.compress.methods import (
    default_options,
    option_text,
    parse_options,
    run_method,
)
from codebound_papers.guha23.magnitude import common_variance
from codebound_papers.shin21.compressor import ScaleFree

QUICK = {
    "balanced": ["epochs=8"],
    "lottery": ["epochs=1"],
    "imp": ["epochs=1", "rounds=1"],
    "conv": ["numbers=8", "mixes=8"],
}


def job(**changes) -> Job:
    network = wrap(build("lenet5", input_shape=(1, 8, 8), classes=10))
    given = {"network": network, "input_shape": (1, 8, 8), "sample": noise_images(40).on("cpu")}
    return Job(**given | changes)


def test_every_compressor_has_a_name_and_a_sentence():
    for entry in COMPRESSORS.values():
        assert entry.sentence.endswith(".")
        assert len(entry.sentence) < 120


@pytest.mark.parametrize("method", COMPRESSORS)
def test_defaults_are_written_and_read_back(method):
    defaults = default_options(method)
    texts = [f"{name}={option_text(value)}" for name, value in defaults.items()]
    assert parse_options(method, texts) == parse_options(method, []) == defaults


@pytest.mark.parametrize("method", COMPRESSORS)
def test_every_method_runs_with_options_as_text(method):
    found = run_method(method, parse_options(method, QUICK.get(method, [])), job())
    assert isinstance(found, LocalNetwork if method == "conv" else CompressedNetwork)
    assert found.layers


def test_options_are_read_by_their_kind():
    options = parse_options("mbp", ["strength=2", "levels=7", "keep_diagonal=False", "variance=0.5"])
    assert options == {
        "strength": 2.0,
        "levels": 7,
        "keep_diagonal": False,
        "variance": 0.5,
        "constant": 1.0,
    }
    assert parse_options("heavytail", ["threshold=scale-free:0.1:0.05"])["threshold"] == ScaleFree(0.1, 0.05)
    assert parse_options("heavytail", ["threshold=0.25"])["threshold"] == 0.25
    assert option_text(ScaleFree(0.1, 0.05)) == "scale-free:0.1:0.05"
    exact = ScaleFree(0.123456789, 1e-9)
    assert parse_options("heavytail", [f"threshold={option_text(exact)}"])["threshold"] == exact


def test_one_variance_for_all_layers():
    options = parse_options("mbp", ["variance=common"])
    assert option_text(options["variance"]) == "common"
    given = job()
    expected = {**options, "variance": common_variance(given.network)}
    layers = [run_method("mbp", each, given).layers for each in (options, expected, default_options("mbp"))]
    common, same, own = ([layer.weight for layer in found] for found in layers)
    assert all(map(torch.equal, common, same))
    assert not all(map(torch.equal, common, own))


BAD = {
    "an unknown method": ("magic", [], f"unknown method 'magic'. Known: {', '.join(COMPRESSORS)}."),
    "an unknown option": ("naive", ["strength=1"], r"naive takes density=0.1, levels=31"),
    "no value": ("naive", ["density"], "cannot read the option 'density'"),
    "given twice": ("naive", ["density=1", "density=1"], "given twice"),
    "no number": ("naive", ["density=much"], "density is a number. Got 'much'"),
    "no finite number": ("naive", ["density=nan"], "density is a number"),
    "no whole number": ("naive", ["levels=7.5"], "levels is a whole number"),
    "neither true nor false": ("mbp", ["keep_diagonal=maybe"], "true or false"),
    "an unknown rule": ("heavytail", ["threshold=twice"], "scale-free with :EPSILON:ETA"),
    "a rule without its numbers": ("heavytail", ["threshold=corrected"], "scale-free with :EPSILON:ETA"),
    "common for another option": ("heavytail", ["variance=common"], "variance is a number"),
    "no number and not none": ("project", ["epsilon=big"], "a number or none"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read(name):
    method, texts, message = BAD[name]
    with pytest.raises(UsageError, match=message):
        parse_options(method, texts)


def test_jobs_that_do_not_fit():
    with pytest.raises(UsageError, match="on a sample: give one"):
        run_method("lottery", default_options("lottery"), job(sample=None))
    with pytest.raises(UsageError, match="all layers together"):
        run_method("imp", default_options("imp"), job(layers=("conv1",)))
    with pytest.raises(UsageError, match="conv9"):
        run_method("conv", default_options("conv"), job(layers=("conv9",)))
    with pytest.raises(UsageError, match="density"):
        run_method("naive", parse_options("naive", ["density=2"]), job())
