"""The verdict on a certificate: ACCEPT, or REFUSE with every reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .checklist import Checklist, Options, read_message
from .checks import guessing
from .container import Source, load, read
from .development import find_development
from .refusal import Refused
from .rooms import room
from .words import Counted, counts, list_assumptions, state_claim

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .networks.chain import Chain
    from .questions.classes import ClassRow
    from .questions.refutation import Comparison
    from .sample import Inputs
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
    loss: str | None = None
    delta: float | None = None
    n: int | None = None
    errors: int | None = None
    code_bits: int | None = None
    vacuous: bool | None = None
    claim: str | None = None
    counts: tuple[Counted, ...] = ()
    by_class: tuple[ClassRow, ...] = ()
    refuted_by_test: bool | None = None
    test: Comparison | None = None
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


def verify(source: Source, x: Inputs, y: Inputs, **given: Any) -> Verdict:
    """Check a certificate against the sample it is about.

    Args:
        source: The file, or its bytes.
        x: All inputs of the sample, as stored.
        y: Their labels.
        given: Whatever else there is, by the names of ``checklist.Given``.

    Returns:
        The verdict; nothing that the file contains raises. A file that cannot be opened is an ``OSError``.

    Raises:
        Refused: if the test data are no examples for this network.
    """
    try:
        certificate = read(load(source))
    except Refused as refused:
        return Verdict("REFUSE", refused.reasons, None)
    checklist = Checklist(certificate, x, y, Options(**given))
    checklist.check_numbers()
    checklist.check_sample()
    checklist.check_message()
    checklist.check_errors()
    checklist.check_weights()
    checklist.check_original()
    return _conclude(checklist)


def _conclude(checklist: Checklist) -> Verdict:
    """The verdict at the end of a checklist, with answers to questions beside it."""
    header, repeats = checklist.header, checklist.repeats
    developed = find_development(header, None if checklist.sample is None else checklist.sample[0])
    table, tested = checklist.bound_classes(), checklist.compare_with_test()
    vacuous = header.bound >= guessing(header, checklist.commonest)
    return Verdict(
        "REFUSE" if checklist.reasons else "ACCEPT",
        tuple(checklist.reasons),
        None if checklist.reasons else header.bound,
        declarations=header.declarations,
        checked=tuple(checklist.passed),
        assumptions=list_assumptions(header, repeats, developed),
        statement=header.statement,
        subject=header.subject,
        loss=header.loss.text,
        delta=header.delta,
        n=header.n,
        errors=header.errors,
        code_bits=header.code_bits,
        claim=state_claim(header, vacuous=vacuous),
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
    certificate = read(load(source))
    message = read_message(certificate, base)
    if certificate.header.statement == "C-15":
        room("rule").decode_rule(message)
        raise Refused(
            "The message holds no network: it names the rule by which g is learned from the sample. Run it "
            "with codebound, which hands g over as a network that needs the sample no more."
        )
    network = room("network").decode(message, base)
    return network.chain, network.tensors
