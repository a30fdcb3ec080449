"""Networks and bases that options name: what is remembered of them, and what is refused."""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from codebound.known.provenance import UNKNOWN, origin_of
from codebound.run.errors import CertificateError, UsageError
from codebound.sample.load import load_sample
from codebound_networks.about_f.base import load_base
from codebound_networks.about_f.models import (
    as_traced,
    load_layers,
    load_network,
    model_sizes,
)
from codebound_networks.reading.walk import wrap
from codebound_networks.views.graphs import Traced
from codebound_networks.views.zoo import ZOO

DIGITS = load_sample("digits")


@pytest.fixture
def weights(tmp_path):
    file = tmp_path / "model.safetensors"
    save_file(load_network("linear", DIGITS, seed=3).state_dict(), file)
    return file


def test_a_network_keeps_what_its_run_folder_says(weights):
    assert origin_of(load_network("linear", DIGITS, weights)) == UNKNOWN
    record = {"data_sha256": DIGITS.sha256, "starts_fresh": True}
    weights.with_name("result.json").write_text(json.dumps(record))
    origin = origin_of(load_network("linear", DIGITS, str(weights)))
    assert (origin.has_seen(DIGITS.sha256), origin.is_whole) == (True, True)


def test_a_base_that_saw_the_sample_is_refused(weights):
    network = load_network("linear", DIGITS)
    assert load_base(weights, network, sample=DIGITS).says == "the file model.safetensors"
    weights.with_name("result.json").write_text(json.dumps({"data_sha256": DIGITS.sha256}))
    with pytest.raises(CertificateError, match="this very sample"):
        load_base(weights, network, sample=DIGITS)


def test_what_was_wrapped_is_traced_anew():
    network = nn.Sequential(nn.Linear(4, 3))
    again = as_traced(wrap(network, example=torch.zeros(2, 4)))
    assert again.model is network
    assert again.known is None
    one = Traced(network)
    assert as_traced(one) is one
    assert as_traced(network).model is network
    with pytest.raises(UsageError, match="Got LogisticRegression; codebound"):
        as_traced(type("LogisticRegression", (), {})())


def test_sizes_are_those_of_the_data_or_as_given_or_of_the_zoo():
    assert model_sizes("linear", None, None, DIGITS) == (DIGITS.input_shape, DIGITS.classes)
    assert model_sizes("a:b", "3x8X9", None) == ((3, 8, 9), 10)
    assert model_sizes("mlp:width=20", None, 7) == (ZOO["mlp"].input_shape, 7)
    for arguments, said in (
        (("linear", "4", None, DIGITS), "their own"),
        (("linear", "4x0", None), "positive sizes"),
        (("a:b", None, None), "the input shape of a:b"),
        (("nothing", None, None), "unknown model 'nothing'"),
    ):
        with pytest.raises(UsageError, match=said):
            model_sizes(*arguments)


def test_layers_are_those_of_the_weights(weights):
    network = load_layers("linear", DIGITS.input_shape, DIGITS.classes, weights)
    wanted = load_network("linear", DIGITS, weights).state_dict()
    assert all(torch.equal(network.model.state_dict()[name], tensor) for name, tensor in wanted.items())
