"""Spectral norms of convolutions against the dense singular value decomposition of the module itself."""

import math

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from codebound.run.errors import ModelError, UsageError
from codebound_networks.views.layers import view_of
from codebound_papers.measure import spectral
from codebound_papers.measure.spectral import embedding_bound, matrix_spectral_norm, spectral_norm


def dense(conv: nn.Module, shape: tuple[int, ...]) -> np.ndarray:
    """The map of the module, column by column, through its own forward pass."""
    units = torch.eye(math.prod(shape), dtype=torch.float64).view(-1, *shape)
    with torch.no_grad():
        return conv.double()(units).flatten(1).T.numpy()


def exact_norm(conv: nn.Module, shape: tuple[int, ...]) -> float:
    return float(np.linalg.svd(dense(conv, shape), compute_uv=False)[0])


@st.composite
def convolutions(draw, modes=("zeros", "circular", "reflect", "replicate")):
    groups = draw(st.sampled_from([1, 1, 2]))
    inputs, outputs = (groups * draw(st.integers(1, 3)) for _ in range(2))
    axes = draw(st.integers(1, 2))
    kernel, stride, dilation = (tuple(draw(st.integers(1, most)) for _ in range(axes)) for most in (4, 3, 2))
    mode = draw(st.sampled_from(modes))
    padding = tuple(draw(st.integers(0, 2)) for _ in range(axes))
    size = tuple(draw(st.integers(3, 6)) for _ in range(axes))
    assume(all(n + 2 * p > d * (k - 1) for n, p, d, k in zip(size, padding, dilation, kernel, strict=True)))
    kind = nn.Conv2d if axes == 2 else nn.Conv1d
    conv = kind(inputs, outputs, kernel, stride, padding, dilation, groups, False, mode)
    nn.init.normal_(conv.weight, generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))
    if draw(st.booleans()):
        nn.init.constant_(conv.weight, 1.0)  # the worst case of every circular bound: all at frequency 0
    return conv, (inputs, *size)


@examples(80)
@given(convolutions())
def test_written_out_maps_are_exact(case):
    conv, shape = case
    exact = exact_norm(conv, shape)
    norm = spectral_norm(view_of("conv", conv), shape)
    assert norm.exact
    assert norm.value == pytest.approx(exact, rel=1e-9)
    assert exact * (1 - 1e-14) <= norm.upper <= exact * (1 + 1e-8)


@pytest.mark.thorough
@examples(200)
@given(convolutions())
def test_the_bounds_of_large_maps_hold(case):
    conv, shape = case
    exact = exact_norm(conv, shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spectral, "EXACT_SIDE", 0)
        patch.setattr(spectral, "_CHUNK_ENTRIES", 64)
        view = view_of("conv", conv)
        norm = spectral_norm(view, shape)
        every = (embedding_bound(view, shape), spectral._schur_bound(view, shape))
    assert min(norm.upper, *every) >= exact * (1 - 1e-14)
    assert norm.value <= exact * (1 + 1e-12)
    assert norm.value >= 0.9 * exact
    assert norm.exact <= math.isclose(norm.upper, exact, rel_tol=1e-8)


@examples(60)
@given(convolutions(modes=("zeros",)))
def test_the_frobenius_norm_of_the_map(case):
    conv, shape = case
    view = view_of("conv", conv.double())
    found = spectral._frobenius_bound(view, view.operator(shape))
    assert found == pytest.approx(np.linalg.norm(dense(conv, shape)), rel=1e-12)


@pytest.mark.parametrize(("stride", "size"), [(1, 5), (2, 6), (3, 6)])
def test_circular_convolutions_are_exact_without_a_dense_map(stride, size, monkeypatch):
    conv = nn.Conv2d(2, 3, 3, stride=stride, padding=1, bias=False, padding_mode="circular")
    exact = exact_norm(conv, (2, size, size))
    monkeypatch.setattr(spectral, "EXACT_SIDE", 0)
    norm = spectral_norm(view_of("conv", conv), (2, size, size))
    assert norm.exact
    assert norm.value == pytest.approx(exact, rel=1e-10)
    assert norm.upper >= exact


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [8, 12])
def test_upper_is_within_a_tenth_on_typical_layers(stride, size, monkeypatch):
    """Random 3x3 kernels with padding 1: the bound loses less as the input grows."""
    conv = nn.Conv2d(8, 8, 3, stride=stride, padding=1, bias=False)
    nn.init.normal_(conv.weight, generator=torch.Generator().manual_seed(0))
    exact = exact_norm(conv, (8, size, size))
    monkeypatch.setattr(spectral, "EXACT_SIDE", 0)
    norm = spectral_norm(view_of("conv", conv), (8, size, size))
    assert exact <= norm.upper <= 1.1 * exact
    assert norm.value == pytest.approx(exact, rel=1e-3)
    assert norm.method == "Lanczos estimate from below; upper bound by circular embedding"


def test_the_reshaped_kernel_has_another_norm():
    conv = nn.Conv2d(1, 1, 3, padding=1, bias=False)
    nn.init.ones_(conv.weight)
    view = view_of("blur", conv)
    assert matrix_spectral_norm(view.matrix).value == pytest.approx(3.0)
    assert spectral_norm(view, (1, 20, 20)).value == pytest.approx(exact_norm(conv, (1, 20, 20)))
    assert exact_norm(conv, (1, 20, 20)) > 8.8


def test_too_small_a_torus_would_be_no_bound():
    """Teeth for the embedding: the textbook torus, of the size of the input, fails the same check."""
    violations = 0
    for seed in range(20):
        conv = nn.Conv1d(1, 1, 4, padding=3, bias=False)
        nn.init.normal_(conv.weight, generator=torch.Generator().manual_seed(seed))
        exact = exact_norm(conv, (1, 3))
        view = view_of("conv", conv)
        _, textbook = spectral._symbol_norm(view, torus=(3,), stride=(1,))
        violations += textbook < exact * (1 - 1e-6)
        assert embedding_bound(view, (1, 3)) >= exact * (1 - 1e-14)
    assert violations > 0


def test_a_power_iteration_fails_the_check_that_upper_passes():
    conv = nn.Conv2d(3, 3, 3, padding=1, bias=False).double()
    nn.init.normal_(conv.weight, generator=torch.Generator().manual_seed(0))
    operator = view_of("conv", conv).operator((3, 6, 6))
    v = torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for _ in range(10):
        v = operator.adjoint(operator.apply(v))
        v = v / v.norm()
    assert float(operator.apply(v).norm()) < exact_norm(conv, (3, 6, 6)) * (1 - 1e-6)


def test_linear_layers_on_any_batch_shape():
    layer = nn.Linear(4, 3)
    exact = np.linalg.svd(layer.weight.detach().numpy().astype(float), compute_uv=False)[0]
    for shape in ((4,), (7, 4)):
        assert spectral_norm(view_of("fc", layer), shape).value == pytest.approx(exact, rel=1e-9)


def test_refusals_name_the_layer():
    conv = nn.Conv2d(2, 2, 3)
    with pytest.raises(UsageError, match="layer conv"):
        spectral_norm(view_of("conv", conv), (2, 2, 2))
    nn.init.constant_(conv.weight, math.nan)
    with pytest.raises(ModelError, match=r"layer conv: .*NaN"):
        spectral_norm(view_of("conv", conv), (2, 8, 8))
