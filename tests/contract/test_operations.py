"""What every registered operation of a chain promises, and that an operation that lies is found out."""

import json
import math
from dataclasses import astuple, dataclass

import numpy as np
import pytest
import torch
from torch import nn

from codebound.known.messages import Options, Setting
from codebound.run.errors import ModelError
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.from_module import chain_of
from codebound_networks.chains.message import Message, decode
from codebound_networks.chains.operations import (
    OPERATIONS,
    AbstractOperation,
    AveragePool,
    Conv,
    Dictionary,
    GlobalAveragePool,
    Linear,
    LocalConv,
    MaxPool,
    NormalisedConv,
    Residual,
    Shifts,
    Work,
    register,
)
from codebound_networks.codes.arithmetic import Reader, Writer
from codebound_networks.codes.tensors import Dense

EXAMPLES = [
    (Linear(5, True), (7,)),
    (Linear(3, False), (2, 3, 4)),
    (Conv(4, 3, 1, 1, True), (2, 5, 6)),
    (Conv(3, 2, 2, 0, False), (3, 7, 5)),
    (MaxPool(2), (3, 5, 4)),
    (AveragePool(3), (1, 7, 9)),
    (GlobalAveragePool(), (4, 3, 5)),
    (Residual(3, True), (3, 4, 5)),
    (Residual(5, False), (2, 5, 4)),
    (LocalConv(2, 3, 2, 1, True), (3, 5, 6)),
    (NormalisedConv(4, 3), (2, 5, 6)),
    (Dictionary(3, 2), (3, 8, 9)),
    *((Shifts(kind), (1, 5, 6)) for kind in (1, 2, 3, 4)),
]


def inputs(shape, seed=0):
    return torch.randn(2, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def weights(operation, shape):
    """Random weights, and biases of zero."""
    stream = torch.Generator().manual_seed(1)
    tensors = {}
    for name, size in operation.tensor_shapes(shape).items():
        tensor = torch.randn(size, dtype=torch.float64, generator=stream)
        tensors[name] = torch.zeros_like(tensor) if name.endswith("bias") else tensor
    return tensors


@torch.no_grad()
def computed(operation, shape, tensors, x):
    """What the modules of an operation make of inputs, with these tensors."""
    with torch.device("meta"):
        modules = operation.modules(shape)
    modules[""].load_state_dict(tensors, strict=True, assign=True)
    return nn.Sequential(*modules.values())(x)


def codes_itself(operation, shape):
    for classes in (0, getattr(operation, "out", 0)) if operation.ends_chain else (0,):
        writer = Writer()
        assert operation.code(writer, operation, classes=classes) == operation
        reader = Reader(writer.finish())
        assert type(operation).code(reader, None, classes=classes) == operation


def describes_itself(operation, shape):
    chain = Chain(shape, (operation, Linear(2, False)))
    name, *sizes = json.loads(json.dumps(chain.describe()))[0]
    assert (name, tuple(sizes)) == (operation.name, astuple(operation))
    assert type(operation)(*sizes) == operation


def needs_an_image(operation, shape):
    if operation.needs_image:
        with pytest.raises(ModelError, match="image"):
            Chain((math.prod(shape),), (operation, Linear(2, False)))


def makes_the_shape(operation, shape):
    found = computed(operation, shape, weights(operation, shape), inputs(shape))
    assert found.shape == (2 * operation.copies, *operation.output_shape(shape))


def has_the_tensors(operation, shape):
    with torch.device("meta"):
        state = operation.modules(shape)[""].state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == operation.tensor_shapes(shape)
    assert list(state) == list(operation.tensor_shapes(shape))
    assert not (operation.front and state)


def counts_its_work(operation, shape):
    """At least a multiplication for every weight, and a number for every number of an image that it makes."""
    work, sizes = operation.work(shape), operation.tensor_shapes(shape)
    assert work.products >= sum(math.prod(size) for name, size in sizes.items() if name.endswith("weight"))
    assert work.products > 0 or isinstance(operation, Shifts)  # which copy
    assert work.largest >= math.prod(operation.output_shape(shape)) * operation.needs_image
    assert work.patches <= work.products


def is_rectified_inside(operation, shape):
    if operation.relu_inside:
        assert computed(operation, shape, weights(operation, shape), inputs(shape)).min() >= 0.0


def stretches_no_further(operation, shape):
    if not operation.is_bounded:
        return
    tensors = weights(operation, shape)
    bound = operation.norm(tensors["weight"], shape) if tensors else 1.0
    for seed in range(20):
        x, y = inputs(shape, seed), inputs(shape, seed + 100)
        change = computed(operation, shape, tensors, x) - computed(operation, shape, tensors, y)
        lengths = change.flatten(1).norm(dim=1) / (x - y).flatten(1).norm(dim=1)
        assert lengths.max() <= bound * (1 + 1e-9)


def is_scale_free(operation, shape):
    tensors = weights(operation, shape)
    if not operation.is_scale_free or not tensors:
        return
    x = inputs(shape)
    once, thrice = (
        computed(operation, shape, {name: factor * value for name, value in tensors.items()}, x).flatten()
        for factor in (1.0, 3.0)
    )
    torch.testing.assert_close(once / once.norm(), thrice / thrice.norm(), rtol=1e-4, atol=1e-4)


def drops_units(operation, shape):
    if not operation.drops_units:
        return
    tensors, x = weights(operation, shape), inputs(shape)
    rest = {name: value[1:] for name, value in tensors.items()}
    fewer = computed(operation.with_field("out", operation.out - 1), shape, rest, x)
    torch.testing.assert_close(fewer, computed(operation, shape, tensors, x)[:, 1:])


def reads_units(operation, shape):
    """Without the columns of a unit it computes the same on inputs in which that unit is zero."""
    if not operation.reads_units:
        return
    tensors, x = weights(operation, shape), inputs(shape)
    x[:, 0] = 0.0
    group = tensors["weight"].shape[1] // shape[0]
    fewer = {**tensors, "weight": tensors["weight"][:, group:]}
    found = computed(operation, (shape[0] - 1, *shape[1:]), fewer, x[:, 1:])
    torch.testing.assert_close(found, computed(operation, shape, tensors, x))


def is_read_from_its_module(operation, shape):
    if type(operation) is LocalConv:  # torch has no such layer
        return
    chain = Chain(shape, (operation, Linear(3, True)))
    tensors = {name: torch.randn(size) for name, size in chain.tensor_shapes().items()}
    again, found = chain_of(chain.build(tensors), shape)
    assert again == chain
    assert all(torch.equal(found[name], value) for name, value in tensors.items())


PROMISES = [
    codes_itself,
    describes_itself,
    needs_an_image,
    makes_the_shape,
    has_the_tensors,
    counts_its_work,
    is_rectified_inside,
    stretches_no_further,
    is_scale_free,
    drops_units,
    reads_units,
    is_read_from_its_module,
]


@pytest.mark.few(48)
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize(("operation", "shape"), EXAMPLES, ids=str)
def test_every_operation_keeps_every_promise(operation, shape, promise):
    promise(operation, shape)


def test_every_operation_has_an_example():
    assert {type(operation) for operation, _ in EXAMPLES} == set(OPERATIONS.values())


def test_numbers_and_names_are_unique():
    assert list(OPERATIONS) == list(range(1, len(OPERATIONS) + 1))
    assert len({operation.name for operation in OPERATIONS.values()}) == len(OPERATIONS)
    with pytest.raises(ValueError, match="linear already"):
        register(Linear)


def lying(operation, **lies):
    """The same operation with something about it that is not true."""
    kind = dataclass(frozen=True)(type("Lying", (type(operation),), lies))
    return kind(*astuple(operation))


CONV, NORMALISED, SHAPE = Conv(4, 3, 1, 1, False), NormalisedConv(4, 3), (2, 5, 6)
LIES = {
    "forgets its padding": (
        codes_itself,
        lying(
            Conv(4, 3, 1, 2, False),
            _code_field=classmethod(lambda cls, coder, name, value: 1 if name == "padding" else value),
        ),
    ),
    "makes another shape": (makes_the_shape, lying(CONV, _shape_after=lambda self, shape: (self.out, 4, 4))),
    "has other tensors": (
        has_the_tensors,
        lying(CONV, tensor_shapes=lambda self, shape: {"weight": (4, 2, 2, 2)}),
    ),
    "has a bias that it hides": (
        has_the_tensors,
        lying(Conv(4, 3, 1, 1, True), tensor_shapes=lambda self, shape: {"weight": (4, 2, 3, 3)}),
    ),
    "works for nothing": (counts_its_work, lying(CONV, work=lambda self, shape: Work(1000))),
    "hides its result": (counts_its_work, lying(CONV, work=lambda self, shape: Work(1, 1, 10**6))),
    "claims a ReLU": (is_rectified_inside, lying(CONV, relu_inside=True)),
    "claims a small norm": (stretches_no_further, lying(CONV, norm=lambda self, weight, shape: 1.0)),
    "claims to be bounded": (
        stretches_no_further,
        lying(NORMALISED, is_bounded=True, norm=lambda self, weight, shape: 0.1),
    ),
    "claims to be scale free": (is_scale_free, lying(Residual(2, False), is_scale_free=True)),
    "drops units that others need": (drops_units, lying(NORMALISED, drops_units=True)),
    "reads no units": (reads_units, lying(LocalConv(2, 3, 1, 1, False), reads_units=True)),
    "is another operation": (is_read_from_its_module, lying(MaxPool(2), module_type=nn.AvgPool2d)),
}


@pytest.mark.parametrize("name", LIES)
def test_an_operation_that_lies_is_found_out(name):
    promise, operation = LIES[name]
    with pytest.raises((AssertionError, RuntimeError, TypeError)):
        promise(operation, SHAPE)


@pytest.mark.thorough
def test_a_new_operation_is_one_class(monkeypatch):
    """Messages, builders and readers of networks know it once it is registered."""

    @dataclass(frozen=True, slots=True)
    class Clip(AbstractOperation):
        """Values within a whole number of zero."""

        number, name = 11, "clip"
        needs_image = False
        limit: int

        @classmethod
        def of_module(cls, module):
            return cls(int(module.max_val)) if isinstance(module, nn.Hardtanh) else None

        def _shape_after(self, shape):
            return shape

        def modules(self, shape):
            return {"": nn.Hardtanh(-float(self.limit), float(self.limit))}

        def work(self, shape):
            return Work(products=math.prod(shape))

    monkeypatch.setitem(OPERATIONS, Clip.number, Clip)
    for promise in PROMISES:
        promise(Clip(3), (2, 4, 4))
    chain = Chain((4,), (Clip(2), Linear(3, False)))
    codes = {"1.weight": Dense(np.ones((3, 4), np.int32), 0, 1)}
    bits, ledger = Message(Options(Setting(chain.classes)), chain, codes).encode()
    again = decode(bits, input_shape=(4,))
    assert again.chain == chain
    assert sum(part for _, part in ledger) == len(bits)
    network = again.chain.build({name: torch.from_numpy(value) for name, value in again.weights().items()})
    assert network(torch.tensor([[5.0, -5.0, 1.0, 0.0]])).tolist() == [[1.0, 1.0, 1.0]]
