"""Methods that train masks on the sample: lottery tickets and iterative magnitude pruning."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from codebound.certificate.build import OnDomain
from codebound.chains.message import Message
from codebound.search.codes import VECTOR_LEVELS, tensor_code
from codebound.search.search import Search, UnsuitedError
from codebound_papers.compress.search import network_of
from codebound_papers.guha23.iterative import imp
from codebound_papers.guha23.largest import count_bits, kept_count
from codebound_papers.guha23.tickets import lottery, ticket_bits

if TYPE_CHECKING:
    from codebound.nets.walk import Network
    from codebound_papers.compress.compressors import CompressedNetwork

_STEPS = {"standard": 1500, "max": 6000}
_BATCH = 128
_TICKET_DENSITIES = (0.3, 0.1)
_PRUNED_DENSITIES = (0.1, 0.03)
_ROUNDS = 3
_LEVELS = 7


def propose_tickets(search: Search) -> None:
    """A mask for random weights at every density that can pay, trained on the sample."""
    network, epochs = _start(search, "lottery")
    sample = search.setting.counted.on(search.device)
    for density in _TICKET_DENSITIES:
        shortest = sum(ticket_bits(size, kept=kept_count(size, density)) for size in _sizes(network))
        if _is_worth_training(search, shortest):
            found = lottery(
                network, sample, density=density, epochs=epochs, batch_size=_BATCH, progress=search.progress
            )
            search.propose(_message(search, found))


def propose_iterative(search: Search) -> None:
    """Pruning in rounds that rewind to f, at every density that can pay."""
    network, epochs = _start(search, "imp")
    sample = search.setting.counted.on(search.device)
    for density in _PRUNED_DENSITIES:
        shortest = sum(
            count_bits(size, nonzeros=kept_count(size, density), levels=3) for size in _sizes(network)
        )
        if _is_worth_training(search, shortest):
            found = imp(
                network,
                sample,
                density=density,
                rounds=_ROUNDS,
                epochs=math.ceil(epochs / (_ROUNDS + 1)),
                levels=_LEVELS,
                batch_size=_BATCH,
                seed=search.seed,
                progress=search.progress,
            )
            search.propose(_message(search, found))


def _start(search: Search, name: str) -> tuple[Network, int]:
    """The network, and the epochs that the effort allows."""
    if search.effort == "quick":
        raise UnsuitedError(f"{name} trains, and the effort is quick. Choose --effort standard.")
    if search.setting.base is not None or isinstance(search.setting.statement, OnDomain):
        raise UnsuitedError(f"{name} trains a network of its own, which is near no base and not near f.")
    return network_of(search), max(1, math.ceil(_STEPS[search.effort] * _BATCH / search.setting.counted.n))


def _is_worth_training(search: Search, shortest: float) -> bool:
    """Training takes time: only for a message that can become shorter than the best one so far."""
    return search.best is None or shortest < min(search.most_bits, search.best.facts.code_bits)


def _sizes(network: Network) -> list[int]:
    return [view.weight.numel() for view in network.layers]


def _message(search: Search, found: CompressedNetwork) -> Message:
    codes = {layer.tensor: layer.code for layer in found.layers}
    return Message(
        search.setting.options,
        search.subject.chain,
        {
            name: codes[name] if name in codes else tensor_code(name, search, levels=VECTOR_LEVELS)
            for name in search.subject.tensors
        },
    )
