"""The checks of every certificate, one function each; all raise :class:`Refused` with every reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mpmath
import numpy as np

from .formulas import DIGITS, SLACK, Forms, clopper_pearson, is_honest, least_share, occam, picked
from .header import Disagreement, Domain, Header, PartOfPicks, PartOfSample, Picked, Split
from .losses import WRONG
from .refusal import Refused
from .sample import (
    Inputs,
    Labels,
    Repeats,
    canonical_inputs,
    canonical_labels,
    is_standardised,
    permutation,
    sample_sha256,
    statistics_in,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def counted_places(header: Header, y: Labels) -> NDArray[np.int64]:
    """Indices of the counted examples: not set apart, with a label that allows the loss."""
    apart = set_apart(header)
    places = permutation(len(y))[apart:] if apart else np.arange(len(y))
    return places[header.loss.possible(y[places])]


def counted_part(header: Header, y: Labels) -> NDArray[np.int64] | slice:
    """The same to index with; of a large sample where all count, no list is made."""
    return counted_places(header, y) if set_apart(header) or header.loss.is_partial else slice(None)


def count_commonest(header: Header, y: Labels) -> int:
    """Number of counted examples with the commonest label."""
    return int(np.bincount(y[counted_part(header, y)]).max(initial=0))


def check_rows(header: Header, repeats: Repeats, commonest: int, *, allow_copies: bool) -> None:
    """Check that copies are as many as stated, and few (section 6.2), and so the commonest label."""
    reasons = [
        f"Facts: {name} is {stated}; this sample has {found}."
        for name, stated, found in (
            ("commonest", header.commonest, commonest),
            ("copies", header.copies, repeats.copies),
            ("contradictions", header.contradictions, repeats.contradictions),
        )
        if stated not in (None, found)
    ]
    reasons += too_many(repeats, "examples of the sample", allow_copies=allow_copies)
    if reasons:
        raise Refused(*reasons)


def too_many(repeats: Repeats, what: str, *, allow_copies: bool) -> list[str]:
    """The reason to refuse, where more than one in a hundred is a copy and nobody vouches for them."""
    if allow_copies or 100 * repeats.equal <= repeats.n:
        return []
    reason = (
        f"Data: {repeats.equal} of the {repeats.n} {what} are exact copies of earlier ones, more than one "
        "in a hundred: hardly independent draws. If they are, say so with --allow-copies."
    )
    return [reason]


def check_scaling(header: Header, x: Inputs) -> None:
    """Refuse a scaling whose constants are statistics of the sample (section 6.1)."""
    reasons = [
        f"Scaling: {constant} is a statistic of this very sample, so it was not fixed without looking at it."
        for constant in statistics_in(header.scaling, x)
    ]
    if is_standardised(x):
        reasons.append(
            "Scaling: every stored feature has mean 0 and deviation 1 on this very sample: it was "
            "standardised with statistics of the sample, which the message does not pay for."
        )
    if reasons:
        raise Refused(*reasons)


def set_apart(header: Header) -> int:
    """Number of examples that precede the counted ones in the permutation."""
    if isinstance(header.extra, Split):
        return header.extra.n_prior
    return header.extra.first if isinstance(header.extra, Picked) else 0


def match_sample(header: Header, x: Inputs, y: Inputs) -> tuple[Inputs, Labels]:
    """The whole sample in canonical form, if it is the one that the header names (section 2)."""
    x = canonical_inputs(x)
    labels = canonical_labels(y, len(x))
    reasons = []
    expected = header.n + set_apart(header)
    if header.loss == WRONG and len(x) != expected:
        reasons.append(f"Data: the sample has {len(x)} examples; the certificate is about {expected}.")
    elif (counted := len(labels[counted_part(header, labels)])) != header.n:
        reasons.append(
            f"Data: {counted} of the {len(x)} examples count; the certificate is about {header.n} that do."
        )
    if isinstance(header.tally, PartOfSample) and header.tally.examples != len(x):
        reasons.append(f"Data: the sample has {len(x)} examples; tally.examples is {header.tally.examples}.")
    if x.shape[1:] != header.input_shape:
        reasons.append(f"Data: an input has shape {x.shape[1:]}; the header says {header.input_shape}.")
    if labels.min() < 0 or labels.max() >= header.classes:
        reasons.append(
            f"Data: labels go from {labels.min()} to {labels.max()}; 0 to {header.classes - 1} is expected."
        )
    if (found := sample_sha256(x, labels)) != header.sample_sha256:
        reasons.append(
            f"Data: the sample has SHA-256 {found}; the certificate is about {header.sample_sha256}."
        )
    if isinstance(domain := header.extra, Domain) and not (
        x.min() >= domain.input_low and x.max() <= domain.input_high
    ):
        reasons.append(
            f"Data: stored values go from {x.min()} to {x.max()}; "
            f"the domain is {domain.input_low} to {domain.input_high}."
        )
    if reasons:
        raise Refused(*reasons)
    return x, labels


def check_ledger(header: Header, ledger: Sequence[tuple[str, int]]) -> None:
    """Check that the printed parts and bits are those of the decoder (section 3.4)."""
    if len(header.ledger) != len(ledger):
        raise Refused(f"Ledger: it has {len(header.ledger)} parts; the message has {len(ledger)}.")
    wrong = [
        f"Ledger: it says {printed[1]} bits for {printed[0]!r}; the message has {own[1]} for {own[0]!r}."
        for printed, own in zip(header.ledger, ledger, strict=True)
        if printed != own
    ]
    if wrong:
        raise Refused(*wrong)


def check_count(header: Header, errors: int, n: int, who: str) -> None:
    """There are no more errors on n examples than stated (docs/format-3.md, 6.4)."""
    if errors > header.errors:
        raise Refused(
            f"Facts: {who} makes {errors} errors on the {n} examples that count; the certificate states "
            f"{header.errors}."
        )


def check_claim(header: Header) -> None:
    """Check that the three printed forms and the word vacuous follow from the facts (section 7)."""
    exact, reasons = _exact_forms(header)
    for name, printed, value in (
        ("bound", header.bound, exact.bound),
        ("kl", header.kl, exact.kl),
        ("hoeffding", header.hoeffding, exact.hoeffding),
    ):
        if not is_honest(printed, value):
            size = "smaller" if printed < value else "larger"
            reasons.append(
                f"Claim: {name} is printed as {printed!r}, which is {size} than the true "
                f"{mpmath.nstr(value, 17)}."
            )
    if isinstance(header.extra, Picked) and not header.bound == header.kl == header.hoeffding:
        reasons.append("Claim: bound, kl and hoeffding are one number for C-15; the printed ones differ.")
    limit = guessing(header, header.commonest)
    if header.vacuous != (header.bound >= limit):
        reasons.append(
            f"Claim: vacuous is {header.vacuous}, but the bound {header.bound!r} is "
            f"{'below' if header.vacuous else 'not below'} {limit!r}, the error of guessing."
        )
    if reasons:
        raise Refused(*reasons)


def _exact_forms(header: Header) -> tuple[Forms, list[str]]:
    """Exact values of the three forms, and reasons to refuse the numbers they follow from."""
    reasons: list[str] = []
    delta, added, tally = mpmath.mpf(header.delta), mpmath.mpf(0), header.tally  # whose half is above 0
    if isinstance(extra := header.extra, Disagreement):
        delta = mpmath.mpf(extra.delta_risk)
        added = clopper_pearson(
            errors=extra.disagreements, n=extra.n_unlabelled, delta=extra.delta_disagreement
        )
        parts, name = (4, "a quarter") if isinstance(tally, PartOfSample) else (2, "half")
        if not (delta == header.delta / 2 and extra.delta_disagreement == header.delta / parts):
            reasons.append(
                f"Claim: delta_risk is {extra.delta_risk}, delta_disagreement {extra.delta_disagreement}; "
                f"they must be half of delta and {name} of it: a split chosen after looking is not paid for."
            )
    if isinstance(tally, PartOfSample):
        added, found = _on_part(header, tally, added)
        reasons += found
    if isinstance(extra, Picked):
        picks = tally.picks if isinstance(tally, PartOfPicks) else extra.picks
        limit = limit_of(header, picks + header.errors, header.n, header.delta)
        return Forms(limit, limit, limit), reasons
    forms = occam(errors=header.errors, n=header.n, code_bits=header.code_bits, delta=delta)
    return forms.plus(added), reasons


def limit_of(header: Header, counted: int, n: int, delta: float | mpmath.mpf) -> mpmath.mpf:
    """The limit on n examples of which so many are counted; as of a hold-out set where a rule picks nothing.

    The latter is version 3 (docs/format-3.md, section 10.7).
    """
    extra, code_bits = header.extra, header.code_bits
    if isinstance(extra, Picked) and (extra.picks or not header.version.is_third):
        return picked(counted=counted, n=n, code_bits=code_bits, delta=delta)
    return occam(errors=counted, n=n, code_bits=code_bits, delta=delta).bound


def _on_part(header: Header, tally: PartOfSample, disagreement: mpmath.mpf) -> tuple[mpmath.mpf, list[str]]:
    """Bound on disagreements within the counted part, and reasons to refuse its printed share."""
    share = least_share(inside=header.n, n=tally.examples, delta=mpmath.mpf(header.delta) / 4)
    with mpmath.workdps(DIGITS):
        if share <= 0:
            return mpmath.mpf(1), ["Claim: the part that the loss is counted on may be arbitrarily small."]
        is_fitting = share * (1 - SLACK) <= mpmath.mpf(tally.share) <= share
        reason = f"Claim: share is printed as {tally.share!r}; it is {mpmath.nstr(share, 17)}."
        return disagreement / share, [] if is_fitting else [reason]


def guessing(header: Header, commonest: int | None) -> float:
    """Error of guessing: a class at random or, for plain errors, the commonest label if better."""
    blind = header.loss.guessing(header.classes)
    return blind if commonest is None or header.loss != WRONG else min(blind, 1 - commonest / header.n)
