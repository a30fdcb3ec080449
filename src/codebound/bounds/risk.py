"""Inputs and results of theorems: counts with checked ranges, and bounds in words."""

import math
import operator
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Literal, get_args

from codebound.bounds.numerics import round_up
from codebound.run.errors import UsageError

Subject = Literal["g", "f"]
"""Network whose risk is bounded: ``g``, the decoded one, or ``f``, the original."""

MAX_N = 10**12
MAX_CODE_BITS = 10**12


def error_rate_up(errors: int, n: int) -> float:
    """``errors / n``, rounded up, and never above 1."""
    return min(1.0, round_up(errors / n)) if errors else 0.0


def check_counts(errors: int, n: int) -> None:
    """Refuses counts that no sample can have."""
    if not 1 <= n <= MAX_N:
        raise UsageError(f"`n` is a sample size from 1 to {MAX_N:,}. Got n={n}.")
    if not 0 <= errors <= n:
        raise UsageError(f"`errors` must lie between 0 and n={n}. Got errors={errors}.")


def check_delta(delta: object) -> float:
    """Python's own number for a failure probability; what is outside (0, 1) is refused."""
    if not isinstance(delta, Real | Decimal) or not 0.0 < (number := float(delta)) < 1.0:
        raise UsageError(f"`delta` is a failure probability strictly between 0 and 1. Got {delta!r}.")
    return number


def whole_number(name: str, value: object) -> int:
    """Python's own number for a count, which neither overflows nor has a fraction."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"`{name}` is a whole number. Got {value!r}.") from None


def check_bits(code_bits: float) -> None:
    """Refuses a length that no message has."""
    if not 0.0 <= code_bits <= MAX_CODE_BITS:
        raise UsageError(f"`code_bits` is a length from 0 to {MAX_CODE_BITS:,} bits. Got {code_bits}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstractFacts:
    """The inputs that all bounds have in common.

    Attributes:
        errors: Examples on which the network errs; ties and NaN are errors.
        n: Number of examples.
        delta: Failure probability over the draw of the examples.
        classes: Number of classes, which decides when a bound is vacuous; None when unknown.
    """

    errors: int
    n: int
    delta: float
    classes: int | None = None

    def __post_init__(self) -> None:
        # numbers of numpy or torch become Python's own, which neither overflow nor carry fewer digits
        for name, kind in ((each.name, each.type) for each in fields(self)):
            value = getattr(self, name)
            if kind not in (int, int | None, float) or value is None:
                continue
            try:
                plain: float = operator.index(value)
            except TypeError:
                if kind is not float or isinstance(value, str):
                    wanted = "number" if kind is float else "whole number"
                    raise UsageError(f"`{name}` is a {wanted}. Got {value!r}.") from None
                plain = float(value)
            object.__setattr__(self, name, plain)
        check_counts(self.errors, self.n)
        check_delta(self.delta)
        if self.classes is not None and self.classes < 2:
            raise UsageError(
                f"`classes` must be at least 2 (or left out when unknown). Got classes={self.classes}."
            )

    def _nats(self, code_bits: float) -> float:
        """``ln(1/(delta 2**-code_bits))``, rounded up: what the sample has to pay for."""
        return (code_bits * math.log(2.0) - math.log(self.delta)) * (1.0 + 1e-15)


@dataclass(frozen=True, slots=True, kw_only=True)
class OccamFacts(AbstractFacts):
    """The inputs of an Occam bound: errors of the decoded network on the sample.

    ``code_bits`` is the length of the complete prefix-free message, headers included. Real lengths are
    allowed: only the prior mass ``2**-code_bits`` is used.
    """

    code_bits: float

    def __post_init__(self) -> None:
        AbstractFacts.__post_init__(self)
        check_bits(self.code_bits)

    @property
    def error_rate(self) -> float:
        """Training error of the decoded network, rounded up."""
        return error_rate_up(self.errors, self.n)

    @property
    def nats(self) -> float:
        """``ln(1/(delta 2**-code_bits))``, rounded up."""
        return self._nats(self.code_bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutFacts(AbstractFacts):
    """Errors of one network, the subject, on examples that were used for no choice whatsoever."""

    subject: Subject = "g"

    def __post_init__(self) -> None:
        AbstractFacts.__post_init__(self)
        if self.subject not in get_args(Subject):
            raise UsageError(f"`subject` is 'g', the decoded network, or 'f'. Got {self.subject!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PickedFacts(AbstractFacts):
    """Picks of a rule, and errors on the examples not picked.

    Attributes:
        errors: Examples that were not picked and are still wrong.
        n: Examples that could be picked: the sample without the first ones.
        picks: Examples that the rule picked, each copy counted.
        code_bits: Length of the message that names the rule among those fixed beforehand.
    """

    picks: int
    code_bits: float = 0.0

    def __post_init__(self) -> None:
        AbstractFacts.__post_init__(self)
        check_bits(self.code_bits)
        if not 0 <= self.picks <= self.n - self.errors:
            raise UsageError(
                f"`picks` and `errors` are different examples among n={self.n}: together at most as many. "
                f"Got picks={self.picks}, errors={self.errors}."
            )

    @property
    def counted(self) -> int:
        """Size of what the sample is compressed to: the picks and the errors."""
        return self.picks + self.errors

    @property
    def nats(self) -> float:
        """``ln(1/(delta 2**-code_bits))``, rounded up."""
        return self._nats(self.code_bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookFacts(AbstractFacts):
    """Errors of one network on examples that other networks were tried on before.

    Attributes:
        errors: Errors on the examples, or a number that they do not exceed.
        delta: Failure probability over the draw of the examples, of all looks together.
        looks: Looks planned beforehand, which share delta equally; None for a plan without an end.
        number: Which look this is among those that were not of a listed network; a plan without an end
            gives it the share ``1 / (number (number + 1))``.
        answer_bits: Length of all answers that were told before this network was chosen; 0 for a network
            that was listed before the first look.
    """

    looks: int | None = 1
    number: int = 1
    answer_bits: float = 0.0

    def __post_init__(self) -> None:
        AbstractFacts.__post_init__(self)
        check_bits(self.answer_bits)
        if not 1 <= self.number <= (MAX_N if self.looks is None else self.looks) <= MAX_N:
            raise UsageError(
                f"a look has a number from 1 to the looks planned. Got number={self.number}, "
                f"looks={self.looks}."
            )

    @property
    def nats(self) -> float:
        """``ln(1/(delta share 2**-answer_bits))``, rounded up."""
        parts = self.number * (self.number + 1) if self.looks is None else self.looks
        return self._nats(self.answer_bits) + math.log(parts) * (1.0 + 1e-15)


TWO_DRAWS = "sample and of the unlabelled inputs"
"""Draws behind a bound that uses labelled and unlabelled examples."""


def percent(bound: float, digits: int = 2) -> str:
    """A bound in per cent, rounded up: what is printed must not be smaller than what was proved.

    Example:
        >>> percent(0.0737163)
        '7.38 %'
    """
    scale = 10**digits  # a product of floats could round down what has to be rounded up
    return f"{math.ceil(Fraction(bound) * 100 * scale) / scale:.{digits}f} %"


def rate(share: float, digits: int = 2) -> str:
    """A share that was counted, in per cent: rounded to the nearest, because nothing is promised.

    Example:
        >>> rate(155 / 1437)
        '10.79 %'
    """
    return f"{100.0 * share:.{digits}f} %"


def count_of(number: float, one: str, many: str = "", *, form: str = "") -> str:
    """A number of things in words; without ``many``, several are called ``one`` with an s.

    Example:
        >>> count_of(1, "look"), count_of(2, "look"), count_of(1, "file was", "files were")
        ('1 look', '2 looks', '1 file was')
    """
    return f"{number:{form}} {one if number == 1 else many or one + 's'}"


def claim_sentence(
    subject: Subject,
    bound: float,
    *,
    delta: float,
    vacuous: bool,
    drawn: str = "sample",
    provided: str = "",
    does: str | None = None,
) -> str:
    """A guarantee in words.

    Args:
        subject, bound, delta: The network, the bound on its risk, and its failure probability.
        vacuous: Whether guessing does as well.
        drawn: Where the failure probability comes from.
        provided: What else has to be true, and is at risk.
        does: What the network does at most that often, where it is no plain error.

    Example:
        >>> claim_sentence("g", 0.0737163, delta=0.05, vacuous=False)[-50:]
        'the classifier errs on at most 7.38 % of new data.'
    """
    who = {"g": "the classifier", "f": "the given network"}[subject]
    condition = f", provided that {provided}" if provided else ""
    claim = (
        f"With probability at least 1 - {delta!r} over the draw of the {drawn}, "
        f"{who} {does or f'errs on at most {percent(bound)} of new data'}{condition}."
    )
    return claim + (" VACUOUS: guessing does as well." if vacuous else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskBound:
    """An upper bound on a 0-1 risk that holds with probability at least ``1 - delta``: true as printed.

    Attributes:
        ref: ID of the statement in docs/references.md.
        value: The bound, in [0, 1].
        delta: Total failure probability.
        facts: The counts that the statement was told.
        drawn: Where the failure probability comes from.
    """

    ref: str
    value: float
    delta: float
    subject: Subject
    facts: AbstractFacts
    drawn: str = "sample"

    @property
    def vacuous(self) -> bool:
        """Return True if the bound says no more than guessing.

        That is a value of at least ``1 - 1/classes``, or 1 if the number of classes is unknown.
        """
        classes = self.facts.classes
        return self.value >= (1.0 if classes is None else 1.0 - 1.0 / classes)

    @property
    def sentence(self) -> str:
        """The claim as a sentence."""
        return claim_sentence(
            self.subject, self.value, delta=self.delta, vacuous=self.vacuous, drawn=self.drawn
        )
