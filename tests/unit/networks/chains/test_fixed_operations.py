"""The fixed operations of a chain beside plain loops: dictionary, views, normalised convolutions."""

import hashlib
import itertools
import json
import math
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from codebound.certificate.evaluate import count_errors
from codebound.learn.images import DictionaryFeatures, dictionary_channels
from codebound.run.errors import ModelError, UnsupportedLayerError
from codebound.sample.arrays import from_arrays
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.from_module import chain_of
from codebound_networks.chains.operations import (
    AveragePool,
    Conv,
    Dictionary,
    Linear,
    LocalConv,
    MaxPool,
    NormalisedConv,
    Shifts,
)
from codebound_networks.chains.shifts import shifts_of, straighten
from codebound_networks.methods.hidden_units import narrowed, without_biases, without_dead_units
from codebound_networks.reading.walk import wrap
from codebound_networks.train.pruning import PruneSettings, prune

ROOT = Path(__file__).parents[4]
FILE = files("codebound.learn") / "dictionaries.json"
BOOK = json.loads(FILE.read_text())


def test_the_tables_are_the_literal_ones_of_the_page():
    stated = re.findall(r"`([0-9a-f]{64})`", (ROOT / "docs/format.md").read_text())
    assert stated == [hashlib.sha256(FILE.read_bytes()).hexdigest()]
    assert (files("codebound_verify") / "dictionaries.json").read_bytes() == FILE.read_bytes()


def correlate(plane: np.ndarray, taps: np.ndarray) -> np.ndarray:
    """Zero-padded cross-correlation by its definition."""
    size = len(taps)
    padded = np.pad(plane, size // 2)
    return np.array(
        [
            [(padded[r : r + size, c : c + size] * taps).sum() for c in range(plane.shape[1])]
            for r in range(plane.shape[0])
        ]
    )


def pooled(plane: np.ndarray, pool: int) -> np.ndarray:
    height, width = (side // pool for side in plane.shape)
    return np.array(
        [
            [plane[r * pool : (r + 1) * pool, c * pool : (c + 1) * pool].mean() for c in range(width)]
            for r in range(height)
        ]
    )


def normalised(values: np.ndarray) -> np.ndarray:
    centred = values - values.mean()
    return centred / math.sqrt((centred**2).mean() + 1e-5)


def features(image: np.ndarray, table: int, pool: int) -> np.ndarray:
    """Section 5.5 for one image."""
    if len(image) == 3:
        r, g, b = image
        planes = [(r + g + b) / 3, r - g, (r + g) / 2 - b]
    else:
        planes = list(image)
    channels = []
    for plane in planes:
        for entry in BOOK[str(table)]:
            for parts in entry["filters"]:
                real, imaginary = (np.reshape(part, (entry["size"],) * 2) / 4096 for part in parts)
                size = np.sqrt(correlate(plane, real) ** 2 + correlate(plane, imaginary) ** 2)
                channels.append(2 * pooled(size, pool))
    channels += [pooled(plane, pool) for plane in planes]
    return normalised(np.array(channels))


def moved(image: np.ndarray, down: int, right: int) -> np.ndarray:
    result = np.zeros_like(image)
    for r in range(image.shape[1]):
        for c in range(image.shape[2]):
            if 0 <= r - down < image.shape[1] and 0 <= c - right < image.shape[2]:
                result[:, r, c] = image[:, r - down, c - right]
    return result


def upright(image: np.ndarray) -> np.ndarray:
    """Section 5.1, straightened, pixel by pixel."""
    channels, height, width = image.shape
    places = [(i, j) for i in range(height) for j in range(width)]
    p = {(i, j): sum(abs(image[c, i, j]) for c in range(channels)) for i, j in places}
    total = 1e-6 + sum(p.values())
    r = sum(p[i, j] * i for i, j in places) / total
    s = sum(p[i, j] * j for i, j in places) / total
    a = sum(p[i, j] * (i - r) * (j - s) for i, j in places)
    a /= 1e-3 + sum(p[i, j] * (i - r) ** 2 for i, j in places)
    result = np.zeros_like(image)
    for c, (i, j) in itertools.product(range(channels), places):
        t = j + a * (i - r)
        for k, share in ((math.floor(t), 1 - t + math.floor(t)), (math.floor(t) + 1, t - math.floor(t))):
            result[c, i, j] += share * image[c, i, k] if 0 <= k < width else 0.0
    return result


def all_views(image: np.ndarray, kind: int) -> list[np.ndarray]:
    if kind == 1:
        return [image, image[:, :, ::-1]]
    if kind > 2:
        image = upright(image)
    if kind == 3:
        return [image]
    return [image, *(moved(image, *way) for way in ((1, 0), (-1, 0), (0, 1), (0, -1)))]


def logits(chain: Chain, tensors: dict[str, np.ndarray], image: np.ndarray) -> np.ndarray:
    """Section 5.1 for one image, for the operations that occur here."""
    value, last = image, len(chain.operations) - 1
    for position, operation in enumerate(chain.operations):
        weight = tensors.get(f"{position}.weight")
        if isinstance(operation, Shifts):
            rest = Chain(chain.input_shape, chain.operations[1:])
            inner = {f"{int(n[0]) - 1}{n[1:]}": w for n, w in tensors.items()}
            return np.mean([logits(rest, inner, view) for view in all_views(image, operation.kind)], axis=0)
        if isinstance(operation, Dictionary):
            value = features(value, operation.table, operation.pool)
        elif isinstance(operation, NormalisedConv):
            maps = [
                sum(correlate(plane, taps) for plane, taps in zip(value, unit, strict=True))
                for unit in weight
            ]
            value = np.maximum(normalised(np.array(maps)), 0)
        elif isinstance(operation, AveragePool):
            value = np.array([pooled(plane, operation.kernel) for plane in value])
        else:
            value = weight @ value.ravel() + tensors.get(f"{position}.bias", 0.0)
            value = value if position == last else np.maximum(value, 0)
    return value


def random_tensors(chain: Chain, seed: int = 0) -> dict[str, torch.Tensor]:
    stream = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=stream, dtype=torch.float64)
        for name, shape in chain.tensor_shapes().items()
    }


@pytest.mark.parametrize("table", [1, 3])
@pytest.mark.parametrize(("shape", "pool"), [((1, 9, 7), 2), ((3, 6, 8), 3), ((2, 5, 5), 1), ((1, 1, 1), 1)])
def test_features_against_loops(table, shape, pool):
    x = np.random.default_rng(1).normal(size=(2, *shape))
    found = DictionaryFeatures(table, pool)(torch.from_numpy(x))
    assert found.shape[1] == dictionary_channels(table, shape[0])
    expected = np.array([features(image, table, pool) for image in x])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-11)
    narrow = DictionaryFeatures(table, pool)(torch.from_numpy(x).float())
    assert narrow.dtype == torch.float32
    np.testing.assert_allclose(narrow.numpy(), expected, atol=2e-4)


def test_an_example_does_not_depend_on_the_others_of_its_batch():
    x = torch.randn(7, 3, 12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    chain = Chain((3, 12, 12), (Shifts(1), Dictionary(1, 3), NormalisedConv(4, 3), Linear(3, True)))
    network = chain.build(random_tensors(chain))
    whole = network(x)
    for size in (1, 2, 3):
        torch.testing.assert_close(
            torch.cat([network(part) for part in x.split(size)]), whole, rtol=1e-9, atol=0
        )
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        torch.testing.assert_close(network(x), whole, rtol=1e-9, atol=0)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 3), (3, 4, 5), (1, 9, 6)])
def test_views_against_loops(kind, shape):
    x = np.random.default_rng(2).normal(size=(3, *shape))
    found = shifts_of(torch.from_numpy(x), kind)
    expected = zip(*(all_views(image, kind) for image in x), strict=True)
    for ours, theirs in zip(found, expected, strict=True):
        if kind < 3:
            assert (ours.numpy() == np.array(theirs)).all()
        np.testing.assert_allclose(ours.numpy(), np.array(theirs), rtol=1e-10, atol=1e-12)


@given(st.integers(0, 2**31), st.sampled_from([0.1, 1.0, 30.0]))
@examples(30)
def test_a_straightened_image_stays_one(seed, scale):
    """Nothing is invented: rows keep their range, their mass can only leave, and blank images stay blank."""
    x = scale * torch.rand(2, 2, 7, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x[0] = 0.0
    found = straighten(x)
    assert found.shape == x.shape
    assert not found[0].any()
    assert (found >= 0.0).all()
    assert (found.amax(-1) <= x.amax(-1) + 1e-9).all()
    torch.testing.assert_close(straighten(x[1:]), found[1:])


def test_a_leaning_stroke_stands_up():
    """Its columns no longer depend on the row, up to the interpolation."""
    x = torch.zeros(1, 1, 15, 21, dtype=torch.float64)
    for row in range(15):
        x[0, 0, row, 3 + row] = x[0, 0, row, 4 + row] = 1.0

    def slant(image: torch.Tensor) -> float:
        rows, columns = (image > 0.25).nonzero(as_tuple=True)
        return float(np.polyfit(rows, columns, 1)[0])

    assert slant(x[0, 0]) == pytest.approx(1.0)
    assert abs(slant(straighten(x)[0, 0])) < 0.05


CHAINS = {
    "all": ((3, 8, 8), (Shifts(2), Dictionary(3, 2), NormalisedConv(3, 3), AveragePool(2), Linear(4, True))),
    "mirror": ((1, 5, 6), (Shifts(1), NormalisedConv(2, 5), NormalisedConv(3, 1), Linear(2, False))),
    "views alone": ((2, 3, 3), (Shifts(2), Linear(3, True), Linear(2, True))),
    "upright": ((1, 8, 6), (Shifts(3), Dictionary(1, 2), NormalisedConv(3, 1), Linear(3, False))),
    "upright and moved": ((1, 6, 6), (Shifts(4), NormalisedConv(2, 3), Linear(4, False), Linear(3, False))),
    "features alone": ((1, 6, 6), (Dictionary(1, 3), Linear(2, False))),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CHAINS)
def test_chains_against_loops(name):
    chain = Chain(*CHAINS[name])
    tensors = random_tensors(chain)
    x = np.random.default_rng(3).normal(size=(2, *chain.input_shape))
    network = chain.build(tensors)
    assert list(network.state_dict()) == list(chain.tensor_shapes())
    plain = {part: tensor.numpy() for part, tensor in tensors.items()}
    expected = [logits(chain, plain, image) for image in x]
    np.testing.assert_allclose(network(torch.from_numpy(x)).detach(), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", CHAINS)
def test_a_built_network_is_recognised_again(name):
    chain = Chain(*CHAINS[name])
    network = chain.build({part: tensor.float() for part, tensor in random_tensors(chain).items()})
    again, tensors = chain_of(network, chain.input_shape)
    assert again == chain
    assert all(torch.equal(tensors[part], value) for part, value in network.state_dict().items())
    wrapped = wrap(network, strict=True)
    assert [f"{view.name}.weight" for view in wrapped.layers] == [
        part for part in tensors if part.endswith("weight")
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "layers",
    [
        (nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.GroupNorm(2, 2, affine=False)),
        (nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.GroupNorm(1, 2)),
        (nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.GroupNorm(1, 2, eps=1e-3, affine=False)),
        (nn.Conv2d(1, 2, 3, padding=1), nn.GroupNorm(1, 2, affine=False)),
        (nn.Conv2d(1, 2, 3, bias=False), nn.GroupNorm(1, 2, affine=False)),
        (nn.Conv2d(1, 2, 2, padding=1, bias=False), nn.GroupNorm(1, 2, affine=False)),
        (nn.GroupNorm(1, 1, affine=False),),
    ],
)
def test_other_norms_are_no_chain(layers):
    model = nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    model(torch.zeros(1, 1, 4, 4))
    with pytest.raises(UnsupportedLayerError, match="GroupNorm"):
        chain_of(model, (1, 4, 4))


MISPLACED = {
    "views in the middle": (NormalisedConv(1, 1), Shifts(1)),
    "views twice": (Shifts(1), Shifts(1)),
    "features in the middle": (NormalisedConv(1, 1), Dictionary(1, 1)),
    "features twice": (Dictionary(1, 1), Dictionary(1, 1)),
    "features after views and more": (Shifts(1), MaxPool(1), Dictionary(1, 1)),
    "unknown features": (Dictionary(2, 1),),
    "unknown views": (Shifts(5),),
    "an even window": (NormalisedConv(2, 4),),
    "a window larger than the image": (Dictionary(1, 5),),
}


@pytest.mark.parametrize("name", MISPLACED)
def test_what_does_not_fit_is_refused(name):
    with pytest.raises(ModelError):
        Chain((1, 4, 4), (*MISPLACED[name], Linear(2, False)))


@given(st.integers(0, 2**31), st.sampled_from([0.1, 0.4]))
@examples(40)
def test_dead_units_around_a_normalised_convolution(seed, density):
    """Small integers in float64. A unit before it may go; one of its own may not: the mean would change."""
    chain = Chain(
        (1, 4, 4),
        (Shifts(1), Conv(4, 3, 1, 1, False), NormalisedConv(3, 3), Conv(3, 1, 1, 0, False), Linear(2, False)),
    )
    stream = torch.Generator().manual_seed(seed)
    tensors = {
        name: torch.randint(-2, 3, shape, generator=stream).double()
        * (torch.rand(shape, generator=stream) < density)
        for name, shape in chain.tensor_shapes().items()
    }
    x = torch.randint(-3, 4, (5, 1, 4, 4), generator=stream).double()
    small, alive = without_dead_units(chain, tensors)
    assert small.operations[2] == NormalisedConv(3, 3)
    torch.testing.assert_close(small.build(alive)(x), chain.build(tensors)(x), rtol=1e-12, atol=1e-12)
    narrow, kept = narrowed(chain, tensors, 2)
    assert [operation.out for operation in narrow.operations[1:]] == [2, 3, 2, 2]
    assert {name: tuple(tensor.shape) for name, tensor in kept.items()} == narrow.tensor_shapes()


def test_a_local_convolution_is_not_skipped_over():
    chain = Chain((1, 4, 4), (Conv(3, 1, 1, 0, True), LocalConv(2, 1, 1, 0, True), Linear(2, True)))
    assert narrowed(chain, random_tensors(chain), 1)[0] == chain
    assert not any(name.endswith("bias") for name in without_biases(chain).tensor_shapes())


@pytest.mark.thorough
def test_pruning_and_counting_work_on_a_built_network():
    stream = np.random.default_rng(0)
    y = stream.integers(0, 2, 64)
    x = (stream.random((64, 1, 8, 8)) * 60 + 195 * (np.arange(8) // 4 == y[:, None])[:, None, None]).astype(
        np.uint8
    )
    sample = from_arrays(x, y, name="halves").on("cpu")
    chain = Chain((1, 8, 8), (Shifts(2), Dictionary(1, 2), NormalisedConv(4, 3), Linear(2, False)))
    weights = {name: tensor.float() / 8 for name, tensor in random_tensors(chain).items()}
    plan = PruneSettings(keep=100, epochs=30, batch_size=16, learning_rate=0.03)
    found = prune(chain.build(weights), list(weights), sample, plan)
    decoded = chain.build(
        {name: each.integers.float() * 2 ** (each.step / 8) for name, each in found.items()}
    )
    assert count_errors(decoded, sample) <= 6
