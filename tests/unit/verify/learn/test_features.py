"""Vectors of columns, filters and patches, and pictures, against a slow reading of the page."""

import numpy as np
import picked_oracle as oracle
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound_verify.learn import pictures
from codebound_verify.learn.columns import ColumnMap, DirectionMap
from codebound_verify.learn.exact import SINGLE, full_precision
from codebound_verify.learn.filters import FilterMap
from codebound_verify.learn.kernel import compute_weights
from codebound_verify.learn.patches import PatchMap
from codebound_verify.learn.pictures import levels, mirror
from codebound_verify.learn.rule import Columns, Filters, Patches
from codebound_verify.refusal import Refused


def inputs(shape, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    found = random.normal(size=shape) * np.exp(random.normal(size=shape))
    found[0] = 0
    found[..., 0] = 3.0  # a column that says nothing
    found[..., 1] = random.random(shape[:-1]) < 0.05  # and one that says something rarely
    return found


def smooth(shape, seed: int = 0) -> np.ndarray:
    """Smooth pictures with values 0 to 16, one of them dark and one bright."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 17, (*shape[:2], shape[2] // 2 + 1, shape[3] // 2 + 1))
    found = coarse.repeat(2, axis=2).repeat(2, axis=3)[:, :, : shape[2], : shape[3]]
    found = np.clip(found + random.integers(-2, 3, shape), 0, 16)
    found[0], found[1] = 0, 16
    return found.astype(np.uint8)


@pytest.mark.parametrize("shape", [(40, 5), (30, 1, 3, 4)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_columns(shape, dtype):
    x = inputs(shape).astype(dtype)
    flat = x.reshape(len(x), -1).astype(float).tolist()
    first = x[5:27]
    features = ColumnMap(first)
    assert features.vectors(x).tolist() == oracle.column_vectors(flat[5:27], flat, normalised=False)
    directions = DirectionMap(x[0].size)
    assert directions.vectors(x).tolist() == oracle.column_vectors([], flat, normalised=True)


@pytest.mark.parametrize("weights", [(4, 0, 1, 2, 2), (0, 0, 1, 0, 0), (2, 2, 2, 2, 2)])
def test_columns_below_a_layer(weights):
    x = inputs((40, 5))
    flat = x.tolist()
    features = ColumnMap(x[5:27])
    features.weigh(np.array(weights, float))
    found = oracle.column_vectors(flat[5:27], flat, normalised=False, weights=list(weights))
    assert features.vectors(x).tolist() == found
    assert max(sum(v * v for v in row) for row in found) <= SINGLE
    total = sum(w * w for w in weights)
    assert features.squared_scale == total * ((4095 - 5**0.5 / 2) // (4 * total**0.5)) ** 2
    directions = DirectionMap(5)
    directions.weigh(np.array(weights, float))
    found = oracle.column_vectors([], flat, normalised=True, weights=list(weights))
    assert directions.vectors(x).tolist() == found


@pytest.mark.parametrize("power", [1, 2, 3])
def test_computed_weights(power):
    """Section 10.4 of version 3, a number at a time; the last columns say much, nothing and all."""
    random = np.random.default_rng(power)
    labels = random.integers(0, 4, 70)
    labels[labels == 2] = 1
    numbers = random.integers(-1024, 1025, (70, 6)).astype(float)
    numbers[:, 3] += 700 * labels
    numbers[:, 4], numbers[:, 5] = 5, 9 * labels
    wanted = oracle.computed_weights(numbers.astype(int).T.tolist(), labels.tolist(), power)
    found = compute_weights(power, labels, lambda chosen: np.array_split(numbers[chosen], 3))
    assert found.tolist() == wanted
    far = compute_weights(power, labels * 10**15, lambda chosen: [numbers[chosen]])  # and take no room
    assert far.tolist() == wanted
    assert wanted[5] == 8 > wanted[3] > wanted[0]
    assert wanted[4] == 0
    assert compute_weights(power, labels, lambda chosen: [np.ones((len(chosen), 2))]).tolist() == [1, 1]


def test_weights_that_leave_no_room_are_refused():
    x = np.zeros((1, 1 << 16))
    features = ColumnMap(x)
    features.weigh(np.full(1 << 16, 3.0))
    assert features.squared_scale > 0
    with pytest.raises(Refused, match="too much"):
        features.weigh(np.full(1 << 16, 4.0))


def test_no_vector_is_too_long_for_float32():
    for d in (1, 2, 64, 3072, 65536):
        x = np.random.default_rng(d).normal(size=(3, d)) * 1e9
        x[1] = 1.0
        for found in (DirectionMap(d).vectors(x), ColumnMap(x[:1]).vectors(x)):
            assert (found.astype(np.int64) ** 2).sum(axis=1).max() <= SINGLE


@pytest.mark.few(2)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize(("dictionary", "pool"), [(3, 2), (1, 3)])
def test_filters(channels, straight, dictionary, pool):
    x = smooth((4, channels, 6, 7), seed=channels)
    features = FilterMap(Filters(straight, dictionary, pool), x[:3], divisor=16.0)
    values = [
        oracle.filter_values(picture, straight=straight, dictionary=dictionary, pool=pool)
        for picture in levels(x, 16.0).tolist()
    ]
    assert features.vectors(features.prepare(x)).tolist() == oracle.ended(values[:3], values)
    weights = np.resize((4, 0, 1, 2, 1), len(values[0])).tolist()
    features.weigh(np.array(weights, float))
    assert features.vectors(features.prepare(x)).tolist() == oracle.ended(values[:3], values, weights)


def test_groups_of_a_layer():
    """Section 10.4 of version 3, a number at a time."""
    columns = Columns(normalised=False).groups((2, 3), windows=False)
    assert columns.tolist() == list(range(6))
    filters, windows = Filters(True, 3, 2), 3 * 2
    size = filters.dimension((3, 6, 5))
    assert filters.groups((3, 6, 5), windows=False).tolist() == [at // windows for at in range(size)]
    assert filters.groups((3, 6, 5), windows=True).tolist() == [at % windows for at in range(size)]
    for grid, half in ((2, [0, 0]), (3, [0, 1, 0]), (4, [0, 1, 1, 0]), (5, [0, 1, 2, 1, 0])):
        patches = Patches(3, 256, 1, grid, 2**-7, 0)
        wanted = [i * (max(half) + 1) + half[j] for _ in range(512) for i in range(grid) for j in range(grid)]
        assert patches.groups((1, 9, 9), windows=False).tolist() == wanted


GREY, COLOUR = Patches(3, 256, 1, 2, 2**-7, 0), Patches(3, 256, 3, 3, 2**-11, 2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("channels", "choice", "is_mirrored"), [(1, GREY, False), (1, GREY, True), (3, COLOUR, True)]
)
def test_patches(channels, choice, is_mirrored):
    x = smooth((11, channels, 8, 9), seed=3)
    first = 10
    features = PatchMap(choice, x[:first], divisor=16.0, is_mirrored=is_mirrored)
    shown = levels(x, 16.0).tolist()
    bank = oracle.Bank(
        shown[:first],
        size=choice.size,
        filters=choice.filters,
        whitening=choice.whitening,
        seed=choice.seed,
        is_mirrored=is_mirrored,
    )
    values = [bank.values(picture, threshold=choice.threshold, grid=choice.grid) for picture in shown]
    images = [
        bank.values(oracle.mirrored(picture), threshold=choice.threshold, grid=choice.grid)
        for picture in shown[:first]
        if is_mirrored
    ]
    assert features.vectors(levels(x, 16.0)).tolist() == oracle.ended(values[:first] + images, values)
    groups = choice.groups(x.shape[1:], windows=False)
    weights = [(4, 1, 2, 0, 1, 4)[group] for group in groups]
    features.weigh(np.array(weights, float))
    assert features.vectors(levels(x, 16.0)).tolist() == oracle.ended(
        values[:first] + images, values, weights
    )


def test_the_vector_of_a_mirror_image_is_a_permuted_one():
    x = smooth((30, 3, 9, 8))
    features = PatchMap(Patches(4, 256, 2, 3, 2**-9, 1), x[:20], divisor=16.0, is_mirrored=True)
    shown = levels(x, 16.0)
    assert (features.mirror(features.vectors(shown)) == features.vectors(mirror(shown))).all()


def test_too_few_patches_are_refused():
    x = np.zeros((20, 1, 8, 8), np.uint8)
    with pytest.raises(Refused, match="256 patches are needed; the first pictures have 0"):
        PatchMap(Patches(3, 256, 1, 2, 2**-7, 0), x, divisor=16.0, is_mirrored=False)


def test_a_program_that_wants_fast_products_gets_exact_ones():
    import torch

    torch.set_float32_matmul_precision("medium")
    try:
        with full_precision():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def drawn(shape, seed: int = 0) -> np.ndarray:
    """Random pictures, and among them dark, bright and sparse ones."""
    random = np.random.default_rng(seed)
    found = random.integers(0, 256, shape)
    found[0], found[1] = 0, 255
    found[2] *= random.random(shape[1:]) < 0.2
    return found.astype(np.uint8)


@pytest.mark.parametrize("shape", [(6, 1, 8, 8), (5, 3, 5, 7), (4, 1, 3, 12)])
@pytest.mark.parametrize(
    ("own", "slow"),
    [
        (pictures.straighten, oracle.straightened),
        (pictures.mirror, oracle.mirrored),
        (lambda x: pictures.move(x, 1, -1), lambda x: oracle.moved(x, 1, -1)),
        (lambda x: pictures.move(x, 0, 1), lambda x: oracle.moved(x, 0, 1)),
        (lambda x: pictures.turn(x, 178), lambda x: oracle.turned(x, 178)),
        (lambda x: pictures.turn(x, -178), lambda x: oracle.turned(x, -178)),
        (lambda x: pictures.turn(x, 900), lambda x: oracle.turned(x, 900)),
    ],
)
def test_every_pixel(shape, own, slow):
    x = drawn(shape)
    assert own(x).tolist() == [slow(picture) for picture in x.tolist()]


@pytest.mark.parametrize("number", [0, 2, 3, 4, 5, 6, 7])
def test_copies_and_their_order(number):
    x = drawn((3, 3, 6, 5))
    found = np.stack(pictures.copies_of(x, number), axis=1)
    assert found.tolist() == [oracle.copies(picture, number) for picture in x.tolist()]


@examples(100)
@given(st.floats(-1e300, 1e300), st.floats(1e-3, 1e3))
def test_levels(x, divisor):
    assert pictures.levels(np.array([x]), divisor).tolist() == [oracle.level(x, divisor)]
