"""Noise stability against brute force, and the identities that it must satisfy."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from worlds.networks import convnet, double_mlp, inputs

from codebound.run.errors import ModelError, UsageError
from codebound.sample.dataset import Sample, Scaling
from codebound_networks.reading.walk import wrap
from codebound_networks.views.layers import view_of
from codebound_networks.views.zoo import build
from codebound_papers.measure.noise.meter import stability
from codebound_papers.measure.noise.quantities import (
    Smoothness,
    StabilitySettings,
    activation_contraction,
    adversarial_smoothness,
    augmented_matrix,
    gaussian_smoothness,
    interlayer_cushion,
    jacobian_spread,
    layer_cushion,
    smoothness_quantile,
    tensor_spread,
)
from codebound_papers.measure.noise.result import Key, best_examples
from codebound_papers.measure.norms import stable_rank

ALL = StabilitySettings(interlayer="all")


def chain(model, x):
    """Pre-activations and layer inputs of an nn.Sequential, by hand."""
    pre, fed = [], []
    for module in model:
        if isinstance(module, nn.Linear | nn.Conv2d):
            fed.append(x)
            x = module(x)
            pre.append(x.clone())
        else:
            x = module(x.clone())
    return [p.detach() for p in pre], [f.detach() for f in fed]


def tail_of(model, start, stop):
    """The map from the output of layer ``start`` to that of layer ``stop``, by hand."""
    places = [k for k, module in enumerate(model) if isinstance(module, nn.Linear | nn.Conv2d)]
    modules = list(model)[places[start] + 1 : places[stop] + 1]

    def function(x):
        for module in modules:
            x = module(x.clone())
        return x

    return function


def jacobian(function, example):
    found = torch.autograd.functional.jacobian(lambda v: function(v[None])[0], example)
    return found.reshape(-1, example.numel())


def test_the_reported_sensitivity_is_the_largest_and_never_below_the_stable_rank():
    model, x = double_mlp(6, 15, 14, 3, bias=False), inputs(20, 6)
    _, fed = chain(model, x)
    for row, layer, into in zip(stability(model, x, ALL).layers, model[::2], fed, strict=True):
        weight = layer.weight.detach()
        by_hand = (weight.norm() * into.norm(dim=1) / (into @ weight.T).norm(dim=1)) ** 2
        assert row.noise_sensitivity == pytest.approx(float(by_hand.max()))
        assert row.noise_sensitivity >= stable_rank(layer.weight.detach()) * (1 - 1e-12)
        assert 1 / row.cushion**2 >= stable_rank(layer.weight.detach()) * (1 - 1e-12)


# A-Def4 to A-Def6, A-Def8, A-Def9: against brute force


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("make", "shape"), [(lambda bias: double_mlp(5, 6, 4, 3, bias=bias), (5,)), (convnet, (2, 6, 6))]
)
def test_published_definitions_against_brute_force(make, shape, bias):
    model, x = make(bias=bias), inputs(7, *shape)
    found = stability(model, x, StabilitySettings(interlayer="all", biases="separate"))
    pre, fed = chain(model, x)
    layers = [module for module in model if isinstance(module, nn.Linear | nn.Conv2d)]
    for i, (row, layer, into) in enumerate(zip(found.layers, layers, fed, strict=True)):
        bias_free = (layer(into) - layer(torch.zeros_like(into))).detach()
        by_hand = layer_cushion(
            into.flatten(1).norm(dim=1),
            bias_free.flatten(1).norm(dim=1),
            frobenius=float(layer.weight.detach().norm()),
        )
        values = found.distribution("cushion", row.layer).values
        assert np.allclose(values, by_hand.sort().values.detach())
        assert row.cushion == pytest.approx(float(by_hand.min()))
        if i + 1 < len(layers):
            before, after = pre[i].flatten(1).norm(dim=1), fed[i + 1].flatten(1).norm(dim=1)
            assert row.contraction == pytest.approx(float(activation_contraction(before, after).max()))
        width, positions = pre[i].shape[1], pre[i][0].numel() // pre[i].shape[1]
        assert (found.sites[i].width, found.sites[i].positions) == (width, positions)
        cushions, spreads = [], []
        for j in range(i + 1, len(layers)):
            jacobians = [jacobian(tail_of(model, i, j), example) for example in pre[i]]
            images = torch.stack([J @ e.flatten() for J, e in zip(jacobians, pre[i], strict=True)]).norm(
                dim=1
            )
            sizes = torch.stack([J.norm() for J in jacobians])
            values = interlayer_cushion(
                pre[i].flatten(1).norm(dim=1), images, jacobian_norm=sizes, positions=positions
            )
            target = found.layers[j].layer
            assert np.allclose(
                found.distribution("interlayer", row.layer, target=target).values, values.sort().values
            )
            cushions.append(float(values.min()))
            if positions > 1:
                pixels = torch.stack([J.square().sum(0).view(width, -1).sum(0) for J in jacobians])
                spreads.append(float(jacobian_spread(pixels, pixels.mean(dim=1)).max()))
        assert row.interlayer == (pytest.approx(min(cushions)) if cushions else None)
        assert row.minimal_interlayer == pytest.approx(min([width**-0.5, *cushions]))
        assert row.spread == (pytest.approx(max(spreads)) if spreads else None)


def test_biases_become_part_of_the_matrices():
    """The bias-free network of augmented matrices on [x; 1], built by hand, has the same stability."""
    model, x = double_mlp(5, 6, 4, 3, bias=True), inputs(8, 5)
    views = [view_of(str(k), model[k]) for k in (0, 2, 4)]
    augmented = double_mlp(6, 7, 5, 3, bias=False)
    with torch.no_grad():
        for k, view in zip((0, 2, 4), views, strict=True):
            augmented[k].weight.copy_(augmented_matrix(view, last=k == 4))
    ones = torch.ones(8, 1, dtype=torch.float64)
    expected = stability(augmented, torch.cat([x, ones], dim=1), ALL)
    found = stability(model, x, ALL)
    for key, values in expected.columns.items():
        assert np.allclose(found.columns[key], values, rtol=1e-10), key
    for mine, other in zip(found.layers, expected.layers, strict=True):
        assert mine.minimal_interlayer == pytest.approx(other.minimal_interlayer)
        assert mine.noise_sensitivity == pytest.approx(other.noise_sensitivity)
    separate = stability(model, x, StabilitySettings(interlayer="all", biases="separate"))
    assert separate.layers[1].interlayer != pytest.approx(found.layers[1].interlayer)


def test_a_jacobian_that_is_the_identity_has_cushion_one_over_root_width():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Identity(), nn.Linear(4, 4, bias=False)).double()
    nn.init.eye_(model[2].weight)
    found = stability(model, inputs(5, 4))
    assert found.layers[0].interlayer == pytest.approx(0.5)
    assert found.sites[0].self_cushion == pytest.approx(0.5)


def test_spread_of_a_tensor_and_of_sampled_pixels():
    tensor = torch.zeros(2, 3, 3, 4)
    tensor[:, 1, 1] = 1.0
    assert tensor_spread(tensor) == pytest.approx(3.0)
    with pytest.raises(UsageError, match="shape"):
        tensor_spread(torch.zeros(2, 3))
    model, x = convnet(bias=False), inputs(6, 2, 6, 6)
    every, some = (stability(model, x, StabilitySettings(pixels=pixels)) for pixels in (36, 2))
    assert every.spread == stability(model, x).spread
    assert some.layers[0].spread < every.layers[0].spread


# residual networks and batch norm


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3)
        self.a, self.b = (nn.Conv2d(3, 3, 3, padding=1, bias=False) for _ in range(2))
        self.head = nn.Linear(3 * 16, 2)

    def forward(self, x):
        x = functional.relu(self.norm(self.stem(x)), inplace=True)
        y = self.b(functional.relu(self.a(x)))
        y += x
        return self.head(functional.relu(y).flatten(1))


def test_residual_networks_are_measured_between_their_sums_and_batch_norms_are_folded():
    torch.manual_seed(0)
    model = Residual().double()
    model.norm.running_mean.normal_()
    model.norm.running_var.uniform_(0.5, 2.0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = inputs(5, 1, 4, 4)
    found = stability(model, x, StabilitySettings(interlayer="all", biases="separate"))
    assert model.training
    assert all(tensor.requires_grad for tensor in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert [row.layer for row in found.layers] == ["stem", "a", "b", "add", "head"]
    rows = {row.layer: row for row in found.layers}
    assert rows["a"].interlayer is None
    assert rows["a"].cushion is not None
    assert rows["add"].cushion is None
    assert rows["b"].contraction is None  # a sum follows it, not an activation
    model.eval()
    model.requires_grad_(False)
    stem = model.norm(model.stem(x))

    def to_sum(v):
        v = functional.relu(v)
        return model.b(functional.relu(model.a(v))) + v

    jacobians = [jacobian(to_sum, example) for example in stem]
    by_hand = [
        4.0 * (J @ v.flatten()).norm() / (J.norm() * v.norm()) for J, v in zip(jacobians, stem, strict=True)
    ]
    assert found.distribution("interlayer", "stem", target="add").minimum == pytest.approx(
        float(min(by_hand))
    )
    assert rows["add"].contraction == pytest.approx(
        float((to_sum(stem).flatten(1).norm(dim=1) / to_sum(stem).relu().flatten(1).norm(dim=1)).max())
    )


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        ("lenet5", (1, 8, 8)),
        ("alexnet", (3, 32, 32)),
        pytest.param("vgg19", (3, 32, 32), marks=pytest.mark.slow),
    ],
)
def test_the_papers_networks_against_one_backward_pass_per_output(spec, shape):
    model = build(spec, input_shape=shape, classes=10).double().eval()
    x = inputs(2, *shape).abs()
    found = stability(model, x, StabilitySettings(biases="separate"))
    kept = {}
    for name, module in model.named_children():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(lambda _m, _i, out, name=name: kept.setdefault(name, out))
    output = model(x)
    names = list(kept)[:-1]
    grads = [
        torch.autograd.grad(output[:, k].sum(), [kept[n] for n in names], retain_graph=True)
        for k in range(10)
    ]
    for position, name in enumerate(names):
        rows = torch.stack([grad[position] for grad in grads], dim=1)  # (examples, outputs, ...)
        pre = kept[name]
        images = torch.einsum("nki,ni->nk", rows.flatten(2), pre.flatten(1))
        pixels = pre[0, 0].numel()
        by_hand = (
            pixels**0.5 * images.norm(dim=1) / (rows.flatten(1).norm(dim=1) * pre.flatten(1).norm(dim=1))
        )
        values = found.distribution("interlayer", name, target=list(kept)[-1]).values
        assert np.allclose(values, by_hand.detach().sort().values)


def test_a_residual_network_of_the_zoo_is_measured():
    found = stability(build("resnet20", input_shape=(3, 8, 8), classes=10), torch.rand(2, 3, 8, 8))
    assert sum(row.cushion is not None for row in found.layers) == 20
    assert sum(row.interlayer is not None for row in found.layers) == 10  # the first layer and nine sums
    assert found.left_out == 0


# invariances


@pytest.mark.parametrize("make", [lambda: double_mlp(6, 7, 5, 3, bias=False), lambda: convnet(bias=False)])
def test_rescaled_layers_and_permuted_units_have_the_same_stability(make):
    model, other = make(), make()
    shape = (6,) if isinstance(model[0], nn.Linear) else (2, 6, 6)
    layers = [module for module in other if isinstance(module, nn.Linear | nn.Conv2d)]
    order = torch.randperm(len(layers[0].weight), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for factor, layer in zip((3.0, 0.01, 40.0), layers, strict=True):
            layer.weight.mul_(factor)
        layers[0].weight.copy_(layers[0].weight[order])
        layers[1].weight.copy_(layers[1].weight[:, order])
    x = inputs(9, *shape)
    # pruning neither sees the scale of a layer nor the order of its units
    pruned = Smoothness(lambda matrix, seed: matrix * (matrix.abs() > matrix.abs().median()), draws=1)
    plan = StabilitySettings(interlayer="all", smoothness=pruned)
    first, second = stability(model, x, plan), stability(other, x, plan)
    for key, values in first.columns.items():
        assert np.allclose(values, second.columns[key], rtol=1e-9, equal_nan=True), key


# streaming


@pytest.mark.thorough
def test_chunks_and_sources_of_data_do_not_matter():
    model = convnet(bias=True)
    pixels = np.random.default_rng(0).integers(0, 256, (11, 2, 6, 6), dtype=np.uint8)
    data = Sample("noise", "train", pixels, np.zeros(11, dtype=np.int64), 5, Scaling(divisor=255.0))
    x = torch.from_numpy(pixels).double() / 255.0
    plan = StabilitySettings(interlayer="all", probes=2, smoothness=Smoothness(0.3, draws=3), pixels=4)
    seen = []
    one = stability(model, x, plan, chunk_size=100, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(11, 11)]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, torch.zeros(11)), batch_size=4)
    for other in (
        stability(model, x, plan, chunk_size=3),
        stability(wrap(model), data, plan, chunk_size=2),
        stability(model, data.on("cpu"), plan, chunk_size=7),
        stability(model, loader, plan),
        stability(model, [x[:5], x[5:]], plan, chunk_size=1),
    ):
        assert other.columns.keys() == one.columns.keys()
        for key, values in one.columns.items():
            assert np.allclose(values, other.columns[key], rtol=1e-9), key


# outliers


def dead_on_negative():
    """The first layer copies its input, so an all-negative input kills everything after it."""
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.ReLU(), nn.Linear(3, 2, bias=False)).double()
    nn.init.eye_(model[0].weight)
    nn.init.constant_(model[2].weight, 0.5)
    return model


def test_an_all_negative_activation_is_an_outlier_and_spoils_nothing():
    x = torch.tensor([[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [1.0, 1.0, -1.0]], dtype=torch.float64)
    found = stability(dead_on_negative(), x)
    assert (found.n, found.undefined, found.left_out) == (3, 1, 1)
    assert found.kept.tolist() == [True, False, True]
    assert found.contraction == pytest.approx(math.sqrt(3 / 2))
    assert all(math.isfinite(row.cushion) and row.cushion > 0 for row in found.layers)
    assert math.isnan(found.columns[Key("contraction", "0")][1])
    alone = stability(dead_on_negative(), x[[0, 2]])
    assert found.layers == alone.layers
    with pytest.raises(ModelError, match=r"to blame for all of them: 0, 2"):
        stability(dead_on_negative(), x[[1]])


def test_with_biases_as_a_coordinate_nothing_is_undefined():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    nn.init.eye_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    found = stability(model, -torch.ones(1, 3, dtype=torch.float64))
    assert found.undefined == 0
    assert found.layers[0].contraction == pytest.approx(2.0)  # ||[-1 -1 -1; 1]|| / ||[0; 1]||


def test_outliers_are_the_examples_of_largest_complexity_in_all_quantities_at_once(monkeypatch):
    monkeypatch.setattr("codebound.sample.memmap.BLOCK", 7)  # it is computed in parts
    model, x = double_mlp(6, 8, 7, 3, bias=False), inputs(40, 6)
    plain = stability(model, x, ALL)
    trimmed = stability(model, x, StabilitySettings(interlayer="all", outliers=0.25))
    per_example = np.zeros(40)
    for example in range(40):
        total = 0.0
        for site in plain.sites:
            reach = [v[example] for k, v in plain.columns.items() if k[:2] == ("interlayer", site.name)]
            cushion = plain.columns[Key("cushion", site.name)][example]
            total += (cushion * min([site.width**-0.5, *reach])) ** -2
        c = max(v[example] for k, v in plain.columns.items() if k.quantity == "contraction")
        per_example[example] = c**2 * total
    assert np.allclose(np.exp(plain.complexity), per_example)
    kept = np.argsort(per_example)[:30]
    assert trimmed.left_out == 10
    assert set(np.flatnonzero(trimmed.kept)) == set(kept)
    again = stability(model, x[np.sort(kept)], ALL)
    for mine, other in zip(trimmed.layers, again.layers, strict=True):
        assert mine.cushion == pytest.approx(other.cushion)
        assert mine.contraction == (None if other.contraction is None else pytest.approx(other.contraction))
    assert all(a.cushion >= b.cushion for a, b in zip(trimmed.layers, plain.layers, strict=True))


def test_best_examples_never_keep_what_is_undefined():
    values = np.array([np.nan, 1.0, np.inf, 2.0])
    assert best_examples(values, 0.0).tolist() == [False, True, True, True]
    assert best_examples(values, 0.5).tolist() == [False, True, False, True]
    with pytest.raises(UsageError, match=r"\[0, 1\)"):
        best_examples(values, 1.0)


# distance from the initial weights


def test_cushions_relative_to_the_distance_from_the_initial_weights():
    model, initial = double_mlp(5, 4, 3, bias=False), double_mlp(5, 4, 3, bias=False, seed=9)
    x = inputs(6, 5)
    found = stability(model, x, initial=initial)
    for row, layer, start in zip(found.layers, model[::2], initial[::2], strict=True):
        ratio = float(layer.weight.norm() / (layer.weight - start.weight).norm())
        assert row.distance_cushion == pytest.approx(row.cushion * ratio)
    assert all(row.distance_cushion == math.inf for row in stability(model, x, initial=model).layers)
    assert all(row.distance_cushion is None for row in stability(model, x).layers)
    with pytest.raises(UsageError, match=r"layer 0 has shape \(4, 5\).*\(6, 5\)"):
        stability(model, x, initial=double_mlp(5, 6, 3, bias=False))
    biased = stability(double_mlp(5, 4, 3, bias=True), x, initial=double_mlp(5, 4, 3, bias=True, seed=9))
    first, start = double_mlp(5, 4, 3, bias=True)[0], double_mlp(5, 4, 3, bias=True, seed=9)[0]
    distance = math.hypot(
        *(float((a - b).norm()) for a, b in zip(first.parameters(), start.parameters(), strict=True))
    )
    assert biased.sites[0].distance == pytest.approx(distance)
    grown = stability(
        double_mlp(5, 4, 3, bias=True), x, initial=double_mlp(5, 4, 3, bias=False)
    )  # biases began at zero
    assert grown.sites[0].distance >= float(first.bias.detach().norm()) > 0.0


# A-Def7, A-E8, A-E9


def shake(matrix, seed):
    generator = torch.Generator().manual_seed(seed)
    return matrix + 0.3 * torch.randn(matrix.shape, generator=generator, dtype=matrix.dtype)


@pytest.mark.parametrize("bias", [False, True])
def test_smoothness_against_brute_force(bias):
    model, x = double_mlp(5, 6, 5, 3, bias=bias), inputs(6, 5)
    calls = []

    def recorded(matrix, seed):
        noisy = shake(matrix, seed)
        calls.append(noisy)
        return noisy

    settings = Smoothness(recorded, draws=9, delta=0.2)
    found = stability(model, x, StabilitySettings(smoothness=settings, biases="separate"), chunk_size=4)
    assert len(calls) == 9 * 3  # once per layer and draw, however many batches
    pre, _ = chain(model, x)
    minima = []
    for draw in range(9):
        noisy = double_mlp(5, 6, 5, 3, bias=bias)
        noisy.load_state_dict(model.state_dict())
        with torch.no_grad():
            for layer, matrix in zip(noisy[::2], calls[3 * draw : 3 * draw + 3], strict=True):
                layer.weight.copy_(matrix)
        moved, _ = chain(noisy, x)
        before = [pre[0], *(tail_of(model, i - 1, i)(moved[i - 1]).detach() for i in (1, 2))]
        smallest = math.inf
        for i in range(2):
            for j in range(i + 1, 3):
                for k in range(len(x)):
                    J = jacobian(tail_of(model, i, j), pre[i][k])
                    for other in (moved[i][k], before[i][k]):
                        eta = other - pre[i][k]
                        gap = tail_of(model, i, j)(other[None])[0] - pre[j][k] - J @ eta
                        if eta.norm() > 0 and gap.norm() > 0:
                            ratio = eta.norm() * pre[j][k].norm() / (pre[i][k].norm() * gap.norm())
                            smallest = min(smallest, float(ratio))
        minima.append(smallest)
    assert found.smoothness == pytest.approx(sorted(minima)[1])  # one of nine draws may violate at 0.2
    values = np.min([found.columns[Key("smoothness", name)] for name in ("0", "2")], axis=(0, 1))
    assert np.allclose(values, minima)
    assert found.layers[2].smoothness is None


def test_gaussian_noise_has_the_stated_size_and_linear_maps_are_perfectly_smooth():
    model = nn.Sequential(nn.Linear(4, 5), nn.Identity(), nn.Linear(5, 3)).double()
    x = inputs(5, 4)
    assert stability(model, x, StabilitySettings(smoothness=Smoothness(0.5, draws=2))).smoothness > 1e12
    bent = double_mlp(4, 50, 3, bias=False)
    large, small = (
        stability(bent, x, StabilitySettings(smoothness=Smoothness(size, draws=5))).smoothness
        for size in (2.0, 0.02)
    )
    assert large < small


def test_the_quantile_takes_the_largest_admissible_number():
    values = [4.0, 1.0, 3.0, 2.0, 5.0]
    for delta in (0.0, 0.1, 0.2, 0.39, 0.4, 0.9):
        rho = smoothness_quantile(values, delta)
        assert sum(value < rho for value in values) <= delta * 5 + 1e-9
        larger = [value for value in values if value > rho]
        assert all(sum(v < candidate for v in values) > delta * 5 + 1e-9 for candidate in larger)


def test_the_single_layer_estimates_hold_for_their_noise():
    """A-E9: a lower bound for any noise, and a larger one for noise that has no direction."""
    model, x = double_mlp(12, 200, 150, bias=False), inputs(1, 12)
    rank = stable_rank(model[2].weight.detach())
    for noise in (lambda matrix, seed: shake(matrix, seed), 1.0):
        plan = StabilitySettings(smoothness=Smoothness(noise, draws=50, delta=0.0))
        row, after = stability(model, x, plan).layers
        known = {"cushion": after.cushion, "contraction": row.contraction}
        assert row.smoothness >= adversarial_smoothness(stable_rank=rank, **known)
        # half of the units stay as they are, so the remainder is smaller than the noise, but not by much
        assert 1.0 < row.smoothness / gaussian_smoothness(width=200, **known) < 4.0
        assert gaussian_smoothness(width=200, **known) > 1.5 * adversarial_smoothness(
            stable_rank=rank, **known
        )
