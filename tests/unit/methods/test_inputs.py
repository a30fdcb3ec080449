"""Bases and helpers: what is declared of them, what is certified with them, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import beta
from torch import nn
from worlds.networks import mlp
from worlds.requests import request
from worlds.samples import clouds, random_labels

from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.known.provenance import UNKNOWN, Origin, Pretrained, remember
from codebound.known.score_tables import ScoreTable
from codebound.known.share_scores import make_helper, maker_of, scores_of_network
from codebound.methods.inputs import (
    Networks,
    explain_unused,
)
from codebound.request import Claim, Known, Run
from codebound.run.errors import CertificateError, UsageError
from codebound.sample.dataset import Made
from codebound.sample.order import Design, arrange
from codebound_networks.chains.original import Original
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit
from codebound_verify.__main__ import main as verify_command

SAMPLE = clouds(240, features=6)
WORDS = "random numbers"


def hidden(activation=nn.ReLU, seed=0):
    return mlp(6, 20, 3, activation=activation, seed=seed).eval()


def trained(first, steps=150, width=16):
    network = mlp(first.input_shape[0], width, first.classes, activation=nn.Tanh)
    x, y = torch.from_numpy(first.x), torch.from_numpy(first.y)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network


def test_scores_of_a_base_are_declared_and_counted_on_all_examples():
    module = trained(clouds(300, features=6, seed=9))
    table = scores_of_network(module, SAMPLE, by=WORDS, of="other data")
    assert np.allclose(table.scores, module(torch.from_numpy(SAMPLE.x)).detach().numpy(), atol=1e-6)
    found = certify(
        SAMPLE,
        network=module,
        method="scores",
        known=Known(base=Pretrained(module, WORDS)),
        run=Run(effort="quick"),
    )
    errors = int((table.scores.argmax(1) != SAMPLE.y).sum())
    certificate = found.certificate
    assert (certificate.limit.errors, certificate.limit.n, certificate.known.rows) == (errors, 240, 0)
    assert certificate.claim.bound == pytest.approx(beta.isf(0.05 / 4, errors + 1, 240 - errors))
    assert found.certificate.known.tables[0].by == WORDS


def test_a_base_that_is_known_to_have_seen_the_sample_is_refused():
    module = hidden()
    remember(module, Origin(SAMPLE.sha256))
    for method in ("scores", "auto"):
        with pytest.raises(CertificateError, match="on this very sample"):
            certify(
                SAMPLE,
                network=module,
                method=method,
                known=Known(base=Pretrained(module, WORDS)),
                run=Run(effort="quick"),
            )


def test_a_helper_sees_the_known_share_and_nothing_else():
    seen = []

    def make(first):
        seen.append(first)
        return trained(first)

    found = certify(
        SAMPLE,
        method="scores",
        test=clouds(90, features=6, seed=4),
        known=Known(share=0.5, helper=make),
        run=Run(effort="quick"),
    )
    known, rest = arrange(SAMPLE, Design()).split(120)
    (given,) = seen
    assert np.array_equal(given.x, SAMPLE.x[known])
    certificate = found.certificate
    assert certificate.known.rows == 120
    assert certificate.limit.n == 120
    assert found.holdout.facts.n == 90
    outputs = trained(given)(torch.from_numpy(SAMPLE.x[rest])).argmax(1).numpy()
    assert abs(certificate.limit.errors - int((outputs != SAMPLE.y[rest]).sum())) <= 1
    assert certificate.known.tables[0].rows == 120
    assert f"{__name__}:test_a_helper_sees" in certificate.known.tables[0].by


@pytest.mark.parametrize("known", [{"base": Pretrained(hidden(), WORDS)}, {"share": 0.5, "helper": trained}])
def test_picks_look_at_inputs_and_at_no_network(known):
    with pytest.raises(UsageError, match="inputs as they are"):
        certify(SAMPLE, network=hidden(), method="picks", known=Known(**known), run=Run(effort="quick"))


@pytest.mark.parametrize("method", ["split", "picks", "scores"])
@pytest.mark.parametrize("rows", [100, 150])
def test_no_rule_knows_fewer_rows_than_its_features_were_made_of(method, rows):
    sample = replace(SAMPLE, features=Made("an encoder", "this sample", rows, "a" * 64))
    found = certify(sample, method=method, claim=Claim(order="file"), run=Run(effort="quick"))
    assert found.certificate.known.rows >= rows
    with pytest.raises(UsageError, match="no table was made of fewer"):
        certify(
            sample,
            method="scores",
            known=Known(scores=ScoreTable(SAMPLE.x[:, :3], "x", "y", rows - 1)),
            claim=Claim(order="file"),
        )


def test_a_helper_of_noise_promises_no_better_than_guessing_and_one_that_saw_the_rest_does():
    """Bits and errors are right and the verifier accepts, so the declaration has to be there."""
    sample = random_labels(200)
    honest = certify(
        sample,
        method="scores",
        known=Known(share=0.5, helper=lambda first: trained(first, 300, 256)),
        run=Run(effort="quick"),
    )
    assert honest.bound >= 0.75
    liar = trained(sample, 400, 256)
    found = certify(
        sample, method="scores", known=Known(share=0.5, helper=lambda first: liar), run=Run(effort="quick")
    )
    assert found.bound < 0.5
    assert any("made without the counted examples" in line for line in found.certificate.declarations)


@pytest.mark.parametrize("method", ["auto", "prune"])
def test_a_helper_that_is_known_to_have_seen_the_rest_is_refused(method):
    rest = SAMPLE.select(arrange(SAMPLE, Design()).split(120)[1], role="certify")
    liar = fit(nn.Sequential(nn.Linear(6, 3)), rest, TrainConfig(epochs=1)).model
    for helper in (Pretrained(liar, "made of the first half"), lambda first: liar):
        with pytest.raises(CertificateError, match="must not have seen"):
            certify(SAMPLE, method=method, known=Known(share=0.5, helper=helper), run=Run(effort="quick"))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"helper": lambda first: 3}, "torch module"),
        ({"helper": lambda first: []}, "torch module"),
        ({"helper": lambda first: 1 / 0}, "failed with ZeroDivisionError"),
        ({"helper": lambda first: nn.Linear(5, 3)}, "the helper failed on 2 examples"),
        ({"helper": lambda first: nn.Linear(6, 5)}, "no classifier of 3 classes"),
        ({"helper": lambda first: nn.Sequential(nn.Linear(6, 3), nn.Flatten(0))}, "a row of numbers"),
        ({"helper": trained, "base": Pretrained(nn.Linear(6, 3), "x")}, "not both"),
        ({"helper": trained, "share": None}, "give the share"),
        ({"share": 1.0}, "between 0 and 1"),
    ],
)
def test_a_helper_that_cannot_be_is_refused(asked, reason):
    with pytest.raises(UsageError, match=reason):
        certify(SAMPLE, run=Run(effort="quick"), **request(**{"share": 0.5, **asked}))


def test_a_maker_is_given_what_it_takes_by_name():
    assert make_helper(lambda first, *, device: (first, device), 1, device="d", progress=2) == (1, "d")
    assert make_helper(int, "3", device="d") == 3
    assert maker_of(trained) == f"{__name__}:trained"


def test_what_a_message_may_cost():
    """By hand: 300 examples, ten classes: (300 ln 10 - ln 20) / ln 2 = 992.3 bits; 300 - 4.3 at one half."""
    original = Original.read(mlp(64, 40, 10, flat=True), (1, 8, 8), classes=10)
    sample = clouds(300, classes=10)
    words, _ = explain_unused(Networks(original), UNKNOWN, sample, delta=0.05, bound=0.5)
    assert "3,010 numbers" in words
    assert "992 bits (0.33 a number)" in words
    assert "295 bits (0.098 a number)" in words


def test_without_a_declaration_picks_do_not_look_at_f():
    found = certify(SAMPLE, network=hidden(), run=Run(effort="quick"))
    assert found.sample.x is SAMPLE.x or np.array_equal(found.sample.x, SAMPLE.x)
    given = Networks(Original.read(hidden(), SAMPLE.input_shape, classes=3))
    words = [
        explain_unused(given, origin, SAMPLE, delta=0.05, bound=found.bound)
        for origin in (UNKNOWN, Origin("some other"), Origin(f"some,{SAMPLE.sha256}"))
    ]
    assert words[0] == words[1]
    assert set(words[0]) <= set(found.notes)
    assert "it was trained on this sample" in words[2][1]


def test_scores_of_a_network_that_was_given_are_checked_from_the_folder_and_not_loaded(tmp_path):
    found = certify(SAMPLE, method="scores", known=Known(share=0.5, helper=trained), run=Run(effort="quick"))
    assert (found.classifier(torch.from_numpy(SAMPLE.x)).argmax(1).numpy() != SAMPLE.y).mean() < 0.5
    folder = found.save_to(tmp_path / "c").folder
    assert verify_command([str(folder)]) == 0
    with pytest.raises(CertificateError, match="use it as it was"):
        load_classifier(folder)
    assert "load_classifier" not in (folder / "README.md").read_text()
    assert "load_classifier" not in (folder / "report.html").read_text()


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
    return network
"""


@pytest.mark.thorough
def test_the_command_makes_a_helper(codebound, empty_folder, monkeypatch):
    monkeypatch.syspath_prepend(str(empty_folder))
    (empty_folder / "my_maker.py").write_text(MAKER)
    asked = ("certify", "digits", "--known", "helper=my_maker:make", "--known", "share=0.5")
    code, out, err = codebound(*asked, "--method", "scores", "--run", "effort=quick", "--out", "c")
    assert code == 0, err
    assert "my_maker:make" in out
    code, out, err = codebound("verify", "c")
    assert code == 0, err
    assert "my_maker:make" in out


def test_weights_of_the_whole_sample_are_no_helper(codebound, empty_folder):
    assert codebound("train", "linear", "--data", "digits", "--epochs", "1", "--out", "f")[0] == 0
    known = ("--known", "share=0.5", "--known", "helper=f/model.safetensors")
    code, _, err = codebound("certify", "digits", "--model", "linear", *known, "--out", "c")
    assert code == 1
    assert "trained on this very sample" in err
