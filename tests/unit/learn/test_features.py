"""Features are whole numbers, the same whatever the order of sums, and what the page says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from codebound.bits.stream import Stream
from codebound.learn import features as module
from codebound.learn.features import (
    AbstractFeatures,
    ColumnFeatures,
    FilterFeatures,
    PatchFeatures,
    RoomError,
)
from codebound.learn.images import mirror
from codebound.run.errors import ModelError

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


@pytest.mark.parametrize("settings", KINDS, ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_vectors_are_whole_and_short_enough_for_float32(settings: AbstractFeatures, channels: int) -> None:
    x = pictures(channels=channels)
    found = settings.fit_map(x[:20], 255.0, is_mirrored=False)(x)
    assert torch.equal(found, found.round())
    assert float(found.double().square().sum(1).max()) <= 2.0**24
    assert found.abs().max() <= torch.iinfo(torch.int16).max
    assert len(found.unique(dim=0)) == len(x)


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_an_example_has_its_features_whatever_stands_beside_it(settings: AbstractFeatures) -> None:
    x = pictures()
    found = settings.fit_map(x[:20], 255.0, is_mirrored=False)
    assert torch.equal(found(x)[7:8], found(x[7:8]))


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_features_look_at_nothing_but_the_first_examples(settings: AbstractFeatures) -> None:
    x = pictures()
    other = settings.fit_map(x[5:20], 255.0, is_mirrored=False)
    same = settings.fit_map(x[:20].clone(), 255.0, is_mirrored=False)
    assert torch.equal(settings.fit_map(x[:20], 255.0, is_mirrored=False)(x), same(x))
    if settings != ColumnFeatures(True):  # which looks at no example at all
        assert not torch.equal(other(x), same(x))


def test_columns_are_measured_by_order_statistics() -> None:
    x = torch.tensor([[float(i), 5.0, 0.0 if i < 9 else 1.0] for i in range(10)])
    tensors = ColumnFeatures().fit(x.double(), is_mirrored=False)
    assert tensors["middle"].tolist() == [5.0, 5.0, 0.0]
    # nine tenths less one tenth; a column that does not vary; one that does so at its ends alone
    assert tensors["spread"].tolist() == [8.0, 1.0, 1.0]


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
    found = PATCHES.fit_map(x[:50], 255.0, is_mirrored=False)(x).numpy()
    assert np.array_equal(found, wanted)


def test_filters_need_as_many_patches() -> None:
    with pytest.raises(ModelError, match="contrast"):
        PATCHES.fit_map(pictures(8, side=7), 255.0, is_mirrored=False)


def test_mirror_images_have_the_same_features_in_another_order() -> None:
    x = pictures(60)
    found = PATCHES.fit_map(x[:50], 255.0, is_mirrored=True)
    own, other = (found(x, change).sort(dim=1).values for change in (None, mirror))
    assert torch.equal(own, other)
    apart = PATCHES.fit_map(x[:50], 255.0, is_mirrored=False)
    assert not torch.equal(
        apart(x).sort(dim=1).values,
        apart(x, mirror).sort(dim=1).values,
    )


def test_a_number_near_a_tie_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROOM", 0.4)
    with pytest.raises(RoomError, match="two machines"):
        PATCHES.fit_map(pictures(60)[:50], 255.0, is_mirrored=False)


@pytest.mark.parametrize(
    ("settings", "shape", "says"),
    [
        (FilterFeatures(), (64,), "pictures"),
        (FilterFeatures(), (2, 9, 9), "channels"),
        (PatchFeatures(size=10), (1, 9, 9), "do not fit"),
        (FilterFeatures(pool=5), (1, 4, 9), "larger than"),
        (ColumnFeatures(), (3, 200, 200), "at most"),
    ],
)
def test_inputs_without_such_features_are_refused(
    settings: AbstractFeatures, shape: tuple[int, ...], says: str
) -> None:
    with pytest.raises(ModelError, match=says):
        settings.fit_map(torch.zeros((20, *shape), dtype=torch.uint8), 255.0, is_mirrored=False)
