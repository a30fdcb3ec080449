"""One pass over the whole sample: margins, certified errors, and the longest input and output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from codebound.certificate.evaluate import TOLERANCE
from codebound.engine.job import Job
from codebound.engine.shards import over_shards
from codebound.errors import ModelError
from codebound.progress import Progress, silent
from codebound.scores import MarginReport, ambiguous_errors, logit_chunks, margins

if TYPE_CHECKING:
    from torch import Tensor, nn

    from codebound.data.dataset import DeviceData
    from codebound.engine.job import Engine


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a pass found.

    Attributes:
        margins: Of all examples.
        errors: Examples that are wrong, or too close to call in the arithmetic of the network.
        output_norm: The largest Euclidean norm of an output.
        input_norm: That of an input.
    """

    margins: MarginReport
    errors: int
    output_norm: float
    input_norm: float

    def merge(self, *others: Outputs) -> Outputs:
        """The outputs of all examples together: the same, in whatever way a sample was cut into shards."""
        parts = (self, *others)
        return Outputs(
            self.margins.merge(*(other.margins for other in others)),
            sum(part.errors for part in parts),
            max(part.output_norm for part in parts),
            max(part.input_norm for part in parts),
        )


def outputs(
    model: nn.Module,
    data: DeviceData,
    *,
    classes: int,
    chunk_size: int,
    dtype: torch.dtype | None = None,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Outputs:
    """Evaluates a network on a sample.

    Args:
        model: Evaluated on a copy, in evaluation mode.
        data: The sample, on the device where the work is to be done.
        classes: Outputs that the network has to have.
        chunk_size: Examples at a time; bounds the memory.
        dtype: Arithmetic of the network; its own when None.
        engine: Where to work, one part of the sample on each of its workers; None: here.
        progress: Told the examples done.

    Example:
        >>> from codebound.data.dataset import Dataset
        >>> net = torch.nn.Linear(2, 2, bias=False)
        >>> with torch.no_grad(): _ = net.weight.copy_(torch.eye(2))
        >>> one = Dataset("one", "train", np.array([[3, 4]], dtype="float32"), np.array([0]), 2)
        >>> found = outputs(net, one.on("cpu"), classes=2, chunk_size=1)
        >>> found.margins.minimum, found.errors, found.output_norm, found.input_norm
        (-1.0, 1, 5.0, 5.0)
    """
    if engine is not None:
        settings = {"model": model, "classes": classes, "chunk_size": chunk_size, "dtype": dtype}
        first, *others = over_shards(
            data,
            lambda part: Job(function=f"{__name__}:outputs", arguments={**settings, "data": part}),
            engine=engine,
            chunk_size=chunk_size,
            progress=progress,
        )
        return cast("Outputs", first).merge(*others)
    values, errors, output_norm = [], 0, 0.0
    dtype = dtype or next(model.parameters()).dtype
    for logits, labels in logit_chunks(model, data, chunk_size=chunk_size, dtype=dtype, progress=progress):
        if logits.shape[1] != classes:
            raise ModelError(f"the network has {logits.shape[1]} outputs, the sample {classes} classes.")
        values.append(margins(logits, labels).cpu().numpy())
        errors += int(ambiguous_errors(logits, labels, TOLERANCE).sum())
        output_norm = max(output_norm, _longest(logits.double()))
    input_norm = max(_longest(x.flatten(1)) for x, _ in data.chunks(chunk_size, torch.float64))
    return Outputs(MarginReport(np.concatenate(values)), errors, output_norm, input_norm)


def _longest(rows: Tensor) -> float:
    return float(torch.linalg.vector_norm(rows, dim=1).max())
