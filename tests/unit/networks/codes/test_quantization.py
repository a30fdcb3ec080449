"""Grids: nearest levels, one rounding, what does not fit."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from codebound.run.errors import FormatError, UsageError
from codebound_networks.codes.quantization import (
    nearest_step,
    quantize,
    round_to_float32,
    step_for_levels,
    step_size,
)

WEIGHTS = hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(-100, 100, width=32))


def test_steps_are_the_rounded_powers_of_the_eighth_root_of_two():
    getcontext().prec = 40
    for j in range(-1000, 1001):
        root = Decimal(2) ** (Decimal(j % 8) / 8)
        mantissa = int((root * 2**23).to_integral_value())
        assert Fraction(step_size(j)) == mantissa * Fraction(2) ** (j // 8 - 23)
        assert nearest_step(step_size(j)) == j
        assert float(np.float32(step_size(j))) == step_size(j)


@pytest.mark.parametrize("j", [-1001, 1001])
def test_steps_beyond_the_range_are_refused(j):
    with pytest.raises(UsageError, match="1000"):
        step_size(j)


@pytest.mark.parametrize("size", [0.0, -1.0, math.nan, math.inf])
def test_sizes_of_steps_are_positive(size):
    with pytest.raises(UsageError, match="positive"):
        nearest_step(size)


@given(WEIGHTS, st.integers(-60, 60))
def test_levels_are_nearest_and_zeros_stay_zero(weights, step):
    levels = quantize(weights, step)
    size = Fraction(step_size(step))
    for w, q in zip(weights.tolist(), levels.tolist(), strict=True):
        assert abs(Fraction(w) - q * size) <= size / 2 * (1 + Fraction(1, 2**50))
    assert (levels[weights == 0] == 0).all()


def test_ties_go_to_the_even_level():
    assert quantize(np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]), 0).tolist() == [-2, -2, 0, 0, 2, 2]


@given(st.integers(-(2**20), 2**20), st.integers(-1000, 850))
def test_the_one_rounding_is_that_of_exact_arithmetic(q, step):
    exact = q * Fraction(step_size(step))
    got = float(round_to_float32(np.array([q * step_size(step)]))[0])
    below, above = np.nextafter(np.float32(got), np.float32([-np.inf, np.inf])).tolist()
    assert abs(Fraction(got) - exact) <= min(abs(Fraction(below) - exact), abs(Fraction(above) - exact))
    assert Fraction(q * step_size(step)) == exact


def test_a_base_is_added_before_the_rounding():
    base = np.array([1.0], dtype=np.float32)
    tiny = np.array([2**-24 + 2**-40])
    assert round_to_float32(tiny, base=base)[0] == np.nextafter(np.float32(1), np.float32(2))
    assert round_to_float32(np.array([2**-24]), base=base)[0] == 1.0
    assert base[0] == 1.0


def test_overflow_is_refused():
    with pytest.raises(FormatError, match="float32"):
        round_to_float32(np.array([2.0**20 * step_size(1000)]))
    with pytest.raises(UsageError, match="too small"):
        quantize(np.array([1.0]), -200)
    with pytest.raises(UsageError, match="finite"):
        quantize(np.array([np.nan]), 0)


@given(WEIGHTS.filter(lambda w: np.abs(w).max() > 1e-20), st.sampled_from([3, 5, 31]))
def test_the_step_for_some_levels_is_the_smallest(weights, levels):
    step = step_for_levels(weights, levels)
    assert np.abs(quantize(weights, step)).max() <= levels // 2
    assert np.rint(np.abs(weights.astype(np.float64)).max() / step_size(step - 1)) > levels // 2


@pytest.mark.parametrize("levels", [1, 2, 8])
def test_grids_have_an_odd_number_of_levels(levels):
    with pytest.raises(UsageError, match="odd"):
        step_for_levels(np.ones(3), levels)


def test_a_zero_tensor_has_some_step():
    assert quantize(np.zeros(3), step_for_levels(np.zeros(3), 3)).tolist() == [0, 0, 0]
