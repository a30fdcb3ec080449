"""Assessment of messages, and the certificates that follow.

A message is encoded, decoded again, and judged by the errors of the decoded network. A certificate is never
issued without the consent of the second program.
"""

from __future__ import annotations

import datetime
import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from codebound import __version__
from codebound.bounds.facts import OccamFacts
from codebound.bounds.occam import occam_binomial, occam_hoeffding, occam_kl, occam_table
from codebound.bounds.original import grid_theta
from codebound.bounds.risk import count_of
from codebound.certificate.declarations import declared_by
from codebound.certificate.decoding import decode_bits, read_message, verify
from codebound.certificate.evaluate import count_errors, estimated_error_rate
from codebound.certificate.file import Certificate, CertificateFacts, Claim
from codebound.certificate.versions import PAGES, code_commit
from codebound.run.errors import CertificateError, FormatError, RefusedError
from codebound.run.interrupts import finishing
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.caveats import DEVELOPED, commonest
from codebound.sample.losses import WRONG

if TYPE_CHECKING:
    from collections.abc import Hashable

    from torch import nn

    from codebound.bits.bitstring import Bits
    from codebound.bits.options import AbstractMessage
    from codebound.bounds.facts import PickedFacts
    from codebound.bounds.risk import RiskBound
    from codebound.certificate.claims import Conclusion
    from codebound.certificate.evaluate import Count
    from codebound.certificate.statement import AbstractStatement
    from codebound.certificate.task import Task
    from codebound.learn.rule import PickedMessage, Rule
    from codebound.run.job import Engine
    from codebound.sample.dataset import Dataset
    from codebound.sample.losses import Fault


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
    def short_words(self, scaled: str) -> str:
        """Describe where a short message takes classes and scaling from."""

    @abstractmethod
    def route(self, method: str) -> tuple[str, str]:
        """The route that it is an end of, empty for what is compared with nothing; and what it paid."""

    @abstractmethod
    def looser_forms(self, task: Task) -> tuple[float, float]:
        """The bound in forms that are easier to compute: by the kl form, and by Hoeffding's."""

    @abstractmethod
    def errors_on(self, data: Dataset, fault: Fault, engine: Engine | None) -> int:
        """The faults of its network on other data."""

    @abstractmethod
    def class_bounds(self, task: Task, rest: Dataset, *, engine: Engine | None) -> tuple[ClassBound, ...]:
        """Its errors on every class of the examples that count, with limits that hold at once."""

    @abstractmethod
    def recounted(self, task: Task, *, engine: Engine | None) -> AbstractAssessed:
        """The same network with the fault of another task counted, which its message then names."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules by which its network was learned; none where a message has it."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Assessed(AbstractAssessed):
    """A message that a network is decoded from."""

    message: AbstractMessage
    facts: OccamFacts

    def require_read_back(self, task: Task) -> None:  # noqa: D102
        meant = self.message
        read = read_message(
            self.bits,
            input_shape=task.sample.input_shape,
            short_classes=task.sample.classes if meant.is_short else None,
            witness=meant.witness(),
        )
        for name, part in meant.parts.items():  # numbers are those that were counted with
            require_same(name, read.parts[name], part)

    def short_words(self, scaled: str) -> str:  # noqa: D102
        return f"as many as the base has; the message says that {scaled}"

    def route(self, method: str) -> tuple[str, str]:  # noqa: D102
        facts = self.facts
        bits = count_of(facts.code_bits, "bit", form="g")
        return self.kind.route, f"{count_of(facts.errors, 'error')} of {facts.n}, {bits} by {method}"

    def looser_forms(self, task: Task) -> tuple[float, float]:  # noqa: D102
        added = self.conclusion.added
        kl, hoeffding = (min(1.0, form(self.facts).value + added) for form in (occam_kl, occam_hoeffding))
        return kl, hoeffding

    def errors_on(self, data: Dataset, fault: Fault, engine: Engine | None) -> int:  # noqa: D102
        return count_errors(self.network, data.on("cpu"), fault=fault, engine=engine).errors

    def class_bounds(self, task: Task, rest: Dataset, *, engine: Engine | None) -> tuple[ClassBound, ...]:  # noqa: D102
        theta = _theta(self.message)
        rest = replace(rest, scaling=task.sample.scaling)  # as the message says it
        counts = []
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

    def recounted(self, task: Task, *, engine: Engine | None) -> Assessed:  # noqa: D102
        options = replace(self.message.options, setting=task.options.setting)
        return assess(self.message.with_options(options), task, engine=engine)


def require_same(name: str, read: object, meant: object) -> None:
    """Refuses a part of a message that is read otherwise than it was meant."""
    if read != meant:
        raise FormatError(f"the message does not say what it was made for: {name} {read}, not {meant}.")


def _with_setting(message: AbstractMessage, task: Task) -> AbstractMessage:
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

_SAFELY = 1.0 - 1e-9  # of a guess: less than it by more than rounding


def assess(
    message: AbstractMessage,
    task: Task,
    *,
    encoded: Encoded | None = None,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Assessed:
    """Encodes a message, unless that was done, decodes it, and bounds the risk of the decoded network."""
    message = _with_setting(message, task)
    fitted = task.claim.fitted(message, task).shortened()
    bits, ledger = encoded if encoded is not None and fitted is message else fitted.encode()
    network = decode_bits(
        bits,
        input_shape=task.sample.input_shape,
        base=task.base_tensors,
        short_classes=task.sample.classes if fitted.is_short else None,
        witness=fitted.witness(),
    )
    theta, fault = _theta(fitted), task.claim.fault
    count = count_errors(
        network, task.counted_data, theta=theta, fault=fault, engine=engine, progress=progress
    )
    facts = OccamFacts(
        errors=count.errors,
        n=task.counted.n,
        code_bits=bits.length,
        delta=task.claim.delta_share * task.delta,
        classes=task.sample.classes,
    )
    conclusion = task.claim.conclude(facts, message=fitted, network=network, task=task)
    kind, alone = type(task.claim), occam_binomial(facts).value
    version = fitted.version if fault == WRONG else max(fitted.version, kind.faults_since)
    return Assessed(
        fitted, bits, ledger, network, count, facts, conclusion, task.counted, kind, version, alone
    )


@dataclass(eq=False)
class Guess:
    """Estimate of a bound from the first examples, to compare messages.

    Attributes:
        message: The message.
        least: The value is no less, and
        most: no more: known without the blocks, which are long to make.
    """

    message: AbstractMessage
    least: float
    most: float
    _word: Encoded
    _rate: float
    _task: Task

    @cached_property
    def encoded(self) -> Encoded:
        """The whole message."""
        return self.message.with_blocks(*self._word)

    @cached_property
    def value(self) -> float:
        """The guess."""
        return _guessed(self._rate, self._word[0].length + self._block_bits, self._task)

    def is_below(self, other: Guess) -> bool:
        """Return True if its value is smaller. Blocks are made only where the limits do not decide."""
        if self.most < _SAFELY * other.least:
            return True
        if other.most < _SAFELY * self.least:
            return False
        if self._block_keys == other._block_keys:  # as of weights at the largest level alone
            self._block_bits = other._block_bits
        return self.value < other.value

    @cached_property
    def _block_bits(self) -> int:
        return self.encoded[0].length - self._word[0].length

    @cached_property
    def _block_keys(self) -> list[Hashable]:
        return self.message.block_keys()


def guess(message: AbstractMessage, task: Task) -> Guess:
    """Guesses the bound of a message from its errors on the first examples."""
    message = _with_setting(message, task)
    word = message.word()
    network = message.build(task.base_tensors)
    rate = estimated_error_rate(network, task.first_data)
    least, most = (_guessed(rate, bits, task) for bits in message.length_limits(word[0]))
    return Guess(message, least, most, word, rate, task)


def _guessed(rate: float, code_bits: int, task: Task) -> float:
    n = task.counted.n
    value = occam_kl(OccamFacts(errors=int(rate * n), n=n, code_bits=code_bits, delta=task.delta)).value
    return value + 1e-9 * rate if value < 1.0 else 1.0 + rate + code_bits / n


@implements("I-05", kind="certificate")
def issue(assessed: AbstractAssessed, task: Task, *, progress: Progress = silent) -> Certificate:
    """The certificate of an assessed message, checked by the independent verifier before it is returned.

    Raises:
        RefusedError: The verifier refuses: the certificate was never issued.
    """
    certificate = draft(assessed, task)
    with finishing():  # the search may have taken hours
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
    helper, common = task.helper, commonest(assessed.counted)
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
            extra={**assessed.conclusion.counted, **task.claim.described(task)},
            tally=assessed.conclusion.part,
        ),
        helper=helper,
        ledger=assessed.ledger,
        declarations=declared_by(assessed, task, helper),
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
    bound, fault = assessed.bound, task.claim.fault
    is_vacuous = bound.vacuous or bound.value >= guessed
    if fault != WRONG:
        is_vacuous = bound.value >= fault.guess_rate(task.sample.classes)
    kl, hoeffding = assessed.looser_forms(task)
    return Claim(
        statement=assessed.kind.statement,
        fault=str(fault),
        subject=bound.subject,
        delta=bound.delta,
        bound=bound.value,
        kl=max(bound.value, kl),
        hoeffding=max(bound.value, hoeffding),
        vacuous=is_vacuous,
    )
