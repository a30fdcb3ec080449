"""Calculator of bounds from counts, by the theorems of certificates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codebound.bounds.held_out import holdout, looked_risk, picked_risk, sorted_answer_bits
from codebound.bounds.occam import occam_binomial, occam_hoeffding, occam_kl
from codebound.bounds.risk import HoldoutFacts, LookFacts, OccamFacts, PickedFacts, claim_sentence, percent
from codebound.run.errors import UsageError
from codebound.sample.losses import parse_loss

if TYPE_CHECKING:
    from codebound.bounds.risk import RiskBound

_MEANINGS = {
    "picked": "learned from picked examples: the sample is its own test set",
    "looked": "the examples were looked at before: every look is paid for",
    "fixed": "for comparison: had all networks been fixed before the first was tried",
    "holdout": "Clopper-Pearson limit: the examples were used for no choice",
    "binomial": "exact binomial tail: the certificate",
    "kl": "Chernoff-kl form, never below the binomial one",
    "hoeffding": "training error plus a square root, the form that papers print",
}
_BESIDE = {
    "picked": "for comparison: a hold-out set of n examples with as many errors as picks and errors",
    "looked": "for comparison: had this been the only look",
}
"""The meaning of a hold-out limit that stands beside these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts on a sample, and their price in bits or looks.

    Bits are the length of the whole message; with picks, of what names the rule; with looks, of the answers
    that the network was chosen with: by default, the numbers of errors of all other networks.
    """

    n: int
    errors: int
    bits: float | None = None
    picks: int | None = None  # of a fixed rule; errors are then counted among the other examples
    loss: str | None = None
    delta: float = 0.05
    classes: int | None = None
    is_holdout: bool = False  # the examples are fresh
    looks: int | None = None  # networks that were tried on fresh examples, this one among them
    is_fixed_before: bool = False  # all of them were fixed before the first was tried


@dataclass(frozen=True, slots=True)
class Form:
    """One bound, with the ID of its statement and what it is."""

    name: str
    ref: str
    value: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Calculation:
    """The bounds that follow, the one that was asked for first."""

    forms: tuple[Form, ...]
    sentence: str  # of the first
    vacuous: bool
    condition: str = ""  # on the looks; empty where there were none before

    def record(self) -> dict[str, Any]:
        """As JSON."""
        values: dict[str, Any] = {each.name: each.value for each in self.forms}
        values["vacuous"] = self.vacuous
        return values | ({"provided": self.condition} if self.condition else {})


def calculate(counts: Counts) -> Calculation:
    """The bounds for what was counted: by a message, by picks, on fresh examples, after looks, with losses.

    Example:
        >>> calculate(Counts(errors=300, n=60_000, bits=5000)).sentence[-50:]
        'the classifier errs on at most 7.38 % of new data.'
    """
    condition = _condition(counts)
    is_holdout, bits, picks, looks = counts.is_holdout, counts.bits, counts.picks, counts.looks
    if is_holdout and ((bits and looks is None) or picks is not None):
        raise UsageError("a hold-out bound has neither message nor picks: leave out bits and picks.")
    if looks is not None and not is_holdout:
        raise UsageError("looks counts looks at hold-out examples: give holdout too.")
    if not is_holdout and bits is None and picks is None:
        raise UsageError(
            "bits is missing: the length of the message, or holdout for fresh examples, or picks."
        )
    bounds = _bounds(counts)
    first, best = next(iter(bounds.items()))
    meanings = _MEANINGS | ({"holdout": _BESIDE[first]} if first in _BESIDE else {})
    forms = tuple(Form(name, bound.ref, bound.value, meanings[name]) for name, bound in bounds.items())
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
    sentence = sentence.replace("the given network", "the classifier")
    if counts.loss is not None:
        shown, loss = percent(best.value), parse_loss(counts.loss)
        if not loss.is_of_values:
            loss = parse_loss(counts.loss, classes=counts.classes)
        sentence = sentence.replace(parse_loss("wrong").says(shown), loss.says(shown))
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


def _bounds(counts: Counts) -> dict[str, RiskBound]:
    """Bounds on a share of errors, the one that was asked for first."""
    errors, bits = counts.errors, counts.bits or 0.0
    if counts.bits is None and (counts.looks or 1) > 1 and not counts.is_fixed_before:
        bits = ((counts.looks or 1) - 1) * sorted_answer_bits(counts.n, bins=2)
    told = OccamFacts(errors=errors, n=counts.n, code_bits=bits, delta=counts.delta, classes=counts.classes)
    common: dict[str, Any] = {"n": told.n, "delta": told.delta, "classes": told.classes}
    if counts.picks is not None:
        facts = PickedFacts(picks=counts.picks, errors=errors, code_bits=bits, **common)
        return {
            "picked": picked_risk(facts),
            "holdout": holdout(HoldoutFacts(errors=facts.counted, **common)),
        }
    fresh = {"holdout": holdout(HoldoutFacts(errors=errors, **common))}
    if counts.looks is not None:
        used = looked_risk(LookFacts(errors=errors, looks=counts.looks, answer_bits=bits, **common))
        fixed = {"fixed": looked_risk(LookFacts(errors=errors, looks=counts.looks, **common))} if bits else {}
        return {"looked": used, **fixed, **fresh}
    forms = {"binomial": occam_binomial(told), "kl": occam_kl(told), "hoeffding": occam_hoeffding(told)}
    return fresh | forms if counts.is_holdout else forms
