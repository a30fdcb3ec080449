"""Convolutions as operators, over random configurations."""

import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from codebound_networks.views.layers import conv_output_size, view_of


@st.composite
def convolutions(draw):
    axes = draw(st.integers(1, 2))
    per_axis = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(axes))  # noqa: E731
    groups = draw(st.integers(1, 2))
    mode = draw(st.sampled_from(["zeros", "circular", "reflect", "replicate"]))
    kernel, dilation = per_axis(1, 3), per_axis(1, 2)
    same = draw(st.booleans())
    module = (nn.Conv1d if axes == 1 else nn.Conv2d)(
        groups * draw(st.integers(1, 2)),
        groups * draw(st.integers(1, 2)),
        kernel,
        stride=1 if same else per_axis(1, 3),
        padding="same" if same else per_axis(0, 2),
        dilation=dilation,
        groups=groups,
        padding_mode=mode,
        dtype=torch.float64,
    )
    return module, (module.in_channels, *per_axis(5, 7))


@examples(80)
@given(convolutions(), st.integers(0, 2**31))
def test_operator_adjoint_and_dense_agree_with_the_module(case, seed):
    module, shape = case
    generator = torch.Generator().manual_seed(seed)
    operator = view_of("conv", module).operator(shape)
    x = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    y = torch.randn(2, *operator.out_shape, generator=generator, dtype=torch.float64)
    bias = module.bias.view(-1, *([1] * (len(shape) - 1)))
    image = operator.apply(x)
    assert torch.allclose(image + bias, module(x), rtol=1e-12, atol=1e-12)
    assert torch.allclose((image * y).sum(), (x * operator.adjoint(y)).sum(), rtol=1e-11, atol=1e-11)
    assert torch.allclose(image.flatten(1), x.flatten(1) @ operator.dense().T, rtol=1e-11, atol=1e-11)


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 4), st.integers(0, 3), st.integers(1, 3))
def test_output_size_counts_the_positions_of_the_kernel(n, kernel, stride, padding, dilation):
    length, reach = n + 2 * padding, dilation * (kernel - 1)
    positions = sum(1 for start in range(0, length, stride) if start + reach < length)
    size = conv_output_size(n, kernel=kernel, stride=stride, padding=(padding, padding), dilation=dilation)
    assert max(size, 0) == positions
