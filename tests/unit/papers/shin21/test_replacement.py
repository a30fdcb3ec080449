"""Shin's experiment: which entries are redrawn, with which moments, and the accuracies of the trials."""

import numpy as np
import pytest
import torch
from torch import nn

from codebound.data.arrays import from_arrays
from codebound.errors import UnsupportedLayerError, UsageError
from codebound.nets.rebuild import with_weights
from codebound.nets.walk import wrap
from codebound.nets.zoo import build
from codebound.rng import torch_stream
from codebound_papers.compress.codes import Filled
from codebound_papers.compress.compressors import compress
from codebound_papers.shin21.compressor import GaussianFill, replace_small, replacement_trials


def sample(shape=(10,), n: int = 200):
    stream = np.random.default_rng(0)
    return from_arrays(
        stream.normal(size=(n, *shape)).astype(np.float32), stream.integers(4, size=n), name="s"
    ).on("cpu")


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 4)).eval()


def test_only_the_small_entries_are_redrawn_with_the_moments_of_all():
    matrix = 0.5 + torch.randn(300, 200, generator=torch_stream(0, "entries"))
    mean, std = matrix.double().mean(), matrix.double().std(correction=0)
    found = replace_small(matrix, generator=torch_stream(1, "draws"))
    small = matrix.abs() <= std
    assert torch.equal(found[~small], matrix[~small])
    draws = found[small].double()
    error = 6 / np.sqrt(draws.numel())
    assert float(draws.mean()) == pytest.approx(float(mean), abs=error)
    assert float(draws.std()) == pytest.approx(float(std), abs=error)
    # the replaced part had a smaller variance than it gets
    assert float(matrix[small].std()) < 0.7 * float(draws.std())


def test_trials_are_the_accuracies_of_rebuilt_networks():
    model, data = network(), sample()
    found = replacement_trials(wrap(model), data, trials=4, seed=3, chunk_size=64)
    for trial, accuracy in enumerate(found.accuracies):
        weight = replace_small(model[2].weight.detach(), generator=torch_stream(3, f"trial {trial}"))
        other = with_weights(model, {**model.state_dict(), "2.weight": weight})
        with torch.no_grad():
            assert accuracy == float((other(data.x).argmax(1) == data.y).double().mean())
    with torch.no_grad():
        assert found.original == float((model(data.x).argmax(1) == data.y).double().mean())
    assert found.mean == pytest.approx(np.mean(found.accuracies))
    assert found.deviation == pytest.approx(np.std(found.accuracies))
    weight = model[2].weight.detach()
    assert found.kept == int((weight.abs() > weight.double().std(correction=0)).sum())
    assert (found.layer, found.entries) == ("2", 120)


def test_trials_repeat_and_differ_between_seeds_and_masks():
    net, data = wrap(network()), sample()
    first, again = (replacement_trials(net, data, seed=1) for _ in range(2))
    assert first == again
    assert len(first.accuracies) == 10
    assert first != replacement_trials(net, data, seed=2)
    signed = replacement_trials(net, data, seed=1, mask="signed")
    assert signed.kept < 0.7 * first.kept


def test_a_convolutional_network_and_a_residual_one():
    for spec, shape in (("lenet5", (1, 8, 8)), ("resnet20", (3, 32, 32))):
        net = wrap(build(spec, input_shape=shape, classes=4))
        found = replacement_trials(net, sample(shape, n=8), trials=2)
        assert found.entries == net.layer(found.layer).weight.numel()


def test_a_network_that_does_not_end_in_a_linear_layer_is_refused():
    model = nn.Sequential(nn.Linear(10, 4), nn.ReLU())
    with pytest.raises(UnsupportedLayerError, match=r"last step.*1 \(activation\)"):
        replacement_trials(wrap(model), sample())
    with pytest.raises(UsageError):
        replacement_trials(wrap(network()), sample(), trials=0)
    with pytest.raises(UsageError, match="mask"):
        replacement_trials(wrap(network()), sample(), mask="centred")
    with pytest.raises(UsageError, match="mask"):
        GaussianFill(mask="centred")


def test_the_coded_variant_fills_the_same_places_with_the_same_moments():
    model = nn.Sequential(nn.Linear(200, 100))
    with torch.no_grad():
        model[0].weight.normal_(0.2, 1.0, generator=torch_stream(0, "weights"))
    weight = model[0].weight.detach()
    (layer,) = compress(wrap(model), GaussianFill(levels=255), layers=["0"]).layers
    assert isinstance(layer.code, Filled)
    small = weight.abs() <= weight.double().std(correction=0)
    assert float((layer.weight - weight)[~small].abs().max()) < 0.03
    draws = layer.weight[small].double()
    assert float(draws.mean()) == pytest.approx(0.2, abs=0.05)
    assert float(draws.std()) == pytest.approx(1.0, abs=0.045 + 0.05)
    assert abs(float(np.corrcoef(draws, weight[small])[0, 1])) < 0.06
