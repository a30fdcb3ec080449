"""What the theorems would require: published numbers, conditions checked by hand, and refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from worlds import networks

from codebound.run.errors import ModelError, UsageError
from codebound.sample.dataset import Sample
from codebound.sample.load import load_sample
from codebound_networks.reading.walk import Network, wrap
from codebound_papers.arora18.arora_requirements import project_requirements
from codebound_papers.guha23.guha_requirements import mbp_requirements
from codebound_papers.measure.noise.quantities import Smoothness, StabilitySettings
from codebound_papers.measure.record import Measured, MeasureSettings, measure_facts
from codebound_papers.plan import minimum
from codebound_papers.plan.minimum import KNOBS, measured_minimum
from codebound_papers.shin21.shin_requirements import heavytail_requirements

SETTINGS = MeasureSettings(
    families=("margins", "norms", "stability"),
    margin_share=0.1,
    sample_size=50_000,
    stability=StabilitySettings(smoothness=Smoothness(0.1, draws=5)),
    dtype=torch.float64,
)


def measured(net: nn.Module | Network, sample: Sample, **changes: object) -> Measured:
    """What the theorems are told of a network."""
    return measure_facts(net, sample, replace(SETTINGS, **changes))


def gaussian_mlp(*sizes: int) -> nn.Sequential:
    return networks.gaussian_mlp(*sizes, gain=2.0)


def sample_of(x: torch.Tensor, labels: torch.Tensor, *, classes: int) -> Sample:
    return Sample("made up", "train", x.numpy(), labels.numpy(), classes)


def labelled_by(net: nn.Module, *shape: int, n: int = 12) -> Sample:
    """Inputs with the labels that the network gives them, so that every margin is positive."""
    x = torch.rand(n, *shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        scores = net.eval()(x)
    return sample_of(x, scores.argmax(dim=1), classes=scores.shape[1])


@pytest.fixture(scope="module")
def digits():
    return load_sample("digits").select(range(400), role="train")


@pytest.fixture(scope="module")
def trained(digits):
    net = networks.mlp(64, 32, 10, flat=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    x, y = digits.on("cpu").batch(torch.arange(digits.n))
    for _ in range(80):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return wrap(net)


# random projection


@pytest.mark.parametrize(("depth", "factor"), [(2, 6.0e3), (3, 1.4e4), (5, 3.9e4)])
def test_the_inputs_that_a_layer_needs_are_the_published_factor_times_its_stable_rank(depth, factor):
    net = gaussian_mlp(20, *[500] * (depth - 1), 10)
    found = project_requirements(measured(net, labelled_by(net, 20, n=4)))
    for layer, module in zip(found.layers, net[::2], strict=True):
        values = np.linalg.svd(module.weight.detach().double().numpy(), compute_uv=False)
        rank = float((values**2).sum() / values[0] ** 2)
        assert float(f"{layer.least_inputs / rank:.1e}") == factor
        assert layer.published >= layer.least_inputs * len(module.weight)
        assert layer.inputs < layer.least_inputs
        assert layer.asked > layer.weights
    assert found.smoothness_needed == 3 * depth
    assert "compresses no layer" in found.verdict
    assert "Whatever the cushions, even layer" in found.verdict


def test_accuracy_and_counts_follow_from_the_cushions(trained, digits):
    told = measured(trained, digits)
    found, facts = project_requirements(told), told.facts
    eta = 0.05 / (2 * 4 * 32 * 50_000)
    assert found.eta == pytest.approx(eta)
    for layer in found.layers:
        epsilon = facts.margin / (math.sqrt(2) * facts.largest_output)
        epsilon *= layer.cushion * layer.interlayer_cushion / (6 * found.contraction * 2)
        assert layer.epsilon == pytest.approx(epsilon)
        assert layer.count == pytest.approx(4 * math.log(4 / eta) / (epsilon**2 - 2 * epsilon**3 / 3))
    with torch.no_grad():
        logits = trained.predictor(digits.on("cpu").batch(torch.arange(digits.n))[0])
    assert facts.largest_output == pytest.approx(float(logits.norm(dim=1).max()), rel=1e-5)
    assert facts.margin_loss == pytest.approx(0.1)


def test_one_very_wide_layer_is_compressed_by_the_lemma_and_by_measurement():
    direction = torch.randn(20_000, generator=torch.Generator().manual_seed(0)) / 100.0
    net = nn.Sequential(nn.Linear(20_000, 2, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(torch.stack([direction, -direction]))
    sample = sample_of(torch.stack([direction, -direction] * 5), torch.tensor([0, 1] * 5), classes=2)
    found = project_requirements(measured(net, sample, sample_size=10))
    (layer,) = found.layers
    assert layer.cushion == pytest.approx(1.0, rel=1e-3)
    assert layer.asked < layer.weights
    assert found.is_smooth is None
    assert "compresses 1 of 1 layers" in found.verdict
    assert layer.inputs > layer.least_inputs
    assert "Whatever the cushions" not in found.verdict
    reached = measured_minimum(wrap(net), sample.on("cpu"), "project").reached
    assert reached is not None
    assert reached.stored == {"0": 625}


def test_a_convolution_with_batch_norm_has_no_proven_count():
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)
    ).eval()
    sample = labelled_by(net, 1, 4, 4)
    first, last = project_requirements(measured(net, sample)).layers
    assert first.count is None
    assert first.least_inputs is None
    assert first.asked == math.ceil(first.published)
    assert last.count is not None
    replaced = heavytail_requirements(measured(net, sample))
    assert [layer.name for layer in replaced.layers] == ["0", "4"]
    for found in (mbp_requirements(measured(net, sample)), replaced):
        assert any("filters" in note for note in found.notes)


# magnitude pruning


@pytest.mark.few(2)
@pytest.mark.parametrize(("depth", "kept"), [(2, 0.37), (3, 0.52), (5, 0.66), (10, 0.78)])
def test_gaussian_layers_keep_the_published_share(depth, kept):
    net = gaussian_mlp(*[120] * (depth + 1))
    found = mbp_requirements(measured(net, labelled_by(net, 120)))
    assert round(found.gaussian_exact, 2) == kept
    for layer in found.layers:
        assert layer.kept_exact == pytest.approx(kept, abs=0.03)
        assert layer.kept_markov > layer.kept_exact


def test_markov_over_five_layers_keeps_nearly_all():
    net = gaussian_mlp(*[60] * 6)
    found = mbp_requirements(measured(net, labelled_by(net, 60), sample_size=1000, delta=0.5))
    assert found.slack == 10
    assert round(found.gaussian_markov, 3) == 0.926
    for layer in found.layers:  # lemma 4.2 is looser than the exact norm, by about two
        assert 0.926 < layer.kept_markov < 0.98


def test_the_strength_of_lemma_4_2_is_where_the_perturbation_condition_ends(trained, digits):
    found = mbp_requirements(measured(trained, digits))
    for layer, module in zip(found.layers, (trained.model[1], trained.model[3]), strict=True):
        weight = module.weight.detach().double().numpy()
        norm = np.linalg.norm(weight, 2)
        assert layer.norm == pytest.approx(norm)
        assert found.slack * layer.change_norm <= norm / 2
        assert layer.change_norm == pytest.approx(change_norm(weight, layer.strength_markov))
        assert found.slack * change_norm(weight, 1.01 * layer.strength_markov) > norm / 2


def test_the_margin_condition_holds_up_to_the_limit_and_not_beyond(trained, digits):
    told = measured(trained, digits)
    found, facts = mbp_requirements(told), told.facts
    weights = [trained.model[i].weight.detach().double().numpy() for i in (1, 3)]
    norms = [np.linalg.norm(weight, 2) for weight in weights]
    longest = float(
        digits.on("cpu").batch(torch.arange(digits.n), torch.float64)[0].flatten(1).norm(dim=1).max()
    )

    def right_side(strength: float, length: float) -> float:
        changes = [
            40 * change_norm(weight, strength) / norm for weight, norm in zip(weights, norms, strict=True)
        ]
        return math.e * length * math.prod(norms) * sum(changes)

    for limit, length in ((found.published, 64), (found.corrected, math.sqrt(2) * longest)):
        assert right_side(limit.strength, length) <= facts.margin
        assert right_side(1.01 * limit.strength, length) > facts.margin
        assert limit.pruned == pytest.approx(math.sqrt(limit.strength / (limit.strength + 2)))
    assert found.published.pruned < found.corrected.pruned < 0.01
    for layer in found.layers:
        assert layer.asked == math.ceil((1 - found.corrected.pruned) * layer.weights)
    assert "biases" in found.notes[0]


def test_norms_beyond_all_bounds_leave_no_strength():
    net = gaussian_mlp(20, 20, 20, 5)
    with torch.no_grad():
        for module in net[::2]:
            module.weight[0].zero_()
            module.weight[:, 0].zero_()
            module.weight[0, 0] = 1e30
    sample = labelled_by(net, 20)
    x = torch.from_numpy(sample.x.copy())
    x[:, 0] = 0.0  # nothing ever meets the large weights
    with torch.no_grad():
        sample = sample_of(x, net(x).argmax(dim=1), classes=5)
    found = mbp_requirements(measured(net, sample))
    assert found.published.strength is None
    assert found.corrected.pruned == 0.0
    assert "holds for no strength at all" in found.verdict


def change_norm(weight, strength):
    """Lemma 4.2 with C = 1, written out again."""
    rows, columns = weight.shape
    ratio, variance = strength / (strength + 2), weight.var()
    first = math.sqrt(variance * ratio**1.5) * (math.sqrt(rows) + math.sqrt(columns))
    return first + (3 * rows * columns * variance**2 * ratio**2.5) ** 0.25


# heavy tails


@pytest.mark.thorough
def test_thresholds_and_shares_follow_from_the_accuracy(trained, digits):
    found = heavytail_requirements(measured(trained, digits))
    planned = project_requirements(measured(trained, digits))
    for layer, plan, index in zip(found.layers, planned.layers, (1, 3), strict=True):
        weight = trained.model[index].weight.detach().double().numpy()
        assert layer.epsilon == plan.epsilon
        published = layer.epsilon / math.sqrt(math.log(3 / found.eta))
        scale_free = layer.epsilon * np.linalg.norm(weight) / math.sqrt(2 * math.log(2 / found.eta))
        assert layer.published_threshold == pytest.approx(published)
        assert layer.scale_free_threshold == pytest.approx(scale_free)
        assert layer.scale_free_share == pytest.approx(np.mean(np.abs(weight) <= scale_free))
        assert layer.rms == pytest.approx(math.sqrt(np.mean(weight**2)))
        assert layer.scale_free_threshold < 0.01 * layer.rms
        assert layer.asked == np.sum(np.abs(weight) > scale_free)
        assert layer.tail
    assert "power laws" in found.verdict


# measurement


@pytest.mark.parametrize("method", ["mbp", "heavytail"])
def test_the_first_setting_that_will_do_is_the_smallest(trained, digits, method):
    found = measured_minimum(trained, digits.on("cpu"), method)
    *before, last = found.trials
    assert [trial.setting for trial in found.trials] == list(KNOBS[method].settings[: len(found.trials)])
    assert all(trial.error > found.error + 0.01 for trial in before)
    assert found.reached is not None
    assert last.error == found.reached.error <= found.error + 0.01
    assert found.reached.coded_bits < found.raw_bits == 32 * (64 * 32 + 32 + 32 * 10 + 10)
    assert 0 < found.reached.stored["1"] < 64 * 32
    assert found == measured_minimum(trained, digits.on("cpu"), method)


def test_a_search_without_success_says_how_close_it_came(trained, digits):
    found = measured_minimum(trained, digits.on("cpu"), "project", tolerance=0.0)
    assert found.reached is None
    best = min(trial.error for trial in found.trials)
    assert f"the best was {best:.4f}" in found.verdict


def test_settings_that_take_too_long_are_refused_and_never_count(trained, digits, monkeypatch):
    monkeypatch.setattr(minimum, "_MOST_PRODUCTS", 1)
    found = measured_minimum(trained, digits.on("cpu"), "project", tolerance=1.0)
    assert found.reached is None
    assert all(trial.error is None and "products" in trial.refusal for trial in found.trials)
    assert "6 settings were not tried" in found.verdict


def test_nobody_changes_the_network(trained, digits):
    before = {name: value.clone() for name, value in trained.model.state_dict().items()}
    measured_minimum(trained, digits.on("cpu"), "mbp")
    mbp_requirements(measured(trained, digits))
    assert all(torch.equal(before[name], value) for name, value in trained.model.state_dict().items())


# refusals


@pytest.mark.parametrize(
    "wrong", [{"delta": 0.0}, {"delta": 1.0}, {"margin_share": 1.0}, {"sample_size": -1}]
)
def test_settings_that_no_theorem_has_are_refused(wrong):
    with pytest.raises(UsageError, match="Got"):
        replace(SETTINGS, **wrong)


@pytest.mark.parametrize("require", [project_requirements, mbp_requirements, heavytail_requirements])
def test_a_margin_that_is_not_positive_is_refused(require):
    net = gaussian_mlp(8, 5, 3)
    sample = labelled_by(net, 8)
    wrong = replace(sample, y=(sample.y + 1) % 3)
    with pytest.raises(UsageError, match=r"positive one\. The network is wrong on 100\.0 %"):
        require(measured(net, wrong))


def test_a_layer_that_is_called_twice_and_one_of_zeros_are_refused_by_name():
    layer = nn.Linear(4, 4)
    net = nn.Sequential(layer, nn.ReLU(), layer)
    with pytest.raises(ModelError, match="layer 0 is called more than once"):
        mbp_requirements(measured(net, labelled_by(net, 4)))
    zero = gaussian_mlp(4, 4, 3)
    biased = nn.Sequential(*zero[:2], nn.Linear(4, 3))
    with torch.no_grad():
        biased[0].weight.zero_()
    for require in (mbp_requirements, heavytail_requirements):
        with pytest.raises(ModelError, match="layer 0 is zero"):
            require(measured(biased, labelled_by(biased, 4)))


@pytest.mark.parametrize("wrong", [{"method": "lottery"}, {"tolerance": -0.1}])
def test_measurement_refuses_what_it_does_not_know(trained, digits, wrong):
    options = {"method": "mbp", "tolerance": 0.01, **wrong}
    with pytest.raises(UsageError, match="Got"):
        measured_minimum(trained, digits.on("cpu"), options["method"], tolerance=options["tolerance"])
