"""Evaluating networks in float64, with room for all that is rounded (docs/format.md, section 8.10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..sample import Progress, parts
from .chain import Chain
from .images import views
from .network import Network
from .operations import KINDS, Layers, Operation, relu
from .rounding import Rounded, gamma, lengths
from .scaling import Scaling
from .tensors import Doubles, Floats

Steps = Sequence[tuple[Operation, Layers]]

TOLERANCE = 0.5e-4  # half of the writer's: rounding cannot make the verifier count more
ROUNDING = 1e-5  # share of the largest logit that the error bound may have; twice the writer's
NUMBERS = 3 << 22  # numbers in the largest intermediate result of a batch; more where weights are many
BATCH = 4096  # the largest batch


class Evaluator:
    """A network as a function: stored inputs in, float64 logits with their room out."""

    def __init__(self, chain: Chain, tensors: Mapping[str, Floats], scaling: Scaling) -> None:
        self._shape, self._scaling = chain.inputs[0], scaling
        self._steps = list(zip(chain.operations, prepare(chain, tensors), strict=True))
        numbers = max(NUMBERS, 16 * max(tensor.size for tensor in tensors.values()))
        self._batch = max(1, min(BATCH, numbers // chain.widest()))

    def blocks(
        self, x: NDArray[Any], rows: NDArray[np.int64], progress: Progress | None = None
    ) -> Iterator[tuple[NDArray[np.int64], Doubles, Doubles]]:
        """Some rows of x, a batch at a time: their places, logits, and how large a difference has to be.

        The room is infinite where the logits are too uncertain to say anything.
        """
        for batch in parts(len(rows), self._batch):
            part = rows[batch]
            with torch.inference_mode():
                logits = evaluate(self._steps, self._scale(x[part]))
                largest = logits.values.abs().amax(1)
                is_sure = (logits.error <= ROUNDING * largest) & logits.values.isfinite().all(1)
                room = torch.where(is_sure, TOLERANCE * largest, torch.inf)
            yield part, logits.values.numpy(), room.numpy()
            if progress is not None:
                progress(batch.stop, len(rows))

    def predict(
        self, x: NDArray[Any], progress: Progress | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The classes of the largest logits, and where rounding leaves them in doubt (9.1)."""
        labels, is_in_doubt = np.zeros(len(x), np.int64), np.ones(len(x), np.bool_)
        for part, values, room in self.blocks(x, np.arange(len(x)), progress):
            labels[part] = values.argmax(1)
            second, first = np.partition(values, (-2, -1), axis=1)[:, -2:].T
            with np.errstate(invalid="ignore"):
                is_in_doubt[part] = ~(first - second > room)
        return labels, is_in_doubt

    def _scale(self, x: NDArray[Any]) -> Rounded:
        """(x / divisor - mean) / std. What is not finite leaves infinite room."""
        mean, std = self._scaling.constants(self._shape)
        with np.errstate(over="ignore", invalid="ignore"):
            shares = x.astype(np.float64) / self._scaling.divisor
            values = torch.from_numpy((shares - mean) / std)
            sizes = torch.from_numpy((np.abs(shares) + np.abs(mean)) / std)
        return Rounded(values, gamma(4) * lengths(sizes), is_relative=not self._scaling.has_means)


class NetworkScores:
    """The logits of a network on the sample, as scores that are counted."""

    def __init__(self, network: Network, progress: Progress | None = None) -> None:
        self.classes, self.theta = network.classes, network.theta
        self.evaluator = Evaluator(network.chain, network.tensors, network.scaling)
        self._x, self._progress = network.x, progress

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Doubles, Doubles]]:
        """Blocks of these rows: their stored places, logits, and room."""
        return self.evaluator.blocks(self._x, rows, self._progress)


def prepare(chain: Chain, tensors: Mapping[str, Floats]) -> list[Layers]:
    """The layers of each operation."""
    found: list[Layers] = []
    for position, (operation, seen) in enumerate(zip(chain.operations, chain.inputs, strict=True)):
        kind, own = KINDS[operation.kind], {}
        for weight in kind.tensors(operation, seen):
            name = weight.removesuffix("weight")
            bias = torch.from_numpy(tensors[f"{position}.{name}bias"]) if operation.bias else None
            own[name] = kind.layer(operation, seen, torch.from_numpy(tensors[f"{position}.{weight}"]), bias)
        found.append(own)
    return found


def evaluate(steps: Steps, x: Rounded) -> Rounded:
    """The logits of a batch of scaled inputs: means over its views, where the chain begins with views."""
    first = steps[0][0]
    if first.kind != "views":
        return _apply(steps, x)
    found = [_apply(steps[1:], view) for view in views(first.views, x)]
    largest = torch.stack([view.values.abs().amax(1) for view in found]).mean(dim=0)
    error = torch.stack([view.error for view in found]).mean(dim=0)
    values = torch.stack([view.values for view in found]).mean(dim=0)
    return Rounded(values, error + gamma(len(found) + 1) * largest)


def _apply(steps: Steps, x: Rounded) -> Rounded:
    """Logits of a batch after all operations, the last of them without a ReLU."""
    for place, (operation, own) in enumerate(steps):
        kind = KINDS[operation.kind]
        x = kind.apply(operation, own, x)
        if kind.has_relu and place < len(steps) - 1:
            x = relu(x)
    return x
