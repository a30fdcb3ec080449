"""Assessment of outcomes by their message and their errors, and the certificates that follow.

A certificate is never issued without the consent of the second program.
"""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from codebound import __version__
from codebound.bits.bitstring import join
from codebound.bits.forms import NETWORK
from codebound.certificate.declarations import describe_files, list_declarations
from codebound.certificate.evaluate import find_agreements
from codebound.certificate.file import (
    Certificate,
    Claim,
    Known,
    Limit,
    MessageFacts,
    OriginalFacts,
    SampleFacts,
    TableFacts,
    Unlabelled,
)
from codebound.certificate.limits import Term, Terms, guess_rate, share_of
from codebound.certificate.page import code_commit
from codebound.certificate.verification import verify
from codebound.run.errors import CertificateError, RefusedError
from codebound.run.interrupts import finish_block
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.caveats import development_sample
from codebound.sample.counting import Tally, Verdicts, count
from codebound.sample.order import Design, arrange
from codebound.sample.questions import EACH_CLASS, Question, front

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.bits.bitstring import Bits
    from codebound.bits.plain_code import Ledger
    from codebound.certificate.outcome import AbstractOutcome
    from codebound.certificate.task import Task
    from codebound.sample.dataset import Dataset


@dataclass(frozen=True, slots=True, eq=False)
class Assessed:
    """An outcome with what it proves.

    Attributes:
        outcome: Classifier and message.
        bits: The whole message, with the loss in front.
        ledger: Where its bits went.
        question: What was counted.
        tallies: Counts behind each limit.
        terms: The limits.
        delta: Failure probability of the claim.
        limits: Their values.
        bound: The bound that follows.
        is_vacuous: Whether guessing does as well.
    """

    outcome: AbstractOutcome
    bits: Bits
    ledger: Ledger
    question: Question
    tallies: tuple[Tally, ...]
    terms: Terms
    delta: float
    limits: tuple[float, ...]
    bound: float
    is_vacuous: bool

    @property
    def law(self) -> str:
        """Law of its claim."""
        return "sum" if self.terms.joined == "sum" else self.terms.each[0].law

    @property
    def tally(self) -> Tally:
        """The first of its counts."""
        return self.tallies[0]

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better; among vacuous bounds the one nearer to saying something."""
        term = self.terms.each[0]
        return self.bound, (term.count + term.bits) / max(1, term.n)

    @property
    def score(self) -> float:
        """The rank on the scale of a guess."""
        value, distance = self.rank
        return value if value < 1.0 else 1.0 + distance


def assess(outcome: AbstractOutcome, task: Task) -> Assessed:
    """Count the errors of an outcome, and bound its risk at the price of its message."""
    prefix, noted = front(task.question, task.sample.classes)
    body, ledger = outcome.encode()
    bits = join(prefix, body)
    known, counted = task.arranged.split(outcome.known_rows)
    verdicts = outcome.judge(task.question, task, counted)
    tallies = count(
        task.arranged,
        verdicts,
        question=task.question,
        known=known,
        classes=outcome.classes,
        picked=outcome.picked,
    )
    joined: Literal["first", "largest", "sum"]
    share, joined = share_of(task.question.on, len(tallies))
    if task.about_f is not None and task.about_f.unlabelled is not None:
        disagreement = _count_disagreements(outcome, task, task.about_f.unlabelled)
        tallies, share, joined = (replace(tallies[0], of="risk"), disagreement), 0.5, "sum"
    law = "binomial" if outcome.picked is None else "picked"
    each = tuple(
        Term(law, tally.errors + (tally.picks or 0), tally.n, bits.length, share)  # type: ignore[arg-type]
        for tally in tallies
    )
    terms = Terms(each, joined)
    limits = terms.limits(task.delta)
    bound = terms.bound(limits)
    is_vacuous = _is_vacuous(task, len(outcome.classes), counted, bound, limits)
    return Assessed(
        outcome, bits, (*noted, *ledger), task.question, tallies, terms, task.delta, limits, bound, is_vacuous
    )


def _is_vacuous(
    task: Task, classes: int, counted: NDArray[np.int64], bound: float, limits: tuple[float, ...]
) -> bool:
    """Return True if guessing does as well (docs/format.md, 6.6)."""
    question = task.question
    if question.has_parts:
        return max(limits) >= 1.0
    rate = question.loss.guess_rate(classes)
    if question.is_plain:
        most = int(np.bincount(task.sample.y[counted]).max())
        rate = guess_rate(classes, Fraction(most, len(counted)))
    return Fraction(bound) >= rate


def _count_disagreements(outcome: AbstractOutcome, task: Task, unlabelled: Dataset) -> Tally:
    """Disagreements of f and g on fresh inputs, with copies as in the sample and nothing known."""
    assert outcome.classifier is not None  # a network
    right = find_agreements(task.f.build(), outcome.classifier, unlabelled.on("cpu"))
    fresh = arrange(unlabelled, Design(order="file", copies=task.design.copies))
    none = np.zeros(0, np.int64)
    every = np.ones_like(right)
    (found,) = count(
        fresh, Verdicts(right, every, every), question=Question(), known=none, classes=outcome.classes
    )
    return replace(found, of="disagreement")


def recount(assessed: Assessed, task: Task) -> Assessed:
    """Assess the same outcome for another question; a label that it does not know is refused."""
    task.question.loss.check_labels(assessed.outcome.classes.tolist())
    return assess(assessed.outcome, task)


@dataclass(frozen=True, slots=True)
class ClassBound:
    """Errors on the examples of one class, and picks among them; without examples there is no limit."""

    label: int
    errors: int
    n: int
    bound: float | None
    picks: int = 0


def bound_classes(assessed: Assessed, task: Task) -> tuple[ClassBound, ...]:
    """Errors on every class of the counted examples, with limits that hold at once (C-17)."""
    outcome = assessed.outcome
    known, counted = task.arranged.split(outcome.known_rows)
    question = Question(on=EACH_CLASS)
    tallies = count(
        task.arranged,
        outcome.judge(question, task, counted),
        question=question,
        known=known,
        classes=outcome.classes,
        picked=outcome.picked,
    )
    share, law = share_of(EACH_CLASS, len(tallies))[0], assessed.terms.each[0].law
    found = []
    for label, tally in zip(outcome.classes.tolist(), tallies, strict=True):
        picks = tally.picks or 0
        term = Term(law, tally.errors + picks, tally.n, assessed.bits.length, share)
        limit = term.limit(task.delta) if tally.n else None
        found.append(ClassBound(label, tally.errors, tally.n, limit, picks))
    return tuple(found)


@implements("I-05", kind="certificate")
def issue(assessed: Assessed, task: Task, *, progress: Progress = silent) -> Certificate:
    """The certificate of an assessed outcome, checked by the independent verifier before it is returned.

    Raises:
        RefusedError: The verifier refuses: the certificate was never issued.
    """
    certificate = draft(assessed, task)
    about = task.about_f
    with finish_block():  # the search may have taken hours
        verdict = verify(
            certificate,
            task.sample,
            clusters=task.design.clusters,
            groups=task.design.groups,
            tables=[table.arrays for table in task.tables],
            base=task.base_tensors if certificate.known.base is not None else None,
            unlabelled=None if about is None else about.unlabelled,
            original=None if about is None else task.f.arrays,
            progress=progress,
        )
    if not verdict.is_accepted:
        raise RefusedError(
            "the independent verifier refuses this certificate, so it was not issued:\n  "
            + "\n  ".join(verdict.reasons),
            reasons=verdict.reasons,
        )
    developed = _find_developed(task)
    if bool(verdict.development_sample) and not developed:
        raise CertificateError(
            "the independent verifier says that this format was developed on the sample "
            f"({verdict.development_sample}), and the certificate would not say it: it was not issued."
        )
    return certificate


def draft(assessed: Assessed, task: Task) -> Certificate:
    """The same before it is checked: no certificate yet."""
    outcome, sample = assessed.outcome, task.sample
    facts = SampleFacts(
        rows=sample.n,
        sha256=sample.sha256,
        input_shape=sample.input_shape,
        classes=len(outcome.classes),
        **task.design.as_record(),
    )
    is_based = outcome.form == NETWORK and task.base is not None
    known = Known(
        rows=outcome.known_rows,
        tables=tuple(
            TableFacts(
                by=table.by,
                columns=table.scores.shape[1],
                of=table.of,
                picks=None if table.picks is None else len(table.picks),
                rows=table.rows,
                sha256=table.sha256,
            )
            for table in task.tables
        ),
        features=sample.features,
        base=task.base.made if is_based and task.base is not None else None,
    )
    original = _describe_original(assessed, task)
    learned = outcome.classifier if outcome.takes_stored else None
    extra = describe_files(sample, None if learned is None else learned.state_dict())
    return Certificate(
        sample=facts,
        known=known,
        message=MessageFacts(
            bits=assessed.bits.length,
            sha256=hashlib.sha256(assessed.bits.data).hexdigest(),
            ledger=assessed.ledger,
        ),
        claim=_claim(assessed, known, is_about_f=task.is_about_f),
        original=original,
        declarations=list_declarations(
            facts, known, original, form=outcome.form, developed=_find_developed(task), extra=extra
        ),
        made_by={
            "codebound": __version__,
            "commit": code_commit(),
            "date": datetime.date.today().isoformat(),
        },
        bits=assessed.bits,
        witness=outcome.witness,
    )


def _claim(assessed: Assessed, known: Known, *, is_about_f: bool) -> Claim:
    outcome = assessed.outcome
    assurance = "replayed"
    if outcome.is_recounted:
        assurance = "recounted"
    elif known.features is not None or known.base is not None:
        assurance = "replayed on declared inputs"
    limits = tuple(
        Limit(bound=value, errors=tally.errors, n=tally.n, of=tally.of, picks=tally.picks)
        for tally, value in zip(assessed.tallies, assessed.limits, strict=True)
    )
    return Claim(
        loss=str(assessed.question.loss),
        on=assessed.question.on,
        law=assessed.law,  # type: ignore[arg-type]
        subject="f" if is_about_f else "g",
        assurance=assurance,
        delta=assessed.delta,
        limits=limits,
        bound=assessed.bound,
        vacuous=assessed.is_vacuous,
    )


def _describe_original(assessed: Assessed, task: Task) -> OriginalFacts | None:
    if task.about_f is None:
        return None
    fresh, unlabelled = task.about_f.unlabelled, None
    if fresh is not None:
        unlabelled = Unlabelled(
            disagreements=assessed.tallies[1].errors, rows=fresh.n, sha256=fresh.inputs_sha256
        )
    domain = task.about_f.domain
    return OriginalFacts(
        chain=task.chain.describe(),
        domain=None if domain is None else (float(domain[0]), float(domain[1])),
        sha256=task.f.sha256,
        unlabelled=unlabelled,
    )


def _find_developed(task: Task) -> str:
    """Name of the sample that the format was developed on, if it is this one."""
    made = (task.sample.features, None if task.base is None else task.base.made, *task.tables)
    origins = tuple(each.of for each in made if each is not None)
    return development_sample(task.sample, origins) or ""
