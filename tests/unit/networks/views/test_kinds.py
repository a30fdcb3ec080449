"""The table of steps: every claimed property is checked on random inputs, and the claims can fail."""

import math

import pytest
import torch
from torch import fx, nn
from torch.nn import functional

from codebound.learn.images import DictionaryFeatures
from codebound_networks.chains.shifts import MeanOverShifts, StackedShifts
from codebound_networks.views.kinds import (
    FIXED,
    FUNCTION_KINDS,
    MODULE_KINDS,
    OTHER,
    Kind,
    kind_of,
    kind_of_node,
)

VECTOR, SERIES, IMAGE = (6,), (4, 9), (4, 8, 8)
CASES = [
    *(
        (nn.ReLU(), VECTOR),
        (nn.LeakyReLU(0.2), VECTOR),
        (nn.LeakyReLU(-3.0), VECTOR),
        (nn.PReLU(6, 2.5), VECTOR),
    ),
    *((nn.ReLU6(), VECTOR), (nn.Hardtanh(-0.5, 2.0), VECTOR), (nn.Tanh(), VECTOR), (nn.Sigmoid(), VECTOR)),
    *((nn.Softplus(3.0), VECTOR), (nn.ELU(2.0), VECTOR), (nn.SiLU(), VECTOR)),
    *((nn.GELU(), VECTOR), (nn.GELU("tanh"), VECTOR)),
    *((nn.BatchNorm1d(6), VECTOR), (nn.BatchNorm2d(4), IMAGE), (nn.SyncBatchNorm(4), IMAGE)),
    *((nn.GroupNorm(2, 4), IMAGE), (nn.LayerNorm(6), VECTOR), (nn.RMSNorm(6), VECTOR)),
    *((nn.MaxPool1d(3, 2), SERIES), (nn.MaxPool2d(2), IMAGE), (nn.MaxPool2d(3, 2, 1), IMAGE)),
    *((nn.MaxPool2d(3, 1, dilation=2), IMAGE), (nn.MaxPool2d((2, 3), (1, 2)), IMAGE)),
    *((nn.AvgPool1d(3, 2), SERIES), (nn.AvgPool2d(2), IMAGE), (nn.AvgPool2d(3, 1, 1), IMAGE)),
    *((nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE), (nn.AvgPool2d(3, 3, ceil_mode=True), IMAGE)),
    *((nn.AvgPool2d(2, divisor_override=1), IMAGE), (nn.AvgPool2d((1, 8)), IMAGE)),
    *(
        (nn.AdaptiveAvgPool1d(1), SERIES),
        (nn.AdaptiveAvgPool2d(1), IMAGE),
        (nn.AdaptiveAvgPool2d((3, 5)), IMAGE),
    ),
    *(
        (nn.Flatten(), IMAGE),
        (nn.Dropout(0.3), VECTOR),
        (nn.Dropout1d(0.3), SERIES),
        (nn.Dropout2d(0.3), IMAGE),
    ),
    (nn.Identity(), VECTOR),
    *((DictionaryFeatures(1, 2), IMAGE), (StackedShifts(3), IMAGE), (MeanOverShifts(1), VECTOR)),
]
every_case = pytest.mark.parametrize(
    ("module", "shape"), CASES, ids=lambda value: str(value).replace(" ", "")
)


def prepared(module):
    module = module.double().eval()
    generator = torch.Generator().manual_seed(0)
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point() and not isinstance(module, nn.PReLU):
            tensor.data.copy_(torch.rand(tensor.shape, generator=generator, dtype=torch.float64) + 0.1)
    return module


def violations(module, shape, kind: Kind) -> list[str]:
    """The claims of ``kind`` that inputs of that shape refute."""
    generator = torch.Generator().manual_seed(1)
    draw = lambda scale: scale * torch.randn(64, *shape, generator=generator, dtype=torch.float64)  # noqa: E731
    x, y, small = draw(2.0), draw(2.0), draw(1e-4)
    with torch.no_grad():
        found = []
        zero_one = torch.zeros(64, *shape, dtype=torch.float64)
        zero_one.view(64, -1)[torch.arange(64), torch.arange(64) % zero_one[0].numel()] = 1.0
        for a, b in (
            (x, y),
            (x, x + small),
            (x, x + zero_one),
            (1.4 + small, 1.4 + 2 * small),
            (small, -small),
        ):
            ratio = (module(a) - module(b)).flatten(1).norm(dim=1) / (a - b).flatten(1).norm(dim=1)
            if kind.lipschitz is not None and ratio.max() > kind.lipschitz * (1 + 1e-9):
                found.append("lipschitz")
        if kind.homogeneous and not torch.allclose(module(3.7 * x), 3.7 * module(x)):
            found.append("homogeneous")
    return found


def test_every_listed_module_has_a_case():
    assert {type(module) for module, _ in CASES} == set(MODULE_KINDS)


def test_a_fixed_step_that_was_changed_is_none():
    class Brighter(DictionaryFeatures):
        def planes(self, x):
            return 2 * x

    changed, hooked = DictionaryFeatures(1, 2), StackedShifts(1)
    changed.planes = lambda x: 2 * x
    hooked.register_forward_hook(lambda module, args, output: 2 * output)
    assert [kind_of(each) for each in (DictionaryFeatures(1, 2), StackedShifts(1))] == [FIXED] * 2
    assert [kind_of(each) for each in (Brighter(1, 2), changed, hooked)] == [OTHER] * 3


@pytest.mark.few(10)
@every_case
def test_no_claim_is_refuted(module, shape):
    module = prepared(module)
    assert violations(module, shape, kind_of(module)) == []


@pytest.mark.parametrize(
    ("module", "shape", "claim", "refuted"),
    [
        (nn.LeakyReLU(-3.0), VECTOR, Kind("activation", lipschitz=1.0), "lipschitz"),
        (nn.GELU(), VECTOR, Kind("activation", lipschitz=1.1), "lipschitz"),
        (nn.AvgPool2d(2, divisor_override=1), IMAGE, Kind("pooling", lipschitz=1.0), "lipschitz"),
        (nn.ReLU6(), VECTOR, Kind("activation", homogeneous=True), "homogeneous"),
    ],
)
def test_the_checks_have_teeth(module, shape, claim, refuted):
    assert refuted in violations(prepared(module), shape, claim)


def test_lipschitz_constants_of_smooth_activations_are_tight():
    x = torch.linspace(-10, 10, 400_001, dtype=torch.float64)
    for module in (nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Sigmoid(), nn.Tanh(), nn.ELU(2.0)):
        steepest = ((module(x[1:]) - module(x[:-1])) / (x[1:] - x[:-1])).abs().max().item()
        assert 0.99 * kind_of(module).lipschitz < steepest <= kind_of(module).lipschitz * (1 + 1e-9)


@pytest.mark.parametrize(
    ("module", "shape"),
    [(nn.AvgPool2d(2), (1, 6, 6)), (nn.AvgPool2d(3, 1), (1, 6, 6)), (nn.AvgPool1d(2), (1, 6))],
)
def test_average_pooling_against_its_matrix(module, shape):
    size = math.prod(shape)
    matrix = module(torch.eye(size, dtype=torch.float64).view(size, *shape)).flatten(1)
    assert torch.linalg.matrix_norm(matrix, 2) <= kind_of(module).lipschitz + 1e-12


def test_unknown_modules_claim_nothing():
    class Halves(nn.ReLU):
        def forward(self, x):
            return x / 2

    for module in (nn.Softmax(1), nn.MaxPool2d(2, return_indices=True), Halves(), nn.LSTM(2, 2)):
        assert kind_of(module) == Kind("other")
    assert kind_of(nn.BatchNorm1d(3, track_running_stats=False)) == Kind("batch norm")
    assert kind_of(nn.Linear(2, 2)) == Kind("layer")
    assert kind_of(nn.Linear(2, 2, bias=False)) == Kind("layer", homogeneous=True)


FUNCTIONS = [
    (lambda x: functional.relu(x, inplace=True), nn.ReLU()),
    (lambda x: functional.relu_(x), nn.ReLU()),
    (lambda x: torch.relu(x), nn.ReLU()),
    (lambda x: torch.relu_(x), nn.ReLU()),
    (lambda x: x.relu(), nn.ReLU()),
    (lambda x: x.relu_(), nn.ReLU()),
    (lambda x: functional.leaky_relu(x, 1.7), nn.LeakyReLU(1.7)),
    (lambda x: functional.relu6(x), nn.ReLU6()),
    (lambda x: torch.tanh(x), nn.Tanh()),
    (lambda x: x.tanh(), nn.Tanh()),
    (lambda x: torch.sigmoid(x), nn.Sigmoid()),
    (lambda x: x.sigmoid(), nn.Sigmoid()),
    (lambda x: functional.elu(x, 2.0), nn.ELU(2.0)),
    (lambda x: functional.gelu(x), nn.GELU()),
    (lambda x: functional.silu(x), nn.SiLU()),
    (lambda x: functional.max_pool1d(x, 3, 1), nn.MaxPool1d(3, 1)),
    (lambda x: functional.max_pool2d(x, 3, 2), nn.MaxPool2d(3, 2)),
    (lambda x: functional.max_pool2d(x, kernel_size=3, stride=1), nn.MaxPool2d(3, 1)),
    (lambda x: functional.max_pool2d(x, 2), nn.MaxPool2d(2)),
    (lambda x: functional.avg_pool1d(x, 3, 1), nn.AvgPool1d(3, 1)),
    (lambda x: functional.avg_pool2d(x, 4), nn.AvgPool2d(4)),
    (lambda x: functional.avg_pool2d(x, 3, stride=2), nn.AvgPool2d(3, 2)),
    (lambda x: functional.adaptive_avg_pool1d(x, 1), nn.AdaptiveAvgPool1d(1)),
    (lambda x: functional.adaptive_avg_pool2d(x, (1, 1)), nn.AdaptiveAvgPool2d(1)),
    (lambda x: torch.flatten(x, 1), nn.Flatten()),
    (lambda x: x.flatten(1), nn.Flatten()),
    (lambda x: x.view(2, -1), nn.Flatten()),
    (lambda x: x.reshape(2, -1), nn.Flatten()),
    (lambda x: functional.dropout(x, training=False), nn.Dropout()),
]


def call_of(function):
    traced = fx.symbolic_trace(function)
    return next(node for node in traced.graph.nodes if node.op.startswith("call")), traced


def test_every_listed_function_has_a_case():
    assert {call_of(function)[0].target for function, _ in FUNCTIONS} == set(FUNCTION_KINDS)


@pytest.mark.few(12)
@pytest.mark.parametrize(("function", "module"), FUNCTIONS)
def test_a_function_has_the_kind_of_its_module(function, module):
    node, traced = call_of(function)
    assert kind_of_node(node, traced) == kind_of(module)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: x + x.relu(), ["activation", "add"]),
        (lambda x: torch.add(x, x.relu()), ["activation", "add"]),
        (lambda x: torch.add(x, x.relu(), alpha=2), ["activation", "other"]),
        (lambda x: x + 1, ["other"]),
        (lambda x: x[:, ::2], ["index"]),
        (lambda x: functional.pad(x, (0, 0, 1, 2)), ["pad"]),
        (lambda x: functional.pad(x, (0, 1), mode="replicate"), ["other"]),
        (lambda x: functional.pad(x, (0, 1), value=1.0), ["other"]),
        (lambda x: x.view(x.size(0), -1), ["shape", "flatten"]),
        (lambda x: x.view(x.shape[0], -1), ["shape", "shape", "flatten"]),
        (lambda x: functional.dropout(x), ["other"]),
        (lambda x: functional.avg_pool2d(x, x.size()[3]), ["shape", "shape", "other"]),
        (lambda x: functional.softmax(x, 1), ["other"]),
        (lambda x: x * 2, ["other"]),
    ],
)
def test_kinds_of_traced_steps(function, names):
    traced = fx.symbolic_trace(function)
    kinds = [kind_of_node(node, traced).name for node in traced.graph.nodes if node.op.startswith("call")]
    assert kinds == names
