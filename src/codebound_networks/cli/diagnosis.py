"""Facts of the installation, parts that it lacks, and coverage of a network."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from codebound import __version__
from codebound.run.errors import ModelError
from codebound.sample.formats.catalogue import locate_all
from codebound.sample.outputs import require_logits
from codebound_networks.chains.from_module import chain_of
from codebound_networks.reading.callables import output_shape
from codebound_networks.reading.layer_modules import plain_layers
from codebound_networks.reading.loading import factory_of
from codebound_networks.views.rebuild import first_weight

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codebound_networks.reading.walk import Network

_CORE = ("torch", "numpy", "safetensors", "scikit-learn", "pillow", "typer", "rich")
_EXTRAS = {"torchvision": ("vision", "models and transforms of torchvision as factories of models and data")}
_USUAL_SHAPE = "3x32x32"  # of an input for a factory that says nothing


def describe_installation() -> Iterator[tuple[str, str, str]]:
    """Yield the name, state and note of each part of the installation."""
    yield "codebound", __version__, ""
    yield "python", platform.python_version(), ""
    for name in _CORE:
        yield name, version(name), ""
    yield "cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads", ""
    if torch.cuda.is_available():
        yield "cuda", torch.cuda.get_device_name(0), "for whoever asks for the device cuda"
    else:
        yield "cuda", "none", "everything runs on the CPU; training is slower"
    for name, found in locate_all().items():
        yield f"data {name}", found or "not here", "" if found else f"codebound data get {name}"
    for name, (extra, gain) in _EXTRAS.items():
        yield f"extra [{extra}]", "installed" if find_spec(name) else "not installed", f"adds {gain}"


@dataclass(frozen=True, slots=True, eq=False)
class Examination:
    """A network as it is seen here."""

    network: Network  # with its layers in view
    shape: tuple[int, ...]  # of one input
    classes: int  # number of classes

    @property
    def rows(self) -> list[dict[str, str | int]]:
        """Every tensor, with how it is handled and why."""
        return self.network.coverage.rows()

    @property
    def sentences(self) -> Iterator[str]:
        """Yield remarks on the network and on what ``certify`` would make of it."""
        yield from self.network.notes
        yield self.network.coverage.sentence
        if self.network.is_readable:
            yield self._prospect()

    def _prospect(self) -> str:
        module = self.network.model
        weight = first_weight(module)
        example = torch.zeros(1, *self.shape, dtype=weight.dtype, device=weight.device)
        outputs = output_shape(module, example)
        plain = cache(partial(plain_layers, module, example))
        try:
            require_logits(outputs, max(2, outputs[1]) if len(outputs) == 2 else self.classes)
            try:
                chain, tensors = chain_of(self.network.traced, self.shape, plain=plain)
            except ModelError as reason:
                plain()  # says why where the network cannot be read at all
                return f"No message describes it; given as a base, its scores are declared: {reason}"
        except ModelError as error:
            return f"A certificate cannot be about this network: {error}"
        entries = sum(tensor.numel() for tensor in tensors.values())
        return (
            f"In a certificate the message describes all of it: {len(chain.operations)} operations with "
            f"{entries:,} numbers, batch norms folded, biases quantised like weights."
        )


def examine(
    model: str,
    *,
    weights: Path | None = None,
    input_shape: str | None = None,
    classes: int = 10,
    strict: bool = False,
) -> Examination:
    """Looks at a network, tensor by tensor.

    Args:
        model: Zoo name or ``package.module:factory``.
        weights: Safetensors file or checkpoint.
        input_shape: Such as 1x28x28; by default that of the zoo, or a usual one for a factory.
        classes: Number of classes.
        strict: Refuse a network with a tensor that cannot be handled.
    """
    from codebound_networks.about_f.models import (  # an installation is described without them
        load_layers,
        model_sizes,
    )

    given = input_shape or (_USUAL_SHAPE if factory_of(model) else None)
    shape, classes = model_sizes(model, given, classes)
    return Examination(load_layers(model, shape, classes, weights, strict=strict), shape, classes)
