"""Algorithm 4 of Arora et al. 2018 for a whole network: convolutions get filters for every location."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from codebound.chains.chain import Chain, Conv, chain_of
from codebound.coding.tensors import AbstractTensorCode, Raw
from codebound.errors import UnsupportedLayerError, UsageError
from codebound.progress import Progress, silent
from codebound_papers.arora18.conv import conv_project
from codebound_papers.compress.compressors import CompressedLayer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import nn

    from codebound.nets.walk import Network


@dataclass(frozen=True, eq=False)
class LocalNetwork:
    """A network of another architecture: some convolutions have filters of their own at every location.

    Attributes:
        network: The original.
        chain: The new architecture; batch norms are folded.
        codes: The codes of all its tensors, in the order of a message.
        names: The weights among them, and the layer of the original that each one is.
        layers: The compressed layers, under their names in the original.
        carried: Layers that are as they were, with the reason.
    """

    network: Network = field(repr=False)
    chain: Chain
    codes: Mapping[str, AbstractTensorCode] = field(repr=False)
    names: Mapping[str, str] = field(repr=False)
    layers: tuple[CompressedLayer, ...]
    carried: dict[str, str]

    def module(self) -> nn.Module:
        """The compressed network g, on the CPU."""
        return self.chain.build({name: torch.from_numpy(code.weights()) for name, code in self.codes.items()})


def conv_network(
    network: Network,
    input_shape: tuple[int, ...],
    *,
    numbers: int = 256,
    mixes: int = 1024,
    levels: int = 255,
    layers: Iterable[str] | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> LocalNetwork:
    """Compresses every convolution that a message can take by ``conv_project``; the rest is as it was.

    Args:
        network: The wrapped network, a chain of known layers.
        input_shape: Shape of one input: it decides how many locations a convolution has.
        numbers: Coded numbers per layer.
        mixes: Gaussian combinations per location.
        levels: Values that a number can take: odd, at least 3.
        layers: Names of convolutions; all by default.
        seed: First seed; the position of a layer in the chain is added, and the sum is part of the code.
        progress: Told how many layers are done.

    Raises:
        UnsupportedLayerError: The network is no chain, or calls a layer twice.

    Example:
        >>> from codebound.nets.walk import wrap
        >>> from codebound.nets.zoo import build
        >>> net = wrap(build("lenet5", input_shape=(1, 28, 28), classes=10))
        >>> g = conv_network(net, (1, 28, 28), numbers=16, mixes=32)
        >>> [layer.name for layer in g.layers], g.carried["linear1"]
        (['conv1', 'conv2'], 'no convolution')
    """
    chain, tensors = chain_of(network.model, input_shape)
    weights = [name for name in tensors if name.endswith(".weight")]
    if len(weights) != len(network.layers):
        raise UnsupportedLayerError(f"a layer is called twice: {', '.join(network.shared)}.")
    names = dict(zip(weights, (view.name for view in network.layers), strict=True))
    wanted = set(names.values()) if layers is None else set(layers)
    unknown = sorted(wanted - set(names.values()))
    if unknown:
        raise UsageError(
            f"no layer is called {', '.join(unknown)}. The layers are {', '.join(names.values())}."
        )
    codes: dict[str, AbstractTensorCode] = {
        name: Raw(tensor.cpu().numpy()) for name, tensor in tensors.items()
    }
    done: list[CompressedLayer] = []
    carried: dict[str, str] = {}
    for count, (weight, name) in enumerate(names.items()):
        progress(count, len(names), name)
        place, *inside = weight.removesuffix(".weight").split(".")
        if name not in wanted:
            carried[name] = "not asked for"
        elif inside:
            carried[name] = "inside a residual block, whose convolutions have the same filters everywhere"
        elif not isinstance(chain.operations[int(place)], Conv):
            carried[name] = "no convolution"
        else:
            try:
                chain, found = conv_project(
                    chain, tensors, [int(place)], numbers=numbers, mixes=mixes, levels=levels, seed=seed
                )
            except UnsupportedLayerError as refusal:
                carried[name] = str(refusal)
                continue
            codes |= found
            done.append(CompressedLayer(name, found[weight], predicted_by=_PREDICTED))
    progress(len(names), len(names))
    return LocalNetwork(network, chain, codes, names, tuple(done), carried)


_PREDICTED = "lemma 13 of Arora et al. 2018 is about fixed directions, not about a spectral norm"
