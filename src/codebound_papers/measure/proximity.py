"""Closeness of a compressed network g to f on a sample. Papers call g "compressible" by this test."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from codebound.bounds.original import Norm, margin_for_deviation
from codebound.run.errors import UsageError
from codebound.run.job import Engine, over_shards
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.dataset import DeviceData
from codebound.sample.outputs import logit_chunks, margins


@dataclass(frozen=True, slots=True, eq=False)
class Closeness:
    """Deviations of g from f, and margins of f, example by example in the order of the sample."""

    # largest absolute difference of a score; infinite where an output is not finite
    sup: NDArray[np.float64] = field(repr=False)
    l2: NDArray[np.float64] = field(repr=False)  # Euclidean length of the difference
    margins: NDArray[np.float64] = field(repr=False)  # margins of f

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.sup)

    def merge(self, *others: "Closeness") -> "Closeness":
        """That of the parts of a sample, one after the other."""
        columns = zip(*((part.sup, part.l2, part.margins) for part in (self, *others)), strict=True)
        return Closeness(*(np.concatenate(column) for column in columns))

    @property
    def largest(self) -> float | None:
        """The largest change of a score; None where an output is not finite."""
        worst = float(self.sup.max())
        return worst if math.isfinite(worst) else None

    @implements("G-Def3.1", "A-Def1", "A-Def2", kind="measure")
    def is_compressible(self, gamma: float) -> bool:
        """Return True if no score moves by more than ``gamma``: (gamma, S)-compressible in the papers.

        It does not keep a margin of gamma positive, as the papers conclude; 2 gamma is needed (G-E2, A-E1).
        """
        return self.share_beyond(gamma) == 0.0

    def share_beyond(self, gamma: float) -> float:
        """Share of the examples with a score that moves by more than ``gamma``: zeta as published."""
        return float(np.mean(self.sup > gamma))

    def theta(self, *, norm: Norm, zeta: float = 0.0) -> float:
        """The margin of f that absorbs the deviation, but for a share ``zeta`` of the examples.

        Twice the sup norm or sqrt(2) times the l2 norm (C-Lem-margin); infinite where an output is.
        """
        if not 0.0 <= zeta < 1.0:
            raise UsageError(f"the share of outliers lies in [0, 1). Got {zeta}.")
        ordered = np.sort(self.sup if norm == "sup" else self.l2)
        worst = float(ordered[self.n - 1 - math.floor(round(zeta * self.n, 9))])
        return margin_for_deviation(worst, norm=norm) if math.isfinite(worst) else math.inf

    @property
    def absorbed(self) -> NDArray[np.float64]:
        """Per example, the margin of f that is enough for g to be right: the smaller of both norms."""
        factors = [margin_for_deviation(1.0, norm=norm) for norm in ("sup", "l2")]
        return np.minimum(factors[0] * self.sup, factors[1] * self.l2) * (1.0 + 1e-9)  # outward

    def best_theta(self) -> tuple[float, int, int]:
        """The theta at which the fewest examples count, for a margin of at most theta or as outliers.

        Theta does not absorb the deviation of an outlier. Choosing it after seeing the sample costs nothing
        (C-7). Returned are theta, the number of examples that count, and how many of them are outliers.
        """
        needed = self.absorbed
        is_safe = needed < self.margins  # where some theta lies between the two
        starts, ends = np.sort(needed[is_safe]), np.sort(self.margins[is_safe])
        if not len(starts):
            return 0.0, self.n, int(np.sum(needed > 0.0))
        inside = np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, side="right")
        theta = float(starts[int(np.argmax(inside))])
        counted = int(np.sum((self.margins <= theta) | (needed > theta)))
        return theta, counted, int(np.sum(needed > theta))


@implements("I-02", kind="measure")
def closeness(
    f: nn.Module,
    g: nn.Module,
    sample: DeviceData,
    *,
    chunk_size: int = 512,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Closeness:
    """Compares the outputs of a network f and a compressed one g, copies of them, on a sample, in float64.

    >>> from codebound.sample.dataset import Sample
    >>> f = torch.nn.Linear(1, 2, bias=False)
    >>> g = torch.nn.Linear(1, 2, bias=False)
    >>> with torch.no_grad():
    ...     _ = f.weight.copy_(torch.tensor([[2.0], [0.0]])), g.weight.copy_(torch.tensor([[1.5], [0.0]]))
    >>> one = Sample("one", "train", np.ones((1, 1), dtype="float32"), np.array([0]), 2)
    >>> found = closeness(f, g, one.on("cpu"))
    >>> found.theta(norm="sup"), round(found.theta(norm="l2"), 4), found.is_compressible(0.5)
    (1.0, 0.7071, True)
    """
    (found,) = closeness_of_each(f, [g], sample, chunk_size=chunk_size, engine=engine, progress=progress)
    return found


def closeness_of_each(
    f: nn.Module,
    networks: Sequence[nn.Module],
    sample: DeviceData,
    *,
    chunk_size: int = 512,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> tuple[Closeness, ...]:
    """The same of several compressed networks; f is evaluated once for all of them."""
    if engine is not None:
        arguments = {"f": f, "networks": networks, "sample": sample, "chunk_size": chunk_size}
        shards = over_shards(
            f"{__name__}:closeness_of_each", arguments, of="sample", engine=engine, progress=progress
        )
        columns = zip(*cast("Sequence[tuple[Closeness, ...]]", shards), strict=True)
        return tuple(first.merge(*others) for first, *others in columns)
    found: list[list[tuple[Tensor, Tensor, Tensor]]] = [[] for _ in networks]
    ours = logit_chunks(f, sample, chunk_size=chunk_size, progress=progress)
    theirs = (logit_chunks(g, sample, chunk_size=chunk_size) for g in networks)
    for (original, labels), *others in zip(ours, *theirs, strict=True):
        margin = margins(original, labels)
        for parts, (compressed, _) in zip(found, others, strict=True):
            if original.shape != compressed.shape:
                raise UsageError(
                    f"f has {original.shape[1]} outputs and g has {compressed.shape[1]}: they cannot be "
                    "compared."
                )
            change = (original - compressed).abs()
            change = torch.where(change.isfinite(), change, torch.inf)
            parts.append((change.amax(dim=1), torch.linalg.vector_norm(change, dim=1), margin))
    each = ((torch.cat(column).cpu().numpy() for column in zip(*parts, strict=True)) for parts in found)
    return tuple(Closeness(*columns) for columns in each)
