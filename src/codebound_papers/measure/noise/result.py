"""Noise stability of a network: per example, per layer, and over the sample.

Every value of every example is kept, in its order, in a file if there are many: quantiles, histograms and the
choice of outliers are exact, and any split of a sample gives the result of one pass.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from codebound.run.errors import ModelError, UsageError
from codebound.run.references import implements
from codebound.sample.memmap import BLOCK, allocate, rows_in_blocks, sort_blocks
from codebound_papers.measure.noise.jacobian import probe_interval
from codebound_papers.measure.noise.quantities import smoothness_quantile
from codebound_papers.measure.outputs import AbstractOrdered

Quantity = Literal["cushion", "interlayer", "contraction", "spread", "smoothness", "noise"]
_LARGEST_COUNTS = ("contraction", "spread")  # the smallest of the others is the worst
_RECENT = 1 << 20  # values that wait on a device, of all columns


class Key(NamedTuple):
    """Name of one column of values."""

    quantity: str  # what is measured, such as cushion
    layer: str  # where
    target: str = ""  # the layer that a map leads to, for quantities of a pair of layers


class Examples:
    """Columns of per-example values that grow: the last ones on their device, those before in ``data.large``.

    >>> import torch
    >>> seen = Examples()
    >>> seen.update({Key("cushion", "fc"): torch.tensor([0.5, 0.25])})
    >>> seen.update({Key("cushion", "fc"): torch.tensor([1.0])})
    >>> seen.n, seen.compute()[Key("cushion", "fc")].tolist()
    (3, [0.5, 0.25, 1.0])
    """

    def __init__(self) -> None:
        # one tensor a column: many small ones that stay would keep the memory between them from being used
        self._recent: dict[Key, Tensor] = {}
        self._columns: dict[Key, NDArray[np.floating]] = {}
        self._waiting = self._stored = self._room = self._most = 0

    @property
    def n(self) -> int:
        """Number of examples."""
        return self._stored + self._waiting

    def update(self, values: Mapping[Key, Tensor]) -> None:
        """Appends the values of one batch: the same columns every time, one row per example."""
        rows = {len(column) for column in values.values()}
        if len(rows) != 1 or (self._recent and self._recent.keys() != values.keys()):
            raise UsageError(
                f"a batch has the same columns as the batches before it and one row per example in each. "
                f"Got {len(values)} columns of lengths {sorted(rows)} for {len(self._recent)} known columns."
            )
        count, done = rows.pop(), 0
        if not self._recent:
            self._most = max(1, min(_RECENT // len(values), BLOCK))
            self._recent = {
                key: each.new_empty((self._most, *each.shape[1:])) for key, each in values.items()
            }
        while done < count:
            stop = min(count, done + self._most - self._waiting)
            for key, column in values.items():
                self._recent[key][self._waiting : self._waiting + stop - done] = column[done:stop].detach()
            self._waiting, done = self._waiting + stop - done, stop
            if self._waiting == self._most:
                self._store()

    def _store(self) -> None:
        if self._room < self.n:
            self._grow(max(self.n, 2 * self._room))
        for key, column in self._recent.items():
            self._columns[key][self._stored : self.n] = column[: self._waiting].cpu().numpy()
        self._stored, self._waiting = self.n, 0

    def _grow(self, room: int) -> None:
        """Makes room for that many examples, all columns in one file: there may be hundreds of them."""
        kinds = {key: each[:0].cpu().numpy() for key, each in self._recent.items()}
        sizes = [room * each.itemsize * math.prod(each.shape[1:]) for each in kinds.values()]
        whole, start = allocate(sum(-(-size // 8) for size in sizes), np.float64), 0
        for (key, kind), size in zip(kinds.items(), sizes, strict=True):
            part = whole[start : start + -(-size // 8)].view(kind.dtype)
            larger = part[: size // kind.itemsize].reshape(room, *kind.shape[1:])
            if self._stored:
                larger[: self._stored] = self._columns[key][: self._stored]
            self._columns[key], start = larger, start + -(-size // 8)
        self._room = room

    def merge(self, other: "Examples") -> None:
        """Appends all examples of ``other``, which is left alone."""
        if other._recent and self._recent and other._recent.keys() != self._recent.keys():
            raise UsageError("measurements of different quantities do not merge.")
        if other.n:
            self.update({key: torch.from_numpy(column) for key, column in other.compute().items()})

    def compute(self) -> dict[Key, NDArray[np.floating]]:
        """All values so far, one array per column."""
        self._store()
        return {key: column[: self.n] for key, column in self._columns.items()}

    def __getstate__(self) -> dict[Key, NDArray[np.floating]]:
        return self.compute()

    def __setstate__(self, columns: dict[Key, NDArray[np.floating]]) -> None:
        self.__init__()  # type: ignore[misc]
        if columns:
            self.update({key: torch.from_numpy(column) for key, column in columns.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Distribution(AbstractOrdered):
    """The values of one quantity over examples, without NaN; infinite where nothing limits the quantity."""

    def __post_init__(self) -> None:
        self._sort()
        if self.n == 0 or np.isnan(self.maximum):
            raise UsageError(f"a distribution needs values and no NaN among them. Got {self.n} values.")


@dataclass(frozen=True, slots=True)
class Site:
    """Facts of a layer, or of a sum of branches, without any example."""

    name: str  # the layer
    width: int  # units, or channels of a convolution: h^i
    positions: int  # pixels n1 n2 of its output; 1 for a linear layer
    self_cushion: float  # mu_{i,i}, which is 1 / sqrt(h^i) without biases
    frobenius: float | None = None  # ||A||_F; None for a sum
    map_frobenius: float | None = None  # Frobenius norm of the map that the layer applies; None for a sum
    distance: float | None = None  # ||A - A_0||_F from the initial weights; None where none were given


@dataclass(frozen=True, slots=True)
class LayerStability:
    """Worst values over the examples that count; None where a quantity was not measured or does not exist."""

    layer: str  # the layer
    cushion: float | None  # smallest layer cushion mu_i
    distance_cushion: float | None  # the same relative to the distance from the initial weights (A-Imp-i)
    noise_sensitivity: float | None  # largest sensitivity of the layer's linear map (A-Prop3.1)
    interlayer: float | None  # smallest interlayer cushion to a later layer, not clipped
    minimal_interlayer: float  # mu_{i->}: the same clipped at mu_{i,i}
    contraction: float | None  # largest activation contraction c_i
    spread: float | None  # largest beta_i of the Jacobians to later layers
    smoothness: float | None  # rho_delta of the maps that start here


@implements("A-Imp-ii", kind="measure")
def best_examples(complexity: NDArray[np.floating], outliers: float) -> NDArray[np.bool_]:
    """Return a mask of the examples of the least complexity: ``floor(outliers n)`` are left out.

    One set for all quantities, as the theorem with outliers (A-CorC.1) needs it. Examples with NaN, where
    some quantity is not defined (A-E24), never count, whatever the fraction.

    >>> best_examples(np.array([1.0, 9.0, np.nan, 2.0]), outliers=0.5)
    array([ True, False, False,  True])
    """
    if not 0.0 <= outliers < 1.0:
        raise UsageError(f"the fraction of outliers lies in [0, 1). Got {outliers}.")
    n = len(complexity)
    left = n - math.floor(round(outliers * n, 9))
    limit = sort_blocks((complexity[rows] for rows in rows_in_blocks(n)), n, complexity.dtype)[left - 1]
    limit = math.inf if np.isnan(limit) else limit
    is_best = allocate(n, bool)
    equal = left - sum(int((complexity[rows] < limit).sum()) for rows in rows_in_blocks(n))
    for rows in rows_in_blocks(n):
        is_last = complexity[rows] == limit  # the first of them count
        is_last &= np.cumsum(is_last) <= equal
        equal -= int(is_last.sum())
        is_best[rows] = (complexity[rows] < limit) | is_last
    return is_best


@dataclass(frozen=True, eq=False)
class Stability:
    """The noise stability of a network on a sample."""

    sites: tuple[Site, ...]  # the layers, in forward order
    # values in the order of the sample, smoothness by noise draw; NaN where a quantity is not defined
    columns: Mapping[Key, NDArray[np.floating]] = field(repr=False)
    outliers: float = 0.0  # the fraction of the sample that may be left out (zeta)
    delta: float = 0.05  # fraction of noise draws that may violate smoothness
    probes: int | None = None  # probes per Jacobian norm; None where all norms are exact
    probed: frozenset[tuple[str, str]] = frozenset()  # layers and targets whose Jacobian norm is an estimate
    noisy: "Stability | None" = None  # smoothness, where it was measured on other examples than the rest

    def __post_init__(self) -> None:
        if not self.kept.any():
            layers = sorted({key.layer for key, values in self.columns.items() if np.isnan(values).all()})
            raise ModelError(
                "noise stability is not defined for any example; layers that are to blame for all of them: "
                f"{', '.join(layers) or 'none'}. Inputs or Jacobians are zero there, or outputs not finite. "
                "Check the weights, and that the data is scaled as in training."
            )

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(next(iter(self.columns.values())))

    @cached_property
    def kept(self) -> NDArray[np.bool_]:
        """Mask of the examples that count: the best ones by :attr:`complexity`."""
        return best_examples(self.complexity, self.outliers)

    @property
    def left_out(self) -> int:
        """Number of examples that do not count; this over ``n`` is the zeta to add to a bound."""
        return self.n - int(self.kept.sum())

    @property
    def undefined(self) -> int:
        """Number of examples for which some quantity is not defined, such as those that kill a layer."""
        return sum(int(np.isnan(self.complexity[rows]).sum()) for rows in rows_in_blocks(self.n))

    @cached_property
    def complexity(self) -> NDArray[np.floating]:
        """Per example, the logarithm of ``c^2 beta^2 sum_i 1 / (mu_i mu_{i->})^2`` of A-Thm4.1 and 5.1.

        Factors that were not measured are 1; NaN where anything measured is not defined.
        """
        found = allocate(self.n, np.float64)
        for rows in rows_in_blocks(self.n):
            found[rows] = self._complexity_of(rows)
        return found

    def _complexity_of(self, rows: slice) -> NDArray[np.floating]:
        """The same of some examples: what is computed on the way is larger than the values themselves."""
        columns = {key: values[rows] for key, values in self.columns.items()}
        total = np.zeros(len(next(iter(columns.values()))))
        with np.errstate(divide="ignore", invalid="ignore"):
            for quantity in _LARGEST_COUNTS:
                factors = [values for key, values in columns.items() if key.quantity == quantity]
                if factors:
                    total += 2.0 * np.log(np.max(factors, axis=0))
            terms = []
            for site in self.sites:
                cushion = columns.get(Key("cushion", site.name))
                clipped = np.minimum(_over_targets(columns, "interlayer", site.name), site.self_cushion)
                if cushion is not None:
                    terms.append(-2.0 * np.log(cushion) - 2.0 * np.log(clipped))
            if terms:
                total += np.logaddexp.reduce(terms, axis=0)
        bad = [np.isnan(values.reshape(len(total), -1)).any(axis=1) for values in columns.values()]
        return np.where(np.any(bad, axis=0), np.nan, total)

    def distribution(self, quantity: Quantity, layer: str, *, target: str = "") -> Distribution:
        """The values of a quantity at a layer, over the examples that count.

        The interlayer cushion is not clipped; of noise and smoothness all draws count together. The target is
        where a Jacobian leads; without it the worst over all targets counts.
        """
        columns = {
            key: values
            for key, values in self.columns.items()
            if (key.quantity, key.layer) == (quantity, layer) and target in ("", key.target)
        }
        if not columns:
            known = ", ".join(sorted({f"{key.quantity} at {key.layer}" for key in self.columns}))
            where = f"layer {layer!r} to {target!r}" if target else f"layer {layer!r}"
            raise UsageError(f"{quantity} at {where} was not measured or does not exist. Measured: {known}.")
        first, count = next(iter(columns.values())), int(self.kept.sum())

        def block(rows: slice) -> NDArray[np.floating]:
            part = {key: values[rows] for key, values in columns.items()}
            return _over_targets(part, quantity, layer)[self.kept[rows]]

        blocks = map(block, rows_in_blocks(self.n))
        return Distribution(sort_blocks(blocks, count * math.prod(first.shape[1:]), first.dtype))

    def has(self, quantity: Quantity, layer: str) -> bool:
        """Return True if a quantity was measured at a layer."""
        return any(key.quantity == quantity and key.layer == layer for key in self.columns)

    def _worst(self, quantity: Quantity, layer: str) -> float | None:
        if not self.has(quantity, layer):
            return None
        found = self.distribution(quantity, layer)
        return found.maximum if quantity in _LARGEST_COUNTS else found.minimum

    @cached_property
    def layers(self) -> tuple[LayerStability, ...]:
        """One row per layer."""
        return tuple(self._layer(site) for site in self.sites)

    def _layer(self, site: Site) -> LayerStability:
        cushion, interlayer = self._worst("cushion", site.name), self._worst("interlayer", site.name)
        distance_cushion = sensitivity = None
        if cushion is not None and site.frobenius is not None and site.map_frobenius is not None:
            scale = site.map_frobenius / site.frobenius
            sensitivity = (scale / cushion) ** 2 if cushion > 0.0 else math.inf
            if site.distance is not None:
                distance_cushion = cushion * site.frobenius / site.distance if site.distance else math.inf
        return LayerStability(
            layer=site.name,
            cushion=cushion,
            distance_cushion=distance_cushion,
            noise_sensitivity=sensitivity,
            interlayer=interlayer,
            minimal_interlayer=min(site.self_cushion, math.inf if interlayer is None else interlayer),
            contraction=self._worst("contraction", site.name),
            spread=self._worst("spread", site.name),
            smoothness=self._smoothness([site.name]),
        )

    def _smoothness(self, layers: list[str]) -> float | None:
        keys = (Key("smoothness", name) for name in layers)
        columns = [self.columns[key] for key in keys if key in self.columns]
        if not columns:
            return None
        smallest = [
            values[rows][self.kept[rows]].min(axis=0, initial=math.inf)
            for values in columns
            for rows in rows_in_blocks(self.n)
        ]
        return smoothness_quantile(np.min(smallest, axis=0), self.delta)

    @property
    def contraction(self) -> float | None:
        """``c``: the largest contraction of all layers."""
        return max((row.contraction for row in self.layers if row.contraction is not None), default=None)

    @property
    def spread(self) -> float | None:
        """``beta``: the largest spread of all Jacobians."""
        return max((row.spread for row in self.layers if row.spread is not None), default=None)

    @cached_property
    def smoothness(self) -> float | None:
        """``rho_delta`` over all pairs of layers: per draw the smallest value, over draws the quantile."""
        return self.noisy.smoothness if self.noisy else self._smoothness([site.name for site in self.sites])

    def interval(self, layer: str, *, confidence: float = 0.95) -> tuple[float, float]:
        """Return the ends of ``probe_interval`` as factors of an interlayer cushion; 1 where it is exact."""
        if self.probes is None or not any(pair[0] == layer for pair in self.probed):
            return 1.0, 1.0
        low, high = probe_interval(self.probes, confidence)
        return math.sqrt(low), math.sqrt(high)


def _over_targets(
    columns: Mapping[Key, NDArray[np.floating]], quantity: Quantity, layer: str
) -> NDArray[np.floating]:
    """The worst value over all targets, per example; infinite where there is none."""
    found = [values for key, values in columns.items() if (key.quantity, key.layer) == (quantity, layer)]
    if not found:
        return np.full(len(next(iter(columns.values()))), math.inf)
    worst: NDArray[np.floating] = (np.max if quantity in _LARGEST_COUNTS else np.min)(found, axis=0)
    return worst
