"""A sparse linear layer on features that cost no bits: those of fixed filters, or those of a base."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from codebound.chains.chain import Chain
from codebound.chains.few_bits import LEAST_SIDE
from codebound.chains.message import Message
from codebound.chains.operations import Dictionary, Linear, Shifts
from codebound.coding.choose import best_tensor_code
from codebound.coding.tensors import Zero
from codebound.data.dataset import DeviceData, Scaling
from codebound.rng import torch_stream
from codebound.search.estimates import Estimate, best_polished, by_bound, estimate_on, require_time
from codebound.search.pruned import SHORT, PruneBudget, best_plan
from codebound.search.search import Search, UnsuitedError
from codebound.train.polishing_linear import polish_linear
from codebound.train.pruning import prune
from codebound.train.subspace import Features, Learner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.coding.tensors import AbstractTensorCode
    from codebound.progress import Progress
    from codebound.train.pruning import PruneSettings

_TABLES = (3, 1)
_GRID = 5  # features are pooled to about this many windows along a side
_GREY_SHIFTS = {"standard": (3, None), "max": (3, 4, 2, None)}
_FEW_COUNTS = 12  # of polishing a little
_COUNTS = {"standard": 120, "max": 1000}  # and at length
_ROUNDS = 2  # of polishing: each has the price of where the one before ended


def propose_features(search: Search) -> None:
    """Picks the features by one head on each of them; the best head on those is polished and assessed."""
    require_time(search, "features")
    candidates = _of_filters(search) if search.task.base is None else _of_base(search)
    trainers = [
        _Trainer(search, chain, learner, Features.of(learner, search.sample, search.progress))
        for chain, learner in candidates
    ]
    chosen = min(trainers, key=lambda each: each.first().bound)
    search.propose(chosen.best().estimate.message)


def _of_filters(search: Search) -> Iterator[tuple[Chain, Learner]]:
    """A network of its own for each dictionary and, for grey images, with and without each kind of shifts."""
    shape = search.task.sample.input_shape
    if len(shape) != 3 or min(shape[1:]) < LEAST_SIDE:
        raise UnsuitedError(
            f"features are those of images of at least {LEAST_SIDE} x {LEAST_SIDE} pixels. Got {shape}."
        )
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
    if search.task.claim.trains_base:
        raise UnsuitedError("features learn a last layer from zero; that of a prior part is trained already.")
    if any(base[1][name].any() for name in _head(chain)):
        raise UnsuitedError(
            "features of a base need a last layer that starts at zero. Where that was decided before the "
            "base was tried on this sample, leave the layer out of its file."
        )
    yield (
        chain,
        _above(chain, {name: torch.from_numpy(value) for name, value in base[1].items()}, search.device),
    )


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


class _Head(NamedTuple):
    """The integers of the last layer and what they are worth."""

    levels: NDArray[np.int32]
    estimate: Estimate

    @property
    def bound(self) -> float:
        return self.estimate.bound


class _Trainer:
    """Trains last layers on one set of features; everything below is zero bits."""

    def __init__(self, search: Search, chain: Chain, learner: Learner, features: Features) -> None:
        self.search, self.chain, self.learner, self.features = search, chain, learner, features
        self.shapes = chain.tensor_shapes()
        (self.name,) = (name for name in learner.head if len(self.shapes[name]) > 1)
        seen = chain.input_shapes()[-1]
        # the pixel below, the next map
        self.near = (seen[-1], math.prod(seen[1:])) if len(seen) == 3 else ()
        self.heads: dict[PruneSettings, _Head] = {}

    def first(self) -> _Head:
        """The head of one plan, to compare features by."""
        self.spend(replace(SHORT, runs=1))
        (head,) = self.heads.values()
        return head

    def best(self) -> _Head:
        """The best head of all plans, polished."""
        self.spend(SHORT)
        return best_polished(
            self.heads.values(), self.polished, few=_FEW_COUNTS, many=_COUNTS[self.search.effort]
        )

    def spend(self, budget: PruneBudget) -> None:
        """Trains by the plans of a budget, except those that were trained before."""
        shape, n = self.shapes[self.name], len(self.features.labels)
        stream = torch_stream(self.search.seed, "features head")
        start = {"0.weight": torch.randn(shape, generator=stream) * shape[1] ** -0.5}
        layer = Chain(shape[1:], (Linear(shape[0], False),)).build(start)
        inputs = DeviceData(self.features.shifts[0].float(), self.features.labels, Scaling())

        def bound_of(plan: PruneSettings, report: Progress) -> float:
            if plan not in self.heads:
                (pruned,) = prune(layer, list(start), inputs, plan, report).values()
                self.heads[plan] = self.head(pruned.integers.numpy())
            return self.heads[plan].bound

        keep = max(8, round(n**0.5))
        best_plan(self.search, bound_of, budget, size=math.prod(shape), keep=keep, n=n)

    def polished(self, head: _Head, counts: int) -> _Head:
        """The head after a local search."""
        for _ in range(_ROUNDS):
            levels = polish_linear(
                self.features.shifts[0],
                self.features.labels,
                head.levels,
                price=head.estimate.price,
                counts=counts // _ROUNDS,
                strides=self.near,
                progress=self.search.progress,
            )
            head = min(head, self.head(levels), key=by_bound)
        return head

    def head(self, levels: NDArray[np.int32]) -> _Head:
        codes: dict[str, AbstractTensorCode] = {name: Zero(size) for name, size in self.shapes.items()}
        codes[self.name] = best_tensor_code(levels, step=0, strides=self.near)
        message = Message(self.search.task.options, self.chain, codes)
        found = estimate_on(self.features, self.learner, message, self.search.task)
        self.search.hold(message, found.bound)
        return _Head(levels, found)
