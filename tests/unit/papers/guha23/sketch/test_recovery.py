"""Recovery on the instances known to work, on those known not to, and on bad input."""

import math

import numpy as np
import pytest
import torch

from codebound.bits.stream import Stream
from codebound.run.errors import UsageError
from codebound_papers.guha23.sketch.operators import Bipartite, column_ensemble, row_ensemble, sketch
from codebound_papers.guha23.sketch.recovery import (
    Status,
    recover,
    recover_integers,
    recover_l1,
    recover_l1_batch,
)
from codebound_papers.guha23.sketch.sparsity import distributed_sparsity


def permutations(p1, p2, j, rng, draw):
    """A union of j maximal matchings: at most j non-zeros in every line of the shorter side."""
    x = np.zeros((p1, p2))
    for _ in range(j):
        n = min(p1, p2)
        x[rng.permutation(p1)[:n], rng.permutation(p2)[:n]] = draw(n)
    return torch.from_numpy(x)


def case(seed, *, p1, p2=None, j, m, degree=5, kind="normal"):
    p2 = p2 or p1
    rng = np.random.default_rng([seed, p1, j, m, degree])
    draws = {
        "normal": rng.standard_normal,
        "signs": lambda n: rng.choice([-1.0, 1.0], n),
        "ones": np.ones,
        "int8": lambda n: rng.choice([v for v in range(-127, 128) if v], n).astype(float),
    }
    x = permutations(p1, p2, j, rng, draws[kind])
    stream = Stream(seed, f"recover/{m}")
    a, b = (column_ensemble(stream, m=m, p=p, degree=degree) for p in (p1, p2))
    return x, a, b


def relative_error(found, x):
    return float((found.double() - x).norm() / x.double().norm())


@pytest.mark.few(2)
@pytest.mark.parametrize("function", [recover, recover_l1])
@pytest.mark.parametrize(("p", "m"), [(40, 26), (100, 40), (200, 64)])
def test_recovers_where_it_must(function, p, m):
    for seed in range(4):
        x, a, b = case(seed, p1=p, j=2, m=m)
        result = function(sketch(x, a, b), a, b)
        assert result.status is Status.RECOVERED
        assert relative_error(result.value, x) < 1e-11
        assert result.residual < 1e-10
        assert result.gap is None or result.gap < 1e-10


def test_recovers_a_rectangle():
    x, a, b = case(0, p1=120, p2=50, j=1, m=32)
    for function in (recover, recover_l1):
        result = function(sketch(x, a, b), a, b)
        assert result.recovered
        assert relative_error(result.value, x) < 1e-11


@pytest.mark.parametrize("kind", ["signs", "ones", "int8"])
def test_integers_are_proven_though_their_values_collide(kind):
    x, a, b = case(1, p1=100, j=2, m=44, kind=kind)
    result = recover_integers(sketch(x.long(), a, b), a, b)
    assert result.recovered
    assert torch.equal(result.value, x.long())


@pytest.mark.parametrize("function", [recover, recover_l1])
def test_too_small_a_sketch_is_not_recovered(function):
    for seed in range(3):
        x, a, b = case(seed, p1=60, j=2, m=16)
        assert not function(sketch(x, a, b), a, b, iterations=400).recovered


def test_too_small_a_sketch_of_integers_is_not_recovered():
    x, a, b = case(0, p1=60, j=2, m=16, kind="int8")
    result = recover_integers(sketch(x.long(), a, b), a, b, iterations=400)
    assert not result.recovered
    assert result.proof is None


@pytest.mark.parametrize("function", [recover, recover_l1])
def test_the_literal_ensemble_is_not_recovered(function):
    x, _, _ = case(0, p1=100, j=2, m=48)
    a, b = (row_ensemble(Stream(0, side), m=48, p=100, degree=5) for side in ("a", "b"))
    assert not function(sketch(x, a, b), a, b, iterations=400).recovered


def test_the_only_minimiser_is_not_called_recovered_where_a_row_leaves_no_trace():
    _, full, b = case(0, p1=40, j=1, m=26)
    starts = np.minimum(full.starts, 35) + np.maximum(full.starts - 40, 0)  # column 7 without its five ones
    a = Bipartite(full.m, full.p, np.delete(full.rows, range(35, 40)), starts)
    x = torch.zeros(40, 40, dtype=torch.float64)
    x[20, 3] = 1.5
    found = recover_l1(sketch(x, a, b), a, b)
    assert torch.allclose(found.value, x, atol=1e-4)
    assert found.status is not Status.RECOVERED
    assert recover_l1(sketch(x, full, b), full, b).status is Status.RECOVERED


@pytest.mark.thorough
@pytest.mark.parametrize("function", [recover, recover_l1])
def test_a_dense_row_is_not_recovered_and_is_named(function):
    x, a, b = case(0, p1=100, j=1, m=48)
    x[7] = torch.from_numpy(np.random.default_rng(0).standard_normal(100))
    assert not function(sketch(x, a, b), a, b, iterations=600).recovered
    assert "row 7" in distributed_sparsity(x).name_crowded(48)


@pytest.mark.thorough
def test_a_batch_gives_what_its_members_give():
    cases = [case(seed, p1=40, j=2, m=m) for seed, m in ((0, 26), (1, 26), (2, 26))]
    hard, a, b = case(3, p1=40, j=12, m=26)
    sketches = [(sketch(x, left, right), left, right) for x, left, right in [*cases, (hard, a, b)]]
    together = recover_l1_batch(sketches, iterations=200)
    for one, parts in zip(together, sketches, strict=True):
        alone = recover_l1(*parts, iterations=200)
        assert one.status == alone.status
        if alone.recovered:
            assert torch.allclose(one.value, alone.value, atol=1e-11)
    assert [r.recovered for r in together] == [True, True, True, False]


def test_the_same_sketch_gives_the_same_bits():
    x, a, b = case(0, p1=60, j=2, m=34)
    first, second = (recover_l1(sketch(x, a, b), a, b) for _ in range(2))
    assert torch.equal(first.value, second.value)
    assert first.iterations == second.iterations


def test_a_zero_sketch_is_the_zero_matrix():
    _, a, b = case(0, p1=30, j=1, m=16)
    zero = torch.zeros(16, 16, dtype=torch.float64)
    assert recover(zero, a, b).recovered
    result = recover_l1(zero, a, b)
    assert result.recovered
    assert not result.value.any()
    assert recover_integers(zero.long(), a, b).recovered


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_the_size_of_the_numbers_does_not_matter(scale):
    x, a, b = case(0, p1=40, j=2, m=26)
    for function in (recover, recover_l1):
        result = function(sketch(x * scale, a, b), a, b)
        assert result.recovered
        assert relative_error(result.value / scale, x) < 1e-11


def test_progress_is_told():
    x, a, b = case(0, p1=40, j=2, m=26)
    seen = []
    recover_l1(sketch(x, a, b), a, b, progress=lambda done, total, note="": seen.append((done, total)))
    assert seen[0] == (20, 2000)


def test_bad_sketches_are_refused():
    x, a, b = case(0, p1=30, j=1, m=16)
    y = sketch(x, a, b)
    with pytest.raises(UsageError, match="float64"):
        recover(y.float(), a, b)
    with pytest.raises(UsageError, match="int64"):
        recover_integers(y, a, b)
    for number in (math.nan, math.inf, 1e200):
        with pytest.raises(UsageError, match="largest number"):
            recover_l1(torch.full_like(y, number), a, b)
    with pytest.raises(UsageError, match="at least 1"):
        recover_l1(y, a, b, iterations=0)
    with pytest.raises(UsageError, match="shape"):
        recover(y[:-1], a, b)
    with pytest.raises(UsageError, match="53 bits"):
        recover_integers(torch.full((16, 16), 2**60), a, b)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_integers():
    x, a, b = case(1, p1=100, j=2, m=44, kind="int8")
    result = recover_integers(sketch(x.long(), a, b).cuda(), a, b)
    assert result.recovered
    assert torch.equal(result.value.cpu(), x.long())


@pytest.mark.slow
@pytest.mark.parametrize(("p", "j", "m", "degree"), [(784, 8, 225, 5), (784, 78, 485, 4), (2000, 4, 279, 5)])
def test_large_matrices(p, j, m, degree):
    x, a, b = case(0, p1=p, j=j, m=m, degree=degree)
    for function in (recover, recover_l1):
        result = function(sketch(x, a, b), a, b)
        assert result.recovered
        assert relative_error(result.value, x) < 1e-10
