"""Biases of a base: what is found is at least as good as any single number, and few bits say it."""

import itertools

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from codebound.certification import certify
from codebound.known.base import Pretrained
from codebound.methods.search import UnsuitedError
from codebound.sample.dataset import Dataset
from codebound_networks.methods.biases import descend


@examples(30)
@given(st.integers(0, 10**6))
def test_no_single_number_does_better(seed):
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    found = descend(scores, labels, unit=0.3, price=0.0)

    def errors(numbers):
        return int((np.argmax(scores + 0.3 * np.array(numbers), axis=1) != labels).sum())

    for at, value in itertools.product(range(3), range(-7, 8)):
        moved = found.copy()
        moved[at] = value
        assert errors(moved) >= errors(found)
    assert errors(found) <= errors([0, 0, 0])


def shifted(n=150, shift=1.5):
    """Scores that would be right, had one class not been given an advantage."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 3)) * 0.7 + 2.0 * np.eye(3)[y] + np.array([shift, 0.0, 0.0])
    return Dataset("shifted", "train", x.astype(np.float32), y, 3)


def identity(bias=True):
    network = nn.Sequential(nn.Flatten(), nn.Linear(3, 3, bias=bias))
    with torch.no_grad():
        network[1].weight.copy_(torch.eye(3))
        if bias:
            network[1].bias.zero_()
    return network.eval()


def test_few_bits_undo_an_advantage():
    sample, base = shifted(), Pretrained(identity(), "the identity")
    found = certify(base.network, sample, base=base, method="biases", delta=1e-6)
    plain = certify(base.network, sample, base=base, method="prune", effort="quick", delta=1e-6)
    facts, before = found.certificate.facts, plain.certificate.facts
    assert before.code_bits < facts.code_bits <= 45
    assert facts.errors < before.errors / 2
    assert found.certificate.claim.bound < plain.certificate.claim.bound
    (weight,) = (value for value in found.network.state_dict().values() if value.ndim == 2)
    assert torch.equal(weight, torch.eye(3))


def test_a_base_that_is_right_stays_as_it_is():
    sample, base = shifted(shift=0.0), Pretrained(identity(), "the identity")
    found = certify(base.network, sample, base=base, method="biases")
    assert found.is_base


def test_without_biases_or_a_base_there_is_nothing_to_add():
    base = Pretrained(identity(bias=False), "the identity")
    with pytest.raises(UnsuitedError, match="no biases"):
        certify(base.network, shifted(), base=base, method="biases")
    with pytest.raises(UnsuitedError, match="a base"):
        certify(identity(), shifted(), method="biases")
