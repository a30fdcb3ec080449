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
from codebound.bits.plain_code import NETWORK, join
from codebound.certificate.evaluate import find_agreements
from codebound.certificate.file import (
    Certificate,
    ClaimFacts,
    KnownFacts,
    Limit,
    MessageFacts,
    OriginalFacts,
    SampleFacts,
    TableFacts,
    Unlabelled,
    code_commit,
)
from codebound.certificate.verification import verify
from codebound.certificate.words import describe_files, list_declarations
from codebound.run.errors import CertificateError, RefusedError
from codebound.run.progress import Progress, finish_block, silent
from codebound.run.references import implements
from codebound.sample.caveats import development_sample
from codebound.sample.counting import Tally, Terms, Verdicts, count, guess_rate, terms_of
from codebound.sample.order import Design, arrange
from codebound.sample.questions import EACH_CLASS, Question, front

if TYPE_CHECKING:
    from codebound.bits.plain_code import Bits, Ledger
    from codebound.certificate.outcome import AbstractOutcome
    from codebound.certificate.task import Task
    from codebound.sample.dataset import Sample

_CLEARLY = 0.9  # of the bound of another: what is recounted has to be better by a tenth


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Offer:
    """An outcome with what it proves, and the method that proposed it."""

    outcome: AbstractOutcome
    bits: Bits  # the whole message, with the loss in front
    ledger: Ledger
    question: Question
    tallies: tuple[Tally, ...]  # behind each limit
    terms: Terms
    delta: float
    limits: tuple[float, ...]  # values of the terms
    bound: float
    is_vacuous: bool  # guessing does as well
    method: str = ""

    @property
    def tally(self) -> Tally:
        """The first of its counts."""
        return self.tallies[0]

    @property
    def value(self) -> float:
        """The bound; 1 and the share of errors for a vacuous network or table. Smaller is better."""
        if self.is_vacuous and (self.outcome.form == NETWORK or self.outcome.is_recounted):
            return 1.0 + self.tally.errors / max(1, self.tally.n)
        return self.bound

    @property
    def rank(self) -> tuple[float, int]:
        """Smaller is better; what the second program repeats by itself wins unless it is clearly worse."""
        is_declared = self.outcome.is_recounted and not self.is_vacuous
        return (self.value / _CLEARLY if is_declared else self.value), self.bits.length


def assess(outcome: AbstractOutcome, task: Task, *, method: str = "") -> Offer:
    """Count the errors of an outcome, and bound its risk at the price of its message."""
    prefix, noted = front(task.question, task.sample.classes)
    body, ledger = outcome.encode()
    bits = join(prefix, body)
    tallies = _count(outcome, task, task.question)
    law: Literal["binomial", "picked", "sum"] = "binomial" if outcome.picked is None else "picked"
    if task.about_f is not None and task.about_f.unlabelled is not None:
        disagreement = _count_disagreements(outcome, task, task.about_f.unlabelled)
        tallies, law = (replace(tallies[0], of="risk"), disagreement), "sum"
    terms = terms_of(law, task.question.on, tallies, bits=bits.length)
    limits = terms.limits(task.delta)
    bound = terms.bound(limits)
    is_vacuous = _is_vacuous(outcome, task, bound, limits)
    return Offer(
        outcome=outcome,
        bits=bits,
        ledger=(*noted, *ledger),
        question=task.question,
        tallies=tallies,
        terms=terms,
        delta=task.delta,
        limits=limits,
        bound=bound,
        is_vacuous=is_vacuous,
        method=method,
    )


def _count(outcome: AbstractOutcome, task: Task, question: Question) -> tuple[Tally, ...]:
    known, counted = task.arranged.split(outcome.known_rows)
    return count(
        task.arranged,
        outcome.judge(question, task, counted),
        question=question,
        known=known,
        classes=outcome.classes,
        picked=outcome.picked,
    )


def _is_vacuous(outcome: AbstractOutcome, task: Task, bound: float, limits: tuple[float, ...]) -> bool:
    """Return True if guessing does as well (docs/format.md, 6.6)."""
    question, classes = task.question, len(outcome.classes)
    if question.on.startswith("each "):
        return max(limits) >= 1.0
    rate = question.loss.guess_rate(classes)
    if question.is_plain:
        counted = task.arranged.split(outcome.known_rows)[1]
        most = int(np.bincount(task.sample.y[counted]).max())
        rate = guess_rate(classes, Fraction(most, len(counted)))
    return Fraction(bound) >= rate


def _count_disagreements(outcome: AbstractOutcome, task: Task, unlabelled: Sample) -> Tally:
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


def recount(offer: Offer, task: Task) -> Offer:
    """Assess the same outcome for another question; a label that it does not know is refused."""
    task.question.loss.check_labels(offer.outcome.classes.tolist())
    return assess(offer.outcome, task, method=offer.method)


@dataclass(frozen=True, slots=True)
class ClassBound:
    """Errors on the examples of one class, and picks among them; without examples there is no limit."""

    label: int
    errors: int
    n: int
    bound: float | None
    picks: int = 0


def bound_classes(offer: Offer, task: Task) -> tuple[ClassBound, ...]:
    """Errors on every class of the counted examples, with limits that hold at once (C-17)."""
    tallies = _count(offer.outcome, task, Question(on=EACH_CLASS))
    terms = terms_of(offer.terms.each[0].law, EACH_CLASS, tallies, bits=offer.bits.length)
    return tuple(
        ClassBound(label, tally.errors, tally.n, limit if tally.n else None, tally.picks or 0)
        for label, tally, limit in zip(
            offer.outcome.classes.tolist(), tallies, terms.limits(task.delta), strict=True
        )
    )


@implements("I-05", kind="certificate")
def issue(offer: Offer, task: Task, *, progress: Progress = silent) -> Certificate:
    """The certificate of an assessed outcome, checked by the independent verifier before it is returned."""
    certificate = draft(offer, task)
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
    if verdict.development_sample and not _find_developed(task):
        raise CertificateError(
            "the independent verifier says that this format was developed on the sample "
            f"({verdict.development_sample}), and the certificate would not say it: it was not issued."
        )
    return certificate


def draft(offer: Offer, task: Task) -> Certificate:
    """The same before it is checked: no certificate yet."""
    outcome, sample = offer.outcome, task.sample
    facts = SampleFacts(
        rows=sample.n,
        sha256=sample.sha256,
        input_shape=sample.input_shape,
        classes=len(outcome.classes),
        **task.design.as_record(),
    )
    is_based = outcome.form == NETWORK and task.base is not None
    known = KnownFacts(
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
    original = _describe_original(offer, task)
    learned = outcome.classifier if outcome.takes_stored else None
    extra = describe_files(sample, None if learned is None else learned.state_dict())
    return Certificate(
        sample=facts,
        known=known,
        message=MessageFacts(
            bits=offer.bits.length,
            sha256=hashlib.sha256(offer.bits.data).hexdigest(),
            ledger=offer.ledger,
        ),
        claim=_claim(offer, known, is_about_f=task.is_about_f),
        original=original,
        declarations=list_declarations(
            facts,
            known,
            original,
            form=outcome.form,
            place=outcome.place,
            developed=_find_developed(task),
            extra=extra,
        ),
        made_by={
            "codebound": __version__,
            "commit": code_commit(),
            "date": datetime.date.today().isoformat(),
        },
        bits=offer.bits,
        witness=outcome.witness,
    )


def _claim(offer: Offer, known: KnownFacts, *, is_about_f: bool) -> ClaimFacts:
    outcome = offer.outcome
    assurance = "replayed"
    if outcome.is_recounted:
        assurance = "recounted"
    elif known.features is not None or known.base is not None:
        assurance = "replayed on declared inputs"
    limits = tuple(
        Limit(bound=value, errors=tally.errors, n=tally.n, of=tally.of, picks=tally.picks)
        for tally, value in zip(offer.tallies, offer.limits, strict=True)
    )
    return ClaimFacts(
        loss=str(offer.question.loss),
        on=offer.question.on,
        law="sum" if offer.terms.joined == "sum" else offer.terms.each[0].law,
        subject="f" if is_about_f else "g",
        assurance=assurance,
        delta=offer.delta,
        limits=limits,
        bound=offer.bound,
        vacuous=offer.is_vacuous,
    )


def _describe_original(offer: Offer, task: Task) -> OriginalFacts | None:
    if task.about_f is None:
        return None
    fresh, unlabelled = task.about_f.unlabelled, None
    if fresh is not None:
        unlabelled = Unlabelled(
            disagreements=offer.tallies[1].errors, rows=fresh.n, sha256=fresh.inputs_sha256
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
