"""The verdict on a certificate: ACCEPT, or REFUSE with every reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .assumptions import assumed_by
from .container import Source, load, read
from .course import Course, Given, decoded
from .developed import developed_on
from .forms import guessing
from .refusal import Refused
from .words import Counted, claimed, counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from .networks.chain import Chain
    from .questions.classes import ClassRow
    from .questions.testing import Tested
    from .sample import Inputs, Progress
    from .weights import Floats


@dataclass(frozen=True)
class Verdict:
    """Decision about a certificate, with its reasons.

    ``bound`` is the guaranteed risk of ``subject``, None if the certificate is refused. ``assumptions`` are
    this program's own words for what no program can check, ``declarations`` those of the file. The fields
    after them repeat what the file states; if it is accepted they have been checked. ``counts`` says what the
    numbers are, ``claim`` is the guarantee in words. ``refuted_by_test`` is None without test data; where it
    is true the file is in order and what it claims is not to be believed, as ``test`` says.
    """

    verdict: Literal["ACCEPT", "REFUSE"]
    reasons: tuple[str, ...]
    bound: float | None
    declarations: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    statement: str | None = None
    subject: str | None = None
    fault: str | None = None
    delta: float | None = None
    n: int | None = None
    errors: int | None = None
    code_bits: int | None = None
    vacuous: bool | None = None
    claim: str | None = None
    counts: tuple[Counted, ...] = ()
    by_class: tuple[ClassRow, ...] = ()
    refuted_by_test: bool | None = None
    test: Tested | None = None
    copies: int | None = None
    contradictions: int | None = None
    development_sample: str | None = None

    @property
    def is_accepted(self) -> bool:
        """Return True if the file proves what it claims, under the assumptions."""
        return self.verdict == "ACCEPT"

    def __bool__(self) -> bool:
        """Return True if it is accepted and not refuted by test data."""
        return self.is_accepted and not self.refuted_by_test


def verify(
    source: Source,
    x: Inputs,
    y: Inputs,
    *,
    base: Mapping[str, Floats] | None = None,
    unlabelled: Inputs | None = None,
    subject_weights: Mapping[str, Floats] | None = None,
    learned_weights: Mapping[str, NDArray[Any]] | None = None,
    test: tuple[Inputs, Inputs] | None = None,
    allow_copies: bool = False,
    by_class: bool = False,
    progress: Progress | None = None,
) -> Verdict:
    """Check a certificate against the sample it is about.

    Args:
        source: The file, or its bytes.
        x: All inputs of the sample, as stored.
        y: Their labels.
        base: The tensors of the base, if the header names one.
        unlabelled: Unlabelled inputs, for the statement C-12b.
        subject_weights: The tensors of the original network f, for C-12a and C-12b.
        learned_weights: The tensors of g that were handed over beside the file: are they what the rule learns
            from this sample, or what the message decodes to?
        test: Inputs and labels that took no part in making the network: they may refute the claim.
        allow_copies: More than one example in a hundred may be an exact copy: the user vouches that they
            are independent draws.
        by_class: Count the errors on every class too, where the claim is about the errors of g; the limits
            of all classes hold at once with probability 1 - delta, beside the claim.
        progress: Called with the examples done and their total while a network is evaluated.

    Returns:
        The verdict; nothing that the file contains raises. A file that cannot be opened is an ``OSError``.

    Raises:
        Refused: if the test data are no examples for this network.
    """
    try:
        certificate = read(load(source))
    except Refused as refused:
        return Verdict("REFUSE", refused.reasons, None)
    given = Given(
        x=x,
        y=y,
        base=base,
        unlabelled=unlabelled,
        subject_weights=subject_weights,
        learned_weights=learned_weights,
        test=test,
        allow_copies=allow_copies,
        by_class=by_class,
        progress=progress,
    )
    course = Course(certificate, given)
    course.check_numbers()
    course.check_sample()
    course.check_message()
    course.check_errors()
    course.check_weights()
    course.check_original()
    return _concluded(course)


def _concluded(course: Course) -> Verdict:
    """The verdict at the end of a course, with answers to what was asked beside it."""
    header, repeats = course.header, course.repeats
    developed = developed_on(header, None if course.sample is None else course.sample[0])
    table, tested = course.by_class(), course.tested()
    vacuous = header.bound >= guessing(header, course.commonest)
    return Verdict(
        "REFUSE" if course.reasons else "ACCEPT",
        tuple(course.reasons),
        None if course.reasons else header.bound,
        declarations=header.declarations,
        checked=tuple(course.passed),
        assumptions=assumed_by(header, repeats, developed),
        statement=header.statement,
        subject=header.subject,
        fault=header.fault.text,
        delta=header.delta,
        n=header.n,
        errors=header.errors,
        code_bits=header.code_bits,
        claim=claimed(header, vacuous=vacuous),
        counts=counts(header),
        by_class=table,
        refuted_by_test=None if tested is None else tested.refuted,
        test=tested,
        vacuous=vacuous,
        copies=None if repeats is None else repeats.copies,
        contradictions=None if repeats is None else repeats.contradictions,
        development_sample=developed,
    )


def decode_network(
    source: Source, *, base: Mapping[str, Floats] | None = None
) -> tuple[Chain, Mapping[str, Floats]]:
    """The network g of a certificate: its chain and its tensors.

    Raises:
        Refused: if the file or its message is malformed, or a helper is missing or not the right one.
    """
    network = decoded(read(load(source)), base)
    if network.chain is None:
        raise Refused(
            "The message holds no network: it names the rule by which g is learned from the sample. Run it "
            "with codebound, which hands g over as a network that needs the sample no more."
        )
    return network.chain, network.tensors
