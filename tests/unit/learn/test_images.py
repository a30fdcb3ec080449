"""Pictures as integers, against the page in fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from codebound.learn.images import levels, mirror, move, rotate, straighten

PICTURES = arrays.arrays(np.uint8, st.tuples(st.just(1), st.integers(3, 7), st.integers(3, 7)))


def at(picture: np.ndarray, channel: int, row: int, column: int) -> int:
    """A level; zeros lie outside."""
    inside = 0 <= row < picture.shape[1] and 0 <= column < picture.shape[2]
    return int(picture[channel, row, column]) if inside else 0


def batch(picture: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(picture).float().unsqueeze(0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_levels_leave_what_was_given_as_it_is(dtype: torch.dtype) -> None:
    stored = torch.arange(16).view(1, 1, 4, 4).to(dtype)
    before = stored.clone()
    levels(stored, 15.0)
    assert torch.equal(stored, before)


@examples(60)
@given(PICTURES)
def test_a_straightened_picture_is_that_of_the_page(picture: np.ndarray) -> None:
    _, height, width = picture.shape
    mass = picture.astype(int).sum(0)
    total, by_row, by_column, mixed, squared = (
        sum(int(mass[i, j]) * weight(i, j) for i in range(height) for j in range(width))
        for weight in (
            lambda i, j: 1,
            lambda i, j: i,
            lambda i, j: j,
            lambda i, j: i * j,
            lambda i, j: i * i,
        )
    )
    slant = (total * mixed - by_row * by_column) / max(1, total * squared - by_row * by_row)
    middle = by_row / max(1, total)
    found = straighten(batch(picture))[0].numpy()
    for i in range(height):
        for j in range(width):
            place = min(max(j + slant * (i - middle), -1.0), float(width))
            left = floor(place)
            share = floor(16 * (place - left) + 0.5)
            read = (16 - share) * at(picture, 0, i, left) + share * at(picture, 0, i, left + 1)
            assert found[0, i, j] == (read + 8) // 16


@examples(40)
@given(PICTURES, st.sampled_from([-178, -3, 0, 178]))
def test_a_turned_picture_is_that_of_the_page(picture: np.ndarray, sine: int) -> None:
    _, height, width = picture.shape
    cosine = 1024 - sine * sine // 2048
    found = rotate(batch(picture), sine)[0].numpy()
    for i in range(height):
        for j in range(width):
            up, right = 2 * i - (height - 1), 2 * j - (width - 1)
            y = (cosine * up + sine * right + 1024 * (height - 1) + 64) // 128
            x = (cosine * right - sine * up + 1024 * (width - 1) + 64) // 128
            top, v = min(max(y // 16, -1), height), y % 16
            left, h = min(max(x // 16, -1), width), x % 16
            read = sum(
                a * b * at(picture, 0, top + di, left + dj)
                for di, a in enumerate((16 - v, v))
                for dj, b in enumerate((16 - h, h))
            )
            assert found[0, i, j] == (read + 128) // 256


@pytest.mark.parametrize(("down", "right"), [(1, 0), (0, -1), (-1, 1)])
def test_a_moved_picture_brings_zeros_in(down: int, right: int) -> None:
    picture = np.arange(1, 13, dtype=np.uint8).reshape(1, 3, 4)
    found = move(batch(picture), down, right)[0].numpy()
    wanted = [[at(picture, 0, i - down, j - right) for j in range(4)] for i in range(3)]
    assert np.array_equal(found[0], wanted)


def test_a_mirror_of_a_mirror_is_the_picture() -> None:
    picture = torch.arange(12.0).view(1, 1, 3, 4)
    assert torch.equal(mirror(mirror(picture)), picture)
    assert mirror(picture)[0, 0, 0, 0] == 3.0


@given(st.integers(0, 255), st.sampled_from([1.0, 16.0, 255.0]))
def test_levels_are_the_nearest_of_256(value: int, divisor: float) -> None:
    exact = Fraction(value) * 255 / Fraction(divisor) + Fraction(1, 2)
    found = levels(torch.tensor([[[[value]]]]), divisor).item()
    assert found == min(255, floor(exact)) or abs(exact - round(exact)) < Fraction(1, 10**9)
