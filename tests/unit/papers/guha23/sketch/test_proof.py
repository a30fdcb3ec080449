"""The proof of uniqueness: against brute force, and against forgeries."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from codebound.bits.stream import Stream
from codebound.run.errors import UsageError
from codebound_papers.guha23.sketch.operators import Bipartite, Projector, column_ensemble, sketch
from codebound_papers.guha23.sketch.proof import UNIT_BITS, Proof, find_dual, objection, round_dual
from codebound_papers.guha23.sketch.recovery import recover_integers


def proof_of(x, a, b):
    coarse, fine = (Projector([(a, b)], dtype=t) for t in (torch.float32, torch.float64))
    dual = find_dual(x.double(), a, b, coarse=coarse, fine=fine, iterations=100)
    return None if dual is None else round_dual(dual)


def matrices_of_norm_at_most_two():
    values = torch.tensor(list(itertools.product((-2, -1, 0, 1, 2), repeat=6))).reshape(-1, 2, 3)
    return values[values.abs().sum(dim=(1, 2)) <= 2]


def test_exactly_the_matrices_that_brute_force_finds_unique_are_proven():
    """G-E20: through one sketch some matrices come back and others do not; the proof tells which."""
    # Two rows, three columns, seen through 2 x 2 cells: columns {0}, {1}, {0, 1} on the right.
    a = Bipartite(2, 2, np.array([0, 1]), np.array([0, 1, 2]))
    b = Bipartite(2, 3, np.array([0, 1, 0, 1]), np.array([0, 1, 2, 4]))
    candidates = matrices_of_norm_at_most_two()
    dense_a, dense_b = torch.from_numpy(a.dense()), torch.from_numpy(b.dense())
    sketches, norms = dense_a @ candidates @ dense_b.T, candidates.abs().sum(dim=(1, 2))
    verdicts = []
    for i, (x, y) in enumerate(zip(candidates, sketches, strict=True)):
        rivals = (sketches == y).all(dim=2).all(dim=1) & (norms <= norms[i])
        proof = proof_of(x, a, b)
        proven = proof is not None and objection(x, y, a, b, proof=proof) == ""
        assert proven == (int(rivals.sum()) == 1)
        verdicts.append(proven)
    assert len(set(verdicts)) == 2


@pytest.fixture(scope="module")
def proven():
    stream = Stream(0, "certify")
    a, b = (column_ensemble(stream, m=20, p=p, degree=5) for p in (30, 24))
    rng = np.random.default_rng(0)
    x = np.zeros((30, 24), dtype=np.int64)
    x[np.arange(30), rng.integers(0, 24, 30)] = rng.choice([-3, -2, -1, 1, 2, 3], 30)
    x = torch.from_numpy(x)
    y = sketch(x, a, b)
    result = recover_integers(y, a, b)
    return x, y, a, b, result


def test_a_recovery_of_integers_carries_its_proof(proven):
    x, y, a, b, result = proven
    assert result.recovered
    assert torch.equal(result.value, x)
    assert objection(x, y, a, b, proof=result.proof) == ""


def test_the_inequalities_hold_in_exact_arithmetic(proven):
    x, _, a, b, result = proven
    w, k = result.proof.dual.numpy().astype(object), np.kron(a.dense(), b.dense()).astype(object)
    image = (k.T @ w.ravel()).reshape(30, 24)
    unit, support = 2**UNIT_BITS, x.numpy() != 0
    eta = max(abs(v) for v in (image - unit * np.sign(x.numpy()).astype(object))[support])
    slack = unit - max(abs(v) for v in image[~support])
    assert 2 * eta * int(x.abs().sum()) < slack
    assert np.linalg.matrix_rank(k[:, support.ravel()].astype(float)) == support.sum()


def test_forgeries_are_refused(proven):
    x, y, a, b, result = proven
    good = result.proof
    other = x.clone()
    other[0, 0] += 1
    assert "another one" in objection(other, y, a, b, proof=good)
    assert "integers" in objection(x.double(), y, a, b, proof=good)
    zero = Proof(torch.zeros_like(good.dual))
    assert "proves nothing" in objection(x, y, a, b, proof=zero)
    assert "proves nothing" in objection(x, y, a, b, proof=Proof(good.dual // 2))
    huge = Proof(torch.full_like(good.dual, 2**62))
    assert "too large" in objection(x, y, a, b, proof=huge)
    lowest = Proof(torch.full_like(good.dual, -(2**63)))
    assert "too large" in objection(x, y, a, b, proof=lowest)
    with pytest.raises(UsageError):
        objection(x, y, a, b, proof=replace(good, dual=good.dual[:-1]))


def test_ties_are_refused_for_want_of_independence():
    # Two equal columns: x and its mirror image have the same sketch and the same norm.
    a = Bipartite(2, 2, np.array([0, 0]), np.array([0, 1, 2]))
    b = Bipartite(2, 2, np.array([0, 1]), np.array([0, 1, 2]))
    x = torch.tensor([[1, 0], [1, 0]])
    dual = Proof(torch.tensor([[1, 0], [0, 0]]) * 2**UNIT_BITS)
    assert "determine the values" in objection(x, sketch(x, a, b), a, b, proof=dual)
