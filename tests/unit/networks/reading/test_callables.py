"""Modules of others as functions of one tensor: which inputs they take, and where their logits are."""

import contextlib
import logging
import sys
import warnings
from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from codebound.run.errors import ModelError
from codebound_networks.reading.callables import Adapter, quiet, runs_on

X = torch.linspace(-2.0, 3.0, 8).reshape(2, 4)
Both = namedtuple("Both", "hidden scores")


class Returning(nn.Module):
    """Its logits in the way of somebody."""

    def __init__(self, wrap):
        super().__init__()
        self.wrap, self.seen = wrap, []

    def forward(self, x):
        self.seen.append(x.dtype)
        return self.wrap(x[:, :3] * 2)


def logits_of(wrap, classes=3):
    adapter = Adapter(Returning(wrap), classes)
    adapter.settle(X, "it")
    return adapter(X), adapter.notes


@pytest.mark.parametrize(
    ("wrap", "key"),
    [
        (lambda z: {"loss": z.sum(), "logits": z}, "logits"),
        (lambda z: SimpleNamespace(logits=z, hidden=z + 1), "logits"),
        (lambda z: (z[:, :2], z), "output 1"),
        (lambda z: Both(z[:, :2], z), "scores"),
        (lambda z: [z, "words"], "output 0"),
    ],
)
def test_logits_are_found_by_name_or_by_their_shape(wrap, key):
    found, (note,) = logits_of(wrap)
    assert torch.equal(found, X[:, :3] * 2)
    assert f"its {key} is taken for the logits" in note


def test_a_tensor_is_taken_without_a_word():
    found, notes = logits_of(lambda z: z, classes=None)
    assert torch.equal(found, X[:, :3] * 2)
    assert notes == []


@pytest.mark.parametrize(
    ("wrap", "found"),
    [
        (lambda z: (z, z + 1), r"output 0 of shape \(2, 3\), output 1 of shape \(2, 3\)"),
        (lambda z: "words", "a str with no tensor"),
    ],
)
def test_what_may_be_anything_is_named(wrap, found):
    with pytest.raises(ModelError, match=found):
        logits_of(wrap)


def test_the_module_may_work_on_its_input_in_place():
    adapter = Adapter(nn.ReLU(inplace=True), None)
    before = X.clone()
    adapter.settle(X, "it")
    assert torch.equal(adapter(X), before.relu())
    assert torch.equal(X, before)


def test_token_networks_get_the_nearest_integers():
    adapter = Adapter(nn.Sequential(nn.Embedding(9, 2), nn.Flatten()), 8)
    tokens = torch.tensor([[0.4, 7.6, 2.0, 1.2]])
    adapter.settle(tokens, "it")
    assert adapter.notes == ["it takes integers: inputs are rounded to the nearest."]
    assert torch.equal(adapter(tokens), adapter.network(torch.tensor([[0, 8, 2, 1]])))


def test_a_network_of_float64_gets_float64():
    network = nn.Linear(4, 3).double()
    adapter = Adapter(network, 3)
    x = adapter.settle(X, "it")
    assert x.dtype == torch.float64
    assert torch.equal(adapter(x), network(X.double()))


def test_the_first_failure_is_told():
    with pytest.raises(ModelError, match=r"(?s)fails on inputs of shape \(2, 4\).*one tensor"):
        Adapter(nn.Linear(5, 3), 3).settle(X, "it")


def test_a_network_of_tokens_is_told_how_it_fails_on_tokens():
    with pytest.raises(ModelError, match=r"mat1 and mat2 shapes cannot be multiplied \(8x5 and 6x3\)"):
        Adapter(nn.Sequential(nn.Embedding(9, 5), nn.Linear(6, 3)), 3).settle(X.abs(), "it")


@pytest.mark.parametrize(
    ("network", "is_run"),
    [
        (nn.Linear(4, 3), True),
        (nn.Linear(4, 2), False),
        (nn.Linear(5, 3), False),
        (nn.BatchNorm1d(4), False),
        (Returning(lambda z: {"logits": z}), True),
    ],
)
def test_whether_a_network_fits_is_found_by_running_it(network, is_run):
    was = network.training
    assert runs_on(network, (4,), 3) is is_run
    assert network.training is was


def test_quiet_hides_what_is_said_inside_and_restores_everything(capfd):
    before = logging.root.manager.disable, torch.backends.mha.get_fastpath_enabled()
    with contextlib.suppress(ZeroDivisionError), quiet():
        assert not torch.backends.mha.get_fastpath_enabled()
        assert not torch.is_grad_enabled()
        print("told", file=sys.stderr)
        with warnings.catch_warnings(record=True) as heard:
            warnings.warn("told", stacklevel=1)
        assert not heard
        raise ZeroDivisionError
    assert (logging.root.manager.disable, torch.backends.mha.get_fastpath_enabled()) == before
    assert torch.is_grad_enabled()
    assert capfd.readouterr().err == ""
