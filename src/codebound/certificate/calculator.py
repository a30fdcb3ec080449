"""Calculator of bounds from counts, by the theorems of certificates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codebound.bounds.adaptive_holdout import exact_answer_bits, looked_risk
from codebound.bounds.facts import HoldoutFacts, LookFacts, OccamFacts, PickedFacts
from codebound.bounds.held_out import holdout
from codebound.bounds.occam import occam_binomial, occam_hoeffding, occam_kl
from codebound.bounds.picked import picked_risk
from codebound.bounds.risk import claim_sentence, percent
from codebound.run.errors import UsageError
from codebound.sample.losses import parse_fault

if TYPE_CHECKING:
    from codebound.bounds.risk import RiskBound
    from codebound.sample.losses import Fault

_PICKED = ("C-15", "learned from picked examples: the sample is its own test set")
_LOOKED = ("C-16", "the examples were looked at before: every look is paid for")
_FIXED = ("C-16", "for comparison: had all networks been fixed before the first was tried")
_HOLDOUT = ("C-11", "Clopper-Pearson limit: the examples were used for no choice")
_BINOMIAL = ("C-2", "exact binomial tail: the certificate")
_KL = ("C-3", "Chernoff-kl form, never below the binomial one")
_HOEFFDING = ("C-4", "training error plus a square root, the form that papers print")
_ONCE = ("C-11", "for comparison: had this been the only look")
_AS_MANY = (
    "C-11",
    "for comparison: a hold-out set of n examples with as many errors as picks and errors",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts on a sample, and their price in bits or looks.

    Attributes:
        n: Sample size.
        errors: Errors of the network on the sample.
        bits: Length of the whole message; with picks, of what names the rule; with looks, of the answers that
            the network was chosen with: by default, the numbers of errors of all other networks.
        picks: Examples that a fixed rule picked; errors are then counted among the others.
        fault: What was counted, for the sentence.
        delta: Failure probability over the draw of the sample.
        classes: Number of classes; None when unknown.
        is_holdout: Whether the examples are fresh.
        looks: Networks that were tried on fresh examples, this one among them.
        is_fixed_before: Whether all of them were fixed before the first was tried: no answer led to another.
    """

    n: int
    errors: int
    bits: float | None = None
    picks: int | None = None
    fault: str | None = None
    delta: float = 0.05
    classes: int | None = None
    is_holdout: bool = False
    looks: int | None = None
    is_fixed_before: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """One bound, with the ID of its statement and what it is."""

    name: str
    ref: str
    value: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Calculation:
    """The bounds that follow, the one that was asked for first.

    Attributes:
        forms: The bounds.
        sentence: What the first says.
        vacuous: Whether it says no more than guessing.
        condition: What has to be true of the looks; empty where there were none before.
    """

    forms: tuple[Form, ...]
    sentence: str
    vacuous: bool
    condition: str = ""

    def record(self) -> dict[str, Any]:
        """As JSON."""
        values: dict[str, Any] = {each.name: each.value for each in self.forms}
        values["vacuous"] = self.vacuous
        return values | ({"provided": self.condition} if self.condition else {})


def calculate(counts: Counts) -> Calculation:
    """The bounds for what was counted: by a message, by picks, on fresh examples, after looks, with faults.

    Raises:
        UsageError: Counts contradict each other, or one is missing.

    Example:
        >>> calculate(Counts(errors=300, n=60_000, bits=5000)).sentence[-57:]
        'the decoded network g errs on at most 7.38 % of new data.'
    """
    fault, condition = _named_fault(counts), _condition(counts)
    is_holdout, bits, picks, looks = counts.is_holdout, counts.bits, counts.picks, counts.looks
    if is_holdout and ((bits and looks is None) or picks is not None):
        raise UsageError("a hold-out bound has neither message nor picks: leave out bits and picks.")
    if looks is not None and not is_holdout:
        raise UsageError("looks counts looks at hold-out examples: give holdout too.")
    if not is_holdout and bits is None and picks is None:
        raise UsageError(
            "bits is missing: the length of the message, or holdout for fresh examples, or picks."
        )
    bounds = _plain(counts)
    forms = tuple(Form(name, ref, bound.value, told) for name, (bound, (ref, told)) in bounds.items())
    best, _ = next(iter(bounds.values()))
    sentence = best.sentence
    if condition:
        sentence = claim_sentence(
            best.subject,
            best.value,
            delta=best.delta,
            vacuous=best.vacuous,
            drawn="test sample",
            provided=condition,
        )
    if is_holdout or picks is not None:
        sentence = sentence.replace("the decoded network g", "the network")
    if fault is not None:
        shown = percent(best.value)
        sentence = sentence.replace(parse_fault("wrong").says(shown), fault.says(shown))
    return Calculation(forms, sentence, best.vacuous, condition)


def _condition(counts: Counts) -> str:
    """Condition of the bound on the looks, in words. Empty if there is none."""
    if counts.is_fixed_before and (counts.looks is None or counts.bits):
        raise UsageError(
            "where all networks were fixed before the first look, there were looks, and no answer was used: "
            "give looks, and leave out bits."
        )
    if counts.looks is None or counts.looks == 1:
        return ""
    if counts.is_fixed_before:
        return f"all {counts.looks:,} networks were fixed before the first was tried"
    if counts.bits is not None:
        return f"all that was known of the examples when it was chosen is in answers of {counts.bits:g} bits"
    return (
        "nothing was known of the examples when it was chosen but the numbers of errors of the other networks"
    )


def _answer_bits(counts: Counts) -> float:
    """Length of the answers that the network was chosen with, or of the message."""
    if counts.bits is not None or counts.looks in (None, 1) or counts.is_fixed_before:
        return counts.bits or 0.0
    assert counts.looks is not None
    return exact_answer_bits(counts.looks - 1, n=counts.n)


def _named_fault(counts: Counts) -> Fault | None:
    if counts.fault is None:
        return None
    fault = parse_fault(counts.fault)
    return fault if fault.is_of_values else parse_fault(counts.fault, classes=counts.classes)


def _plain(counts: Counts) -> dict[str, tuple[RiskBound, tuple[str, str]]]:
    """Bounds on a share of errors, with what each is."""
    errors, bits = counts.errors, _answer_bits(counts)
    told = OccamFacts(errors=errors, n=counts.n, code_bits=bits, delta=counts.delta, classes=counts.classes)
    common: dict[str, Any] = {"n": told.n, "delta": told.delta, "classes": told.classes}
    if counts.picks is not None:
        facts = PickedFacts(picks=counts.picks, errors=errors, code_bits=bits, **common)
        fresh = holdout(HoldoutFacts(errors=facts.counted, **common))
        return {"picked": (picked_risk(facts), _PICKED), "holdout": (fresh, _AS_MANY)}
    if counts.looks is not None:
        used = looked_risk(LookFacts(errors=errors, looks=counts.looks, answer_bits=bits, **common))
        once = holdout(HoldoutFacts(errors=errors, **common))
        fixed = looked_risk(LookFacts(errors=errors, looks=counts.looks, **common))
        between = {"fixed": (fixed, _FIXED)} if bits else {}
        return {"looked": (used, _LOOKED), **between, "holdout": (once, _ONCE)}
    forms = {
        "binomial": (occam_binomial(told), _BINOMIAL),
        "kl": (occam_kl(told), _KL),
        "hoeffding": (occam_hoeffding(told), _HOEFFDING),
    }
    if not counts.is_holdout:
        return forms
    return {"holdout": (holdout(HoldoutFacts(errors=errors, **common)), _HOLDOUT), **forms}
