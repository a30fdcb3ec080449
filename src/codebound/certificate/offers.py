"""Offers: classifiers with the messages that determine them, what they prove, and their certificates.

A method makes an ``Outcome``; ``assess`` counts its errors and bounds its risk at the price of its message,
and ``issue`` makes a certificate of that. None is ever issued without the consent of the second program.
"""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound import __version__
from codebound.bits.plain_code import NETWORK, PICKS, RULES, TableChoice, join
from codebound.bounds.risk import count_of
from codebound.certificate.evaluate import count_errors, find_agreements, judge_network
from codebound.certificate.file import (
    Certificate,
    ClaimFacts,
    KnownFacts,
    Law,
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
from codebound.known.score_tables import Biased, run_on
from codebound.learn.learner import KernelNetwork
from codebound.learn.rule import RuleChoice
from codebound.run.errors import FormatError, RefusedError
from codebound.run.extensions import form_of
from codebound.run.progress import Progress, finish_block, silent
from codebound.run.references import implements
from codebound.sample.counting import Tally, Terms, Verdicts, count, guess_rate, judge, terms_of
from codebound.sample.losses import WRONG
from codebound.sample.order import Design, arrange
from codebound.sample.questions import EACH_CLASS, Question, front
from codebound_verify.development import find_development

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import nn

    from codebound.bits.plain_code import Bits, Ledger
    from codebound.known.messages import AbstractMessage
    from codebound.known.score_tables import ScoreTable
    from codebound.learn.learner import Learned
    from codebound.request import Task
    from codebound.run.job import Engine
    from codebound.sample.dataset import Sample
    from codebound.sample.losses import Loss
    from codebound.sample.order import Arranged

FIRST = TableChoice()
"""The first declared table, as it is."""
_CLEARLY = 0.9  # of the bound of another: what is recounted has to be better by a tenth


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """A classifier that a message determines, together with what is known.

    Attributes:
        form: Form of the message.
        encoded: The message from the word of its form on, and the bits of each part.
        made: Whatever a method made: what a rule learned, a table of scores, or the message of a network.
        classes: Label of each of its scores.
        judge: Verdicts on every stored row, for a question; only the counted rows are looked at.
        make: Makes the classifier; None where only its scores are known.
        known_rows: Units of the sample that it was made from without a look at the others.
        picked: Stored indices of examples that were picked after a look.
        choice: The declared table that it names, and its biases.
        witness: Proofs that a decoder would have to search for.
        says: A few words on its examples, for the table of offers.
        engine: Where the errors of a network are counted; None: here.
    """

    form: str
    encoded: tuple[Bits, Ledger]
    made: Any
    classes: NDArray[np.int64]
    judge: Callable[[Question], Verdicts]
    make: Callable[[], nn.Module | None]
    known_rows: int = 0
    picked: NDArray[np.int64] | None = None
    choice: TableChoice = FIRST
    witness: bytes = b""
    says: str = ""
    engine: Engine | None = None

    @property
    def is_recounted(self) -> bool:
        """Return True if the second program has only declared scores to count."""
        return self.form != NETWORK and self.form not in RULES

    @property
    def takes_stored(self) -> bool:
        """Return True if the classifier takes inputs as they are stored."""
        return self.form != NETWORK

    @cached_property
    def classifier(self) -> nn.Module | None:
        """The classifier, where it is more than a table."""
        return self.make()

    def count_losses(self, data: Sample, loss: Loss) -> int | None:
        """Losses on other data; None where there is no classifier to ask."""
        if self.classifier is None:
            return None
        if self.form == NETWORK:
            return count_errors(self.classifier, data.on("cpu"), loss=loss, engine=self.engine)
        return count_learned(self.classifier, data, loss)


def rule_outcome(learned: Learned, arranged: Arranged) -> Outcome:
    """A kernel network that a rule learned from a share, or from examples that it picked."""
    sample = arranged.sample
    values, room = learned.scores()
    choice = RuleChoice.of(
        learned.form, learned.rule, first=learned.first, units=arranged.units, classes=len(learned.classes)
    )
    has_picks = learned.form == PICKS
    says = f"learned from {learned.first} examples without picks"
    if has_picks:
        says = f"{count_of(len(learned.picks), 'pick')} beside {learned.first} first ones"
    return Outcome(
        form=learned.form,
        encoded=choice.encode(sample.input_shape),
        made=learned,
        classes=learned.classes,
        judge=partial(judge, values=values, labels=sample.y, classes=learned.classes, room=room),
        make=partial(KernelNetwork.of, learned, sample),
        known_rows=learned.first,
        picked=learned.picks if has_picks else None,
        says=says,
    )


def table_outcome(choice: TableChoice, table: ScoreTable, sample: Sample) -> Outcome:
    """A declared table of scores, with or without biases."""
    values, network, biases = table.scores.astype(np.float64), table.classifier, choice.biases
    if biases:
        values += np.array(biases)
    return Outcome(
        form=choice.form,
        encoded=choice.encode(),
        made=table,
        classes=np.arange(table.scores.shape[1]),
        judge=partial(judge, values=values, labels=sample.y),
        make=partial(_add_biases, network, biases),
        known_rows=table.rows,
        picked=table.picks,
        choice=choice,
        says=f"scores of {table.by}, which are declared",
    )


def _add_biases(network: nn.Module | None, biases: tuple[float, ...]) -> nn.Module | None:
    return Biased(network, biases) if biases and network is not None else network


def network_outcome(
    message: AbstractMessage,
    task: Task,
    *,
    encoded: tuple[Bits, Ledger] | None = None,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Outcome:
    """A network that its message describes, number by number: encoded, unless that was done, and decoded.

    Raises:
        FormatError: What is decoded is not what the message was made for.
    """
    bits, ledger = message.encode() if encoded is None else encoded
    witness = message.witness()
    read: AbstractMessage = form_of("message")(bits, input_shape=task.sample.input_shape, witness=witness)
    for name, part in message.parts.items():  # numbers are those that were counted with
        if read.parts[name] != part:
            raise FormatError(
                f"the message does not say what it was made for: {name} {read.parts[name]}, not {part}."
            )
    network = read.build(task.base_tensors)

    def judged(question: Question) -> Verdicts:
        found = judge_network(
            network,
            task.rest_data,  # these are the counted rows of every network, in stored order
            question=question,
            theta=message.theta,
            engine=engine,
            progress=progress,
        )
        whole = Verdicts(*(np.zeros(task.sample.n, bool) for _ in range(3)))
        counted = task.arranged.split(task.known_rows)[1]
        for name in ("right", "counts", "speaks"):
            getattr(whole, name)[counted] = getattr(found, name)
        return whole

    return Outcome(
        form=NETWORK,
        encoded=(bits, ledger),
        made=message,
        classes=np.arange(task.sample.classes),
        judge=judged,
        make=lambda: network,
        known_rows=task.known_rows,
        witness=witness,
        engine=engine,
    )


def count_learned(network: nn.Module, data: Sample, loss: Loss = WRONG) -> int:
    """Losses of a classifier that takes inputs as they are stored."""
    question = Question(loss)
    if isinstance(network, KernelNetwork):
        values, room = network.scores(data.x)
        verdicts = judge(question, values, data.y, classes=network.classes.numpy(), room=room)
    else:
        verdicts = judge(question, run_on(network, data).astype(np.float64), data.y)
    return int((np.asarray(loss.is_about(data.y)) & ~verdicts.right).sum())


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Offer:
    """An outcome with what it proves, and the method that proposed it."""

    outcome: Outcome
    bits: Bits  # the whole message, with the loss in front
    ledger: Ledger
    question: Question
    terms: Terms
    delta: float
    limits: tuple[Limit, ...]  # values of the terms, with their counts
    bound: float
    is_vacuous: bool  # guessing does as well
    guessing: float | None  # error of the commonest label among the counted rows, where every error counts
    method: str = ""

    @property
    def tally(self) -> Limit:
        """The first of its limits, with its counts."""
        return self.limits[0]

    @property
    def value(self) -> float:
        """The bound; 1 and the share of errors for a vacuous network or table. Smaller is better."""
        if self.is_vacuous and self.outcome.form not in RULES:
            return 1.0 + self.tally.errors / max(1, self.tally.n)
        return self.bound

    @property
    def rank(self) -> tuple[bool, float, int]:
        """Smaller is better; what the second program repeats by itself wins unless it is clearly worse."""
        is_declared = self.outcome.is_recounted and not self.is_vacuous
        return self.is_vacuous, (self.value / _CLEARLY if is_declared else self.value), self.bits.length

    @property
    def is_held_out(self) -> bool:
        """Return True if its errors are those of a hold-out set."""
        return self.outcome.form != NETWORK and self.outcome.picked is None and self.question.is_plain


def prefer_fewer_errors(offers: list[Offer]) -> list[Offer]:
    """Put a recounted offer first where its bound is no larger than the best, and its errors a tenth fewer.

    Such a classifier learned from more examples, so that fewer count.
    """
    first = offers[0]
    for offer in [] if first.outcome.is_recounted else offers[1:]:
        errs_less = offer.tally.errors * first.tally.n < _CLEARLY * first.tally.errors * offer.tally.n
        if offer.outcome.is_recounted and errs_less and offer.value <= first.value:
            return [offer, *(each for each in offers if each is not offer)]
    return offers


def assess(outcome: Outcome, task: Task, *, method: str = "", question: Question | None = None) -> Offer:
    """Count the errors of an outcome, and bound its risk at the price of its message.

    Raises:
        CodeboundError: The question cannot be asked of it, as of a label that it does not know.
    """
    question = task.question if question is None else question
    question.loss.check_labels(outcome.classes.tolist())
    prefix, noted = front(question, task.sample.classes)
    body, ledger = outcome.encoded
    bits = join(prefix, body) if prefix.length else body
    known, counted = task.arranged.split(outcome.known_rows)
    tallies = count(
        task.arranged,
        outcome.judge(question),
        question=question,
        known=known,
        classes=outcome.classes,
        picked=outcome.picked,
    )
    law: Law = "binomial" if outcome.picked is None else "picked"
    if task.unlabelled is not None:
        law, tallies = "sum", (replace(tallies[0], of="risk"), _count_disagreements(outcome, task))
    terms = terms_of(law, question.on, tallies, bits=bits.length)
    limits = terms.limits(task.delta)
    bound = terms.bound(limits)
    rate, guessing = question.loss.guess_rate(len(outcome.classes)), None  # docs/format.md, 6.6
    if question.is_plain:
        commonest = Fraction(int(np.bincount(task.sample.y[counted]).max()), len(counted))
        rate, guessing = guess_rate(len(outcome.classes), commonest), 1.0 - float(commonest)
    is_of_parts = question.on.startswith("each ")
    return Offer(
        outcome=outcome,
        bits=bits,
        ledger=(*noted, *ledger),
        question=question,
        terms=terms,
        delta=task.delta,
        limits=tuple(Limit(bound=each, **asdict(of)) for each, of in zip(limits, tallies, strict=True)),
        bound=bound,
        is_vacuous=max(limits) >= 1.0 if is_of_parts else Fraction(bound) >= rate,
        guessing=guessing,
        method=method,
    )


def _count_disagreements(outcome: Outcome, task: Task) -> Tally:
    """Disagreements of f and g on fresh inputs, with copies as in the sample and nothing known."""
    assert outcome.classifier is not None  # a network
    assert task.unlabelled is not None  # whoever asks has some
    right = find_agreements(task.f.build(), outcome.classifier, task.unlabelled.on("cpu"))
    fresh = arrange(task.unlabelled, Design(order="file", copies=task.design.copies))
    none = np.zeros(0, np.int64)
    every = np.ones_like(right)
    (found,) = count(
        fresh, Verdicts(right, every, every), question=Question(), known=none, classes=outcome.classes
    )
    return replace(found, of="disagreement")


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
    found = assess(offer.outcome, task, question=Question(on=EACH_CLASS))
    terms = terms_of(found.terms.each[0].law, EACH_CLASS, found.limits, bits=offer.bits.length)
    limits = zip(found.outcome.classes.tolist(), found.limits, terms.limits(task.delta), strict=True)
    return tuple(
        ClassBound(label, on.errors, on.n, limit if on.n else None, on.picks or 0)
        for label, on, limit in limits
    )


@implements("I-05", kind="certificate")
def issue(offer: Offer, task: Task, *, progress: Progress = silent) -> Certificate:
    """The certificate of an assessed outcome, checked by the independent verifier before it is returned."""
    certificate = draft(offer, task)
    with finish_block():  # the search may have taken hours
        verdict = verify(
            certificate,
            task.sample,
            clusters=task.design.clusters,
            groups=task.design.groups,
            tables=[table.arrays for table in task.tables],
            base=task.base_tensors if certificate.known.base is not None else None,
            unlabelled=task.unlabelled,
            original=task.f.arrays if task.is_about_f else None,
            progress=progress,
        )
    if not verdict.is_accepted:
        raise RefusedError(
            "the independent verifier refuses this certificate, so it was not issued:\n  "
            + "\n  ".join(verdict.reasons),
            reasons=verdict.reasons,
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
    base = task.base.made if outcome.form == NETWORK and task.base is not None else None
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
        base=base,
    )
    assurance = "replayed"
    if outcome.is_recounted:
        assurance = "recounted"
    elif known.features is not None or base is not None:
        assurance = "replayed on declared inputs"
    claim = ClaimFacts(
        loss=str(offer.question.loss),
        on=offer.question.on,
        law="sum" if offer.terms.joined == "sum" else offer.terms.each[0].law,
        subject="f" if task.is_about_f else "g",
        assurance=assurance,
        delta=offer.delta,
        limits=offer.limits,
        bound=offer.bound,
        vacuous=offer.is_vacuous,
    )
    original = _describe_original(offer, task) if task.is_about_f else None
    learned = None if outcome.form == NETWORK else outcome.classifier
    made = (sample.features, None if task.base is None else task.base.made, *task.tables)
    return Certificate(
        sample=facts,
        known=known,
        message=MessageFacts(
            bits=offer.bits.length,
            sha256=hashlib.sha256(offer.bits.data).hexdigest(),
            ledger=offer.ledger,
        ),
        claim=claim,
        original=original,
        declarations=list_declarations(
            facts,
            known,
            original,
            form=outcome.form,
            place=outcome.choice.table,
            developed=bool(find_development(sample.x, [each.of for each in made if each is not None])),
            extra=describe_files(sample, None if learned is None else learned.state_dict()),
        ),
        made_by={
            "codebound": __version__,
            "commit": code_commit(),
            "date": datetime.date.today().isoformat(),
        },
        bits=offer.bits,
        witness=outcome.witness,
    )


def _describe_original(offer: Offer, task: Task) -> OriginalFacts:
    """The network that a claim is about, and the fresh inputs or the domain that tie g to it."""
    fresh, unlabelled, domain = task.unlabelled, None, task.input_range
    if fresh is not None:
        unlabelled = Unlabelled(
            disagreements=offer.limits[1].errors, rows=fresh.n, sha256=fresh.inputs_sha256
        )
    return OriginalFacts(
        chain=task.chain.describe(),
        domain=None if domain is None else (float(domain[0]), float(domain[1])),
        sha256=task.f.sha256,
        unlabelled=unlabelled,
    )
