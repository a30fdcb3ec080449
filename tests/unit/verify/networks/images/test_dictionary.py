"""Dictionaries and normalised convolutions against loops over pixels; chains with them and with views."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from worlds.literal import forward

import codebound_verify
from codebound_verify.learn import dictionaries
from codebound_verify.networks import operations
from codebound_verify.networks.chain import fit
from codebound_verify.networks.images import batches, dictionary
from codebound_verify.networks.operations import Operation
from codebound_verify.networks.rounding import Rounded, Whole
from codebound_verify.refusal import Refused

FILE = Path(codebound_verify.__file__).parent / "dictionaries.json"
LAST = Operation("linear", out=4)


def correlated(plane: np.ndarray, taps: np.ndarray) -> np.ndarray:
    """The zero-padded cross-correlation of one plane, pixel by pixel."""
    reach = len(taps) // 2
    padded = np.pad(plane, reach)
    result = np.empty_like(plane)
    for i, j in np.ndindex(plane.shape):
        result[i, j] = (padded[i : i + len(taps), j : j + len(taps)] * taps).sum()
    return result


def averaged(plane: np.ndarray, pool: int) -> np.ndarray:
    height, width = (side // pool for side in plane.shape)
    return plane[: height * pool, : width * pool].reshape(height, pool, width, pool).mean(axis=(1, 3))


def normalised(values: np.ndarray) -> np.ndarray:
    centred = values - values.mean()
    return centred / np.sqrt((centred**2).mean() + 1e-5)


def features(image: np.ndarray, number: int, pool: int) -> np.ndarray:
    """Section 5.5, from the file itself."""
    planes = list(image)
    if len(planes) == 3:
        r, g, b = planes
        planes = [(r + g + b) / 3, r - g, (r + g) / 2 - b]
    channels = []
    for plane in planes:
        for table in json.loads(FILE.read_bytes())[str(number)]:
            for parts in table["filters"]:
                real, imaginary = (
                    correlated(plane, np.array(part).reshape(table["size"], table["size"]) / 4096)
                    for part in parts
                )
                channels.append(2 * averaged(np.sqrt(real**2 + imaginary**2), pool))
    return normalised(np.stack([*channels, *(averaged(plane, pool) for plane in planes)]))


def computed(operations, x, weights=()) -> np.ndarray:
    """The logits of a chain; ``weights`` are those of its last operations."""
    chain = fit(operations, x.shape[1:], operations[-1].out)
    given_weights = [{} for _ in range(len(operations) - len(weights))]
    given_weights += [{"weight": torch.from_numpy(weight)} for weight in weights]
    return forward(chain, given_weights, torch.from_numpy(x)).numpy()


def identity_of(count: int) -> tuple[Operation, np.ndarray]:
    """A last operation that passes everything on."""
    return Operation("linear", out=count), np.eye(count)


@pytest.mark.few(3)
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize(("shape", "pool"), [((1, 9, 7), 2), ((2, 4, 5), 1), ((3, 6, 8), 3), ((5, 3, 3), 3)])
def test_features(number, shape, pool):
    x = np.random.default_rng(0).normal(size=(3, *shape))
    wanted = np.stack([features(image, number, pool).ravel() for image in x])
    last, eye = identity_of(wanted.shape[1])
    found = computed([Operation("dictionary", table=number, pool=pool), last], x, [eye])
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


@given(st.integers(1, 4), st.sampled_from([1, 3, 5, 9]), st.integers(1, 6), st.integers(1, 6))
@examples(40)
def test_normalised_convolutions(out, kernel, height, width):
    random = np.random.default_rng(out + kernel)
    x, weight = random.normal(size=(2, 2, height, width)), random.normal(size=(out, 2, kernel, kernel))
    wanted = []
    for image in x:
        sums = [sum(map(correlated, image, taps)) for taps in weight]
        wanted.append(np.maximum(normalised(np.stack(sums)), 0).ravel())
    last, eye = identity_of(out * height * width)
    found = computed([Operation("normalised conv", out=out, kernel=kernel), last], x, [weight, eye])
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_a_constant_image_is_not_divided_by_zero():
    x = np.zeros((1, 1, 3, 3))
    last, eye = identity_of(9)
    operation = Operation("normalised conv", out=1, kernel=1)
    assert not computed([operation, last], x, [np.ones((1, 1, 1, 1)), eye]).any()


def moved(image: np.ndarray, down: int, right: int) -> np.ndarray:
    """The image with zeros where nothing moved to."""
    found = np.zeros_like(image)
    height, width = image.shape[1:]
    found[:, max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)] = image[
        :, max(-down, 0) : height + min(-down, 0), max(-right, 0) : width + min(-right, 0)
    ]
    return found


def views_of(image: np.ndarray, kind: int) -> list[np.ndarray]:
    if kind == 1:
        return [image, image[..., ::-1]]
    return [image, *(moved(image, *step) for step in ((1, 0), (-1, 0), (0, 1), (0, -1)))]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize(("shape", "pool"), [((3, 5, 6), 2), ((1, 6, 7), 2), ((2, 7, 5), 1)])
def test_views_of_features(kind, shape, pool):
    """Some images have a frame of zeros, which is what they lose when they are moved."""
    x = np.random.default_rng(2).normal(size=(4, *shape))
    x[1, :, [0, -1]] = x[1, :, :, [0, -1]] = x[3, :, [0, -1]] = x[3, :, :, [0, -1]] = 0
    wanted = [np.mean([features(view, 3, pool).ravel() for view in views_of(image, kind)], 0) for image in x]
    last, eye = identity_of(len(wanted[0]))
    operations = [Operation("views", views=kind), Operation("dictionary", table=3, pool=pool), last]
    np.testing.assert_allclose(computed(operations, x, [eye]), wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", [1, 2])
def test_views_of_features_of_bytes(kind):
    """Also where the scale is so small that float32 sees nothing at the border."""
    x = np.random.default_rng(3).integers(0, 256, (3, 3, 6, 4), np.uint8)
    x[0, :, [0, -1]] = x[0, :, :, [0, -1]] = 0
    for unit in (1 / 255, 1e-50):
        whole = Whole(torch.from_numpy(x).float(), unit)
        scaled = Rounded(torch.from_numpy(x * unit), torch.zeros(3, dtype=torch.float64), whole)
        found = dictionary.features_of_views(1, 2, kind, scaled, torch.float32)
        for image, *own in zip(x, *(view.values.double().numpy() for view in found), strict=True):
            for view, values in zip(views_of(image * unit, kind), own, strict=True):
                np.testing.assert_allclose(values, features(view, 1, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cached", [1, 1000])
def test_convolutions_are_computed_in_parts(cached, monkeypatch):
    monkeypatch.setattr(batches, "CACHED", cached)
    monkeypatch.setattr(operations, "CACHED", cached)
    test_features(3, (3, 6, 8), 3)
    test_normalised_convolutions.hypothesis.inner_test(4, 3, 6, 6)


def test_what_is_not_finite_stays_so():
    """Such an example is an error: lengths must not hide that a square overflows."""
    for value in (np.nan, np.inf, 1e200):
        x = np.zeros((2, 1, 4, 4))
        x[0, 0, 1, 1] = value
        last, eye = identity_of(17 * 4)
        found = computed([Operation("dictionary", table=1, pool=2), last], x, [eye])
        assert not np.isfinite(found[0]).all()
        assert np.isfinite(found[1]).all()


class TestFile:
    def test_the_hash_is_the_one_on_the_page(self):
        page = Path(__file__).parents[5] / "docs/format.md"
        assert hashlib.sha256(FILE.read_bytes()).hexdigest() == dictionaries.SHA256
        assert dictionaries.SHA256 in page.read_text()

    def test_filters_are_odd_and_in_their_unit(self):
        for number in (1, 3):
            for table in dictionaries.tables(number):
                assert table.size % 2 == 1
                assert np.array_equal(table.filters * 4096, np.round(table.filters * 4096))

    def test_another_file_is_refused(self, tmp_path, monkeypatch):
        changed = tmp_path / "dictionaries.json"
        changed.write_bytes(FILE.read_bytes().replace(b"1174", b"1175", 1))
        monkeypatch.setattr(dictionaries, "FILE", changed)
        dictionaries._read.cache_clear()
        with pytest.raises(Refused, match="damaged"):
            dictionaries.tables(1)
        monkeypatch.undo()
        assert dictionaries.tables(1)


def views(kind=1):
    return Operation("views", views=kind)


def features_of(table=1, pool=1):
    return Operation("dictionary", table=table, pool=pool)


def normalised_conv(out=2, kernel=3):
    return Operation("normalised conv", out=out, kernel=kernel)


@pytest.mark.parametrize(
    ("operations", "shape", "reason"),
    [
        *(([views(kind)], (1, 4, 4), f"has kind {kind}; kinds are 1, 2, 3, 4") for kind in (16, 2**16)),
        ([views(), normalised_conv(), features_of()], (1, 4, 4), "right after views"),
        ([views()], (1, 2**12, 2**11), "more than 4194304 numbers"),
        ([features_of(2**16)], (1, 4, 4), "there is no such"),
        ([features_of()], (1, 500, 500), "more than 4194304 numbers"),
        ([features_of(pool=9)], (1, 500, 500), "multiplications"),
        ([views(2), features_of(pool=9)], (1, 250, 250), "multiplications"),
        ([normalised_conv(kernel=2**16)], (1, 4, 4), "must be odd"),
        ([normalised_conv(kernel=2**12 - 1)], (1, 4, 4), "more than 4194304 numbers"),
        ([normalised_conv(kernel=201)], (1, 90, 90), "in patches"),
    ],
)
def test_operations_that_do_not_fit_are_refused(operations, shape, reason):
    with pytest.raises(Refused, match=reason):
        fit([*operations, LAST], shape, 4)


@pytest.mark.parametrize(("kind", "count", "side"), [(1, 2, 331), (2, 5, 209), (3, 1, 468), (4, 5, 209)])
def test_the_multiplications_of_all_views_count(kind, count, side):
    """Table 1: 8 complex filters of 81 taps, 8 of 225; then 17 channels and 4 classes."""

    def work(side):
        return count * (2 * 8 * (81 + 225) * side**2 + 4 * 17 * (side // 9) ** 2)

    assert work(side) <= 2**30 < work(side + 1)
    fit([views(kind), features_of(pool=9), LAST], (1, side, side), 4)
    with pytest.raises(Refused, match="multiplications"):
        fit([views(kind), features_of(pool=9), LAST], (1, side + 1, side + 1), 4)


def largest_sum(number, times):
    """Of some products of a filter with bytes, so many times each channel: the image that has the largest."""
    found = 0
    for table in json.loads(FILE.read_bytes())[str(number)]:
        for taps in np.array(table["filters"]).reshape(-1, table["size"] ** 2):
            for sign in (-1, 1):
                image = np.where(sign * taps * np.array(times)[:, None] > 0, dictionary.BYTE, 0)
                found = max(found, abs(int((taps * (np.array(times)[:, None] * image)).sum())))
    return found


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_sums_of_bytes_are_short_enough_for_float32(number, channels, monkeypatch):
    """Pixels that are larger by as much as there is room are not too large, and larger ones are."""
    planes = [(1,)] if channels == 1 else [(1, 1, 1), (1, -1, 0), (1, 1, -2)]
    most = max(largest_sum(number, times) for times in planes)
    assert most < 2**24
    dictionary._fits.cache_clear()
    assert dictionary._fits(number, 2, channels)
    for byte, fits in ((255 * (2**24 - 1) // most, True), (255 * 2**24 // most + 1, False)):
        monkeypatch.setattr(dictionary, "BYTE", byte)
        dictionary._fits.cache_clear()
        assert dictionary._fits(number, 2, channels) == fits
    dictionary._fits.cache_clear()
