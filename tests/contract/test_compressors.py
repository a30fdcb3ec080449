"""What every registered compressor promises, with its default options, on the architectures of the zoo."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from codebound.certification import certify
from codebound.request import Run
from codebound.run.errors import ModelError, UnsupportedLayerError, UsageError
from codebound.run.extensions import Method, find_extensions
from codebound.sample.load import load_sample
from codebound_networks.codes.modes import decode_tensors, encode_tensors
from codebound_networks.reading.walk import wrap
from codebound_networks.views.zoo import build
from codebound_papers.compress.catalogue import COMPRESSORS, Entry
from codebound_papers.compress.compressors import (
    AbstractCompressor,
    CompressedLayer,
    Job,
    compress,
    round_weight,
    weight_of,
)
from codebound_papers.compress.methods import parse_options, run_method

NETWORKS = {
    "linear": ("linear", (1, 8, 8)),
    "perceptron": ("mlp:widths=20x10", (1, 8, 8)),
    "convolutions": ("lenet5", (1, 8, 8)),
    "residual": ("resnet20", (3, 32, 32)),
    "alexnet": ("alexnet", (3, 32, 32)),
    "vgg": ("vgg19", (3, 32, 32)),
    "deep residual": ("resnet56", (3, 32, 32)),
}
SMALL = ["linear", "perceptron", "convolutions"]
LARGE = [pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS if name not in (*SMALL, "residual")]

ALGORITHMS = {name: entry.algorithm for name, entry in COMPRESSORS.items()}
LAYERWISE = sorted(name for name, each in ALGORITHMS.items() if issubclass(each, AbstractCompressor))

each_compressor = pytest.mark.parametrize("method", LAYERWISE)


def network(name: str):
    spec, shape = NETWORKS[name]
    return wrap(build(spec, input_shape=shape, classes=10))


@pytest.mark.few(8)
@each_compressor
@pytest.mark.parametrize("name", [*SMALL, "residual", *LARGE])
def test_every_layer_is_compressed_or_carried_and_the_module_holds_what_the_codes_say(method, name):
    net = network(name)
    found = compress(net, ALGORITHMS[method]())
    names = [layer.name for layer in found.layers]
    assert sorted([*names, *found.carried]) == sorted(view.name for view in net.layers)
    assert all(found.carried.values())
    state, original = found.module().state_dict(), net.model.state_dict()
    for layer in found.layers:
        assert np.array_equal(state[f"{layer.name}.weight"].numpy(), layer.code.weights())
        assert layer.predicted_error is None or layer.predicted_by
    untouched = set(original) - {f"{layer}.weight" for layer in names}
    assert all(torch.equal(state[each], original[each]) for each in untouched)


@pytest.mark.few(5)
@pytest.mark.parametrize("method", sorted(COMPRESSORS))
def test_a_network_without_layers_is_refused_in_words(method):
    net = wrap(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64)))
    with pytest.raises(ModelError, match="no linear or convolutional layer to compress"):
        run_method(method, parse_options(method, ()), Job(network=net, input_shape=(1, 8, 8)))


def test_local_filters_of_what_is_no_chain_are_refused_with_another_way():
    net = wrap(nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.GELU()), example=torch.zeros(1, 1, 8, 8))
    with pytest.raises(UnsupportedLayerError, match=r"1: a layer(.|\n)*such as lowrank"):
        run_method("conv", parse_options("conv", ()), Job(network=net, input_shape=(1, 8, 8)))


@each_compressor
@pytest.mark.parametrize("name", SMALL)
def test_codes_decode_bit_for_bit(method, name):
    found = compress(network(name), ALGORITHMS[method](), seed=3)
    codes = [layer.code for layer in found.layers]
    decoded = decode_tensors(encode_tensors(codes), [code.shape for code in codes])
    for code, layer in zip(decoded, found.layers, strict=True):
        assert code.weights().tobytes() == layer.weight.numpy().tobytes()


@pytest.mark.few(2)
@each_compressor
def test_the_same_seed_gives_the_same_network_and_nothing_else_changes(method):
    net = network("convolutions")
    before, generator = copy.deepcopy(net.model.state_dict()), torch.get_rng_state()
    first, again = (compress(net, ALGORITHMS[method](), seed=11) for _ in range(2))
    for a, b in zip(first.layers, again.layers, strict=True):
        assert torch.equal(a.weight, b.weight)
    assert all(torch.equal(value, before[name]) for name, value in net.model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)


@pytest.mark.parametrize("method", sorted(COMPRESSORS))
def test_a_compressor_is_frozen_and_works_by_default(method):
    algorithm = ALGORITHMS[method]()
    assert dataclasses.is_dataclass(algorithm)
    for field in dataclasses.fields(algorithm):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(algorithm, field.name, None)


@pytest.mark.few(3)
@each_compressor
def test_a_single_weight_a_zero_layer_and_groups_are_no_trouble(method):
    tiny = nn.Sequential(nn.Linear(1, 1))
    zero = nn.Sequential(nn.Linear(6, 4))
    with torch.no_grad():
        zero[0].weight.zero_()
    grouped = nn.Sequential(nn.Conv2d(4, 8, 3, groups=2), nn.ReLU(), nn.Conv2d(8, 4, 1))
    for model in (tiny, zero, grouped):
        found = compress(wrap(model), ALGORITHMS[method]())
        assert len(found.layers) + len(found.carried) == len(wrap(model).layers)
        assert all(torch.isfinite(value).all() for value in found.module().state_dict().values())


@each_compressor
def test_double_precision_is_carried_with_the_reason(method):
    found = compress(wrap(nn.Sequential(nn.Linear(9, 9)).double()), ALGORITHMS[method]())
    assert "float32" in found.carried["0"]


def test_only_the_named_layers_are_compressed():
    net = network("convolutions")
    found = compress(net, ALGORITHMS["mbp"](), layers=["conv2"])
    assert [layer.name for layer in found.layers] == ["conv2"]
    assert found.carried["linear1"] == "not asked for"
    with pytest.raises(UsageError, match="conv9"):
        compress(net, ALGORITHMS["mbp"](), layers=["conv9"])


def test_a_network_that_is_one_layer_is_compressed_too():
    layer = torch.nn.Linear(6, 4)
    g = compress(wrap(layer), ALGORITHMS["naive"](), seed=0).module()
    assert g.weight.shape == layer.weight.shape
    assert torch.equal(g.bias, layer.bias)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signs(AbstractCompressor):
    """Keeps the sign of every weight, times the mean magnitude of its layer."""

    share: float = 1.0

    def compress(self, layer, *, seed):
        weight = weight_of(layer)
        signs = weight.sign() * weight.abs().mean() * self.share
        return CompressedLayer(layer.name, round_weight(signs, 3).code)

    @classmethod
    def grid(cls):
        return cls(), cls(share=2.0)


def test_a_new_compressor_is_one_class_and_one_line(monkeypatch):
    """The recipe on a toy: compress lists and runs it, certify searches its grid, the verifier accepts."""
    monkeypatch.setitem(COMPRESSORS, "signs", Entry("Keeps signs.", Signs))
    found = run_method("signs", parse_options("signs", ["share=0.5"]), Job(network=network("perceptron")))
    assert all(len(layer.weight.unique()) <= 3 for layer in found.layers)
    method = Method("Keeps signs.", "codebound_papers.compress.compressors:propose_compressed")
    monkeypatch.setitem(find_extensions().tables["METHODS"], "signs", method)
    digits = load_sample("digits").select(range(200), role="train")
    made = certify(
        digits,
        network=build("linear", input_shape=(1, 8, 8), classes=10),
        method="signs",
        run=Run(effort="quick"),
    )
    assert made.method == "signs"
