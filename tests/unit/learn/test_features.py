"""Features are whole numbers, the same whatever the order of sums, and what the page says."""

from __future__ import annotations

import json
import math
from importlib import resources

import mpmath
import numpy as np
import pytest
import torch

from codebound.bits.stream import Stream
from codebound.learn import features as features_module
from codebound.learn import patch_features as module
from codebound.learn.column_features import ColumnFeatures
from codebound.learn.features import (
    FEATURES,
    AbstractFeatures,
    FeatureMap,
    FilterFeatures,
    RoomError,
    fit_features,
    vectors_of,
)
from codebound.learn.images import levels, mirror, straighten
from codebound.learn.patch_features import PatchFeatures
from codebound.run.errors import ModelError
from codebound_verify.learn import whitening

PATCHES = PatchFeatures(size=3, count=256, threshold=3, grid=2, whitening=3)
KINDS = [
    ColumnFeatures(False),
    ColumnFeatures(True),
    FilterFeatures(True, 3, 2),
    FilterFeatures(False, 1, 3),
    PATCHES,
]


def pictures(n: int = 30, channels: int = 1, side: int = 9) -> torch.Tensor:
    """Blots: neighbouring pixels are alike."""
    noise = np.random.default_rng(5).normal(size=(n, channels, side + 2, side + 2))
    smooth = sum(np.roll(noise, (i, j), (2, 3)) for i in (-1, 0, 1) for j in (-1, 0, 1))[..., :side, :side]
    return torch.from_numpy(np.clip(128 + 35 * smooth, 0, 255).astype(np.uint8))


def fit(settings: AbstractFeatures, first: torch.Tensor, **options: int) -> FeatureMap:
    return fit_features(settings, first, torch.arange(len(first)) % 3, **options)


@pytest.mark.parametrize("settings", KINDS, ids=str)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("weights", [0, 2])
def test_vectors_are_whole_and_short_enough_for_float32(
    settings: AbstractFeatures, channels: int, weights: int
) -> None:
    x = pictures(channels=channels)
    features = fit(settings, x[:20], weights=weights)
    found = features(x)
    assert torch.equal(found, found.round())
    assert found.shape[1] == features.dimension
    assert float(found.double().square().sum(1).max()) <= 4095**2
    assert len(found.unique(dim=0)) == len(x)
    assert torch.equal(found[7:8], features(x[7:8]))  # whatever stands beside it


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_features_look_at_nothing_but_the_first_rows(settings: AbstractFeatures) -> None:
    x = pictures()
    other, same = fit(settings, x[5:20]), fit(settings, x[:20].clone())
    assert torch.equal(fit(settings, x[:20])(x), same(x))
    if settings != ColumnFeatures(True):  # which looks at no row at all
        assert not torch.equal(other(x), same(x))


@pytest.mark.parametrize(
    ("largest", "divisor"), [(0.5, 1), (1, 1), (1.01, 16), (16, 16), (17, 255), (255, 255)]
)
def test_levels_are_measured_by_the_largest_first_value(largest: float, divisor: float) -> None:
    x = torch.zeros(4, 1, 6, 6)
    x[0, 0, 0, 0], x[3] = largest, 300.0  # the last one is no first row
    found = fit(FilterFeatures(False, 3, 2), x[:3])
    assert found.divisor == divisor
    assert levels(x, found.divisor).max() == 255.0
    with pytest.raises(ModelError, match="up to 255"):
        fit(FilterFeatures(False, 3, 2), x)


@pytest.mark.parametrize("is_straight", [False, True])
def test_filters_are_those_of_the_page(is_straight: bool) -> None:
    x = pictures(4, channels=3, side=7)
    entries = json.loads(resources.files("codebound.learn").joinpath("dictionaries.json").read_text())["3"]
    settings, wanted = FilterFeatures(is_straight, 3, 3), []
    for picture in straighten(x.float()).numpy() if is_straight else x.numpy():
        red, green, blue = picture.astype(int)
        planes = [(red + green + blue) // 3, red - green, (red + green) // 2 - blue]
        maps = []
        for plane in planes:
            for entry in entries:
                half = entry["size"] // 2
                padded = np.pad(plane, half)
                for taps in entry["filters"]:
                    seen = [
                        [padded[i : i + 2 * half + 1, j : j + 2 * half + 1].ravel() for j in range(7)]
                        for i in range(7)
                    ]
                    re, im = (np.array(seen) @ np.array(part).ravel() for part in taps)
                    maps.append(2 * np.floor(np.sqrt(re * re + im * im) / 1024))
        maps += [4 * plane for plane in planes]
        wanted.append([m[i : i + 3, j : j + 3].sum() // 9 for m in maps for i in (0, 3) for j in (0, 3)])
    raw = np.array(wanted)
    apart = raw - np.floor(raw.sum(0) / len(raw))
    length = 4095 - math.ceil(math.sqrt(raw.shape[1]) / 2)
    expected = np.rint(apart * length / np.sqrt((apart**2).sum(1, keepdims=True)))
    assert np.array_equal(fit(settings, x)(x).numpy(), expected)


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize(
    "settings", [ColumnFeatures(), ColumnFeatures(True), FilterFeatures(False, 3, 3)], ids=str
)
def test_weights_are_those_of_the_page(settings: AbstractFeatures, power: int) -> None:
    x, labels = pictures(25), torch.arange(25) % 3
    found = fit(settings, x, weights=power)
    numbers = settings.numbers(settings.read(x, 255.0), found.tensors)
    ratios = []
    for column in numbers.T.tolist():
        total, n = sum(column), len(column)
        own = [[t for t, label in zip(column, labels.tolist(), strict=True) if label == c] for c in range(3)]
        between = sum(sum(each) ** 2 / len(each) for each in own) - total * total / n
        spread = sum(t * t for t in column) - total * total / n
        ratios.append(between / spread if between > 0 and spread > 0 else 0.0)
    shares = np.array(ratios) / max(ratios)
    root = {1: 0.25, 2: 0.5, 3: 1.0}[power]
    assert np.abs(found.tensors["weights"].numpy() - 8 * shares**root).max() <= 0.5 + 1e-9
    assert found.tensors["weights"].max() == 8
    if not settings.has_pictures and not settings.is_normalised:
        v = float((found.tensors["weights"] ** 2).sum())
        u = math.floor((4095 - math.sqrt(81) / 2) / (4 * math.sqrt(v)))
        assert found.unit == v * u * u
        parts = (x.flatten(1).double() - found.tensors["middle"]) / found.tensors["spread"]
        expected = (parts.clamp(-4, 4) * (found.tensors["weights"] * u)).round()
        assert torch.equal(found(x).double(), expected)


def test_patches_are_those_of_the_page() -> None:
    """The whole of 10.4 once more, in numpy, a patch at a time."""
    count, size, grid = 256, PATCHES.size, PATCHES.grid
    d, places = size * size, 7 - size + 1

    def patches(picture: np.ndarray) -> list[np.ndarray]:
        return [picture[0, i : i + size, j : j + size].ravel() for i in range(places) for j in range(places)]

    def normal(patch: np.ndarray) -> np.ndarray:
        apart = d * patch - patch.sum()
        return np.rint(1024.0 * apart / np.sqrt((apart**2).sum() + 10.0 * d**3))

    x = pictures(60, side=7)
    first = x[:50].numpy().astype(np.float64)
    pool = [normal(patch) for picture in first for patch in patches(picture)]
    covariance = sum(np.outer(each, each) for each in pool) / (2.0**20 * len(pool))
    values, vectors = np.linalg.eigh(covariance)
    root = vectors @ np.diag((values + 2.0 ** -(7 + PATCHES.whitening)) ** -0.5) @ vectors.T
    candidates = [each for each in pool if (each**2).sum() >= 2**19]
    keys = Stream(PATCHES.seed, "atoms").words(len(candidates))
    atoms = [candidates[at] for at in sorted(range(len(keys)), key=lambda at: (int(keys[at]), at))[:count]]
    turned = [root @ atom / 1024.0 for atom in atoms]
    filters = np.array([root @ (each / np.linalg.norm(each)) for each in turned])

    def whole(matrix: np.ndarray) -> tuple[np.ndarray, int]:
        power = math.floor(math.log2(65_000 / np.abs(matrix).sum(1).max()))
        return np.rint(matrix * 2.0**power), power

    (numbers, own), (white, other) = whole(filters), whole(root)

    def vector(picture: np.ndarray) -> np.ndarray:
        marks = np.zeros((2, count, places, places), dtype=np.float32)
        for at, patch in enumerate(patches(picture)):
            level = patch - math.floor(np.float32(patch.sum()) / np.float32(d) + np.float32(0.5))
            length = math.sqrt((np.floor(white @ level / 16) ** 2).sum()) + 1.0
            found = np.floor(
                (numbers @ level).astype(np.float32) * np.float32(2.0 ** (4 + other - own) / length)
            )
            limit = 16 * PATCHES.threshold
            i, j = divmod(at, places)
            marks[0, :, i, j], marks[1, :, i, j] = np.maximum(found - limit, 0), np.maximum(-found - limit, 0)
        ends = [(k * places // grid, math.ceil((k + 1) * places / grid)) for k in range(grid)]
        cells = [
            np.floor(np.float32(16) * np.sqrt(np.float32(256) * part.sum() / np.float32(part.size)))
            for sign in range(2)
            for one in range(count)
            for a, b in ends
            for c, e in ends
            for part in [marks[sign, one, a:b, c:e]]
        ]
        return np.array(cells, dtype=np.float64)

    raw = np.array([vector(picture.astype(np.float64)) for picture in x.numpy()])
    apart = raw - np.floor(raw[:50].sum(0) / 50)
    length = 4095 - math.ceil(math.sqrt(raw.shape[1]) / 2)
    wanted = np.rint(apart * length / np.sqrt((apart**2).sum(1, keepdims=True)))
    found = fit(PATCHES, x[:50])(x).numpy()
    assert np.array_equal(found, wanted)


def test_filters_need_as_many_patches() -> None:
    with pytest.raises(ModelError, match="contrast"):
        fit(PATCHES, pictures(8, side=7))


@pytest.mark.parametrize("weights", [0, 1])
def test_a_folded_vector_says_what_the_mirror_image_looks_like(weights: int) -> None:
    x = pictures(60)
    features = fit(PATCHES, x[:50], is_mirrored=True, weights=weights)
    plain = FeatureMap(PATCHES, features.tensors, 255.0, features.dimension)
    own, image = plain(x), plain(x, mirror)
    assert not torch.equal(own, image)
    assert torch.equal(own.sort(dim=1).values, image.sort(dim=1).values)
    even, odd = features(x).double().chunk(2, dim=1)
    assert torch.equal(even @ even.T + odd @ odd.T, 2 * own.double() @ own.double().T)
    assert torch.equal(even @ even.T - odd @ odd.T, 2 * own.double() @ image.double().T)


def test_a_whitening_is_checked_in_more_digits_than_it_has() -> None:
    left, right = (torch.from_numpy(np.random.default_rng(each).normal(size=(40, 40))) for each in (0, 1))
    head, rest = module._multiply(left, right)
    with mpmath.workdps(50):
        exact = mpmath.matrix(left.tolist()) * mpmath.matrix(right.tolist())
        off = [
            abs(mpmath.mpf(head[i, j].item()) + mpmath.mpf(rest[i, j].item()) - exact[i, j])
            for i in range(40)
            for j in range(40)
        ]
    assert max(off) < 1e-20


@pytest.mark.parametrize(("ridge", "d"), [(2.0**-7, 9), (2.0**-14, 12)])
def test_a_whitening_is_as_near_to_the_true_one_as_it_says(ridge: float, d: int) -> None:
    random = np.random.default_rng(d)
    basis, _ = np.linalg.qr(random.normal(size=(d, d)))
    covariance = basis * (random.random(d) ** 8 / d) @ basis.T
    root, off = module._inverse_root(torch.from_numpy((covariance + covariance.T) / 2), ridge)
    with mpmath.workdps(50):
        shifted = torch.from_numpy((covariance + covariance.T) / 2) + ridge * torch.eye(d).double()
        values, vectors = mpmath.eigsy(mpmath.matrix(shifted.tolist()))
        exact = vectors * mpmath.diag([1 / mpmath.sqrt(value) for value in values]) * vectors.T
        assert mpmath.mnorm(exact - mpmath.matrix(root.tolist()), "f") <= off < 1e-11


@pytest.mark.parametrize(("name", "value"), [("ROOM", 0.4), ("DOUBT", 1e-12)])
def test_a_number_near_a_tie_or_in_doubt_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(module, name, value)
    with pytest.raises(RoomError, match="two machines"):
        fit(PATCHES, pictures(60)[:50])


def test_a_writer_asks_for_twice_the_room_of_a_verifier() -> None:
    assert (module.ROOM, whitening.ROOM) == (1e-7, 0.5e-7)
    assert (module.DOUBT, whitening.DOUBT) == (0.2e-7, 0.25e-7)


@pytest.mark.parametrize(
    ("settings", "shape", "says"),
    [
        (FilterFeatures(), (64,), "pictures"),
        (FilterFeatures(), (2, 9, 9), "channels"),
        (PatchFeatures(size=10), (1, 9, 9), "do not fit"),
        (FilterFeatures(pool=5), (1, 4, 9), "larger than"),
        (ColumnFeatures(), (3, 200, 200), "1 to 65536"),
    ],
)
def test_inputs_without_such_features_are_refused(
    settings: AbstractFeatures, shape: tuple[int, ...], says: str
) -> None:
    with pytest.raises(ModelError, match=says):
        fit(settings, torch.zeros((20, *shape), dtype=torch.uint8))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("change", [None, mirror])
def test_vectors_are_those_of_each_input(
    monkeypatch: pytest.MonkeyPatch, threads: int, change: object
) -> None:
    monkeypatch.setattr(features_module, "_CHUNK", 7)
    x = torch.randint(0, 256, (40, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    features, told = fit_features(FilterFeatures(True, 3, 2), x[:20], torch.arange(20) % 2), []
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found = vectors_of(features, x, change=change, progress=lambda *said: told.append(said))
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found.dtype == torch.int16
    assert torch.equal(found.float(), torch.cat([features(each[None], change) for each in x]))
    assert told == [(start, 40, FEATURES) for start in range(0, 40, 7)]
