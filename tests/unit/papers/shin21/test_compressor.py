"""Heavy tails: the split, thresholds and probabilities, noise of the right size, code, redrawn entries."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, pareto
from torch import nn
from worlds.networks import mlp
from worlds.samples import random_labels

from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound_networks.codes.quantization import step_size
from codebound_networks.reading.walk import wrap
from codebound_networks.train.rng import torch_stream
from codebound_networks.views.rebuild import with_weights
from codebound_networks.views.zoo import build
from codebound_papers.compress.codes import Filled
from codebound_papers.compress.compressors import compress
from codebound_papers.compress.methods import heavytail
from codebound_papers.shin21.compressor import (
    Corrected,
    GaussianFill,
    Published,
    ScaleFree,
    StandardDeviation,
    count_tail_bound,
    product_tail,
    published_product_tail,
    published_spread,
    replace_bulk,
    replace_small,
    replacement_trials,
    split,
    split_signed,
    spread,
)


def heavy(shape, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_t(2.0, size=shape)).float()


@given(st.integers(0, 2**32), st.floats(0.0, 5.0))
def test_bulk_and_tail_add_up_and_do_not_overlap(seed, threshold):
    matrix = heavy((7, 5), seed)
    for parts in (split(matrix, threshold), split_signed(matrix, threshold)):
        assert torch.equal(parts.bulk + parts.tail, matrix)
        assert not (parts.bulk * parts.tail).any()
    assert (split(matrix, threshold).bulk.abs() <= threshold).all()
    assert (split(matrix, threshold).tail[matrix.abs() > threshold] != 0).all()
    assert not split_signed(matrix, threshold).tail[matrix < 0].any()


def test_replace_bulk_adds_noise_of_the_given_variance_and_mean_everywhere():
    parts = split(heavy((300, 200)), 1.0)
    found = replace_bulk(parts, variance=0.09, mean=0.5, generator=torch_stream(0, "noise")) - parts.tail
    assert float(found.mean()) == pytest.approx(0.5, abs=6 * 0.3 / math.sqrt(60_000))
    assert float(found.var()) == pytest.approx(0.09, rel=6 * math.sqrt(2 / 60_000))
    on_tail = found[parts.tail != 0]
    assert float(on_tail.var()) == pytest.approx(0.09, rel=6 * math.sqrt(2 / on_tail.numel()))
    assert torch.equal(replace_bulk(parts, variance=0.0, generator=torch_stream(0, "noise")), parts.tail)


def test_thresholds_follow_their_formulas():
    matrix = heavy((30, 20))
    epsilon, eta, t = 3.0, 0.05, 0.5
    norm = float(matrix.double().norm())
    rules = {
        StandardDeviation(): float(np.std(matrix.double().numpy())),
        Published(epsilon, eta): math.sqrt(9.0 / math.log(60.0) - t),
        Corrected(epsilon, eta): math.sqrt(9.0 / (2.0 * math.log(40.0)) - t),
        ScaleFree(epsilon, eta): math.sqrt(9.0 * norm**2 / (2.0 * math.log(40.0)) - t),
    }
    for rule, expected in rules.items():
        assert rule.of(matrix, variance=t) == pytest.approx(expected)


def test_the_scale_free_threshold_keeps_the_same_entries_at_every_scale():
    """S-E8: a fixed threshold does not."""
    matrix = heavy((30, 20))
    rule = ScaleFree(0.1, 0.05)
    kept = [
        split(scale * matrix, rule.of(scale * matrix, variance=0.0)).tail != 0 for scale in (0.125, 1.0, 64.0)
    ]
    assert torch.equal(kept[0], kept[1])
    assert torch.equal(kept[1], kept[2])
    fixed = Corrected(3.0, 0.05)  # teeth
    assert not torch.equal(
        split(matrix, fixed.of(matrix, variance=0.0)).tail != 0,
        split(64.0 * matrix, fixed.of(64.0 * matrix, variance=0.0)).tail != 0,
    )


def test_spread_inverts_the_tail_bound_and_the_published_one_does_not():
    for eta in (0.3, 0.05, 1e-6):
        total = spread(2.0, eta)
        assert product_tail(2.0, threshold=math.sqrt(total), variance=0.0) == pytest.approx(eta)
        assert product_tail(2.0, threshold=0.0, variance=total) == pytest.approx(eta)
        published = math.sqrt(published_spread(2.0, eta))
        assert published_product_tail(2.0, threshold=published, variance=0.0) > eta


@pytest.mark.parametrize(("threshold", "variance"), [(1.0, 0.0), (1.0, 0.5), (0.2, 1.0)])
def test_symmetric_bounded_entries_stay_within_the_corrected_tail(threshold, variance):
    """The worst case: entries +-tau and flat vectors."""
    stream = np.random.default_rng(0)
    entries, reps = 120, 10_000
    signs = stream.choice([-threshold, threshold], size=(reps, entries))
    noise = math.sqrt(variance) * stream.normal(size=(reps, entries))
    products = np.abs((signs - noise).sum(axis=1)) / math.sqrt(entries)
    deviation = math.hypot(threshold, math.sqrt(variance))
    for size in (deviation, 2.0 * deviation, 2.5 * deviation, 3.0 * deviation):
        allowed = product_tail(size, threshold=threshold, variance=variance)
        assert binom.sf((products > size).sum() - 1, reps, allowed) > 1e-9
    # teeth: with half of tau^2 + t, as in the published statement, the same check fails
    halved = product_tail(2.5 * deviation, threshold=deviation / math.sqrt(2.0), variance=0.0)
    assert binom.sf((products > 2.5 * deviation).sum() - 1, reps, halved) < 1e-9


@given(st.integers(1, 300), st.data(), st.floats(0.001, 0.999))
def test_count_tail_bound_is_the_printed_product_and_never_below_the_tail(entries, data, probability):
    count = data.draw(st.integers(0, entries))
    bound = count_tail_bound(count, entries=entries, probability=probability)
    assert bound >= binom.sf(count - 1, entries, probability) * (1 - 1e-9)
    if entries * probability < count < entries:
        printed = count * math.log(entries * probability / count) + (entries - count) * math.log(
            (1 - probability) / (1 - count / entries)
        )
        assert bound == pytest.approx(math.exp(printed), rel=1e-9)
    elif count <= entries * probability:
        assert bound == 1.0


def test_the_tail_of_a_power_law_is_as_sparse_as_predicted():
    """S-Prop1.2 on Pareto entries, whole matrices and rows; teeth: an index that is a tenth too large."""
    alpha, w_m, tau, rows, columns, reps = 2.0, 1.0, 2.0, 20, 50, 300
    stream = np.random.default_rng(0)
    entries = pareto.rvs(alpha, scale=w_m, size=(reps, rows, columns), random_state=stream)
    counts = (split(torch.from_numpy(entries), tau).tail != 0).sum(dim=2).numpy()
    share = (w_m / tau) ** alpha

    def is_plausible(found, size, probability):
        limit = next(
            k for k in range(size) if count_tail_bound(k, entries=size, probability=probability) < 0.05
        )
        return binom.sf((found >= limit).sum() - 1, found.size, 0.05) > 1e-9

    assert is_plausible(counts.sum(axis=1), rows * columns, share)
    assert is_plausible(counts.ravel(), columns, share)
    assert not is_plausible(counts.sum(axis=1), rows * columns, (w_m / tau) ** (1.3 * alpha))


def heavy_network(seed: int = 0):
    first, second = nn.Linear(60, 50), nn.Linear(50, 8)
    with torch.no_grad():
        first.weight.copy_(0.1 * heavy((50, 60), seed) + 0.03)
        second.weight.copy_(0.1 * heavy((8, 50), seed + 1))
    return wrap(nn.Sequential(first, nn.ReLU(), second).eval())


def test_without_noise_it_is_magnitude_pruning():
    net = heavy_network()
    for layer, view in zip(heavytail(net, threshold=0.2).layers, net.layers, strict=True):
        assert not isinstance(layer.code, Filled)
        assert not layer.weight[view.weight.abs() <= 0.2].any()


def test_noise_is_coded_with_its_mean_and_deviation():
    net = heavy_network()
    view, t = net.layers[0], 0.01
    plain = heavytail(net, threshold=0.2).layers[0].weight
    noisy = heavytail(net, threshold=0.2, variance=t).layers[0]
    centred = heavytail(net, threshold=0.2, variance=t, mask="centred").layers[0]
    noise = (noisy.weight - plain).double()
    n = noise.numel()
    assert isinstance(noisy.code, Filled)
    assert float(noise.mean()) == pytest.approx(0.0, abs=6 * math.sqrt(t / n))
    assert float(noise.std()) == pytest.approx(math.sqrt(t), rel=0.045 + 6 * math.sqrt(1 / (2 * n)))
    bulk = split(view.weight, 0.2).bulk
    shift = float((centred.weight - noisy.weight).double().mean())
    step = step_size(centred.code.filling.step)
    assert shift == pytest.approx(float(bulk.double().mean()), abs=0.51 * step)
    assert centred.code.filling.everywhere


def test_a_mean_without_noise_is_a_mean_with_hardly_any():
    net = heavy_network()
    layer = heavytail(net, threshold=0.2, mask="centred").layers[0]
    mean = float(split(net.layers[0].weight, 0.2).bulk.double().mean())
    added = layer.weight - heavytail(net, threshold=0.2).layers[0].weight
    assert float(added.mean()) == pytest.approx(mean, rel=1e-4)
    assert float(added.std()) < 1e-4 * abs(mean)


def test_the_deviation_is_the_nearest_coded_one():
    for deviation in (1e-3, 0.02, 0.5, 3.0):
        code = heavytail(heavy_network(), variance=deviation**2).layers[0].code
        assert abs(math.log2(64 * step_size(code.filling.step) / deviation)) <= 1 / 16 + 1e-9


@pytest.mark.parametrize(
    "wrong",
    [
        {"variance": -1.0},
        {"mask": "both"},
        {"threshold": -0.1},
        {"threshold": float("nan")},
        {"threshold": Published(0.1, 0.05), "variance": 1.0},
        {"threshold": Corrected(1.0, 1.5)},
        {"levels": 2},
    ],
)
def test_options_outside_their_range_are_refused(wrong):
    with pytest.raises(UsageError):
        heavytail(heavy_network(), **wrong)


def test_counts_outside_their_range_are_refused():
    with pytest.raises(UsageError):
        count_tail_bound(5, entries=4, probability=0.1)


def random_sample(shape=(10,), n: int = 200):
    return random_labels(n, shape=shape).on("cpu")


def classifier():
    return mlp(10, 30, 4).eval()


def test_only_the_small_entries_are_redrawn_with_the_moments_of_all():
    matrix = 0.5 + torch.randn(300, 200, generator=torch_stream(0, "entries"))
    mean, std = matrix.double().mean(), matrix.double().std(correction=0)
    found = replace_small(matrix, generator=torch_stream(1, "draws"))
    small = matrix.abs() <= std
    assert torch.equal(found[~small], matrix[~small])
    draws = found[small].double()
    error = 6 / np.sqrt(draws.numel())
    assert float(draws.mean()) == pytest.approx(float(mean), abs=error)
    assert float(draws.std()) == pytest.approx(float(std), abs=error)
    # the replaced part had a smaller variance than it gets
    assert float(matrix[small].std()) < 0.7 * float(draws.std())


def test_trials_are_the_accuracies_of_rebuilt_networks():
    model, data = classifier(), random_sample()
    found = replacement_trials(wrap(model), data, trials=4, seed=3, chunk_size=64)
    for trial, accuracy in enumerate(found.accuracies):
        weight = replace_small(model[2].weight.detach(), generator=torch_stream(3, f"trial {trial}"))
        other = with_weights(model, {**model.state_dict(), "2.weight": weight})
        with torch.no_grad():
            assert accuracy == float((other(data.x).argmax(1) == data.y).double().mean())
    with torch.no_grad():
        assert found.original == float((model(data.x).argmax(1) == data.y).double().mean())
    assert found.mean == pytest.approx(np.mean(found.accuracies))
    assert found.deviation == pytest.approx(np.std(found.accuracies))
    weight = model[2].weight.detach()
    assert found.kept == int((weight.abs() > weight.double().std(correction=0)).sum())
    assert (found.layer, found.entries) == ("2", 120)


def test_trials_repeat_and_differ_between_seeds_and_masks():
    net, data = wrap(classifier()), random_sample()
    first, again = (replacement_trials(net, data, seed=1) for _ in range(2))
    assert first == again
    assert len(first.accuracies) == 10
    assert first != replacement_trials(net, data, seed=2)
    signed = replacement_trials(net, data, seed=1, mask="signed")
    assert signed.kept < 0.7 * first.kept


def test_a_convolutional_network_and_a_residual_one():
    for spec, shape in (("lenet5", (1, 8, 8)), ("resnet20", (3, 32, 32))):
        net = wrap(build(spec, input_shape=shape, classes=4))
        found = replacement_trials(net, random_sample(shape, n=8), trials=2)
        assert found.entries == net.layer(found.layer).weight.numel()


def test_a_network_that_does_not_end_in_a_linear_layer_is_refused():
    model = nn.Sequential(nn.Linear(10, 4), nn.ReLU())
    with pytest.raises(UnsupportedLayerError, match=r"last step.*1 \(activation\)"):
        replacement_trials(wrap(model), random_sample())
    with pytest.raises(UsageError):
        replacement_trials(wrap(classifier()), random_sample(), trials=0)
    with pytest.raises(UsageError, match="mask"):
        replacement_trials(wrap(classifier()), random_sample(), mask="centred")
    with pytest.raises(UsageError, match="mask"):
        GaussianFill(mask="centred")


def test_the_coded_variant_fills_the_same_places_with_the_same_moments():
    model = nn.Sequential(nn.Linear(200, 100))
    with torch.no_grad():
        model[0].weight.normal_(0.2, 1.0, generator=torch_stream(0, "weights"))
    weight = model[0].weight.detach()
    (layer,) = compress(wrap(model), GaussianFill(levels=255), layers=["0"]).layers
    assert isinstance(layer.code, Filled)
    small = weight.abs() <= weight.double().std(correction=0)
    assert float((layer.weight - weight)[~small].abs().max()) < 0.03
    draws = layer.weight[small].double()
    assert float(draws.mean()) == pytest.approx(0.2, abs=0.05)
    assert float(draws.std()) == pytest.approx(1.0, abs=0.045 + 0.05)
    assert abs(float(np.corrcoef(draws, weight[small])[0, 1])) < 0.06
