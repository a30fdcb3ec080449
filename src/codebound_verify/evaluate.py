"""Evaluating networks in float64 and counting (docs/format.md, sections 5.1, 6 and 7)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .refusal import Refused

if TYPE_CHECKING:
    from .chain import Chain, Operation
    from .header import Header
    from .sample import Inputs, Labels
    from .tensors import Floats

TOLERANCE = 0.5e-4  # half of the writer's: rounding cannot make the verifier count more
NUMBERS = 1 << 24  # numbers in the largest intermediate result of a batch: 128 MiB
BATCH = 4096  # the largest batch
AT_ONCE = 1 << 22  # numbers in the patches or filters of a local convolution that are multiplied at once

Forward: TypeAlias = Callable[[Tensor], Tensor]
Progress: TypeAlias = Callable[[int, int], None]


class Evaluator:
    """A network with its scaling: batches of stored inputs in, float64 logits out."""

    def __init__(
        self, forward: Forward, *, header: Header, widest: int, progress: Progress | None = None
    ) -> None:
        self._forward = forward
        self._scaling = header.scaling
        self._classes = header.classes
        self._batch = max(1, min(BATCH, NUMBERS // widest))
        self._progress = progress or (lambda done, total: None)

    def logits(self, x: Inputs) -> Iterator[tuple[slice, Tensor]]:
        """The logits of consecutive batches of x."""
        for start in range(0, len(x), self._batch):
            part = slice(start, start + self._batch)
            with torch.inference_mode():
                scaled = self._scaled(x[part])
                logits = self._forward(scaled)
            if logits.shape != (len(scaled), self._classes):
                raise Refused(
                    f"Network: it maps {tuple(scaled.shape)} to {tuple(logits.shape)}; "
                    f"({len(scaled)}, {self._classes}) is needed."
                )
            yield part, logits
            self._progress(min(part.stop, len(x)), len(x))

    def _scaled(self, x: Inputs) -> Tensor:
        """(x / divisor - mean) / std in float64 (section 6)."""
        ones = (1,) * (x.ndim - 2)
        mean = np.array(self._scaling.mean).reshape(-1, *ones)
        std = np.array(self._scaling.std).reshape(-1, *ones)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite will be counted as an error
            return torch.from_numpy((x.astype(np.float64) / self._scaling.divisor - mean) / std)


def chain_evaluator(
    chain: Chain, tensors: Mapping[str, Floats], *, header: Header, progress: Progress | None = None
) -> Evaluator:
    """An evaluator of a chain with these weights."""
    weights: list[dict[str, Tensor]] = [{} for _ in chain.operations]
    for name, values in tensors.items():
        position, own = name.split(".", 1)
        weights[int(position)][own] = torch.from_numpy(values)
    return Evaluator(
        lambda x: forward(chain, weights, x), header=header, widest=chain.widest(), progress=progress
    )


def forward(chain: Chain, weights: Sequence[Mapping[str, Tensor]], x: Tensor) -> Tensor:
    """The logits of a batch (5.1), from the tensors of each operation; only those in use become float64."""
    for operation, own in zip(chain.operations[:-1], weights[:-1], strict=True):
        x = _apply(operation, own, x)
        if operation.kind in ("linear", "conv", "local conv"):
            x = torch.relu(x)
    return _apply(chain.operations[-1], weights[-1], x)


def _apply(operation: Operation, own: Mapping[str, Tensor], x: Tensor) -> Tensor:
    if operation.kind == "local conv":
        return _local_conv(operation, own["weight"], own.get("bias"), x)
    kernel, own = operation.kernel, {name: tensor.double() for name, tensor in own.items()}
    if operation.kind == "linear":
        return functional.linear(x.flatten(1), own["weight"], own.get("bias"))
    if operation.kind == "conv":
        return functional.conv2d(
            x, own["weight"], own.get("bias"), stride=operation.stride, padding=operation.padding
        )
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
    inner = torch.relu(functional.conv2d(x, own["a.weight"], own.get("a.bias"), stride=stride, padding=1))
    return torch.relu(functional.conv2d(inner, own["b.weight"], own.get("b.bias"), padding=1) + shortcut)


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
