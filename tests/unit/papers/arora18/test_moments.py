"""Moment lemmas of the appendix against exact moments of Laplace variables."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.errors import UsageError
from codebound_papers.arora18.moments import mixed_moment_sum, moment_bound, subexponential_sigma, tail_bound


def laplace_sum_moment(scales: list[float], order: int) -> float:
    """E(sum X_i)^p for independent Laplace variables, by the series of E exp(sX) = 1/(1 - (b s)^2)."""
    series = np.zeros(order + 1)
    series[0] = 1.0
    for scale in scales:
        factor = np.array([scale**k if k % 2 == 0 else 0.0 for k in range(order + 1)])
        series = np.convolve(series, factor)[: order + 1]
    return float(series[order]) * math.factorial(order)


def test_a_laplace_variable_is_one_subexponential():
    sigma = subexponential_sigma([float(math.factorial(k)) for k in range(1, 30)])
    assert sigma == 1.0
    assert subexponential_sigma([float(math.factorial(k)) * 3.0**k for k in range(1, 30)]) == pytest.approx(
        3.0
    )


@given(st.lists(st.floats(0.1, 5.0), min_size=1, max_size=6), st.sampled_from([2, 4, 6, 8]))
def test_the_moment_bound_holds(scales, order):
    exact = laplace_sum_moment(scales, order)
    assert exact <= moment_bound(scales, order)
    assert exact > 0.0


def test_the_moment_bound_needs_the_growth_of_k():
    """Teeth: (3 sigma)^p alone, without (2p)^p, is below the exact moment."""
    assert laplace_sum_moment([1.0], 8) > 3.0**8


def test_the_tail_bound_holds_for_vectors():
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(5, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    norms = np.linalg.norm(rng.laplace(size=(20_000, 5)) @ directions, axis=1)
    for distance in (1.0, 5.0, 10.0, 30.0):
        for order in (2, 4):
            assert float((norms >= distance).mean()) <= tail_bound([1.0] * 5, order, distance)
    assert tail_bound([1.0] * 5, 2, 60.0) < 0.25


def test_markov_connects_moment_and_tail():
    """P(|X| >= 6 sigma p t) <= t^-p."""
    sigma, order, t = math.hypot(1.0, 2.0), 4, 3.0
    assert tail_bound([1.0, 2.0], order, 6 * sigma * order * t) == pytest.approx(t**-order)
    assert moment_bound([1.0, 2.0], order) / (6 * sigma * order * t) ** order == pytest.approx(t**-order)


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=8), st.sampled_from([2, 4, 6, 8, 10]))
def test_claim_1(sigmas, order):
    assert mixed_moment_sum(sigmas, order) <= (9 * sum(s * s for s in sigmas)) ** (order / 2) * (1 + 1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: subexponential_sigma([]),
        lambda: moment_bound([], 2),
        lambda: moment_bound([-1.0], 2),
        lambda: tail_bound([1.0], 2, 0.0),
        lambda: mixed_moment_sum([1.0], 3),
    ],
)
def test_what_makes_no_sense_is_refused(call):
    with pytest.raises(UsageError):
        call()
