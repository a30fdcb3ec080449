"""What the compressors of Arora et al. 2018 share, on every architecture of the zoo."""

import numpy as np
import pytest
import torch

from codebound.coding.modes import decode_tensors, encode_tensors
from codebound.nets.walk import wrap
from codebound.nets.zoo import ZOO, build
from codebound_papers.arora18.projection import MatrixProject
from codebound_papers.arora18.truncation import Truncation
from codebound_papers.arora18.vector import VectorCompress, VectorProject
from codebound_papers.compress.compressors import compress

ALGORITHMS = [
    MatrixProject(count=16),
    VectorCompress(margin=1.0, eta=1.0),
    VectorProject(count=4),
    Truncation(delta=0.5),
]
LARGE = {"alexnet", "vgg19", "resnet56"}
NETS = [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in ZOO]


def names(algorithm: object) -> str:
    return type(algorithm).__name__


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=names)
@pytest.mark.parametrize("name", NETS)
def test_every_layer_is_compressed_and_decodes_bit_for_bit(name, algorithm):
    shape = ZOO[name].input_shape
    model = build(name, input_shape=shape, classes=10)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    compressed = compress(wrap(model), algorithm, seed=3)
    assert not compressed.carried
    assert len(compressed.layers) == len(wrap(model).layers)
    codes = [layer.code for layer in compressed.layers]
    again = decode_tensors(encode_tensors(codes), [code.shape for code in codes])
    for layer, read in zip(compressed.layers, again, strict=True):
        assert np.array_equal(read.weights(), layer.weight.numpy())
    g = compressed.module()
    with torch.no_grad():
        assert g(torch.rand(2, *shape)).shape == (2, 10)  # not finite where noise piles up (A-E14)
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in before.items())


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=names)
def test_the_same_seed_gives_the_same_code(algorithm):
    network = wrap(build("lenet5", input_shape=(1, 28, 28), classes=10))
    bits = [
        encode_tensors([layer.code for layer in compress(network, algorithm, seed=5).layers])
        for _ in range(2)
    ]
    assert bits[0] == bits[1]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=names)
def test_double_precision_is_carried_with_the_reason(algorithm):
    compressed = compress(wrap(torch.nn.Sequential(torch.nn.Linear(9, 9)).double()), algorithm)
    assert "codes decode to float32" in compressed.carried["0"]
