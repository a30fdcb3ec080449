"""Networks and bases that options name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from codebound.known.provenance import remember
from codebound.run.errors import UsageError
from codebound_networks.about_f.base import origin_of_file
from codebound_networks.reading.loading import load_model
from codebound_networks.reading.walk import Network, wrap
from codebound_networks.views.graphs import Traced
from codebound_networks.views.zoo import ZOO

if TYPE_CHECKING:
    from codebound.sample.dataset import Sample

_CLASSES = 10


def as_traced(model: object) -> Traced:
    """The network that was given. Since one was wrapped, hooks or layers may have come to it."""
    if isinstance(model, Traced):
        return model
    if isinstance(model, nn.Module | Network):
        return Traced(model.model if isinstance(model, Network) else model)
    raise UsageError(
        f"model is a torch.nn.Module, or None: then a network is made. Got {type(model).__name__}; "
        "codebound.CertifiedClassifier bounds the error of a classifier of scikit-learn."
    )


def load_network(
    model: str, sample: Sample, weights: Path | str | None = None, *, seed: int = 0
) -> nn.Module:
    """The network that was asked for, with the inputs and the classes of the sample."""
    path = None if weights is None else Path(weights)
    shape, classes = sample.input_shape, sample.classes
    network = load_model(model, input_shape=shape, classes=classes, weights=path, seed=seed)
    if path is not None:
        remember(network, origin_of_file(path))
    return network


def load_layers(
    model: str, shape: tuple[int, ...], classes: int, weights: Path | None, *, strict: bool = True
) -> Network:
    """The network with its layers in view. A strict view refuses parts that cannot be seen."""
    module = load_model(model, input_shape=shape, classes=classes, weights=weights)
    return wrap(module, example=torch.zeros(2, *shape), classes=classes, strict=strict)


def model_sizes(
    model: str, input_shape: str | None, classes: int | None, sample: Sample | None = None
) -> tuple[tuple[int, ...], int]:
    """Input shape and classes: those of the data, or as given, or those of the zoo."""
    if sample is not None:
        if input_shape is not None or classes is not None:
            raise UsageError("the data have their own input_shape and classes; leave these out.")
        return sample.input_shape, sample.classes
    classes = _CLASSES if classes is None else classes
    if input_shape is not None:
        sizes = input_shape.lower().split("x")
        if not all(size.isdecimal() and int(size) > 0 for size in sizes):
            raise UsageError(
                f"input_shape is positive sizes joined by x, such as 1x28x28. Got {input_shape!r}."
            )
        return tuple(map(int, sizes)), classes
    name = model.partition(":")[0]
    if name in ZOO:
        return ZOO[name].input_shape, classes
    if ":" in model:
        raise UsageError(f"the input shape of {model} is unknown. Give input_shape.")
    raise UsageError(f"unknown model {model!r}. Give {', '.join(ZOO)}, or package.module:factory.")
