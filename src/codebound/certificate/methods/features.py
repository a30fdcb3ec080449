"""A sparse linear layer on features that cost no bits: those of fixed filters, or those of a base."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from codebound.certificate.message import Message
from codebound.certificate.methods.free import estimate, require_time
from codebound.certificate.methods.prune import SHORT, best_plan
from codebound.certificate.search import Search, UnsuitedError, method
from codebound.coding import Zero, best_tensor_code
from codebound.compress import prune
from codebound.data.dataset import DeviceData, Scaling
from codebound.nets.chain import Chain, Dictionary, Linear
from codebound.nets.few_bits import DICTIONARY_SIDE
from codebound.nets.views import MeanOverViews
from codebound.rng import torch_stream
from codebound.train.subspace import Features, Learner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from codebound.coding import AbstractTensorCode
    from codebound.compress import PrunePlan
    from codebound.progress import Progress

_TABLES = (3, 1)
_GRID = 5  # features are pooled to about this many windows along a side


@method(
    "features",
    "A sparse linear layer on features that cost no bits: those of fixed filters, or of the base.",
)
def features_method(search: Search) -> None:
    """A sparse last layer on each set of features; the best one is assessed."""
    require_time(search, "features")
    sample = search.setting.counted.on(search.device)
    candidates = _of_filters(search) if search.setting.base is None else _of_base(search)
    found = [
        _best_head(search, chain, learner, Features.of(learner, sample, search.progress))
        for chain, learner in candidates
    ]
    search.propose(min(found, key=lambda each: each[0])[1])


def _of_filters(search: Search) -> Iterator[tuple[Chain, Learner]]:
    """A network of its own for each dictionary."""
    shape = search.setting.sample.input_shape
    if len(shape) != 3 or min(shape[1:]) < DICTIONARY_SIDE:
        raise UnsuitedError(
            f"features are those of images of at least {DICTIONARY_SIDE} x {DICTIONARY_SIDE} pixels. "
            f"Got {shape}."
        )
    head = Linear(search.setting.sample.classes, False)
    for table in _TABLES:
        chain = Chain(shape, (Dictionary(table, max(1, min(shape[1:]) // _GRID)), head))
        yield chain, Learner.of_chain(chain)


def _of_base(search: Search) -> Iterator[tuple[Chain, Learner]]:
    """The network of the base, whose last layer is to be learned."""
    chain, base = search.subject.chain, search.setting.base
    if chain is None or base is None:
        raise UnsuitedError("features of a base need a network that is a chain of known layers.")
    shapes = chain.tensor_shapes()
    head = [name for name in shapes if name.startswith(f"{len(chain.operations) - 1}.")]
    if any(base[1][name].any() for name in head):
        raise UnsuitedError(
            "features of a base need a last layer that starts at zero. Where that was decided before the "
            "base was tried on this sample, leave the layer out of its file."
        )
    device = search.device
    body = chain.build({name: torch.from_numpy(value).to(device) for name, value in base[1].items()})
    *below, _ = (part for part in body if not isinstance(part, MeanOverViews))
    fixed = nn.Sequential(*below)  # the mean over views and a linear layer change places

    def logits(features: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        return functional.linear(features, *(tensors[name] for name in head))

    yield (
        chain,
        Learner(
            shapes,
            frozenset(head),
            lambda x: (torch.stack(fixed(x).flatten(1).chunk(chain.view_count)).mean(0),),
            logits,
        ),
    )


def _best_head(search: Search, chain: Chain, learner: Learner, features: Features) -> tuple[float, Message]:
    """The message of the last layer with the smallest estimated bound; everything below it is zero bits."""
    shapes = chain.tensor_shapes()
    ((name, shape),) = ((name, shapes[name]) for name in learner.head if len(shapes[name]) > 1)
    seen = chain.input_shapes()[-1]
    near = (seen[-1], math.prod(seen[1:])) if len(seen) == 3 else ()  # the pixel below, the next map
    inputs = DeviceData(features.views[0].float(), features.labels, Scaling())
    layer = Chain(tuple(inputs.x.shape[1:]), (Linear(chain.classes, False),))
    start = torch.randn(shape, generator=torch_stream(search.seed, "features head")) * shape[1] ** -0.5
    messages: dict[PrunePlan, tuple[float, Message]] = {}

    def bound_of(plan: PrunePlan, report: Progress) -> float:
        (pruned,) = prune(layer.build({"0.weight": start}), ["0.weight"], inputs, plan, report).values()
        codes: dict[str, AbstractTensorCode] = {each: Zero(size) for each, size in shapes.items()}
        codes[name] = best_tensor_code(pruned.integers.numpy(), step=0, strides=near)
        message = Message(search.setting.options, chain, codes)
        messages[plan] = estimate(message, learner, features, search), message
        return messages[plan][0]

    size, n = math.prod(shape), inputs.n
    plan = best_plan(search, bound_of, SHORT, size=size, keep=max(8, round(n**0.5)), n=n)
    return messages[plan]
