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
from torch.nn import functional

from .dictionary import tables
from .refusal import Refused
from .views import views

if TYPE_CHECKING:
    from .chain import Chain, Operation
    from .dictionary import Table
    from .header import Header
    from .sample import Inputs, Labels
    from .tensors import Floats

TOLERANCE = 0.5e-4  # half of the writer's: rounding cannot make the verifier count more
NUMBERS = 1 << 24  # numbers in the largest intermediate result of a batch: 128 MiB
BATCH = 4096  # the largest batch
EPSILON = 1e-5  # added to the variance that a normalised convolution or a dictionary divides by
AT_ONCE = 1 << 22  # numbers in the patches or filters of a local convolution that are multiplied at once
CACHED = 1 << 18  # numbers in patches that the cache of a core holds: 2 MiB

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


def forward(chain: Chain, weights: Sequence[Mapping[str, Tensor]], x: Tensor) -> Tensor:
    """The logits of a batch (5.1), from the tensors of each operation; only those in use become float64."""
    steps = list(zip(chain.operations, weights, strict=True))
    if chain.operations[0].kind != "views":
        return _logits(steps, x)
    logits = [_logits(steps[1:], view) for view in views(chain.operations[0].views, x)]
    return torch.stack(logits).mean(dim=0)


def _logits(steps: Sequence[tuple[Operation, Mapping[str, Tensor]]], x: Tensor) -> Tensor:
    """What operations make of a batch, the last of them without a ReLU."""
    for operation, own in steps[:-1]:
        x = _apply(operation, own, x)
        if operation.kind in ("linear", "conv", "local conv", "normalised conv"):
            x = torch.relu(x)
    return _apply(*steps[-1], x)


def _apply(operation: Operation, own: Mapping[str, Tensor], x: Tensor) -> Tensor:
    if operation.kind == "local conv":
        return _local_conv(operation, own["weight"], own.get("bias"), x)
    kernel, own = operation.kernel, {name: tensor.double() for name, tensor in own.items()}
    if operation.kind == "linear":
        return functional.linear(x.flatten(1), own["weight"], own.get("bias"))
    if operation.kind == "conv":
        return _conv(x, own["weight"], own.get("bias"), stride=operation.stride, padding=operation.padding)
    if operation.kind == "normalised conv":
        return _normalised(_conv(x, own["weight"], padding=kernel // 2))
    if operation.kind == "dictionary":
        return _features(operation.table, operation.pool, x)
    if operation.kind == "max pool":
        return functional.max_pool2d(x, kernel, stride=kernel)
    if operation.kind == "average pool":
        return functional.avg_pool2d(x, kernel, stride=kernel)
    if operation.kind == "global average pool":
        return x.mean(dim=(2, 3), keepdim=True)
    # residual
    extra = operation.out - x.shape[1]
    stride = 2 if extra else 1
    shortcut = functional.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, extra // 2, extra - extra // 2))
    inner = torch.relu(_conv(x, own["a.weight"], own.get("a.bias"), stride=stride, padding=1))
    return torch.relu(_conv(inner, own["b.weight"], own.get("b.bias"), padding=1) + shortcut)


def _conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: int = 1, padding: int) -> Tensor:
    kernel = weight.shape[2]
    pixels = math.prod((side + 2 * padding - kernel) // stride + 1 for side in x.shape[2:])
    return _in_parts(
        lambda part: functional.conv2d(part, weight, bias, stride=stride, padding=padding),
        x,
        patches=weight[0].numel() * pixels,
    )


def _in_parts(convolve: Forward, x: Tensor, *, patches: int) -> Tensor:
    """A convolution of few examples at a time: patches that stay in the cache make it several times faster.

    Args:
        convolve: The convolution.
        x: All examples.
        patches: How many numbers the patches of one example have.
    """
    at_once = max(1, torch.get_num_threads() * CACHED // patches)
    return torch.cat([convolve(part) for part in torch.split(x, at_once)])


def _normalised(x: Tensor) -> Tensor:
    """Each example less its mean, divided by its standard deviation."""
    centred = x - x.mean(dim=(1, 2, 3), keepdim=True)
    return centred / (centred.square().mean(dim=(1, 2, 3), keepdim=True) + EPSILON).sqrt()


def _features(dictionary: int, pool: int, x: Tensor) -> Tensor:
    """The fixed features of images (5.5)."""
    if x.shape[1] == 3:
        r, g, b = x.unbind(1)
        x = torch.stack([(r + g + b) / 3, r - g, (r + g) / 2 - b], 1)
    planes = x.reshape(-1, 1, *x.shape[2:])
    maps = torch.cat([_maps(table, pool, planes) for table in tables(dictionary)], 1)
    own = functional.avg_pool2d(x, pool, stride=pool)
    return _normalised(torch.cat([2 * maps.view(len(x), -1, *maps.shape[2:]), own], 1))


def _maps(table: Table, pool: int, planes: Tensor) -> Tensor:
    """The pooled maps of planes: for each one as many as there are filters."""
    filters = torch.from_numpy(table.filters).flatten(0, 1)[:, None]

    def pooled(some: Tensor) -> Tensor:
        squares = functional.conv2d(some, filters, padding=table.size // 2).square()
        lengths = (squares[:, 0::2] + squares[:, 1::2]).sqrt()  # real and imaginary parts take turns
        return functional.avg_pool2d(lengths, pool, stride=pool)

    return _in_parts(pooled, planes, patches=table.size**2 * planes[0].numel())


def _local_conv(operation: Operation, weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """A convolution with filters of its own for every pixel, some rows and columns of pixels at a time."""
    kernel, stride, padding = operation.kernel, operation.stride, operation.padding
    padded = functional.pad(x, (padding,) * 4)
    patches = padded.unfold(2, kernel, stride).unfold(3, kernel, stride)  # (batch, in, rows, columns, k, k)
    rows, columns = patches.shape[2:4]
    filters = weight.reshape(rows, columns, *weight.shape[1:])
    per_pixel = max(patches[:, :, 0, 0].numel(), filters[0, 0].numel())
    width = max(1, min(columns, AT_ONCE // per_pixel))
    height = max(1, AT_ONCE // per_pixel // width)
    result = x.new_empty(len(x), operation.out, rows, columns)
    for top in range(0, rows, height):
        for left in range(0, columns, width):
            r, s = slice(top, top + height), slice(left, left + width)
            result[:, :, r, s] = torch.einsum(
                "bcrsij,rsocij->bors", patches[:, :, r, s], filters[r, s].double()
            )
    return result if bias is None else result + bias.double()[:, None, None]


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
