"""The checks of a certificate in their order; later ones need what earlier ones found."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .checks import (
    check_claim,
    check_ledger,
    check_rows,
    check_scaling,
    count_commonest,
    match_sample,
)
from .header import Disagreement, Domain
from .message import Message
from .refusal import Refused
from .rooms import room
from .sample import Repeats, count_repeats
from .weights import same_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from .container import Certificate
    from .learn.picking import LearnedNetwork
    from .learn.rule import Rule
    from .networks.evaluation import Evaluator
    from .networks.network import Network
    from .questions.classes import ClassRow
    from .questions.refutation import Comparison
    from .sample import Inputs, Labels, Progress
    from .weights import Floats


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a verification, beside the file and its sample.

    Attributes:
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
    """

    base: Mapping[str, Floats] | None = None
    unlabelled: Inputs | None = None
    subject_weights: Mapping[str, Floats] | None = None
    learned_weights: Mapping[str, NDArray[Any]] | None = None
    test: tuple[Inputs, Inputs] | None = None
    allow_copies: bool = False
    by_class: bool = False
    progress: Progress | None = None


class Checklist:
    """The checks of one certificate: ``reasons`` to refuse, ``passed`` in words, and what was found.

    A step whose ground is missing is left out: there is a reason already.
    """

    def __init__(self, certificate: Certificate, x: Inputs, y: Inputs, given: Options) -> None:
        self.certificate, self.header, self.given = certificate, certificate.header, given
        self._data = x, y
        self.reasons: list[str] = []
        self.passed = ["the file is well-formed and its hashes are right"]
        self.sample: tuple[Inputs, Labels] | None = None
        self.repeats: Repeats | None = None
        self.commonest: int | None = None
        self.rule: Rule | None = None
        self.learned: LearnedNetwork | None = None  # g, if the message holds its rule
        self.network: Network | None = None
        self.evaluator: Evaluator | None = None  # of g, if the message holds it
        self.subject: Evaluator | None = None  # f, if the statement is about it

    @contextmanager
    def _check(self, what: str) -> Iterator[None]:
        try:
            yield
        except Refused as refused:
            self.reasons.extend(refused.reasons)
        else:
            self.passed.append(what)

    def check_numbers(self) -> None:
        """Check that the printed bounds follow from the printed facts."""
        with self._check("the printed bounds follow from errors, n, code_bits and delta"):
            check_claim(self.header)

    def check_sample(self) -> None:
        """Check that the data are those of the file, and that it hides nothing that shows in them."""
        header, given = self.header, self.given
        with self._check("the data are the sample that the certificate names"):
            self.sample = match_sample(header, *self._data)
        if self.sample is None:
            return
        x, y = self.sample
        self.repeats, self.commonest = count_repeats(x, y), count_commonest(header, y)
        with self._check("rows that occur again, and the commonest label, are as many as stated"):
            check_rows(header, self.repeats, self.commonest, allow_copies=given.allow_copies)
        with self._check("no constant of the scaling is a statistic of the sample"):
            check_scaling(header, x)

    def check_message(self) -> None:
        """Check that the message is the network g, or its rule, and costs what the file says."""
        with self._check("the message decodes to a network, in exactly the bits that it charges"):
            message = read_message(self.certificate, self.given.base)
            if self.header.statement == "C-15":
                self.rule = room("rule").decode_rule(message)
            else:
                network = self.network = room("network").decode(message, self.given.base)
                self.evaluator = self._evaluate(network, network.tensors)
            check_ledger(self.header, message.ledger)

    def _evaluate(self, network: Network, tensors: Mapping[str, Floats]) -> Evaluator:
        evaluator: Evaluator = room("evaluation").chain_evaluator(
            network.chain, tensors, header=self.header, progress=self.given.progress
        )
        return evaluator

    def check_errors(self) -> None:
        """Check that the network g, decoded or learned, makes no more errors than stated."""
        if self.sample and self.network and self.evaluator:
            with self._check("the decoded network makes no more errors than stated"):
                room("evaluation").check_errors(self.header, self.network, self.evaluator, *self.sample)
        if self.sample and self.rule:
            with self._check(
                "the rule, run on the sample, picks as many as stated and leaves no more errors"
            ):
                self.learned = room("picks").check_picks(
                    self.header, self.rule, self.sample, self.given.progress
                )

    def check_weights(self) -> None:
        """Check that weights handed over beside the file are those of g."""
        if (given := self.given.learned_weights) is None:
            return
        if self.header.statement == "C-15":
            with self._check("the weights beside it are those that the rule learns from the sample"):
                if self.learned is None or self.sample is None:
                    raise Refused(
                        "Weights: there is no network that a rule has learned to compare them with."
                    )
                self.learned.check_weights(given, *self.sample)
        elif self.network:
            with self._check("the weights beside it are those that the message decodes to"):
                self.network.check_weights(given)

    def check_original(self) -> None:
        """Check that the claim carries over from g to f, where it is about f."""
        header, given, extra = self.header, self.given, self.header.extra
        lacking = f"{header.statement} cannot be checked without "
        if header.subject == "f" and given.subject_weights is None:
            self.reasons.append(lacking + "the weights of f: give them with --subject-weights.")
        if header.statement == "C-12b" and given.unlabelled is None:
            self.reasons.append(lacking + "the unlabelled inputs: give them with --unlabelled.")
        if given.subject_weights is None:
            return
        if isinstance(extra, Domain) and self.network:
            with self._check("theta covers the distance of f and g on the whole domain"):
                room("original network").check_domain(header, extra, self.network, given.subject_weights)
                self.subject = self._evaluate(self.network, given.subject_weights)
        if isinstance(extra, Disagreement) and given.unlabelled is not None:
            self._check_disagreements(extra, given.subject_weights, given.unlabelled)

    def _check_disagreements(
        self, extra: Disagreement, weights: Mapping[str, Floats], unlabelled: Inputs
    ) -> None:
        if self.sample is None or self.evaluator is None:
            return
        with self._check("f and g disagree on no more unlabelled inputs than stated"):
            original = room("original network")
            self.subject = original.subject_evaluator(self.header, extra, weights, self.given.progress)
            original.check_disagreements(
                self.header,
                extra,
                (self.subject, self.evaluator),
                unlabelled=unlabelled,
                sample=self.sample[0],
                allow_copies=self.given.allow_copies,
            )

    def bound_classes(self) -> tuple[ClassRow, ...]:
        """The errors of g on every class, if somebody asks and nothing is refused."""
        if not self.given.by_class or self.reasons or self.header.statement == "C-12b":
            return ()
        assert self.sample is not None  # else there is a reason
        (x, y), learned, evaluator = self.sample, self.learned, self.evaluator

        def count(places: NDArray[np.int64]) -> tuple[int, int]:
            if learned is not None:
                return learned.count(y, places)
            assert evaluator is not None
            assert self.network is not None
            return 0, evaluator.count_errors(x[places], y[places], theta=self.network.theta or 0.0)

        table: tuple[ClassRow, ...] = room("classes").class_table(self.header, y, count)
        return table

    def compare_with_test(self) -> Comparison | None:
        """Comparison with test data; None without any, or if there is a reason to refuse."""
        if self.given.test is None or self.reasons:
            return None
        evaluated = (self.evaluator or self.learned) if self.header.subject == "g" else self.subject
        assert evaluated is not None  # else there is a reason
        assert self.sample is not None
        comparison: Comparison = room("test").compare_with_test(
            self.header, evaluated, self.sample[0], self.given.test
        )
        return comparison


def read_message(certificate: Certificate, base: Mapping[str, Floats] | None) -> Message:
    """The beginning of the message; a base must be that of the header."""
    if (named := certificate.header.base) is not None:
        if base is None:
            raise Refused(f"The base {named.name} is outside the file: give it with --base.")
        same_tensors(base, named.sha256, "Base")
    return Message(certificate)
