"""Vectors of columns, filters and patches, and pictures, against a slow reading of the page."""

import numpy as np
import picked_oracle as oracle
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound_verify.learn import maps
from codebound_verify.learn.exact import full_precision
from codebound_verify.learn.features import feature_map
from codebound_verify.learn.filters import FilterMap
from codebound_verify.learn.maps import levels, mirror
from codebound_verify.learn.patches import PatchMap
from codebound_verify.learn.rule import Filters, Patches, Rule
from codebound_verify.refusal import Refused
from codebound_verify.sample import Data


def smooth(shape, seed: int = 0) -> np.ndarray:
    """Smooth pictures with values 0 to 16, one of them dark and one bright."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 17, (*shape[:2], shape[2] // 2 + 1, shape[3] // 2 + 1))
    found = coarse.repeat(2, axis=2).repeat(2, axis=3)[:, :, : shape[2], : shape[3]]
    found = np.clip(found + random.integers(-2, 3, shape), 0, 16)
    found[0], found[1] = 0, 16
    return found.astype(np.uint8)


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
    weights = np.resize((4, 1, 2, 0, 1, 8, 3), len(values[0])).tolist()
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
        (maps.straighten, oracle.straightened),
        (maps.mirror, oracle.mirrored),
        (lambda x: maps.move(x, 1, -1), lambda x: oracle.moved(x, 1, -1)),
        (lambda x: maps.move(x, 0, 1), lambda x: oracle.moved(x, 0, 1)),
        (lambda x: maps.turn(x, 178), lambda x: oracle.turned(x, 178)),
        (lambda x: maps.turn(x, -178), lambda x: oracle.turned(x, -178)),
        (lambda x: maps.turn(x, 900), lambda x: oracle.turned(x, 900)),
    ],
)
def test_every_pixel(shape, own, slow):
    x = drawn(shape)
    assert own(x).tolist() == [slow(picture) for picture in x.tolist()]


@pytest.mark.parametrize("number", [0, 2, 3, 4, 5, 6, 7])
def test_copies_and_their_order(number):
    x = drawn((3, 3, 6, 5))
    found = np.stack(maps.copies_of(x, number), axis=1)
    assert found.tolist() == [oracle.copies(picture, number) for picture in x.tolist()]


@examples(100)
@given(st.floats(-1e300, 1e300), st.floats(1e-3, 1e3))
def test_levels(x, divisor):
    assert maps.levels(np.array([x]), divisor).tolist() == [oracle.level(x, divisor)]


@pytest.mark.parametrize(
    ("largest", "dtype", "divisor"),
    [
        (-1.0, np.float32, 1.0),
        (1.0, np.float64, 1.0),
        (1.0 + 2.0**-23, np.float32, 16.0),
        (16, np.uint8, 16.0),
        (17, np.uint8, 255.0),
        (255.0, np.float64, 255.0),
        (255.5, np.float64, None),
    ],
)
def test_the_divisor_is_that_of_the_first_rows(largest, dtype, divisor):
    x = np.full((5, 1, 6, 6), largest, dtype)
    x[1, 0, 0, 0] = -3 if x.dtype != np.uint8 else 0
    x[4] = 99  # not a first row
    rule = Rule(features=Filters(False, 3, 2), copies=0, gamma=1.0, ridge=1.0)
    data = Data(x, np.arange(5))
    if divisor is None:
        with pytest.raises(Refused, match="values up to 255"):
            feature_map(rule, data, np.arange(4))
        return
    prepared = feature_map(rule, data, np.arange(4)).prepare(x)
    assert prepared.tolist() == levels(x, divisor).tolist()
