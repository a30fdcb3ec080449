"""The published compressors as methods: f stays as it is, and a part of the sample chooses the options.

Every option of a grid shapes the code, which says all that its decoder needs, so looking at many is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch

from codebound.certificate.build import OnDomain
from codebound.chains.message import Message
from codebound.coding.modes import encode_tensors
from codebound.errors import UnsupportedLayerError
from codebound.nets.rebuild import with_weights
from codebound.nets.walk import Network, wrap
from codebound.search.codes import VECTOR_LEVELS, tensor_code
from codebound.search.search import Search, UnsuitedError
from codebound_papers.arora18.projection import MatrixProject
from codebound_papers.arora18.truncation import Truncation
from codebound_papers.arora18.vector import VectorCompress, VectorProject
from codebound_papers.compress.compressors import FromInitial, weight_name
from codebound_papers.guha23.largest import LargestWeights
from codebound_papers.guha23.magnitude import MagnitudePruning
from codebound_papers.guha23.pruning_law import strength_for
from codebound_papers.shin21.compressor import HeavyTail
from codebound_papers.shin21.replacement import GaussianFill
from codebound_papers.shin21.thresholds import ScaleFree, StandardDeviation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from codebound_papers.compress.compressors import AbstractCompressor

_FALLBACK_LEVELS = 255  # of a layer that a compressor refuses


@dataclass(frozen=True, slots=True)
class Family:
    """A compressor with the options to try.

    Attributes:
        grid: The options.
        near: Options that stay near f in spectral norm, where the statement is about f itself.
        is_seed_coded: Whether the decoder needs the seed; small seeds are then the cheapest.
    """

    grid: tuple[AbstractCompressor, ...]
    near: tuple[AbstractCompressor, ...] = ()
    is_seed_coded: bool = False


FAMILIES: dict[str, Family] = {
    "naive": Family(
        tuple(
            LargestWeights(density=density, levels=levels)
            for density in (0.5, 0.25, 0.1, 0.05, 0.02, 0.01)
            for levels in (3, 7, 15)
        ),
        near=tuple(LargestWeights(density=1.0, levels=levels) for levels in (255, 1023, 4095)),
    ),
    "mbp": Family(
        tuple(
            MagnitudePruning(strength=strength_for(kept), levels=levels)
            for kept in (0.5, 0.25, 0.1, 0.05, 0.02)
            for levels in (7, 15)
        )
    ),
    "lowrank": Family(
        tuple(Truncation(delta=delta) for delta in (0.9, 0.75, 0.6, 0.5, 0.35, 0.25)),
        near=tuple(Truncation(delta=delta) for delta in (0.05, 0.01, 0.002)),
    ),
    "vector-compress": Family(
        tuple(VectorCompress(margin=margin, eta=eta) for margin in (1.0, 0.5) for eta in (1.0, 0.5, 0.25))
    ),
    "vector-project": Family(
        tuple(VectorProject(count=count, levels=levels) for count in (4, 8, 16, 32) for levels in (7, 15)),
        is_seed_coded=True,
    ),
    "project": Family(
        tuple(MatrixProject(count=count, levels=15) for count in (64, 256, 1024)),
        is_seed_coded=True,
    ),
    "heavytail": Family(
        tuple(
            HeavyTail(threshold=threshold, levels=levels)
            for threshold in (StandardDeviation(), *(ScaleFree(epsilon, 0.05) for epsilon in (0.1, 0.2, 0.4)))
            for levels in (7, 15)
        ),
        is_seed_coded=True,
    ),
    "gaussian-fill": Family(tuple(GaussianFill(levels=levels) for levels in (3, 7, 15)), is_seed_coded=True),
}


def propose_compressed(search: Search) -> None:
    """Shows the networks that the running compressor makes, over the grid of its options."""
    name = search.running
    family = FAMILIES[name]
    grid = family.near if isinstance(search.setting.statement, OnDomain) else family.grid
    if not grid:
        raise UnsuitedError(f"{name} moves the network too far for a statement about f on a whole domain.")
    network = network_of(search)
    if search.setting.base is not None:
        initial = _built(
            search, {key: torch.from_numpy(array) for key, array in search.setting.base[1].items()}
        )
        grid = tuple(FromInitial(algorithm, initial) for algorithm in grid)
    seed = 0 if family.is_seed_coded else search.seed
    search.consider([partial(_message, search, network, algorithm, seed) for algorithm in grid])


def network_of(search: Search) -> Network:
    """The network f, wrapped; its weights have the names of the message."""
    return _built(search, search.subject.tensors)


def _built(search: Search, tensors: Mapping[str, Tensor]) -> Network:
    chain, module = search.subject.chain, search.setting.module
    if chain is not None:
        return wrap(chain.build({name: tensor.clone() for name, tensor in tensors.items()}))
    assert module is not None  # a subject is a chain or the state of a module
    example = torch.zeros(2, *search.setting.sample.input_shape)
    return wrap(with_weights(module, {**module.state_dict(), **tensors}), example=example)


def _message(search: Search, network: Network, algorithm: AbstractCompressor, seed: int) -> Message | None:
    """The message of a compressed network; None as soon as it is too long to be the best."""
    codes, bits = {}, 0
    for position, view in enumerate(network.layers):
        name = weight_name(view.name)
        try:
            code = algorithm.compress(view, seed=seed + position).code
        except UnsupportedLayerError:
            code = tensor_code(name, search, levels=_FALLBACK_LEVELS)
        codes[name] = code
        if search.best is not None:
            bits += encode_tensors([code]).length
            if bits > search.most_bits:
                return None
    return Message(
        search.setting.options,
        search.subject.chain,
        {
            name: codes[name] if name in codes else tensor_code(name, search, levels=VECTOR_LEVELS)
            for name in search.subject.tensors
        },
    )
