"""Scores of networks on a sample, and how far the label leads."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from codebound.run.errors import ModelError, UsageError
from codebound.run.extensions import LazyModule
from codebound.run.progress import Progress, silent
from codebound.sample.losses import WRONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch import Tensor, nn

    from codebound.sample.dataset import DeviceData
else:
    torch = LazyModule("torch")


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """``mar(v, y) = v[y] - max_{j != y} v[j]`` of every row, in float64.

    A row with a NaN or an infinity has margin ``-inf``: it is an error at every threshold.

    Example:
        >>> margins(torch.tensor([[3.0, 1.0], [0.5, 0.5], [0.0, float("nan")]]), torch.tensor([0, 1, 0]))
        tensor([2., 0., -inf], dtype=torch.float64)
    """
    _check(logits, labels)
    return WRONG.differences(logits, labels)


def logit_chunks(
    model: nn.Module,
    data: DeviceData,
    *,
    chunk_size: int = 1024,
    dtype: torch.dtype | None = None,
    progress: Progress = silent,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits and labels of a copy of ``model``, chunk by chunk.

    The copy is put in ``dtype`` and on the device of the data; ``model`` itself is not touched.
    """
    if chunk_size < 1:
        raise UsageError(f"chunk_size must be at least 1. Got {chunk_size}.")
    dtype = dtype or torch.float64
    evaluated = copy.deepcopy(model).to(device=data.x.device, dtype=dtype).eval()
    done = 0
    for x, labels in data.chunks(chunk_size, dtype):
        try:
            with torch.no_grad():
                logits = evaluated(x)
        except RuntimeError as cause:
            raise ModelError(
                f"the network fails on inputs of shape {tuple(x.shape[1:])}, {len(x)} at a time: {cause}"
            ) from cause
        if not isinstance(logits, torch.Tensor):
            raise ModelError(
                f"the network returns a {type(logits).__name__}, and which part of it are the logits is "
                "unknown. Return them alone, or under the name logits."
            )
        if logits.dim() != 2 or logits.shape[1] < 2:
            require_logits(tuple(logits.shape), max(2, int(data.y.max()) + 1))
        _check(logits, labels)
        yield logits, labels
        done += len(labels)
        progress(done, data.n)


def error_count(model: nn.Module, data: DeviceData, *, dtype: torch.dtype) -> int:
    """Examples with a margin of at most 0: wrong, tied or not finite."""
    chunks = logit_chunks(model, data, dtype=dtype)
    return sum(int((margins(logits, labels) <= 0.0).sum()) for logits, labels in chunks)


def require_logits(shape: tuple[int, ...], classes: int) -> None:
    """Refuse outputs other than a row of scores per example."""
    if len(shape) == 2 and shape[1] == classes:
        return
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        raise ModelError(
            f"the network has one output for each example, the sample {classes} classes: a score for each of "
            "them is needed. For two classes return torch.cat((-z, z), 1) of a column z of logits, or "
            "torch.cat((1 - p, p), 1) of probabilities p of class 1."
        )
    if len(shape) == 2:
        raise ModelError(
            f"the network has {shape[1]} outputs, the sample {classes} classes. Where the last classes have "
            "no example, say how many there are: from_arrays(x, y, name=..., classes=...) of "
            "codebound.sample.arrays, or a factory that returns that, package.module:factory."
        )
    raise ModelError(
        f"the network makes {tuple(shape[1:])} of one example; one row of {classes} scores is needed. Where "
        "other axes have size 1, end with nn.Flatten(); else with a mean over them, or a layer."
    )


def _check(logits: Tensor, labels: Tensor) -> None:
    classes = logits.shape[1] if logits.dim() == 2 else 0
    if classes < 2 or labels.shape != logits.shape[:1] or labels.is_floating_point():
        raise UsageError(
            f"logits have shape (n, classes), classes >= 2, and labels are n integers. Got "
            f"{tuple(logits.shape)}, and labels of shape {tuple(labels.shape)}, dtype {labels.dtype}."
        )
    if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= classes):
        raise UsageError(
            f"labels must lie in [0, {classes - 1}], as the network has {classes} outputs. Got labels from "
            f"{int(labels.min())} to {int(labels.max())}."
        )
