"""Two classifiers on the same examples: which errs less often, and by how much at least."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from codebound.bounds.numerics import (
    binomial_inverse_upper,
    binomial_tail_upper,
    log_binomial_mass_upper,
    log_binomial_tail,
)
from codebound.bounds.risk import check_delta, whole_number
from codebound.run.errors import UsageError
from codebound.run.references import implements

SIDE_SHARE: Final = 1.0 / 20.0
"""Share of delta for what else is unknown: how often B alone errs, or how often just one of the two does."""
MAX_PAIRS: Final = 10**9
LEAST_DELTA: Final = 1e-300

_STEPS = 200  # halvings of a bracket, far more than a double has bits
_CLOSE = 1e-9  # relative width at which a bracket is narrow enough


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedFacts:
    """Examples on which just one of two classifiers errs.

    Attributes:
        a_only: Examples on which A errs and B does not.
        b_only: Examples on which B errs and A does not.
        n: Number of examples.
        delta: Failure probability over the draw of the examples, at most 1/2.
    """

    a_only: int
    b_only: int
    n: int
    delta: float

    def __post_init__(self) -> None:
        for name in ("a_only", "b_only", "n"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        object.__setattr__(self, "delta", check_delta(self.delta))
        if not 1 <= self.n <= MAX_PAIRS:
            raise UsageError(f"`n` is a number of examples from 1 to {MAX_PAIRS:,}. Got n={self.n}.")
        if min(self.a_only, self.b_only) < 0 or self.discordant > self.n:
            raise UsageError(
                f"`a_only` and `b_only` count different examples among n={self.n}. "
                f"Got a_only={self.a_only}, b_only={self.b_only}."
            )
        if not LEAST_DELTA <= self.delta <= 0.5:
            raise UsageError(f"`delta` of a comparison lies from 1e-300 to 1/2. Got {self.delta}.")

    @property
    def discordant(self) -> int:
        """Examples on which just one of the two errs."""
        return self.a_only + self.b_only

    @property
    def side_delta(self) -> float:
        """The part of delta that goes to what else is unknown."""
        return self.delta * SIDE_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedLimit:
    """A comparison of two classifiers that holds with probability at least ``1 - delta``.

    Attributes:
        is_better: Whether B is shown to err less often than A.
        limit: At least so much is the error of A above that of B. Not negative if B is better; else not
            positive, and then minus the most by which B may err more often.
        p_value: Of the exact sign test, rounded up.
    """

    is_better: bool
    limit: float
    p_value: float


@implements("C-19", kind="certificate")
def better(facts: PairedFacts) -> PairedLimit:
    r"""Exact sign test, and how much more often A errs than B at least. Both at the full delta.

    Statement.  Let A alone be wrong with probability p, B alone with probability q, on n independent
                examples. With probability at least ``1 - delta``, ``err(A) - err(B) = p - q`` is at least
                ``limit``, and positive where B is called better.
                *Better* is said if the sign test rejects ``p <= q``: if ``P(Bin(T, 1/2) >= x) <= delta``
                for x times A alone and T times just one. Then ``limit`` is the larger of 0 and the end of
                all differences that ``difference_p_value`` rejects. Else it is
                ``s min(-1/20, 2 r - 1)``, s the Clopper-Pearson upper limit of T among n at ``delta/20``, r
                the lower limit of x among T at ``19 delta/20``.
    Reference.  C-19: docs/holdout.md has the proof. If the truth is 0 only the gate can err, if it is
                positive only the limit, so they need not share delta. If it is negative, gate and limit are
                thresholds on x for each T, and nested.
    Differs.    Berger and Boos (1994) search the nuisance parameter; here its worst value is known.
    Needs.      A and B were fixed before the examples were seen, or the choice is paid for.
    Direction.  Lower; all rounding is away from the claim.
    Checked by. oracle (enumeration in fractions, mpmath), property, validity (teeth: two limits that ignore
                the nuisance; a gate at twice the level).

    Example:
        >>> found = better(PairedFacts(a_only=60, b_only=20, n=1000, delta=0.05))
        >>> found.is_better, round(found.limit, 4)
        (True, 0.0232)
        >>> found = better(PairedFacts(a_only=25, b_only=20, n=1000, delta=0.05))
        >>> found.is_better, round(found.limit, 4)
        (False, -0.0105)
    """
    p_value = binomial_tail_upper(facts.a_only, facts.discordant, 0.5)
    is_better = p_value <= facts.delta
    limit = _gain(facts) if is_better else -_loss(facts)
    return PairedLimit(is_better=is_better, limit=limit, p_value=p_value)


@implements("C-19:margin", kind="certificate")
def not_worse(facts: PairedFacts, margin: float) -> bool:
    r"""Exact test of "B errs at most ``margin`` more often than A".

    Statement.  If ``err(B) - err(A) >= margin``, it is called not worse with probability at most delta.
    Needs.      The margin was fixed before the examples were seen. This is a claim of its own; beside it C-19
                at the same delta does not hold for the same looks.
    Checked by. oracle, property, validity (teeth: a margin without uncertainty).

    Example:
        >>> not_worse(PairedFacts(a_only=25, b_only=20, n=1000, delta=0.05), 0.01)
        True
        >>> not_worse(PairedFacts(a_only=20, b_only=25, n=1000, delta=0.05), 0.01)
        False
    """
    if not 0.0 <= margin < 1.0:
        raise UsageError(f"`margin` is a difference of error rates from 0 to below 1. Got {margin}.")
    return difference_p_value(facts, -margin) <= facts.delta


@implements("C-19:difference", kind="certificate")
def difference_p_value(facts: PairedFacts, difference: float) -> float:
    r"""A p-value of "``err(A) - err(B)`` is at most ``difference``", for every rate of single errors.

    Statement.  Let ``p - q <= difference``. What is returned is at most ``delta`` with probability at most
                ``delta``.
    Method.     With ``sqrt p + sqrt q <= 1``, x - y is distributed as ``Bin(n, b + t) - Bin(n, b)``, with
                t the difference and ``b (1 - b - t) = q``. Where it is at least ``(n - 1) t + 1`` its tail
                rises in b (Darroch 1964), so the worst q is the Clopper-Pearson upper limit of q at
                ``delta/20``. With ``sqrt p + sqrt q > 1``, just one errs more often than not, and the sign
                test with ``1/2 + t/2s`` in place of 1/2 does, for the worst s between limits of p + q at
                ``delta/20`` each. Both are made, and the larger of the two is returned.
    Direction.  Upper, and it rises in ``difference``. 1 where nothing can be said.

    Example:
        >>> facts = PairedFacts(a_only=60, b_only=20, n=1000, delta=0.05)
        >>> [round(difference_p_value(facts, each), 4) for each in (0.0, 0.02, 0.04)]
        [0.0025, 0.0236, 1.0]
    """
    if not -1.0 < difference < 1.0:
        raise UsageError(f"`difference` lies between -1 and 1. Got {difference}.")
    q_limit = binomial_inverse_upper(facts.b_only, facts.n, math.log(facts.side_delta))
    share = binomial_inverse_upper(facts.discordant, facts.n, math.log(facts.side_delta))
    return _difference_p_value(facts, difference, q_limit=q_limit, share=share)


def _difference_p_value(facts: PairedFacts, difference: float, *, q_limit: float, share: float) -> float:
    few = _few_p_value(facts, difference, q_limit)
    many = _many_p_value(facts, difference, share) if share > 0.5 else 0.0
    return min(1.0, max(few, many))


def _few_p_value(facts: PairedFacts, difference: float, q_limit: float) -> float:
    """The p-value where x - y is a difference of two binomial numbers."""
    seen = facts.a_only - facts.b_only
    if Fraction(difference) * (facts.n - 1) > seen - 1:
        return 1.0  # so near to what was seen, or above, the worst rate of single errors is not known
    if q_limit < -difference:
        return facts.side_delta  # B alone does not err so often
    b = _rate_for(q_limit, difference)
    # the tail rises in a and falls in b: so the rounding of both is covered
    a = min(1.0, max(0.0, b + difference) * (1.0 + 1e-15) + 1e-17)
    tail = _difference_tail(seen, facts.n, a, b * (1.0 - 1e-15))
    return (tail + facts.side_delta) * (1.0 + 1e-15)


def _many_p_value(facts: PairedFacts, difference: float, share: float) -> float:
    """The p-value where just one of the two errs more often than not: with probability s up to ``share``."""
    if difference > 0.0:
        others = binomial_inverse_upper(facts.n - facts.discordant, facts.n, math.log(facts.side_delta))
        share = max(0.5, (1.0 - others) * (1.0 - 1e-15))
    chance = (0.5 + 0.5 * difference / share) * (1.0 + 1e-15)
    if chance <= 0.0:
        return 2.0 * facts.side_delta
    tail = binomial_tail_upper(facts.a_only, facts.discordant, min(1.0, chance))
    return (tail + 2.0 * facts.side_delta) * (1.0 + 1e-15)


def _gain(facts: PairedFacts) -> float:
    """The end of the differences from 0 on that are rejected."""
    q_limit = binomial_inverse_upper(facts.b_only, facts.n, math.log(facts.side_delta))
    share = binomial_inverse_upper(facts.discordant, facts.n, math.log(facts.side_delta))

    def is_rejected(difference: float) -> bool:
        return _difference_p_value(facts, difference, q_limit=q_limit, share=share) <= facts.delta

    low, high = 0.0, (facts.a_only - facts.b_only) / facts.n
    if not is_rejected(low):
        return 0.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if high - low <= _CLOSE * high or not low < middle < high:
            break
        low, high = (middle, high) if is_rejected(middle) else (low, middle)
    return low


def _loss(facts: PairedFacts) -> float:
    """At most so much more often B errs, where it is not called better."""
    share = binomial_inverse_upper(facts.discordant, facts.n, math.log(facts.side_delta))
    wrong = 1.0  # limit of the share of B among the errors of just one
    if facts.discordant:
        rest = math.log(facts.delta) + math.log1p(-SIDE_SHARE) - 1e-13
        wrong = binomial_inverse_upper(facts.b_only, facts.discordant, rest)
    return min(1.0, share * max(SIDE_SHARE, 2.0 * wrong - 1.0) * (1.0 + 1e-15))


def _rate_for(q_limit: float, difference: float) -> float:
    """The least b with ``b (1 - b - difference) >= q_limit``, but for rounding; where none is, the best."""
    gap = 1.0 - difference
    top = 0.5 * gap
    b = min(top, 2.0 * q_limit / (gap + math.sqrt(max(0.0, gap * gap - 4.0 * q_limit))))
    target, exact_gap = Fraction(q_limit), 1 - Fraction(difference)
    widening = 1e-15
    while b < top and Fraction(b) * (exact_gap - Fraction(b)) < target:
        b = min(top, b * (1.0 + widening))
        widening *= 2.0
    return b


def _difference_tail(least: int, n: int, a: float, b: float) -> float:
    """At least ``P(Bin(n, a) - Bin(n, b) >= least)``, and at most 1e-8 (relative) above it, or 1e-299.

    The terms ``P(Bin(n, b) = j) P(Bin(n, a) >= least + j)`` are log-concave in j: where they are left out, a
    geometric series bounds them.
    """
    if least <= -n:
        return 1.0
    if b <= 0.0:
        return binomial_tail_upper(least, n, a)
    tilt = _tilt(least, n, a, b)
    growth = math.log1p(a * math.expm1(tilt)) + math.log1p(b * math.expm1(-tilt))
    if n * growth - tilt * least < -685.0:  # Chernoff's bound says enough, and terms would leave the doubles
        return 1e-297
    share = _tilted(b, -tilt)
    last = min(n, n - least)
    centre = min(round(n * share), last, n - 1)
    width = 30 + int(9.0 * math.sqrt(n * share * (1.0 - share)))
    while True:
        low, high = max(0, centre - width), min(last, centre + width)
        scale, terms = _tail_terms(least, n, a, b, (low, centre, high))
        total = float(terms.sum())
        rest = 0.0 if low == 0 else _geometric_rest(terms[1], terms[0])
        rest += 0.0 if high == last else _geometric_rest(terms[-2], terms[-1])
        if rest <= 1e-10 * total:
            break
        width *= 2
    slack = 1e-9 + 1e-15 * (5 * len(terms) + n)
    return min(1.0, math.exp(min(0.0, scale + math.log(total + rest) + slack)) * (1.0 + 1e-15))


def _tail_terms(
    least: int, n: int, a: float, b: float, window: tuple[int, int, int]
) -> tuple[float, np.ndarray]:
    """The terms from the first to the last of a window, divided by the exponential of what comes first."""
    low, centre, high = window
    middle = min(max(least + centre, 0), n - 1)
    start, stop = max(least + low, 0), least + high  # of Bin(n, a)
    scale_a, mass_a = _masses(n, a, (start, middle, stop))
    scale_b, mass_b = _masses(n, b, window)
    above = math.exp(min(700.0, log_binomial_tail(stop + 1, n, a) - scale_a)) * (1.0 + 1e-13 * n)
    tails = np.cumsum(mass_a[::-1])[::-1] + above
    if least + low < 0:  # Bin(n, a) is never less than nothing
        tails = np.concatenate([np.full(-least - low, tails[0]), tails])
    return scale_a + scale_b, mass_b * tails


def _masses(n: int, p: float, window: tuple[int, int, int]) -> tuple[float, np.ndarray]:
    """``ln P(Bin(n, p) = centre)``, rounded up, and the masses of a window divided by that of its centre."""
    low, centre, high = window
    centre = min(max(centre, low), high)
    odds = p / (1.0 - p) if p < 1.0 else math.inf
    up = np.arange(centre, high, dtype=np.float64)
    down = np.arange(centre, low, -1, dtype=np.float64)
    above = np.cumprod((n - up) / (up + 1.0) * odds)
    below = np.cumprod(down / (n - down + 1.0) / odds)
    return log_binomial_mass_upper(centre, n, p), np.concatenate([below[::-1], [1.0], above])


def _geometric_rest(before: float, last: float) -> float:
    """At least the sum of all terms after the last of a log-concave sequence."""
    ratio = last / before * (1.0 + 1e-9) if before > 0.0 else 0.0
    return last * ratio / (1.0 - ratio) if ratio < 1.0 else math.inf


def _tilted(p: float, tilt: float) -> float:
    """The probability p after its odds were multiplied by ``exp(tilt)``."""
    if tilt <= 0.0:
        return p * math.exp(tilt) / (1.0 + p * math.expm1(tilt))
    return p / (p + (1.0 - p) * math.exp(-tilt))


def _tilt(least: int, n: int, a: float, b: float) -> float:
    """The tilt under which the mean of ``Bin(n, a) - Bin(n, b)`` is ``least``, roughly."""
    low, high = 0.0, 700.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if n * (_tilted(a, middle) - _tilted(b, -middle)) < least:
            low = middle
        else:
            high = middle
    return low
