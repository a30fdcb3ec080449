"""The bell-shaped code: its law against mpmath, its length, its place among the codes."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.run.errors import UsageError
from codebound_networks.codes.arithmetic import MAX_TOTAL
from codebound_networks.codes.bell import BELL_WIDTHS, MAX_BELL_LEVEL, Bell, _bounds, _weights, best_bell
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.modes import encode_tensors
from codebound_networks.codes.tensors import Adaptive

levels = st.lists(st.integers(-MAX_BELL_LEVEL, MAX_BELL_LEVEL), min_size=1, max_size=60)


@pytest.mark.parametrize("width", [0, 7, 16, 24, 40, 63])
def test_the_weights_are_those_of_a_logistic_density(width):
    with mpmath.workdps(40):
        scale = mpmath.mpf(2) ** (mpmath.mpf(width) / 8 - 2)
        for size, weight in enumerate(_weights(width)[:30]):
            exact = 2**16 * mpmath.sech(size / (2 * scale)) ** 2
            # the table of decays has 16 bits, which adds up over the powers
            assert abs(weight - 1 - exact) <= 1 + exact * size * 2**-16 / mpmath.exp(-1 / scale)


@pytest.mark.parametrize("width", range(BELL_WIDTHS))
def test_every_level_can_be_coded_and_probabilities_sum_to_one(width):
    bounds = _bounds(width)
    assert len(bounds) == 2 * MAX_BELL_LEVEL + 2
    assert min(np.diff(bounds)) >= 1
    assert bounds[-1] <= MAX_TOTAL


@given(levels)
def test_the_length_in_closed_form_is_that_of_the_coder(values):
    bits, code = best_bell(np.array(values, dtype=np.int32), 0)
    mode_and_step = 7 + 1
    assert abs(encode_tensors([code]).length - mode_and_step - bits) <= 2.0


@given(levels)
def test_no_other_width_is_shorter(values):
    array = np.array(values, dtype=np.int32)
    bits, _ = best_bell(array, 0)
    for width in range(0, BELL_WIDTHS, 9):
        weights = _weights(width)
        exact = sum(math.log2(_bounds(width)[-1] / weights[abs(q)]) for q in values)
        assert bits <= exact + math.log2(BELL_WIDTHS) + 1e-6


def test_a_few_hundred_bell_shaped_integers_take_this_code():
    drawn = np.random.default_rng(0).logistic(scale=1.6, size=600).round().astype(np.int32)
    chosen = best_tensor_code(drawn, step=0)
    assert isinstance(chosen, Bell)
    adaptive = Adaptive(drawn, 0, int(np.abs(drawn).max()))
    assert encode_tensors([chosen]).length + 20 < encode_tensors([adaptive]).length


def test_levels_outside_are_refused():
    with pytest.raises(UsageError, match="outside"):
        Bell(np.array([256]), 0)
    with pytest.raises(UsageError, match="within 255"):
        best_bell(np.array([-256], dtype=np.int32), 0)
