"""The way of a certificate from one check to the next; later ones need what earlier ones found."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .checks import (
    check_ledger,
    check_rows,
    check_scaling,
    checked_sample,
    count_commonest,
)
from .forms import check_claim
from .header import Disagreement, Domain, Header, Picked
from .refusal import Refused
from .rooms import room
from .rows import Repeats, count_repeats
from .weights import same_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from .container import Certificate
    from .learn.picking import Learned
    from .networks.evaluate import Evaluator
    from .networks.message import Network
    from .questions.classes import ClassRow
    from .questions.testing import Tested
    from .sample import Inputs, Labels, Progress
    from .weights import Floats


@dataclass(frozen=True)
class Given:
    """Arguments of ``verdict.verify`` beside the file; they are explained there."""

    x: Inputs
    y: Inputs
    base: Mapping[str, Floats] | None
    unlabelled: Inputs | None
    subject_weights: Mapping[str, Floats] | None
    learned_weights: Mapping[str, NDArray[Any]] | None
    test: tuple[Inputs, Inputs] | None
    allow_copies: bool
    by_class: bool
    progress: Progress | None


class Course:
    """The checks of one certificate: ``reasons`` to refuse, ``passed`` in words, and what was found.

    A step whose ground is missing is left out: there is a reason already.
    """

    def __init__(self, certificate: Certificate, given: Given) -> None:
        self.certificate, self.header, self.given = certificate, certificate.header, given
        self.reasons: list[str] = []
        self.passed = ["the file is well-formed and its hashes are right"]
        self.sample: tuple[Inputs, Labels] | None = None
        self.repeats: Repeats | None = None
        self.commonest: int | None = None
        self.network: Network | None = None
        self.evaluator: Evaluator | None = None  # of g, if the message holds it
        self.learned: Learned | None = None  # g, if the message holds its rule
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
            self.sample = checked_sample(header, given.x, given.y)
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
        given = self.given
        with self._check("the message decodes to a network, in exactly the bits that it charges"):
            self.network = decoded(self.certificate, given.base)
            if self.network.chain is not None:
                self.evaluator = room("evaluation").chain_evaluator(
                    self.network.chain, self.network.tensors, header=self.header, progress=given.progress
                )
            check_ledger(self.header, self.network)

    def check_errors(self) -> None:
        """Check that the network g, decoded or learned, makes no more errors than stated."""
        header, extra = self.header, self.header.extra
        if self.sample and self.network and self.evaluator:
            with self._check("the decoded network makes no more errors than stated"):
                room("network").check_errors(header, self.network, self.evaluator, *self.sample)
        if isinstance(extra, Picked) and self.sample and self.network and self.network.rule:
            with self._check(
                "the rule, run on the sample, picks as many as stated and leaves no more errors"
            ):
                self.learned = room("rule").check_picks(
                    header, extra, self.network.rule, self.sample, self.given.progress
                )

    def check_weights(self) -> None:
        """Check that weights handed over beside the file are those of g."""
        given = self.given.learned_weights
        if given is not None and isinstance(self.header.extra, Picked):
            with self._check("the weights beside it are those that the rule learns from the sample"):
                room("rule").check_weights(self.learned, given, self.sample)
        elif given is not None and self.network:
            with self._check("the weights beside it are those that the message decodes to"):
                room("network").check_decoded(self.network, given)

    def check_original(self) -> None:
        """Check that the claim carries over from g to f, where it is about f."""
        header, given, extra = self.header, self.given, self.header.extra
        self.reasons.extend(_missing(header, given))
        if given.subject_weights is None:
            return
        if isinstance(extra, Domain) and self.network:
            self._check_domain(extra, self.network, given.subject_weights)
        if isinstance(extra, Disagreement) and given.unlabelled is not None:
            self._check_disagreements(extra, given.subject_weights, given.unlabelled)

    def _check_domain(self, extra: Domain, network: Network, weights: Mapping[str, Floats]) -> None:
        with self._check("theta covers the distance of f and g on the whole domain"):
            room("original network").check_domain(self.header, extra, network, weights)
            assert network.chain is not None  # checked
            self.subject = room("evaluation").chain_evaluator(
                network.chain, weights, header=self.header, progress=self.given.progress
            )

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

    def by_class(self) -> tuple[ClassRow, ...]:
        """The errors of g on every class, if somebody asks and nothing is refused."""
        counting = self.evaluator or self.learned
        if not self.given.by_class or self.reasons or self.header.statement == "C-12b":
            return ()
        if not (self.sample and self.network and counting):
            return ()
        theta = self.network.theta or 0.0
        table: tuple[ClassRow, ...] = room("classes").class_table(
            self.header, counting, *self.sample, theta=theta
        )
        return table

    def tested(self) -> Tested | None:
        """Comparison with test data; None without any, or if there is a reason to refuse."""
        if self.given.test is None or self.reasons:
            return None
        evaluated = (self.evaluator or self.learned) if self.header.subject == "g" else self.subject
        assert evaluated is not None  # else there is a reason
        assert self.sample is not None
        testing = room("test")
        found = testing.count_on_test(self.header, evaluated, self.sample[0], self.given.test)
        comparison: Tested = testing.compare_with_test(self.header, *found)
        return comparison


def decoded(certificate: Certificate, base: Mapping[str, Floats] | None) -> Network:
    """The network of the message; a base must be that of the header."""
    header = certificate.header
    if header.base is not None and base is not None:
        same_tensors(base, header.base.sha256, "Base")
    network: Network = room("message").decode(certificate, base=base)
    return network


def _missing(header: Header, given: Given) -> list[str]:
    """Reasons to refuse for inputs that the statement needs and that were not given."""
    needs = (
        (header.subject == "f" and given.subject_weights is None, "the weights of f", "--subject-weights"),
        (header.statement == "C-12b" and given.unlabelled is None, "the unlabelled inputs", "--unlabelled"),
    )
    return [
        f"{header.statement} cannot be checked without {what}: give them with {option}."
        for is_missing, what, option in needs
        if is_missing
    ]
