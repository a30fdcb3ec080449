"""The checks of a certificate, one function each; all raise :class:`Refused` with every reason they find."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np

from .chain import Layout, described_chain
from .domain import deviation
from .evaluate import (
    Evaluator,
    Progress,
    chain_evaluator,
    count_disagreements,
    count_errors,
    count_faults,
)
from .faults import WRONG
from .forms import limit_of
from .formulas import DIGITS, occam
from .header import (
    Abstaining,
    Costly,
    Disagreement,
    Domain,
    Header,
    PartOfPicks,
    PartOfSample,
    Picked,
    Split,
)
from .picks.picking import Learned, learn
from .picks.rule import check_share
from .refusal import Refused
from .rounding import NO_NORM
from .rows import Repeats, count_repeats, count_shared, is_standardised, statistics_in
from .sample import Inputs, Labels, canonical_inputs, canonical_labels, permutation, sample_sha256
from .weights import same_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from .message import Network
    from .picks.rule import Rule
    from .tensors import Floats


def counted_places(header: Header, y: Labels) -> NDArray[np.int64]:
    """Where the examples are that count: behind the split of C-10, and such that the fault can happen."""
    apart = set_apart(header)
    places = permutation(len(y))[apart:] if apart else np.arange(len(y))
    return places[header.fault.possible(y[places])]


def counted_part(header: Header, y: Labels) -> NDArray[np.int64] | slice:
    """The same to index with; of a large sample where all count, no list is made."""
    return counted_places(header, y) if set_apart(header) or header.fault.is_partial else slice(None)


def count_commonest(header: Header, y: Labels) -> int:
    """How many of the counted examples have the label that most of them have."""
    return int(np.bincount(y[counted_part(header, y)]).max(initial=0))


def check_rows(header: Header, repeats: Repeats, commonest: int, *, allow_copies: bool) -> None:
    """Copies are those that the header counts, and few (section 6.2); so is the commonest label."""
    reasons = [
        f"Facts: {name} is {stated}; this sample has {found}."
        for name, stated, found in (
            ("commonest", header.commonest, commonest),
            ("copies", header.copies, repeats.copies),
            ("contradictions", header.contradictions, repeats.contradictions),
        )
        if stated not in (None, found)
    ]
    reasons += _too_many(repeats, "examples of the sample", allow_copies=allow_copies)
    if reasons:
        raise Refused(*reasons)


def _too_many(repeats: Repeats, what: str, *, allow_copies: bool) -> list[str]:
    if allow_copies or not repeats.are_many:
        return []
    reason = (
        f"Data: {repeats.copies} of the {repeats.n} {what} are exact copies of earlier ones, more than one "
        "in a hundred: hardly independent draws. If they are, say so with --allow-copies."
    )
    return [reason]


def check_scaling(header: Header, x: Inputs) -> None:
    """No constant of the scaling is a statistic of the sample (section 6.1)."""
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
    """How many examples, in the order of the permutation, come before those that are counted."""
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
    """The printed parts and bits are those of the decoder (section 3.4)."""
    if len(header.ledger) != len(network.ledger):
        raise Refused(f"Ledger: it has {len(header.ledger)} parts; the message has {len(network.ledger)}.")
    wrong = [
        f"Ledger: it says {printed[1]} bits for {printed[0]!r}; the message has {own[1]} for {own[0]!r}."
        for printed, own in zip(header.ledger, network.ledger, strict=True)
        if printed != own
    ]
    if wrong:
        raise Refused(*wrong)


def check_errors(header: Header, network: Network, evaluator: Evaluator, x: Inputs, y: Labels) -> None:
    """The decoded network makes no more errors than the header says (section 6)."""
    if isinstance(header.extra, Split) and network.split is not None:
        prior = network.split * len(x) // 10
        if header.extra.n_prior != prior:
            raise Refused(
                f"Facts: n_prior is {header.extra.n_prior}; "
                f"{network.split}/10 of {len(x)} examples are {prior}."
            )
    part = counted_part(header, y)
    x, y = x[part], y[part]
    stated = None if isinstance(header.tally, (Abstaining, Costly)) else header.errors
    counts = count_faults(evaluator, x, y, theta=network.theta or 0.0, fault=header.fault, stated=stated)
    _check_counts(header, counts, len(x), "the decoded network")


def _check_counts(header: Header, counts: tuple[int, ...], n: int, who: str) -> None:
    """No number that the fault counts, on n examples, is worse than stated (docs/format-3.md, 6.4)."""
    tally = header.tally
    found = {"makes {} errors": (counts[0], header.errors)}
    if isinstance(tally, Costly):
        found = {"costs {}": (sum(counts), tally.cost)}
        for (limit, _), stated in zip(header.fault.ladder, tally.above, strict=False):
            found[f"costs more than {limit} in {{}} cases"] = counts[limit], stated
    if isinstance(tally, Abstaining):
        found["abstains from {}"] = counts[1], tally.abstained
        found["is not right on {}"] = counts[2], n - (tally.kept - header.errors)
    reasons = [
        f"Facts: {who} {does.format(own)} on the {n} examples that count; the certificate states {stated}."
        for does, (own, stated) in found.items()
        if own > stated
    ]
    if reasons:
        raise Refused(*reasons)


@dataclass(frozen=True)
class ClassRow:
    """Errors on the examples of one class, picks among them, and their limit; None without examples."""

    label: int
    errors: int
    n: int
    bound: float | None
    picks: int = 0


def class_table(
    header: Header, network: Evaluator | Learned, x: Inputs, y: Labels, *, theta: float
) -> tuple[ClassRow, ...]:
    """The errors on every class; their limits, at delta over the classes, hold at once (C-17)."""
    places = permutation(len(y))[set_apart(header) :] if set_apart(header) else np.arange(len(y))
    rows = []
    with mpmath.workdps(DIGITS):
        share = mpmath.mpf(header.delta) / header.classes
    common = {"code_bits": header.code_bits, "delta": share}
    for label in range(header.classes):
        own = places[y[places] == label]
        errors, picks, exact = 0, 0, None
        if isinstance(network, Learned):
            picks, (errors,) = network.counted(WRONG, y, own)
            assert isinstance(header.extra, Picked)  # it was learned
            limit = limit_of(header, header.extra)
            exact = limit(counted=picks + errors, n=len(own), **common) if len(own) else None
        elif len(own):
            errors = count_errors(network, x[own], y[own], theta=theta)
            exact = occam(errors=errors, n=len(own), **common).bound
        bound = None if exact is None else min(1.0, math.nextafter(float(exact), math.inf))
        rows.append(ClassRow(label, errors, len(own), bound, picks))
    return tuple(rows)


def check_picks(
    header: Header, stated: Picked, rule: Rule, sample: tuple[Inputs, Labels], progress: Progress | None
) -> Learned:
    """The network that the rule learns from the sample makes no more errors than stated (section 10.6)."""
    if (stated.first, stated.picks) != (rule.first, rule.picks):
        raise Refused(
            f"Facts: first is {stated.first} and picks {stated.picks}; the rule starts with {rule.first} "
            f"examples and picks {rule.picks}."
        )
    check_share(rule, sample[1], permutation(len(sample[1])), header.classes)
    learned = learn(rule, header, *sample, progress)
    places = counted_places(header, sample[1])
    picks, counts = learned.counted(header.fault, sample[1], places)
    if isinstance(header.tally, PartOfPicks) and header.tally.picks != picks:
        raise Refused(f"Facts: tally.picks is {header.tally.picks}; the rule picks {picks} of that part.")
    _check_counts(header, counts, len(places) - picks, "the network that the rule learns")
    return learned


def check_weights(
    learned: Learned | None, tensors: Mapping[str, NDArray[Any]], sample: tuple[Inputs, Labels] | None
) -> None:
    """Weights that were handed over are those of the network that the rule learns (section 10.6)."""
    if learned is None or sample is None:
        raise Refused("Weights: there is no network that a rule has learned to compare them with.")
    learned.check_weights(tensors, *sample)


def count_on_test(
    header: Header, network: Evaluator | Learned, sample: Inputs, test: tuple[Inputs, Inputs]
) -> tuple[int, int, int]:
    """Errors on test examples, counted as on the sample; how many examples there are; how many are in it."""
    x = canonical_inputs(test[0])
    labels = canonical_labels(test[1], len(x))
    if x.shape[1:] != header.input_shape or labels.min() < 0 or labels.max() >= header.classes:
        raise Refused(
            f"Test data: inputs of shape {header.input_shape} with labels from 0 to {header.classes - 1} are "
            f"expected; found shape {x.shape[1:]} and labels from {labels.min()} to {labels.max()}."
        )
    possible = header.fault.possible(labels)
    if not possible.any():
        raise Refused(f"Test data: the fault {header.fault.text} can happen on none of the examples.")
    x, labels = x[possible], labels[possible]
    if isinstance(network, Learned):
        counts = network.count_faults(x, labels, header.fault)
    else:
        counts = count_faults(network, x, labels, fault=header.fault)
    errors, n = counts[0], len(x)
    if isinstance(header.tally, Costly):
        errors, n = sum(counts), n * header.fault.largest
    if isinstance(header.tally, Abstaining):
        n += errors - counts[2]
    return errors, n, count_shared(sample, x)


def check_domain(header: Header, domain: Domain, network: Network, subject: Mapping[str, Floats]) -> None:
    """Theta covers the distance of f and g on the whole domain (section 7.1)."""
    if network.chain is None or network.theta is None:
        raise Refused(
            "C-12a: g must be a chain of the message; an architecture from a factory is not enough."
        )
    same_tensors(subject, domain.subject_sha256, "Subject")
    _require_layout(subject, network.chain.layout())
    try:
        distance = deviation(network.chain, subject, network.tensors, scaling=header.scaling, domain=domain)
    except NO_NORM as error:
        raise Refused(f"C-12a: a spectral norm cannot be computed ({error}).") from None
    needed = math.sqrt(2) * distance
    if not network.theta >= needed:
        raise Refused(
            f"C-12a: the margin theta is {network.theta:.6g}; "
            f"the margins of f and g can differ by {needed:.6g}."
        )


def subject_evaluator(
    header: Header, extra: Disagreement, subject: Mapping[str, Floats], progress: Progress | None
) -> Evaluator:
    """The original network f of C-12b, if its tensors are those that the header names."""
    same_tensors(subject, extra.subject_sha256, "Subject")
    chain = described_chain(extra.subject_chain, header.input_shape, header.classes)
    _require_layout(subject, chain.layout())
    return chain_evaluator(chain, subject, header=header, progress=progress)


def check_disagreements(
    header: Header,
    extra: Disagreement,
    networks: tuple[Evaluator, Evaluator],
    *,
    unlabelled: Inputs,
    sample: Inputs,
    allow_copies: bool,
) -> None:
    """The networks disagree on no more unlabelled inputs than the header says (section 7).

    The inputs must be fresh: none of them occurs in the sample, and few occur twice.
    """
    x = canonical_inputs(unlabelled)
    if len(x) != extra.n_unlabelled or x.shape[1:] != header.input_shape:
        raise Refused(
            f"Unlabelled: found {len(x)} inputs of shape {x.shape[1:]}; the certificate is about "
            f"{extra.n_unlabelled} of shape {header.input_shape}."
        )
    if (found := sample_sha256(x, np.zeros(len(x), np.int64))) != extra.unlabelled_sha256:
        raise Refused(
            f"Unlabelled: the inputs have SHA-256 {found}; "
            f"the certificate is about {extra.unlabelled_sha256}."
        )
    if shared := count_shared(sample, x):
        raise Refused(
            f"Unlabelled: {shared} of the {len(x)} inputs occur in the sample; they have to be a fresh draw."
        )
    repeats = count_repeats(x, np.zeros(len(x), np.int64))
    if reasons := _too_many(repeats, "unlabelled inputs", allow_copies=allow_copies):
        raise Refused(*reasons)
    if (count := count_disagreements(*networks, x, header.fault)) > extra.disagreements:
        raise Refused(
            f"Facts: f and g disagree on {count} of {len(x)} unlabelled inputs; "
            f"the certificate states {extra.disagreements}."
        )


def _require_layout(subject: Mapping[str, Floats], layout: Layout) -> None:
    found = {name: values.shape for name, values in subject.items()}
    if found != dict(layout):
        differing = sorted({*found.items(), *layout} - (found.items() & {*layout}))
        raise Refused(
            "Subject: the tensors of f are not those of its chain; they differ in "
            + ", ".join(f"{name} {shape}" for name, shape in differing[:6])
            + "."
        )
