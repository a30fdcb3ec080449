"""What every registered layer view promises, in every configuration."""

import copy

import pytest
import torch
from torch import nn

from codebound.run.errors import UsageError
from codebound_networks.views.layers import LAYER_VIEWS, LinearOperator, view_of

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def conv(kind, *args, size, **options):
    dims = 1 if kind is nn.Conv1d else 2
    shape = (args[0], *([size] if isinstance(size, int) else size))
    assert len(shape) == dims + 1
    label = "-".join([kind.__name__, *map(str, args), *(f"{k}={v}" for k, v in options.items())])
    return pytest.param(lambda: kind(*args, **options), shape, id=label.replace(" ", ""))


CASES = [
    pytest.param(lambda: nn.Linear(5, 3), (5,), id="Linear"),
    pytest.param(lambda: nn.Linear(5, 3, bias=False), (5,), id="Linear-no-bias"),
    pytest.param(lambda: nn.Linear(4, 2), (3, 4), id="Linear-on-sequences"),
    pytest.param(lambda: nn.Linear(1, 1), (1,), id="Linear-1x1"),
    conv(nn.Conv1d, 2, 3, 3, size=7),
    conv(nn.Conv1d, 2, 4, 3, size=9, stride=2, padding=2, dilation=2, groups=2),
    conv(nn.Conv1d, 2, 3, 4, size=6, padding="same"),
    *(
        conv(nn.Conv1d, 2, 3, 3, size=6, padding=2, padding_mode=m)
        for m in ("circular", "reflect", "replicate")
    ),
    conv(nn.Conv2d, 2, 3, 3, size=(5, 6)),
    conv(nn.Conv2d, 2, 3, 1, size=(4, 4), bias=False),
    conv(nn.Conv2d, 2, 3, (2, 3), size=(6, 7), stride=(2, 3), padding=(1, 0)),
    conv(nn.Conv2d, 2, 3, 3, size=(6, 6), stride=2),
    conv(nn.Conv2d, 2, 3, 3, size=(5, 5), padding="valid"),
    conv(nn.Conv2d, 2, 3, (2, 4), size=(5, 5), padding="same", dilation=(1, 2)),
    conv(nn.Conv2d, 4, 4, 3, size=(5, 5), padding=1, groups=4),
    conv(nn.Conv2d, 4, 6, 3, size=(7, 5), padding=2, dilation=2, groups=2),
    *(
        conv(nn.Conv2d, 2, 3, 3, size=(4, 5), stride=2, padding=(2, 1), padding_mode=mode)
        for mode in ("circular", "reflect", "replicate")
    ),
    conv(nn.Conv2d, 2, 3, 4, size=(5, 6), padding="same", padding_mode="reflect"),
]

every_case = pytest.mark.parametrize(("make", "shape"), CASES)


def without_bias(module):
    module = copy.deepcopy(module)
    module.bias = None
    return module


def seeded_double(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().double()


def batch(shape, *, count=3, dtype=torch.float64):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(1), dtype=dtype)


def dot_products(operator: LinearOperator, apply, adjoint):
    x = batch(operator.in_shape)
    y = batch(operator.out_shape)
    return (apply(x) * y).flatten(1).sum(1), (x * adjoint(y)).flatten(1).sum(1)


def test_every_registered_type_has_cases():
    assert {type(case.values[0]()) for case in CASES} == set(LAYER_VIEWS)


@pytest.mark.few(7)
@every_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("device", DEVICES)
def test_operator_is_the_forward_pass_without_bias(make, shape, dtype, device):
    module = seeded_double(make).to(device, dtype)
    operator = view_of("layer", module).operator(shape)
    x = batch(shape, dtype=dtype).to(device)
    expected = without_bias(module)(x)
    assert operator.in_shape == shape
    assert operator.out_shape == tuple(expected.shape[1:])
    assert torch.equal(operator.apply(x), expected)
    assert operator.adjoint(expected).dtype == dtype
    assert operator.adjoint(expected).device.type == device


@pytest.mark.few(9)
@every_case
def test_adjoint_passes_the_dot_product_test(make, shape):
    operator = view_of("layer", seeded_double(make)).operator(shape)
    left, right = dot_products(operator, operator.apply, operator.adjoint)
    assert torch.allclose(left, right, rtol=1e-12, atol=1e-12)


def test_the_dot_product_test_has_teeth():
    view = view_of("layer", seeded_double(lambda: nn.Conv2d(2, 2, 3, padding=1)))
    flipped = nn.Conv2d(2, 2, 3, padding=1, bias=False).double()
    flipped.weight = nn.Parameter(view.weight.transpose(0, 1))  # forgets to flip the kernel
    operator = view.operator((2, 5, 5))
    left, right = dot_products(operator, operator.apply, flipped)
    assert not torch.allclose(left, right, rtol=1e-3)


@pytest.mark.few(9)
@every_case
def test_dense_is_the_matrix_column_by_column(make, shape):
    module = seeded_double(make)
    dense = view_of("layer", module).operator(shape).dense()
    size = int(torch.tensor(shape).prod())
    bare = without_bias(module)
    columns = [bare(unit.view(1, *shape)).flatten() for unit in torch.eye(size, dtype=torch.float64)]
    assert torch.allclose(dense, torch.stack(columns, dim=1), rtol=1e-13, atol=1e-15)


@pytest.mark.few(9)
@every_case
def test_dense_transposed_is_the_adjoint(make, shape):
    operator = view_of("layer", seeded_double(make)).operator(shape)
    y = batch(operator.out_shape)
    assert torch.allclose(
        operator.adjoint(y).flatten(1), y.flatten(1) @ operator.dense(), rtol=1e-12, atol=1e-12
    )


@pytest.mark.few(9)
@every_case
def test_matrix_and_back_is_exact_and_copies_nothing(make, shape):
    module = seeded_double(make)
    view = view_of("layer", module)
    assert view.matrix.dim() == 2
    assert view.matrix.data_ptr() == module.weight.data_ptr()
    assert not view.weight.requires_grad
    assert torch.equal(view.from_matrix(view.matrix.clone()), module.weight)
    assert torch.equal(view.from_matrix(2 * view.matrix), 2 * module.weight)


@every_case
def test_wrong_shapes_are_refused_by_name(make, shape):
    view = view_of("block.layer", seeded_double(make))
    with pytest.raises(UsageError, match=r"block\.layer"):
        view.operator(
            (*shape[:-1], shape[-1] + 1) if len(shape) == 1 or view.weight.dim() == 2 else (99, *shape[1:])
        )
    with pytest.raises(UsageError, match=r"block\.layer"):
        view.from_matrix(view.matrix.new_zeros(7, 7))
    operator = view.operator(shape)
    with pytest.raises(UsageError, match="an input batch"):
        operator.apply(torch.zeros(2, 3, 99))


def test_inputs_smaller_than_a_patch_or_its_padding_are_refused():
    with pytest.raises(UsageError, match="conv takes inputs"):
        view_of("conv", nn.Conv2d(1, 1, 5)).operator((1, 4, 9))
    for mode in ("reflect", "circular"):
        view = view_of("conv", nn.Conv1d(1, 1, 3, padding=5, padding_mode=mode))
        with pytest.raises(UsageError, match="conv takes inputs"):
            view.operator((1, 4))
        assert view.operator((1, 6)).apply(torch.zeros(1, 1, 6)).shape == (1, 1, 14)


@pytest.mark.thorough
def test_a_large_dense_matrix_is_refused():
    operator = view_of("conv", nn.Conv2d(3, 64, 3, padding=1)).operator((3, 224, 224))
    with pytest.raises(UsageError, match="apply and adjoint"):
        operator.dense()
