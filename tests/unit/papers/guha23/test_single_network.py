"""Prunings as the released code draws them, its searches, and two plots, against direct computations."""

import math

import numpy as np
import pytest
import torch

from codebound_papers.guha23.items.guha_networks import Networks, network_settings
from codebound_papers.guha23.items.released import (
    bound_by_change,
    draw_pruning,
    largest_change,
    measure_smallest_margin,
    needed_margin,
    released_bound,
    search_strength,
    strengths,
)
from codebound_papers.guha23.items.single_network import (
    guha_exp_x1,
    guha_exp_x1_cifar10,
    guha_exp_x2,
    guha_exp_x2_cifar10,
)
from codebound_papers.reproduce.items import Settings

pytestmark = pytest.mark.usefixtures("tiny_networks")

TINY = Settings(size="tiny")


@pytest.fixture(scope="module")
def networks():
    return Networks(network_settings("mnist", "tiny"), TINY)


@pytest.fixture(scope="module")
def watched(networks):
    return networks.watched.network


@pytest.fixture(scope="module")
def measured(watched, networks):
    """With a positive margin."""
    found = measure_smallest_margin(watched, networks.parts.samples.train, device="cpu")
    assert found.facts.margin > 0.0
    return found


@pytest.fixture(scope="module")
def x1():
    return guha_exp_x1(TINY)


def outputs(model, sample):
    with torch.no_grad():
        return model(sample.scaling.apply(torch.from_numpy(sample.x))).double().numpy()


def test_strengths_go_from_0_to_10():
    assert strengths("full") == pytest.approx(np.linspace(0.0, 10.0, 100))


def test_the_margin_asked_for_is_that_of_the_released_code(watched, networks, x1):
    sample = networks.parts.samples.train
    x = sample.scaling.apply(torch.from_numpy(sample.x)).flatten(1)
    for row in x1.points["strengths"]:
        pruned = draw_pruning(watched, strength=row["d"], seed=0).matrices
        product, total = math.e * float(x.norm(dim=1).max()), 0.0
        for view in watched.layers:
            matrix = view.matrix.detach().double().numpy()
            outputs_, inputs = matrix.shape
            t = math.sqrt(math.log(sample.n / 0.01) / inputs)
            kappa = min(1.0, t * math.sqrt(outputs_)) if outputs_ < inputs else 1.0
            norm = np.linalg.norm(matrix, 2)
            total += np.linalg.norm(matrix - pruned[view.name].double().numpy(), 2) / norm
            product *= norm * kappa
        assert row["needed"] == pytest.approx(product * total, rel=1e-5)


def test_changes_are_the_largest_over_the_sample_and_below_the_recursion(watched, networks, x1):
    sample = networks.parts.samples.train
    plain = outputs(watched.predictor, sample)
    for row in x1.points["strengths"]:
        pruned = draw_pruning(watched, strength=row["d"], seed=0)
        change = outputs(pruned.model, sample) - plain
        own = change[np.arange(sample.n), sample.y]
        assert row["largest_change"] == pytest.approx(np.linalg.norm(change, axis=1).max(), abs=1e-5)
        assert row["score_change"] == pytest.approx(np.abs(own).max(), abs=1e-5)
        assert row["score_change"] <= row["largest_change"] <= row["recursion"]
    assert x1.points["strengths"][0]["largest_change"] == 0.0
    assert x1.points["strengths"][0]["kept_share"] == 1.0


def test_rows_are_counted_as_they_are(watched):
    rows = guha_exp_x2(Settings(size="tiny")).points["strengths"]
    for row in rows:
        matrix = draw_pruning(watched, strength=row["d"], seed=0).matrices[row["layer"]].numpy()
        assert row["fullest_row"] == int((matrix != 0).sum(axis=1).max())
        assert row["fan_in"] == matrix.shape[1]
        assert row["predicted"] == pytest.approx(
            3 * matrix.shape[1] * (1 - math.sqrt(row["d"] / (row["d"] + 2)))
        )
        assert 0 <= row["with_diagonal"] - row["fullest_row"] <= 1
    assert [row["layer"] for row in rows[:3]] == ["linear1", "linear2", "linear3"]


def test_the_plots_of_the_repository_stand_beside_ours_where_they_were_read(x1):
    shown = x1.tables["Largest change of an output, and bounds on it"]
    assert [row["published_needed"] for row in shown] == [1288.0, 1943.0, 2801.0, 4220.0, 5286.0]
    assert [row["published_score_change"] for row in shown] == [9.3, 18.3, 31.9, 39.0, 40.0]
    rows = guha_exp_x2(Settings(size="tiny")).tables["The layer of the plot in the repository"]
    assert [row["published_fullest_row"] for row in rows] == [532.0, 326.0, 183.0, 116.0]
    for item in (guha_exp_x1_cifar10, guha_exp_x2_cifar10):
        found = item(Settings(size="tiny"))
        assert not any("published" in column for table in found.tables.values() for column in table[0])
        assert any("were not read off" in text for text in found.deviations)


def test_the_plots_are_of_the_network_after_100_epochs(networks, monkeypatch):
    assert networks.plotted_epoch == 8  # of a training that is shorter
    monkeypatch.setattr("codebound_papers.guha23.items.guha_networks.PLOTTED", 4)
    again = Networks(network_settings("mnist", "tiny"), TINY)
    assert again.plotted_record()["epochs"] == 4
    early = again.plotted.network.layers[0].matrix
    assert torch.equal(early, networks.watched.at(4).layers[0].matrix)
    assert not torch.equal(early, networks.watched.network.layers[0].matrix)


def test_a_colour_image_has_the_norm_of_a_pixel_in_the_released_code():
    networks = Networks(network_settings("cifar10", "tiny"), TINY)
    needed = guha_exp_x1_cifar10(Settings(size="tiny")).points["strengths"][1]["needed"]
    pruned = draw_pruning(networks.watched.network, strength=5.0, seed=0)
    by_image = needed_margin(networks.plotted, pruned)
    x = networks.parts.samples.train
    scaled = x.scaling.apply(torch.from_numpy(x.x))
    ratio = float(scaled.norm(dim=1).max() / scaled.flatten(1).norm(dim=1).max())
    assert needed / by_image == pytest.approx(ratio, rel=1e-5)


def test_the_diagonal_is_pruned_like_the_rest_or_kept_on_request(watched):
    strong = draw_pruning(watched, strength=1e6, seed=0)
    kept = draw_pruning(watched, strength=1e6, seed=0, keep_diagonal=True)
    for view in watched.layers:
        assert int(strong.matrices[view.name].count_nonzero()) < min(view.matrix.shape)
        assert torch.equal(kept.matrices[view.name].diagonal(), view.matrix.diagonal())


def test_pruning_is_drawn_anew_and_changes_no_network(watched):
    before = {name: value.clone() for name, value in watched.model.state_dict().items()}
    first, again, other = (draw_pruning(watched, strength=1.0, seed=3, draw=draw) for draw in (1, 1, 2))
    assert first.facts == again.facts != other.facts
    assert 0.0 < first.kept_share < 1.0
    assert first.model is not watched.model
    assert all(torch.equal(value, before[name]) for name, value in watched.model.state_dict().items())


@pytest.mark.parametrize("root", [0.02, 0.3, 3.0, 9.99])
def test_the_search_is_the_bisection_of_another_library(root):
    from scipy import optimize

    ours, theirs = [], []

    def asked(strength, seen):
        seen.append(strength)
        return strength - root

    found = search_strength(1e-300, lambda d: asked(d, ours))
    expected = optimize.bisect(lambda d: -asked(d, theirs), 0.0, 10.0, xtol=1e-3)
    assert found == expected
    assert ours == theirs[2:]  # which begins with both ends


@pytest.mark.parametrize("margin", [0.0, -1.0])
def test_without_a_positive_margin_nothing_is_searched(margin):
    assert search_strength(margin, lambda _: pytest.fail("searched")) == 0.0


@pytest.mark.thorough
def test_each_search_ends_where_the_margin_is_what_it_looks_at(measured, networks):
    sample, margin = networks.parts.samples.train, measured.facts.margin
    by_bound, by_change = [], []
    for seed in range(5):
        found = released_bound(measured, seed=seed)
        by_bound.append(found.needed / margin)
        assert found.needed == needed_margin(measured, found.pruned)
        by_change.append(bound_by_change(measured, sample, seed=seed, device="cpu"))
    changes = [largest_change(each.pruned, sample.on("cpu")).score / margin for each in by_change]
    assert 0.3 < np.median(changes) < 3.0
    assert len({each.pruned.strength for each in by_change}) > 1  # every step has a new mask
    strengths_ = [each.pruned.strength for each in by_change]
    assert min(strengths_) > released_bound(measured, seed=0).pruned.strength  # the bound is far above
    assert np.median(by_bound) < np.median([each.needed / margin for each in by_change])
