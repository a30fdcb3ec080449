"""Certificates of networks that were learned from picks, from the sample alone to decoded predictions."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from worlds.commands import refused

import codebound as cb
from codebound.certificate.decoding import decode
from codebound.methods.search import UnsuitedError
from codebound.run.errors import CertificateError, FormatError, UsageError
from codebound_networks import load_model

pytestmark = pytest.mark.usefixtures("short_searches")


@pytest.fixture(scope="module")
def digits():
    return cb.load_sample("digits").select(range(500), role="train")


@pytest.fixture(scope="module")
def fresh():
    return cb.load_sample("digits").select(range(500, 900), role="test")


@pytest.fixture(scope="module")
def found(digits, fresh):
    return cb.certify(digits, test=fresh, method="picks", run=cb.Run(effort="quick"))


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    return found.save_to(tmp_path_factory.mktemp("picks") / "cert").folder


def test_a_sample_is_all_that_certify_needs(found, digits, fresh):
    certificate = found.certificate
    assert (certificate.statement, certificate.claim.subject) == ("C-15", "g")
    assert [part for part, _ in certificate.message.ledger] == ["form", "classes", "first", "rule", "longer"]
    limit = certificate.limit
    assert limit.n == digits.n - certificate.known.rows
    assert (limit.errors + limit.picks) / limit.n < certificate.claim.bound < 0.5
    assert found.original_errors is None
    assert cb.verify(certificate, digits, test_set=fresh).verdict == "ACCEPT"


def test_the_decoded_network_predicts_the_same(found, folder, fresh):
    g = decode(folder / "certificate.cbound", weights=folder / "g.safetensors")
    x = torch.from_numpy(fresh.x)
    assert torch.equal(g(x), found.network(x))
    wrong = int((g(x).argmax(1).numpy() != fresh.y).sum())
    assert wrong <= found.holdout.facts.errors <= wrong + 5  # ambiguous ones count as errors


def test_the_network_is_not_in_the_message(found):
    with pytest.raises(CertificateError, match="give its weights"):
        decode(found.certificate)


def other_rule(tensors):
    return {name: value[..., :-1, :] if name == "coefficients" else value for name, value in tensors.items()}


def other_inputs(tensors):
    return tensors | {"inputs": tensors["inputs"].flip(0)}


def moved_inputs(tensors):
    return tensors | {"inputs": tensors["inputs"].roll(1, -1)}


def other_coefficients(tensors):
    return tensors | {"coefficients": 1.001 * tensors["coefficients"]}


def no_features(tensors):
    return {
        name: value
        for name, value in tensors.items()
        if name in ("inputs", "examples", "classes", "coefficients")
    }


def other_network(tensors):
    return {"0.weight": torch.zeros(10, 64)}


@pytest.mark.parametrize(
    "spoil", [other_rule, other_inputs, moved_inputs, other_coefficients, no_features, other_network]
)
def test_other_weights_are_refused(spoil, folder, tmp_path):
    weights = {name: value.contiguous() for name, value in spoil(load_file(folder / "g.safetensors")).items()}
    save_file(weights, tmp_path / "g.safetensors")
    with pytest.raises(FormatError, match="not the weights"):
        decode(folder / "certificate.cbound", weights=tmp_path / "g.safetensors")


@pytest.mark.thorough
def test_ctrl_c_keeps_the_picks_until_then(digits):
    def impatient(done, total, note=""):
        if "picks," in note and done == 3:
            raise KeyboardInterrupt

    found = cb.certify(digits, method="picks", run=cb.Run(effort="quick", progress=impatient))
    assert found.is_interrupted
    assert found.method == "picks"
    assert found.network.rule.rounds <= 3
    assert cb.verify(found.certificate, digits).verdict == "ACCEPT"


@pytest.mark.thorough
def test_random_labels_are_vacuous(digits):
    shuffled = replace(digits, y=np.random.default_rng(0).permutation(digits.y))
    found = cb.certify(shuffled, run=cb.Run(effort="quick"))
    assert found.certificate.claim.vacuous
    assert cb.verify(found.certificate, shuffled).verdict == "ACCEPT"


@pytest.mark.parametrize("asked", ["input_range", "unlabelled"])
def test_picks_say_nothing_about_a_network_that_was_given(asked, digits, fresh):
    model = load_model("linear", input_shape=digits.input_shape, classes=10)
    given = {"input_range": (0.0, 16.0), "unlabelled": replace(fresh, role="unlabelled")}
    with pytest.raises(UnsuitedError, match="a rule learns a classifier of its own"):
        cb.certify(
            digits,
            network=model,
            method="picks",
            claim=cb.Claim(**{asked: given[asked]}),
            run=cb.Run(effort="quick"),
        )


def test_what_starts_from_a_network_asks_for_one(digits):
    with pytest.raises(UsageError, match="give one"):
        cb.certify(digits, claim=cb.Claim(input_range=(0.0, 16.0)), run=cb.Run(effort="quick"))


@pytest.mark.thorough
def test_the_commands(codebound, empty_folder):
    asked = ("digits", "--method", "picks", "--run", "effort=quick")
    code, out, err = codebound("certify", *asked, "--format", "json", "--out", "c")
    assert code == 0, err
    record = json.loads(out)
    assert (record["statement"], record["method"], record["g_is_new"]) == ("C-15", "picks", True)
    assert record["bound"] < 0.2
    code, out, _ = codebound("verify", "c/certificate.cbound", "--data", "digits")
    assert (code, out.splitlines()[0]) == (0, "ACCEPT, replayed")
    weights = ("verify", "c/certificate.cbound", "--data", "digits", "--weights", "c/g.safetensors")
    code, out, _ = codebound(*weights)
    assert code == 0
    assert "the weights beside it are those of g" in out
    tensors = load_file("c/g.safetensors")
    for name, change in (("coefficients", 1), ("inputs", 1)):  # one number of each is enough
        changed = tensors[name].clone()
        changed.view(-1)[7] += change
        save_file({**tensors, name: changed}, "c/g.safetensors")
        code, out, _ = codebound(*weights)
        assert (code, out.splitlines()[0]) == (1, "REFUSE")
        assert f"Weights: {name} are not those" in out
    save_file(tensors, "c/g.safetensors")
    code, out, err = codebound("show", "c/certificate.cbound")
    assert code == 0
    assert "rule" in out
    (empty_folder / "alone.cbound").write_bytes((empty_folder / "c/certificate.cbound").read_bytes())
    decode = ("export", "alone.cbound", "--to", "safetensors", "--out", "again.safetensors")
    refused(codebound(*decode), 1, "needs g.safetensors, which is not beside it")
    assert not (empty_folder / "again.safetensors").exists()
    assert codebound(*decode, "--weights", "c/g.safetensors")[0] == 0
    assert codebound("export", "c", "--to", "safetensors", "--out", "beside.safetensors")[0] == 0
    beside, decoded = (empty_folder / f"{name}.safetensors" for name in ("beside", "again"))
    assert beside.read_bytes() == decoded.read_bytes()
    g, again = load_file("c/g.safetensors"), load_file("again.safetensors")
    assert g.keys() == again.keys()
    assert all(torch.equal(g[name], again[name]) for name in g)


def test_compare_counts_on_inputs_as_they_are_stored(found, folder, digits, fresh):
    model = load_model("linear", input_shape=digits.input_shape, classes=10)
    table = cb.compare(model, digits, fresh, certificates=[folder / "certificate.cbound"], effort=None)
    (row,) = (row for row in table.rows if row.reference == "C-15")
    assert row.value == found.certificate.claim.bound
    assert any(f"{found.holdout.facts.errors} errors on 400" in row.note for row in table.rows)
