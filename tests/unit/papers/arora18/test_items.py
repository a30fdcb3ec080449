"""Arora's figures and table at their smallest, against direct computations, and the printed percentages."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from codebound_networks.train.rng import numpy_stream
from codebound_networks.train.updates import shuffle_labels
from codebound_networks.views.fold import fold_batch_norms
from codebound_papers.arora18.items import arora_networks as networks
from codebound_papers.arora18.items.arora_networks import (
    GAUSSIAN_NOISES,
    Study,
    deviations,
)
from codebound_papers.arora18.items.bounds import (
    PUBLISHED,
    _bar_sentences,
    arora_figure2_middle,
    arora_figure2_right,
    arora_table1,
)
from codebound_papers.arora18.items.histograms import (
    arora_figure1,
    arora_figure2_left,
    arora_figure_a1,
    arora_figure_a2,
    arora_figure_a3,
    arora_figure_a5,
    arora_figure_a6,
    arora_figure_a7,
    bins,
    compare_clipping,
    overlay,
)
from codebound_papers.arora18.items.layer_rows import facts_of, gaussian, projection, projection_noise
from codebound_papers.arora18.items.smoothness import arora_figure_a4
from codebound_papers.reproduce.items import Settings, one_line

pytestmark = pytest.mark.usefixtures("tiny_networks")

VGG19 = {
    "cushion": arora_figure_a1,
    "interlayer": arora_figure_a2,
    "contraction": arora_figure_a3,
    "smoothness": arora_figure_a4,
    "spread": arora_figure_a5,
}


@pytest.fixture(scope="module")
def study():
    return Study(Settings(size="tiny"))


@pytest.fixture(scope="module")
def outputs(study):
    """Inputs and outputs of every layer of the trained network on the measured examples, as arrays."""
    model, seen = study.vgg19.network.model, {}

    def keep(name):
        return lambda module, inputs, output: seen.update({name: (module, inputs[0], output)})

    hooks = [module.register_forward_hook(keep(name)) for name, module in model.named_modules() if name]
    train = study.samples.train
    order = numpy_stream(0, "measured examples").permutation(train.n)[: study.sized.measuring.examples]
    with torch.no_grad():
        model(train.scaling.apply(torch.from_numpy(train.x[sorted(order)])))
    for hook in hooks:
        hook.remove()
    return seen


def lengths(x):
    return np.linalg.norm(x.flatten(1).double().numpy(), axis=1)


@pytest.mark.parametrize(  # to three digits, computed apart from the two columns before
    ("number", "percent"),
    [(1, 95.189), (4, 437.184), (6, 586.257), (9, 3.130), (12, 0.964), (15, 1.127), (18, 1.927)],
)
def test_the_printed_percentages_are_those_of_the_columns_before_cut_off(number, percent):
    value, weights, printed = PUBLISHED[number]
    assert 100.0 * value / weights == pytest.approx(percent, abs=5e-4)
    digits = 10 ** len(str(printed).split(".")[1])
    assert math.floor(100.0 * value / weights * digits) / digits == printed


def test_cushions_leave_biases_out_as_the_published_definition(outputs):
    rows = arora_figure_a1(Settings(size="tiny")).tables["Layer cushion, over training images"]
    assert [row["layer"] for row in rows] == ["conv1", "conv2", "linear1", "linear2", "linear3"]
    for row in rows:
        module, x, y = outputs[row["layer"]]
        bias = module.bias.detach().view(-1, *[1] * (y.dim() - 2))
        expected = lengths(y - bias) / (float(module.weight.detach().double().norm()) * lengths(x))
        assert row["smallest"] == pytest.approx(expected.min(), rel=1e-4)
        assert row["largest"] == pytest.approx(expected.max(), rel=1e-4)


def test_contraction_is_that_of_the_activation(outputs):
    rows = arora_figure_a3(Settings(size="tiny")).tables["Activation contraction, over training images"]
    by_layer = {row["layer"]: row for row in rows}
    assert "linear3" not in by_layer  # the output has no activation (A-E24)
    for layer in ("linear1", "linear2"):
        before = lengths(outputs[layer][2])
        after = lengths(outputs[layer][2].clamp(min=0.0))
        assert by_layer[layer]["largest"] == pytest.approx((before / after).max(), rel=1e-4)


def test_interlayer_cushions_are_those_of_the_jacobian(study, outputs):
    """From the layer before the last to the output, where everything between is one product."""
    rows = arora_figure_a2(Settings(size="tiny")).tables[
        "Interlayer cushion (not clipped), over training images"
    ]
    (row,) = (row for row in rows if row["layer"] == "linear2")
    weight = study.vgg19.network.model.linear3.weight.detach().double()
    x = outputs["linear2"][2].double()
    found = []
    for example in x:
        jacobian = weight * (example > 0)
        found.append(float((jacobian @ example).norm() / (jacobian.norm() * example.norm())))
    assert row["smallest"] == pytest.approx(min(found), rel=1e-4)
    assert row["largest"] == pytest.approx(max(found), rel=1e-4)


@pytest.mark.parametrize("quantity", VGG19)
def test_histograms_count_every_example_once(study, quantity):
    points = VGG19[quantity](Settings(size="tiny")).points["histograms"]
    measuring = study.sized.measuring
    smooth = quantity == "smoothness"
    expected = measuring.noisy * measuring.draws if smooth else measuring.examples
    shown = {(point["network"], point["layer"]) for point in points}
    assert len({layer for _, layer in shown}) == {"cushion": 5, "spread": 2}.get(quantity, 4)
    for pair in shown:
        counts = [point["examples"] for point in points if (point["network"], point["layer"]) == pair]
        assert sum(counts) == expected or (smooth and sum(counts) < expected)  # infinite ones are not drawn


def test_figure_1_compares_a_trained_network_with_its_start(study):
    found = arora_figure1(Settings(size="tiny"))
    rows, _ = found.tables.values()
    assert [row["network"] for row in rows] == ["trained", "random"] * 4
    trained, random = (row["smallest"] for row in rows[:2])
    assert trained != random
    start = study.vgg19.start.linear1.weight
    assert not torch.equal(start, study.vgg19.network.model.linear1.weight.cpu())


def test_the_table_has_the_product_of_its_factors(study):
    network = study.measure_vgg19()
    layers = {layer["number"]: layer for layer in network["layers"]}
    first, second, _ = arora_table1(Settings(size="tiny")).tables.values()
    rows = [{**a, **b} for a, b in zip(first, second, strict=True)]
    assert [row["number"] for row in rows] == [1, 4]
    for row, patch in zip(rows, (3, 1), strict=True):  # a convolution of 3 x 3, and a linear layer
        layer = layers[row["number"]]
        clipped_at = min(1.0 / math.sqrt(layer["width"]), layer["interlayer"]["quantiles"]["0"])
        spread = layer["spread"]["quantiles"]["1"] if "spread" in layer else 1.0
        factors = layer["contraction"]["quantiles"]["1"] * spread * patch
        expected = (factors / (layer["cushion"]["quantiles"]["0"] * clipped_at)) ** 2
        assert row["value"] == pytest.approx(expected, rel=1e-6)
        assert row["percent"] == pytest.approx(100.0 * expected / row["weights"], rel=1e-6)
        assert row["numbers with all factors"] > 72 * 5**2 * row["value"]  # at least 72 d^2 of lemma 3
        assert (row["published_value"], row["published_weights"]) == PUBLISHED[row["number"]][:2]
    start, end = study.vgg19.start, study.vgg19.network.model.cpu()
    for row in rows:
        layer = layers[row["number"]]
        middle = {name: layer[name]["quantiles"]["0.5"] for name in layer if isinstance(layer[name], dict)}
        clipped = min(1.0 / math.sqrt(layer["width"]), middle["interlayer"])
        patch = 1 if row["layer"].startswith("linear") else 3
        factors = middle["contraction"] * middle.get("spread", 1.0) * patch
        expected = (factors / (middle["cushion"] * clipped)) ** 2
        assert row["value, medians"] == pytest.approx(expected, rel=1e-6)
        weights = [model.get_submodule(row["layer"]).weight.detach().double() for model in (start, end)]
        share = float((weights[1] - weights[0]).norm() / weights[1].norm())
        assert row["distance / norm"] == pytest.approx(share, rel=1e-5)
        assert row["value, from the start"] == pytest.approx(share**2 * row["value"], rel=1e-4)


def test_the_margin_leaves_a_tenth_of_the_sample_beside_the_errors(study):
    network = study.measure_vgg19()
    facts = facts_of(network)
    assert facts.margin > 0.0
    assert facts.margin_loss == pytest.approx(
        min(network["train_error"] + 0.1, 0.99), abs=1.5 / facts.examples
    )


def test_bars_are_the_printed_formulas(study):
    bars = {
        row["bar"]: row["log10"]
        for row in arora_figure2_middle(Settings(size="tiny")).tables["Bars, as decimal logarithms"]
    }
    gamma = facts_of(study.measure_vgg19()).margin
    model = fold_batch_norms(study.vgg19.network.model).model
    matrices = [m.weight.detach().double().flatten(1).numpy() for m in model if hasattr(m, "weight")]
    frobenius = sum(2.0 * math.log10(np.linalg.norm(matrix)) for matrix in matrices)
    l1_inf = sum(math.log10(np.abs(matrix).sum(axis=1).max()) for matrix in matrices)
    assert bars["Frobenius (Ney15)"] == pytest.approx(frobenius - 2.0 * math.log10(gamma), abs=1e-5)
    assert bars["l1,inf (BM02)"] == pytest.approx(l1_inf - 2.0 * math.log10(gamma), abs=1e-5)


def test_the_bound_is_rescaled_to_the_mean_of_the_error():
    (rows,) = arora_figure2_right(Settings(size="tiny")).tables.values()
    assert [row["epoch"] for row in rows] == [2, 4]
    errors = [row["test_error"] - row["train_error"] for row in rows]
    assert [row["generalisation_error"] for row in rows] == errors
    assert np.mean([row["rescaled_bound"] for row in rows]) == pytest.approx(np.mean(errors))


@pytest.mark.parametrize(
    ("figure", "layers"),
    [
        (arora_figure2_left, ["linear3", "linear2"]),
        (arora_figure_a6, ["conv1", "conv2", "linear1", "linear2", "linear3"]),
        (arora_figure_a7, ["conv1", "conv2", "linear1", "linear2"]),
    ],
)
def test_labels_are_compared_layer_by_layer(figure, layers):
    found = figure(Settings(size="tiny"))
    rows = found.tables["Over training images"]
    assert [row["layer"] for row in rows] == [layer for layer in layers for _ in range(2)]
    assert [row["network"] for row in rows] == ["true labels", "corrupted labels"] * len(layers)
    assert [row["published_validation"] for row in found.tables["The networks"]] == [77.22, 9.86]


def test_corrupted_labels_are_what_the_second_network_was_trained_on(study):
    network = study.alexnet("corrupted").network.model
    shuffled = shuffle_labels(study.samples.train, 1.0, seed=0)
    with torch.no_grad():
        guesses = network(shuffled.scaling.apply(torch.from_numpy(shuffled.x))).argmax(dim=1).numpy()
    assert np.mean(guesses != shuffled.y) == study.measure_alexnets()["corrupted"]["train_error"]


def test_a_network_is_measured_once_for_all_items(study, monkeypatch):
    study.measure_vgg19()

    def refuse(*_, **__):
        raise AssertionError("measured again")

    monkeypatch.setattr(Study, "measure_layers", refuse)
    assert arora_figure_a4(Settings(size="tiny")).figures
    with pytest.raises(AssertionError, match="measured again"):
        arora_figure_a4(Settings(size="tiny", seed=1))


def test_other_settings_are_named():
    quick, full = (deviations(size, of="vgg19") for size in ("quick", "full"))
    assert "trained on 2000 images" in quick[0]
    assert "50,000" in quick[0]
    assert "bfloat16" in full[0]
    assert any("A-E20" in text for text in full)
    assert not any("Random labels" in text for text in full)


def test_the_settings_for_random_labels_are_named():
    assert not any("Random labels" in text for text in deviations("quick", of="alexnet"))
    (told,) = (text for text in deviations("full", of="alexnet") if text.startswith("Random labels"))
    for part in (
        "alexnet:dropout=0",
        "without weight decay",
        "learning rate 0.01",
        "10.5 % training accuracy",
    ):
        assert part in one_line(told)


def test_one_layer_alone_has_the_values_it_has_among_all(study):
    subject, measuring = study.vgg19.at(0), study.sized.measuring
    (expected,) = (row for row in study.measure_layers(subject, measuring)["layers"] if row["number"] == 2)
    found = study.measure_random_layer(expected["layer"])
    assert {name: found[name] for name in expected} == json.loads(json.dumps(expected))
    (alone,) = (row for row in study.measure_random()["layers"] if row["number"] == 2)
    assert alone["cushion"] == found["cushion"]
    assert found["noise"]["quantiles"]["0"] == pytest.approx(0.1, rel=1e-4)


def test_the_control_differs_from_the_corrupted_run_in_its_labels_alone(study, monkeypatch):
    seen = []
    monkeypatch.setattr(networks, "train", lambda spec, _, config, *__, **___: seen.append((spec, config)))
    full = Study(Settings(size="full"))
    monkeypatch.setattr(Study, "samples", None)
    assert full.labels == ("true", "control", "corrupted")
    assert study.labels == ("true", "corrupted")  # whose settings are the same
    for labels in full.labels:
        full.alexnet(labels)
    true, control, corrupted = seen
    assert control[0] == corrupted[0] != true[0]
    assert replace(control[1], label_shuffle=1.0) == corrupted[1]
    assert control[1].label_shuffle == true[1].label_shuffle == 0.0


def test_the_random_network_beside_the_trained_one_is_its_start(study):
    rows = arora_figure_a1(Settings(size="tiny")).tables["Layer cushion, over training images"]
    start = {row["layer"]: row for row in study.measure_random()["layers"]}
    for row in rows:
        assert row["median, random"] == start[row["layer"]]["cushion"]["quantiles"]["0.5"] != row["median"]


def test_smoothness_is_that_of_each_noise_and_its_power(study):
    noises = study.measure_noises()
    assert len(noises) == 9
    for size in GAUSSIAN_NOISES:
        for row in noises[gaussian(size)]:
            lengths = row["noise"]["quantiles"]
            assert lengths["0"] == pytest.approx(size, rel=1e-3)
            assert lengths["1"] == pytest.approx(size, rel=1e-3)
            least = row["smoothness"]["quantiles"]["0"]
            if least is not None:
                assert row["smoothness_1.5"]["quantiles"]["0"] == pytest.approx(
                    least * math.sqrt(size), rel=1e-3
                )
    by_size = [
        {row["layer"]: row["noise"]["quantiles"]["0.5"] for row in noises[projection(n)]} for n in (1, 100)
    ]
    assert all(by_size[0][layer] > 3.0 * by_size[1][layer] for layer in by_size[0])


def test_the_noise_of_matrix_project_has_its_mean_and_covariance():
    """Against the algorithm written out; an independent entry by entry noise would miss the part along the "
    "matrix."""
    matrix = torch.tensor([[3.0, -1.0, 0.5], [0.25, 2.0, -1.5]], dtype=torch.float64)
    k, draws = 10 * matrix.numel(), 4000
    perturb = projection_noise(10.0)
    drawn = torch.stack([perturb(matrix, seed).flatten() for seed in range(draws)]).numpy()
    squared = float(matrix.square().sum())
    a = matrix.flatten().numpy()
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (draws, k, a.size))
    real = ((signs @ a)[..., None] * signs).mean(axis=1)
    for sample, own in ((drawn, 1.0), (real, -1.0)):  # signs lack twice the own square of an entry
        assert np.abs(sample.mean(axis=0) - a).max() < 5.0 * math.sqrt(2.0 * squared / k / draws)
        expected = (squared * np.eye(6) + np.outer(a, a) + (own - 1.0) * np.diag(a**2)) / k
        assert np.abs(np.cov(sample.T) - expected).max() < 0.1 * squared / k
        along = np.var(sample @ a) / squared
        without = squared / k
        assert along > 1.2 * without


def test_clipped_layers():
    full = Settings(size="full")
    worst = {"a": 0.1, "b": 0.5, "c": 0.4, "d": 0.5}
    layers = [{"layer": name, "clip": 0.5, "minimal_interlayer": value} for name, value in worst.items()]
    assert "We agree in part" in compare_clipping({"layers": layers}, full)
    assert "in 1 of the 2 layers" in compare_clipping({"layers": layers}, full)
    assert compare_clipping({"layers": layers}, full).endswith("below it in c.")
    assert compare_clipping({"layers": [layers[0], layers[1], layers[3]]}, full).endswith("the last.")


def test_a_histogram_is_drawn_as_its_outline():
    histogram = {"n": 4, "scale": "linear", "counts": [1, 3], "edges": [0.0, 1.0, 2.0], "quantiles": {}}
    layer = {"layer": "fc", "cushion": histogram}
    (series,) = overlay("fc", "cushion", {"net": layer}).series
    assert list(zip(series.x, series.y, strict=True)) == [
        (0.0, 0.0), (0.0, 0.25), (1.0, 0.25), (1.0, 0.75), (2.0, 0.75), (2.0, 0.0),
    ]  # fmt: skip
    (first, second) = bins([("cushion", {"net": layer})])
    assert (first["examples"], second["from"], second["to"]) == (1, 1.0, 2.0)


def test_the_bars_of_figure_2_are_judged_at_the_worst_examples(study):
    """Medians below the older bounds do not help; a missing order of magnitude is spread over the layers."""
    facts = replace(facts_of(study.measure_vgg19()), examples=50_000)
    bars = [
        {"bar": "spectral l1,2 (Bartlett17)", "kind": "older", "log10": 8.8},
        {"bar": "Parameters", "kind": "parameters", "log10": 7.3},
        {"bar": "worst", "kind": "noise stability", "log10": 11.4},
        {"bar": "medians", "kind": "noise stability", "log10": 5.0},
    ]
    lower, why, fewer, _ = map(one_line, _bar_sentences(bars, facts, Settings(size="full")))
    assert lower.startswith("We do not agree:")
    assert "10^2.6" in lower
    assert fewer.startswith("We do not agree:")
    factor = 10.0 ** (6.2 / (2 * len(facts.layers)))
    assert f"a factor of {factor:.2f} in each layer" in why
    bars[2]["log10"] = 7.0
    assert all(
        each.startswith("We agree:")
        for each in list(map(one_line, _bar_sentences(bars, facts, Settings(size="full"))))[::2]
    )
