"""Inputs of theorems: records of counts, bits and probabilities, with checked ranges."""

import math
import operator
from dataclasses import dataclass
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


def _make_plain(record: object, *, whole: tuple[str, ...] = (), real: tuple[str, ...] = ()) -> None:
    """Turns numbers of numpy or torch into Python's own, which neither overflow nor carry fewer digits."""
    for name in (*whole, *real):
        value = getattr(record, name)
        if value is None:
            continue
        try:
            plain: float = operator.index(value)
        except TypeError:
            if name in whole or isinstance(value, str):
                kind = "whole number" if name in whole else "number"
                raise UsageError(f"`{name}` is a {kind}. Got {value!r}.") from None
            plain = float(value)
        object.__setattr__(record, name, plain)


def check_counts(errors: int, n: int) -> None:
    """Refuses counts that no sample can have."""
    if not 1 <= n <= MAX_N:
        raise UsageError(f"`n` is a sample size from 1 to {MAX_N:,}. Got n={n}.")
    if not 0 <= errors <= n:
        raise UsageError(f"`errors` must lie between 0 and n={n}. Got errors={errors}.")


def check_delta(delta: float) -> None:
    """Refuses a failure probability outside (0, 1)."""
    if not 0.0 < delta < 1.0:
        raise UsageError(f"`delta` is a failure probability strictly between 0 and 1. Got delta={delta}.")


def check_bits(code_bits: float) -> None:
    """Refuses a length that no message has."""
    if not 0.0 <= code_bits <= MAX_CODE_BITS:
        raise UsageError(f"`code_bits` is a length from 0 to {MAX_CODE_BITS:,} bits. Got {code_bits}.")


def _nats(code_bits: float, delta: float) -> float:
    """``ln(1/(delta 2**-code_bits))``, rounded up: what the sample has to pay for."""
    return (code_bits * math.log(2.0) - math.log(delta)) * (1.0 + 1e-15)


def check_classes(classes: int | None) -> None:
    """Refuses a number of classes below two."""
    if classes is not None and classes < 2:
        raise UsageError(f"`classes` must be at least 2 (or left out when unknown). Got classes={classes}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OccamFacts:
    """The inputs of an Occam bound.

    Attributes:
        errors: Examples of the sample on which the decoded network errs; ties and NaN are errors.
        n: Sample size.
        code_bits: Length of the complete prefix-free message, headers included. Real lengths are allowed:
            only the prior mass ``2**-code_bits`` is used.
        delta: Failure probability over the draw of the sample.
        classes: Number of classes, which decides when a bound is vacuous; None when unknown.
    """

    errors: int
    n: int
    code_bits: float
    delta: float
    classes: int | None = None

    def __post_init__(self) -> None:
        _make_plain(self, whole=("errors", "n", "classes"), real=("code_bits", "delta"))
        check_counts(self.errors, self.n)
        check_delta(self.delta)
        check_bits(self.code_bits)
        check_classes(self.classes)

    @property
    def error_rate(self) -> float:
        """Training error of the decoded network, rounded up."""
        return error_rate_up(self.errors, self.n)

    @property
    def nats(self) -> float:
        """``ln(1/(delta 2**-code_bits))``, rounded up: what the sample has to pay for."""
        return _nats(self.code_bits, self.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutFacts:
    """Errors of one network on examples that were used for no choice whatsoever.

    Attributes:
        errors: Errors on the fresh examples.
        n: Number of fresh examples.
        delta: Failure probability over the draw of the fresh examples.
        networks: How many networks were tested on these examples; the level is shared between them.
        classes: Number of classes; None when unknown.
        subject: Which network was tested.
    """

    errors: int
    n: int
    delta: float
    networks: int = 1
    classes: int | None = None
    subject: Subject = "g"

    def __post_init__(self) -> None:
        _make_plain(self, whole=("errors", "n", "networks", "classes"), real=("delta",))
        check_counts(self.errors, self.n)
        check_delta(self.delta)
        check_classes(self.classes)
        if not 1 <= self.networks <= MAX_N:
            raise UsageError(f"`networks` counts the networks tested, at least 1. Got {self.networks}.")
        if self.subject not in get_args(Subject):
            raise UsageError(f"`subject` is 'g', the decoded network, or 'f'. Got {self.subject!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginFacts:
    """Counts for the margin route: the original network f has a margin, the decoded one g is close to it.

    Attributes:
        counted: The Occam facts, with ``errors`` counting the examples where the margin of f is at most
            theta, and those where g is not close to f (the outliers).
        outliers: How many of those are outliers.
        theta: Margin that absorbs the deviation (see ``margin_for_deviation``); recorded, not used.
    """

    counted: OccamFacts
    outliers: int
    theta: float

    def __post_init__(self) -> None:
        _make_plain(self, whole=("outliers",), real=("theta",))
        if not 0 <= self.outliers <= self.counted.errors:
            raise UsageError(
                f"outliers are among the counted examples: between 0 and {self.counted.errors}. "
                f"Got outliers={self.outliers}."
            )
        if not 0.0 <= self.theta < math.inf:
            raise UsageError(f"`theta` is a finite margin >= 0. Got theta={self.theta}.")

    @property
    def classes(self) -> int | None:
        """Number of classes; None when unknown."""
        return self.counted.classes


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFacts:
    """A sample cut in two by a rule that ignores the data; the first part shaped the helper.

    Attributes:
        certify: The Occam facts of the second part alone: its size, the errors there, and the length of the
            message given the helper, including the code of the split fraction.
        n_prior: Size of the first part: the helper may be any function of it.
    """

    certify: OccamFacts
    n_prior: int

    def __post_init__(self) -> None:
        _make_plain(self, whole=("n_prior",))
        check_counts(0, self.n_prior)

    @property
    def classes(self) -> int | None:
        """Number of classes; None when unknown."""
        return self.certify.classes


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainFacts:
    """Errors of g at a margin that covers its deviation from f on the whole declared domain.

    Attributes:
        at_theta: The Occam facts, with ``errors`` counting the examples where the margin of g is at most
            theta, and ``code_bits`` without the code of theta.
        theta_index: Index j of theta on the published grid ``2**(j/8)`` (see ``theta_on_grid``).
    """

    at_theta: OccamFacts
    theta_index: int

    def __post_init__(self) -> None:
        _make_plain(self, whole=("theta_index",))
        if abs(self.theta_index) > 8000:
            raise UsageError(f"`theta_index` must lie in [-8000, 8000]. Got {self.theta_index}.")

    @property
    def classes(self) -> int | None:
        """Number of classes; None when unknown."""
        return self.at_theta.classes


@dataclass(frozen=True, slots=True, kw_only=True)
class DisagreementFacts:
    """Errors of g on labelled examples and its disagreements with f on fresh unlabelled inputs.

    Attributes:
        risk: The Occam facts of g.
        disagreement: Hold-out facts with ``errors`` counting the inputs on which f and g predict differently
            or either is ambiguous. The two failure probabilities add up.
    """

    risk: OccamFacts
    disagreement: HoldoutFacts

    def __post_init__(self) -> None:
        check_delta(self.delta)

    @property
    def delta(self) -> float:
        """Total failure probability."""
        return self.risk.delta + self.disagreement.delta

    @property
    def classes(self) -> int | None:
        """Number of classes; None when unknown."""
        return self.risk.classes


@dataclass(frozen=True, slots=True, kw_only=True)
class PickedFacts:
    """Picks of a rule, and errors on the examples not picked.

    Attributes:
        picks: Examples that the rule picked, each copy counted.
        errors: Examples that were not picked and are still wrong.
        n: Examples that could be picked: the sample without the first ones.
        delta: Failure probability over the draw of the sample.
        code_bits: Length of the message that names the rule among those fixed beforehand.
        n_first: Examples that were set apart first, in an order that ignores the data: learned from, and
            never counted.
        classes: Number of classes; None when unknown.
        is_held_out: Whether the rule picks nothing, whatever the sample: then what is not first is a hold-out
            set. (Of a part of the data nothing may have been picked by a rule that picks.)
    """

    picks: int
    errors: int
    n: int
    delta: float
    code_bits: float = 0.0
    n_first: int = 0
    classes: int | None = None
    is_held_out: bool = False

    def __post_init__(self) -> None:
        _make_plain(self, whole=("picks", "errors", "n", "n_first", "classes"), real=("code_bits", "delta"))
        check_counts(self.errors, self.n)
        check_delta(self.delta)
        check_bits(self.code_bits)
        check_classes(self.classes)
        if not 0 <= self.picks <= self.n - self.errors:
            raise UsageError(
                f"`picks` and `errors` are different examples among n={self.n}: together at most as many. "
                f"Got picks={self.picks}, errors={self.errors}."
            )
        if not 0 <= self.n_first <= MAX_N:
            raise UsageError(f"`n_first` counts the examples set apart first. Got {self.n_first}.")
        if self.is_held_out and self.picks:
            raise UsageError(f"a hold-out set has no picks. Got picks={self.picks}.")

    @property
    def counted(self) -> int:
        """Size of what the sample is compressed to: the picks and the errors."""
        return self.picks + self.errors

    @property
    def nats(self) -> float:
        """``ln(1/(delta 2**-code_bits))``, rounded up."""
        return _nats(self.code_bits, self.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookFacts:
    """Errors of one network on examples that other networks were tried on before.

    Attributes:
        errors: Errors on the examples, or a number that they do not exceed.
        n: Number of examples.
        delta: Failure probability over the draw of the examples, of all looks together.
        looks: Looks planned beforehand, which share delta equally; None for a plan without an end.
        number: Which look this is among those that were not of a listed network; a plan without an end
            gives it the share ``1 / (number (number + 1))``.
        answer_bits: Length of all answers that were told before this network was chosen; 0 for a network
            that was listed before the first look.
        classes: Number of classes; None when unknown.
    """

    errors: int
    n: int
    delta: float
    looks: int | None = 1
    number: int = 1
    answer_bits: float = 0.0
    classes: int | None = None

    def __post_init__(self) -> None:
        _make_plain(self, whole=("errors", "n", "looks", "number", "classes"), real=("delta", "answer_bits"))
        check_counts(self.errors, self.n)
        check_delta(self.delta)
        check_bits(self.answer_bits)
        check_classes(self.classes)
        if not 1 <= self.number <= (MAX_N if self.looks is None else self.looks) <= MAX_N:
            raise UsageError(
                f"a look has a number from 1 to the looks planned. Got number={self.number}, "
                f"looks={self.looks}."
            )

    @property
    def nats(self) -> float:
        """``ln(1/(delta share 2**-answer_bits))``, rounded up."""
        parts = self.number * (self.number + 1) if self.looks is None else self.looks
        return _nats(self.answer_bits, self.delta) + math.log(parts) * (1.0 + 1e-15)


Facts = (
    OccamFacts
    | HoldoutFacts
    | MarginFacts
    | SplitFacts
    | DisagreementFacts
    | DomainFacts
    | PickedFacts
    | LookFacts
)
"""Any record that a certified bound may be computed from."""
