"""The account of a compressed network, against scipy, numpy and counting by hand."""

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn
from worlds.samples import noise_images

from codebound.run.errors import UnsupportedLayerError
from codebound_networks.codes.modes import decode_tensors, encode_tensors
from codebound_networks.reading.walk import wrap
from codebound_networks.views.zoo import build
from codebound_papers.compress.compression_summary import summarise
from codebound_papers.compress.compressors import compress
from codebound_papers.compress.methods import conv_network, mbp, naive
from codebound_papers.guha23.magnitude import MagnitudePruning


def normed() -> nn.Module:
    """A small network with everything that is not compressed: biases, a batch norm, its counter."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10)
    ).eval()


def noise():
    return noise_images(60).on("cpu")


def check_messages(summary, state) -> None:
    """Every message decodes to the tensor of g, bit for bit."""
    for name, message in summary.messages.items():
        (code,) = decode_tensors(message, [tuple(state[name].shape)])
        assert code.weights().tobytes() == state[name].numpy().tobytes()


def test_sizes_and_errors_are_those_of_scipy_and_numpy():
    net = wrap(normed())
    found = compress(net, MagnitudePruning(strength=2.0), seed=1)
    summary = summarise(found)
    assert [layer.name for layer in summary.layers] == ["0", "4"]
    for row, layer in zip(summary.layers, found.layers, strict=True):
        weight, original = layer.weight.flatten(1).numpy(), net.layer(row.name).weight.flatten(1).numpy()
        rows = sparse.csr_array(weight)
        assert row.sparse_bytes == rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
        assert row.dense_bytes == original.nbytes
        assert row.kept == rows.nnz / weight.size
        change = np.linalg.norm(weight.astype(np.float64) - original, ord=2)
        assert row.spectral_error_measured == pytest.approx(change, rel=1e-9)
        assert row.spectral_error_predicted == layer.predicted_error


def test_every_tensor_is_in_the_message_and_its_bits_add_up():
    model = normed()
    found = naive(wrap(model), density=0.3)
    summary = summarise(found)
    state = found.module().state_dict()
    counters = {name for name in state if name.endswith("num_batches_tracked")}
    assert list(summary.codes) == list(summary.messages) == [name for name in state if name not in counters]
    names = [each.name for each in (*summary.layers, *summary.carried)]
    assert sorted(names) == sorted({"0", "4"} | set(state) - {"0.weight", "4.weight"})
    check_messages(summary, state)
    spent = sum(layer.coded_bits for layer in summary.layers) + sum(t.coded_bits for t in summary.carried)
    assert summary.coded_bits == spent
    together = encode_tensors(list(summary.codes.values())).length
    assert together <= summary.coded_bits <= together + 2 * len(summary.codes)  # each has an end of its own
    assert summary.dense_bytes == sum(value.nbytes for value in model.state_dict().values())
    by_name = {tensor.name: tensor for tensor in summary.carried}
    assert by_name["1.num_batches_tracked"].coded_bits == 0
    assert "evaluation does not read it" in by_name["1.num_batches_tracked"].reason
    assert by_name["4.bias"].coded_bits >= 320  # K-B


def test_layers_that_were_not_asked_for_are_paid_in_full():
    net = wrap(normed())
    summary = summarise(compress(net, MagnitudePruning(), layers=["0"]))
    (carried,) = (tensor for tensor in summary.carried if tensor.name == "4.weight")
    assert carried.reason == "not asked for"
    assert carried.coded_bits >= 32 * 1440


def test_accuracy_and_deviation_on_a_sample():
    net, data = wrap(normed()), noise()
    found = mbp(net, strength=3.0)
    summary = summarise(found, data)
    with torch.no_grad():
        f, g = (module.eval()(data.x) for module in (net.model, found.module()))
    assert summary.accuracy_before == float((f.argmax(1) == data.y).double().mean())
    assert summary.accuracy_after == float((g.argmax(1) == data.y).double().mean())
    distances = torch.linalg.vector_norm(f - g, dim=1)
    assert summary.deviation.largest == pytest.approx(float(distances.max()), rel=1e-4)
    assert summary.deviation.mean == pytest.approx(float(distances.mean()), rel=1e-4)
    alone = summarise(found)
    assert (alone.accuracy_before, alone.accuracy_after, alone.deviation) == (None, None, None)


def test_a_local_network_is_summarised_with_its_own_tensors():
    data = noise()
    net = wrap(build("lenet5", input_shape=(1, 8, 8), classes=10))
    found = conv_network(net, (1, 8, 8), numbers=8, mixes=32, layers=["conv1", "linear1"])
    assert found.carried["conv2"] == "not asked for"
    assert found.carried["linear1"] == "no convolution"
    summary = summarise(found, data)
    (row,) = summary.layers
    assert row.name == "conv1"
    assert row.shape[0] == 64  # locations
    assert row.dense_bytes == 4 * net.layer("conv1").weight.numel()
    assert row.coded_bits < 32 * net.layer("conv1").weight.numel()
    assert row.spectral_error_measured is None
    state = found.module().state_dict()
    check_messages(summary, state)
    with torch.no_grad():
        f, g = net.model.eval()(data.x), found.module()(data.x)
    largest = float(torch.linalg.vector_norm(f - g, dim=1).max())
    assert summary.deviation.largest == pytest.approx(largest, rel=1e-3)
    assert summary.deviation.recursion is None
    assert "architecture" in summary.deviation.reason


def test_convolutions_inside_residual_blocks_are_carried_with_the_reason():
    net = wrap(build("resnet20", input_shape=(3, 8, 8), classes=10))
    found = conv_network(net, (3, 8, 8), numbers=8, mixes=8)
    assert [layer.name for layer in found.layers] == ["conv1"]
    assert "residual block" in found.carried["layer1.0.conv1"]


def test_what_has_no_code_is_refused_by_name():
    with pytest.raises(UnsupportedLayerError, match=r"0\.weight.*float64"):
        summarise(naive(wrap(normed().double())))
