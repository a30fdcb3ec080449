"""Chains compute what the network computes, or the network is refused with the reason."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from worlds.networks import Skipping

from codebound.run.errors import ModelError, UnsupportedLayerError
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.from_module import chain_of
from codebound_networks.chains.operations import (
    AveragePool,
    Conv,
    GlobalAveragePool,
    Linear,
    LocalConv,
    MaxPool,
    Residual,
)
from codebound_networks.views.zoo import ZOO, build
from codebound_papers.arora18.conv import localise


def settled(model: nn.Module) -> nn.Module:
    """Batch norms with statistics that do something, in evaluation mode."""
    stream = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.copy_(torch.randn(module.num_features, generator=stream))
            module.running_var.copy_(torch.rand(module.num_features, generator=stream) + 0.5)
    return model.eval()


def same_function(model: nn.Module, shape: tuple[int, ...]) -> Chain:
    """The chain of a model, after both gave the same logits."""
    chain, tensors = chain_of(model, shape)
    x = torch.randn(4, *shape, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        torch.testing.assert_close(chain.build(tensors)(x), model(x), rtol=1e-4, atol=1e-4)
    return chain


ZOO_SPECS = {
    "linear": (1, 8, 8),
    "linear:bias=false": (7,),
    "mlp:widths=5x6": (1, 8, 8),
    "mlp:depth=3,width=4,bias=false": (9,),
    "lenet5": (1, 28, 28),
    "alexnet": (3, 32, 32),
    "vgg19:batch_norm=true": (3, 32, 32),
    "resnet20": (3, 8, 8),
    "resnet56": (1, 8, 8),
    "few-bits": (1, 28, 28),
}


def test_every_architecture_of_the_zoo_is_listed_here():
    assert {spec.partition(":")[0] for spec in ZOO_SPECS} == set(ZOO)


@pytest.mark.few(2)
@pytest.mark.parametrize("spec", ZOO_SPECS)
def test_a_zoo_net_is_a_chain(spec):
    shape = ZOO_SPECS[spec]
    model = settled(build(spec, input_shape=shape, classes=3))
    chain = same_function(model, shape)
    assert chain.classes == 3
    learned = sum(p.numel() for name, p in model.named_parameters() if "bn" not in name)
    coded = sum(torch.Size(size).numel() for size in chain.tensor_shapes().values())
    biases_of_folded_norms = sum(
        m.num_features for m in model.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)
    )
    assert coded == learned + biases_of_folded_norms


class Functional(nn.Module):
    """Layers declared in another order than they are called, everything else functional."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(12, 2)
        self.pool = nn.AvgPool2d(2)
        self.first = nn.Conv2d(1, 3, 3, stride=2, padding=1)

    def forward(self, x):
        x = self.pool(functional.relu(self.first(x))).relu()
        return self.last(torch.flatten(x, 1))


def test_a_functional_network_whose_layers_are_declared_in_another_order():
    chain = same_function(Functional(), (1, 8, 8))
    assert chain.operations == (Conv(3, 3, 2, 1, True), AveragePool(2), Linear(2, True))


RELU, POOL, FLAT, LINEAR = nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5, 5)
MODULES = {
    "batch norm after a linear": (
        nn.Sequential(nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2)),
        (4,),
        (Linear(3, True), Linear(2, True)),
    ),
    "one ReLU used twice": (
        nn.Sequential(nn.Linear(4, 5), RELU, nn.Linear(5, 5), RELU, nn.Linear(5, 2)),
        (4,),
        (Linear(5, True), Linear(5, True), Linear(2, True)),
    ),
    "one layer used twice": (
        nn.Sequential(nn.Linear(4, 5), nn.ReLU(), LINEAR, nn.ReLU(), LINEAR, nn.ReLU(), nn.Linear(5, 2)),
        (4,),
        (Linear(5, True), Linear(5, True), Linear(5, True), Linear(2, True)),
    ),
    "one pool used twice": (
        nn.Sequential(nn.Conv2d(1, 2, 1), RELU, POOL, nn.Conv2d(2, 2, 1), RELU, POOL, FLAT, nn.Linear(2, 2)),
        (1, 4, 4),
        (Conv(2, 1, 1, 0, True), MaxPool(2), Conv(2, 1, 1, 0, True), MaxPool(2), Linear(2, True)),
    ),
    "pools, dropout, identity, nesting": (
        nn.Sequential(
            nn.Sequential(nn.Conv2d(2, 4, 3, bias=False), nn.ReLU(), nn.Dropout()),
            nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool2d((1, 1))),
            nn.Flatten(),
            nn.Linear(4, 3),
        ),
        (2, 5, 6),
        (Conv(4, 3, 1, 0, False), GlobalAveragePool(), Linear(3, True)),
    ),
    "a pool first": (
        nn.Sequential(nn.MaxPool2d((2, 2)), nn.Flatten(), nn.Linear(6, 2)),
        (1, 4, 7),
        (MaxPool(2), Linear(2, True)),
    ),
    "a ReLU twice in a row": (
        nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.ReLU(), nn.Linear(3, 2)),
        (4,),
        (Linear(3, True), Linear(2, True)),
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_hand_made_chain(name):
    model, shape, operations = MODULES[name]
    assert same_function(settled(model), shape).operations == operations


class Clash(nn.Module):
    """A submodule with the name that a traced function gets."""

    def __init__(self):
        super().__init__()
        self.relu = nn.Tanh()
        self.sigmoid = nn.ReLU()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.b(torch.sigmoid(self.a(x)))


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 2)

    def forward(self, x):
        return self.a(x.flatten(2))


def layers(*modules: nn.Module) -> nn.Module:
    return nn.Sequential(*modules)


IMAGE, VECTOR = (4, 8, 8), (4,)
END = (nn.ReLU(), nn.Flatten(), nn.Linear(256, 2))
REFUSED = {
    "a ReLU before the first layer": (layers(nn.ReLU(), nn.Linear(4, 2)), VECTOR, "in front of the first"),
    "a ReLU after a pool of raw inputs": (
        layers(nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)),
        IMAGE,
        "in front of the first",
    ),
    "a ReLU after the last": (layers(nn.Linear(4, 2), nn.ReLU()), VECTOR, "ends with a linear layer"),
    "nothing": (layers(nn.Flatten()), VECTOR, "ends with a linear layer"),
    "overlapping pools": (layers(nn.MaxPool2d(3, 2), nn.Flatten(), nn.Linear(36, 2)), IMAGE, "overlap"),
    "padded pools": (layers(nn.AvgPool2d(2, padding=1), nn.Flatten(), nn.Linear(100, 2)), IMAGE, "overlap"),
    "pools that round up": (
        layers(nn.AvgPool2d(3, ceil_mode=True), nn.Flatten(), nn.Linear(36, 2)),
        IMAGE,
        "overlap",
    ),
    "oblong pools": (layers(nn.MaxPool2d((2, 4)), nn.Flatten(), nn.Linear(32, 2)), IMAGE, "overlap"),
    "pools with another divisor": (
        layers(nn.AvgPool2d(2, divisor_override=3), nn.Flatten(), nn.Linear(64, 2)),
        IMAGE,
        "something else",
    ),
    "groups": (layers(nn.Conv2d(4, 4, 3, padding=1, groups=2), *END), IMAGE, "without groups"),
    "dilation": (layers(nn.Conv2d(4, 4, 3, padding=2, dilation=2), *END), IMAGE, "dilation"),
    "oblong filters": (layers(nn.Conv2d(4, 4, (1, 3), padding=(0, 1)), *END), IMAGE, "square convolutions"),
    "circular padding": (
        layers(nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), *END),
        IMAGE,
        "square convolutions",
    ),
    "padding in words": (layers(nn.Conv2d(4, 4, 3, padding="same"), *END), IMAGE, "square convolutions"),
    "a softmax at the end": (layers(nn.Linear(4, 2), nn.Softmax(1)), VECTOR, "followed by a ReLU"),
    "two layers without a ReLU": (layers(nn.Linear(4, 4), nn.Linear(4, 2)), VECTOR, "0: .* not by 1"),
    "another activation": (layers(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)), VECTOR, "not by 1"),
    "a batch norm before a layer": (
        layers(nn.BatchNorm1d(4), nn.Linear(4, 2)),
        VECTOR,
        "a batch norm that follows",
    ),
    "a flatten of other axes": (layers(nn.Flatten(2), nn.Linear(64, 2)), IMAGE, "Flatten"),
    "a functional flatten of other axes": (Rows(), (1, 4, 4), "reshape"),
    "another function than its module": (Clash(), VECTOR, "sigmoid"),
    "a subclass that computes something else": (layers(Doubled(4, 2)), VECTOR, "something else"),
    "a skip connection": (Skipping(4, 2), VECTOR, "read more than once"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_chain_is_refused_with_the_reason(name):
    model, shape, because = REFUSED[name]
    with pytest.raises(UnsupportedLayerError, match=because):
        chain_of(settled(model), shape)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (layers(nn.Linear(8, 5), nn.ReLU(), nn.Flatten(), nn.Linear(40, 2)), (1, 8, 8)),
        (layers(nn.Flatten(), nn.Linear(10, 2)), (4,)),
        (layers(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)), (1, 2, 2)),
        (layers(nn.Conv2d(4, 2, 8)), IMAGE),
    ],
    ids=["linear on rows", "another input", "a window that does not fit", "ends with a convolution"],
)
def test_shapes_that_do_not_fit_are_an_error_in_words(model, shape):
    with pytest.raises(ModelError, match=r"needs|fit|ends with a linear"):
        chain_of(model, shape)


@pytest.mark.thorough
def test_the_model_is_left_alone():
    model = settled(build("vgg19:batch_norm=true", input_shape=(3, 32, 32), classes=3)).train()
    before = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    _, tensors = chain_of(model, (3, 32, 32))
    next(iter(tensors.values())).zero_()
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


CHAIN = Chain(
    (2, 9, 8),
    (
        Conv(4, 3, 2, 1, False),
        Residual(4, True),
        Residual(7, False),
        MaxPool(2),
        Linear(5, False),
        Linear(3, True),
    ),
)


def test_shapes_of_results_and_tensors_by_hand():
    assert CHAIN.input_shapes() == ((2, 9, 8), (4, 5, 4), (4, 5, 4), (7, 3, 2), (7, 1, 1), (5,))
    assert CHAIN.classes == 3
    assert CHAIN.tensor_shapes() == {
        "0.weight": (4, 2, 3, 3),
        "1.a.weight": (4, 4, 3, 3),
        "1.a.bias": (4,),
        "1.b.weight": (4, 4, 3, 3),
        "1.b.bias": (4,),
        "2.a.weight": (7, 4, 3, 3),
        "2.b.weight": (7, 7, 3, 3),
        "4.weight": (5, 7),
        "5.weight": (3, 5),
        "5.bias": (3,),
    }
    assert CHAIN.describe() == [
        ["conv", 4, 3, 2, 1, False],
        ["residual", 4, True],
        ["residual", 7, False],
        ["max pool", 2],
        ["linear", 5, False],
        ["linear", 3, True],
    ]


def by_hand(t: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """``CHAIN`` from docs/format.md, section 5.1."""
    conv, relu = functional.conv2d, functional.relu
    x = relu(conv(x, t["0.weight"], stride=2, padding=1))
    y = conv(
        relu(conv(x, t["1.a.weight"], t["1.a.bias"], padding=1)), t["1.b.weight"], t["1.b.bias"], padding=1
    )
    x = relu(y + x)
    y = conv(relu(conv(x, t["2.a.weight"], stride=2, padding=1)), t["2.b.weight"], padding=1)
    shortcut = torch.zeros(len(x), 7, 3, 2, dtype=x.dtype)
    shortcut[:, 1:5] = x[:, :, ::2, ::2]
    x = functional.max_pool2d(relu(y + shortcut), 2).flatten(1)
    return relu(x @ t["4.weight"].T) @ t["5.weight"].T + t["5.bias"]


def test_build_computes_the_specification():
    stream = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(shape, generator=stream) for name, shape in CHAIN.tensor_shapes().items()}
    x = torch.randn(3, 2, 9, 8, generator=stream)
    network = CHAIN.build({name: tensor.clone() for name, tensor in tensors.items()})
    assert not network.training
    assert list(network.state_dict()) == list(tensors)
    with torch.no_grad():
        torch.testing.assert_close(network(x), by_hand(tensors, x))


def test_build_refuses_missing_and_unknown_tensors():
    tensors = {name: torch.zeros(shape) for name, shape in CHAIN.tensor_shapes().items()}
    with pytest.raises(RuntimeError, match="Unexpected"):
        CHAIN.build({**tensors, "extra": torch.zeros(1)})
    with pytest.raises(RuntimeError, match="Missing"):
        CHAIN.build({name: tensor for name, tensor in tensors.items() if name != "5.bias"})


@pytest.mark.parametrize(
    ("shape", "operations", "because"),
    [
        ((4,), (), "ends with a linear"),
        ((1, 8, 8), (MaxPool(2),), "ends with a linear"),
        ((4,), (MaxPool(2), Linear(2, True)), "needs an image"),
        ((4,), (Linear(4, True), Conv(1, 1, 1, 0, True), Linear(2, True)), "needs an image"),
        ((1, 8, 8), (MaxPool(9), Linear(2, True)), "does not fit"),
        ((1, 8, 8), (Conv(2, 9, 1, 0, True), Linear(2, True)), "does not fit"),
        ((4, 8, 8), (Residual(2, True), Linear(2, True)), "cannot follow"),
    ],
)
def test_operations_that_do_not_fit(shape, operations, because):
    with pytest.raises(ModelError, match=because):
        Chain(shape, operations)


def test_a_local_convolution_has_its_own_filters_at_every_pixel():
    """Against loops over pixels, windows and channels."""
    operation = LocalConv(2, 3, 2, 1, bias=True)
    chain = Chain((3, 5, 4), (operation, Linear(2, bias=False)))
    shapes = chain.tensor_shapes()
    assert shapes["0.weight"] == (6, 2, 3, 3, 3)
    assert shapes["0.bias"] == (2,)
    stream = torch.Generator().manual_seed(0)
    tensors = {
        name: torch.randn(*shape, generator=stream, dtype=torch.float64) for name, shape in shapes.items()
    }
    x = torch.randn(2, 3, 5, 4, generator=stream, dtype=torch.float64)
    padded = functional.pad(x, (1, 1, 1, 1))
    expected = torch.empty(2, 2, 3, 2, dtype=torch.float64)
    for row in range(3):
        for column in range(2):
            window = padded[:, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
            filters = tensors["0.weight"][2 * row + column]
            products = (window[:, None] * filters[None]).sum(dim=(2, 3, 4))
            expected[:, :, row, column] = products + tensors["0.bias"]
    with torch.no_grad():
        found = chain.build(tensors)(x)
    torch.testing.assert_close(found, expected.relu().flatten(1) @ tensors["1.weight"].T)
    assert chain.describe()[0] == ["local conv", 2, 3, 2, 1, True]


@pytest.mark.parametrize("patches", [1, 100, 1 << 24])
def test_a_localised_convolution_with_equal_filters_is_the_convolution(monkeypatch, patches):
    chain, tensors = chain_of(build("lenet5", input_shape=(1, 28, 28), classes=10), (1, 28, 28))
    position = next(i for i, operation in enumerate(chain.operations) if isinstance(operation, Conv))
    local = localise(chain, position)
    name = f"{position}.weight"
    pixels = local.tensor_shapes()[name][0]
    repeated = {**tensors, name: tensors[name].expand(pixels, *tensors[name].shape)}
    monkeypatch.setattr("codebound_networks.chains.modules._PATCHES", patches)
    x = torch.randn(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(local.build(repeated)(x), chain.build(tensors)(x), rtol=1e-5, atol=1e-6)
        assert local.build(repeated)(x[:0]).shape == (0, 10)


def test_only_a_convolution_becomes_local():
    chain = Chain((1, 4, 4), (MaxPool(2), Linear(2, bias=False)))
    with pytest.raises(UnsupportedLayerError, match="no convolution"):
        localise(chain, 0)
