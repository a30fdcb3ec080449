"""What every compressor is: one layer in, a code of its weight out; and a whole network of such layers.

To add a compressor: write one frozen subclass of ``AbstractCompressor``, its fields the options,
and decorate it with ``@compressor("name")``. The command line and ``certify`` find it by that name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import torch

from codebound.errors import UnsupportedLayerError, UsageError
from codebound.nets.rebuild import with_weights
from codebound.progress import Progress, silent
from codebound.refs import implements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from codebound.coding.tensors import AbstractTensorCode
    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network


@dataclass(frozen=True, eq=False)
class CompressedLayer:
    """The weight of a layer as a code; the network g uses what the code decodes to, bit for bit.

    Attributes:
        name: Qualified name of the layer.
        code: The code of the weight tensor, or of its difference to the base.
        predicted_error: What the paper's theorem predicts for the spectral norm of the change, if it does.
        predicted_by: The statement behind the prediction and the constants it was given.
        base: What the decoder adds to the code: a weight that was fixed before the sample was seen.
    """

    name: str
    code: AbstractTensorCode = field(repr=False)
    predicted_error: float | None = None
    predicted_by: str = ""
    base: NDArray[np.float32] | None = field(default=None, repr=False)

    @property
    def tensor(self) -> str:
        """Name of the weight in the state of the network."""
        return weight_name(self.name)

    @property
    def weight(self) -> Tensor:
        """The decoded weight, in the layer's shape."""
        return torch.from_numpy(self.code.weights(base=self.base))


def weight_name(layer: str) -> str:
    """Name of a layer's weight in the state of its network; a network that is one layer has no prefix."""
    return f"{layer}.weight".lstrip(".")


class AbstractCompressor(ABC):
    """A compression algorithm with its options. Deterministic: the seed names every random choice."""

    @abstractmethod
    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:
        """The compressed layer.

        Args:
            layer: The layer; read only.
            seed: Names the random choices for this layer. Where the decoder needs them too, the seed is a
                field of the code and paid.

        Raises:
            UnsupportedLayerError: The algorithm cannot take this layer; the message says why.
        """


Compressor = TypeVar("Compressor", bound=AbstractCompressor)
COMPRESSORS: dict[str, type[AbstractCompressor]] = {}


def compressor(name: str) -> Callable[[type[Compressor]], type[Compressor]]:
    """Registers a compressor under the name that users give."""

    def register(cls: type[Compressor]) -> type[Compressor]:
        COMPRESSORS[name] = cls
        return cls

    return register


@dataclass(frozen=True, eq=False)
class CompressedNetwork:
    """A network whose layers are compressed; everything else is carried as it is.

    Attributes:
        network: The original.
        layers: The compressed layers, in forward order.
        carried: Layers that the method cannot take, with the reason.
    """

    network: Network = field(repr=False)
    layers: tuple[CompressedLayer, ...]
    carried: dict[str, str]

    def module(self) -> nn.Module:
        """The compressed network g, on the device of the original."""
        state = {name: value.detach() for name, value in self.network.model.state_dict().items()}
        for layer in self.layers:
            state[layer.tensor] = layer.weight
        return with_weights(self.network.model, state)


def compress(
    network: Network,
    algorithm: AbstractCompressor,
    *,
    seed: int = 0,
    layers: Iterable[str] | None = None,
    progress: Progress = silent,
) -> CompressedNetwork:
    """Compresses every layer, or the named ones, each from its own seed: ``seed`` plus its position.

    Args:
        network: The wrapped network; never changed.
        algorithm: The compressor with its options.
        seed: First seed.
        layers: Names of layers; all by default.
        progress: Told how many layers are done.
    """
    wanted = None if layers is None else set(layers)
    unknown = sorted((wanted or set()) - {view.name for view in network.layers})
    if unknown:
        raise UsageError(
            f"no layer is called {', '.join(unknown)}. The layers are "
            f"{', '.join(view.name for view in network.layers)}."
        )
    done: list[CompressedLayer] = []
    carried: dict[str, str] = {}
    for position, view in enumerate(network.layers):
        progress(position, len(network.layers), view.name)
        if wanted is not None and view.name not in wanted:
            carried[view.name] = "not asked for"
            continue
        try:
            done.append(algorithm.compress(view, seed=seed + position))
        except UnsupportedLayerError as refusal:
            carried[view.name] = str(refusal)
    progress(len(network.layers), len(network.layers), "")
    return CompressedNetwork(network, tuple(done), carried)


@implements("A-Imp-i:code", kind="algorithm")
@dataclass(frozen=True)
class FromInitial(AbstractCompressor):
    """Any compressor, applied to ``A - A_0``: the code is of the difference, and the decoder adds ``A_0``.

    The initial network is a helper: it must have been fixed before the sample was seen. A layer that training
    moved less than its own size then costs less, or is met more closely.

    Attributes:
        algorithm: The compressor of the differences.
        initial: The network at initialisation, or any other base with the same layers.

    Example:
        >>> import torch
        >>> from codebound_papers.compress.compressors import compress
        >>> from codebound_papers.arora18.projection import MatrixProject
        >>> from codebound.nets.walk import wrap
        >>> net = torch.nn.Sequential(torch.nn.Linear(32, 8))
        >>> g = compress(wrap(net), FromInitial(MatrixProject(count=9), wrap(net))).module()
        >>> bool((g[0].weight == net[0].weight).all())
        True
    """

    algorithm: AbstractCompressor
    initial: Network = field(repr=False)

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:  # noqa: D102
        base = next((view.weight for view in self.initial.layers if view.name == layer.name), None)
        if base is None or base.shape != layer.weight.shape or base.dtype != layer.weight.dtype:
            raise UnsupportedLayerError(
                f"layer {layer.name}: the initial network has no such layer of shape "
                f"{tuple(layer.weight.shape)} {layer.weight.dtype}."
            )
        change = layer.weight.detach() - base.to(layer.weight.device)
        found = self.algorithm.compress(replace(layer, weight=change), seed=seed)
        return replace(found, base=base.detach().cpu().numpy())
