"""Single measures as rows and curves of plain numbers, ready for JSON; None is infinite or does not exist."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

from codebound.files import finite
from codebound_papers.measure.noise.streaming import Distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.scores import MarginReport
    from codebound_papers.measure.noise.result import Quantity, Site, Stability
    from codebound_papers.measure.spectral import SpectralNorm
    from codebound_papers.shin21.tails import PowerLawFit

Row = dict[str, object]

NAMES: dict[Quantity, str] = {
    "cushion": "layer_cushion",
    "interlayer": "interlayer_cushion",
    "contraction": "activation_contraction",
    "spread": "jacobian_spread",
    "smoothness": "interlayer_smoothness",
}
"""Quantities that have one value per example, and their names in rows."""

_COLUMNS = (
    "shape",
    "frobenius_norm",
    "spectral_norm",
    "matrix_spectral_norm",
    "stable_rank",
    "alpha",
    *NAMES.values(),
    "minimal_interlayer_cushion",
    "noise_sensitivity",
    "distance_from_initial",
    "distance_cushion",
)
_LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_CURVE_POINTS = 200


class _Sample(Protocol):
    """What margins and per-example values of a layer have in common."""

    def quantile(self, level: float) -> float: ...

    def histogram(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...


def empty_row(name: str, kind: str) -> Row:
    """A row with all columns, so that every row has the same."""
    return {"name": name, "kind": kind, **dict.fromkeys(_COLUMNS)}


def norm_row(norm: SpectralNorm) -> Row:
    """A spectral norm with its upper end."""
    return {"value": norm.value, "upper": norm.upper, "exact": norm.exact, "method": norm.method}


def tail_row(fit: PowerLawFit, *, of: str, values: int) -> Row:
    """The verdict on a tail, and the closest power law whatever the verdict is."""
    estimate = fit.estimate
    return {
        "of": of,
        "status": fit.status,
        "reason": fit.reason,
        "density_exponent": None if estimate is None else finite(estimate.density_exponent),
        "tail_exponent": None if estimate is None else finite(estimate.tail_exponent),
        "interval": None if fit.interval is None else [finite(end) for end in fit.interval],
        "p_value": fit.p_value,
        "xmin": None if estimate is None else estimate.xmin,
        "tail_points": 0 if estimate is None else estimate.tail_points,
        "values": values,
    }


def margin_row(report: MarginReport) -> Row:
    """The margins of a sample."""
    return {
        "n": report.n,
        "errors": report.errors,
        "ties": report.ties,
        "non_finite": report.non_finite,
        **_spread_of(report),
    }


def stability_row(result: Stability, site: Site) -> Row:
    """Noise stability at one layer."""
    (worst,) = (row for row in result.layers if row.layer == site.name)
    row: Row = {
        name: _spread_of(result.distribution(quantity, site.name))
        for quantity, name in NAMES.items()
        if result.has(quantity, site.name)
    }
    if result.has("smoothness", site.name):
        smoothness = result.distribution("smoothness", site.name)
        row["interlayer_smoothness"] = {"rho": finite(worst.smoothness), **_spread_of(smoothness)}
    if result.has("interlayer", site.name):
        found = result.distribution("interlayer", site.name)
        low, high = result.interval(site.name)
        row["interlayer_cushion"] = {
            **_spread_of(found),
            "to": _by_target(result, site.name),
            "probe_interval": None if low == high else [low, high],
        }
        row["minimal_interlayer_cushion"] = finite(worst.minimal_interlayer)
    return row | {
        "noise_sensitivity": finite(worst.noise_sensitivity),
        "distance_from_initial": finite(site.distance),
        "distance_cushion": finite(worst.distance_cushion),
    }


def _by_target(result: Stability, layer: str) -> Row:
    """The smallest interlayer cushion to each later layer."""
    targets = [key.target for key in result.columns if (key.quantity, key.layer) == ("interlayer", layer)]
    return {
        target: finite(result.distribution("interlayer", layer, target=target).minimum) for target in targets
    }


def network_row(result: Stability) -> Row:
    """Noise stability of the network as a whole."""
    return {
        "n": result.n,
        "left_out": result.left_out,
        "undefined": result.undefined,
        "activation_contraction": finite(result.contraction),
        "jacobian_spread": finite(result.spread),
        "interlayer_smoothness": finite(result.smoothness),
        "probes": result.probes,
    }


def histograms(result: Stability, layer: str) -> Row:
    """Histograms of everything that has one value per example and is finite for some of them."""
    found = {
        name: result.distribution(quantity, layer)
        for quantity, name in NAMES.items()
        if result.has(quantity, layer)
    }
    return {
        name: _log_histogram(values) if name == "interlayer_smoothness" else histogram(values)
        for name, values in found.items()
        if np.isfinite(values.minimum)
    }


def histogram(sample: _Sample) -> Row:
    """Counts and edges over the finite values."""
    counts, edges = sample.histogram()
    return {"counts": counts.tolist(), "edges": edges.tolist(), "scale": "linear"}


def _log_histogram(sample: Distribution) -> Row:
    """The same with edges evenly on a logarithmic axis, for values that spread over decades."""
    counts, edges = Distribution(np.log(sample.values)).histogram()
    return {"counts": counts.tolist(), "edges": np.exp(edges).tolist(), "scale": "log"}


def survival(values: NDArray[np.float64], *, of: str, fit: PowerLawFit | None = None) -> Row:
    """The share of values that are at least x, at up to 200 of them, and the fitted tail.

    The tail is given by its two ends, between which it is straight on logarithmic axes.

    Example:
        >>> survival(np.array([1.0, 4.0]), of="eigenvalues")
        {'of': 'eigenvalues', 'x': [4.0, 1.0], 'share': [0.5, 1.0], 'tail': None}
    """
    descending = np.sort(values)[::-1]
    n = descending.size
    ranks = np.unique(np.geomspace(1, n, _CURVE_POINTS).round().astype(int)) if n else np.zeros(0, dtype=int)
    tail: Row | None = None
    if fit is not None and (estimate := fit.estimate) is not None:
        share = estimate.tail_points / n
        fall = -estimate.tail_exponent * math.log(descending[0] / estimate.xmin)
        tail = {"x": [estimate.xmin, float(descending[0])], "share": [share, share * math.exp(fall)]}
    return {
        "of": of,
        "x": descending[ranks - 1].tolist(),
        "share": (ranks / max(1, n)).tolist(),
        "tail": tail,
    }


def _spread_of(sample: _Sample) -> Row:
    return {
        "min": finite(sample.quantile(0.0)),
        "max": finite(sample.quantile(1.0)),
        "quantiles": {str(level): finite(sample.quantile(level)) for level in _LEVELS},
    }
