"""What a search starts from: a chain where its rounding can be bounded, else operations of torch."""

import numpy as np
import pytest
import torch
from torch import nn

from codebound.certificate.base import Pretrained
from codebound.certificate.evaluate import count_errors
from codebound.certification import certify
from codebound.data.arrays import from_arrays
from codebound.search.starts import base_tensors, read_original

DEPTH = 60


def layers(depth):
    """Each multiplies the first two numbers by one, and what it adds to others by much more."""
    made = []
    for _ in range(depth):
        layer = nn.Linear(3, 3, bias=False)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 8.0]]))
        made += [layer, nn.ReLU()]
    head = nn.Linear(3, 2)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0, 0, 0], [0, 1.0, 0]]))
        head.bias.zero_()
    return nn.Sequential(*made, head)


@pytest.fixture(scope="module")
def sample():
    random = np.random.default_rng(0)
    x = random.uniform(0.1, 1.0, (400, 3))
    x[:, 2] = 0.0
    return from_arrays(x, (x[:, 1] > x[:, 0]).astype("int64"), name="columns")


@pytest.mark.thorough
def test_rounding_that_no_proof_covers_makes_operations_of_a_chain(sample):
    """The network is right on every example; as a chain of 60 layers it would count as wrong on each."""
    deep = layers(DEPTH)
    chain = read_original(deep, sample, "", trust_code=False, needs_chain=True)
    assert chain.chain is not None
    assert count_errors(chain.build(), sample.on("cpu")).errors == sample.n
    found = read_original(deep, sample, "", trust_code=False)
    assert found.chain is None
    assert count_errors(found.build(), sample.on("cpu")).errors < 3
    assert "measured" in found.notes[-1]


def test_few_layers_stay_a_chain(sample):
    found = read_original(layers(3), sample, "", trust_code=False)
    assert found.chain is not None
    assert found.notes == ()


@pytest.mark.thorough
def test_a_deep_base_is_certified_as_it_is(sample):
    deep = layers(DEPTH)
    base = Pretrained(deep, "made by hand")
    original = read_original(deep, sample, "", trust_code=False)
    assert set(base_tensors(base, original, sample)) == set(original.tensors)
    found = certify(deep, sample, base=base, method="biases", effort="quick")
    facts = found.certificate.facts
    assert facts.errors < 3
    assert facts.code_bits < 20
