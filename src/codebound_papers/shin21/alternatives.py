"""The law of the entries of a matrix: Gaussian, Laplace or stable, by likelihood and distance.

Shin 2021 argues with heavy tails; the laws that he names beside the power law are the stable ones, to which
sums are attracted, and Laplace's (remark 1). Each is fitted to all entries, not to a tail.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from codebound.run.errors import UsageError
from codebound_networks.train.rng import numpy_stream
from codebound_papers.measure.tails import golden_section
from codebound_papers.shin21.laws import Stable

Law = Literal["Gaussian", "Laplace", "stable"]
Vector = NDArray[np.float64]
_USUAL = 1.63  # over the root of n: distance that a fitted law exceeds less than one time in a hundred
_FAVOURED = 0.05  # of Vuong's test between the two best laws
_GRID = 400  # places where the density of a stable law is computed; it is interpolated between them
_LEAST_ALPHA = 0.5
_SEARCH = 18  # steps for each parameter of a stable law


@dataclass(frozen=True, slots=True)
class LawFit:
    """A law fitted to all entries by maximum likelihood."""

    law: Law
    location: float
    scale: float  # standard deviation, mean absolute deviation, or the scale of a stable law
    alpha: float | None  # index of the stable law
    likelihood: float  # mean log-likelihood of an entry
    distance: float  # largest distance of the distribution functions, Kolmogorov and Smirnov

    def sample(self, size: tuple[int, int], *, seed: int) -> Vector:
        """Independent draws."""
        rng = numpy_stream(seed, f"law {self.law}")
        if self.law == "Gaussian":
            return rng.normal(self.location, self.scale, size)
        if self.law == "Laplace":
            return rng.laplace(self.location, self.scale, size)
        assert self.alpha is not None  # of a stable law
        return Stable(self.alpha, scale=self.scale, location=self.location).sample(size, seed=seed)


@dataclass(frozen=True, slots=True)
class EntryLaws:
    """The laws of a matrix's entries."""

    fits: tuple[LawFit, ...]  # the most likely first, after a price for each parameter
    usual_distance: float  # a distance that the entries of such a law hardly exceed
    p_value: float  # how often two laws that are equally good differ as the first and its rival do (Vuong)

    @property
    def verdict(self) -> str:
        """The law that the entries follow, if one of the three; else the nearest."""
        best = self.fits[0]
        if all(fit.distance > self.usual_distance for fit in self.fits):
            return f"none of the three; {best.law} is nearest"
        if self.p_value >= _FAVOURED:
            return f"undecided between {best.law} and {self.rival.law} (p = {self.p_value:.2f})"
        return best.law

    @property
    def rival(self) -> LawFit:
        """The second law; a stable one of index 2 is Gaussian, and no rival of that."""
        return next(fit for fit in self.fits[1:] if fit.alpha != 2.0)


def fit_entry_laws(values: ArrayLike) -> EntryLaws:
    """Fits the three laws to the entries of a matrix, stable ones around the median, and compares them.

    >>> fit_entry_laws(numpy_stream(0, "example").laplace(size=4000)).verdict
    'Laplace'
    """
    x = np.sort(np.asarray(values, dtype=np.float64), axis=None)
    if x.size < 2 or not np.isfinite(x[[0, -1]]).all() or x[0] == x[-1]:
        raise UsageError("a law is fitted to finite values, at least two of them different.")
    n, mean, median = x.size, float(x.mean()), float(np.median(x))
    deviation, spread = float(x.std()), float(np.abs(x - median).mean())
    z, far = (x - mean) / deviation, np.abs(x - median)
    alpha, scale = _best_stable(far)
    stable, largest = Stable(alpha), float(far.max()) / scale
    sides = {  # what lies beyond a value on its side
        "Laplace": 0.5 * np.exp(-far / spread),
        "stable": 1.0 - _interpolated(stable.cdf, largest)(far / scale),
    }
    below = {law: np.where(x < median, side, 1.0 - side) for law, side in sides.items()}
    below["Gaussian"] = torch.special.ndtr(torch.from_numpy(z)).numpy()
    terms = {
        "Gaussian": -0.5 * z**2 - math.log(deviation * math.sqrt(2.0 * math.pi)),
        "Laplace": -far / spread - math.log(2.0 * spread),
        "stable": _log_density(alpha, largest)(far / scale) - math.log(scale),
    }
    told: dict[Law, tuple[float, float, float | None]] = {
        "Gaussian": (mean, deviation, None),
        "Laplace": (median, spread, None),
        "stable": (median, scale, alpha),
    }
    steps, found = np.arange(n + 1) / n, list[LawFit]()
    for law, numbers in told.items():
        distance = max(float((below[law] - steps[:-1]).max()), float((steps[1:] - below[law]).max()))
        found.append(LawFit(law, *numbers, float(terms[law].mean()), distance))
    price = math.log(n) / (2.0 * n)  # of a parameter, of which a stable law has one more
    found.sort(key=lambda fit: price * (fit.law == "stable") - fit.likelihood)
    laws = EntryLaws(tuple(found), _USUAL / math.sqrt(n), 1.0)
    gap = terms[found[0].law] - terms[laws.rival.law]
    noise = float(gap.std()) * math.sqrt(2.0 * n)
    return laws if noise == 0.0 else replace(laws, p_value=math.erfc(abs(float(gap.sum())) / noise))


def _best_stable(far: Vector) -> tuple[float, float]:
    """Index and scale of the most likely symmetric stable law of values that are so far from the centre."""
    middle = math.log(float(np.quantile(far, 0.5)) or float(far.mean()))

    def at(alpha: float) -> tuple[float, float]:
        log_density = _log_density(alpha, float(far.max()) / math.exp(middle - 2.0))

        def likelihood(log_scale: float) -> float:
            return float(log_density(far / math.exp(log_scale)).mean()) - log_scale

        best = golden_section(likelihood, low=middle - 2.0, high=middle + 2.0, steps=_SEARCH)
        return likelihood(best), math.exp(best)

    alpha = golden_section(lambda a: at(a)[0], low=_LEAST_ALPHA, high=2.0, steps=_SEARCH)
    alpha = max((alpha, 2.0), key=lambda a: at(a)[0])
    return alpha, at(alpha)[1]


def _log_density(alpha: float, largest: float) -> Callable[[Vector], Vector]:
    return _interpolated(lambda x: np.log(np.maximum(Stable(alpha).density(x), 1e-300)), largest)


def _interpolated(function: Callable[[Vector], Vector], largest: float) -> Callable[[Vector], Vector]:
    """A function from 0 to the largest value, computed at places that are far apart far out."""
    places = np.linspace(0.0, math.asinh(largest), _GRID)
    known = function(np.sinh(places))
    return lambda x: np.asarray(np.interp(np.arcsinh(x), places, known))
