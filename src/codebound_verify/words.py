"""Meaning of a certificate's numbers, in this program's own words (docs/format.md, section 7)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from .faults import WRONG
from .header import Disagreement, Domain, Header, PartOfPicks, Picked, Split

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
    errors, n, extra = header.errors, header.n, header.extra
    if header.fault != WRONG:
        return _fault_counts(header)
    if isinstance(extra, Split):
        whole = n + extra.n_prior
        return (Counted(f"errors of g on the examples after the split (the sample has {whole})", errors, n),)
    if isinstance(extra, Picked) and not extra.picks:
        return (Counted(f"errors of g, learned from the {extra.first} others, nothing picked", errors, n),)
    if isinstance(extra, Picked):
        return (
            Counted("examples that the rule picked to learn from; each counts like an error", extra.picks, n),
            Counted("errors of g on the examples that were not picked", errors, n - extra.picks),
        )
    if isinstance(extra, Domain):
        what = "examples on which the margin of g is at most theta (not training errors: those are fewer)"
        return (Counted(what, errors, n),)
    kind = "training errors" if header.base is None else "errors"  # a base need not have been trained on it
    counted = Counted(f"{kind} of g on the whole sample", errors, n)
    if isinstance(extra, Disagreement):
        what = "unlabelled inputs, a second draw, on which f and g disagree"
        return (counted, Counted(what, extra.disagreements, extra.n_unlabelled))
    return (counted,)


def _fault_counts(header: Header) -> tuple[Counted, ...]:
    """The same for a fault."""
    errors, n, extra, tally = header.errors, header.n, header.extra, header.tally
    found = []
    if isinstance(extra, Picked):
        picks = tally.picks if isinstance(tally, PartOfPicks) else extra.picks
        what = "examples that the rule picked to learn from and that the fault can happen on"
        found.append(Counted(what, picks, n))
        n -= picks
    what = f"faults {header.fault.text} of g, on the examples that it can happen on"
    found.append(Counted(what, errors, n))
    if isinstance(extra, Disagreement):
        what = "unlabelled inputs, a second draw, on which f and g disagree"
        found.append(Counted(what, extra.disagreements, extra.n_unlabelled))
    return tuple(found)


def encoders_of(header: Header) -> list[tuple[str, str]]:
    """The encoders that a file says its inputs have gone through: names and hashes."""
    found = (_ENCODER.match(each) for each in header.declarations)
    return [(each[1], each[2]) for each in found if each]


def claimed(header: Header, *, vacuous: bool) -> str:
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
        f"With probability at least 1 - {header.delta} over the draw of {drawn}, the {header.fault.claim} of "
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
