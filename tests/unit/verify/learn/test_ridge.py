"""The learner: what it solves, and a bound on its rounding that holds for whatever it computes."""

import mpmath
import numpy as np
import pytest
import torch

from codebound_verify.learn.ridge import BLOCK, CholeskyFactor, Ridge, outputs, rounding, targets_of
from codebound_verify.learn.rule import Columns, Rule
from codebound_verify.refusal import Refused


def kernel_of(count: int, seed: int = 0) -> np.ndarray:
    """A rational quadratic kernel of random points."""
    points = np.random.default_rng(seed).normal(size=(count, 3))
    distances = ((points[:, None] - points) ** 2).sum(axis=2)
    return 1 / (1 + distances / 4) ** 4


@pytest.mark.parametrize("batches", [(7,), (3, 1, 10), (1,) * 6])
def test_a_factor_that_grows_is_a_factor(batches):
    size = sum(batches)
    matrix = torch.from_numpy(kernel_of(size) + 0.25 * np.eye(size))
    factor, done = CholeskyFactor(), 0
    for batch in batches:
        new = slice(done, done + batch)
        factor.append(matrix[new, :done], matrix[new, new])
        done += batch
    right = torch.from_numpy(np.random.default_rng(1).normal(size=(size, 4)))
    solved = factor.backward(factor.forward(right))
    assert np.allclose(solved.numpy(), np.linalg.solve(matrix.numpy(), right.numpy()), rtol=0, atol=1e-12)


def test_what_is_no_kernel_is_refused():
    with pytest.raises(Refused, match="cannot be factored"):
        CholeskyFactor().append(torch.zeros(2, 0).double(), torch.tensor([[1.0, 2.0], [2.0, 1.0]]).double())


def rule(ridge: float) -> Rule:
    return Rule(features=Columns(normalised=False), copies=0, gamma=1.0, ridge=ridge)


def test_learning_batch_by_batch_is_learning_at_once():
    supports = 300
    values = kernel_of(supports)
    labels = np.random.default_rng(2).integers(0, 3, supports)
    targets = targets_of(labels, np.arange(3))
    growing = Ridge(rule(0.25), 3, picks=True)
    for start in range(0, supports, 60):
        new = slice(start, start + 60)
        growing.extend(torch.from_numpy(values[new, : new.stop]), targets[new])
    growing.solve()
    assert targets.tolist() == np.where(np.arange(3) == labels[:, None], 1.0, -1.0).tolist()
    solved = np.linalg.solve(values + 0.25 * np.eye(supports), targets)
    assert np.allclose(growing.coefficients, solved, rtol=0, atol=1e-11)
    absolute = np.abs(growing.coefficients)
    assert 0 < growing.check(values @ growing.coefficients, values @ absolute) < 1e-9


def test_outputs_are_sums_over_blocks():
    random = np.random.default_rng(3)
    values, weights = random.normal(size=(2 * BLOCK + 7, 50)), random.normal(size=(2 * BLOCK + 7, 4))
    exact = values.T @ weights
    assert np.allclose(outputs(torch.from_numpy(values), weights, 50), exact, rtol=0, atol=1e-11)
    for where in (np.arange(7, 31), np.array([3, 4, 4, 49, 0])):
        found = outputs(torch.from_numpy(values), weights, where)
        assert np.allclose(found, exact[where], rtol=0, atol=1e-11)


@pytest.mark.parametrize("wrong", [0.0, 1e-12, 1e-6, 1e-2])
@pytest.mark.parametrize("ridge", [2.0**-8, 0.25, 8.0])
def test_rho_covers_the_distance_to_exact_arithmetic(wrong, ridge):
    """Also for coefficients that are wrong; and it is not a thousand times too large."""
    supports, points, classes = 12, 40, 3
    values = kernel_of(points)[:supports]
    own = values[:, :supports]
    targets = np.where(np.arange(classes) == np.arange(supports)[:, None] % classes, 1.0, -1.0)
    noise = np.random.default_rng(4).normal(size=(supports, classes))
    coefficients = np.linalg.solve(own + ridge * np.eye(supports), targets) + wrong * noise
    computed = values.T @ coefficients
    rho = rounding(
        targets - ridge * coefficients - own @ coefficients,
        coefficients,
        own @ np.abs(coefficients),
        ridge=ridge,
        kappa=1,
    )
    with mpmath.workdps(50):
        system = mpmath.matrix(own.tolist()) + mpmath.mpf(ridge) * mpmath.eye(supports)
        exact = mpmath.matrix(values.T.tolist()) * (mpmath.inverse(system) * mpmath.matrix(targets.tolist()))
        errors = [
            abs(exact[i, j] - mpmath.mpf(float(computed[i, j])))
            for i in range(points)
            for j in range(classes)
        ]
    assert max(errors) <= rho
    if wrong > 1e-12:
        assert rho <= 1000 * max(errors)


@pytest.mark.parametrize(("supports", "blocks"), [(7, 1), (128, 1), (129, 2), (300, 3)])
@pytest.mark.parametrize("kappa", [1, 2])
def test_rho_is_that_of_the_page(supports, blocks, kappa):
    random, ridge = np.random.default_rng(supports), 2.0**-6
    residual, a = 1e-12 * random.normal(size=(supports, 3)), random.normal(size=(supports, 3))
    sizes = np.abs(random.normal(size=(supports, 3)))
    v, rho = 2.0**-52 * (132 + blocks), []
    for c in range(3):
        bracket = np.sqrt((residual[:, c] ** 2).sum())
        bracket += v * np.sqrt(((ridge * np.abs(a[:, c]) + sizes[:, c]) ** 2).sum())
        rho.append(1.001 * bracket * kappa**0.5 / (2 * ridge**0.5) + v * kappa * np.abs(a[:, c]).sum())
    assert rounding(residual, a, sizes, ridge=ridge, kappa=kappa) == pytest.approx(max(rho), rel=1e-12)


def test_what_rounding_can_change_is_refused():
    """Supports that are equal, and nearly no ridge: the coefficients are huge."""
    values = np.ones((400, 400)) + 1e-9 * np.eye(400)
    learner = Ridge(rule(2.0**-40), 2, picks=True)
    learner.extend(torch.from_numpy(values), targets_of(np.arange(400) % 2, np.arange(2)))
    learner.solve()
    with pytest.raises(Refused, match="rounding can change a score"):
        learner.check(values @ learner.coefficients, values @ np.abs(learner.coefficients))
