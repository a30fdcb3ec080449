"""Shin's figures and table at their smallest, golden numbers, and networks of others."""

import sys
import types

import numpy as np
import pytest
import torch
from scipy import io, stats

from codebound.run.errors import DataError, ModelError
from codebound_networks.reading.loading import load_model
from codebound_papers.arora18.items.arora_networks import Study
from codebound_papers.journal import Journal
from codebound_papers.measure.tails import estimate_tail
from codebound_papers.reproduce.items import Settings
from codebound_papers.shin21.items.figure3 import _NETWORKS, _sentences, shin_figure3
from codebound_papers.shin21.items.layer_tails import shin_layers, shin_synthetic
from codebound_papers.shin21.items.shin_networks import (
    FILES,
    NamedNetwork,
    images_for,
    last_dense,
    last_layer,
    last_layer_obstacle,
    load,
    obstacle,
    published,
    read_checkpoint,
    read_svhn,
)
from codebound_papers.shin21.items.spectrum_figures import shin_figure1, shin_figure2
from codebound_papers.shin21.items.table1 import _PUBLISHED, shin_table1

pytestmark = pytest.mark.usefixtures("tiny_networks")


@pytest.fixture(scope="module")
def table():
    return shin_table1(Settings(size="tiny"))


@pytest.fixture(scope="module")
def figure3():
    return shin_figure3(Settings(size="tiny"))


def test_densities_are_those_of_another_library():
    points = shin_figure1(Settings(size="tiny")).points["density"]
    for row in points:
        expected = stats.levy_stable.pdf(row["x"], row["alpha"], 0.0)
        assert row["density"] == pytest.approx(expected, rel=1e-6)
    assert {row["alpha"] for row in points} == {1.9, 1.5, 1.0, 0.5}


def test_the_range_has_the_percentiles_1_and_99_of_the_widest_law_that_is_nearly_gaussian():
    points = shin_figure1(Settings(size="tiny")).points["density"]
    ends = {row["x"] for row in points}
    assert max(ends) == pytest.approx(stats.levy_stable.ppf(0.99, 1.9, 0.0), rel=1e-6)
    assert min(ends) == -max(ends)


def test_the_released_curve_is_below_what_it_should_bound():
    cells = Journal()
    (rows,) = shin_figure2(Settings(size="quick", cells=cells)).tables.values()
    released = {(row["alpha"], row["i"]): round(row["released"], 4) for row in rows}
    assert released[0.5, 0] == 0.0218
    assert released[1.0, 0] == 0.0101
    grid = cells.get("grid", dict)["rows"]
    assert len(grid) == 2500
    assert any(row["released"] < 0.1 * row["exact"] for row in grid)
    assert all(row["chernoff"] >= row["exact"] - 1e-9 for row in grid)


def test_every_network_of_the_table_is_run_or_has_a_reason(table):
    rows = {row["network"]: row for row in table.tables["Not run"]}
    assert list(rows)[:12] == list(_PUBLISHED)
    for name, (alpha, original, *_) in _PUBLISHED.items():
        reason = "test_32x32.mat of SVHN is not in" if name.endswith("svhn") else "pytorchcv is not installed"
        assert rows[name]["why"].startswith(reason)
        assert (rows[name]["published_alpha"], rows[name]["published_original"]) == (alpha, original)
    assert all("CODEBOUND_MODELS" in rows[subject.name]["why"] for subject in FILES)
    assert rows["resnet20, other weights"]["published_redrawn"] == 89.19


def test_accuracies_are_those_of_the_trained_networks(table):
    rows = table.points["networks"]
    assert [row["weights"] for row in rows] == ["this run"] * 4
    for row, shown in zip(rows, next(iter(table.tables.values())), strict=True):
        assert 0.0 <= row["redrawn"] <= 100.0
        assert shown["redrawn"] == f"{row['redrawn']:.2f} ± {row['deviation']:.2f}"
        assert shown["published_redrawn"] is None
        assert row["alpha_positive"] > 1.0
        assert row["verdict_absolute"] in {"power law", "no power law", "undecided"}


def test_published_exponents_stand_beside_gaussian_layers_of_their_size(table):
    rows = {
        row["network"]: row
        for row in table.tables["Published exponents beside Gaussian layers of the same size"]
    }
    assert {name: row["weights"] for name, row in rows.items() if row["weights"] != 640} == {
        "densenet40_k12_cifar10": 2560,
        "resnet164bn_cifar10": 2560,
        "resnet272bn_cifar10": 2560,
        "densenet40_k12_svhn": 2560,
        "xdensenet40_2_k24_bc_svhn": 2640,
    }
    assert rows["densenet40_k12_svhn"]["share of Gaussian layers up to it"] == 0.0
    larger = sorted(rows.values(), key=lambda row: row["share of Gaussian layers up to it"])[-2:]
    assert {row["published_alpha"] for row in larger} <= {4.65, 3.64, 3.34, 3.22}


@pytest.mark.thorough
def test_a_checkpoint_alone_gives_the_last_layer(tmp_path):
    weights = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    state = {
        "features.conv.weight": torch.zeros(4, 3, 3, 3),
        "output.weight": weights,
        "output.bias": weights[:, 0],
    }
    torch.save(state, tmp_path / "resnet20_cifar10-0597-9b0024ac.pth")
    settings = Settings(size="tiny", models=tmp_path)
    there, absent = published(["resnet20_cifar10", "resnet20_svhn"])
    assert last_layer_obstacle(there, settings) == ""
    assert "pytorchcv" in last_layer_obstacle(absent, settings)
    assert "pytorchcv" in obstacle(there, settings)  # accuracies need the network itself
    sigma = np.linalg.svd(weights.double().numpy(), compute_uv=False)
    assert last_layer(there, settings)["stable_rank"] == pytest.approx((sigma**2).sum() / sigma[0] ** 2)
    figure = shin_figure3(settings)
    assert figure.tables["Last layers"][0]["network"] == "resnet20_cifar10"


def test_what_is_no_checkpoint_is_refused(tmp_path):
    class Runs:
        def __reduce__(self):
            return (print, ("run",))

    for name, content in (("text.pth", None), ("code.pth", Runs()), ("list.pth", [1, 2])):
        path = tmp_path / name
        if content is None:
            path.write_text("no checkpoint")
        else:
            torch.save(content, path)
        with pytest.raises(ModelError, match=name):
            read_checkpoint(path)
    torch.save({"conv.weight": torch.zeros(2, 2, 3, 3)}, tmp_path / "conv.pth")
    with pytest.raises(ModelError, match="no dense layer"):
        last_dense(tmp_path / "conv.pth")


def test_svhn_is_read_with_channels_first_and_digits_as_labels(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (32, 32, 3, 7), dtype=np.uint8)
    y = np.array([[1], [10], [3], [9], [10], [2], [5]], dtype=np.uint8)
    path = tmp_path / "test_32x32.mat"
    io.savemat(path, {"X": x, "y": y, "note": "text"})
    found = read_svhn(path)
    assert found.y.tolist() == [1, 0, 3, 9, 0, 2, 5]
    assert np.array_equal(found.x, x.transpose(3, 2, 0, 1))


def test_damaged_files_of_svhn_are_refused(tmp_path):
    path = tmp_path / "test_32x32.mat"
    io.savemat(path, {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [11]], np.uint8)})
    with pytest.raises(DataError, match="no file of SVHN"):
        read_svhn(path)
    whole = path.read_bytes()
    for content, why in ((whole[:3000], "damaged"), (b"text", "no MATLAB file"), (whole[:128], "lacks")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=why):
            read_svhn(path)


def test_figure_3_lists_the_released_networks_once():
    names = [subject.name for subject in _NETWORKS]
    assert len(names) == len(set(names)) == 41


def test_figure_3_has_both_ranks_and_both_fits(figure3):
    rows, fits = figure3.tables["Last layers"], figure3.tables["Mixtures of two lines"]
    assert len(rows) == 4
    assert [(fit["of"], fit["algorithm"].split(",")[0]) for fit in fits] == [
        ("released_stable_rank", "as released"),
        ("released_stable_rank", "expectation-maximisation"),
        ("stable_rank", "as released"),
        ("stable_rank", "expectation-maximisation"),
    ]
    assert {row["reason"] for row in figure3.tables["Not run"]} == {
        "pytorchcv is not installed",
        "no folder of pretrained networks was given (models, or CODEBOUND_MODELS)",
    }


def test_both_ranks_are_those_of_the_singular_values():
    subject = NamedNetwork(name="own", data="made-up", spec="mlp:depth=2,width=32", config=_tiny_config())
    matrix = load(subject, Settings(size="tiny")).layers[-1].matrix.detach().double().numpy()
    sigma = np.linalg.svd(matrix, compute_uv=False)
    found = last_layer(subject, Settings(size="tiny"))
    assert found["stable_rank"] == pytest.approx((sigma**2).sum() / sigma[0] ** 2)
    assert found["released_stable_rank"] == pytest.approx((sigma**2).sum() / sigma[0] ** 4)
    assert found["shape"] == "10 x 32"


def _tiny_config():
    from codebound_papers.shin21.items.shin_networks import own

    return own("tiny")[0].config


def test_networks_in_files_are_read_and_normalised_as_they_were_trained(tmp_path):
    from safetensors.torch import save_file

    model = load_model("resnet20", input_shape=(3, 32, 32), classes=10, seed=1)
    save_file(model.state_dict(), tmp_path / "resnet20_cifar10.safetensors")
    settings = Settings(size="tiny", models=tmp_path)
    first, second = FILES
    assert obstacle(first, settings) == ""
    assert "resnet56_cifar10.safetensors is not in" in obstacle(second, settings)
    assert torch.equal(load(first, settings).layers[-1].weight, model.linear.weight)


def test_networks_of_the_other_project_are_asked_for_by_name(monkeypatch):
    asked = []

    def get_model(name, *, pretrained):
        asked.append((name, pretrained))
        if name == "resnet56_cifar10":
            raise OSError("no route to host")
        return load_model("resnet20", input_shape=(3, 32, 32), classes=10)

    package, provider = types.ModuleType("pytorchcv"), types.ModuleType("pytorchcv.model_provider")
    provider.get_model = get_model
    package.__spec__ = types.SimpleNamespace(name="pytorchcv")
    monkeypatch.setitem(sys.modules, "pytorchcv", package)
    monkeypatch.setitem(sys.modules, "pytorchcv.model_provider", provider)
    there, absent = published(["resnet20_cifar10", "resnet56_cifar10"])
    assert obstacle(there, Settings()) == ""
    assert load(there, Settings()).layers[-1].matrix.shape == (10, 64)
    with pytest.raises(ModelError, match="does not give resnet56_cifar10: OSError: no route to host"):
        load(absent, Settings())
    assert asked == [("resnet20_cifar10", True), ("resnet56_cifar10", True)]


def test_images_are_scaled_as_each_network_was_trained(monkeypatch):
    from codebound_papers.reproduce.training import make_samples
    from codebound_papers.shin21.items import shin_networks

    cifar = make_samples((3, 4, 4), n=20).train
    monkeypatch.setattr(shin_networks, "load_sample", lambda name, role: cifar)
    theirs, (ours, _) = published(["resnet20_cifar10"])[0], FILES
    assert images_for(ours).scaling.mean == (0.485, 0.456, 0.406)
    assert images_for(theirs).scaling.std == (63.0 / 255, 62.1 / 255, 66.7 / 255)


def test_a_finished_part_needs_no_network(tmp_path):
    path = tmp_path / "cells.json"
    name = "last layer resnet20_cifar10"
    value = last_layer(
        NamedNetwork(name="x", data="made-up", spec="mlp:width=8", config=_tiny_config()),
        Settings(size="tiny"),
    )
    Journal(path).get(name, lambda: value)
    found = shin_figure3(Settings(size="tiny", cells=Journal(path)))
    assert found.tables["Last layers"][0]["network"] == "resnet20_cifar10"


def test_stable_ranks_of_synthetic_matrices_are_those_of_another_library():
    found = shin_synthetic(Settings(size="tiny"))
    (rows,) = found.tables.values()
    ranks = [row["stable rank"] for row in rows[:-1]]
    assert ranks == sorted(ranks)
    assert 1.0 <= ranks[0] < 1.5
    rng = np.random.default_rng(0)
    for row in (rows[2], rows[-1]):
        alpha, expected = row["tail exponent"], []
        for _ in range(200):
            sizes = rng.pareto(alpha, (10, 64)) + 1.0 if alpha else np.abs(rng.standard_normal((10, 64)))
            s = np.linalg.svd(sizes * rng.choice([-1.0, 1.0], (10, 64)), compute_uv=False)
            expected.append((s**2).sum() / s[0] ** 2)
        error = np.std(expected) * np.sqrt(1 / 200 + 1 / 20)
        assert abs(row["stable rank"] - np.mean(expected)) < 4.5 * error


@pytest.mark.thorough
def test_tails_of_every_layer_are_followed_over_the_training():
    found = shin_layers(Settings(size="tiny"))
    rows = found.points["epochs"]
    assert sorted({row["epoch"] for row in rows}) == [0, 2, 4]
    (ends,) = found.tables.values()
    assert [row["layer"] for row in ends] == ["conv1", "conv2", "linear1", "linear2", "linear3"]
    model = Study(Settings(size="tiny")).vgg19.network.model
    weight = model.conv1.weight.detach().flatten(1).double().numpy()
    assert ends[0]["alpha of entries"] == estimate_tail(np.abs(weight[weight != 0])).density_exponent
    values = np.linalg.svd(weight, compute_uv=False) ** 2
    assert ends[0]["eigenvalues: alpha"] == pytest.approx(estimate_tail(values).density_exponent, rel=1e-4)


def clouds(*, offset, count=8, slope=0.0):
    """Last layers of networks on two datasets, whose alphas and ranks differ by an offset."""
    rng = np.random.default_rng(0)
    return [
        {
            "network": f"net{i} on {data}",
            "source": "this run",
            "alpha_positive": far + rng.normal(),
            "stable_rank": far + slope * i + rng.normal(),
            "released_stable_rank": rng.random(),
            "verdict_positive": "undecided",
        }
        for data, far in (("mnist", offset), ("fashion-mnist", 0.0))
        for i in range(count)
    ]


def test_figure_3_is_open_without_a_published_network_however_large_the_correlation():
    rows = clouds(offset=20.0)
    first = next(_sentences(rows, [], Settings(size="full")))
    assert first.startswith("Open (0 of the 41 published networks are among these)")
    assert "the correlation of the stable rank with alpha is 0.9" in first
    found = stats.pearsonr(*([row[key] for row in rows[:8]] for key in ("alpha_positive", "stable_rank")))
    assert f"{found.statistic:.2f} on mnist" in first


def test_figure_3_asks_for_the_correlation_within_every_dataset():
    """Two clouds that lie apart are a difference of datasets."""
    for slope, word in ((20.0, "We agree:"), (-20.0, "Open (16 of the 41 published")):
        rows = [{**row, "source": "pytorchcv"} for row in clouds(offset=20.0, slope=slope)]
        for i, row in enumerate(rows):
            row["alpha_positive"] += 20.0 * (i % 8)
        first = next(_sentences(rows, [], Settings(size="full")))
        assert first.startswith(word)
