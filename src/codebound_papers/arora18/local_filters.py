"""Algorithm 4 of Arora et al. 2018 for a whole network: convolutions get filters per location (K-MPC)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from codebound.chains.message import MAX_ELEMENTS, Message
from codebound.chains.reading import chain_of
from codebound.coding.arithmetic import Writer
from codebound.coding.modes import encode_tensors
from codebound.coding.tensors import AbstractTensorCode, Raw
from codebound.errors import UnsupportedLayerError, UsageError
from codebound.search.quantised import quantised_code
from codebound.search.search import Search, UnsuitedError
from codebound_papers.arora18.conv import conv_project, convolutions
from codebound_papers.compress.compressors import (
    AbstractNetworkCompressor,
    CompressedLayer,
    Job,
    LocalNetwork,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codebound.chains.chain import Chain

_PREDICTED = "lemma 13 of Arora et al. 2018 is about fixed directions, not about a spectral norm"
_NUMBERS = (16, 64, 256)
_MIXES = 4  # times the numbers: the noise of a location is then half its signal
_OTHERS = ((0.1, 7), (0.5, 7), (1.0, 15))  # density and levels of all other layers


@dataclass(frozen=True, kw_only=True)
class LocalFilters(AbstractNetworkCompressor):
    """Compresses every convolution that a message can take by ``conv_project``; the rest is as it was.

    The input shape of the job decides how many locations a convolution has. The position of a layer in the
    chain is added to the seed, and the sum is part of the code.

    Attributes:
        numbers: Coded numbers per layer.
        mixes: Gaussian combinations per location.
        levels: Values that a number can take: odd, at least 3.
    """

    numbers: int = 256
    mixes: int = 1024
    levels: int = 255

    def run(self, job: Job) -> LocalNetwork:
        """The network with local filters.

        Raises:
            UnsupportedLayerError: The network is no chain, or calls a layer twice.

        Example:
            >>> from codebound.nets.walk import wrap
            >>> from codebound.nets.zoo import build
            >>> net = wrap(build("lenet5", input_shape=(1, 28, 28), classes=10))
            >>> g = LocalFilters(numbers=16, mixes=32).run(Job(network=net, input_shape=(1, 28, 28)))
            >>> [layer.name for layer in g.layers], g.carried["linear1"]
            (['conv1', 'conv2'], 'no convolution')
        """
        network = job.network
        chain, tensors = chain_of(network.model, job.input_shape)
        weights = [name for name in tensors if name.endswith(".weight")]
        if len(weights) != len(network.layers):
            raise UnsupportedLayerError(f"a layer is called twice: {', '.join(network.shared)}.")
        names = dict(zip(weights, (view.name for view in network.layers), strict=True))
        wanted = job.wanted(names.values())
        codes: dict[str, AbstractTensorCode] = {
            name: Raw(tensor.cpu().numpy()) for name, tensor in tensors.items()
        }
        done: list[CompressedLayer] = []
        carried: dict[str, str] = {}
        for count, (weight, name) in enumerate(names.items()):
            job.progress(count, len(names), name)
            place, *inside = weight.removesuffix(".weight").split(".")
            if name not in wanted:
                carried[name] = "not asked for"
            elif inside:
                carried[name] = "inside a residual block, whose convolutions have the same filters everywhere"
            elif int(place) not in convolutions(chain):
                carried[name] = "no convolution"
            else:
                try:
                    chain, found = conv_project(
                        chain,
                        tensors,
                        [int(place)],
                        numbers=self.numbers,
                        mixes=self.mixes,
                        levels=self.levels,
                        seed=job.seed,
                    )
                except UnsupportedLayerError as refusal:
                    carried[name] = str(refusal)
                    continue
                codes |= found
                done.append(CompressedLayer(name, found[weight], predicted_by=_PREDICTED))
        job.progress(len(names), len(names))
        return LocalNetwork(network, chain, codes, names, tuple(done), carried)

    @classmethod
    def propose(cls, search: Search) -> None:
        """Convolutions by A-Alg4, the other layers pruned and quantised."""
        chain = search.task.f.chain
        if chain is None or not convolutions(chain):
            raise UnsuitedError("conv needs a chain with convolutions outside residual blocks.")
        if search.task.base is not None or search.task.claim.stays_near_f:
            raise UnsuitedError("conv changes the architecture, so there is no difference to a base or to f.")
        search.consider(
            [
                partial(_message, search, chain, numbers, density=density, levels=levels)
                for numbers in _NUMBERS
                for density, levels in _OTHERS
            ]
        )


def _message(search: Search, chain: Chain, numbers: int, *, density: float, levels: int) -> Message | None:
    tensors = search.task.f.tensors
    codes: dict[str, AbstractTensorCode] = {}
    for position in convolutions(chain):
        try:
            local, found = conv_project(chain, tensors, [position], numbers=numbers, mixes=_MIXES * numbers)
        except UnsupportedLayerError:
            continue  # too large for a message: the layer is pruned like the others
        if _fits(local, codes | found):
            chain, codes = local, codes | found
    if not codes:
        return None
    for name in tensors:
        if name not in codes:
            codes[name] = quantised_code(name, search.task, density=density, levels=levels)
    if search.best is not None and encode_tensors(list(codes.values())).length > search.most_bits:
        return None
    return Message(search.task.options, chain, {name: codes[name] for name in chain.tensor_shapes()})


def _fits(chain: Chain, codes: Mapping[str, AbstractTensorCode]) -> bool:
    """Whether one message can hold all these layers: each alone may be small enough, and all of them not."""
    writer = Writer()
    try:
        for code in codes.values():
            code.code(writer)
    except UsageError:
        return False
    return sum(map(math.prod, chain.tensor_shapes().values())) <= MAX_ELEMENTS
