"""Facts of a network: against norms taken another way, and refusals where a quantity has no meaning."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from worlds.networks import Skipping, mlp
from worlds.samples import noise_images

from codebound.run.errors import ModelError, UsageError
from codebound.sample.dataset import Sample
from codebound_networks.reading.loading import load_model
from codebound_networks.views import graphs
from codebound_papers.guha23.kappa import prune_for_margin
from codebound_papers.measure import norms
from codebound_papers.measure.record import MeasureSettings, measure_facts
from codebound_papers.published import Evidence

PLAN = MeasureSettings(examples=20)


def images(n: int = 60) -> Sample:
    return noise_images(n, shape=(1, 6, 6), classes=3)


def two_layers(bias: bool = True) -> nn.Sequential:
    return mlp(36, 12, 3, bias=bias, flat=True)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.same, self.last = nn.Linear(36, 36), nn.Linear(36, 3)

    def forward(self, x):
        return self.last(self.same(self.same(x.flatten(1)).relu()).relu())


def test_measure_facts_agrees_with_norms_taken_another_way():
    net, data = two_layers(), images()
    facts = measure_facts(net, data, PLAN).facts
    for layer, module in zip(facts.layers, (net[1], net[3]), strict=True):
        weight = module.weight.detach().double().numpy()
        assert (layer.rows, layer.columns) == weight.shape
        assert layer.frobenius == pytest.approx(np.linalg.norm(weight))
        assert layer.spectral == pytest.approx(np.linalg.norm(weight, 2))
        assert layer.operator_norm == layer.spectral
        assert layer.l1_inf == pytest.approx(np.abs(weight).sum(axis=1).max())
        assert layer.l2_1 == pytest.approx(np.linalg.norm(weight, axis=1).sum())
        assert layer.variance == pytest.approx(weight.var())
        assert layer.patch is None
        assert layer.spread is None
    with torch.no_grad():
        outputs = net(torch.from_numpy(data.x)).double().numpy()
    margins = np.sort([v[y] - max(np.delete(v, y)) for v, y in zip(outputs, data.y, strict=True)])
    assert facts.margin == pytest.approx(margins[2])  # 5 % of 60 are 3
    assert facts.margin_loss == 3 / 60
    assert facts.largest_output == pytest.approx(np.linalg.norm(outputs, axis=1).max())
    assert facts.input_norm == pytest.approx(np.linalg.norm(data.x.reshape(60, -1), axis=1).max())
    assert (facts.input_size, facts.examples, facts.classes) == (36, 60, 3)
    assert facts.parameters == sum(parameter.numel() for parameter in net.parameters())


def test_cushions_follow_their_definition_without_biases():
    net, data = two_layers(bias=False), images(n=15)
    facts = measure_facts(net, data, MeasureSettings(examples=15)).facts
    x = torch.from_numpy(data.x).flatten(1)
    with torch.no_grad():
        first = net[1](x)
        hidden = first.relu()
        last = net[3](hidden)
        norm = torch.linalg.vector_norm
        cushions = [
            norm(first, dim=1) / norm(net[1].weight) / norm(x, dim=1),
            norm(last, dim=1) / norm(net[3].weight) / norm(hidden, dim=1),
        ]
    assert facts.layers[0].cushion == pytest.approx(float(cushions[0].min()), rel=1e-4)
    assert facts.layers[1].cushion == pytest.approx(float(cushions[1].min()), rel=1e-4)
    assert facts.layers[1].interlayer_cushion == pytest.approx(1.0 / math.sqrt(3.0), rel=1e-4)
    contraction = float((norm(first, dim=1) / norm(hidden, dim=1)).max())
    assert facts.layers[0].contraction == pytest.approx(contraction, rel=1e-4)
    assert facts.layers[1].contraction is None
    assert facts.smoothness is not None


def test_a_convolution_is_its_filter_matrix_and_has_the_norm_of_its_map_too():
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, stride=2), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    ).eval()
    measured = measure_facts(net, images(), PLAN)
    conv = measured.facts.layers[0]
    assert (conv.rows, conv.columns, conv.patch) == (2, 9, 2)
    assert conv.operator_norm > conv.spectral
    assert conv.spread is not None
    assert "folded" in measured.notes[0]
    folded = (net[0].weight / torch.sqrt(torch.tensor(1.0 + net[1].eps))).flatten(1)
    assert conv.frobenius == pytest.approx(float(folded.detach().norm()), rel=1e-5)


def test_a_subset_is_measured_alone_and_says_what_it_lacks():
    found = measure_facts(two_layers(), images(), MeasureSettings(families=("margins",)))
    assert found.margins.n == 60
    assert (found.norms, found.spectra, found.tails, found.stability) == ((), {}, {}, None)
    with pytest.raises(UsageError, match="norms were not measured"):
        _ = found.facts
    found = measure_facts(two_layers(), images(), MeasureSettings(families=("margins", "norms")))
    assert found.facts.layers[0].cushion is None
    with pytest.raises(ModelError, match="nobody asked"):
        Evidence(found).facts("stability")


def test_a_network_is_folded_wrapped_and_traced_once_for_everything(monkeypatch):
    traced = []
    original = graphs.trace

    def trace(predictor):
        traced.append(predictor)
        return original(predictor)

    monkeypatch.setattr(graphs, "trace", trace)
    every = ("margins", "norms", "maps", "spectra", "tails", "stability")
    found = measure_facts(two_layers(), images(), MeasureSettings(families=every, examples=20, resamples=20))
    assert len(traced) == 1
    assert found.stability is not None
    assert found.facts.smoothness == found.stability.noisy.smoothness
    again = measure_facts(found.network, images(), PLAN)
    assert len(traced) == 1
    assert again.network is found.network
    assert again.facts == found.facts


OBSTACLES = {
    "a residual network": (lambda: Skipping(36, 3), "no chain"),
    "a layer that is called twice": (Twice, "more than once"),
    "a smooth activation": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.GELU(), nn.Linear(5, 3)), "homogeneous",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_is_no_chain_has_a_reason_in_place_of_facts(name):
    build, reason = OBSTACLES[name]
    measured = measure_facts(build(), images(), PLAN)
    assert reason in measured.obstacle
    for kind in ("chain", "least margin", "stability", "distance", "without outliers"):
        with pytest.raises(ModelError, match=reason):
            Evidence(measured).facts(kind)
    assert measured.stability is None
    assert measured.facts.layers[0].frobenius > 0.0  # what has a meaning is measured all the same


def test_steps_that_lengthen_differences_are_named_and_gamma_is_always_said():
    overlapping = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(3, stride=1), nn.Flatten(), nn.Linear(8, 3))
    notes = " ".join(measure_facts(overlapping, images(), PLAN).notes)
    assert "lengthen a difference: 1 (pooling, by up to 3)" in notes
    plain = measure_facts(two_layers(), images(), PLAN)
    assert not any("lengthen" in note for note in plain.notes)
    smooth = nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.GELU(), nn.Linear(5, 3))
    for measured in (plain, measure_facts(smooth, images(), PLAN)):
        assert any("3 of 60 examples" in note for note in measured.notes)


def test_outliers_and_initial_weights_change_the_cushions():
    net, data = two_layers(), images()
    initial = two_layers()
    with torch.no_grad():
        for parameter in initial.parameters():
            parameter.mul_(0.9)
    measured = measure_facts(net, data, PLAN, initial=initial)
    kinds = ("stability", "without outliers", "distance")
    plain, trimmed, relative = (Evidence(measured).facts(kind).layers[0].cushion for kind in kinds)
    assert trimmed >= plain
    assert relative > plain
    with pytest.raises(ModelError, match="initial weights"):
        Evidence(measure_facts(net, data, PLAN)).facts("distance")


def test_least_margin_is_the_smallest_of_the_sample():
    measured = measure_facts(two_layers(), images(), PLAN)
    least = Evidence(measured).facts("least margin")
    assert (least.margin, least.margin_loss) == (measured.margins.minimum, 1 / 60)
    assert measure_facts(
        two_layers(), images(), MeasureSettings(examples=5, margin_share=0.0)
    ).facts.margin == (measured.margins.minimum)


def test_outputs_that_are_not_finite_are_refused():
    net = two_layers()
    with torch.no_grad():
        net[1].weight.mul_(3e38)
        net[3].weight.mul_(3e38)
    with pytest.raises(ModelError, match="not finite"):
        measure_facts(net, images(), PLAN)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Flatten(), "no weights"),
        (nn.Sequential(nn.Flatten(), nn.BatchNorm1d(36)), "no linear or convolutional layer to measure"),
        (nn.Sequential(nn.Flatten(), nn.Linear(36, 4)), "4 outputs, the sample 3 classes"),
        (nn.Sequential(nn.Flatten(), nn.Linear(35, 3)), "fails on inputs"),
    ],
)
def test_networks_that_do_not_fit_are_refused(net, message):
    with pytest.raises(ModelError, match=message):
        measure_facts(net, images(), PLAN)


@pytest.mark.parametrize("bad", [{"margin_share": 1.0}, {"margin_share": -0.1}, {"examples": 0}])
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(UsageError, match="Got"):
        MeasureSettings(**bad)


def test_prune_for_margin_uses_up_the_margin_and_no_more():
    from dataclasses import replace

    from codebound_papers.guha23.kappa import released_needed_margin

    measured = measure_facts(two_layers(bias=False), images(), PLAN)
    asked = replace(measured.facts, margin=5.0)
    found = prune_for_margin(measured.network, asked, keep_diagonal=True)
    strength = found.layers[0].strength
    assert 0.001 <= strength < 10.0
    assert released_needed_margin(asked, pruning=found).value <= 5.0
    wider = prune_for_margin(measured.network, replace(asked, margin=20.0), keep_diagonal=True)
    assert wider.layers[0].strength > strength
    assert wider.layers[0].nonzeros < found.layers[0].nonzeros < 36 * 12
    none = prune_for_margin(measured.network, replace(asked, margin=-1.0), keep_diagonal=False)
    assert [layer.strength for layer in none.layers] == [0.0, 0.0]
    assert [layer.change for layer in none.layers] == [0.0, 0.0]


@pytest.mark.slow
def test_zoo_networks_are_chains_or_say_why_not():
    data = noise_images(12, shape=(3, 32, 32))
    few = MeasureSettings(examples=2, chunk_size=4)
    assert measure_facts(load_model("alexnet", input_shape=(3, 32, 32), classes=10), data, few).obstacle == ""
    assert "no chain" in (
        measure_facts(load_model("resnet20", input_shape=(3, 32, 32), classes=10), data, few).obstacle
    )


def test_the_spectrum_of_a_layer_is_computed_once(monkeypatch):
    seen, spectrum = [], norms.layer_spectrum
    monkeypatch.setattr(norms, "layer_spectrum", lambda view: seen.append(view.name) or spectrum(view))
    settings = MeasureSettings(families=("spectra", "tails"), tails_of="eigenvalues", resamples=20)
    measured = measure_facts(two_layers(), images(), settings)
    assert seen == ["1", "3"]
    for name in seen:
        assert np.array_equal(measured.tails[name].values, measured.spectra[name].eigenvalues)
