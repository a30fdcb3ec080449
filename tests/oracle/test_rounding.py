"""The bound that goes with logits, against logits in 60 digits: both programs, both precisions."""

import functools
import math
from fractions import Fraction

import exact_chain
import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound.sample.dataset import Scaling
from codebound_networks.about_f.rounding import RoundingBound
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import (
    AveragePool,
    Conv,
    Dictionary,
    GlobalAveragePool,
    Linear,
    LocalConv,
    MaxPool,
    NormalisedConv,
    Residual,
    Shifts,
)
from codebound_verify.networks import evaluation, operations, rounding
from codebound_verify.networks.chain import fit
from codebound_verify.networks.images.dictionary import features
from codebound_verify.networks.operations import Operation
from codebound_verify.networks.rounding import Rounded, Whole

CHAINS = {
    "linear": ((5,), [Linear(3, True)]),
    "three layers": ((6,), [Linear(7, True), Linear(5, False), Linear(3, True)]),
    "convolutions and pools": (
        (2, 7, 6),
        [Conv(3, 3, 1, 1, True), MaxPool(2), Conv(4, 2, 1, 0, False), AveragePool(2), Linear(3, True)],
    ),
    "strides": ((1, 7, 8), [Conv(3, 3, 2, 2, True), GlobalAveragePool(), Linear(3, False)]),
    "local convolution": ((2, 5, 4), [LocalConv(3, 3, 2, 1, True), Linear(3, True)]),
    "residuals": ((2, 5, 4), [Residual(2, True), Residual(5, False), GlobalAveragePool(), Linear(3, False)]),
    "normalised": ((2, 5, 4), [NormalisedConv(4, 3), MaxPool(2), NormalisedConv(3, 1), Linear(3, True)]),
    "dictionary": ((1, 4, 5), [Dictionary(3, 2), NormalisedConv(3, 3), Linear(3, False)]),
    "colours": ((3, 3, 3), [Dictionary(1, 2), Linear(3, False)]),
    "mirrored": ((2, 4, 3), [Shifts(1), Linear(4, True), Linear(3, True)]),
    "mirrored features": (
        (1, 2, 4),
        [Shifts(1), Dictionary(3, 2), NormalisedConv(3, 3), NormalisedConv(2, 1), Linear(3, False)],
    ),
    "moved": ((1, 4, 3), [Shifts(2), Linear(4, True), Linear(3, True)]),
    "straightened": ((2, 6, 5), [Shifts(3), Linear(4, True), Linear(3, True)]),
    "straightened and moved": ((1, 5, 5), [Shifts(4), NormalisedConv(2, 3), Linear(3, True)]),
}
SIZES = ("out", "kernel", "stride", "padding", "bias", "table", "pool")


def second(shape, operations):
    """The same chain in the second program."""
    found = []
    for operation in operations:
        sizes = {name: int(getattr(operation, name)) for name in SIZES if hasattr(operation, name)}
        views = {"views": operation.kind} if isinstance(operation, Shifts) else {}
        found.append(Operation(operation.name, **sizes, **views))
    return fit(found, shape, 3)


def drawn(name, seed, spread=0.0):
    """A chain of both programs with weights over so many powers of two, and a few inputs."""
    shape, operations = CHAINS[name]
    chain, random = Chain(shape, tuple(operations)), np.random.default_rng(seed)

    def numbers(size):
        scale = np.exp2(np.rint(random.uniform(-spread, spread, size)))
        return (random.normal(size=size) * scale).astype(np.float32)

    tensors = {key: numbers(size) for key, size in chain.tensor_shapes().items()}
    return chain, second(shape, operations), tensors, numbers((2, *shape)).astype(np.float64)


def parts(tensors, count):
    weights = [{} for _ in range(count)]
    for name, values in tensors.items():
        position, own = name.split(".", 1)
        weights[int(position)][own] = torch.from_numpy(values)
    return weights


def true_logits(chain, weights, x):
    return np.stack([exact_chain.logits(chain, weights, exact_chain.exact(example)) for example in x])


def excess(values, error, truth):
    """The largest error of a logit in units of its bound."""
    found = np.abs(exact_chain.exact(values.double().numpy()) - truth).max(axis=1)
    return max(
        float(off / bound) if bound else float(off > 0)
        for off, bound in zip(found, error.tolist(), strict=True)
    )


def every_excess(name, seed, spread=0.0):
    """Of the writer, and of the verifier: float64, and float32 with leading digits in the first layers."""
    ours, theirs, tensors, x = drawn(name, seed, spread)
    weights = parts(tensors, len(theirs.operations))
    truth = true_logits(theirs, weights, x)
    batch = torch.from_numpy(x)
    network = ours.build({key: torch.from_numpy(value) for key, value in tensors.items()})
    with torch.no_grad():
        carried = RoundingBound().logits(network.double(), batch, Scaling(1.0, (0.0,), (1.0,)))
    yield excess(*carried, truth)
    layers = evaluation.prepare(theirs, weights)
    yield excess(*evaluation.evaluate(theirs, layers, rounding.exact(batch)), truth)
    for used in evaluation.lead_layers(layers):
        yield excess(*evaluation.evaluate(theirs, used, rounding.exact(batch), dtype=torch.float32), truth)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("spread", [0.0, 9.0])
def test_no_logit_is_further_off_than_its_bound(name, spread):
    assert max(every_excess(name, 0, spread)) <= 1.0


@given(st.sampled_from(["three layers", "normalised", "straightened", "residuals"]), st.integers(0, 10**6))
@examples(12)
def test_no_logit_is_ever_further_off_than_its_bound(name, seed):
    assert max(every_excess(name, seed, spread=seed % 20)) <= 1.0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_bound_has_teeth(dtype, monkeypatch):
    """With a unit that is too small by 2^14 the same check fails."""
    monkeypatch.setitem(rounding.UNITS, dtype, rounding.UNITS[dtype] * 2.0**-14)
    _, chain, tensors, x = drawn("three layers", 0)
    weights = parts(tensors, 3)
    layers = evaluation.prepare(chain, weights)
    found = evaluation.evaluate(chain, layers, rounding.exact(torch.from_numpy(x)), dtype=dtype)
    assert excess(*found, true_logits(chain, weights, x)) > 1.0


def test_mirror_images_are_seen_through_filters_that_are_read_from_the_right(monkeypatch):
    """With the inputs of the filters in another order the same check fails."""
    assert max(every_excess("mirrored features", 1)) <= 1.0
    found = rounding.add_mirrored
    monkeypatch.setattr(operations, "add_mirrored", lambda layer, order: found(layer, sorted(order)))
    assert min(list(every_excess("mirrored features", 1))[1:]) > 1.0


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("spread", [0.0, 5.0])
def test_both_programs_carry_the_same_bound(name, spread):
    """So what the writer counts as right the verifier counts as right: its limit is twice as high."""
    ours, theirs, tensors, x = drawn(name, 3, spread)
    layers = evaluation.prepare(theirs, parts(tensors, len(theirs.operations)))
    verifier = evaluation.evaluate(theirs, layers, rounding.exact(torch.from_numpy(x))).error
    network = ours.build({key: torch.from_numpy(value) for key, value in tensors.items()})
    for cast in (network.double, network.float):  # the writer may take the lengths from float32
        dtype = next(cast().parameters()).dtype
        bound = RoundingBound()
        with torch.no_grad():
            found = bound.logits(network, torch.from_numpy(x).to(dtype), Scaling(1.0, (0.0,), (1.0,))).error
        assert (found >= 0.99 * verifier).all()
        assert (found <= 1.5 * verifier + _input_share(theirs, layers, x)).all()


def _input_share(chain, layers, x):
    """What the rounding of inputs adds, which the writer always counts."""
    batch = torch.from_numpy(x)
    error = 1.1 * rounding.gamma(4, torch.float64) * rounding.lengths(batch)
    return evaluation.evaluate(chain, layers, Rounded(batch, error)).error


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["dictionary", "colours"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_features_of_bytes_are_closer_than_others_and_within_their_bound(name, dtype):
    shape, operations = CHAINS[name]
    random = np.random.default_rng(1)
    x = random.integers(0, 256, (2, *shape), dtype=np.uint8)
    x[1] = 255 * (x[1] > 99)
    unit = 1 / 255
    scaled = Rounded(
        torch.from_numpy(x / 255), torch.full((2,), 1e-15), Whole(torch.from_numpy(x).float(), unit)
    )
    number, pool = operations[0].table, operations[0].pool
    ((found,), (plain,)) = (
        features(number, pool, each.to(dtype)) for each in (scaled, Rounded(scaled.values, scaled.error))
    )
    truth = np.stack(
        [exact_chain.features(number, pool, exact_chain.exact(example) / 255) for example in x]
    ).reshape(2, -1)
    for each in (found, plain):
        off = exact_chain.exact(each.values.double().flatten(1).numpy()) - truth
        lengths = [math.sqrt(sum(float(value) ** 2 for value in example)) for example in off]
        assert all(length <= bound for length, bound in zip(lengths, each.error.tolist(), strict=True))
    assert (found.error < plain.error).all()


def layer_excess(weight, bias, x):
    """How far sums with leading digits are off, in units of their bound; and that of the usual bound."""
    if weight.dim() == 4:
        layer = rounding.filter_layer(weight, bias, grid=(x.shape[2] + 2, x.shape[3] + 2))
        summed = functools.partial(torch.nn.functional.conv2d, padding=1)
    else:
        layer, summed = rounding.matrix_layer(weight, bias), torch.nn.functional.linear
    terms, seen = weight[0].numel(), rounding.exact(x)
    truth = layer.sums(seen.to(torch.float64), summed, terms=terms).values  # 2^29 times as exact
    pixels = truth[0, 0].numel()
    found = rounding.with_lead(layer).sums(seen, summed, terms=terms, pixels=pixels)
    plain = layer.error(seen, terms=terms, pixels=pixels)
    off = (found.values.double() - truth).flatten(1).norm(dim=1)
    return float((off / found.error).max()), float((found.error / plain).max())


def drawn_layer(seed, kernel, spread=0.0, scale=1.0):
    """Weight, bias and what is seen; a kernel of 0 stands for a linear map."""
    random, sides = np.random.default_rng(seed), (kernel, kernel) if kernel else ()

    def numbers(*size):
        found = random.normal(size=size) * np.exp2(np.rint(random.uniform(-spread, spread, size)))
        return torch.from_numpy((scale * found).astype(np.float32))

    return numbers(6, 40, *sides), numbers(6), numbers(5, 40, *(7, 5) if kernel else ()).relu()


@given(st.integers(0, 10**6), st.sampled_from([0, 3]), st.floats(0, 12), st.sampled_from([1e-25, 1.0, 1e9]))
@examples(40)
def test_leading_digits_are_within_their_bound(seed, kernel, spread, scale):
    excess, _ = layer_excess(*drawn_layer(seed, kernel, spread, scale))
    assert excess <= 1.0


def test_leading_digits_have_a_far_smaller_bound():
    _, share = layer_excess(*drawn_layer(0, 3))
    assert share < 0.05


@pytest.mark.parametrize("shape", [(4096,), (450, 3, 3)])
def test_the_bound_of_leading_digits_has_teeth(shape, monkeypatch):
    """Odd numbers whose sums have too many digits: they are off if their heads are not short enough."""
    weight, x = torch.ones(3, *shape), torch.full((2, *shape), 2.0**20 + 1)
    assert layer_excess(weight, None, x)[0] <= 1.0
    monkeypatch.setattr(rounding, "EXACT", 1 << 40)
    assert layer_excess(weight, None, x)[0] > 1.0


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", ["three layers", "strides", "local convolution", "residuals", "mirrored features"]
)
def test_weights_in_parts_change_nothing_but_the_last_digits(name, monkeypatch):
    """An output at a time: a layer that lost a part would have another norm and other sums."""
    _, chain, tensors, x = drawn(name, 5, spread=4.0)
    weights = parts(tensors, len(chain.operations))

    def found():
        ways = evaluation.lead_layers(evaluation.prepare(chain, weights))
        return [
            evaluation.evaluate(chain, way, rounding.exact(torch.from_numpy(x)), dtype=dtype)
            for way in ways
            for dtype in (torch.float64, torch.float32)
        ]

    whole = found()
    monkeypatch.setattr(rounding, "PART", 1)
    for one, other in zip(whole, found(), strict=True):
        torch.testing.assert_close(one.error, other.error, rtol=1e-4, atol=0)
        assert ((one.values - other.values).abs().amax(1) <= one.error + other.error).all()
    assert max(every_excess(name, 5, spread=4.0)) <= 1.0


@given(st.integers(0, 10**6), st.floats(0, 20), st.sampled_from([0, 3]))
@examples(20)
def test_heads_and_rests_are_the_weight_itself_and_the_heads_are_few_units(seed, spread, kernel):
    """In rationals: nothing is rounded, and no sum of heads and what they see is above 2^24 units."""
    weight, _, _ = drawn_layer(seed, kernel, spread)
    layer = (
        rounding.matrix_layer(weight, None)
        if not kernel
        else rounding.filter_layer(weight, None, grid=(9, 7))
    )
    lead = rounding.with_lead(layer).lead
    heads, rests = lead.weights(weight, lead.unit).flatten(1).tensor_split(2)
    for row, unit, head, rest in zip(weight.flatten(1), lead.unit.flatten(), heads, rests, strict=True):
        whole = [Fraction(value) / Fraction(float(unit)) for value in head.tolist()]
        assert all(value.denominator == 1 for value in whole)
        assert sum(map(abs, whole)) * math.floor(lead.reach) <= rounding.EXACT
        assert [Fraction(a) + Fraction(b) for a, b in zip(head.tolist(), rest.tolist(), strict=True)] == [
            Fraction(value) for value in row.tolist()
        ]


@given(
    st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 9), st.floats(0, 30), st.sampled_from([1, 7, 99])
)
@examples(30)
def test_the_norm_of_a_matrix_is_just_above_its_largest_singular_value(seed, rows, columns, spread, part):
    """In 60 digits, of matrices that are summed in parts of any size."""
    random = np.random.default_rng(seed)
    weight = (
        random.normal(size=(rows, columns)) * np.exp2(random.uniform(-spread, spread, (rows, columns)))
    ).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounding, "PART", part)
        found = rounding.matrix_norm(weight)
    truth = max(exact_chain.mp.svd_r(exact_chain.mp.matrix(weight.tolist()), compute_uv=False))
    assert truth <= found <= truth * (1 + 1.01 * rounding.SPECTRAL_ROUNDING)


def test_a_long_chain_has_few_ways_and_leading_digits_once(monkeypatch):
    """Ways whose number grows with the operations make the work of choosing one grow with their square."""
    made, with_lead = [], evaluation.with_lead
    monkeypatch.setattr(evaluation, "with_lead", lambda layer: made.append(layer) or with_lead(layer))
    chain = fit([Operation("linear", out=3)] * 200, (3,), 3)
    layers = evaluation.prepare(chain, [{"weight": torch.eye(3)}] * 200)
    ways = evaluation.lead_layers(layers)
    assert len(made) == 200
    counts = [sum(own[""].lead is not None for own in way) for way in ways]
    assert counts == [*range(8), 8, 16, 32, 64, 128]
