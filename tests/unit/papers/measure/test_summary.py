"""All measures as rows: they agree with dense algebra and say what is missing and why."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from worlds.networks import mlp

from codebound.run.errors import ModelError, UsageError
from codebound.sample.dataset import Sample
from codebound_networks.reading.walk import wrap
from codebound_papers.measure.noise.quantities import StabilitySettings
from codebound_papers.measure.record import MeasureSettings
from codebound_papers.measure.steps import FoldedNetwork
from codebound_papers.measure.summary import FAMILIES, summarise, survival

QUICK = StabilitySettings()


class Residual(nn.Module):
    """A convolution with batch norm, and a block with a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.inner = nn.Conv2d(4, 4, 3, padding=1)
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = torch.relu(self.inner(x) + x)
        return self.head(self.pool(x).flatten(1))


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.again, self.head = nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x):
        x = x.flatten(1)
        return self.head(torch.relu(self.again(torch.relu(self.again(x)))))


class Untraceable(Shared):
    def forward(self, x):
        x = x.flatten(1)
        return self.head(self.again(x) if x.sum() > 0 else x)


def few_images() -> Sample:
    stream = np.random.default_rng(0)
    x = stream.random((12, 1, 4, 4), dtype=np.float32)
    return Sample("random", "train", x, stream.integers(3, size=12), 3)


@pytest.fixture(autouse=True)
def _fixed_weights():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def two_layers() -> nn.Sequential:
    return mlp(16, 60, 3, flat=True, seed=None)


def test_norms_and_margins_are_those_of_the_dense_matrices():
    model, data = two_layers(), few_images()
    found = summarise(model, data, MeasureSettings(families=("spectra", "margins")))
    for row, layer in zip(found.layers, (model[1], model[3]), strict=True):
        values = np.linalg.svd(layer.weight.detach().numpy().astype(float), compute_uv=False)
        assert row["spectral_norm"]["value"] == pytest.approx(values[0], rel=1e-9)
        assert row["spectral_norm"]["upper"] >= values[0]
        assert row["frobenius_norm"] == pytest.approx(np.sqrt((values**2).sum()), rel=1e-9)
        assert row["stable_rank"] == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-9)
        assert row["layer_cushion"] is None
    with torch.no_grad():
        scores = model.double()(torch.from_numpy(data.x).double()).numpy()
    right = scores[np.arange(12), data.y]
    scores[np.arange(12), data.y] = -np.inf
    margins = right - scores.max(axis=1)
    assert found.margins["errors"] == int((margins <= 0).sum())
    assert found.margins["min"] == pytest.approx(margins.min())
    assert found.margins["max"] == pytest.approx(margins.max())
    assert sum(found.curves["margins"]["counts"]) == 12


def test_layer_cushions_are_those_of_the_definition():
    """``||A x|| / (||A||_F ||x||)`` without biases, example by example."""
    model, data = nn.Sequential(nn.Flatten(), nn.Linear(16, 3, bias=False)), few_images()
    (row,) = summarise(model, data, MeasureSettings(families=("stability",), stability=QUICK)).layers
    x = data.x.reshape(12, 16).astype(float)
    weight = model[1].weight.detach().numpy().astype(float)
    cushions = np.linalg.norm(x @ weight.T, axis=1) / (np.linalg.norm(weight) * np.linalg.norm(x, axis=1))
    assert row["layer_cushion"]["min"] == pytest.approx(cushions.min(), rel=1e-5)
    assert row["layer_cushion"]["max"] == pytest.approx(cushions.max(), rel=1e-5)
    assert row["layer_cushion"]["quantiles"]["0.5"] == pytest.approx(np.sort(cushions)[5], rel=1e-5)
    assert row["stable_rank"] is None


def test_a_residual_network_has_all_its_layers_and_names_what_is_missing():
    model = Residual()
    model.norm.running_var.fill_(0.25)
    found = summarise(model, few_images(), MeasureSettings(families=FAMILIES, resamples=20))
    rows = {row["name"]: row for row in found.layers}
    assert list(rows) == ["stem", "inner", "add", "head"]
    assert [row["kind"] for row in rows.values()] == ["convolution", "convolution", "sum", "linear"]
    assert len({tuple(row) for row in rows.values()}) == 1
    folded = model.stem.weight.detach() * 2.0  # 1 / sqrt(0.25)
    assert rows["stem"]["frobenius_norm"] == pytest.approx(float(folded.norm()), rel=1e-4)
    assert rows["inner"]["interlayer_cushion"] is None
    assert rows["add"]["interlayer_cushion"]["to"].keys() == {"head"}
    assert rows["add"]["shape"] is None
    missing = {(row["layer"], row["quantity"]): row["reason"] for row in found.not_measured}
    assert "beside another branch" in missing["inner", "interlayer cushion, smoothness"]
    assert "folded" in found.notes[0]
    assert found.network["n"] == 12
    smoothness = found.curves["layers"]["stem"]["interlayer_smoothness"]
    assert sum(smoothness["counts"]) == 12 * 5  # one value for each noise
    assert np.allclose(np.diff(np.log(smoothness["edges"]), n=2), 0.0)
    assert sum(found.curves["layers"]["stem"]["layer_cushion"]["counts"]) == 12
    json.dumps([found.record(), found.curves], allow_nan=False)


def test_a_layer_that_is_called_again_has_a_row_for_each_call():
    found = summarise(
        Shared(), few_images(), MeasureSettings(families=("spectra", "stability"), stability=QUICK)
    )
    rows = {row["name"]: row for row in found.layers}
    assert list(rows) == ["again", "again (call 1)", "again (call 2)", "head"]
    assert rows["again"]["stable_rank"] is not None
    assert rows["again"]["layer_cushion"] is None
    assert rows["again (call 2)"]["stable_rank"] is None
    assert rows["again (call 2)"]["layer_cushion"]["min"] > 0.0


def test_tensors_without_a_matrix_are_listed():
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.LayerNorm(4), nn.Linear(4, 3))
    found = summarise(model, few_images(), MeasureSettings(families=("spectra",)))
    assert [(row["layer"], row["reason"]) for row in found.not_measured] == [
        ("2.weight", "a LayerNorm has no weight matrix"),
        ("2.bias", "a LayerNorm has no weight matrix"),
    ]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Untraceable, "torch.fx cannot trace Untraceable"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.Sigmoid(), nn.Linear(3, 3)), "homogeneous"),
    ],
)
def test_a_family_that_is_refused_leaves_the_others(model, reason):
    families = ("spectra", "stability")
    found = summarise(model(), few_images(), MeasureSettings(families=families, stability=QUICK))
    assert found.network is None
    (missing,) = found.not_measured
    assert (missing["layer"], missing["quantity"]) == ("all", "noise stability")
    assert reason in missing["reason"]
    assert all(row["stable_rank"] > 0.0 for row in found.layers)
    with pytest.raises((ModelError, UsageError), match=reason):
        summarise(model(), few_images(), MeasureSettings(families=("stability",), stability=QUICK))


def test_a_layer_of_zeros_has_no_tail():
    model = two_layers()
    nn.init.zeros_(model[3].weight)
    found = summarise(model, few_images(), MeasureSettings(families=("tails",), resamples=20))
    assert found.layers[1]["alpha"] is None
    assert found.not_measured[0]["layer"] == "3"


def test_a_refused_tail_keeps_its_reason_and_its_numbers():
    found = summarise(two_layers(), few_images(), MeasureSettings(families=("tails",), resamples=20))
    alpha = found.layers[1]["alpha"]
    assert alpha["status"] == "undecided"
    assert alpha["tail_exponent"] == pytest.approx(alpha["density_exponent"] - 1.0)
    assert alpha["reason"].endswith("fewer than 50")
    tail = found.curves["layers"]["3"]["survival"]["tail"]
    slope = np.log(tail["share"][1] / tail["share"][0]) / np.log(tail["x"][1] / tail["x"][0])
    assert slope == pytest.approx(-alpha["tail_exponent"])


def test_the_initial_network_gives_distances():
    model, before = two_layers(), two_layers()
    plan = MeasureSettings(families=("stability",), stability=StabilitySettings(biases="separate"))
    (first, _) = summarise(model, few_images(), plan, initial=before).layers
    distance = float((model[1].weight - before[1].weight).detach().norm())
    assert first["distance_from_initial"] == pytest.approx(distance, rel=1e-5)
    scale = float(model[1].weight.detach().norm()) / distance
    assert first["distance_cushion"] == pytest.approx(first["layer_cushion"]["min"] * scale, rel=1e-5)


@pytest.mark.thorough
def test_the_network_is_left_alone_and_the_result_is_the_same_again():
    model = Residual().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    settings = MeasureSettings(families=FAMILIES, resamples=20, chunk_size=5)
    first, second = (summarise(model, few_images(), settings) for _ in range(2))
    assert model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert first.record() == second.record()
    assert first.curves == second.curves


def test_progress_names_the_families():
    told = []
    plan = MeasureSettings(families=FAMILIES, resamples=20, stability=QUICK)
    summarise(
        two_layers(),
        few_images(),
        plan,
        progress=lambda done, total, note="": told.append((note, done, total)),
    )
    assert {note.split(" of ")[0] for note, *_ in told} == {
        "margins",
        "spectra",
        "tail",
        "tails",
        "noise stability",
    }
    assert all(done <= total for _, done, total in told)


def test_workload_counts_every_product_of_a_weight():
    conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    found = FoldedNetwork(wrap(conv), torch.zeros(1, 1, 4, 4)).workload
    assert (found.multiplications, found.widest, found.outputs) == (4 * 9 * 4 + 48, 16, 3)
    assert found.examples == 1000
    assert found.probes("all") is None


@pytest.mark.thorough
def test_heavy_networks_are_measured_on_fewer_examples_with_probes():
    network = wrap(nn.Sequential(nn.Linear(5000, 4000), nn.Linear(4000, 100)))
    heavy = FoldedNetwork(network, torch.zeros(1, 5000)).workload
    assert heavy.examples == 10**10 // (5000 * 4000 + 4000 * 100)
    assert heavy.probes("all") == heavy.probes("output") == 64


@pytest.mark.parametrize(
    "settings", [{"families": ("spectra", "magic")}, {"families": ()}, {"tails_of": "x"}]
)
def test_unknown_settings_are_refused(settings):
    with pytest.raises(UsageError, match="Got"):
        MeasureSettings(**settings)


@pytest.mark.parametrize("model", [nn.Flatten(), nn.Sequential(nn.Flatten(), nn.LayerNorm(16))])
def test_a_network_without_layers_is_refused(model):
    with pytest.raises(ModelError, match=r"(nothing|no linear or convolutional layer) to measure"):
        summarise(model, few_images())


def test_a_survival_curve_is_short_and_exact_at_its_points():
    values = np.random.default_rng(0).pareto(1.5, size=5000) + 1.0
    curve = survival(values, of="absolute")
    assert len(curve["x"]) <= 200
    for x, share in zip(curve["x"], curve["share"], strict=True):
        assert (values >= x).mean() == pytest.approx(share)
    assert survival(np.zeros(0), of="absolute")["x"] == []
