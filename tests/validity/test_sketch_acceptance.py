"""No wrong matrix is called recovered on draws around the threshold; a zero residual alone is fooled."""

import numpy as np
import pytest
import torch

from codebound.bits.stream import Stream
from codebound_papers.guha23.sketch import recovery
from codebound_papers.guha23.sketch.operators import column_ensemble, sketch
from codebound_papers.guha23.sketch.recovery import recover, recover_integers, recover_l1

CELLS = (  # p, non-zeros per line, degree, m
    (24, 1, 4, 9),
    (24, 1, 4, 11),
    (30, 3, 5, 17),
    (30, 3, 5, 19),
    (40, 2, 3, 18),
    (40, 2, 3, 22),
    (40, 2, 5, 17),
    (40, 2, 5, 19),
    (60, 1, 4, 16),
    (60, 1, 4, 18),
)


def draw(cell, seed):
    p, j, degree, m = cell
    rng = np.random.default_rng([seed, *cell])
    x = np.zeros((p, p))
    for _ in range(j):
        x[np.arange(p), rng.permutation(p)] = rng.standard_normal(p)
    stream = Stream(seed, f"acceptance/{cell}")
    a, b = (column_ensemble(stream, m=m, p=p, degree=degree) for _ in range(2))
    return torch.from_numpy(x), a, b


def zero_residual_alone(y, a, b):
    """The decoder without its proof: least squares on the largest entries of the l1 iterate."""
    iterate = recover_l1(y, a, b, iterations=200).value.flatten()
    support = iterate.abs().topk(a.m * b.m).indices
    k = np.kron(a.dense(), b.dense())[:, support]
    values = np.linalg.lstsq(k, y.numpy().ravel(), rcond=None)[0]
    accepted = np.linalg.norm(k @ values - y.numpy().ravel()) < 1e-9 * float(y.norm())
    x = torch.zeros_like(iterate)
    x[support] = torch.from_numpy(values)
    return accepted, x.view(a.p, b.p)


def verdicts(cells, seeds):
    """Numbers of accepted and of wrong matrices among them, over all decoders."""
    accepted = wrong = 0
    for cell in cells:
        for seed in seeds:
            x, a, b = draw(cell, seed)
            levels = (x.sign() * (3 * x).abs().ceil()).long()
            results = [
                (recover(sketch(x, a, b), a, b, iterations=200), x),
                (recover_l1(sketch(x, a, b), a, b, iterations=200), x),
                (recover_integers(sketch(levels, a, b), a, b, iterations=200), levels),
            ]
            for result, truth in results:
                accepted += result.recovered
                wrong += result.recovered and float((result.value - truth).abs().max()) > 1e-8
    return accepted, wrong


def test_nothing_wrong_is_accepted():
    accepted, wrong = verdicts(CELLS[1::2], range(1))
    assert wrong == 0
    assert 5 <= accepted <= 15


@pytest.mark.thorough
def test_the_acceptance_test_has_teeth():
    fooled = 0
    for cell in CELLS[:3]:
        x, a, b = draw(cell, 0)
        accepted, found = zero_residual_alone(sketch(x, a, b), a, b)
        fooled += accepted and float((found - x).abs().max()) > 1e-3
    assert fooled >= 1


def test_a_tie_between_two_sparse_matrices_is_refused_and_the_check_has_teeth(monkeypatch):
    # Four dependent columns of A meet three entries of one column of X: another matrix with one non-zero
    # more has the same sketch, zero residual, independent columns, and even the same l1 norm.
    x, a, b = draw((30, 3, 5, 17), 44)
    assert not recover(sketch(x, a, b), a, b, iterations=200).recovered
    monkeypatch.setattr(recovery, "_is_closed", lambda problem, x: True)
    fooled = recover(sketch(x, a, b), a, b, iterations=200)
    assert fooled.recovered
    assert float((fooled.value - x).abs().max()) > 0.1


@pytest.mark.slow
def test_nothing_wrong_is_accepted_in_five_hundred_draws():
    accepted, wrong = verdicts(CELLS, range(50))
    assert wrong == 0
    assert accepted >= 500
