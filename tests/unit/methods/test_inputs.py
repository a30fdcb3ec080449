"""Picks on the features of a network that never saw the sample, and what is said where there are none."""

import dataclasses
import json
import shlex

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner
from worlds.networks import mlp

from codebound.certificate.decoding import decode
from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.cli.main import app
from codebound.known.base import Pretrained
from codebound.known.provenance import UNKNOWN, Origin, remember
from codebound.methods.inputs import Networks, base_encoder, describe_own_message, explain_no_features
from codebound.methods.search import UnsuitedError
from codebound.run.errors import CertificateError
from codebound.sample.dataset import Dataset
from codebound.sample.load import load_dataset
from codebound_networks.chains.original import Original
from codebound_verify.__main__ import main as verify_command

DIGITS = load_dataset("digits")
SAMPLE = DIGITS.select(range(300), role="train")
TEST = DIGITS.select(range(400, 600), role="test")
WORDS = "random numbers"


def hidden_forty(activation=nn.ReLU, seed=0):
    return mlp(64, 40, 10, activation=activation, flat=True, seed=seed).eval()


def encoder_of(module, shape=(1, 8, 8)):
    original = Original.read(module, shape, classes=10)
    start = Networks(original, base=Pretrained(module, WORDS), base_tensors=original.arrays)
    return base_encoder(start, SAMPLE, device="cpu", has_scores=False)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU], ids=["chain", "module"])
def test_rows_are_what_the_last_layer_reads(activation):
    module = hidden_forty(activation)
    x = SAMPLE.scaling.apply(torch.from_numpy(SAMPLE.x[:7]))
    theirs = module[:-1](x).double()
    theirs /= theirs.square().mean(1, keepdim=True).sqrt()
    assert torch.allclose(encoder_of(module).function(x), theirs, atol=1e-5)


@pytest.mark.thorough
def test_the_hash_is_that_of_what_is_computed():
    hashes = {
        encoder_of(hidden_forty(activation, seed)).sha256
        for activation in (nn.ReLU, nn.GELU)
        for seed in (0, 1)
    }
    assert len(hashes) == 4
    assert encoder_of(hidden_forty()).sha256 in hashes


@pytest.mark.parametrize("module", [nn.Sequential(nn.Flatten(), nn.Linear(64, 10))])
def test_a_network_without_hidden_layers_has_no_features(module):
    with pytest.raises(UnsuitedError, match="hidden layer"):
        encoder_of(module)


@pytest.mark.thorough
@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU], ids=["chain", "module"])
def test_certified_on_the_table_and_verified(activation):
    base = Pretrained(hidden_forty(activation), WORDS)
    found = certify(base.network, SAMPLE, base=base, method="picks", effort="quick", test_set=TEST)
    assert found.certificate.claim.statement == "C-15"
    assert found.sample.x.shape == (300, 40)
    assert "on the features of the network that was given" in found.result["network"]
    assert any("was fixed without looking at this sample" in each for each in found.certificate.declarations)
    assert verify(found.certificate, found.sample).is_accepted
    assert not verify(found.certificate, SAMPLE).is_accepted
    assert found.result["test_errors"] < 100
    assert found.result["through_f"] >= found.bound


@pytest.mark.thorough
def test_g_takes_raw_inputs_behind_the_encoder(tmp_path):
    module = hidden_forty()
    found = certify(module, SAMPLE, base=Pretrained(module, WORDS), method="picks", effort="quick")
    found.save_to(tmp_path / "c")
    path = tmp_path / "c" / "certificate.cbound"
    g = decode(path, weights=tmp_path / "c" / "g.safetensors", encoder=encoder_of(module))
    raw = g(SAMPLE.scaling.apply(torch.from_numpy(SAMPLE.x)))
    table = found.network(torch.from_numpy(found.sample.x))
    assert torch.equal(raw.argmax(1), table.argmax(1))


@pytest.mark.thorough
def test_auto_keeps_the_better_of_features_and_messages():
    module = hidden_forty()
    found = certify(module, SAMPLE, base=Pretrained(module, WORDS), effort="quick")
    assert found.method == "picks"  # the base is random: its own last layer is of no use
    assert found.is_behind_f
    assert found.bound < 0.7


@pytest.mark.thorough
def test_features_that_copy_examples_cost_nothing_else():
    """Rows that are all alike would be copies of one another: the other methods go on."""
    module = hidden_forty()
    with torch.no_grad():
        module[1].bias.fill_(-1e6)
    found = certify(module, SAMPLE, base=Pretrained(module, WORDS), effort="quick")
    assert found.method != "picks"
    assert "on the features of the base" in found.skipped["picks"]


@pytest.mark.thorough
def test_without_a_declaration_picks_do_not_look_at_f():
    module = hidden_forty()
    found = certify(module, SAMPLE, effort="quick")
    assert not found.is_behind_f
    assert found.sample is SAMPLE
    assert explain_no_features(UNKNOWN, SAMPLE) in found.notes
    assert "it was trained on this sample" in explain_no_features(Origin(f"some,{SAMPLE.sha256}"), SAMPLE)
    assert explain_no_features(Origin("some other"), SAMPLE) == explain_no_features(UNKNOWN, SAMPLE)


def test_a_base_that_is_known_to_have_seen_the_sample_is_refused():
    module = hidden_forty()
    remember(module, Origin(SAMPLE.sha256))
    with pytest.raises(CertificateError, match="on this very sample"):
        certify(module, SAMPLE, base=Pretrained(module, WORDS), method="picks", effort="quick")


@pytest.mark.thorough
def test_features_that_know_the_labels_would_make_the_bound_void():
    """Teeth of the rule: on noise, a table made of the labels is certified far below the truth."""
    random = np.random.default_rng(5)
    x, y = random.integers(0, 256, (300, 8)).astype("uint8"), random.integers(0, 2, 300)
    noise = Dataset(name="noise", role="train", x=x, y=y, classes=2)
    honest = certify(None, noise, method="picks", effort="quick")
    leaked = dataclasses.replace(
        noise, x=np.concatenate([x[:, :7], 255 * y[:, None]], axis=1).astype("uint8")
    )
    assert honest.bound > 0.45
    assert certify(None, leaked, method="picks", effort="quick").bound < 0.1


def test_what_a_message_may_cost():
    """By hand: 300 examples, ten classes: (300 ln 10 - ln 20) / ln 2 = 992.3 bits; 300 - 4.3 at one half."""
    original = Original.read(hidden_forty(), (1, 8, 8), classes=10)
    words = describe_own_message(original, SAMPLE, delta=0.05, bound=0.5)
    assert "3,010 numbers" in words
    assert "992 bits (0.33 a number)" in words
    assert "295 bits (0.098 a number)" in words


@pytest.mark.thorough
def test_f_through_g_stands_beside():
    found = certify(hidden_forty(), SAMPLE, method="picks", effort="quick", test_set=TEST)
    with torch.no_grad():
        stored = torch.from_numpy(TEST.x)
        f = hidden_forty().double()(TEST.scaling.apply(stored, torch.float64)).argmax(1)
        differ = int((f != found.network(stored).argmax(1)).sum())
    assert found.result["disagreements_f"] == pytest.approx(differ, abs=2)  # unclear ones count too
    assert found.result["through_f"] == min(
        1.0, found.bound + differ / TEST.n
    )  # f is random: nothing is left


@pytest.mark.thorough
def test_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_hidden_net.py").write_text(
        "from torch import nn\n\n"
        "def make():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 40), nn.GELU(), nn.Linear(40, 10))\n"
    )
    save_file(hidden_forty(nn.GELU).state_dict(), tmp_path / "b.safetensors")
    words = (
        "certify --model my_hidden_net:make --base b.safetensors --data digits --holdout 0.5 --method picks"
    )
    done = CliRunner().invoke(app, [*shlex.split(words), "--effort", "quick", "--out", "c"])
    assert done.exit_code == 0, done.exception
    assert "DECLARED" in done.stdout
    record = json.loads((tmp_path / "c" / "result.json").read_text())
    assert record["encoder_declared"]
    monkeypatch.chdir(tmp_path / "c")
    assert verify_command(shlex.split(record["verify"])[1:]) == 0
