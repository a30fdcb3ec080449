"""Fixed features that cost no bits, and a sparse linear layer on top of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from codebound.certificate.message import Message
from codebound.certificate.methods.free import estimate, require_free
from codebound.certificate.methods.prune import SHORT, best_plan
from codebound.certificate.search import Search, UnsuitedError, method
from codebound.coding import best_tensor_code
from codebound.compress import prune
from codebound.data.dataset import DeviceData, Scaling
from codebound.nets.chain import Chain, Dictionary, Linear
from codebound.rng import torch_stream
from codebound.train.subspace import Features, Learner

if TYPE_CHECKING:
    from codebound.compress import PrunePlan
    from codebound.progress import Progress

_TABLES = (3, 1)
_GRID = 5  # features are pooled to about this many windows along a side
_LEAST_SIDE = 12  # of an image that the filters make sense of


@method("features", "Fixed filters, which cost no bits, under a sparse linear layer; a network of its own.")
def features_method(search: Search) -> None:
    """A sparse head on the features of each dictionary; the best one is assessed."""
    require_free(search, "features")
    shape = search.setting.sample.input_shape
    if len(shape) != 3 or min(shape[1:]) < _LEAST_SIDE:
        raise UnsuitedError(
            f"features are those of images of at least {_LEAST_SIDE} x {_LEAST_SIDE} pixels. Got {shape}."
        )
    sample = search.setting.counted.on(search.device)
    best: tuple[float, Message] | None = None
    for table in _TABLES:
        chain = Chain(
            shape,
            (
                Dictionary(table, max(1, min(shape[1:]) // _GRID)),
                Linear(search.setting.sample.classes, False),
            ),
        )
        learner = Learner.of_chain(chain)
        features = Features.of(learner, sample, search.progress)
        found = _best_head(search, chain, learner, features)
        if best is None or found[0] < best[0]:
            best = found
    if best is not None:
        search.propose(best[1])


def _best_head(search: Search, chain: Chain, learner: Learner, features: Features) -> tuple[float, Message]:
    ((name, shape),) = chain.tensor_shapes().items()
    width = chain.input_shapes()[-1]
    inputs = DeviceData(features.views[0].float(), features.labels, Scaling())
    head = Chain(width, (Linear(chain.classes, False),))
    start = torch.randn(shape, generator=torch_stream(search.seed, "features head")) * shape[1] ** -0.5
    messages: dict[PrunePlan, tuple[float, Message]] = {}

    def bound_of(plan: PrunePlan, report: Progress) -> float:
        (pruned,) = prune(head.build({"0.weight": start}), ["0.weight"], inputs, plan, report).values()
        near = (width[-1], math.prod(width[1:]))  # the pixel below, the same pixel of the next map
        code = best_tensor_code(pruned.integers.numpy(), step=0, strides=near)
        message = Message(search.setting.options, chain, {name: code})
        messages[plan] = estimate(message, learner, features, search), message
        return messages[plan][0]

    size, n = math.prod(shape), inputs.n
    plan = best_plan(search, bound_of, SHORT, size=size, keep=max(8, round(n**0.5)), n=n)
    return messages[plan]
