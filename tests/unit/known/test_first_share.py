"""Helpers made of a first part that encode the rest: rows, words, refusals, and the promise, with teeth."""

import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import beta
from torch import nn
from worlds.networks import mlp
from worlds.samples import clouds, random_labels

from codebound.certificate.claims import prior_and_rest
from codebound.certificate.decoding import decode
from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.known.base import Pretrained
from codebound.known.encoder import quantise_rows
from codebound.known.first_share import helper_encoder
from codebound.learn.picking import permutation
from codebound.methods.kernel_share import linear_helper
from codebound.run.errors import CertificateError, UsageError
from codebound.sample.arrays import from_arrays
from codebound_networks.about_f.disagreement import bound_through
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit

RISK = 0.75  # of every classifier, when four labels are drawn at random


def blobs(n=240, seed=0):
    return clouds(n, features=6, seed=seed)


def trained(first, steps=150, width=16):
    network = mlp(first.input_shape[0], width, first.classes, activation=nn.Tanh)
    x, y = torch.from_numpy(first.x), torch.from_numpy(first.y)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network


@pytest.fixture(scope="module")
def behind():
    seen = []

    def make(first):
        seen.append(first)
        return trained(first)

    sample = blobs(400)
    return sample, seen, certify(None, sample, prior_tenths=5, helper=make, method="picks", effort="quick")


def test_rows_are_what_enters_the_last_layer_of_a_classifier():
    sample = blobs(40)
    network = trained(sample, steps=1)
    weight, bias = (value.detach().double().numpy() for value in list(network.parameters())[:2])
    hidden = np.tanh(sample.x @ weight.T + bias)
    hidden /= np.sqrt((hidden**2).mean(1, keepdims=True))
    found = helper_encoder(network, sample, n=80, says="x").rows(torch.from_numpy(sample.x))
    assert np.abs(found.astype(int) - quantise_rows(hidden, "x")).max() <= 1  # rounding in float32
    both = helper_encoder([network, network], sample, n=80, says="x").rows(torch.from_numpy(sample.x))
    assert np.array_equal(both, np.concatenate([found, found], 1))


@pytest.mark.parametrize(
    "network", [nn.Linear(6, 3), nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 5))]
)
def test_rows_of_other_networks_are_their_outputs(network):
    sample = blobs(40)
    outputs = network(torch.from_numpy(sample.x)).detach().double().numpy()
    found = helper_encoder(network, sample, n=80, says="x").rows(torch.from_numpy(sample.x))
    assert np.abs(found.astype(int) - quantise_rows(outputs, "x")).max() <= 1


def test_the_helper_sees_the_first_part_and_the_certificate_is_about_the_rest(behind):
    sample, (given,), found = behind
    prior, rest = prior_and_rest(sample, 5)
    assert np.array_equal(given.x, prior.x)
    facts = found.certificate.facts
    assert facts.n + facts.extra["first"] == rest.n
    assert np.array_equal(found.sample.y, rest.y)
    assert np.array_equal(found.sample.x, found.encoder.rows(torch.from_numpy(rest.x)))
    assert verify(found.certificate, found.sample).is_accepted


def test_both_programs_and_the_page_say_of_what_it_was_made(behind, tmp_path):
    _, _, found = behind
    words = "made of the first 200 of 400 examples in the fixed order of C-10"
    assert words in verify(found.certificate, found.sample).declarations[0]
    assert words in found.certificate.declarations[0]
    assert not any("encoder" in line and "fixed without" in line for line in found.certificate.declarations)
    saved = found.save_to(tmp_path / "c")
    assert words in (saved.folder / "report.html").read_text()
    assert words in saved.result["encoder_declared"]
    assert str(saved.folder / "sample.npz") in shlex.split(saved.result["verify"])
    assert (saved.folder / "helper.safetensors").is_file()


def test_g_takes_raw_inputs_behind_its_helper_and_others_are_refused(behind, tmp_path):
    sample, _, found = behind
    folder = found.save_to(tmp_path / "c").folder
    weights = folder / "g.safetensors"
    g = decode(found.certificate, weights=weights, encoder=found.encoder)
    some = torch.from_numpy(sample.x[:20])
    assert torch.equal(found.classifier(some), g(some))
    _, rest = prior_and_rest(sample, 5)
    right = g(torch.from_numpy(rest.x)).argmax(1).numpy() == rest.y
    counted = found.certificate.facts.errors + found.certificate.facts.extra["picks"]
    assert (~right).sum() <= counted + found.certificate.facts.extra["first"]
    fresh = blobs(300, seed=1).select(range(300), role="unlabelled")
    f = trained(sample)
    through = bound_through(
        found.certificate, f, sample=found.sample, unlabelled=fresh, weights=weights, encoder=found.encoder
    )
    x = torch.from_numpy(fresh.x)
    assert abs(through.disagreements - int((f(x).argmax(1) != g(x).argmax(1)).sum())) <= 3  # and doubt


def test_an_encoder_takes_no_examples_that_it_was_made_of(behind):
    """Else the rule would start with fewer examples than it was made of, and count some that it knows."""
    sample, _, found = behind
    prior, rest = prior_and_rest(sample, 5)
    for seen in (sample, prior.select(range(prior.n), role="train")):
        with pytest.raises(CertificateError, match="trained on 200 of the"):
            found.encoder.table(seen)
    assert found.encoder.table(rest).n == rest.n
    assert found.encoder.table(prior).n == prior.n  # to learn from, never to count on


@pytest.mark.thorough
def test_with_nothing_picked_it_is_a_hold_out_set_and_seven_bits():
    sample = blobs(400)
    found = certify(None, sample, prior_tenths=5, helper=trained, effort="quick")
    prior, rest = prior_and_rest(sample, 5)
    errors = int((trained(prior)(torch.from_numpy(rest.x)).argmax(1).numpy() != rest.y).sum())
    (message,) = (each for each in found.routes if each.name == "message")
    counted, n, bits = map(int, re.match(r"(\d+) errors? of (\d+), (\d+) bits", message.price).groups())
    assert (counted, n) == (errors, rest.n)
    assert bits == 7
    assert message.bound == pytest.approx(beta.ppf(1 - 0.05 * 2.0**-bits, errors + 1, n - errors), abs=1e-6)
    assert found.certificate.claim.bound == min(each.bound for each in found.routes if each.has_certificate)


def test_scores_of_several_classifiers_are_averaged():
    sample = blobs(60)
    networks = [trained(sample, steps=steps) for steps in (5, 20)]
    x = torch.from_numpy(sample.x)
    mean = sum(network(x).log_softmax(1) for network in networks) / 2
    encoder = helper_encoder(networks, sample, n=80, says="x", has_scores=True)
    assert np.allclose(encoder.rows(x), mean.detach().numpy(), atol=1e-5)
    alone = helper_encoder(networks[0], sample, n=80, says="x", has_scores=True)
    assert np.allclose(alone.rows(x), networks[0](x).detach().numpy(), atol=1e-6)
    with pytest.raises(UsageError, match="no classifier of 3 classes"):
        helper_encoder(nn.Linear(6, 5), sample, n=80, says="x", has_scores=True)


def knowing(sample):
    """A network that knows the labels of a sample by heart."""
    return trained(sample, steps=400, width=256)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1])
def test_a_helper_of_the_first_part_promises_no_better_than_guessing(seed):
    sample = random_labels(200, seed=seed)
    found = certify(None, sample, prior_tenths=5, helper=knowing, effort="quick")
    assert found.certificate.claim.bound >= RISK


@pytest.mark.thorough
def test_a_helper_that_saw_the_rest_breaks_the_promise_and_only_the_declaration_shows_it():
    """Bits, picks and errors are right and the verifier accepts, so it says what it could not check."""
    sample = random_labels(200)
    liar = knowing(sample)
    found = certify(None, sample, prior_tenths=5, helper=lambda first: liar, effort="quick")
    assert found.certificate.claim.bound < 0.5 < RISK
    assert any("none of which it saw" in line for line in found.certificate.declarations)


@pytest.mark.parametrize("method", ["auto", "picks", "prune"])
@pytest.mark.parametrize("part", ["the whole", "the rest"])
def test_a_helper_that_is_known_to_have_seen_the_rest_is_refused(method, part):
    sample = blobs(60)
    seen = sample if part == "the whole" else prior_and_rest(sample, 5)[1]
    liar = fit(nn.Sequential(nn.Linear(6, 3)), seen, TrainConfig(epochs=1)).model
    for helper in (Pretrained(liar, "made of the first half"), lambda first: liar):
        with pytest.raises(CertificateError, match="must not have seen"):
            certify(None, sample, prior_tenths=5, helper=helper, method=method, effort="quick")


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["auto", "prune"])
def test_classes_that_only_the_rest_shows_are_declared(method):
    """A helper has as many outputs as there are classes, so somebody knew their number without the rest."""
    sample, helper = blobs(200), linear_helper if method == "prune" else trained
    for labels, is_said in ((sample.y, False), (np.where(sample.y == 2, 1, sample.y), True)):
        found = certify(
            None, replace(sample, y=labels), prior_tenths=5, helper=helper, method=method, effort="quick"
        )
        assert any("show 2 classes" in each for each in found.certificate.declarations) == is_said


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["auto", "picks", "prune"])
def test_copies_of_the_first_part_in_the_rest_are_refused(method):
    """Each row twice, once in either part: neither has copies, and the helper knows the rest by heart."""
    half, helper = random_labels(200), linear_helper if method == "prune" else knowing
    order = np.concatenate([np.arange(half.n)] * 2)
    places = permutation(2 * half.n)
    rows = np.empty(2 * half.n, dtype=np.int64)
    rows[places] = order
    sample = from_arrays(half.x[rows], half.y[rows], name="twice", classes=4)
    with pytest.raises(CertificateError, match="200 of 400 examples are exact copies"):
        certify(None, sample, prior_tenths=5, helper=helper, method=method, effort="quick")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"helper": lambda first: 3}, "torch module"),
        ({"helper": lambda first: []}, "Got none"),
        ({"helper": lambda first: 1 / 0}, "failed with ZeroDivisionError"),
        ({"helper": lambda first: nn.Linear(5, 3)}, "the helper failed on 2 examples"),
        ({"helper": lambda first: nn.Sequential(nn.Linear(6, 3), nn.Flatten(0))}, "a row of numbers"),
        ({"helper": trained, "prior_tenths": (3, 5)}, "one share"),
        ({"helper": trained, "base": Pretrained(nn.Linear(6, 3), "x")}, "no base"),
    ],
)
def test_a_helper_that_cannot_encode_is_refused(asked, reason):
    with pytest.raises(UsageError, match=reason):
        certify(None, blobs(), effort="quick", **{"prior_tenths": 5, **asked})


MAKER = """
import torch
from torch import nn

def make(first):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    x, y = first.scaling.apply(torch.from_numpy(first.x)), torch.from_numpy(first.y)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    network.origin = "no other data"
    return network
"""


@pytest.mark.thorough
def test_the_command_makes_a_helper_and_picks_behind_it(codebound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_maker.py").write_text(MAKER)
    asked = ("certify", "--data", "digits", "--helper-from", "my_maker:make", "--prior-fraction", "auto")
    code, out, err = codebound(*asked, "--method", "picks", "--effort", "quick", "--out", "c")
    assert code == 0, err
    assert "made of the first 898 of 1797" in " ".join(out.split())
    code, out, err = codebound("verify", "c/certificate.cbound", "--data", "c/sample.npz")
    assert code == 0, err
    assert "no other data" in out


def test_weights_of_the_whole_sample_are_no_helper(codebound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert codebound("train", "linear", "--data", "digits", "--epochs", "1", "--out", "f")[0] == 0
    asked = (
        "certify",
        "--model",
        "linear",
        "--data",
        "digits",
        "--prior-fraction",
        "0.5",
        "--helper-weights",
    )
    code, _, err = codebound(*asked, "f/model.safetensors", "--out", "c")
    assert code == 1
    assert "trained on this very sample" in err
