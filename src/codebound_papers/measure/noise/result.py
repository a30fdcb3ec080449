"""What was measured about the noise stability of a network: per example, per layer, and over the sample.

Every value of every example is kept, in its order: one number per example, layer and quantity. So quantiles,
histograms and the choice of outliers are exact, and any split of a sample gives the result of one pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from codebound.errors import ModelError, UsageError
from codebound.refs import implements
from codebound_papers.measure.noise.jacobian import probe_interval
from codebound_papers.measure.noise.quantities import smoothness_quantile
from codebound_papers.measure.outputs import AbstractOrdered

Quantity = Literal["cushion", "interlayer", "contraction", "spread", "smoothness", "noise"]
_LARGEST_COUNTS = ("contraction", "spread")  # the smallest of the others is the worst
_ROWS = 1 << 16


class Key(NamedTuple):
    """Name of one column of values."""

    quantity: str  # what is measured, such as cushion
    layer: str  # where
    target: str = ""  # the layer that a map leads to, for quantities of a pair of layers


class Examples:
    """Columns of per-example values that grow; on the device of the values until they are read.

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
class Distribution(AbstractOrdered):
    """The values of one quantity over examples, in ascending order.

    Attributes:
        values: Without NaN; infinite where nothing limits the quantity.
    """

    def __post_init__(self) -> None:
        ordered = np.sort(np.asarray(self.values), axis=None)
        if ordered.size == 0 or np.isnan(ordered[-1]):
            raise UsageError(f"a distribution needs values and no NaN among them. Got {ordered.size} values.")
        ordered.flags.writeable = False
        object.__setattr__(self, "values", ordered)


@dataclass(frozen=True, slots=True)
class Site:
    """What is known about a layer, or about a sum of branches, without any example."""

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
    """Which examples count when a fraction ``outliers`` may be left out: those of the least complexity.

    One set for all quantities, as the theorem with outliers (A-CorC.1) needs it. Examples with NaN, where
    some quantity is not defined (A-E24), never count, whatever the fraction.

    Args:
        complexity: Per example, how badly it stands; NaN where undefined.
        outliers: In [0, 1); ``floor(outliers n)`` examples are left out.

    >>> best_examples(np.array([1.0, 9.0, np.nan, 2.0]), outliers=0.5)
    array([ True, False, False,  True])
    """
    if not 0.0 <= outliers < 1.0:
        raise UsageError(f"the fraction of outliers lies in [0, 1). Got {outliers}.")
    order = np.argsort(complexity, kind="stable")  # NaN last
    n = len(order)
    kept = np.zeros(n, dtype=bool)
    kept[order[: n - math.floor(round(outliers * n, 9))]] = True
    kept[np.isnan(complexity)] = False
    return kept


@dataclass(frozen=True, eq=False)
class Stability:
    """The noise stability of a network on a sample."""

    sites: tuple[Site, ...]  # the layers, in forward order
    # per-example values by quantity, layer and target, in the order of the sample; smoothness has one column
    # per noise draw. NaN where a quantity is not defined
    columns: Mapping[Key, NDArray[np.floating]] = field(repr=False)
    outliers: float = 0.0  # the fraction of the sample that may be left out (zeta)
    delta: float = 0.05  # fraction of noise draws that may violate smoothness
    probes: int | None = None  # probes per Jacobian norm; None where all norms are exact
    # pairs of layer and target whose Jacobian norm is an estimate
    probed: frozenset[tuple[str, str]] = frozenset()
    noisy: Stability | None = None  # smoothness, where it was measured on other examples than the rest

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
        """Which examples count: the best ones in terms of :attr:`complexity`."""
        return best_examples(self.complexity, self.outliers)

    @property
    def left_out(self) -> int:
        """Number of examples that do not count; this over ``n`` is the zeta to add to a bound."""
        return self.n - int(self.kept.sum())

    @property
    def undefined(self) -> int:
        """Number of examples for which some quantity is not defined, such as those that kill a layer."""
        return int(np.isnan(self.complexity).sum())

    @cached_property
    def complexity(self) -> NDArray[np.floating]:
        """Per example, the logarithm of ``c^2 beta^2 sum_i 1 / (mu_i mu_{i->})^2`` of A-Thm4.1 and 5.1.

        Factors that were not measured are 1; NaN where anything measured is not defined.
        """
        parts = [slice(start, start + _ROWS) for start in range(0, self.n, _ROWS)]
        return np.concatenate([self._complexity_of(rows) for rows in parts])

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

        Args:
            quantity: ``cushion``, ``interlayer`` (not clipped), ``contraction``, ``spread``, or all noise
                draws together of ``smoothness`` and of ``noise``, the length of the noise relative to the
                activation.
            layer: Name of the layer.
            target: The layer that a Jacobian leads to; without it the worst over all targets counts.
        """
        if target:
            values = self.columns.get(Key(quantity, layer, target))
        elif self.has(quantity, layer):
            values = _over_targets(self.columns, quantity, layer)
        else:
            values = None
        if values is None:
            known = ", ".join(sorted({f"{key.quantity} at {key.layer}" for key in self.columns}))
            where = f"layer {layer!r} to {target!r}" if target else f"layer {layer!r}"
            raise UsageError(f"{quantity} at {where} was not measured or does not exist. Measured: {known}.")
        return Distribution(values[self.kept])

    def has(self, quantity: Quantity, layer: str) -> bool:
        """Whether a quantity was measured at a layer."""
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
        columns = [
            self.columns[key] for key in (Key("smoothness", name) for name in layers) if key in self.columns
        ]
        if not columns:
            return None
        return smoothness_quantile(
            np.min([values[self.kept].min(axis=0) for values in columns], axis=0), self.delta
        )

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

    def interval(self, layer: str, *, target: str = "", confidence: float = 0.95) -> tuple[float, float]:
        """What to multiply the interlayer cushion of an example with for the ends of its interval.

        (1, 1) where the Jacobian norm is exact. See ``jacobian.probe_interval``.

        Args:
            layer: Where the Jacobian starts.
            target: Where it leads; without it the answer holds for each target of the layer.
            confidence: In (0, 1).
        """
        is_estimate = any(pair[0] == layer and target in ("", pair[1]) for pair in self.probed)
        if self.probes is None or not is_estimate:
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
