"""Views against loops over pixels, and what straightening promises."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from worlds.literal import forward

from codebound_verify.networks.chain import fit
from codebound_verify.networks.images import batches
from codebound_verify.networks.operations import Operation
from codebound_verify.networks.rounding import exact

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6))
PIXELS = st.integers(-9, 9)
IMAGES = SHAPES.flatmap(lambda shape: arrays.arrays(np.int64, shape, elements=PIXELS))


def straightened(image) -> np.ndarray:
    """One image of (channels, rows, columns)."""
    return straight(torch.tensor(np.asarray(image), dtype=torch.float64)[None])[0].numpy()


def straight(batch: torch.Tensor) -> torch.Tensor:
    return batches.straighten(exact(batch)).values


def lean(image) -> tuple[Fraction, Fraction, Fraction]:
    """The numbers a, r, and the variance of the rows, sum of p (i - r)^2, of the page, exactly."""
    channels, height, width = np.shape(image)
    pixels = [(i, j) for i in range(height) for j in range(width)]
    p = {(i, j): sum(abs(Fraction(float(image[c][i][j]))) for c in range(channels)) for i, j in pixels}
    P = Fraction(1, 10**6) + sum(p.values())
    r = sum(p[i, j] * i for i, j in pixels) / P
    s = sum(p[i, j] * j for i, j in pixels) / P
    variance = sum(p[i, j] * (i - r) ** 2 for i, j in pixels)
    a = sum(p[i, j] * (i - r) * (j - s) for i, j in pixels) / (Fraction(1, 1000) + variance)
    return a, r, variance


def literal(image) -> np.ndarray:
    """The paragraph "Straightened" of section 5.1, pixel by pixel, in fractions."""
    channels, height, width = np.shape(image)
    a, r, _ = lean(image)

    def x(c, i, j):
        return Fraction(float(image[c][i][j])) if 0 <= j < width else Fraction(0)

    result = np.empty((channels, height, width))
    for c, i, j in np.ndindex(result.shape):
        t = j + a * (i - r)
        k = math.floor(t)
        f = t - k
        result[c, i, j] = float((1 - f) * x(c, i, k) + f * x(c, i, k + 1))
    return result


def close(found, wanted, atol=1e-11) -> None:
    """Up to rounding, relative to the brightest pixel."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=atol * max(1.0, np.abs(wanted).max()))


@given(IMAGES)
def test_straightening_follows_the_page(image):
    close(straightened(image), literal(image))


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 0.3, 1e9])
def test_straightening_follows_the_page_at_every_scale(scale):
    """The constants 1e-6 and 1e-3 matter where pixels are dark."""
    image = scale * np.random.default_rng(0).normal(size=(3, 6, 7))
    np.testing.assert_allclose(straightened(image), literal(image), rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize(
    "image", [np.zeros((2, 3, 4)), [[[5.0, -1, 2], [0, 0, 0]]], [[[3.0, 1, 4, 1, 5]]], [[[7.0]]]]
)
def test_what_has_no_lean_at_all_is_exactly_unchanged(image):
    """Nothing, or nothing below the first row: every i - r that counts is 0."""
    assert straightened(image).tolist() == np.asarray(image).tolist()


def test_an_image_does_not_depend_on_its_batch(monkeypatch):
    batch = torch.from_numpy(np.random.default_rng(1).normal(size=(7, 2, 5, 4)))
    alone = torch.cat([straight(image[None]) for image in batch])
    for at_once in (1, 100, 1 << 20):
        monkeypatch.setattr(batches, "AT_ONCE", at_once)
        torch.testing.assert_close(straight(batch), alone, rtol=1e-12, atol=1e-12)


LARGEST = np.finfo(np.float64).max


@pytest.mark.few(12)
@pytest.mark.parametrize("value", [LARGEST, -LARGEST, 1e200, -1e12, 1.0, 1e-200, 5e-324])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 1), (1, 1, 9), (1, 9, 1), (2, 5, 6)])
def test_extreme_images_stay_finite(value, shape):
    """Everything, one pixel, one row or one column has that value; the rest is 0, or ordinary."""
    for rest in (np.zeros(shape), np.random.default_rng(2).normal(size=shape)):
        for part in (np.s_[:], np.s_[:, -1, -1], np.s_[:, -1], np.s_[:, :, 0]):
            image = rest.copy()
            image[part] = value
            found = straightened(image)
            assert np.isfinite(found).all()
            assert np.abs(found).max() <= np.abs(image).max()
            if not rest.any() and part != np.s_[:]:  # one row or column is upright
                np.testing.assert_allclose(found, image, rtol=1e-6, atol=1e-6 * abs(value))


@pytest.mark.parametrize("value", [1e150, LARGEST])
def test_large_images_are_straightened_like_others(value):
    image = np.random.default_rng(3).uniform(-1, 1, size=(3, 5, 6))
    np.testing.assert_allclose(
        straightened(image * value) / value, straightened(image * 1e6) / 1e6, atol=1e-8
    )


def test_what_is_not_finite_stays_so():
    """Such an example is an error; those beside it are not."""
    for value in (np.nan, np.inf, -np.inf):
        x = torch.ones(3, 1, 4, 4, dtype=torch.float64)
        x[1, 0, 2, 2] = value
        found = straight(x)
        assert found[1].isnan().all()
        assert found[[0, 2]].isfinite().all()


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 4), (1, 1, 5), (3, 6, 2)])
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_logits_are_means_over_views(kind, shape):
    """A ReLU between two linear maps, so that the mean is not that of the inputs."""
    random = np.random.default_rng(1)
    x = random.normal(size=(3, *shape))
    first, second = random.normal(size=(7, x[0].size)), random.normal(size=(4, 7))
    seen = x if kind < 3 else np.stack([literal(image) for image in x])
    moved = np.zeros((4, *x.shape))
    moved[0, :, :, 1:] = seen[:, :, :-1]  # down
    moved[1, :, :, :-1] = seen[:, :, 1:]  # up
    moved[2, :, :, :, 1:] = seen[:, :, :, :-1]  # right
    moved[3, :, :, :, :-1] = seen[:, :, :, 1:]  # left
    all_views = {1: [x, x[..., ::-1]], 2: [x, *moved], 3: [seen], 4: [seen, *moved]}[kind]
    wanted = np.mean([np.maximum(view.reshape(3, -1) @ first.T, 0) @ second.T for view in all_views], axis=0)
    chain = fit(
        [Operation("views", views=kind), Operation("linear", out=7), Operation("linear", out=4)], shape, 4
    )
    weights = [{}, {"weight": torch.from_numpy(first)}, {"weight": torch.from_numpy(second)}]
    found = forward(chain, weights, torch.from_numpy(x))
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
