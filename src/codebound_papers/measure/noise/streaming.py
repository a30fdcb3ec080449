"""Values that arrive batch by batch and shard by shard, and what is said about them in the end.

Every value of every example is kept, in its order: one number per example, layer and quantity. So quantiles,
histograms and the choice of outliers are exact, and any split of a sample gives the result of one pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from codebound.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor


class Key(NamedTuple):
    """Name of one column of values.

    Attributes:
        quantity: What is measured, such as ``cushion``.
        layer: Where.
        target: The layer that a map leads to, for quantities of a pair of layers.
    """

    quantity: str
    layer: str
    target: str = ""


class Examples:
    """Columns of per-example values that grow; on the device of the values until they are read.

    Example:
        >>> import torch
        >>> seen = Examples()
        >>> seen.update({Key("cushion", "fc"): torch.tensor([0.5, 0.25])})
        >>> seen.update({Key("cushion", "fc"): torch.tensor([1.0])})
        >>> seen.n, seen.compute()[Key("cushion", "fc")].tolist()
        (3, [0.5, 0.25, 1.0])
    """

    def __init__(self) -> None:
        # with room to grow: many small tensors that stay would keep the memory between them from being used
        self._columns: dict[Key, Tensor] = {}
        self.n = 0

    def update(self, values: Mapping[Key, Tensor]) -> None:
        """Appends the values of one batch: the same columns every time, one row per example."""
        rows = {len(column) for column in values.values()}
        if len(rows) != 1 or (self._columns and self._columns.keys() != values.keys()):
            raise UsageError(
                f"a batch has the same columns as the batches before it and one row per example in each. "
                f"Got {len(values)} columns of lengths {sorted(rows)} for {len(self._columns)} known columns."
            )
        stop = self.n + rows.pop()
        for key, column in values.items():
            kept = self._columns.get(key, column[:0])
            if len(kept) < stop:
                larger = column.new_empty((max(stop, 2 * len(kept)), *column.shape[1:]))
                larger[: self.n] = kept[: self.n]
                self._columns[key] = kept = larger
            kept[self.n : stop] = column.detach()
        self.n = stop

    def merge(self, other: Examples) -> None:
        """Appends all examples of ``other``, which is left alone."""
        if other._columns and self._columns and other._columns.keys() != self._columns.keys():
            raise UsageError("measurements of different quantities do not merge.")
        if other.n:
            self.update({key: column[: other.n] for key, column in other._columns.items()})

    def compute(self) -> dict[Key, NDArray[np.floating]]:
        """All values so far, one array per column."""
        return {key: column[: self.n].clone().cpu().numpy() for key, column in self._columns.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """The values of one quantity over examples, in ascending order.

    Attributes:
        values: Ascending, read-only, without NaN; infinite where nothing limits the quantity.
    """

    values: NDArray[np.floating] = field(repr=False)

    def __post_init__(self) -> None:
        ordered = np.sort(np.asarray(self.values), axis=None)
        if ordered.size == 0 or np.isnan(ordered[-1]):
            raise UsageError(f"a distribution needs values and no NaN among them. Got {ordered.size} values.")
        ordered.flags.writeable = False
        object.__setattr__(self, "values", ordered)

    @property
    def n(self) -> int:
        """Number of values."""
        return int(self.values.size)

    @property
    def minimum(self) -> float:
        """The smallest value."""
        return float(self.values[0])

    @property
    def maximum(self) -> float:
        """The largest value."""
        return float(self.values[-1])

    def quantile(self, level: float) -> float:
        """The smallest value that at least a fraction ``level`` does not exceed; never an interpolation."""
        if not 0.0 <= level <= 1.0:
            raise UsageError(f"a quantile level lies in [0, 1]. Got {level}.")
        rank = math.ceil(round(level * self.n, 9))  # 0.1 of 30 is 3, although 0.1 * 30 > 3 in binary
        return float(self.values[max(0, rank - 1)])

    def quantiles(
        self, levels: Sequence[float] = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
    ) -> dict[float, float]:
        """Quantiles by level."""
        return {level: self.quantile(level) for level in levels}

    def histogram(self, bins: int = 50) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Counts and ``bins + 1`` edges over the finite values."""
        counts, edges = np.histogram(self.values[np.isfinite(self.values)].astype(np.float64), bins=bins)
        return counts.astype(np.int64), edges
