"""Kernel ridge regression that grows, against one solution of the whole system."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

from codebound.learn.ridge import KernelRidge, Width, fold, kernel
from codebound.run.device import exact_products

N, SIZE, CLASSES, GAMMA, UNIT, RIDGE = 40, 12, 3, 1.0, 1e4, 0.25


@pytest.fixture
def vectors() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(-60, 60, (N, SIZE)).astype(np.int16))


@pytest.fixture
def labels() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).integers(0, CLASSES, N))


def exact_kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    apart = ((a[:, None].astype(np.float64) - b[None]) ** 2).sum(-1)
    return 1.0 / (1.0 + GAMMA / 4.0 * (apart / UNIT)) ** 4


def grown(
    vectors: torch.Tensor, labels: torch.Tensor, *, copies: int, is_joined: bool
) -> tuple[KernelRidge, list]:
    half = SIZE // 2
    ridge = KernelRidge(
        fold(vectors[:, :half], vectors[:, half:]) if is_joined else vectors,
        labels,
        classes=CLASSES,
        width=Width(GAMMA, UNIT, is_joined),
        ridge=RIDGE,
        capacity=80,
    )
    batches = [torch.arange(0, 6), torch.tensor([9, 7]), torch.tensor([20, 30, 11])]
    for rows in batches:
        # a copy that an isometry makes of a vector, as a mirror image does
        images = [torch.roll(vectors[rows], step * half, 1).float() for step in range(1, copies)]
        ridge.add(rows, () if is_joined else images)
    return ridge, batches


@pytest.mark.parametrize(("copies", "is_joined"), [(1, False), (2, False), (2, True)])
def test_batches_give_the_solution_of_the_whole(
    vectors: torch.Tensor, labels: torch.Tensor, copies: int, is_joined: bool
) -> None:
    ridge, batches = grown(vectors, labels, copies=copies, is_joined=is_joined)
    stored = vectors.numpy()
    supports, targets = [], []
    for rows in batches:
        for step in [0] if is_joined else range(copies):
            supports.append(np.roll(stored[rows], step * SIZE // 2, 1))
            targets.append(2.0 * np.eye(CLASSES)[labels[rows]] - 1.0)
    points, wanted = np.concatenate(supports), np.concatenate(targets)

    def both(a: np.ndarray) -> np.ndarray:
        found = exact_kernel(a, points)
        return found + exact_kernel(a, np.roll(points, SIZE // 2, 1)) if is_joined else found

    solution = np.linalg.solve(both(points) + RIDGE * np.eye(len(points)), wanted)
    found = ridge.outputs(ridge.coefficients())
    assert np.allclose(found.numpy(), both(stored) @ solution, atol=1e-11)
    rounding = ridge.bound_rounding(ridge.coefficients())
    assert np.abs(found.numpy() - both(stored) @ solution).max() <= rounding < 1e-10


def test_integers_take_half_the_room_and_give_the_same_kernel(
    vectors: torch.Tensor, labels: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, _ = grown(vectors, labels, copies=1, is_joined=False)
    first = len(usual._examples._blocks[0])
    monkeypatch.setattr("codebound.learn.ridge.KEPT", 8 * first * N)
    small, _ = grown(vectors, labels, copies=1, is_joined=False)
    sizes = [each.element_size() for each in small._examples._blocks]
    assert sizes == [8] + [4] * (len(sizes) - 1)  # what there is room for is kept as it is
    assert len(sizes) > 1
    for one, other in zip(usual._examples._blocks, small._examples._blocks, strict=True):
        assert one.element_size() == 8
        assert torch.equal(one, small._examples._values(other))
    assert torch.equal(small.coefficients(), usual.coefficients())
    joined, _ = grown(vectors, labels, copies=2, is_joined=True)  # of two integers each
    assert joined._examples._blocks[0].dtype == torch.float64


def test_the_rounding_bound_holds_in_many_digits_and_notices_a_wrong_solution(
    vectors: torch.Tensor, labels: torch.Tensor
) -> None:
    ridge, batches = grown(vectors, labels, copies=1, is_joined=False)
    rows = torch.cat(batches)
    with mpmath.workdps(40):
        # the kernel's values are floats by definition: what is solved with them is exact here
        among = kernel(vectors[rows].float(), vectors[rows].float(), gamma=GAMMA, unit=UNIT)
        system = mpmath.matrix(among.tolist()) + RIDGE * mpmath.eye(len(rows))
        for label in range(CLASSES):
            targets = mpmath.matrix([1 if each == label else -1 for each in labels[rows].tolist()])
            solution = mpmath.lu_solve(system, targets)
            across = mpmath.matrix(
                kernel(vectors[:5].float(), vectors[rows].float(), gamma=GAMMA, unit=UNIT).tolist()
            )
            exact = across * solution
            coefficients = ridge.coefficients()
            found = ridge.outputs(coefficients)[:5, label].tolist()
            assert max(abs(a - b) for a, b in zip(exact, found, strict=True)) <= ridge.bound_rounding(
                coefficients
            )
            wrong = coefficients.clone()
            wrong[3, label] += 1e-6
            off = max(
                abs(a - b) for a, b in zip(exact, ridge.outputs(wrong)[:5, label].tolist(), strict=True)
            )
            assert 1e-10 < off <= ridge.bound_rounding(wrong)


def test_the_kernel_is_exact_whatever_the_order(vectors: torch.Tensor) -> None:
    a, b = vectors[:10].float(), vectors[10:].float()
    order = torch.randperm(SIZE)
    assert torch.equal(
        kernel(a, b, gamma=GAMMA, unit=UNIT), kernel(a[:, order], b[:, order], gamma=GAMMA, unit=UNIT)
    )


def test_a_folded_kernel_is_that_of_both_images_even_where_float32_cannot_count() -> None:
    half, long = 2, 2896  # 2 x 2896^2 < 2^24 < (2 x 2896)^2
    vectors = torch.tensor([[long, 1, long, 0], [long, 0, long, 0], [3, -5, 7, 11]], dtype=torch.int16)
    both = fold(vectors[:, :half], vectors[:, half:])
    found = Width(gamma=4.0, unit=1e6, is_joined=True).between(both, both)
    own, images = vectors.float(), torch.roll(vectors, half, 1).float()
    expected = kernel(own, own, gamma=4.0, unit=1e6) + kernel(own, images, gamma=4.0, unit=1e6)
    assert torch.equal(found, expected)


def test_products_are_exact_even_where_speed_was_asked_for() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        with exact_products():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
