"""The l1 decoder against a linear program on the Kronecker product, draw by draw around the threshold."""

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.optimize import linprog

from codebound.bits.stream import Stream
from codebound_papers.guha23.sketch.operators import column_ensemble, row_ensemble, sketch
from codebound_papers.guha23.sketch.recovery import recover_l1


def linear_program(y, a, b):
    k = sparse.kron(sparse.csr_matrix(a.dense()), sparse.csr_matrix(b.dense()), format="csc")
    n = k.shape[1]
    result = linprog(np.ones(2 * n), A_eq=sparse.hstack([k, -k]), b_eq=y.numpy().ravel(), method="highs-ds")
    return (result.x[:n] - result.x[n:]).reshape(a.p, b.p)


def same_verdict(seed, *, p, j, m, degree=5):
    rng = np.random.default_rng([seed, p, j, m])
    x = np.zeros((p, p))
    for _ in range(j):
        x[np.arange(p), rng.permutation(p)] = rng.standard_normal(p)
    stream = Stream(seed, f"lp/{m}")
    a, b = (column_ensemble(stream, m=m, p=p, degree=degree) for _ in range(2))
    y = sketch(torch.from_numpy(x), a, b)
    by_program = bool(np.abs(linear_program(y, a, b) - x).max() < 1e-6)
    ours = recover_l1(y, a, b)
    assert not ours.recovered or np.abs(ours.value.numpy() - x).max() < 1e-9
    assert ours.recovered == by_program, f"seed {seed}, m {m}: program {by_program}, ours {ours}"
    return by_program


@pytest.mark.thorough
def test_same_verdict_as_the_linear_program():
    verdicts = [same_verdict(seed, p=24, j=1, m=m, degree=4) for m in (9, 11, 14) for seed in range(2)]
    assert True in verdicts
    assert False in verdicts


@pytest.mark.slow
def test_same_verdict_as_the_linear_program_on_forty_draws():
    verdicts = [same_verdict(seed, p=40, j=2, m=m) for m in (18, 20, 22, 26) for seed in range(10)]
    assert True in verdicts
    assert False in verdicts


def test_the_linear_program_agrees_that_rows_of_fixed_degree_fail():
    recovered = {"columns": 0, "rows": 0}
    for seed in range(3):
        x = np.diag(np.random.default_rng(seed).choice([-2.0, -1.0, 1.0, 2.0], 24))
        for name, ensemble in (("columns", column_ensemble), ("rows", row_ensemble)):
            a, b = (ensemble(Stream(seed, side), m=16, p=24, degree=4) for side in ("left", "right"))
            found = linear_program(sketch(torch.from_numpy(x), a, b), a, b)
            recovered[name] += bool(np.abs(found - x).max() < 1e-6)
    assert recovered == {"columns": 3, "rows": 0}
