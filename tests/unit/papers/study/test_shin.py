"""The study of Shin against numbers that were computed otherwise."""

import numpy as np
import pytest
import torch

from codebound.run.errors import UsageError
from codebound_networks.train.rng import torch_stream
from codebound_papers.study.shin import shin21
from codebound_papers.study.subjects import subject


@pytest.fixture(scope="module")
def found(about):
    return shin21(about, trials=4, resamples=20, examples=30)


def test_stable_ranks_and_tails_by_hand(about, found):
    for weight, row in zip(about.f.parameters(), found.record()["layers"], strict=True):
        matrix = weight.detach().double().numpy()
        largest = np.linalg.svd(matrix, compute_uv=False)[0]
        assert row["stable_rank"] == pytest.approx((matrix**2).sum() / largest**2, rel=1e-6)
        assert row["entries"]["status"] in ("power law", "no power law", "undecided")
        assert set(row["eigenvalue_distances"]) <= {"Gaussian", "Laplace", "stable"}
        assert "Gaussian" in row["law"] or "none" in row["law"] or "Laplace" in row["law"]


def test_the_exponent_is_that_of_hill(about, found):
    row = found.record()["layers"][0]
    values = np.sort(np.abs(next(about.f.parameters()).detach().double().numpy()), axis=None)
    hills = [1.0 / np.log(values[start:] / values[start]).mean() for start in range(len(values) - 2)]
    assert min(abs(hill - row["entries"]["tail_exponent"]) for hill in hills) < 1e-6


def test_redrawn_weights_by_hand(about, found):
    row = found.record()["redrawn"][0]
    first, last = (each.detach() for each in about.f.parameters())
    mean, deviation = float(last.double().mean()), float(last.double().std(correction=0))
    features = (torch.from_numpy(about.test_set.x) @ first.T).relu()
    labels, accuracies = torch.from_numpy(about.test_set.y), []
    for trial in range(4):
        noise = torch.randn(last.shape, generator=torch_stream(about.seed, f"trial {trial}"))
        drawn = torch.where(last.abs() > deviation, last, mean + deviation * noise)
        accuracies.append(float(((features @ drawn.T).argmax(dim=1) == labels).double().mean()))
    assert row["accuracies"] == pytest.approx(accuracies)
    assert (row["mean"], row["deviation"]) == pytest.approx((np.mean(accuracies), np.std(accuracies)))
    assert row["kept"] == pytest.approx(float((last.abs() > deviation).double().mean()))
    assert row["original"] == pytest.approx(1.0 - found.errors["f"][1])


def test_theorem_2_counts_the_weights_above_its_thresholds(about, found):
    value = found.theorems[0]
    facts = about.measure("margins", "norms").facts
    replaced = next(each for each in value.hypotheses if each.statement == "something is replaced")
    count = int(replaced.found.split(" of ")[0].replace(",", ""))
    kept = sum(each.numel() for each in about.f.parameters()) - count
    expected = facts.margin_loss + (kept / facts.examples) ** 0.5
    assert value.value == pytest.approx(expected)
    law = next(each for each in value.hypotheses if "power law" in each.statement)
    ruled_out = [r["layer"] for r in found.record()["layers"] if r["entries"]["status"] == "no power law"]
    assert law.holds is (False if ruled_out else None)


@pytest.mark.thorough
def test_a_network_that_ends_otherwise_is_not_redrawn(about):
    from dataclasses import replace

    ends = torch.nn.Sequential(*about.f, torch.nn.ReLU())
    result = shin21(replace(about, f=ends), trials=2, resamples=20, examples=10)
    assert result.record()["redrawn"] == []
    assert "No weights were redrawn" in result.sentences[1]


def test_bad_options_get_one_sentence(about):
    with pytest.raises(UsageError, match="at least one trial"):
        shin21(about, trials=0)


def test_laws_over_the_training_end_with_those_of_the_network():
    found = shin21(subject("linear", epochs=4), trials=1, resamples=20, examples=10)
    rows, (last,) = found.record()["over_epochs"], found.record()["layers"]
    assert [row["epoch"] for row in rows] == [0, 2, 4]
    assert {key: rows[-1][key] for key in ("law", "alpha", "laws")} == {
        key: last[key] for key in ("law", "alpha", "laws")
    }
    assert rows[0]["alpha"] == 2.0  # uniform weights, before the training
