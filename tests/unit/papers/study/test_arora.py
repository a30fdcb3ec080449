"""The study of Arora et al. against numbers that were computed otherwise."""

import math

import numpy as np
import pytest
import torch

from codebound.run.errors import UsageError
from codebound_networks.reading.walk import wrap
from codebound_networks.train.rng import torch_stream
from codebound_papers.study.arora import arora18, attenuation
from codebound_papers.study.subjects import subject


@pytest.fixture(scope="module")
def found(about):
    return arora18(about, share=0.25, examples=about.sample.n)


def test_noise_is_followed_through_the_layers(about):
    x, (first, second) = torch.from_numpy(about.sample.x[:20]), (p.detach() for p in about.f.parameters())
    rows = attenuation(wrap(about.f), x, seed=3)
    stream = torch_stream(3, "attenuation")

    def error(moved, clean):
        return float(((moved - clean).norm(dim=1) / clean.norm(dim=1)).mean())

    def noisy(inputs):
        noise = torch.randn(inputs.shape, generator=stream)
        return inputs + 0.1 * noise * (inputs.norm(dim=1) / noise.norm(dim=1))[:, None]

    hidden = x @ first.T
    moved = noisy(x) @ first.T
    expected = [error(moved, hidden), error(moved.relu() @ second.T, hidden.relu() @ second.T)]
    assert list(rows[0]["errors"].values()) == pytest.approx(expected, rel=1e-5)
    last = error(noisy(hidden.relu()) @ second.T, hidden.relu() @ second.T)
    assert list(rows[1]["errors"].values()) == pytest.approx([last], rel=1e-5)


def worst_and_medians(about):
    """Cushions and contraction by their definitions."""
    weights = [each.detach().double().numpy() for each in about.f.parameters()]
    inputs, rows = about.sample.x.astype(float), []
    for weight in weights:
        outputs = inputs @ weight.T
        cushion = np.linalg.norm(outputs, axis=1) / np.linalg.norm(weight) / np.linalg.norm(inputs, axis=1)
        after = np.maximum(outputs, 0.0)
        rows.append((cushion, np.linalg.norm(outputs, axis=1) / np.linalg.norm(after, axis=1)))
        inputs = after
    return rows


def test_cushions_and_contraction_are_those_of_the_definitions(about, found):
    layers = found.record()["stability"]["layers"]
    for row, (cushion, contraction) in zip(layers, worst_and_medians(about), strict=True):
        assert row["layer_cushion"]["min"] == pytest.approx(cushion.min(), rel=1e-4)
        assert row["layer_cushion"]["quantiles"]["0.5"] == pytest.approx(np.median(cushion), rel=2e-2)
        if row["activation_contraction"] is not None:
            assert row["activation_contraction"]["max"] == pytest.approx(contraction.max(), rel=1e-4)


def test_table_1_and_theorem_4_1_by_hand(about, found):
    layers = found.record()["stability"]["layers"]
    terms = []
    for row, effective in zip(layers, found.record()["effective_parameters"], strict=True):
        mu = row["layer_cushion"]["min"]
        later = row["minimal_interlayer_cushion"] or 1.0 / math.sqrt(3)  # of the last layer, by its outputs
        c = row["activation_contraction"]["max"] if row["activation_contraction"] else 1.0
        terms.append((mu * later) ** -2.0)
        assert effective["effective"] == pytest.approx(c**2 * terms[-1], rel=1e-4)
        assert effective["percent"] == pytest.approx(100.0 * effective["effective"] / effective["weights"])
    facts = about.measure("margins", "norms").facts
    contraction = max(r["activation_contraction"]["max"] for r in layers if r["activation_contraction"])
    root = contraction * 2 * facts.largest_output * math.sqrt(sum(terms) / facts.examples) / facts.margin
    assert found.theorems[0].value == pytest.approx(facts.margin_loss + root, rel=1e-4)


def test_compression_is_followed_layer_by_layer(about, found):
    names = [row["name"] for row in found.record()["induction"]]
    assert names == [view.name for view in about.network.layers]
    first, second = (each.detach() for each in about.f.parameters())
    g1, g2 = (each.detach() for each in found.networks["g"].parameters())
    x = torch.from_numpy(about.sample.x)
    moved, clean = (x @ g1.T).relu() @ g2.T, (x @ first.T).relu() @ second.T
    largest = float(((moved - clean).norm(dim=1) / clean.norm(dim=1)).max())
    assert found.record()["induction"][-1]["deviation"] == pytest.approx(largest, rel=1e-5)


@pytest.mark.thorough
def test_convolutions_are_compressed_by_algorithm_4():
    about = subject("lenet5", epochs=1)
    found = arora18(about, examples=20)
    assert found.theorems[0].ref == "A-Thm5.1"
    assert [row["name"] for row in found.record()["induction"]] == ["conv1", "conv2"]
    assert found.record()["certified"]["g"]["errors"] >= 0


@pytest.mark.thorough
def test_the_control_is_trained_on_corrupted_labels():
    about = subject("mlp:depth=2,width=16,bias=false", epochs=2)
    control = arora18(about, examples=20, shuffle_labels=1.0).record()["control"]
    assert [row["layer"] for row in control] == ["linear1", "linear2", "(training error)"]
    assert control[-1]["layer_cushion, corrupted"] > control[-1]["layer_cushion"]


@pytest.mark.parametrize("share", [0.0, 1.0, math.nan])
def test_a_share_is_one(about, share):
    with pytest.raises(UsageError, match="the numbers for each weight"):
        arora18(about, share=share)
