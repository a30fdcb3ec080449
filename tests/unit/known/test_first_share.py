"""Networks made of the known share: their rows, their scores, and the command that makes them."""

import numpy as np
import pytest
import torch
from torch import nn
from worlds.networks import mlp
from worlds.samples import clouds

from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.known.encoder import quantise_rows
from codebound.known.first_share import helper_encoder, joined_scores
from codebound.known.score_tables import Biased, Scaled, run_on
from codebound.run.errors import UsageError
from codebound.sample.dataset import Scaling
from codebound_verify.__main__ import main as verify

SAMPLE = clouds(200, features=6)
X = torch.from_numpy(SAMPLE.x)


def network(seed=0):
    return mlp(6, 9, 3, activation=nn.Tanh, seed=seed).eval()


def test_rows_are_what_enters_the_last_layer_of_a_classifier():
    first = network()
    weight, bias = (value.detach().double().numpy() for value in list(first.parameters())[:2])
    hidden = np.tanh(SAMPLE.x @ weight.T + bias)
    hidden /= np.sqrt((hidden**2).mean(1, keepdims=True))
    found = helper_encoder([first], SAMPLE, rows=80, says="x").rows(X)
    assert np.abs(found.astype(int) - quantise_rows(hidden, "x")).max() <= 1  # rounding in float32
    both = helper_encoder([first, first], SAMPLE, rows=80, says="x")
    assert np.array_equal(both.rows(X), np.concatenate([found, found], 1))
    assert (both.made.rows, both.made.of, both.made_from) == (80, "nothing else went into it", 80)


@pytest.mark.parametrize(
    "other", [nn.Linear(6, 3), nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 5))]
)
def test_rows_of_other_networks_are_their_outputs(other):
    outputs = other(X).detach().double().numpy()
    found = helper_encoder([other], SAMPLE, rows=80, says="x").rows(X)
    assert np.abs(found.astype(int) - quantise_rows(outputs, "x")).max() <= 1


def test_scores_of_several_classifiers_are_averaged():
    networks = [network(seed) for seed in (0, 1)]
    mean = sum(each(X).log_softmax(1) for each in networks) / 2
    assert torch.allclose(joined_scores(networks, SAMPLE)(X), mean.double(), atol=1e-6)
    assert torch.allclose(joined_scores(networks[:1], SAMPLE)(X), networks[0](X).double(), atol=1e-6)
    with pytest.raises(UsageError, match="no classifier of 3 classes"):
        joined_scores([nn.Linear(6, 5)], SAMPLE)


def test_scores_are_of_every_example_as_stored():
    scaled = Scaled(network(), Scaling(2.0, (0.5,), (3.0,)))
    found = run_on(scaled, SAMPLE)
    wanted = network()((X / 2.0 - 0.5) / 3.0).detach().numpy()
    assert np.allclose(found, wanted, atol=1e-6)
    biased = Biased(scaled, (0.5, 0.0, -0.25))
    assert torch.equal(biased(X), scaled(X).double() + torch.tensor([0.5, 0.0, -0.25]))


def test_g_takes_raw_inputs_behind_its_helper(tmp_path):
    def make(first):
        made = network()
        with torch.no_grad():
            made[0].weight.copy_(torch.eye(9, 6))
        return made

    found = certify(None, SAMPLE, prior_tenths=5, helper=make, method="picks", effort="quick")
    folder = found.save_to(tmp_path / "c").folder
    assert torch.equal(found.classifier(X), load_classifier(folder, encoder=found.encoder)(X))
    assert (found.classifier(X).argmax(1).numpy() != SAMPLE.y).mean() < found.bound
    assert (folder / "helper.safetensors").is_file()
    assert verify([str(folder)]) == 0
    with pytest.raises(UsageError, match="takes rows of the encoder"):
        load_classifier(folder)(X[:, :5])


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
@pytest.mark.parametrize("method", ["picks", "scores"])
def test_the_command_makes_a_helper(codebound, empty_folder, monkeypatch, method):
    monkeypatch.syspath_prepend(str(empty_folder))
    (empty_folder / "my_maker.py").write_text(MAKER)
    asked = ("certify", "--data", "digits", "--helper-from", "my_maker:make", "--prior-fraction", "0.5")
    code, out, err = codebound(*asked, "--method", method, "--effort", "quick", "--out", "c")
    assert code == 0, err
    assert "my_maker:make" in out
    code, out, err = codebound("verify", "c")
    assert code == 0, err
    assert "my_maker:make" in out


def test_weights_of_the_whole_sample_are_no_helper(codebound, empty_folder):
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
