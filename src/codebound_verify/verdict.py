"""The verdict on a certificate: ACCEPT with what it rests on, or REFUSE with every reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .checklist import Checklist, Given
from .claim import RECOUNTED, statement_of
from .container import Source, load, read_container
from .development import find_development
from .header import Limit
from .refusal import Lacking, Refused
from .rooms import room
from .words import describe_limit, list_assumptions, state_claim

if TYPE_CHECKING:
    from .questions.classes import ClassRow
    from .questions.refutation import Comparison


NO_CLASSES = (
    "No error on each class is bounded: of clusters, of f by C-12b and above 1,024 classes there is none."
)
REPEATED = ("assurance", "subject", "loss", "on", "law", "delta", "limits", "vacuous")
DECLARED = ": that the scores were made without the counted examples is declared"


@dataclass(frozen=True)
class Verdict:
    """Decision about a certificate, with its reasons.

    ``bound`` is what is guaranteed of ``subject``, None if the certificate is refused. ``assumptions`` are
    this program's own words for what no program can check, ``declarations`` those of the file. The fields
    after them repeat what the file states; if it is accepted they have been checked. ``counts`` says what
    was counted, ``claim`` is the guarantee in words. ``refuted_by_test`` is None without test data; where it
    is true the file is in order and what it claims is not to be believed, as ``test`` says.
    """

    verdict: Literal["ACCEPT", "REFUSE"]
    reasons: tuple[str, ...]
    bound: float | None
    declarations: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    assurance: str | None = None
    statement: str | None = None
    subject: str | None = None
    loss: str | None = None
    on: str | None = None
    law: str | None = None
    delta: float | None = None
    limits: tuple[Limit, ...] = ()
    code_bits: int | None = None
    vacuous: bool | None = None
    claim: str | None = None
    counts: tuple[str, ...] = ()
    by_class: tuple[ClassRow, ...] = ()
    refuted_by_test: bool | None = None
    test: Comparison | None = None

    def __repr__(self) -> str:
        return f"Verdict({self.verdict!r}, bound={self.bound!r}, reasons={self.reasons!r})"

    copies: int | None = None
    development_sample: str | None = None
    classes: int | None = None

    @property
    def is_accepted(self) -> bool:
        """Return True if the file proves what it claims, under the assumptions."""
        return self.verdict == "ACCEPT"

    @property
    def first_line(self) -> str:
        """The verdict with what was done for it."""
        if not self.is_accepted:
            return self.verdict
        return f"ACCEPT, {self.assurance}{DECLARED if self.assurance == RECOUNTED else ''}"

    def __bool__(self) -> bool:
        """Return True if it is accepted and not refuted by test data."""
        return self.is_accepted and not self.refuted_by_test


def verify(
    source: Source, x: NDArray[Any] | None = None, y: NDArray[Any] | None = None, **given: Any
) -> Verdict:
    """Check a certificate, a file or its bytes, against all inputs and labels of its sample, as stored.

    ``given`` is whatever else there is, by the names of ``checklist.Given``. Nothing that the file contains
    raises; :class:`Lacking` says that something needed was not given and nothing else is wrong, and
    :class:`Refused` that the test data are no examples for this classifier.
    """
    try:
        container = read_container(load(source))
    except Refused as refused:
        return Verdict("REFUSE", refused.reasons, None)
    if x is None or y is None:
        raise Lacking("its sample")
    checklist = Checklist(container, Given(**given))
    checklist.run(np.asanyarray(x), np.asanyarray(y))
    verdict = _conclude(checklist)
    if checklist.mapped and verdict.is_accepted and (what := checklist.find_changed()):
        return Verdict("REFUSE", (f"Data: {what} changed while it was read.",), None)
    return verdict


def _conclude(checklist: Checklist) -> Verdict:
    """The verdict at the end of a checklist, with answers to questions beside it."""
    header, message, data = checklist.container.header, checklist.message, checklist.data
    claim, reasons = header.claim, tuple(checklist.reasons)
    if not (reasons or checklist.is_finished):
        reasons = ("Program: a check was left out.",)
    stated = Verdict(
        "REFUSE",
        reasons,
        None,
        header.declarations,
        tuple(checklist.passed),
        statement=statement_of(header),
        code_bits=header.message.bits,
        classes=header.sample.classes,
        counts=tuple(describe_limit(header, limit) for limit in claim.limits),
        **{name: getattr(claim, name) for name in REPEATED},
    )
    if reasons or message is None or data is None or checklist.arranged is None:
        return stated
    copies = len(inputs := checklist.arranged.inputs) - int(inputs.max()) - 1
    made = (*header.known.tables, header.known.features, header.known.base)
    developed = find_development(data.x, [each.of for each in made if each is not None])
    given = checklist.given
    tested = None if given.test is None else room("test").compare_with_test(checklist, message, data)
    assumptions = list_assumptions(
        header, form=message.form, table=checklist.table, copies=copies, developed=developed
    )
    if given.learned_weights is not None and checklist.table is not None:
        assumptions += ("The weights beside the file were not looked at: its scores are declared.",)
    by_class = room("classes").class_table(checklist) if given.by_class else ()
    if given.by_class and not by_class:
        assumptions += (NO_CLASSES,)
    return replace(
        stated,
        verdict="ACCEPT",
        bound=claim.bound,
        assumptions=assumptions,
        claim=state_claim(header, message.question),
        by_class=by_class,
        refuted_by_test=None if tested is None else tested.refuted,
        test=tested,
        copies=copies,
        development_sample=developed,
    )
