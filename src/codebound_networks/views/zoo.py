"""Architectures, built by name. Nothing is downloaded, no global state is touched."""

from __future__ import annotations

import inspect
import math
import typing
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from codebound.run.errors import ModelError, UsageError
from codebound.run.extensions import resolve

Option = int | float | bool | tuple[int, ...]
Factory = Callable[..., nn.Module]

MAX_PARAMETERS = 2**31
"""Largest network that is built by name: 8 GiB of float32."""

_LARGEST = 65_536
_FORMS: Mapping[object, str] = {
    int: f"an integer from 1 to {_LARGEST}",
    float: "a probability in [0, 1)",
    bool: "true or false",
    tuple[int, ...]: f"integers from 1 to {_LARGEST} joined by x, such as 300x100",
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture of the zoo, by its name in a specification such as ``mlp:depth=5,width=784``."""

    # called with the keywords ``input_shape``, ``classes`` and the options; or where that function is,
    # ``"package.module:function"``, if it needs more than this package: loaded when asked for
    home: Factory | str
    input_shape: tuple[int, ...]  # input it was published for
    options: Mapping[str, object]  # type of every option, in the order of the signature

    @property
    def factory(self) -> Factory:
        """Function that makes the network."""
        found: Factory = resolve(self.home) if isinstance(self.home, str) else self.home
        return found


ZOO: dict[str, Architecture] = {}


def build(spec: str, *, input_shape: tuple[int, ...], classes: int, seed: int = 0) -> nn.Module:
    """A freshly initialised network on the CPU, with torch's default initialisation.

    Convolutions of alexnet and vgg19 start Gaussian with variance 2 / fan-out instead.

    Args:
        spec: ``name`` or ``name:key=value,key=value``.
        input_shape: Shape of one input, without the batch.
        classes: Number of outputs, at least 2.
        seed: Seed of the initialisation.

    >>> build("mlp:depth=2,width=5", input_shape=(1, 8, 8), classes=10).linear1
    Linear(in_features=64, out_features=5, bias=True)
    """
    architecture, options = parse_spec(spec)
    if classes < 2:
        raise ModelError(f"{spec}: a classifier needs at least 2 classes. Got {classes}.")
    if not input_shape or min(input_shape) < 1:
        raise ModelError(f"{spec}: the sizes of an input must be positive. Got {tuple(input_shape)}.")
    try:
        with torch.device("meta"):  # counted first: a system may kill a process that asks for too much memory
            planned = architecture.factory(input_shape=tuple(input_shape), classes=classes, **options)
        parameters = sum(tensor.numel() for tensor in planned.parameters())
        if parameters > MAX_PARAMETERS:
            raise ModelError(
                f"{spec} would have {parameters:,} parameters; {MAX_PARAMETERS:,} are allowed. "
                "Choose smaller sizes."
            )
        with use_seed(seed):
            return architecture.factory(input_shape=tuple(input_shape), classes=classes, **options)
    except RuntimeError as cause:  # torch's way to say that the memory does not suffice
        raise ModelError(
            f"{spec}: the network cannot be allocated ({cause}). Choose smaller sizes."
        ) from cause


def parse_spec(spec: str) -> tuple[Architecture, dict[str, Option]]:
    """Splits ``name:key=value,...`` and checks every key and value.

    >>> parse_spec("mlp:widths=300x100,bias=false")[1]
    {'widths': (300, 100), 'bias': False}
    """
    name, _, tail = spec.partition(":")
    if name not in ZOO:
        raise UsageError(f"unknown model {name!r}. Known: {', '.join(ZOO)}.")
    architecture = ZOO[name]
    options: dict[str, Option] = {}
    for item in tail.split(",") if tail else ():
        key, equals, text = item.partition("=")
        if not equals or key not in architecture.options:
            allowed = "; ".join(f"{key}={_FORMS[kind]}" for key, kind in architecture.options.items())
            raise UsageError(f"{spec}: cannot read {item!r}. {name} takes {allowed or 'no options'}.")
        if key in options:
            raise UsageError(f"{spec}: {key} is given twice.")
        try:
            options[key] = _option(text, architecture.options[key])
        except ValueError as cause:
            form = _FORMS[architecture.options[key]]
            raise UsageError(f"{spec}: {key} must be {form}. Got {text!r}.") from cause
    return architecture, options


def _option(text: str, kind: object) -> Option:
    if kind is bool:
        return ("false", "true").index(text) == 1
    if kind is float:
        value = float(text)
        if not 0.0 <= value < 1.0:
            raise ValueError(text)
        return value
    sizes = tuple(int(part) for part in (text.split("x") if kind == tuple[int, ...] else (text,)))
    if not all(1 <= size <= _LARGEST for size in sizes):
        raise ValueError(text)
    return sizes if kind == tuple[int, ...] else sizes[0]


@contextmanager
def use_seed(seed: int) -> Iterator[None]:
    """Draws from torch's CPU generator inside come from ``seed``. Its state is put back on leaving.

    Layers initialise themselves from the default generator of the device that they are created on, and
    that is the CPU here. ``torch.manual_seed`` would also reset the generators of all accelerators, so
    only the CPU generator is seeded.
    """
    if not 0 <= seed < 2**63:
        raise UsageError(f"a seed lies in [0, 2^63). Got {seed}.")
    with torch.random.fork_rng(devices=()), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        yield


def _register(*input_shape: int) -> Callable[[Factory], Factory]:
    """Enters a factory under its own name, with the input it was published for. Its keywords are options."""

    def register(factory: Factory) -> Factory:
        hints = typing.get_type_hints(factory)
        options = {key: hints[key] for key in inspect.signature(factory).parameters}
        del options["input_shape"], options["classes"]
        ZOO[factory.__name__] = Architecture(factory, input_shape, options)
        return factory

    return register


def _image_shape(name: str, shape: tuple[int, ...], *, least: int) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ModelError(
            f"{name} needs images of shape (channels, height, width). Got inputs of shape {shape}."
        )
    channels, height, width = shape
    if min(height, width) < least:
        raise ModelError(
            f"{name} needs images of at least {least}x{least}: its pooling leaves nothing of smaller ones. "
            f"Got {height}x{width}. Use mlp, or lenet5 for 8x8, 28x28 and 32x32."
        )
    return channels, height, width


@_register(1, 28, 28)
def linear(*, input_shape: tuple[int, ...], classes: int, bias: bool = True) -> nn.Module:
    """A linear classifier on the flattened input."""
    inputs = math.prod(input_shape)
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), linear1=nn.Linear(inputs, classes, bias=bias)))


@_register(1, 28, 28)
def mlp(
    *,
    input_shape: tuple[int, ...],
    classes: int,
    depth: int = 0,
    width: int = 0,
    widths: tuple[int, ...] = (),
    bias: bool = True,
) -> nn.Module:
    """``linear1, relu1, ..., linearN`` on the flattened input.

    Hidden widths are given one by one (``widths=300x100``) or as ``depth`` (linear layers; 3 when left
    open) and ``width`` (256 when left open). Guha's network is ``mlp:depth=5,width=784``.
    """
    if widths and (depth or width):
        raise UsageError("mlp: widths takes the place of depth and width. Give one or the other.")
    hidden = widths or (width or 256,) * ((depth or 3) - 1)
    sizes = (math.prod(input_shape), *hidden, classes)
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    for i in range(1, len(sizes)):
        layers[f"linear{i}"] = nn.Linear(sizes[i - 1], sizes[i], bias=bias)
        layers[f"relu{i}"] = nn.ReLU()
    layers.popitem()
    return nn.Sequential(layers)


@_register(1, 28, 28)
def lenet5(*, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """LeNet-5 (LeCun et al. 1998) with ReLU, max pooling and full connections.

    | input | conv1, 6 | conv2, 16 | after pooling |
    |---|---|---|---|
    | 32x32 | 5x5 | 5x5 | 16x5x5 |
    | 28x28 | 5x5, padding 2 | 5x5 | 16x5x5 |
    | 8x8 | 3x3, padding 1 | 3x3, padding 1 | 16x2x2 |

    then linear 120, 84, classes.
    """
    channels, *size = _image_shape("lenet5", input_shape, least=8)
    plans = {(32, 32): (5, 0, 0, 5), (28, 28): (5, 2, 0, 5), (8, 8): (3, 1, 1, 2)}
    if tuple(size) not in plans:
        known = ", ".join(f"{height}x{width}" for height, width in plans)
        raise ModelError(
            f"lenet5 is defined for {known}. Got {size[0]}x{size[1]}. Use mlp, alexnet or resnet20."
        )
    kernel, padding1, padding2, side = plans[size[0], size[1]]
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 6, kernel, padding=padding1),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(6, 16, kernel, padding=padding2),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            linear1=nn.Linear(16 * side * side, 120),
            relu3=nn.ReLU(),
            linear2=nn.Linear(120, 84),
            relu4=nn.ReLU(),
            linear3=nn.Linear(84, classes),
        )
    )


def _conv(inputs: int, outputs: int, kernel: int = 3, *, stride: int = 1, bias: bool = True) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=bias)


def _initialise(model: nn.Sequential) -> nn.Sequential:
    """Convolutions start Gaussian with variance 2 / fan-out and without biases.

    From torch's defaults the outputs of many layers without batch norms hardly depend on the input, and it
    takes long before such a network learns anything.
    """
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model


@_register(3, 32, 32)
def alexnet(
    *, input_shape: tuple[int, ...], classes: int, dropout: float = 0.5, width: int = 64
) -> nn.Module:
    """The AlexNet layout in common use for 32x32 images (2.47 million weights on CIFAR-10).

    | layer | kernel | channels | then | side (from 32) |
    |---|---|---|---|---|
    | conv1 | 11x11, stride 4, padding 5 | 64 | ReLU, pool 2 | 4 |
    | conv2 | 5x5, padding 2 | 192 | ReLU, pool 2 | 2 |
    | conv3 | 3x3, padding 1 | 384 | ReLU | 2 |
    | conv4 | 3x3, padding 1 | 256 | ReLU | 2 |
    | conv5 | 3x3, padding 1 | 256 | ReLU, pool 2 | 1 |
    | linear1 | | classes | dropout before | |

    With another ``width``, which is the number of channels of conv1, those of the others change in
    proportion. Arora et al. name the network and not its layers; this layout is our choice.
    """
    channels, *sides = _image_shape("alexnet", input_shape, least=32)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    plan = ((1, 11, 4, True), (3, 5, 1, True), (6, 3, 1, False), (4, 3, 1, False), (4, 3, 1, True))
    for i, (multiple, kernel, stride, pools) in enumerate(plan, start=1):
        outputs = multiple * width
        layers[f"conv{i}"] = _conv(channels, outputs, kernel, stride=stride)
        layers[f"relu{i}"] = nn.ReLU()
        if pools:
            layers[f"pool{i}"] = nn.MaxPool2d(2)
        channels = outputs
    pixels = math.prod(((side + 3) // 4) // 8 for side in sides)
    layers["flatten"] = nn.Flatten()
    layers["dropout1"] = nn.Dropout(dropout)
    layers["linear1"] = nn.Linear(channels * pixels, classes)
    return _initialise(nn.Sequential(layers))


@_register(3, 32, 32)
def vgg19(
    *,
    input_shape: tuple[int, ...],
    classes: int,
    batch_norm: bool = False,
    dropout: float = 0.5,
    width: int = 64,
) -> nn.Module:
    """VGG-19 with two linear layers of width 512 before the output. Dropout before each of the two.

    ``conv1 ... conv16`` (3x3, padding 1) have 64 x 2, 128 x 2, 256 x 4, 512 x 4, 512 x 4 channels with a
    2x2 max pool after each group; then ``linear17``, ``linear18``, ``linear19``. The numbers are those of
    A-Tab1: layer 1 has 1728 weights and layer 18 has 512 x 512. With another ``width``, which is the number
    of channels of conv1, all others change in proportion.
    """
    channels, *sides = _image_shape("vgg19", input_shape, least=32)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    number = 0
    for group, (count, multiple) in enumerate(((2, 1), (2, 2), (4, 4), (4, 8), (4, 8)), start=1):
        outputs = multiple * width
        for _ in range(count):
            number += 1
            layers[f"conv{number}"] = _conv(channels, outputs, bias=not batch_norm)
            if batch_norm:
                layers[f"bn{number}"] = nn.BatchNorm2d(outputs)
            layers[f"relu{number}"] = nn.ReLU()
            channels = outputs
        layers[f"pool{group}"] = nn.MaxPool2d(2)
    features = channels * math.prod(side // 32 for side in sides)
    layers["flatten"] = nn.Flatten()
    for number in (17, 18):
        layers[f"dropout{number}"] = nn.Dropout(dropout)
        layers[f"linear{number}"] = nn.Linear(features, channels)
        layers[f"relu{number}"] = nn.ReLU()
        features = channels
    layers["linear19"] = nn.Linear(features, classes)
    return _initialise(nn.Sequential(layers))


class Shortcut(nn.Module):
    """Option A of He et al. 2016: every second pixel, and as many zero channels before as behind."""

    def __init__(self, added_channels: int) -> None:
        super().__init__()
        self.added_channels = added_channels

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, c, h, w)`` to ``(batch, c + added, ceil(h / 2), ceil(w / 2))``."""
        half = self.added_channels // 2
        return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, self.added_channels - half))


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch norm and an identity or option-A shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        shrinks = inputs != outputs
        self.conv1 = _conv(inputs, outputs, stride=2 if shrinks else 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU()
        self.conv2 = _conv(outputs, outputs, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = Shortcut(outputs - inputs) if shrinks else nn.Identity()
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return typing.cast("Tensor", self.relu2(y + self.shortcut(x)))


def _resnet(name: str, input_shape: tuple[int, ...], *, classes: int, blocks: int) -> nn.Module:
    channels, _, _ = _image_shape(name, input_shape, least=4)
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_conv(channels, 16, bias=False), bn1=nn.BatchNorm2d(16), relu1=nn.ReLU()
    )
    for stage, (inputs, outputs) in enumerate(((16, 16), (16, 32), (32, 64)), start=1):
        later = (ResidualBlock(outputs, outputs) for _ in range(blocks - 1))
        layers[f"layer{stage}"] = nn.Sequential(ResidualBlock(inputs, outputs), *later)
    layers["pool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["linear"] = nn.Linear(64, classes)
    return nn.Sequential(layers)


@_register(3, 32, 32)
def resnet20(*, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """He et al. 2016, three blocks in each of three stages of 16, 32 and 64 channels."""
    return _resnet("resnet20", input_shape, classes=classes, blocks=3)


@_register(3, 32, 32)
def resnet56(*, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """He et al. 2016, nine blocks in each of three stages of 16, 32 and 64 channels."""
    return _resnet("resnet56", input_shape, classes=classes, blocks=9)


ZOO["few-bits"] = Architecture("codebound_networks.train.few_bits:image_network", (1, 28, 28), {})
