"""Guha's two plots at their smallest, against direct computations."""

import math

import numpy as np
import pytest
import torch

from codebound.reproduce import Settings
from codebound.reproduce.guha_exp_x1 import guha_exp_x1
from codebound.reproduce.guha_exp_x2 import guha_exp_x2
from codebound.reproduce.guha_network import Study, guha_samples, largest_change, strengths

pytestmark = pytest.mark.usefixtures("tiny_networks")

TINY = Settings(size="tiny")


@pytest.fixture(scope="module")
def study():
    return Study(TINY)


@pytest.fixture(scope="module")
def x1():
    return guha_exp_x1(TINY)


def outputs(model, data):
    x = data.train.scaling.apply(torch.from_numpy(data.train.x))
    with torch.no_grad():
        return model(x).double().numpy()


def test_inputs_lie_between_minus_one_and_one():
    train, test = guha_samples("tiny")
    for part in (train, test):
        inputs = part.scaling.apply(torch.from_numpy(part.x))
        assert inputs.min() >= -1.0
        assert inputs.max() <= 1.0
    assert inputs.min() < -0.5


def test_strengths_go_from_0_to_10():
    assert strengths("full")[0] == 0.0
    assert strengths("full")[-1] == 10.0
    assert len(strengths("full")) == 100


def test_the_margin_asked_for_is_that_of_the_released_code(study, x1):
    views, n = study.subject.network.layers, study.samples.train.n
    x = study.samples.train.scaling.apply(torch.from_numpy(study.samples.train.x)).flatten(1)
    for row in x1.points["strengths"]:
        pruned = study.pruned(row["d"])
        product, total = math.e * float(x.norm(dim=1).max()), 0.0
        for view in views:
            matrix = view.matrix.detach().double().numpy()
            outputs_, inputs = matrix.shape
            t = math.sqrt(math.log(n / 0.01) / inputs)
            kappa = min(1.0, t * math.sqrt(outputs_)) if outputs_ < inputs else 1.0
            norm = np.linalg.norm(matrix, 2)
            total += np.linalg.norm(matrix - pruned[view.name].double().numpy(), 2) / norm
            product *= norm * kappa
        assert row["needed"] == pytest.approx(product * total, rel=1e-5)


def test_the_change_is_the_largest_over_the_sample_and_below_both_bounds(study, x1):
    plain = outputs(study.subject.network.predictor, study.samples)
    for row in x1.points["strengths"]:
        pruned = outputs(study.with_matrices(study.pruned(row["d"])), study.samples)
        assert row["largest_change"] == pytest.approx(np.linalg.norm(pruned - plain, axis=1).max(), abs=1e-5)
        assert row["largest_change"] <= row["recursion"]
    assert x1.points["strengths"][0]["largest_change"] == 0.0
    assert x1.points["strengths"][0]["kept_share"] == 1.0


def test_a_changed_output_is_noticed(study):
    model = study.subject.network.predictor
    assert largest_change(model, model, study.samples, device="cpu") == 0.0
    name = study.subject.network.layers[-1].name
    matrix = study.subject.network.layers[-1].matrix.detach().cpu()
    moved = study.with_matrices({name: matrix + 1.0})
    assert largest_change(model, moved, study.samples, device="cpu") > 0.0


def test_rows_are_counted_as_they_are(study):
    rows = guha_exp_x2(Settings(size="tiny")).points["strengths"]
    for row in rows:
        matrix = study.pruned(row["d"])[row["layer"]].numpy()
        assert row["fullest_row"] == int((matrix != 0).sum(axis=1).max())
        assert row["fan_in"] == matrix.shape[1]
        assert row["predicted"] == pytest.approx(
            3 * matrix.shape[1] * (1 - math.sqrt(row["d"] / (row["d"] + 2)))
        )
        assert 0 <= row["with_diagonal"] - row["fullest_row"] <= 1
    assert [row["layer"] for row in rows[:3]] == ["linear1", "linear2", "linear3"]


def test_the_diagonal_is_kept_on_request(study):
    kept = study.pruned(10.0, keep_diagonal=True)["linear2"]
    assert torch.equal(kept.diagonal(), study.subject.network.layer("linear2").matrix.diagonal())
    assert not torch.equal(study.pruned(10.0)["linear2"].diagonal(), kept.diagonal())


def test_the_network_is_not_changed_by_pruning(study):
    before = study.subject.network.model.state_dict()["linear1.weight"].clone()
    study.with_matrices(study.pruned(5.0))
    assert torch.equal(study.subject.network.model.state_dict()["linear1.weight"], before)
