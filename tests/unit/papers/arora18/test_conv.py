"""Filters per location: the published algorithm, coherence, the moment lemmas, and the coded variant."""

import math

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from codebound.bits.stream import Stream
from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.from_module import chain_of
from codebound_networks.chains.operations import Conv, Linear, LocalConv, MaxPool
from codebound_networks.codes.arithmetic import Writer
from codebound_networks.codes.quantization import step_size
from codebound_networks.train.rng import torch_stream
from codebound_networks.views.zoo import build
from codebound_papers.arora18.conv import (
    coherence,
    conv_from_numbers,
    conv_project,
    location_correlation,
    mixed_moment_sum,
    moment_bound,
    project_conv,
    random_subspace,
    subexponential_sigma,
    tail_bound,
)
from codebound_papers.arora18.projection_plan import ConvCount, published_conv_count
from codebound_papers.compress.codes import Mixed

COUNT = ConvCount(mixes=5, order=2)


def lenet() -> tuple[Chain, dict[str, torch.Tensor]]:
    return chain_of(build("lenet5", input_shape=(1, 8, 8), classes=10), (1, 8, 8))


def convolutions(chain: Chain) -> list[int]:
    return [i for i, operation in enumerate(chain.operations) if isinstance(operation, Conv)]


@pytest.mark.thorough
def test_estimates_are_unbiased():
    filters = torch.randn(2, 3, 2, 2, generator=torch.Generator().manual_seed(0)).double()
    found = [project_conv(filters, locations=2, count=COUNT, seed=seed) for seed in range(3000)]
    mean = torch.stack(found).mean(dim=(0, 1))
    # an entry has variance about ||A||^2 (1/kp + 1/k) and is shared between locations
    spread = float(filters.norm()) * math.sqrt((1 / 10 + 1 / 5) / 3000)
    assert float((mean - filters).abs().max()) < 5 * spread


def test_lemma_11_everything_comes_from_the_numbers():
    """Against the algorithm as printed: k projected Gaussian tensors for each location, written out."""
    entries = torch.randn(24, generator=torch.Generator().manual_seed(1)).double()
    basis = random_subspace(24, COUNT.numbers, seed=4)
    found = conv_from_numbers(basis.T @ entries, basis, locations=3, count=COUNT, seed=4)
    generator = torch_stream(4, "locations")
    for location in found:
        # coordinates of Gaussian tensors in an orthonormal basis are Gaussian
        coordinates = torch.randn(COUNT.mixes, COUNT.numbers, generator=generator, dtype=torch.float64)
        tensors = math.sqrt(24 / COUNT.numbers) * coordinates @ basis.T
        literal = sum(float(entries @ tensor) * tensor for tensor in tensors) / COUNT.mixes
        assert torch.allclose(location, literal)


def test_the_basis_is_orthonormal_and_named_by_its_seed():
    basis = random_subspace(30, 7, seed=1)
    assert torch.allclose(basis.T @ basis, torch.eye(7).double(), atol=1e-12)
    assert torch.equal(basis, random_subspace(30, 7, seed=1))
    assert not torch.equal(basis, random_subspace(30, 7, seed=2))


def test_published_count_by_hand():
    count = published_conv_count(0.5, 1e-3, patch=2, constant=3.0)
    assert count.mixes == math.ceil(3 * 4 * math.log(1000) ** 2 / 0.25)
    assert count.order == 10
    assert count.numbers == 10 * count.mixes


def test_a_full_subspace_leaves_no_correlation():
    assert location_correlation(40, ConvCount(10, 4)) == 0.0


@examples(30)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 1),
    st.integers(0, 9),
)
def test_coherence_equals_a_sum_over_locations(out, channels, kernel, stride, padding, seed):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(channels, 5, 6, generator=generator).double()
    padded = functional.pad(image, (padding,) * 4)
    rows, columns = ((n - kernel) // stride + 1 for n in padded.shape[1:])
    jacobian = torch.randn(out, rows, columns, 2, generator=generator).double()
    total = torch.zeros(out, 2, channels, kernel, kernel).double()
    for i in range(rows):
        for j in range(columns):
            top, left = stride * i, stride * j
            patch = padded[:, top : top + kernel, left : left + kernel]
            total += torch.einsum("ou,cab->oucab", jacobian[:, i, j], patch)
    norms = math.ceil(kernel / stride) * float(jacobian.norm() * image.norm())
    expected = float(total.norm()) * math.sqrt(rows * columns) / norms
    found = coherence(jacobian, image, kernel=kernel, stride=stride, padding=padding)
    assert found == pytest.approx(expected)
    assert found <= math.sqrt(rows * columns) * (1 + 1e-9)


def test_coherence_tells_in_phase_from_random():
    generator = torch.Generator().manual_seed(0)
    random = coherence(
        torch.randn(4, 14, 14, 3, generator=generator), torch.randn(2, 16, 16, generator=generator), kernel=3
    )
    constant = coherence(torch.ones(4, 14, 14, 3), torch.ones(2, 16, 16), kernel=3)
    assert random < 1.5
    assert constant > 10


def test_coherence_refuses_what_does_not_fit():
    with pytest.raises(UsageError, match="has 16 patches"):
        coherence(torch.ones(1, 3, 3, 1), torch.ones(1, 4, 4), kernel=1)
    with pytest.raises(UsageError, match="channels, n1', n2', outputs"):
        coherence(torch.ones(16, 1), torch.ones(1, 4, 4), kernel=1)
    with pytest.raises(UsageError, match="zero image"):
        coherence(torch.ones(1, 4, 4, 1), torch.zeros(1, 4, 4), kernel=1)


def test_one_convolution_of_a_chain_becomes_local():
    chain, tensors = lenet()
    position = convolutions(chain)[0]
    local, codes = conv_project(chain, tensors, [position], numbers=20, mixes=30)
    assert isinstance(local.operations[position], LocalConv)
    assert [o for i, o in enumerate(local.operations) if i != position] == [
        o for i, o in enumerate(chain.operations) if i != position
    ]
    (name,) = codes
    assert isinstance(codes[name], Mixed)
    assert codes[name].shape == local.tensor_shapes()[name]


def test_decoded_filters_are_integers_times_a_step():
    chain, tensors = lenet()
    position = convolutions(chain)[0]
    _, codes = conv_project(chain, tensors, [position], numbers=12, mixes=7, levels=15, seed=3)
    code = codes[f"{position}.weight"]
    locations, size = code.shape[0], math.prod(code.shape[1:])
    signs, mix = Stream(3 + position, "basis"), Stream(3 + position, "mix")
    basis = np.array([signs.signs(size) for _ in range(12)], dtype=np.int64)
    z = code.inner.levels.astype(np.int64)
    for t in range(locations):
        drawn = mix.gaussian_quarters(7 * 12).astype(np.int64).reshape(7, 12)
        expected = (drawn.T @ (drawn @ z)) @ basis * step_size(code.inner.step)
        assert np.array_equal(code.weights()[t].ravel(), expected.astype(np.float32))


def test_no_other_step_fits_better():
    chain, tensors = lenet()
    position = convolutions(chain)[1]
    name = f"{position}.weight"
    _, codes = conv_project(chain, tensors, [position], numbers=100, mixes=400)
    decoded, original = codes[name].values(), tensors[name].double().numpy()
    errors = [float(((decoded * 2 ** (shift / 8) - original) ** 2).sum()) for shift in (-1, 0, 1)]
    assert errors[1] == min(errors)


@pytest.mark.thorough
def test_more_numbers_come_closer():
    chain, tensors = lenet()
    position = convolutions(chain)[1]
    name = f"{position}.weight"

    def error(numbers: int) -> float:
        _, codes = conv_project(chain, tensors, [position], numbers=numbers, mixes=4000)
        return float(((codes[name].values() - tensors[name].double().numpy()) ** 2).mean())

    assert error(600) < 0.8 * error(50)


def test_numbers_never_outnumber_the_weights():
    chain, tensors = lenet()
    position = convolutions(chain)[0]
    _, codes = conv_project(chain, tensors, [position], numbers=4000, mixes=5)
    (code,) = codes.values()
    assert code.inner.shape == (tensors[f"{position}.weight"].numel(),)


def test_zero_filters_stay_zero():
    chain, tensors = lenet()
    position = convolutions(chain)[0]
    zeros = {**tensors, f"{position}.weight": torch.zeros_like(tensors[f"{position}.weight"])}
    _, codes = conv_project(chain, zeros, [position], numbers=9, mixes=5)
    assert not codes[f"{position}.weight"].weights().any()


def test_what_is_no_convolution_is_refused():
    chain = Chain((1, 4, 4), (Conv(2, 3, 1, 0, bias=False), MaxPool(2), Linear(3, bias=False)))
    for position in (1, 2, 3, -1):
        with pytest.raises(
            UnsupportedLayerError, match=f"operation {position} of the chain is no convolution"
        ):
            conv_project(chain, {}, [position])


def test_too_many_locations_are_refused():
    chain = Chain((64, 64, 64), (Conv(64, 3, 1, 1, bias=False), Linear(2, bias=False)))
    with pytest.raises(UnsupportedLayerError, match="4,096 locations of 36,864 weights"):
        conv_project(chain, {"0.weight": torch.zeros(64, 64, 3, 3)}, [0])


def test_the_work_that_is_refused_is_the_work_that_a_message_charges(monkeypatch):
    chain, tensors = lenet()
    arguments = (chain, tensors, convolutions(chain)[1:])
    _, codes = conv_project(*arguments, numbers=7, mixes=9)
    writer = Writer()
    for code in codes.values():
        code.code(writer)
    monkeypatch.setattr("codebound_papers.arora18.conv.MAX_WORK", writer._work)
    conv_project(*arguments, numbers=7, mixes=9)
    monkeypatch.setattr("codebound_papers.arora18.conv.MAX_WORK", writer._work - 1)
    with pytest.raises(UnsupportedLayerError, match="too much for a message"):
        conv_project(*arguments, numbers=7, mixes=9)


@pytest.mark.parametrize(("numbers", "mixes"), [(0, 5), (5, 0), (5, 5000)])
def test_counts_out_of_range_are_refused(numbers, mixes):
    chain, tensors = lenet()
    with pytest.raises(UsageError, match="numbers and mixes"):
        conv_project(chain, tensors, convolutions(chain)[:1], numbers=numbers, mixes=mixes)


def laplace_sum_moment(scales: list[float], order: int) -> float:
    """E(sum X_i)^p for independent Laplace variables, by the series of E exp(sX) = 1/(1 - (b s)^2)."""
    series = np.zeros(order + 1)
    series[0] = 1.0
    for scale in scales:
        factor = np.array([scale**k if k % 2 == 0 else 0.0 for k in range(order + 1)])
        series = np.convolve(series, factor)[: order + 1]
    return float(series[order]) * math.factorial(order)


def test_a_laplace_variable_is_one_subexponential():
    sigma = subexponential_sigma([float(math.factorial(k)) for k in range(1, 30)])
    assert sigma == 1.0
    assert subexponential_sigma([float(math.factorial(k)) * 3.0**k for k in range(1, 30)]) == pytest.approx(
        3.0
    )


@given(st.lists(st.floats(0.1, 5.0), min_size=1, max_size=6), st.sampled_from([2, 4, 6, 8]))
def test_the_moment_bound_holds(scales, order):
    exact = laplace_sum_moment(scales, order)
    assert exact <= moment_bound(scales, order)
    assert exact > 0.0


def test_the_moment_bound_needs_the_growth_of_k():
    """Teeth: (3 sigma)^p alone, without (2p)^p, is below the exact moment."""
    assert laplace_sum_moment([1.0], 8) > 3.0**8


def test_the_tail_bound_holds_for_vectors():
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(5, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    norms = np.linalg.norm(rng.laplace(size=(20_000, 5)) @ directions, axis=1)
    for distance in (1.0, 5.0, 10.0, 30.0):
        for order in (2, 4):
            assert float((norms >= distance).mean()) <= tail_bound([1.0] * 5, order, distance)
    assert tail_bound([1.0] * 5, 2, 60.0) < 0.25


def test_markov_connects_moment_and_tail():
    """P(|X| >= 6 sigma p t) <= t^-p."""
    sigma, order, t = math.hypot(1.0, 2.0), 4, 3.0
    assert tail_bound([1.0, 2.0], order, 6 * sigma * order * t) == pytest.approx(t**-order)
    assert moment_bound([1.0, 2.0], order) / (6 * sigma * order * t) ** order == pytest.approx(t**-order)


@pytest.mark.parametrize(
    "call",
    [
        lambda: subexponential_sigma([]),
        lambda: moment_bound([], 2),
        lambda: moment_bound([-1.0], 2),
        lambda: tail_bound([1.0], 2, 0.0),
        lambda: mixed_moment_sum([1.0], 1),
        lambda: tail_bound([1.0], 3, 1.0),
    ],
)
def test_moments_that_make_no_sense_are_refused(call):
    with pytest.raises(UsageError):
        call()
