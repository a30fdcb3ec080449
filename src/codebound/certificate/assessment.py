"""Assessment of messages and rules, and the certificates that follow.

A message is encoded, decoded again, and judged by the errors of the decoded network. A certificate is never
issued without the consent of the second program.
"""

from __future__ import annotations

import datetime
import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound import __version__
from codebound.bounds.facts import OccamFacts
from codebound.bounds.occam import occam_binomial, occam_hoeffding, occam_kl, occam_table
from codebound.bounds.original import grid_theta
from codebound.bounds.picked import picked_risk
from codebound.bounds.risk import count_of
from codebound.certificate.claims import FromPicks
from codebound.certificate.declarations import list_assumptions
from codebound.certificate.evaluate import Count, count_errors
from codebound.certificate.file import Certificate, CertificateFacts, Claim
from codebound.certificate.verification import verify
from codebound.certificate.versions import PAGES, code_commit
from codebound.learn.kernel_network import PickedNetwork, count_losses
from codebound.learn.picking import losses_of, permutation
from codebound.learn.rule import PickedMessage, decode_rule
from codebound.run.errors import CertificateError, FormatError, RefusedError
from codebound.run.extensions import form_of
from codebound.run.interrupts import finish_block
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.caveats import DEVELOPED, count_commonest
from codebound.sample.losses import WRONG, OfClass, possible_examples

if TYPE_CHECKING:
    from torch import nn

    from codebound.bits.bitstring import Bits
    from codebound.bits.messages import AbstractMessage
    from codebound.bounds.facts import PickedFacts
    from codebound.bounds.risk import RiskBound
    from codebound.certificate.claims import Conclusion
    from codebound.certificate.statement import AbstractStatement
    from codebound.certificate.task import Task
    from codebound.learn.picking import Picked
    from codebound.learn.rule import Rule
    from codebound.run.job import Engine
    from codebound.sample.dataset import Dataset
    from codebound.sample.losses import Loss


@dataclass(frozen=True, slots=True)
class ClassBound:
    """Errors on the examples of one class, and picks among them; without examples there is no limit."""

    label: int
    errors: int
    n: int
    bound: float | None
    picks: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class AbstractAssessed(ABC):
    """A message with what it proves.

    Attributes:
        message: The message, with all its options.
        bits: Its bits.
        ledger: Where they went.
        network: The network that the bits decode to.
        count: Errors of that network.
        facts: What the bound of g was told; its delta is that bound's share.
        conclusion: What follows.
        counted: The examples that count.
        kind: What is stated.
        version: Of its file: the third only where the second cannot say it, or says less of it.
        alone: The bound of g, by which messages are compared: a choice that looked at the unlabelled inputs
            of C-12b would have to be paid.
    """

    message: AbstractMessage | PickedMessage
    bits: Bits
    ledger: tuple[tuple[str, int], ...]
    network: nn.Module
    count: Count
    facts: OccamFacts | PickedFacts
    conclusion: Conclusion
    counted: Dataset
    kind: type[AbstractStatement]
    version: int
    alone: float

    @property
    def bound(self) -> RiskBound:
        """The bound on the risk."""
        return self.conclusion.bound

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better; among vacuous bounds the one nearer to saying something."""
        return self.alone, (self.facts.errors + self.facts.code_bits) / self.facts.n

    @property
    def score(self) -> float:
        """The rank on the scale of a guess."""
        value, distance = self.rank
        return value if value < 1.0 else 1.0 + distance

    @abstractmethod
    def require_read_back(self, task: Task) -> None:
        """Refuses bits that do not decode to the message again, by a FormatError."""

    @abstractmethod
    def route(self, method: str) -> tuple[str, str]:
        """The route that it is an end of, empty for what is compared with nothing; and what it paid."""

    @abstractmethod
    def errors_on(self, data: Dataset, loss: Loss, engine: Engine | None) -> int:
        """The losses of its network on other data."""

    @abstractmethod
    def class_bounds(self, task: Task, *, engine: Engine | None) -> tuple[ClassBound, ...]:
        """Its errors on every class of the examples that count, with limits that hold at once."""

    @abstractmethod
    def recount(self, task: Task, *, engine: Engine | None) -> AbstractAssessed:
        """The same network with the loss of another task counted, which its message then names."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules by which its network was learned; none where a message has it."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Assessed(AbstractAssessed):
    """A message that a network is decoded from, and the message that its bits are."""

    message: AbstractMessage
    facts: OccamFacts
    read: AbstractMessage

    def require_read_back(self, task: Task) -> None:  # noqa: D102
        for name, part in self.message.parts.items():  # numbers are those that were counted with
            require_same(name, self.read.parts[name], part)

    def route(self, method: str) -> tuple[str, str]:  # noqa: D102
        facts = self.facts
        bits = count_of(facts.code_bits, "bit", form="g")
        return self.kind.route, f"{count_of(facts.errors, 'error')} of {facts.n}, {bits} by {method}"

    def errors_on(self, data: Dataset, loss: Loss, engine: Engine | None) -> int:  # noqa: D102
        return count_errors(self.network, data.on("cpu"), loss=loss, engine=engine).errors

    def class_bounds(self, task: Task, *, engine: Engine | None) -> tuple[ClassBound, ...]:  # noqa: D102
        theta, rest, counts = _theta(self.message), task.rest, []
        for label in range(task.sample.classes):
            errors, places = 0, np.flatnonzero(rest.y == label)
            if len(places):
                part = rest.select(places, role=rest.role).on("cpu")
                errors = count_errors(self.network, part, theta=theta, engine=engine).errors
            counts.append((errors, len(places)))
        limits = occam_table(counts, code_bits=self.facts.code_bits, delta=task.delta)
        return tuple(
            ClassBound(label, errors, n, limit)
            for label, ((errors, n), limit) in enumerate(zip(counts, limits, strict=True))
        )

    def recount(self, task: Task, *, engine: Engine | None) -> Assessed:  # noqa: D102
        options = replace(self.message.options, setting=task.options.setting)
        return assess(self.message.with_options(options), task, engine=engine)


@dataclass(frozen=True, slots=True, eq=False)
class AssessedPicks(AbstractAssessed):
    """A rule, and what it picked; its network is defined to the last bit, for inputs as they are stored."""

    message: PickedMessage
    facts: PickedFacts
    picked: Picked

    @property
    def rules(self) -> tuple[Rule, ...]:  # noqa: D102
        return (self.picked.rule,)

    def require_read_back(self, task: Task) -> None:  # noqa: D102
        meant, rule = self.message, self.picked.rule
        known = (meant.setting, rule.first) if meant.is_short else None
        read = decode_rule(self.bits, input_shape=task.sample.input_shape, known=known)
        require_same("rule", read.rule, rule)
        require_same("setting", read.setting, meant.setting)
        if meant.is_short:
            require_same("spare classes", read.spare_classes, meant.spare_classes)

    def route(self, method: str) -> tuple[str, str]:  # noqa: D102
        facts, wrong = self.facts, f"{count_of(self.facts.errors, 'error')} of {self.facts.n}"
        if facts.is_held_out:
            learned = f"after learning from the other {facts.n_first} without picks"
            return "split", f"{wrong}, {learned}; {count_of(facts.code_bits, 'bit', form='g')}"
        paid = f"{count_of(facts.picks, 'pick')} and {wrong}, beside {facts.n_first} first ones"
        return "picks", f"{paid}; {count_of(facts.code_bits, 'bit', form='g')}"

    def errors_on(self, data: Dataset, loss: Loss, engine: Engine | None) -> int:  # noqa: D102
        return count_losses(self.network, data, loss)

    def class_bounds(self, task: Task, *, engine: Engine | None) -> tuple[ClassBound, ...]:
        """Picks of a class count on that class alone."""
        sample, delta = task.sample, task.delta / task.sample.classes * (1.0 - 1e-15)
        labels, rows = sample.y[permutation(sample.n)[self.picked.rule.first :]], []
        for label in range(sample.classes):
            row = ClassBound(label, 0, 0, None)
            if (labels == label).any():
                own = _count_part(self.picked, sample, OfClass(label), replace(self.facts, delta=delta))
                row = ClassBound(label, own.errors, own.n, picked_risk(own).value, own.picks)
            rows.append(row)
        return tuple(rows)

    def recount(self, task: Task, *, engine: Engine | None) -> AssessedPicks:  # noqa: D102
        return assess_picked(self.picked, task)


def require_same(name: str, read: object, meant: object) -> None:
    """Refuses a part of a message that is read otherwise than it was meant."""
    if read != meant:
        raise FormatError(f"the message does not say what it was made for: {name} {read}, not {meant}.")


def with_setting(message: AbstractMessage, task: Task) -> AbstractMessage:
    """The message with classes and scaling of the task, unless it says others."""
    if message.options.setting is not None:
        return message
    return message.with_options(replace(message.options, setting=task.options.setting))


def _theta(message: AbstractMessage) -> float:
    """The margin that counts as an error."""
    index = message.options.theta_index
    return 0.0 if index is None else grid_theta(index).value


Encoded = tuple["Bits", tuple[tuple[str, int], ...]]
"""The bits of a message, and where they went."""


def assess(
    message: AbstractMessage,
    task: Task,
    *,
    encoded: Encoded | None = None,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Assessed:
    """Encodes a message, unless that was done, decodes it, and bounds the risk of the decoded network."""
    message = with_setting(message, task)
    fitted = task.claim.complete(message, task).shorten()
    bits, ledger = encoded if encoded is not None and fitted is message else fitted.encode()
    read: AbstractMessage = form_of("message")(
        bits,
        input_shape=task.sample.input_shape,
        short_classes=task.sample.classes if fitted.is_short else None,
        witness=fitted.witness(),
    )
    network = read.build(task.base_tensors)
    theta, loss = _theta(fitted), task.claim.loss
    count = count_errors(network, task.counted_data, theta=theta, loss=loss, engine=engine, progress=progress)
    facts = OccamFacts(
        errors=count.errors,
        n=task.counted.n,
        code_bits=bits.length,
        delta=task.claim.delta_share * task.delta,
        classes=task.sample.classes,
    )
    conclusion = task.claim.conclude(facts, message=fitted, network=network, task=task)
    kind, alone = type(task.claim), occam_binomial(facts).value
    version = fitted.version if loss == WRONG else max(fitted.version, kind.losses_since)
    return Assessed(
        fitted, bits, ledger, network, count, facts, conclusion, task.counted, kind, version, alone, read
    )


def assess_picked(picked: Picked, task: Task) -> AssessedPicks:
    """Encodes a rule and bounds the risk of the network that was learned by it."""
    sample, loss = task.sample, task.claim.loss
    order = permutation(sample.n)
    spare = sample.classes - 1 - int(sample.y[order[: picked.rule.first]].max())
    message = PickedMessage(task.options, picked.rule, sample.input_shape, spare)
    bits, ledger = message.encode()
    facts = picked.facts(code_bits=bits.length, delta=task.delta, classes=sample.classes)
    if loss != WRONG:
        facts = _count_part(picked, sample, loss, facts)
    network = PickedNetwork.of(picked, torch.from_numpy(sample.x), sample.scaling.divisor)
    part = {"picks": facts.picks} if loss.has_part else None
    conclusion = FromPicks.conclude(facts, picks=picked.last.picks, part=part)
    rest = sample.select(order[picked.rule.first :], role="certify")
    counted = possible_examples(loss, rest)
    count, alone = Count(facts.errors, 0.0), conclusion.bound.value
    version = 3 if facts.is_held_out else message.version  # the third has the bound of a hold-out set
    return AssessedPicks(
        message, bits, ledger, network, count, facts, conclusion, counted, FromPicks, version, alone, picked
    )


def _count_part(picked: Picked, sample: Dataset, loss: Loss, facts: PickedFacts) -> PickedFacts:
    """Picks and losses on the examples that a loss is about (docs/format-3.md, section 10.7)."""
    labels = torch.from_numpy(sample.y)
    rest = torch.from_numpy(permutation(sample.n)[picked.rule.first :])
    is_possible = loss.is_counted(labels)
    is_left = is_possible.clone()
    is_left[torch.from_numpy(picked.order)] = False
    errors = losses_of(picked.learned.outputs[is_left], labels[is_left], loss)
    n, left = int(is_possible[rest].sum()), int(is_left.sum())
    return replace(facts, picks=n - left, errors=errors, n=n)


@implements("I-05", kind="certificate")
def issue(assessed: AbstractAssessed, task: Task, *, progress: Progress = silent) -> Certificate:
    """The certificate of an assessed message, checked by the independent verifier before it is returned.

    Raises:
        RefusedError: The verifier refuses: the certificate was never issued.
    """
    certificate = draft(assessed, task)
    with finish_block():  # the search may have taken hours
        verdict = verify(
            certificate,
            task.sample,
            base=task.base_tensors,
            unlabelled=task.claim.unlabelled,
            original=task.f.arrays if task.claim.is_about_f else None,
            allow_copies=task.allow_copies,
            progress=progress,
        )
    if not verdict.is_accepted:
        raise RefusedError(
            "the independent verifier refuses this certificate, so it was not issued:\n  "
            + "\n  ".join(verdict.reasons),
            reasons=verdict.reasons,
        )
    if verdict.development_sample is not None and DEVELOPED not in certificate.declarations:
        raise CertificateError(
            "the independent verifier says that this format was developed on the sample "
            f"({verdict.development_sample}), and the certificate would not say it: it was not issued."
        )
    return certificate


def draft(assessed: AbstractAssessed, task: Task) -> Certificate:
    """The same before it is checked: no certificate yet."""
    helper, common = task.helper, count_commonest(assessed.counted)
    return Certificate(
        claim=_claim(assessed, task, guessed=1.0 - common / assessed.facts.n),
        facts=CertificateFacts(
            n=assessed.counted.n,
            errors=assessed.facts.errors,
            code_bits=assessed.bits.length,
            classes=task.sample.classes,
            commonest=common,
            copies=task.rows.copies,
            contradictions=task.rows.contradictions,
            sample_sha256=task.sample.sha256,
            message_sha256=hashlib.sha256(assessed.bits.data).hexdigest(),
            extra={**assessed.conclusion.counted, **task.claim.describe(task)},
            tally=assessed.conclusion.part,
        ),
        helper=helper,
        ledger=assessed.ledger,
        declarations=list_assumptions(assessed, task, helper),
        made_by={
            "codebound": __version__,
            "commit": code_commit(),
            "date": datetime.date.today().isoformat(),
        },
        message=assessed.bits,
        witness=assessed.message.witness(),
        format=PAGES[assessed.version],
    )


def _claim(assessed: AbstractAssessed, task: Task, *, guessed: float) -> Claim:
    """The bound, with looser forms of it that are easier to compute.

    It says nothing where it is not below ``guessed``, the error of the commonest label.
    """
    bound, loss = assessed.bound, task.claim.loss
    is_vacuous = bound.vacuous or bound.value >= guessed
    if loss != WRONG:
        is_vacuous = bound.value >= loss.guess_rate(task.sample.classes)
    kl = hoeffding = bound.value
    if isinstance(assessed, Assessed):
        forms = (
            form(assessed.facts).value + assessed.conclusion.added for form in (occam_kl, occam_hoeffding)
        )
        kl, hoeffding = (max(bound.value, min(1.0, each)) for each in forms)
    return Claim(
        statement=assessed.kind.statement,
        loss=str(loss),
        subject=bound.subject,
        delta=bound.delta,
        bound=bound.value,
        kl=kl,
        hoeffding=hoeffding,
        vacuous=is_vacuous,
    )
