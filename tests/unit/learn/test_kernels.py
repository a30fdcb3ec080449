"""Kernel ridge regression that grows, against one solution of the whole system."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

from codebound.learn import kernels
from codebound.learn.features import RoomError
from codebound.learn.kernels import KeptRows, Kernel, KernelRidge, StreamedRows
from codebound.learn.patch_features import PatchFeatures
from codebound.run.device import exact_products

N, SIZE, CLASSES, GAMMA, UNIT, RIDGE = 40, 16, 3, 1.0, 1e4, 0.25
FOLDING = PatchFeatures(count=2, grid=2)  # of vectors of 2 x 2 x 2 x 2 numbers
BATCHES = (slice(0, 6), slice(7, 9), slice(20, 23), slice(23, 40))


@pytest.fixture
def vectors() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(-60, 60, (N, SIZE)).astype(np.int16))


@pytest.fixture
def targets() -> torch.Tensor:
    labels = np.random.default_rng(1).integers(0, CLASSES, N)
    return torch.from_numpy(2.0 * np.eye(CLASSES)[labels] - 1.0)


def mirrored(vectors: torch.Tensor) -> torch.Tensor:
    return vectors.view(-1, 2, 2, 1, 2, 2).flip(2).flip(-1).reshape(len(vectors), -1)


def exact_kernel(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    apart = ((a.numpy()[:, None].astype(np.float64) - b.numpy()[None]) ** 2).sum(-1)
    return 1.0 / (1.0 + GAMMA / 4.0 * (apart / UNIT)) ** 4


def both(a: torch.Tensor, b: torch.Tensor, *, is_joined: bool) -> np.ndarray:
    return exact_kernel(a, b) + (exact_kernel(a, mirrored(b)) if is_joined else 0.0)


def grown(vectors: torch.Tensor, targets: torch.Tensor, dtype: torch.dtype = torch.float64) -> KernelRidge:
    found = KernelRidge(Kernel(GAMMA, UNIT), RIDGE, capacity=N, dtype=dtype)
    for some in BATCHES:
        found.add(vectors[some], targets[some])
        found.coefficients()
    return found


@pytest.mark.parametrize("rows", [5, 1024])
@pytest.mark.parametrize("is_joined", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_batches_give_the_solution_of_the_whole(
    vectors: torch.Tensor,
    targets: torch.Tensor,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    is_joined: bool,
    is_known: bool,
) -> None:
    monkeypatch.setattr(kernels, "_ROWS", rows)
    given = FOLDING.fold(vectors) if is_joined else vectors
    kernel = Kernel(GAMMA, UNIT, is_joined)
    learner, kept = KernelRidge(kernel, RIDGE, capacity=N), KeptRows(given, kernel)
    streamed = StreamedRows(given, kernel, torch.tensor([3, 30, 12]))
    order = torch.zeros(0, dtype=torch.int64)
    for some in BATCHES:
        values = kept.add(given[some])
        streamed.add(given[some])
        order = torch.cat([order, torch.arange(N)[some]])
        learner.add(given[some], targets[some], values[:, order].T if is_known else None)
        points, wanted = vectors[order], targets[order].numpy()
        inner = both(points, points, is_joined=is_joined) + RIDGE * np.eye(len(points))
        solution = np.linalg.solve(inner, wanted)
        coefficients = learner.coefficients()
        assert np.abs(coefficients.numpy() - solution).max() < 1e-11
        outputs = both(vectors, points, is_joined=is_joined) @ solution
        found = kept.outputs(coefficients).numpy()
        assert np.abs(found - outputs).max() <= learner.bound_rounding(coefficients) < 1e-10
        few = streamed.outputs(coefficients).numpy()
        assert np.abs(few - found)[[3, 12, 30]].max() < 1e-12
        assert np.count_nonzero(few.any(1)) == 3


def test_integers_take_half_the_room_and_give_the_same_outputs(
    vectors: torch.Tensor, targets: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "KEPT", 8 * N * 6)
    kernel, coefficients = Kernel(GAMMA, UNIT), targets[:12]
    rows = KeptRows(vectors, kernel)
    assert rows.add(vectors[:6]) is not None  # what there is room for is kept as it is
    assert rows.add(vectors[6:12]) is None
    assert [each.element_size() for each in rows._blocks] == [8, 4]
    assert torch.allclose(
        rows.outputs(coefficients), kernel(vectors, vectors[:12]) @ coefficients, atol=1e-13
    )
    folded = FOLDING.fold(vectors)
    joined = KeptRows(folded, Kernel(GAMMA, UNIT, True))
    assert joined.add(folded) is not None  # two integers take as much


def test_float32_is_refined_and_gives_way_where_rounding_is_larger_than_the_ridge(
    vectors: torch.Tensor, targets: torch.Tensor
) -> None:
    exact, quick = grown(vectors, targets), grown(vectors, targets, torch.float32)
    assert float((quick.coefficients() - exact.coefficients()).abs().max()) < 1e-5
    same = vectors[:1].repeat(N, 1)
    for dtype in (torch.float32, torch.float64):
        learner = KernelRidge(Kernel(GAMMA, UNIT), 2.0**-60, capacity=N, dtype=dtype)
        learner.add(same, targets)
        if dtype == torch.float64:
            with pytest.raises(RoomError, match="smaller than rounding"):
                learner.coefficients()
        else:
            assert learner.coefficients().isfinite().all()
            assert learner.ridge > 2.0**-40


def test_the_rounding_bound_holds_in_many_digits_and_notices_a_wrong_solution(
    vectors: torch.Tensor, targets: torch.Tensor
) -> None:
    kernel, few = Kernel(GAMMA, UNIT), slice(0, 12)
    learner, rows = KernelRidge(kernel, RIDGE, capacity=N), KeptRows(vectors, kernel)
    learner.add(vectors[few], targets[few])
    rows.add(vectors[few])
    coefficients = learner.coefficients()
    wrong = coefficients.clone()
    wrong[3] += 1e-6
    with mpmath.workdps(40):
        # the kernel's values are floats by definition: what is solved with them is exact here
        system = mpmath.matrix(kernel(vectors[few], vectors[few]).tolist()) + RIDGE * mpmath.eye(12)
        across = mpmath.matrix(kernel(vectors[:5], vectors[few]).tolist())
        for label in range(CLASSES):
            exact = across * mpmath.lu_solve(system, mpmath.matrix(targets[few, label].tolist()))
            for given, least in ((coefficients, 0.0), (wrong, 1e-10)):
                found = rows.outputs(given)[:5, label].tolist()
                off = max(abs(a - b) for a, b in zip(exact, found, strict=True))
                assert least <= off <= learner.bound_rounding(given)


def test_the_kernel_is_exact_whatever_the_order(vectors: torch.Tensor) -> None:
    order, kernel = torch.randperm(SIZE), Kernel(GAMMA, UNIT)
    assert torch.equal(kernel(vectors, vectors[5:]), kernel(vectors[:, order], vectors[5:, order]))


def test_a_folded_kernel_is_that_of_both_images_even_where_float32_cannot_count() -> None:
    long = 2895  # 2 x 2895^2 < 2^24 < (2 x 2895)^2
    vectors = torch.zeros(3, SIZE, dtype=torch.int16)
    vectors[0, 0], vectors[0, 5], vectors[0, 9], vectors[1, 0], vectors[1, 5] = long, long, 1, long, long
    vectors[2] = torch.arange(SIZE)
    folded = FOLDING.fold(vectors)
    assert folded[0].double().square().view(4, -1).sum(1).max() > 1 << 24
    found = Kernel(4.0, 1e6, True)(folded, folded)
    plain = Kernel(4.0, 1e6)
    assert torch.equal(found, plain(vectors, vectors) + plain(vectors, mirrored(vectors)))


def test_products_are_exact_even_where_speed_was_asked_for() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        with exact_products():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
