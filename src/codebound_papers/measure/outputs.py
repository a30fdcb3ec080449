"""One pass over the whole sample: margins, certified errors, and the longest input and output.

Counts of margins are exact for every threshold; those of a large sample lie in a file (``data.large``).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor, nn

from codebound.certificate.evaluate import TOLERANCE
from codebound.run.errors import ModelError, UsageError
from codebound.run.job import Engine, over_shards
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.dataset import DeviceData
from codebound.sample.memmap import allocate, rows_in_blocks, sort_blocks
from codebound.sample.outputs import logit_chunks, margins


def ambiguous_errors(logits: Tensor, labels: Tensor, tolerance: float) -> Tensor:
    """The certified loss: True where the margin does not clear ``tolerance`` times the largest ``|logit|``.

    Errors, ties and non-finite rows are True for every tolerance; 0 gives the plain 0-1 loss. Two machines
    whose arithmetic differs by less than the gap between two tolerances cannot disagree.

    >>> ambiguous_errors(torch.tensor([[1.0, 0.99995], [1.0, 0.5]]), torch.tensor([0, 0]), 1e-4)
    tensor([ True, False])
    """
    if not 0.0 <= tolerance < 1.0:
        raise UsageError(f"tolerance must lie in [0, 1). Got {tolerance}.")
    margin = margins(logits, labels)
    largest = logits.detach().double().abs().amax(dim=1)
    return ~(margin > tolerance * largest)  # negated, so that NaN is an error


@dataclass(frozen=True, slots=True, eq=False)
class AbstractOrdered:
    """Numbers in ascending order; read-only."""

    values: NDArray[np.floating] = field(repr=False)  # the numbers

    def _sort(self, dtype: DTypeLike | None = None) -> None:
        """Puts the numbers in order, which may come in any; NaN last."""
        given = np.ravel(self.values)
        blocks = (given[rows] for rows in rows_in_blocks(given.size))
        ordered = sort_blocks(blocks, given.size, dtype or given.dtype)
        ordered.flags.writeable = False
        object.__setattr__(self, "values", ordered)

    @property
    def n(self) -> int:
        """Number of values."""
        return int(self.values.size)

    @property
    def minimum(self) -> float:
        """The smallest one."""
        return float(self.values[0])

    @property
    def maximum(self) -> float:
        """The largest one."""
        return float(self.values[-1])

    def quantile(self, level: float) -> float:
        """The smallest one that at least a fraction ``level`` does not exceed: no interpolation."""
        if not 0.0 <= level <= 1.0:
            raise UsageError(f"a quantile level lies in [0, 1]. Got {level}.")
        rank = math.ceil(round(level * self.n, 9))  # 0.1 of 30 is 3, although 0.1 * 30 > 3 in binary
        return float(self.values[max(0, rank - 1)])

    def quantiles(
        self, levels: Sequence[float] = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
    ) -> dict[float, float]:
        """Quantiles by level."""
        return {level: self.quantile(level) for level in levels}

    def histogram(
        self, bins: int = 50, *, is_log: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Counts and ``bins + 1`` edges over the finite ones, or over the finite ones of their logarithms."""
        counts, edges = np.histogram(np.zeros(0), bins=bins)
        ends = [(block[0], block[-1]) for block in self._finite_blocks(is_log=is_log) if block.size]
        for block in self._finite_blocks(is_log=is_log) if ends else ():
            found, edges = np.histogram(block, bins=bins, range=(ends[0][0], ends[-1][1]))
            counts = counts + found
        return counts.astype(np.int64), edges

    def _finite_blocks(self, *, is_log: bool) -> Iterator[NDArray[np.float64]]:
        """In ascending order still."""
        for rows in rows_in_blocks(self.n):
            with np.errstate(divide="ignore"):
                block = np.log(self.values[rows]) if is_log else self.values[rows]
            yield block[np.isfinite(block)].astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class MarginReport(AbstractOrdered):
    """The margins of a sample, ascending, ``(n,)`` float64; ``-inf`` where an output was not finite."""

    def __post_init__(self) -> None:
        shape = np.shape(self.values)
        self._sort(np.float64)
        if len(shape) != 1 or shape == (0,) or np.isnan(self.maximum):
            raise UsageError(f"margins must be a non-empty vector without NaN. Got shape {shape}.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MarginReport) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash(self.values.tobytes())

    @property
    def errors(self) -> int:
        """Examples with margin at most 0: wrong, tied or not finite."""
        return self.count(0.0)

    @property
    def ties(self) -> int:
        """Examples with margin exactly 0."""
        return self.errors - int(np.searchsorted(self.values, 0.0, side="left"))

    @property
    def non_finite(self) -> int:
        """Examples whose output was NaN or infinite."""
        return self.count(-np.inf)

    def count(self, gamma: float) -> int:
        """``#{i : margin_i <= gamma}``, exactly."""
        return int(np.searchsorted(self.values, gamma, side="right"))

    @implements("G-DefR", "G-E1", kind="measure")
    def loss(self, gamma: float = 0.0) -> float:
        """Empirical margin loss ``(1/n) #{i : margin_i <= gamma}``, the sample version of G-DefR.

        Differs.    Guha et al. print it with ``>=`` (G-E1): :func:`published_margin_loss`.
        """
        return self.count(gamma) / self.n

    def merge(self, *others: "MarginReport") -> "MarginReport":
        """The report of all examples together: the same, in whatever way a sample was cut into shards."""
        parts = (self, *others)
        values = allocate(sum(part.n for part in parts), np.float64)
        done = 0
        for part in parts:
            values[done : done + part.n] = part.values
            done += part.n
        return MarginReport(values)


@implements("G-DefRhat", kind="published-form")
def published_margin_loss(report: MarginReport, gamma: float) -> float:
    """``(1/n) #{i : margin_i >= gamma}``, as Guha et al. print it: the fraction that is *right* (G-E1)."""
    return 1.0 - int(np.searchsorted(report.values, gamma, side="left")) / report.n


@implements("I-01", kind="measure")
def margin_report(
    model: nn.Module,
    data: DeviceData,
    *,
    chunk_size: int = 1024,
    dtype: torch.dtype = torch.float64,
    progress: Progress = silent,
) -> MarginReport:
    """The margins of a copy of ``model``, in evaluation mode and that arithmetic, on a sample; float64."""
    values = allocate(data.n, np.float64)
    done = 0
    for logits, labels in logit_chunks(model, data, chunk_size=chunk_size, dtype=dtype, progress=progress):
        values[done : done + len(labels)] = margins(logits, labels).cpu().numpy()
        done += len(labels)
    return MarginReport(values)


@dataclass(frozen=True, slots=True)
class Outputs:
    """Result of a pass."""

    margins: MarginReport  # of all examples
    errors: int  # examples that are wrong, or too close to call in the arithmetic of the network
    output_norm: float  # the largest Euclidean norm of an output
    input_norm: float  # that of an input

    def merge(self, *others: "Outputs") -> "Outputs":
        """The outputs of all examples together: the same, in whatever way a sample was cut into shards."""
        parts = (self, *others)
        return Outputs(
            self.margins.merge(*(other.margins for other in others)),
            sum(part.errors for part in parts),
            max(part.output_norm for part in parts),
            max(part.input_norm for part in parts),
        )


def evaluate_sample(
    model: nn.Module,
    data: DeviceData,
    *,
    classes: int,
    chunk_size: int,
    dtype: torch.dtype | None = None,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Outputs:
    """Evaluates a copy of a network on a sample, in its own arithmetic unless told another one.

    >>> from codebound.sample.dataset import Sample
    >>> net = torch.nn.Linear(2, 2, bias=False)
    >>> with torch.no_grad(): _ = net.weight.copy_(torch.eye(2))
    >>> one = Sample("one", "train", np.array([[3, 4]], dtype="float32"), np.array([0]), 2)
    >>> found = evaluate_sample(net, one.on("cpu"), classes=2, chunk_size=1)
    >>> found.margins.minimum, found.errors, found.output_norm, found.input_norm
    (-1.0, 1, 5.0, 5.0)
    """
    if engine is not None:
        settings = {"classes": classes, "chunk_size": chunk_size, "dtype": dtype}
        arguments = {"model": model, "data": data, **settings}
        first, *others = over_shards(
            f"{__name__}:evaluate_sample", arguments, of="data", engine=engine, progress=progress
        )
        return cast("Outputs", first).merge(*others)
    values, done, errors, output_norm = allocate(data.n, np.float64), 0, 0, 0.0
    dtype = dtype or next(model.parameters()).dtype
    for logits, labels in logit_chunks(model, data, chunk_size=chunk_size, dtype=dtype, progress=progress):
        if logits.shape[1] != classes:
            raise ModelError(f"the network has {logits.shape[1]} outputs, the sample {classes} classes.")
        values[done : done + len(labels)] = margins(logits, labels).cpu().numpy()
        done += len(labels)
        errors += int(ambiguous_errors(logits, labels, TOLERANCE).sum())
        output_norm = max(output_norm, _longest(logits.double()))
    input_norm = max(_longest(x.flatten(1)) for x, _ in data.chunks(chunk_size, torch.float64))
    return Outputs(MarginReport(values), errors, output_norm, input_norm)


def _longest(rows: Tensor) -> float:
    return float(torch.linalg.vector_norm(rows, dim=1).max())
