r"""Mixtures of linear regressions by expectation-maximisation, and stable rank against tail exponent (S-5.3).

Each point comes from one of several lines, :math:`y = a_k x + b_k + N(0, s_k^2)`, the k-th with weight
:math:`\pi_k`. Where the algorithm ends depends on the start, hence the restarts.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_networks.train.rng import numpy_stream
from codebound_networks.views.layers import AbstractLayerView
from codebound_papers.measure.norms import TailValues, released_stable_rank, stable_rank, tail_values
from codebound_papers.measure.tails import estimate_tail

Values = NDArray[np.float64]

_LEAST_SPREAD = 1e-3  # smallest deviation of a line, in deviations of y: the likelihood has no maximum below
_RIDGE, _FIRST_PRECISION, _RELEASED_STEPS, _RELEASED_CHANGE = 0.01, 100.0, 100, 0.01


@dataclass(frozen=True, slots=True)
class RegressionMixture:
    """Lines through a cloud of points, by ascending slope."""

    slopes: tuple[float, ...]  # one per component
    intercepts: tuple[float, ...]  # one per component
    deviations: tuple[float, ...]  # standard deviation of the noise about each line
    weights: tuple[float, ...]  # share of each component; they sum to 1
    log_likelihood: float  # of the points under this mixture, in nats
    history: tuple[float, ...] = field(repr=False)  # what the algorithm maximises, after each step


@implements("S-EM", kind="algorithm")
def fit_regressions(
    x: ArrayLike, y: ArrayLike, *, components: int = 2, restarts: int = 20, steps: int = 500, seed: int = 0
) -> RegressionMixture:
    """The most likely mixture of lines found from several starts, each through random pairs of points.

    Every line needs at least two points. A climb stops after so many steps, or when nothing changes.

    >>> x = np.array([0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0])
    >>> mixture = fit_regressions(x, np.concatenate([x[:4], 9.0 - x[4:]]))
    >>> [round(slope, 6) + 0.0 for slope in mixture.slopes]
    [-1.0, 1.0]
    """
    design, heights = _points(x, y, components)
    if restarts < 1 or steps < 1:
        raise UsageError(f"restarts and steps must be at least 1. Got {restarts} and {steps}.")
    rng = numpy_stream(seed, "mixture of regressions")
    ends = [_climb(design, heights, components, steps, rng) for _ in range(restarts)]
    return max(ends, key=lambda end: end.log_likelihood)


@implements("S-E24", kind="published-form")
def released_regressions(x: ArrayLike, y: ArrayLike, *, seed: int) -> RegressionMixture:
    """The variant of Shin's released code: two lines, one shared precision, ridge, one start.

    Weights of the lines stay equal, the lines start from uniform numbers in [0, 1]; eta, the precision,
    becomes ``2 n / sum r err^2``, twice its maximum-likelihood value.
    """
    design, heights = _points(x, y, 2)
    lines = numpy_stream(seed, "released mixture").random((2, 2))
    precision, history = _FIRST_PRECISION, [-math.inf]
    while len(history) <= _RELEASED_STEPS:
        errors = heights[:, None] - design @ lines.T
        shares, _ = _shares(-0.5 * precision * errors**2)
        for k in range(2):
            weighted = design * shares[:, k, None]
            ridge = _RIDGE / precision * np.eye(2)
            lines[k] = np.linalg.solve(weighted.T @ design + ridge, weighted.T @ heights)
        errors = heights[:, None] - design @ lines.T
        left = max(float((shares * errors**2).sum()), np.finfo(np.float64).tiny)
        precision = 2.0 * heights.size / left
        _, logs = _shares(math.log(precision) - 0.5 * precision * errors**2)
        history.append(float(logs.sum()) - 0.5 * _RIDGE * float((lines**2).sum()))
        if abs(history[-1] - history[-2]) < _RELEASED_CHANGE:
            break
    deviations = np.full(2, 1.0 / math.sqrt(precision))
    return _result(design, heights, lines, deviations, np.full(2, 0.5), history[1:])


@implements("S-5.3", kind="measure")
def rank_against_alpha(
    layers: Iterable[AbstractLayerView], *, of: TailValues = "absolute"
) -> tuple[dict[str, object], ...]:
    """Stable rank, as defined and as released, beside both exponents of the fitted tail, one row per layer.

    The exponents are estimates, whether or not the tail is a power law.
    """
    rows: list[dict[str, object]] = []
    for view in layers:
        values = tail_values(view, of=of)
        try:
            tail = estimate_tail(values)
        except UsageError as cause:
            raise UsageError(f"layer {view.name}: {cause}") from None
        fitted = {name: getattr(tail, name) for name in ("density_exponent", "tail_exponent", "tail_points")}
        ranks = {each.__name__: each(view.matrix) for each in (stable_rank, released_stable_rank)}
        rows.append({"layer": view.name, **fitted, **ranks})
    return tuple(rows)


def _climb(
    design: Values, heights: Values, components: int, steps: int, rng: np.random.Generator
) -> RegressionMixture:
    spread = float(heights.std()) or float(np.abs(heights).max()) or 1.0
    floor = _LEAST_SPREAD * spread
    lines = np.empty((components, 2))
    for k in range(components):
        pair = rng.choice(heights.size, size=2, replace=False)
        lines[k] = np.linalg.lstsq(design[pair], heights[pair], rcond=None)[0]
    deviations, weights = np.full(components, spread), np.full(components, 1.0 / components)
    history: list[float] = []
    for _ in range(steps):
        shares, logs = _shares(_log_terms(design, heights, lines, deviations, weights))
        history.append(float(logs.sum()))
        if len(history) > 1 and history[-1] - history[-2] <= 1e-10 * abs(history[-1]):
            break
        roots = np.sqrt(shares)
        for k in range(components):
            root = roots[:, k]
            lines[k] = np.linalg.lstsq(design * root[:, None], heights * root, rcond=None)[0]
        squares = (shares * (heights[:, None] - design @ lines.T) ** 2).sum(axis=0)
        mass = np.maximum(shares.sum(axis=0), np.finfo(np.float64).tiny)
        deviations = np.maximum(np.sqrt(squares / mass), floor)
        weights = mass / mass.sum()
    return _result(design, heights, lines, deviations, weights, history)


def _log_terms(design: Values, heights: Values, lines: Values, deviations: Values, weights: Values) -> Values:
    """``ln(pi_k N(y_i; a_k x_i + b_k, s_k^2))``, one row per point."""
    errors = (heights[:, None] - design @ lines.T) / deviations
    constants = np.log(weights) - np.log(deviations) - 0.5 * math.log(2.0 * math.pi)
    return np.asarray(constants - 0.5 * errors**2)


def _shares(log_terms: Values) -> tuple[Values, Values]:
    """Rows normalised to sum 1, and the logarithm of what each row summed to."""
    peaks = log_terms.max(axis=1, keepdims=True)
    terms = np.exp(log_terms - peaks)
    totals = terms.sum(axis=1, keepdims=True)
    return terms / totals, (np.log(totals) + peaks)[:, 0]


def _result(
    design: Values, heights: Values, lines: Values, deviations: Values, weights: Values, history: list[float]
) -> RegressionMixture:
    order = np.argsort(lines[:, 0])
    _, logs = _shares(_log_terms(design, heights, lines, deviations, weights))
    return RegressionMixture(
        slopes=tuple(lines[order, 0].tolist()),
        intercepts=tuple(lines[order, 1].tolist()),
        deviations=tuple(deviations[order].tolist()),
        weights=tuple(weights[order].tolist()),
        log_likelihood=float(logs.sum()),
        history=tuple(history),
    )


def _points(x: ArrayLike, y: ArrayLike, components: int) -> tuple[Values, Values]:
    """The regressors (x, 1) and the heights."""
    across, heights = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if across.ndim != 1 or across.shape != heights.shape:
        raise UsageError(f"x and y must be vectors of one length. Got {across.shape} and {heights.shape}.")
    if not (np.isfinite(across).all() and np.isfinite(heights).all()):
        raise UsageError("x and y must be finite. Found NaN or infinity.")
    if components < 1 or across.size < 2 * components:
        raise UsageError(
            f"{components} lines need at least {max(2, 2 * components)} points. Got {across.size}."
        )
    return np.stack([across, np.ones_like(across)], axis=1), heights
