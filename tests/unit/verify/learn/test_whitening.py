"""Whitening: how far float64 is off is bounded, and what cannot be rounded beyond doubt is refused."""

import mpmath
import numpy as np
import pytest

from codebound_verify.learn import whitening
from codebound_verify.learn.whitening import Bounded, filters_of, quantise, whitening_of
from codebound_verify.refusal import Refused


def moments(d: int, seed: int = 0) -> np.ndarray:
    """A covariance with eigenvalues from nearly nothing to nearly one."""
    random = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(random.normal(size=(d, d)))
    values = random.random(d) ** 8
    found = basis * (values / values.sum()) @ basis.T
    return (found + found.T) / 2


def exact_root(shifted: np.ndarray) -> mpmath.matrix:
    values, vectors = mpmath.eigsy(mpmath.matrix(shifted.tolist()))
    scales = mpmath.diag([1 / mpmath.sqrt(value) for value in values])
    return vectors * scales * vectors.T


@pytest.mark.parametrize(("d", "ridge"), [(9, 2.0**-7), (9, 2.0**-14), (20, 2.0**-10)])
def test_the_true_distance_is_below_its_bound(d, ridge):
    shifted = moments(d) + ridge * np.eye(d)
    root = whitening_of(shifted, ridge)
    atoms = np.rint(np.random.default_rng(1).normal(size=(8, d)) * 400)
    filters = filters_of(root, atoms, ridge)
    with mpmath.workdps(50):
        exact = exact_root(shifted)
        assert mpmath.mnorm(exact - mpmath.matrix(root.values.tolist()), "f") <= root.off < 1e-11
        for atom, found in zip(atoms.tolist(), filters.values.tolist(), strict=True):
            x = exact * mpmath.matrix(atom)
            assert mpmath.norm(exact * x / mpmath.norm(x) - mpmath.matrix(found)) <= filters.off < 1e-9


def test_a_root_that_is_wrong_has_a_residual_that_says_so(monkeypatch):
    """Teeth: eigenvectors that are off by 1e-7 are made good by Newton's step; what is not is refused."""
    ridge, shifted = 2.0**-10, moments(9) + 2.0**-10 * np.eye(9)
    eigh = np.linalg.eigh

    def careless(matrix):
        values, vectors = eigh(matrix)
        return values, vectors + 1e-7 * np.cos(np.arange(81.0)).reshape(9, 9)

    monkeypatch.setattr(np.linalg, "eigh", careless)
    better = whitening_of(shifted, ridge)
    with mpmath.workdps(50):
        distance = mpmath.mnorm(exact_root(shifted) - mpmath.matrix(better.values.tolist()), "f")
        assert distance <= better.off
    for wrong, is_refused in ((1e-13, False), (1e-7, True)):
        monkeypatch.setattr(
            whitening, "_symmetric", lambda matrix, wrong=wrong: (matrix + matrix.T) / 2 + wrong
        )
        if is_refused:
            with pytest.raises(Refused, match="the whitening is off by"):
                whitening_of(shifted, ridge)
            continue
        worse = whitening_of(shifted, ridge)
        with mpmath.workdps(50):
            distance = mpmath.mnorm(exact_root(shifted) - mpmath.matrix(worse.values.tolist()), "f")
            assert wrong <= distance <= worse.off


def test_products_are_as_good_as_exact():
    random = np.random.default_rng(2)
    a = random.normal(size=(5, 300)) * np.exp(8 * random.normal(size=(5, 300)))
    b = random.normal(size=(300, 4))
    found = whitening._product(a, b)
    with mpmath.workdps(60):
        exact = mpmath.matrix(a.tolist()) * mpmath.matrix(b.tolist())
        size = np.abs(a).max() * np.abs(b).max() * 300
        for i in range(5):
            for j in range(4):
                error = abs(exact[i, j] - mpmath.mpf(float(found[i, j])))
                assert error <= 2.0**-52 * abs(exact[i, j]) + size * 2.0**-80


def test_rounding():
    values = np.array([[3.0, -1.25], [0.1, 0.0]])  # largest row sum 4.25: 2^13 times it is below 65000
    found = quantise(Bounded(values, 0.0), "it")
    assert found.exponent == 13
    assert found.integers.tolist() == [[24576.0, -10240.0], [819.0, 0.0]]


@pytest.mark.parametrize(
    ("values", "off", "because"),
    [
        ([[4.0, (7.5 + 0.4e-7) / 2**13]], 0.0, "cannot be rounded beyond doubt"),
        ([[65000 / 2**14 * (1 + 1e-8)]], 0.0, "cannot be rounded beyond doubt"),
        ([[4.0]], 4e-12, "is off by"),
        ([[4.0]], float("nan"), "is off by"),
    ],
)
def test_what_is_in_doubt_is_refused(values, off, because):
    with pytest.raises(Refused, match=because):
        quantise(Bounded(np.array(values), off), "it")


def test_room_enough_is_accepted():
    found = quantise(Bounded(np.array([[4.0, (7.5 + 0.6e-7) / 2**13]]), 1e-13), "it")
    assert found.integers.tolist() == [[32768.0, 8.0]]
