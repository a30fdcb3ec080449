"""Every method of ``certify`` on small networks: the independent verifier accepts what it makes."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from typer.testing import CliRunner
from worlds.commands import refused

from codebound.certificate.decoding import decode
from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.cli.main import app
from codebound.methods.search import UnsuitedError, list_methods
from codebound.request import Claim, Known, Run
from codebound.run.errors import CertificateError
from codebound.sample.load import load_sample
from codebound_networks.reading.loading import load_model
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit
from codebound_papers.guha23 import masks as trained

NETWORKS = ("linear", "mlp:widths=12", "lenet5")
TRAINED = ("subspace", "subspace-f", "lottery", "imp")  # never at the effort quick
METHODS = list_methods()
RULES = ("picks", "split")  # g is learned from the sample: its weights are not in the message
POST_HOC = [name for name in METHODS if name not in (*TRAINED, *RULES, "scores", "prune", "conv")]


@pytest.fixture(scope="module")
def digits():
    return load_sample("digits").select(range(600), role="train")


@pytest.fixture(scope="module")
def networks(digits):
    """Trained a little: enough to be better than guessing."""
    config = TrainConfig(epochs=12, learning_rate=0.01)
    models = (load_model(spec, input_shape=digits.input_shape, classes=10) for spec in NETWORKS)
    return {spec: fit(model, digits, config).model for spec, model in zip(NETWORKS, models, strict=True)}


@pytest.mark.thorough
@pytest.mark.parametrize("spec", NETWORKS)
@pytest.mark.parametrize("name", POST_HOC)
def test_the_verifier_accepts_and_the_ledger_adds_up(name, spec, networks, digits):
    found = certify(digits, network=networks[spec], method=name, run=Run(effort="quick"))
    message = found.certificate.message
    assert found.method == name
    assert 1 <= found.tried <= 2
    assert sum(bits for _, bits in message.ledger) == message.bits
    again = decode(found.certificate).state_dict()
    assert all(torch.equal(again[key], value) for key, value in found.network.state_dict().items())
    if spec == "linear" and name in ("naive", "lowrank", "vector-compress", "heavytail"):
        assert found.certificate.limit.errors < digits.n / 2


@pytest.mark.thorough
@pytest.mark.parametrize("spec", NETWORKS)
def test_a_split_is_accepted_and_read_back_from_its_weights(spec, networks, digits, tmp_path):
    found = certify(digits, network=networks[spec], method="split", run=Run(effort="quick"))
    certificate = found.certificate
    assert (found.method, certificate.statement) == ("split", "C-10")
    assert 1 <= found.tried <= 2
    assert certificate.limit.picks is None
    assert (
        certificate.limit.n <= digits.n - certificate.known.rows < digits.n
    )  # what g learned from is not counted
    assert verify(certificate, digits).verdict == "ACCEPT"
    with pytest.raises(CertificateError, match="give its weights"):
        decode(certificate)
    folder = found.save_to(tmp_path / "split").folder
    g = decode(folder / "certificate.cbound", weights=folder / "g.safetensors")
    x = torch.from_numpy(digits.x)
    assert torch.equal(g(x), found.network(x))


@pytest.mark.thorough
def test_local_convolutions(networks, digits):
    found = certify(digits, network=networks["lenet5"], method="conv", run=Run(effort="quick"))
    assert found.method == "conv"
    assert found.network.state_dict()["0.weight"].dim() == 5  # locations in front
    with pytest.raises(UnsuitedError, match="convolutions"):
        certify(digits, network=networks["linear"], method="conv", run=Run(effort="quick"))


@pytest.mark.thorough
def test_layers_that_fit_alone_but_not_together_stay_convolutions(networks, digits, monkeypatch):
    """Of a VGG-19 each local layer is small enough, and all of them are too much for a message."""
    monkeypatch.setattr("codebound_papers.arora18.conv.MAX_ELEMENTS", 30_000)  # with both: 36,116
    monkeypatch.setattr("codebound_papers.arora18.conv._OPTIONS", [(16, 0.5, 7)])
    found = certify(digits, network=networks["lenet5"], method="conv", run=Run(effort="quick"))
    assert [found.network.state_dict()[f"{position}.weight"].dim() for position in (0, 2)] == [5, 4]


@pytest.mark.few(2)
@pytest.mark.parametrize("spec", NETWORKS)
@pytest.mark.parametrize("name", ["lottery", "imp"])
def test_trained_masks(name, spec, networks, digits, monkeypatch):
    monkeypatch.setattr(trained, "_STEPS", {"standard": 40})
    found = certify(digits, network=networks[spec], method=name, run=Run(effort="standard"))
    assert found.method == name
    assert 1 <= found.tried <= 2
    with pytest.raises(UnsuitedError, match="longer than a quick search"):
        certify(digits, network=networks[spec], method=name, run=Run(effort="quick"))


def test_statements_about_f_skip_what_moves_too_far(networks, digits):
    model = networks["linear"]
    for name in ("naive", "lowrank"):
        found = certify(
            digits, network=model, method=name, claim=Claim(input_range=(0.0, 16.0)), run=Run(effort="quick")
        )
        assert (found.certificate.statement, found.certificate.claim.subject) == ("C-12a", "f")
    with pytest.raises(UnsuitedError, match="too far"):
        certify(
            digits,
            network=model,
            method="project",
            claim=Claim(input_range=(0.0, 16.0)),
            run=Run(effort="quick"),
        )
    found = certify(digits, network=model, claim=Claim(input_range=(0.0, 16.0)), run=Run(effort="quick"))
    assert set(found.skipped) == set(METHODS) - {"prune", "naive", "lowrank"}
    fresh = load_sample("digits").select(range(600, 1200), role="unlabelled")
    found = certify(
        digits, network=model, method="lowrank", claim=Claim(unlabelled=fresh), run=Run(effort="quick")
    )
    assert found.certificate.statement == "C-12b"


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["mbp", "project", "lowrank"])
def test_after_a_split_the_codes_are_of_the_difference(name, networks, digits, monkeypatch):
    monkeypatch.setattr("codebound_networks.methods.inputs._PRIOR_STEPS", 300)
    found = certify(
        digits, network=networks["linear"], method=name, known=Known(share=0.5), run=Run(effort="quick")
    )
    assert found.certificate.statement == "C-10"
    assert found.certificate.message.bits < 64  # the difference is zero
    assert not found.certificate.claim.vacuous


def test_the_base_of_a_split_cannot_be_chosen_by_a_seed(networks, digits, monkeypatch):
    """Whoever certified with many seeds and kept the best base would have selected it on the rest."""
    monkeypatch.setattr("codebound_networks.methods.inputs._PRIOR_STEPS", 50)
    first, second = (
        certify(
            digits,
            network=networks["linear"],
            method="naive",
            known=Known(share=0.5),
            run=Run(effort="quick", seed=seed),
        )
        for seed in (0, 1)
    )
    assert first.certificate.known == second.certificate.known
    assert all(np.array_equal(first.base[name], second.base[name]) for name in first.base)


def test_the_difference_to_a_base_is_what_a_compressor_sees(networks, digits):
    """A base near f: what is coded is small, and decodes to about f."""
    from codebound.known.messages import KnownTensors
    from codebound.methods.search import Search, run
    from codebound.request import Task
    from codebound.sample.dataset import Made
    from codebound_networks.chains.original import Original

    original = Original.read(networks["mlp:widths=12"], digits.input_shape)
    tensors = original.tensors
    noise = np.random.default_rng(0)
    base = {
        name: (tensor.numpy() + 0.01 * noise.normal(size=tensor.shape)).astype(np.float32)
        for name, tensor in tensors.items()
    }
    task = Task(
        sample=digits,
        delta=0.05,
        original=original,
        base=KnownTensors(Made("nearby", "other data", 0, "0" * 64), base),
    )
    best = run(Search(task, "quick"), "lowrank").outcome
    for name, value in best.made.weights(base).items():
        assert np.abs(value - base[name]).max() < 0.1
        assert np.abs(value - tensors[name].numpy()).max() < 0.1


@pytest.mark.thorough
def test_the_command_names_the_method_and_what_was_skipped(codebound, empty_folder, short_searches):
    run = partial(codebound, "certify")
    command = ("--model", "linear", "digits", "--run", "effort=quick", "--holdout", "0.8")
    code, out, err = run(*command, "--format", "json", "--out", "a")
    assert code == 0, err
    record = json.loads(out)
    assert record["method"] in METHODS
    assert set(record["methods_skipped"]) == {"conv", "scores", "picks", "constant", *TRAINED}
    code, out, err = run(*command, "--out", "b", "--verbose")
    assert f"by the method {record['method']}" in " ".join(out.split())
    assert "more than guessing" in err
    assert "training takes longer" in err
    refused(run(*command, "--method", "lottery", "--out", "c"), 1, "Choose the effort standard")
    shown = CliRunner().invoke(app, ["certify", "--help"], env={"COLUMNS": "400"}).output
    assert all(name in shown for name in METHODS)
