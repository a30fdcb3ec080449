"""Power brackets of stable laws: published numbers, exact ones, and where they part."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from codebound.run.errors import UsageError
from codebound_papers.shin21.laws import (
    PowerLaw,
    Stable,
    asymptotic_bracket_probability,
    bracket_probability,
    pareto_matrix_bounds,
    published_spiked_second_moment,
    released_resilience,
    resilience,
    resilience_grid,
    spiked_second_moment,
    tail_constant,
)

C, M, N = 1.3, 5, 64


def cell(alpha: float, bracket: float):
    probability = asymptotic_bracket_probability(alpha, bracket, scale=C)
    return resilience(probability, bracket, scale=C, top=M, width=N)


# S-Fig2 at c = 1.3, M = 5, N = 64: kappa, Np, Chernoff or 1, exact with ceil.
@pytest.mark.parametrize(
    ("alpha", "bracket", "kappa", "expected", "chernoff", "exact"),
    [
        (1.9, 0, 3.71, 1.98, 0.5351, 0.1365),
        (1.9, 3, 1.69, 0.44, 0.3587, 0.0732),
        (1.9, 5, 1.00, 0.16, 0.3759, 0.1513),
        (1.5, 5, 1.00, 0.86, 0.9892, 0.5795),
    ],
)
def test_figure_2_at_grid_points(alpha, bracket, kappa, expected, chernoff, exact):
    found = cell(alpha, bracket)
    assert (found.kappa, found.expected) == pytest.approx((kappa, expected), abs=5e-3)
    assert (found.chernoff, found.exact) == pytest.approx((chernoff, exact), abs=5e-5)


def test_figure_2_says_nothing_at_alpha_one():
    """S-E15: kappa > Np fails for every bracket, so the bound is 1."""
    rows = resilience_grid([1.0], range(6), scale=C, top=M, width=N)
    assert [row["chernoff"] for row in rows] == [1.0] * 6
    exact = [0.871, 0.858, 0.708, 0.773, 0.635, 0.811]
    assert [row["exact"] for row in rows] == pytest.approx(exact, abs=5e-4)


@pytest.mark.parametrize(
    ("alpha", "released", "equation", "exact"), [(0.5, 0.0218, 0.9974, 0.4839), (1.0, 0.0101, 1.0, 0.871)]
)
def test_s_e26_the_plotted_function_is_no_bound(alpha, released, equation, exact):
    found = cell(alpha, 0)
    assert found.released == pytest.approx(released, abs=5e-5)
    assert found.released == released_resilience(found.probability, kappa=found.kappa, width=N)
    assert found.chernoff == pytest.approx(equation, abs=5e-5)
    assert found.exact == pytest.approx(exact, abs=5e-4)
    assert found.released < found.exact


def test_s_e14_the_asymptotic_density_is_poor_here():
    assert asymptotic_bracket_probability(1.0, 0, scale=C) == pytest.approx(0.0955, abs=5e-5)
    assert bracket_probability(1.0, 0, scale=C) == pytest.approx(0.0413, abs=5e-5)
    assert asymptotic_bracket_probability(1.9, 3, scale=C) == pytest.approx(0.0069, abs=5e-5)
    assert bracket_probability(1.9, 3, scale=C) == pytest.approx(0.0541, abs=5e-5)


def test_s_e14_most_weights_are_in_no_bracket():
    """Below c^0 or negative: 71 % at alpha = 1 and scale 1.3, so the brackets are no split of W."""
    outside = Stable(1.0, scale=C).cdf(1.0).item()
    assert outside == pytest.approx(0.71, abs=5e-3)
    inside = sum(bracket_probability(1.0, i, scale=C) for i in range(M + 1))
    above = Stable(1.0, scale=C).tail(C ** (M + 1)).item()
    assert inside + above + outside == pytest.approx(1.0)


@given(st.floats(0.2, 2.0), st.integers(0, 5))
def test_absolute_values_double_the_mass(alpha, bracket):
    signed = bracket_probability(alpha, bracket, scale=C)
    assert bracket_probability(alpha, bracket, scale=C, of="absolute") == pytest.approx(2.0 * signed)


@given(st.floats(0.1, 1.95), st.floats(0.0, 5.0))
def test_equation_14_is_the_integral_of_the_asymptotic_density(alpha, bracket):
    factor = alpha * C**alpha * tail_constant(alpha)
    mass, _ = integrate.quad(lambda x: factor * x ** -(alpha + 1.0), C**bracket, C ** (bracket + 1))
    assert asymptotic_bracket_probability(alpha, bracket, scale=C) == pytest.approx(mass, rel=1e-9)


@given(st.floats(0.0, 1.0), st.floats(0.0, 5.0))
def test_exact_values_are_binomial_and_below_the_bound(probability, bracket):
    found = resilience(probability, bracket, scale=C, top=M, width=N)
    exact = stats.binom.sf(math.ceil(found.kappa) - 1, N, probability)
    assert found.exact == pytest.approx(exact, rel=1e-9, abs=1e-12)
    assert found.exact <= found.chernoff * (1 + 1e-9)


def test_impossible_brackets_are_refused():
    for scale in (1.0, 0.5, math.inf):
        with pytest.raises(UsageError, match="scale above 1"):
            asymptotic_bracket_probability(1.0, 0, scale=scale)
    with pytest.raises(UsageError, match="alpha above 0"):
        bracket_probability(0.0, 0, scale=C)
    with pytest.raises(UsageError, match="alpha in"):
        bracket_probability(2.5, 0, scale=C)
    with pytest.raises(UsageError, match="wider row"):
        resilience(0.1, 0, scale=3.0, top=5, width=64)
    with pytest.raises(UsageError, match="bracket of at most top"):
        resilience(0.1, 6, scale=C, top=5, width=64)
    with pytest.raises(UsageError, match="probability"):
        resilience(1.5, 0, scale=C, top=5, width=64)


def check_vector() -> tuple[np.ndarray, np.random.Generator]:
    """The vector that the numbers of S-E10 were found with, and the generator behind it."""
    rng = np.random.default_rng(0)
    for shape in ((10, 10), (100, 100), (30, 30)):
        for _ in range(400):
            rng.random(shape), rng.normal(size=shape), rng.choice([-1, 1], shape)
    return rng.normal(size=50) + 0.5, rng


@pytest.mark.thorough
def test_s_e10_numbers():
    """Tail exponent 5, w_m = 1, tau = 1.5, 50 inputs: simulation 32.44, corrected 32.50, published 138.6."""
    x, rng = check_vector()
    law = PowerLaw(5.0, 1.0)
    corrected = spiked_second_moment(x, law, threshold=1.5, signs="positive")
    assert corrected == pytest.approx(32.50, abs=5e-3)
    assert published_spiked_second_moment(x, law, threshold=1.5) == pytest.approx(138.6, abs=0.05)
    moments = []
    for _ in range(200):
        weights = rng.random((2000, 50)) ** (-1 / 5.0)
        moments.append((((weights * (weights > 1.5)) @ x) ** 2).mean())
    assert np.mean(moments) == pytest.approx(32.44, abs=5e-3)


def test_symmetric_spikes_have_no_cross_terms():
    rng = np.random.default_rng(1)
    law, x = PowerLaw(6.0, 1.0), np.array([1.0, -2.0, 0.5, 3.0])
    weights = law.sample((400_000, 4), seed=2)
    spikes = weights * (weights > 1.2) * rng.choice([-1.0, 1.0], weights.shape)
    simulated = ((spikes @ x) ** 2).mean()
    assert spiked_second_moment(x, law, threshold=1.2) == pytest.approx(simulated, rel=0.02)
    equal = np.full(4, 2.0)  # the one case where the published form is right
    published = published_spiked_second_moment(equal, law, threshold=1.2)
    assert published == pytest.approx(spiked_second_moment(equal, law, threshold=1.2))


def test_infinite_moments_are_refused():
    with pytest.raises(UsageError, match="above 2"):
        spiked_second_moment([1.0], PowerLaw(2.0, 1.0), threshold=1.5)


@pytest.mark.parametrize(("alpha", "shape"), [(1.2, (6, 9)), (1.7, (4, 4)), (0.6, (10, 3))])
def test_heavy_matrices_keep_to_the_bounds_on_rank_and_largest_eigenvalue(alpha, shape):
    """Simulated; the bounds are no more than three times off, so that a wrong exponent would show."""
    rng = np.random.default_rng(1)
    sizes = rng.uniform(size=(4000, *shape)) ** (-1.0 / alpha)
    entries = sizes * rng.choice([-1.0, 1.0], size=(4000, *shape))
    largest = np.linalg.norm(entries, 2, axis=(1, 2)) ** 2
    ranks = (entries**2).sum(axis=(1, 2)) / largest
    count = math.prod(shape)
    size = float(np.quantile(largest, 0.97))
    limit, lower, upper = pareto_matrix_bounds(alpha, entries=count, size=size)
    assert limit == pytest.approx(2.0 / (2.0 - alpha))
    assert 1.0 <= ranks.mean() <= limit
    share = (largest >= size).mean()
    assert lower - 0.01 <= share <= upper
    assert upper <= 3.5 * share * limit
    direct = 1.0 - (1.0 - size ** (-alpha / 2.0)) ** count
    assert lower == pytest.approx(direct)


def test_the_bounds_on_heavy_matrices_need_an_exponent_below_two():
    assert pareto_matrix_bounds(1.0, entries=5, size=1.0) == (2.0, 1.0, 1.0)
    for alpha, size in ((2.0, 5.0), (0.0, 5.0), (1.0, 0.5)):
        with pytest.raises(UsageError, match="below 2"):
            pareto_matrix_bounds(alpha, entries=5, size=size)
