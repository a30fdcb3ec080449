"""An alarm that is valid at every look: outcomes of a classifier in use, one after the other."""

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from codebound.bounds.numerics import kl_inverse_upper, round_up, stirling_error
from codebound.bounds.risk import MAX_N, check_counts, check_delta
from codebound.run.errors import UsageError
from codebound.run.references import implements

FACTORS: Final = (
    1.20, 1.30, 1.41, 1.53, 1.65, 1.79, 1.94, 2.10, 2.28, 2.47, 2.68, 2.90, 3.14, 3.41, 3.69, 4.00,
)  # fmt: skip
"""Alternatives to the certified error, as multiples of it: log-uniform, of weight 1/16 each."""
EVERY: Final = 100
"""Labels from one starting time to the next."""


def alternatives(bound: float) -> np.ndarray:
    """Error rates above ``bound`` that an alarm looks for: multiples of the bound while it is small.

    With c the factor they are ``min(c bound, 1 - (1 - bound)/c)``: the first up to a bound of ``1/(c + 1)``.

    Example:
        >>> [round(float(each), 3) for each in alternatives(0.05)[[0, 7, 15]]]
        [0.06, 0.105, 0.2]
    """
    factors = np.array(FACTORS)
    return np.minimum(factors * bound, 1.0 - (1.0 - bound) / factors)


@implements("C-20", kind="certificate")
class Mixture:
    r"""Mixture of likelihood ratios against an error of at most ``bound``: an alarm valid at every look.

    Statement.  Outcomes x_1, x_2, ... are 0 or 1. If at every label the probability of a 1, given all
                outcomes before it, is at most ``bound``, then the probability that the alarm is ever raised
                is at most ``alpha``. With p over the alternatives, B the bound and starting times
                j = 1, 2, ... after 100 (j - 1) labels, it is raised as soon as the wealth

    .. math:: W_t = \sum_j \frac{1}{j (j+1)} \; \frac{1}{16} \sum_p \prod_{100 (j-1) < i \le t}
                    \left(\frac{p}{B}\right)^{x_i} \left(\frac{1-p}{1-B}\right)^{1-x_i} \ge \frac{1}{\alpha} .

    Reference.  C-20: each product is a supermartingale of mean at most 1, so is their mixture, and Ville's
                inequality bounds the probability that it ever reaches ``1/alpha``. docs/holdout.md.
    Needs.      Labels of everything, or of what was chosen without regard to its outcome; in order.
    Direction.  The wealth is rounded down: rounding never raises an alarm.
    Checked by. oracle (mpmath, term by term), property (blocks of any sizes), validity (teeth: 1/alpha at
                every label for one likelihood ratio that is chosen afterwards).

    Attributes:
        bound: The certified error B, above 0 and below 1.
        alpha: Probability of a false alarm, ever.
        labels: Number of outcomes so far.
        errors: Number of ones among them.
        alarm_at: Number of the label at which the alarm was raised; None if it never was.
        log_wealth: ``ln W`` after the last label, rounded down.

    Example:
        >>> watch = Mixture(bound=0.05, alpha=0.01)
        >>> watch.update([0, 0, 0, 1] * 20)
        >>> watch.alarm_at
        32
    """

    def __init__(self, *, bound: float, alpha: float) -> None:
        if not 1e-12 <= bound <= 1.0 - 1e-12:
            raise UsageError(f"`bound` is an error rate between 0 and 1, certified beforehand. Got {bound}.")
        self.bound = float(bound)
        self.alpha = check_delta(alpha)
        self.labels = 0
        self.errors = 0
        self.alarm_at: int | None = None
        rates = alternatives(self.bound)
        self._wrong = np.log(rates / self.bound)
        self._right = np.log1p((self.bound - rates) / (1.0 - self.bound))
        self._started = np.full(len(FACTORS), -math.inf)  # log of the started part, for each alternative
        self._rounding = 0.0
        self.log_wealth = 0.0
        self._needed = -math.log(self.alpha) * (1.0 + 1e-15)

    def update(self, outcomes: Iterable[int] | np.ndarray) -> None:
        """Take outcomes in their order: 1 where the classifier was wrong, 0 where it was right."""
        new = np.asarray(outcomes if isinstance(outcomes, np.ndarray) else list(outcomes))
        if new.size and (new.ndim != 1 or new.dtype.kind not in "biuf" or not np.isin(new, (0, 1)).all()):
            raise UsageError("outcomes are a sequence of 0 (right) and 1 (wrong).")
        if self.labels + len(new) > MAX_N:
            raise UsageError(f"a watch takes at most {MAX_N:,} labels.")
        start = 0
        while start < len(new):
            size = EVERY - self.labels % EVERY
            self._take(new[start : start + size].astype(np.int64))
            start += size

    def upper_limit(self) -> float:
        """The time-uniform upper limit of ``steady_limit`` after the last label; 1 before the first."""
        return steady_limit(errors=self.errors, labels=self.labels, alpha=self.alpha) if self.labels else 1.0

    def _take(self, outcomes: np.ndarray) -> None:
        """Outcomes up to the next starting time at most."""
        begun, place = divmod(self.labels, EVERY)
        if place == 0:
            weight = -math.log((begun + 1.0) * (begun + 2.0) * len(FACTORS))
            self._started = np.logaddexp(self._started, weight)
        wrong = np.cumsum(outcomes)
        right = np.arange(1, len(outcomes) + 1) - wrong
        logs = self._started + np.outer(wrong, self._wrong) + np.outer(right, self._right)
        # an upper bound on the error of all sums so far: each is of a few numbers of at most this magnitude
        finite = np.abs(logs).max() + EVERY * (np.abs(self._wrong).max() + np.abs(self._right).max())
        self._rounding += 4e-15 * (1.0 + float(finite))
        waiting = -math.log(begun + 2.0)  # weights of all starting times to come
        largest = np.maximum(logs.max(axis=1), waiting)
        total = np.exp(logs - largest[:, None]).sum(axis=1) + np.exp(waiting - largest)
        wealth = largest + np.log(total) - self._rounding
        if self.alarm_at is None and (reached := np.flatnonzero(wealth >= self._needed)).size:
            self.alarm_at = self.labels + int(reached[0]) + 1
        self.log_wealth = float(wealth[-1])
        self._started = logs[-1]
        self.labels += len(outcomes)
        self.errors += int(wrong[-1])


@implements("C-20:limit", kind="certificate")
def steady_limit(*, errors: int, labels: int, alpha: float) -> float:
    r"""Upper limit of an error that does not change, valid at all numbers of labels at once.

    Statement.  If every outcome is 1 with the same probability p, given those before it, then with
                probability at least ``1 - alpha``, at all times t at once, with k ones among the first t,

    .. math:: t \; kl(k/t \,\|\, p) \le \ln(1/\alpha) + c(k, t), \qquad
              c(k, t) = \ln \frac{\pi \, t!}{\Gamma(k + 1/2) \Gamma(t - k + 1/2)} - t H(k/t) ,

                H the entropy in nats. What is returned is the largest such p.
    Reference.  C-20:limit: the likelihood ratio of a Beta(1/2, 1/2) mixture against p is a martingale;
                Ville's inequality. Robbins 1970. The alarm of C-20 and this limit hold together with
                probability ``1 - 2 alpha``.
    Needs.      The same error all the time: under drift it bounds neither the present error nor the mean.
    Direction.  Upper.
    Checked by. oracle (mpmath), property, validity (teeth: the limit of one look at every look).

    Example:
        >>> round(steady_limit(errors=500, labels=10_000, alpha=0.05), 4)
        0.0591
    """
    check_counts(errors, labels)
    level = check_delta(alpha)
    regret = 0.5 * math.log(0.5 * math.pi * labels) + stirling_error(labels)
    regret -= _half(errors) + _half(labels - errors)
    nats = (regret - math.log(level)) * (1.0 + 1e-14) + 1e-14
    return kl_inverse_upper(errors / labels, round_up(nats / labels))


def _half(k: int) -> float:
    """``ln Gamma(k + 1/2) - (k ln k - k + ln(2 pi)/2)``."""
    if k < 16:
        stirling = k * math.log(k) - k if k else 0.0
        return math.lgamma(k + 0.5) - stirling - 0.5 * math.log(2.0 * math.pi)
    x = 1.0 / (k * k)
    return -(1 / 24 - x * (7 / 2880 - x * (31 / 40320 - x * (127 / 215040 - x * 511 / 608256)))) / k
