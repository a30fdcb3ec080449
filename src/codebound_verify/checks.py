"""The checks of every certificate, one function each; all raise :class:`Refused` with every reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .faults import WRONG
from .header import Domain, Header, PartOfSample, Picked, Split
from .refusal import Refused
from .rows import Repeats, is_standardised, statistics_in
from .sample import Inputs, Labels, canonical_inputs, canonical_labels, permutation, sample_sha256

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .networks.message import Network


def counted_places(header: Header, y: Labels) -> NDArray[np.int64]:
    """Indices of the counted examples: not set apart, with a label that allows the fault."""
    apart = set_apart(header)
    places = permutation(len(y))[apart:] if apart else np.arange(len(y))
    return places[header.fault.possible(y[places])]


def counted_part(header: Header, y: Labels) -> NDArray[np.int64] | slice:
    """The same to index with; of a large sample where all count, no list is made."""
    return counted_places(header, y) if set_apart(header) or header.fault.is_partial else slice(None)


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
    if allow_copies or not repeats.are_many:
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


def checked_sample(header: Header, x: Inputs, y: Inputs) -> tuple[Inputs, Labels]:
    """The whole sample in canonical form, if it is the one that the header names (section 2)."""
    x = canonical_inputs(x)
    labels = canonical_labels(y, len(x))
    reasons = []
    expected = header.n + set_apart(header)
    if header.fault == WRONG and len(x) != expected:
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


def check_ledger(header: Header, network: Network) -> None:
    """Check that the printed parts and bits are those of the decoder (section 3.4)."""
    if len(header.ledger) != len(network.ledger):
        raise Refused(f"Ledger: it has {len(header.ledger)} parts; the message has {len(network.ledger)}.")
    wrong = [
        f"Ledger: it says {printed[1]} bits for {printed[0]!r}; the message has {own[1]} for {own[0]!r}."
        for printed, own in zip(header.ledger, network.ledger, strict=True)
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
