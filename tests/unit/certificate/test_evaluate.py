"""Counting: the tolerance, ties, what is not finite, theta; and names of tensors and graphs."""

import hashlib
import math

import numpy as np
import pytest
import torch
from torch import nn

import codebound_verify.weights
from codebound.certificate import evaluate
from codebound.certificate.evaluate import count_errors, find_agreements, judge_network
from codebound.run.tensor_files import float32_sha256
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Scaling
from codebound.sample.questions import Question
from codebound_networks.views.zoo import build


class Given(nn.Module):
    """Logits are the inputs themselves."""

    def forward(self, x):
        return x


def outputs_of(rows, labels, scaling=None):
    """A sample whose inputs are the outputs of a network."""
    x = np.array(rows, dtype=np.float64)
    return from_arrays(x, np.array(labels), name="rows", classes=x.shape[1], scaling=scaling).on("cpu")


MARGINS = {
    "clearly right": ([1.0, 0.0, 0.0], 0, False),
    "clearly wrong": ([0.0, 1.0, 0.0], 0, True),
    "a tie": ([1.0, 1.0, 0.0], 0, True),
    "all zero": ([0.0, 0.0, 0.0], 0, True),
    "right by less than the tolerance": ([1.0, 1.0 - 0.9e-4, 0.0], 0, True),
    "right by the tolerance exactly": ([2.0**14, 2.0**14 - 1e-4 * 2.0**14, 0.0], 0, True),
    "right by more than the tolerance": ([1.0, 1.0 - 1.1e-4, 0.0], 0, False),
    "a large negative logit counts": ([0.5, 0.0, -1e4], 0, True),
    "and not a larger one": ([0.5, 0.0, -4e3], 0, False),
}


@pytest.mark.parametrize("name", MARGINS)
def test_the_tolerance_is_a_share_of_the_largest_logit(name):
    logits, label, is_error = MARGINS[name]
    assert count_errors(Given(), outputs_of([logits], [label])) == int(is_error)


class Broken(nn.Module):
    """Logits in which one number is replaced."""

    def __init__(self, value: float, column: int):
        super().__init__()
        self.value, self.column = value, column

    def forward(self, x):
        x = x.clone()
        x[:, self.column] = self.value
        return x


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_what_is_not_finite_is_an_error(value, column):
    data = outputs_of([[5.0, 0.0, 0.0]], [0])
    assert count_errors(Given(), data) == 0
    assert count_errors(Broken(value, column), data) == 1
    assert not find_agreements(Given(), Broken(value, column), data).any()
    assert not find_agreements(Broken(value, column), Given(), data).any()


def test_errors_at_a_margin():
    data = outputs_of([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], [0, 0, 0])
    right = [judge_network(Given(), data, theta=theta).right.sum() for theta in (0.0, 1.0, 1.9, 2.0, 10.0)]
    assert right == [3, 2, 2, 1, 0]


def test_who_answers_and_what_is_predicted_is_in_doubt_within_the_tolerance():
    data = outputs_of(
        [[1.0, 0.0], [1.0, 0.5 + 1e-5], [1.0, 0.5 - 1e-5], [0.0, 1.0], [1.0, 1.0 - 1e-5]], [0] * 5
    )
    answered = judge_network(Given(), data, question=Question(on="answered:0.5"))
    assert answered.counts.tolist() == [True, True, True, True, False]
    assert answered.speaks.tolist() == [True, False, False, True, False]
    assert answered.right.tolist() == [True, False, False, False, False]
    predicted = judge_network(Given(), data, question=Question(on="predicted:0"))
    assert predicted.counts.tolist() == [True, True, True, False, True]
    assert predicted.right.tolist() == [True, True, True, False, False]


def test_inputs_are_scaled_in_float64_chunk_by_chunk(monkeypatch):
    monkeypatch.setattr(evaluate, "chunk_size_of", lambda sample: 2)
    scaling = Scaling(divisor=2.0, mean=(0.5,), std=(4.0,))
    rows = [[3.0, 2.0], [2.0, 3.0], [1.0, 1.0]]
    seen = []

    class Recorder(nn.Module):
        def forward(self, x):
            seen.append(x)
            return x

    done = []
    found = judge_network(
        Recorder(), outputs_of(rows, [0, 0, 0], scaling), progress=lambda *at: done.append(at)
    )
    assert int((~found.right).sum()) == 2
    assert done == [(2, 3), (3, 3)]
    assert seen[0].dtype == torch.float64
    assert torch.equal(seen[0], torch.tensor([[0.25, 0.125], [0.125, 0.25]], dtype=torch.float64))


def test_disagreements_count_ambiguous_predictions():
    rows = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0 - 0.5e-4], [1.0, 1.0 - 2e-4]]
    data = outputs_of(rows, [0] * 5)
    assert find_agreements(Given(), Given(), data).tolist() == [True, True, False, False, True]
    swapped = nn.Linear(2, 2, bias=False)
    swapped.weight.data = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert not find_agreements(Given(), swapped, data).any()


def test_the_network_is_the_same_after_counting():
    network = build("mlp:widths=3", input_shape=(4,), classes=2)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    count_errors(network, from_arrays(np.ones((3, 4)), np.array([0, 1, 0]), name="ones").on("cpu"))
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_names_of_tensors_are_those_of_the_verifier_and_of_the_page():
    tensors = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array(1.5, np.float32)}
    text = b"a||" + np.float32(1.5).tobytes() + b"b|2,3|" + np.arange(6, dtype="<f4").tobytes()
    assert float32_sha256(tensors) == hashlib.sha256(text).hexdigest()
    strided = {**tensors, "b": np.asfortranarray(tensors["b"])}
    assert float32_sha256(strided) == float32_sha256(tensors)
    assert codebound_verify.weights.tensors_sha256(tensors) == float32_sha256(tensors)
    assert float32_sha256({**tensors, "c": tensors["a"]}) != float32_sha256(tensors)


def all_in_float64(network, data, theta):
    logits = network.double()(data.x.double())
    label = logits.gather(1, data.y[:, None])[:, 0]
    others = logits.scatter(1, data.y[:, None], -math.inf).amax(1)
    return int((label - others - theta <= 1e-4 * logits.abs().amax(1)).sum())


@pytest.mark.parametrize("theta", [0.0, 0.3])
@pytest.mark.parametrize("squeeze", [1.0, 1e-3, 1e-6])
def test_what_float32_decides_float64_would_decide_alike(theta, squeeze):
    generator = torch.Generator().manual_seed(3)
    network = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 4))
    with torch.no_grad():
        for tensor in network.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
        network[2].bias.copy_(torch.tensor([3.0, 3.0, 3.0, 3.0]))
        network[2].weight *= squeeze  # margins come near the tolerance
    x = torch.randn(3000, 6, generator=generator).numpy()
    data = from_arrays(x, np.arange(3000) % 4, name="rows", classes=4).on("cpu")
    assert (~judge_network(network, data, theta=theta).right).sum() == all_in_float64(network, data, theta)


class Cancelling(nn.Module):
    """Right in float64; in float32 the logits lose what decides."""

    def forward(self, x):
        return (x + 1e9) - 1e9


def test_a_network_that_float32_cannot_evaluate_is_not_trusted_in_float64():
    """What rounding does to float32 it does to float64 with larger numbers: such examples are errors."""
    data = outputs_of([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]], [0, 1, 1])
    assert count_errors(Cancelling(), data) == 3
    assert evaluate.sure_share(Cancelling(), data) == 0.0
    assert evaluate.sure_share(Given(), data) == 1.0


def test_the_network_is_single_again_after_counting():
    network = nn.Linear(2, 2)
    count_errors(network, outputs_of([[1.0, 0.0]], [0]))
    assert network.weight.dtype == torch.float32
