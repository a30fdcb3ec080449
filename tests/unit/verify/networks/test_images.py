"""Straightened images against fractions, pixel by pixel, at every scale."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from codebound_verify.networks import images
from codebound_verify.networks.rounding import Rounded

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6))
IMAGES = SHAPES.flatmap(lambda shape: arrays.arrays(np.int64, shape, elements=st.integers(-9, 9)))


def straight(batch: torch.Tensor) -> torch.Tensor:
    return images.straighten(Rounded(batch, torch.zeros(len(batch), dtype=torch.float64))).values


def straightened(image) -> np.ndarray:
    """One image of (channels, rows, columns)."""
    return straight(torch.tensor(np.asarray(image), dtype=torch.float64)[None])[0].numpy()


def literal(image) -> np.ndarray:
    """The paragraph about views 3 of the page, pixel by pixel, in fractions."""
    channels, height, width = np.shape(image)
    pixels = [(i, j) for i in range(height) for j in range(width)]
    p = {(i, j): sum(abs(Fraction(float(image[c][i][j]))) for c in range(channels)) for i, j in pixels}
    total = Fraction(1, 10**6) + sum(p.values())
    r, s = (sum(p[place] * place[axis] for place in pixels) / total for axis in (0, 1))
    variance = sum(p[i, j] * (i - r) ** 2 for i, j in pixels)
    a = sum(p[i, j] * (i - r) * (j - s) for i, j in pixels) / (Fraction(1, 1000) + variance)

    def x(c, i, j):
        return Fraction(float(image[c][i][j])) if 0 <= j < width else Fraction(0)

    result = np.empty((channels, height, width))
    for c, i, j in np.ndindex(result.shape):
        t = j + a * (i - r)
        k = math.floor(t)
        result[c, i, j] = float((1 - t + k) * x(c, i, k) + (t - k) * x(c, i, k + 1))
    return result


@given(IMAGES)
def test_straightening_follows_the_page(image):
    wanted = literal(image)
    np.testing.assert_allclose(straightened(image), wanted, rtol=0, atol=1e-11 * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 0.3, 1e9])
def test_straightening_follows_the_page_at_every_scale(scale):
    """The constants 1e-6 and 1e-3 matter where pixels are dark."""
    image = scale * np.random.default_rng(0).normal(size=(3, 6, 7))
    np.testing.assert_allclose(straightened(image), literal(image), rtol=0, atol=1e-11 * scale)


def test_an_image_does_not_depend_on_its_batch():
    batch = torch.from_numpy(np.random.default_rng(1).normal(size=(7, 2, 5, 4)))
    alone = torch.cat([straight(image[None]) for image in batch])
    torch.testing.assert_close(straight(batch), alone, rtol=1e-12, atol=1e-12)


LARGEST = np.finfo(np.float64).max


@pytest.mark.few(8)
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


def test_what_is_not_finite_stays_so():
    """Such an example is an error; those beside it are not."""
    for value in (np.nan, np.inf, -np.inf):
        x = torch.ones(3, 1, 4, 4, dtype=torch.float64)
        x[1, 0, 2, 2] = value
        found = straight(x)
        assert found[1].isnan().all()
        assert found[[0, 2]].isfinite().all()
