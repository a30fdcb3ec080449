"""A sparse linear layer on features that cost no bits: those of fixed filters, or those of a base."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from codebound.methods.search import Search, UnsuitedError
from codebound.sample.dataset import DeviceData, Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Dictionary, Linear, Shifts
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.tensors import Zero
from codebound_networks.methods.pruned import SHORT, PruneBudget, best_plan
from codebound_networks.methods.trainers import AbstractTrainer, Candidate, best_polished, require_training
from codebound_networks.train.few_bits import LEAST_SIDE
from codebound_networks.train.polishing import polish_linear
from codebound_networks.train.pruning import PruneSettings, prune
from codebound_networks.train.rng import torch_stream
from codebound_networks.train.subspace import Learner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.run.progress import Progress
    from codebound_networks.codes.tensors import AbstractTensorCode

_TABLES = (3, 1)
_GRID = 5  # features are pooled to about this many windows along a side
_GREY_SHIFTS = {"standard": (3, None), "max": (3, 4, 2, None)}
_FEW_COUNTS = 12  # of polishing a little
_COUNTS = {"standard": 120, "max": 1000}  # and at length
_ROUNDS = 2  # of polishing
_LEAST_BITS = 6.0  # that a weight of a head takes


def propose_features(search: Search) -> None:
    """Picks the features by one head on each of them; the best head on those is polished and assessed."""
    require_training(search)
    candidates = _of_filters(search) if search.task.base is None else _of_base(search)
    trainers = [_Trainer(search, chain, learner) for chain, learner in candidates]
    chosen = min(trainers, key=lambda each: each.first().bound)
    chosen.require_promise(chosen.first())
    search.propose(chosen.best().message)


def _of_filters(search: Search) -> Iterator[tuple[Chain, Learner]]:
    """A network of its own for each dictionary and, for grey images, with and without each kind of shifts."""
    shape = search.task.sample.input_shape
    if len(shape) != 3 or min(shape[1:]) < LEAST_SIDE:
        raise UnsuitedError(
            f"features are those of images of at least {LEAST_SIDE} x {LEAST_SIDE} pixels. Got {shape}."
        )
    search.require_promise(code_bits=_LEAST_BITS * _first_size(search.task.rest.n))
    pool = max(2, min(shape[1:]) // _GRID)
    head = Linear(search.task.sample.classes, False)
    for table, kind in product(_TABLES, _GREY_SHIFTS[search.effort] if shape[0] == 1 else (None,)):
        shifts = () if kind is None else (Shifts(kind),)
        chain = Chain(shape, (*shifts, Dictionary(table, pool), head))
        zeros = {name: torch.zeros(size) for name, size in chain.tensor_shapes().items()}
        yield chain, _above(chain, zeros, search.device)


def _of_base(search: Search) -> Iterator[tuple[Chain, Learner]]:
    """The network of the base, whose last layer is to be learned."""
    chain, base = search.task.f.chain, search.task.base
    if chain is None or base is None:
        raise UnsuitedError("features of a base need a network that is a chain of known layers.")
    if base.made.rows:
        raise UnsuitedError("features learn a last layer from zero; that of a prior part is trained already.")
    if any(base.tensors[name].any() for name in _head(chain)):
        raise UnsuitedError(
            "features of a base need a last layer that starts at zero. Where that was decided before the "
            "base was tried on this sample, leave the layer out of its file."
        )
    tensors = {name: torch.from_numpy(value) for name, value in base.tensors.items()}
    yield chain, _above(chain, tensors, search.device)


def _first_size(n: int) -> int:
    """Weights that a head starts with; it grows as bounds of equal training error do."""
    return max(8, round(math.sqrt(n)))


def _head(chain: Chain) -> list[str]:
    """Names of the tensors of the last layer."""
    return [name for name in chain.tensor_shapes() if name.startswith(f"{len(chain.operations) - 1}.")]


def _above(chain: Chain, tensors: Mapping[str, Tensor], device: str | torch.device) -> Learner:
    """The last layer of a chain as what is to be learned; everything below it is fixed."""
    front, body = chain.parts({name: value.to(device) for name, value in tensors.items()})
    fixed = nn.Sequential(front, body[:-1])  # the mean over shifts and a linear layer change places
    head = _head(chain)

    def logits(features: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        return functional.linear(features, *(tensors[name] for name in head))

    return Learner(
        chain.tensor_shapes(),
        frozenset(head),
        lambda x: (torch.stack(fixed(x).flatten(1).chunk(chain.shift_count)).mean(0),),
        logits,
    )


class _Trainer(AbstractTrainer[PruneSettings]):
    """Trains last layers on one set of features; everything below is zero bits."""

    def __init__(self, search: Search, chain: Chain, learner: Learner) -> None:
        super().__init__(search, chain, learner)
        self.shapes = chain.tensor_shapes()
        (self.name,) = (name for name in learner.head if len(self.shapes[name]) > 1)
        seen = chain.input_shapes()[-1]
        # the pixel below, the next map
        self.near = (seen[-1], math.prod(seen[1:])) if len(seen) == 3 else ()

    def first(self) -> Candidate[PruneSettings]:
        """The head of one plan, to compare features by."""
        self.spend(replace(SHORT, runs=1))
        (head,) = self.found.values()
        return head

    def best(self) -> Candidate[PruneSettings]:
        """The best head of all plans, polished."""
        self.spend(SHORT)
        return best_polished(
            self.found.values(), self.polish_twice, few=_FEW_COUNTS, many=_COUNTS[self.search.effort]
        )

    def spend(self, budget: PruneBudget) -> None:
        """Trains by the plans of a budget, except those that were trained before."""
        shape, n = self.shapes[self.name], len(self.features.labels)
        stream = torch_stream(self.search.seed, "features head")
        start = {"0.weight": torch.randn(shape, generator=stream) * shape[1] ** -0.5}
        layer = Chain(shape[1:], (Linear(shape[0], False),)).build(start)
        inputs = DeviceData(self.features.shifts[0].float(), self.features.labels, Scaling())

        def bound_of(plan: PruneSettings, report: Progress) -> float:
            if plan not in self.found:
                (pruned,) = prune(layer, list(start), inputs, plan, report).values()
                self.found[plan] = self.judge(plan, pruned.integers.numpy())
            return self.found[plan].bound

        best_plan(self.search, bound_of, budget, size=math.prod(shape), keep=_first_size(n), n=n)

    def polish_twice(self, head: Candidate[PruneSettings], counts: int) -> Candidate[PruneSettings]:
        """The head after local searches; each has the price of where the one before ended."""
        for _ in range(_ROUNDS):
            head = self.polish_candidate(head, counts // _ROUNDS)
        return head

    def polish(self, candidate: Candidate[PruneSettings], counts: int) -> NDArray[np.int32]:
        return polish_linear(
            self.features.shifts[0],
            self.features.labels,
            candidate.integers,
            price=candidate.price,
            counts=counts,
            strides=self.near,
            progress=self.search.progress,
        )

    def message(self, plan: PruneSettings, integers: NDArray[np.int32]) -> Message:
        codes: dict[str, AbstractTensorCode] = {name: Zero(size) for name, size in self.shapes.items()}
        codes[self.name] = best_tensor_code(integers, step=0, strides=self.near)
        return Message(self.search.task.options, self.chain, codes)
