"""What a search starts from: a chain where its rounding can be bounded, else operations of torch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from worlds.networks import mlp
from worlds.requests import request

from codebound.certificate.evaluate import count_errors
from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.known.provenance import Pretrained
from codebound.request import Claim, Known, Run
from codebound.run.errors import CertificateError, DataError, UsageError
from codebound.sample.arrays import from_arrays
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import Dictionary, Linear
from codebound_networks.methods.inputs import base_tensors, read_original

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
def columns():
    random = np.random.default_rng(0)
    x = random.uniform(0.1, 1.0, (400, 3))
    x[:, 2] = 0.0
    return from_arrays(x, (x[:, 1] > x[:, 0]).astype("int64"), name="columns")


@pytest.mark.thorough
def test_rounding_that_no_proof_covers_makes_operations_of_a_chain(columns):
    """The network is right on every example; as a chain of 60 layers it would count as wrong on each."""
    deep = layers(DEPTH)
    chain = read_original(deep, columns, needs_chain=True)
    assert chain.chain is not None
    assert count_errors(chain.build(), columns.on("cpu")) == columns.n
    found = read_original(deep, columns)
    assert found.chain is None
    assert count_errors(found.build(), columns.on("cpu")) < 3
    assert "larger than every margin" in found.unchained


@pytest.mark.thorough
def test_a_deep_chain_is_bounded_through_another_network_and_by_no_claim_of_its_own(columns):
    """Each of its predictions would count as a disagreement; with a test sample, few differ."""
    first, rest = columns.select(range(200), role="train"), range(200, 400)
    with pytest.raises(CertificateError, match="no proof covers the rounding of f"):
        certify(
            first,
            network=layers(DEPTH),
            method="prune",
            claim=Claim(unlabelled=columns.select(rest, role="unlabelled")),
        )
    found = certify(
        first, network=layers(DEPTH), test=columns.select(rest, role="test"), run=Run(effort="quick")
    )
    assert found.disagreement.errors < 40


def test_few_layers_stay_a_chain(columns):
    found = read_original(layers(3), columns)
    assert found.chain is not None
    assert found.notes == ()


@pytest.mark.thorough
def test_a_deep_base_is_certified_as_it_is(columns):
    deep = layers(DEPTH)
    base = Pretrained(deep, "made by hand")
    original = read_original(deep, columns)
    assert set(base_tensors(base, original, columns)) == set(original.tensors)
    found = certify(columns, network=deep, method="scores", known=Known(base=base), run=Run(effort="quick"))
    assert found.certificate.limit.errors < 3
    assert found.certificate.message.bits == 2


@pytest.fixture
def short_messages(monkeypatch):
    """Messages that hold 5 numbers, so that a network of 2 x 3 is one of 10^8."""
    monkeypatch.setattr("codebound_networks.methods.inputs.MAX_ELEMENTS", 5)


def large(columns):
    return mlp(3, 4, columns.classes).eval()


@pytest.mark.usefixtures("short_messages")
def test_a_network_beyond_a_message_stops_no_method_that_needs_none(columns):
    few = columns.select(range(60), role="train")
    test = columns.select(range(100, 200), role="test")
    found = certify(few, network=large(columns), test=test, run=Run(effort="quick"))
    assert found.bound == certify(few, run=Run(effort="quick")).bound
    assert "has 26 numbers and a message holds 5" in " ".join(found.notes)
    assert found.original_errors is not None
    assert found.holdout_f is not None
    assert found.disagreement is not None


@pytest.mark.usefixtures("short_messages")
def test_what_would_code_it_is_refused_before_anything_is_computed(columns, monkeypatch):
    monkeypatch.setattr("codebound.certification.count_errors", lambda *_, **__: pytest.fail("computed"))
    network = large(columns)
    for asked in (
        {"method": "prune"},
        {"input_range": (0.0, 1.0)},
        {"share": 0.5},
        {"base": Pretrained(network, "made of no sample"), "method": "subspace"},
    ):
        with pytest.raises(CertificateError, match="a message holds 5"):
            certify(columns, network=network, **request(effort="quick", **asked))
    with pytest.raises(CertificateError, match="a message holds 5"):
        certify(
            columns, method="prune", known=Known(helper=lambda _: network, share=0.5), run=Run(effort="quick")
        )


@pytest.mark.usefixtures("short_messages")
def test_features_of_a_base_beyond_a_message_are_learned_from(columns):
    network = large(columns)
    base = Pretrained(network, "made of no sample")
    found = certify(columns, network=network, known=Known(base=base), run=Run(effort="quick"))
    assert found.method in ("scores", "picks", "split", "constant")
    tables = [table.arrays for table in found.tables]
    assert verify(found.certificate, found.sample, base=found.base, tables=tables).is_accepted


def test_counting_that_no_verifier_would_do_is_no_message(columns, monkeypatch):
    monkeypatch.setattr("codebound_networks.methods.inputs._MOST_COUNTING", 400 * 20 - 1)
    certify(
        columns, network=mlp(3, 2).eval(), method="prune", run=Run(effort="quick")
    )  # 6 multiplications an example
    with pytest.raises(CertificateError, match=r"on 400 examples takes more than 2\^46"):
        certify(columns, network=large(columns), method="prune", run=Run(effort="quick"))


def test_networks_read_no_words(columns):
    x = columns.x.copy()
    x[0, 0] = np.nan
    cells = replace(columns, x=x, is_cells=True)
    with pytest.raises(DataError, match="words or gaps"):
        certify(cells, network=large(columns), run=Run(effort="quick"))


def test_a_helper_of_the_known_share_is_what_a_message_starts_from(columns):
    seen = []

    def make(prior):
        seen.append(prior.n)
        return layers(2)

    found = certify(
        columns,
        network=layers(2),
        method="prune",
        known=Known(helper=make, share=0.3),
        run=Run(effort="quick"),
    )
    made = found.certificate.known.base
    assert made.by.endswith(".make of the known share")
    assert (made.of, made.rows, found.certificate.known.rows, seen) == ("data of your own", 120, 120, [120])
    assert found.certificate.limit.n <= 280
    assert verify(found.certificate, columns, base=found.base).is_accepted
    with pytest.raises(UsageError, match="give a helper, or a model"):
        certify(columns, method="prune", known=Known(share=0.3), run=Run(effort="quick"))


def test_a_claim_about_f_takes_no_operation_that_learns_nothing(columns):
    pooled = Chain((1, 8, 8), (Dictionary(1, 4), Linear(2, True)))
    f = pooled.build({name: torch.zeros(size) for name, size in pooled.tensor_shapes().items()})
    images = from_arrays(np.arange(40 * 64.0).reshape(40, 1, 8, 8), [0, 1] * 20, name="images")
    with pytest.raises(CertificateError, match="no certificate is about a network f with such an operation"):
        certify(
            images, network=f, method="prune", claim=Claim(input_range=(0.0, 3000.0)), run=Run(effort="quick")
        )
