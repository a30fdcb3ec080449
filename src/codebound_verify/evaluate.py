"""Evaluating networks in float64 and counting (docs/format.md, sections 5.1, 6 and 7)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .images import views
from .operations import KINDS
from .refusal import Refused

if TYPE_CHECKING:
    from .chain import Chain
    from .header import Header
    from .operations import Operation, Weights
    from .sample import Inputs, Labels
    from .tensors import Floats

TOLERANCE = 0.5e-4  # half of the writer's: rounding cannot make the verifier count more
NUMBERS = 1 << 24  # numbers in the largest intermediate result of a batch: 128 MiB
BATCH = 4096  # the largest batch

Forward: TypeAlias = Callable[[Tensor], Tensor]
Progress: TypeAlias = Callable[[int, int], None]


class Evaluator:
    """A network with its scaling: batches of stored inputs in, float64 logits out.

    Args:
        forward: The network.
        header: Its scaling and its classes.
        widest: The most numbers that one example takes up.
        workers: How many batches may be computed at the same time, by one core each.
        progress: Called with the examples done and their total.
    """

    def __init__(
        self,
        forward: Forward,
        *,
        header: Header,
        widest: int,
        workers: int = 1,
        progress: Progress | None = None,
    ) -> None:
        self._forward = forward
        self._scaling = header.scaling
        self._classes = header.classes
        self._workers = max(1, min(workers, NUMBERS // widest))
        self._batch = max(1, min(BATCH, NUMBERS // widest // self._workers))
        self._progress = progress or (lambda done, total: None)

    def logits(self, x: Inputs) -> Iterator[tuple[slice, Tensor]]:
        """The logits of consecutive batches of x."""
        parts = [slice(start, start + self._batch) for start in range(0, len(x), self._batch)]
        batches = (x[part] for part in parts)
        if self._workers > 1:
            found = _side_by_side(self._evaluated, batches, self._workers)
        else:
            found = map(self._evaluated, batches)
        for part, logits in zip(parts, found, strict=True):
            yield part, logits
            self._progress(min(part.stop, len(x)), len(x))

    def _evaluated(self, x: Inputs) -> Tensor:
        with torch.inference_mode():
            scaled = self._scaled(x)
            logits = self._forward(scaled)
        if logits.shape != (len(scaled), self._classes):
            raise Refused(
                f"Network: it maps {tuple(scaled.shape)} to {tuple(logits.shape)}; "
                f"({len(scaled)}, {self._classes}) is needed."
            )
        return logits

    def _scaled(self, x: Inputs) -> Tensor:
        """(x / divisor - mean) / std in float64 (section 6)."""
        ones = (1,) * (x.ndim - 2)
        mean = np.array(self._scaling.mean).reshape(-1, *ones)
        std = np.array(self._scaling.std).reshape(-1, *ones)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite will be counted as an error
            return torch.from_numpy((x.astype(np.float64) / self._scaling.divisor - mean) / std)


def _side_by_side(
    function: Callable[[Inputs], Tensor], batches: Iterable[Inputs], workers: int
) -> Iterator[Tensor]:
    """What ``function`` makes of each batch, in order.

    Cores that share every small operation wait for each other; on a busy machine that takes many times longer
    than one core alone. So each batch has one core, until the last one is done.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(workers) as pool:
            waiting: deque[Future[Tensor]] = deque()
            for batch in batches:
                waiting.append(pool.submit(function, batch))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        torch.set_num_threads(before)


def chain_evaluator(
    chain: Chain, tensors: Mapping[str, Floats], *, header: Header, progress: Progress | None = None
) -> Evaluator:
    """An evaluator of a chain with these weights."""
    weights: list[dict[str, Tensor]] = [{} for _ in chain.operations]
    for name, values in tensors.items():
        position, own = name.split(".", 1)
        weights[int(position)][own] = torch.from_numpy(values)
    return Evaluator(
        lambda x: forward(chain, weights, x),
        header=header,
        widest=chain.widest(),
        workers=torch.get_num_threads(),
        progress=progress,
    )


def forward(chain: Chain, weights: Sequence[Weights], x: Tensor) -> Tensor:
    """The logits of a batch (5.1), from the tensors of each operation; only those in use become float64."""
    steps = list(zip(chain.operations, weights, strict=True))
    if chain.operations[0].kind != "views":
        return _logits(steps, x)
    logits = [_logits(steps[1:], view) for view in views(chain.operations[0].views, x)]
    return torch.stack(logits).mean(dim=0)


def _logits(steps: Sequence[tuple[Operation, Weights]], x: Tensor) -> Tensor:
    """What operations make of a batch, the last of them without a ReLU."""
    for operation, own in steps[:-1]:
        kind = KINDS[operation.kind]
        x = kind.apply(operation, own, x)
        if kind.has_relu:
            x = torch.relu(x)
    last, own = steps[-1]
    return KINDS[last.kind].apply(last, own, x)


def count_errors(network: Evaluator, x: Inputs, y: Labels, *, theta: float = 0.0) -> int:
    """Errors by section 6, at margin ``theta``."""
    errors = 0
    for part, logits in network.logits(x):
        label = torch.from_numpy(y[part])[:, None]
        margin = logits.gather(1, label)[:, 0] - logits.scatter(1, label, -math.inf).amax(1)
        correct = margin - theta > TOLERANCE * logits.abs().amax(1)
        errors += int((~(correct & logits.isfinite().all(1))).sum())
    return errors


def count_disagreements(first: Evaluator, second: Evaluator, x: Inputs) -> int:
    """Inputs on which the two predictions differ or one of them is ambiguous (section 7)."""
    one, other = _predictions(first, x), _predictions(second, x)
    return int(((one != other) | (one < 0)).sum())


def _predictions(network: Evaluator, x: Inputs) -> Tensor:
    """The predicted class of each input, or -1 where it is ambiguous."""
    result = torch.empty(len(x), dtype=torch.int64)
    for part, logits in network.logits(x):
        top, where = logits.topk(2, dim=1)
        clear = top[:, 0] - top[:, 1] > TOLERANCE * logits.abs().amax(1)
        result[part] = torch.where(clear & logits.isfinite().all(1), where[:, 0], -1)
    return result
