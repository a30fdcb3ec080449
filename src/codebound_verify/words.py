"""Numbers, claim and assumptions (C-14) of a certificate, in this program's own words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from .development import SENTENCE
from .header import Disagreement, Domain, Header, PartOfPicks, PartOfSample, Picked, Split
from .losses import WRONG

if TYPE_CHECKING:
    from .sample import Repeats

ROWS = (
    "Which rows the sample has, how many and in which order was decided before anybody looked at their "
    "labels, or at the errors of a network."
)
STORED = (
    "The stored numbers were made from each example by itself, or with constants fixed beforehand: nothing "
    "was learned, selected, scaled or rotated with the help of the sample, and no encoder that made them saw "
    "it. Where they are scores or features of a network, the bound means nothing without that."
)
_ENCODER = re.compile("The inputs are rows of the encoder (.*?) [(]SHA-256 ([0-9a-f]{64})")


@dataclass(frozen=True)
class Counted:
    """A number that was counted: ``count`` of ``out_of``, and what it is."""

    what: str
    count: int
    out_of: int

    @property
    def sentence(self) -> str:
        """The number in words."""
        return f"{self.count} of {self.out_of}: {self.what}."


def counts(header: Header) -> tuple[Counted, ...]:
    """Numbers that the bound follows from, each with its meaning."""
    n, extra, is_wrong, found = header.n, header.extra, header.loss == WRONG, []
    if isinstance(extra, Picked) and (extra.picks or not is_wrong):
        picks = header.tally.picks if isinstance(header.tally, PartOfPicks) else extra.picks
        why = "; each counts like an error" if is_wrong else " and that the loss is about"
        found.append(Counted(f"examples that the rule picked to learn from{why}", picks, n))
        n -= picks
    if not is_wrong:
        what = f"losses {header.loss.text} of g, on the examples that it is about"
    elif isinstance(extra, Split):
        what = f"errors of g on the examples after the split (the sample has {n + extra.n_prior})"
    elif isinstance(extra, Picked) and extra.picks:
        what = "errors of g on the examples that were not picked"
    elif isinstance(extra, Picked):
        what = f"errors of g, learned from the {extra.first} others, nothing picked"
    elif isinstance(extra, Domain):
        what = "examples on which the margin of g is at most theta (not training errors: those are fewer)"
    else:  # a base need not have been trained on the sample
        what = f"{'training errors' if header.base is None else 'errors'} of g on the whole sample"
    found.append(Counted(what, header.errors, n))
    if isinstance(extra, Disagreement):
        what = "unlabelled inputs, a second draw, on which f and g disagree"
        found.append(Counted(what, extra.disagreements, extra.n_unlabelled))
    return tuple(found)


def encoders_of(header: Header) -> list[tuple[str, str]]:
    """The encoders that a file says its inputs have gone through: names and hashes."""
    found = (_ENCODER.match(each) for each in header.declarations)
    return [(each[1], each[2]) for each in found if each]


def state_claim(header: Header, *, vacuous: bool) -> str:
    """The guarantee as a sentence; whether it says anything is this program's own judgement."""
    drawn, data = "the sample", "new data"
    if isinstance(extra := header.extra, Disagreement):
        drawn = f"the sample and of the {extra.n_unlabelled} unlabelled inputs"
    if isinstance(extra, Domain):
        data = f"new data with stored values from {extra.input_low} to {extra.input_high}"
    unseen = "the examples after the split" if isinstance(extra, Split) else "the sample"
    if has_encoder := bool(encoders_of(header)):
        data += f", if the encoder never saw {unseen},"
    if header.base is not None:
        data += " and if the base never did," if has_encoder else f", if the base never saw {unseen},"
    return (
        f"With probability at least 1 - {header.delta} over the draw of {drawn}, the {header.loss.claim} of "
        f"{header.subject} on {data} is at most {percent(header.bound)} ({header.bound!r}, "
        f"{header.statement}" + (", VACUOUS)." if vacuous else ").")
    )


def percent(bound: float) -> str:
    """A bound in hundredths of a per cent, not smaller than it is.

    Example:
        >>> percent(0.0737163), percent(0.07)
        ('7.38 %', '7.01 %')
    """
    hundredths = math.ceil(Fraction(bound) * 10_000)
    return f"{hundredths // 100}.{hundredths % 100:02d} %"


def list_assumptions(header: Header, repeats: Repeats | None, developed: str | None) -> tuple[str, ...]:
    """One sentence for each; those that are broken most easily come first."""
    sample = f"the {header.n} examples" + (" after the split" if isinstance(header.extra, Split) else "")
    if isinstance(picked := header.extra, Picked):
        sample += f" after the {picked.first} that the rule starts with"
    lines = []
    if header.base is not None:
        lines.append(
            f"The base, of SHA-256 {header.base.sha256}, was neither trained nor selected on {sample}: "
            f"without that the bound means nothing. The file says that it is {header.base.name!r}."
        )
    lines += [
        f"The encoder {name!r}, of SHA-256 {sha256}, which made the stored numbers, was neither trained nor "
        f"selected on {sample}: without that the bound means nothing. It is not in the file."
        for name, sha256 in encoders_of(header)
    ]
    lines += [
        _format(header, sample, developed),
        ROWS,
        STORED,
        f"Independent draws from the distribution that the claim is about: {sample}.{_copies(repeats)}",
        _choices(header, sample),
    ]
    if isinstance(extra := header.extra, Domain):
        lines.append(f"Every input has stored values from {extra.input_low} to {extra.input_high}.")
    if isinstance(extra, Disagreement):
        lines.append(
            f"The {extra.n_unlabelled} unlabelled inputs are independent draws too, and neither f nor g nor "
            "the loss was chosen with them."
        )
    lines.append(
        "The network is run as it was counted: one example at a time or in batches that change nothing, in "
        "float64 or close enough not to change a prediction."
    )
    return tuple(lines)


def _format(header: Header, sample: str, developed: str | None) -> str:
    if developed is not None:
        return f"{SENTENCE} (The sample is {developed}.)"
    if (page := header.version.page) is not None:
        state = f"its page of SHA-256 {page.sha256}, frozen on {page.frozen}"
        if not page.frozen:
            state = "a draft whose page may still change: keep no file of it"
        return f"The format (version {header.version.number}, {state}) was fixed without looking at {sample}."
    return (
        f"The format (version {header.version.number}, whose words were changed while it was in use) was "
        f"fixed without looking at {sample}."
    )


def _copies(repeats: Repeats | None) -> str:
    if repeats is None or not repeats.equal:
        return ""
    return (
        f" {repeats.equal} of the {repeats.n} in the sample are exact copies of earlier ones, and have to "
        "be draws of their own."
    )


def _choices(header: Header, sample: str) -> str:
    free = [f"delta = {header.delta}"]
    if not header.version.is_second:
        scaling = header.scaling
        free += [
            f"the number of classes, {header.classes}",
            f"the scaling (x / {scaling.divisor} - {scaling.mean}) / {scaling.std}",
        ]
    if isinstance(part := header.tally, PartOfSample):
        free.append(
            f"the part of the data that {header.loss.text} is about, whose share of new data, at least "
            f"{part.share:.4g}, is estimated for this part alone"
        )
    return f"Chosen without looking at {sample}: {'; '.join(free)}."
