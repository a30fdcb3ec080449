r"""Heavy-tailed laws: powers and Lévy-stable laws, with sampling, density, distribution and tail.

Stable laws have no density in closed form but for the Gaussian (alpha = 2) and the Cauchy law (alpha = 1,
beta = 0), which are exact here. The others are integrals of the characteristic function,

.. math:: f(v) = \frac1\pi \operatorname{Re} \int e^{-iuv} \varphi(u)\, du ,

taken along a ray that turns the oscillation into decay, halfway to where the decay would end. On a
logarithmic scale the trapezoidal rule converges exponentially there. Far out ``phi - 1`` replaces ``phi``:
the integral of the 1 is imaginary, and without it nothing cancels, so the tails keep their digits.

Resilient classification (S-5.2) asks for weights of a row between powers of the scale c > 1 of a stable law:
bracket i holds those between :math:`c^i` and :math:`c^{i+1}`, of which :math:`\kappa = c^{M-i}` sum to
:math:`c^M`. The published probability of that many among N is a Chernoff bound with the asymptotic density.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from codebound.bounds.numerics import log_binomial_tail, log_chernoff_tail
from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_networks.train.rng import numpy_stream

_DIGITS = 42.0  # integrands are followed until they have fallen by exp(-42)
_CHUNK = 2**18  # integrand values held at a time
_NEAR_ONE = 0.03
_BRIDGE = np.array([-0.12, -0.09, -0.06, -0.03, 0.03, 0.06, 0.09, 0.12])  # alpha - 1 of laws to interpolate


@implements("S-Pow", kind="measure")
@dataclass(frozen=True, slots=True)
class PowerLaw:
    """Density ``a xmin^a x^-(a+1)`` on ``[xmin, inf)``, with a the **tail** exponent.

    >>> PowerLaw(tail_exponent=2.0, xmin=1.0).tail(2.0).item()
    0.25
    """

    tail_exponent: float  # of P(X > x), above 0
    xmin: float  # smallest value, above 0

    def __post_init__(self) -> None:
        if not (0.0 < self.tail_exponent < math.inf and 0.0 < self.xmin < math.inf):
            raise UsageError(
                "a power law needs a tail exponent and an xmin above 0. "
                f"Got {self.tail_exponent} and {self.xmin}."
            )

    @property
    def density_exponent(self) -> float:
        """Exponent of the density: the tail exponent plus one."""
        return self.tail_exponent + 1.0

    def density(self, x: ArrayLike) -> NDArray[np.float64]:
        """Density at x."""
        x = np.asarray(x, dtype=np.float64)
        ratio = np.maximum(x, self.xmin) / self.xmin
        return np.where(x >= self.xmin, self.tail_exponent / self.xmin * ratio**-self.density_exponent, 0.0)

    @implements("S-E16", kind="measure")
    def tail(self, x: ArrayLike) -> NDArray[np.float64]:
        """``P(X > x)``: for x above ``xmin`` it falls when the exponent grows, so larger alpha is sparser."""
        ratio = np.maximum(np.asarray(x, dtype=np.float64), self.xmin) / self.xmin
        return np.asarray(ratio**-self.tail_exponent)

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """``P(X <= x)``."""
        ratio = np.maximum(np.asarray(x, dtype=np.float64), self.xmin) / self.xmin
        return np.asarray(-np.expm1(-self.tail_exponent * np.log(ratio)))

    def moment_above(self, order: int, threshold: float) -> float:
        """``E[X^order 1[X > threshold]]`` for a threshold from ``xmin`` on; refused where it is infinite."""
        if threshold < self.xmin:
            raise UsageError(f"the threshold must be at least xmin = {self.xmin}. Got {threshold}.")
        if order >= self.tail_exponent:
            raise UsageError(
                f"the moment of order {order} is finite only for a tail exponent above {order}. "
                f"Got {self.tail_exponent}."
            )
        a = self.tail_exponent
        return a / (a - order) * math.pow(self.xmin / threshold, a) * threshold**order

    def sample(self, size: int | tuple[int, ...], *, seed: int) -> NDArray[np.float64]:
        """Independent draws, from the quantile function."""
        uniform = 1.0 - numpy_stream(seed, "power law").random(size)
        return np.asarray(self.xmin * uniform ** (-1.0 / self.tail_exponent))


@implements("S-Stable", kind="measure")
@dataclass(frozen=True, slots=True)
class Stable:
    """Lévy-stable law in the parametrisation S0, which is continuous in alpha.

    Density and distribution are good to 1e-9 for alpha of at least 0.2; for skewed laws within 0.03 of
    alpha = 1 they are interpolated in alpha, to about 1e-7.

    >>> round(Stable(alpha=1.5).density(0.0).item(), 9)  # gamma(5/3) / pi
    0.287352751
    """

    alpha: float  # index in (0, 2]; 2 is Gaussian with variance 2 scale^2, below it tails are x^-alpha
    beta: float = 0.0  # skewness in [-1, 1]
    scale: float = 1.0  # above 0
    location: float = 0.0  # any number

    def __post_init__(self) -> None:
        if not (0.0 < self.alpha <= 2.0 and -1.0 <= self.beta <= 1.0):
            raise UsageError(
                f"a stable law has 0 < alpha <= 2 and -1 <= beta <= 1. Got {self.alpha} and {self.beta}."
            )
        if not (0.0 < self.scale < math.inf and math.isfinite(self.location)):
            raise UsageError(f"scale must be above 0 and location finite. Got {self.scale}, {self.location}.")

    def density(self, x: ArrayLike) -> NDArray[np.float64]:
        """Density at x."""
        return _standard_density(self._standardise(x), self.alpha, self.beta) / self.scale

    def tail(self, x: ArrayLike) -> NDArray[np.float64]:
        """``P(X > x)``, with its digits kept far out on the right."""
        return _standard_tail(self._standardise(x), self.alpha, self.beta)

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """``P(X <= x)``, with its digits kept far out on the left."""
        return _standard_tail(-self._standardise(x), self.alpha, -self.beta)

    def sample(self, size: int | tuple[int, ...], *, seed: int) -> NDArray[np.float64]:
        """Independent draws, by the method of Chambers, Mallows and Stuck."""
        rng = numpy_stream(seed, "stable")
        angle = math.pi * (rng.random(size) - 0.5)
        wait = rng.standard_exponential(size)
        a, b = self.alpha, self.beta
        if a == 1.0:
            slant = math.pi / 2.0 + b * angle
            draws = slant * np.tan(angle) - b * np.log(math.pi / 2.0 * wait * np.cos(angle) / slant)
            draws *= 2.0 / math.pi
        else:
            skew = b * math.tan(math.pi * a / 2.0)
            turn = a * angle + math.atan(skew)
            draws = (1.0 + skew**2) ** (0.5 / a) * np.sin(turn) / np.cos(angle) ** (1.0 / a)
            draws = draws * (np.cos(angle - turn) / wait) ** ((1.0 - a) / a) - skew
        return np.asarray(self.location + self.scale * draws)

    def _standardise(self, x: ArrayLike) -> NDArray[np.float64]:
        standard = (np.asarray(x, dtype=np.float64) - self.location) / self.scale
        if not np.isfinite(standard).all():
            raise UsageError("a stable law is evaluated at finite numbers. Found NaN or infinity.")
        return np.asarray(standard)


def tail_constant(alpha: float) -> float:
    """``c_alpha = sin(pi alpha / 2) gamma(alpha) / pi``.

    Far out ``P(X > x)`` of a symmetric stable law of scale c is ``c_alpha (c / x)^alpha``; 1/2 at 0, 0 at 2.

    >>> round(tail_constant(1.0) * math.pi, 12)
    1.0
    """
    return 0.5 * float(np.sinc(alpha / 2.0)) * math.gamma(alpha + 1.0)


def _standard_density(x: NDArray[np.float64], alpha: float, beta: float) -> NDArray[np.float64]:
    if alpha == 2.0:
        return np.asarray(np.exp(-(x**2) / 4.0) / math.sqrt(4.0 * math.pi))
    if alpha == 1.0 and beta == 0.0:
        return np.asarray(1.0 / (math.pi * (1.0 + x**2)))
    return np.maximum(_invert(x, alpha, beta, order=0), 0.0)


def _standard_tail(x: NDArray[np.float64], alpha: float, beta: float) -> NDArray[np.float64]:
    if alpha == 2.0:
        return np.asarray(torch.special.erfc(torch.as_tensor(x / 2.0)).numpy() / 2.0)
    if alpha == 1.0 and beta == 0.0:
        return np.asarray(np.arctan2(1.0, x) / math.pi)
    return np.clip(_invert(x, alpha, beta, order=1), 0.0, 1.0)


def _invert(x: NDArray[np.float64], alpha: float, beta: float, *, order: int) -> NDArray[np.float64]:
    """Density (``order`` 0) or tail (1) of a standard law that has neither in closed form.

    Skewed laws near alpha = 1 leave the ray no room; they are interpolated from both sides.
    """
    if beta != 0.0 and abs(alpha - 1.0) < _NEAR_ONE:
        total = np.zeros_like(x)
        for i, node in enumerate(_BRIDGE):
            others = np.delete(_BRIDGE, i)
            weight = float(np.prod((alpha - 1.0 - others) / (node - others)))
            total += weight * _invert(x, 1.0 + float(node), beta, order=order)
        return total
    v = x + beta * math.tan(math.pi * alpha / 2.0)
    found, is_right = np.empty_like(v), v >= 0.0
    found[is_right] = _ray_integrals(v[is_right], alpha, beta, order=order)
    left = _ray_integrals(-v[~is_right], alpha, -beta, order=order)
    found[~is_right] = 1.0 - left if order else left
    return found


def _ray_integrals(v: NDArray[np.float64], alpha: float, beta: float, *, order: int) -> NDArray[np.float64]:
    r"""Density (``order`` 0) or tail (1) at distances ``v >= 0`` from the pole of the law.

    On ``u = r exp(-i psi)`` the logarithm of phi is
    :math:`-r^\alpha e^{-i(\alpha\psi + \eta)} / \cos\eta` with :math:`\tan\eta = \beta \tan(\pi\alpha/2)`; it
    decays while ``alpha psi + eta < pi / 2``, and ``exp(-iuv)`` while ``psi`` lies in (0, pi). Below a
    distance of 1 the decay of phi ends the integral, counted from the pole; above, that of ``exp(-iuv)``.
    """
    eta = math.atan(beta * math.tan(math.pi * alpha / 2.0))
    psi = min(math.pi, (math.pi / 2.0 - eta) / alpha) / 2.0
    ray, phase = np.exp(-1j * psi), -np.exp(-1j * (alpha * psi + eta)) / math.cos(eta)
    step = 2.0 * math.pi * psi / _DIGITS
    at_pole = 0.5 + eta / (math.pi * alpha)

    def near(at: NDArray[np.float64], r: NDArray[np.float64]) -> NDArray[np.float64]:
        u, phi = r * ray, np.exp(phase * r**alpha)
        terms = -1j * np.expm1(-1j * u * at) * phi if order else u * np.exp(-1j * u * at) * phi
        return np.asarray(order * at_pole + terms.real.sum(axis=1) * step / math.pi)

    def far(at: NDArray[np.float64], r: NDArray[np.float64]) -> NDArray[np.float64]:
        terms = np.exp(-1j * r * ray) * np.expm1(phase * (r / at) ** alpha)
        terms = -1j * terms if order else r * ray / at * terms
        return np.asarray(terms.real.sum(axis=1) * step / math.pi)

    near_radii = np.exp(np.arange(-_DIGITS, math.log(_DIGITS / -phase.real) / alpha, step))
    far_radii = np.exp(np.arange(-_DIGITS / (alpha + 1 - order), math.log(_DIGITS / math.sin(psi)), step))
    found = np.empty_like(v)
    for is_here, rule, radii in ((v < 1.0, near, near_radii), (v >= 1.0, far, far_radii)):
        places = np.flatnonzero(is_here)
        rows = max(1, _CHUNK // radii.size)
        for first in range(0, places.size, rows):
            chosen = places[first : first + rows]
            found[chosen] = rule(v[chosen, None], radii)
    return found


@implements("I-29", "S-E10", kind="measure")
def spiked_second_moment(
    x: ArrayLike, law: PowerLaw, *, threshold: float, signs: Literal["symmetric", "positive"] = "symmetric"
) -> float:
    r"""``E[(B x)_i^2]`` for a row of B with independent entries W 1[|W| > threshold], \|W\| from a power law.

    Statement.  :math:`E[B^2] \|x\|^2 + E[B]^2 ((\sum_j x_j)^2 - \|x\|^2)`, where
                :math:`E[B^k] = a w^a \tau^{k-a} / (a - k)` for a > 2, and E[B] is 0 for symmetric signs.
    Differs.    The published Eq. (10) drops the cross terms of a mean that is not zero, and prints
                :math:`N_2 x_i^2` for :math:`\|x\|^2`.

    The vector has length N2; N1 rows have N1 times the moment of one, ``E ||B x||^2``.

    >>> round(spiked_second_moment([1.0, -1.0], PowerLaw(5.0, 1.0), threshold=1.0), 6)
    3.333333
    """
    vector = np.asarray(x, dtype=np.float64)
    square = law.moment_above(2, threshold)
    mean = law.moment_above(1, threshold) if signs == "positive" else 0.0
    length = float(vector @ vector)
    return square * length + mean**2 * (float(vector.sum()) ** 2 - length)


@implements("S-5.1", kind="published-form")
def published_spiked_second_moment(x: ArrayLike, law: PowerLaw, *, threshold: float, row: int = 0) -> float:
    """Eq. (10) as printed, ``N2 E[B^2] x_i^2``: right only where all ``x_j^2`` are equal and B has mean 0.

    >>> round(published_spiked_second_moment([1.0, -1.0], PowerLaw(5.0, 1.0), threshold=1.0), 6)
    3.333333
    """
    vector = np.asarray(x, dtype=np.float64)
    return vector.size * law.moment_above(2, threshold) * float(vector[row]) ** 2


@dataclass(frozen=True, slots=True)
class Resilience:
    """The chance of kappa or more weights of one bracket in a row."""

    kappa: float  # weights needed; not an integer
    probability: float  # of one weight to lie in the bracket
    expected: float  # weights of a row in the bracket, N times probability
    chernoff: float  # upper bound of Eq. (15), (16); 1, which says nothing, unless kappa > expected
    exact: float  # binomial probability of ceil(kappa) or more
    released: float  # what the released script evaluates: no bound, a parenthesis is misplaced (S-E26)


@implements("S-5.2", kind="published-form")
def asymptotic_bracket_probability(alpha: float, bracket: float, *, scale: float) -> float:
    """Eq. (14): mass of the asymptotic density of a symmetric stable law on ``[c^i, c^(i+1)]`` (S-E14).

    >>> round(asymptotic_bracket_probability(1.0, 0, scale=1.3), 4)
    0.0955
    """
    _check(alpha, scale)
    share = -math.expm1(-alpha * math.log(scale))
    return tail_constant(alpha) * math.pow(scale, -alpha * (bracket - 1.0)) * share


@implements("S-E14", kind="measure")
def bracket_probability(
    alpha: float, bracket: float, *, scale: float, of: Literal["signed", "absolute"] = "signed"
) -> float:
    """Mass of a symmetric stable law itself on ``[c^i, c^(i+1)]``; of |W| it is twice that of W.

    What lies below ``c^0 = 1``, and all negative weights, is in no bracket of the published split.

    >>> round(bracket_probability(1.0, 0, scale=1.3), 4)
    0.0413
    """
    _check(alpha, scale)
    if alpha == 0.0:
        raise UsageError("a stable law has alpha above 0. Got 0.")
    law = Stable(alpha=alpha, scale=scale)
    low, high = law.tail([scale**bracket, scale ** (bracket + 1.0)])
    return float(low - high) * (2.0 if of == "absolute" else 1.0)


@implements("S-E15", kind="measure")
def resilience(probability: float, bracket: float, *, scale: float, top: int, width: int) -> Resilience:
    """Published bound, exact value and released expression for one bracket, which may be between integers.

    The probability is that of one weight to lie in bracket i, by either function above; M is ``top``.

    >>> p = asymptotic_bracket_probability(1.9, 3, scale=1.3)
    >>> row = resilience(p, 3, scale=1.3, top=5, width=64)
    >>> round(row.kappa, 2), round(row.expected, 2), round(row.chernoff, 4), round(row.exact, 4)
    (1.69, 0.44, 0.3587, 0.0732)
    """
    kappa = scale ** (top - bracket)
    if not 0.0 <= probability <= 1.0:
        raise UsageError(f"a probability lies in [0, 1]. Got {probability}.")
    if not 1.0 <= kappa < width:
        raise UsageError(
            f"{kappa:.3g} weights of one bracket are needed: at least 1 and fewer than the {width} of a row "
            "is possible. Choose a bracket of at most top, or a wider row."
        )
    return Resilience(
        kappa=kappa,
        probability=probability,
        expected=width * probability,
        chernoff=math.exp(log_chernoff_tail(kappa, width, probability)),
        exact=math.exp(log_binomial_tail(math.ceil(kappa), width, probability)),
        released=released_resilience(probability, kappa=kappa, width=width),
    )


@implements("S-5.3:rank", "S-5.3:eigenvalue", kind="numerics")
def pareto_matrix_bounds(alpha: float, *, entries: int, size: float) -> tuple[float, float, float]:
    """Stable rank and largest eigenvalue of a matrix of independent entries with P(|X| > x) = x^-alpha.

    The mean stable rank is at most ``2 / (2 - alpha)``, whatever the shape. The probability that W W^T has an
    eigenvalue of at least ``size`` is between ``1 - (1 - size^(-alpha/2))^N`` and that limit times
    ``N size^(-alpha/2)``: its tail has half the exponent of the entries. For the squared norm is between the
    largest square M and the sum S of all; given M the others are Pareto below it, and with b = alpha/2 and U
    the least of N uniforms ``E S/M <= 1 + (N-1) b/(1-b) E U/(1-U) = 1/(1-b)``. Needs alpha below 2.

    >>> [round(value, 4) for value in pareto_matrix_bounds(1.0, entries=100, size=1e6)]
    [2.0, 0.0952, 0.2]
    """
    if not 0.0 < alpha < 2.0 or entries < 1 or size < 1.0:
        raise UsageError(f"entries have an exponent below 2 and a size from 1 on. Got {alpha}, {size}.")
    limit, tail = 2.0 / (2.0 - alpha), size ** (-alpha / 2.0)
    lower = -math.expm1(entries * math.log1p(-tail)) if tail < 1.0 else 1.0
    return limit, lower, min(1.0, entries * tail * limit)


@implements("S-E26", kind="published-form")
def released_resilience(probability: float, *, kappa: float, width: int) -> float:
    """``(Np/k)^k (1 - p/(1 - k/N))^(N-k)``, plotted in Fig. 2; Eq. (16) has ``((1-p)/(1-k/N))^(N-k)``.

    It lies below the probability it should bound. Where ``p > 1 - k/N`` it has no value; 0 is returned.
    """
    base = max(0.0, 1.0 - probability / (1.0 - kappa / width))
    return math.pow(width * probability / kappa, kappa) * math.pow(base, width - kappa)


@implements("I-30", kind="measure")
def resilience_grid(
    alphas: Iterable[float], brackets: Iterable[float], *, scale: float = 1.3, top: int = 5, width: int = 64
) -> tuple[dict[str, float], ...]:
    """The rows of Fig. 2 by Eq. (14) and (16): alpha, bracket, and the fields of :class:`Resilience`.

    >>> [round(row["exact"], 3) for row in resilience_grid([1.0], range(6))]
    [0.871, 0.858, 0.708, 0.773, 0.635, 0.811]
    """
    brackets = tuple(brackets)
    rows = []
    for alpha in alphas:
        for bracket in brackets:
            p = asymptotic_bracket_probability(alpha, bracket, scale=scale)
            cell = resilience(p, bracket, scale=scale, top=top, width=width)
            rows.append({"alpha": alpha, "bracket": bracket, **asdict(cell)})
    return tuple(rows)


def _check(alpha: float, scale: float) -> None:
    if not (0.0 <= alpha <= 2.0 and 1.0 < scale < math.inf):
        raise UsageError(f"brackets need alpha in [0, 2] and a scale above 1. Got {alpha} and {scale}.")
