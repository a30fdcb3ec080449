"""The verdict on a certificate: ACCEPT, or REFUSE with every reason."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from .assumptions import assumed_by, developed_on
from .checks import (
    ClassRow,
    check_disagreements,
    check_domain,
    check_errors,
    check_ledger,
    check_picks,
    check_rows,
    check_scaling,
    check_weights,
    checked_sample,
    class_table,
    count_commonest,
    count_on_test,
    subject_evaluator,
)
from .container import Certificate, Source, load, read
from .evaluate import Evaluator, Functions, Progress, chain_evaluator, of_module, unbounded
from .factory import Made, check_function, loaded, make, state_layout
from .forms import check_claim, guessing
from .header import Abstaining, Disagreement, Domain, Header, Picked
from .message import Network, decode
from .refusal import Refused
from .rows import count_repeats
from .weights import same_tensors
from .words import Counted, Tested, claimed, compare_with_test, counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray
    from torch import nn

    from .chain import Chain
    from .sample import Inputs
    from .tensors import Floats

GUESSED_WIDTH = 64  # numbers that an unknown module holds for each number of its input


@dataclass(frozen=True)
class Verdict:
    """What to think of a certificate.

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
    share: float | None = None  # of new data that the network abstains from, at most
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
        """Whether the file proves what it claims, under the assumptions."""
        return self.verdict == "ACCEPT"

    def __bool__(self) -> bool:
        """Whether to believe it: accepted, and not refuted by test data."""
        return self.is_accepted and not self.refuted_by_test


def verify(
    source: Source,
    x: Inputs,
    y: Inputs,
    *,
    factory: Callable[..., nn.Module] | None = None,
    base: Mapping[str, Floats] | None = None,
    unlabelled: Inputs | None = None,
    subject_weights: Mapping[str, Floats] | None = None,
    learned_weights: Mapping[str, NDArray[Any]] | None = None,
    test: tuple[Inputs, Inputs] | None = None,
    trust_code: bool = False,
    allow_copies: bool = False,
    by_class: bool = False,
    progress: Progress | None = None,
) -> Verdict:
    """Check a certificate against the sample it is about.

    Args:
        source: The file, or its bytes.
        x: All inputs of the sample, as stored.
        y: Their labels.
        factory: Makes the module, if the header names an architecture; takes input_shape and classes, or not.
        base: The tensors of the base, if the header names one.
        unlabelled: Unlabelled inputs, for the statement C-12b.
        subject_weights: The tensors of the original network f, for C-12a and C-12b.
        learned_weights: The tensors of g that were handed over beside a C-15 certificate: are they what the
            rule learns from this sample?
        test: Inputs and labels that took no part in making the network: they may refute the claim.
        trust_code: Accept a factory whose module cannot be traced; its code is then part of what is assumed.
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
    header = certificate.header
    reasons: list[str] = []
    passed = ["the file is well-formed and its hashes are right"]

    @contextmanager
    def check(what: str) -> Iterator[None]:
        try:
            yield
        except Refused as refused:
            reasons.extend(refused.reasons)
        else:
            passed.append(what)

    with check("the printed bounds follow from errors, n, code_bits and delta"):
        check_claim(header)
    sample = evaluator = network = subject = made = learned = repeats = commonest = None
    with check("the data are the sample that the certificate names"):
        sample = checked_sample(header, x, y)
    if sample:
        repeats, commonest = count_repeats(*sample), count_commonest(header, sample[1])
        with check("rows that occur again, and the commonest label, are as many as stated"):
            check_rows(header, repeats, commonest, allow_copies=allow_copies)
        with check("no constant of the scaling is a statistic of the sample"):
            check_scaling(header, sample[0])
    with check("the message decodes to a network, in exactly the bits that it charges"):
        network, made = _decoded(certificate, factory, base, trust_code=trust_code)
        evaluator = None if network.rule else _evaluator(header, network, made, progress)
        check_ledger(header, network)
    if sample and network and network.chain is None and made:
        with check("the module computes each prediction from its example alone, as its graph says"):
            _check_function(header, network, made, sample[0])
    if sample and network and evaluator:
        with check("the decoded network makes no more errors than stated"):
            check_errors(header, network, evaluator, *sample)
    if isinstance(header.extra, Picked) and sample and network and network.rule:
        with check("the rule, run on the sample, picks as many as stated and leaves no more errors"):
            learned = check_picks(header, header.extra, network.rule, sample, progress)
    if learned_weights is not None:
        with check("the weights beside it are those that the rule learns from the sample"):
            check_weights(learned, learned_weights, sample)
    reasons.extend(_missing(header, subject_weights, unlabelled))
    if isinstance(header.extra, Domain) and network and subject_weights is not None:
        with check("theta covers the distance of f and g on the whole domain"):
            check_domain(header, header.extra, network, subject_weights)
            assert network.chain is not None  # checked
            subject = chain_evaluator(network.chain, subject_weights, header=header, progress=progress)
    if (
        isinstance(header.extra, Disagreement)
        and sample
        and evaluator
        and subject_weights is not None
        and unlabelled is not None
    ):
        with check("f and g disagree on no more unlabelled inputs than stated"):
            subject = subject_evaluator(header, header.extra, subject_weights, progress)
            check_disagreements(
                header,
                header.extra,
                (subject, evaluator),
                unlabelled=unlabelled,
                sample=sample[0],
                allow_copies=allow_copies,
            )

    table: tuple[ClassRow, ...] = ()
    counting = evaluator or learned
    if by_class and not reasons and sample and network and counting and header.statement != "C-12b":
        table = class_table(header, counting, *sample, theta=network.theta or 0.0)
    tested = None
    if test is not None and not reasons:
        evaluated = counting if header.subject == "g" else subject
        assert evaluated is not None  # else there is a reason
        assert sample is not None
        tested = compare_with_test(header, *count_on_test(header, evaluated, sample[0], test))
    vacuous = header.bound >= guessing(header, commonest)
    return Verdict(
        "REFUSE" if reasons else "ACCEPT",
        tuple(reasons),
        None if reasons else header.bound,
        declarations=header.declarations,
        checked=tuple(passed),
        assumptions=assumed_by(header, made, repeats),
        statement=header.statement,
        subject=header.subject,
        fault=header.fault.text,
        share=header.tally.share if isinstance(header.tally, Abstaining) else None,
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
        development_sample=developed_on(header, repeats),
    )


def decode_network(
    source: Source,
    *,
    factory: Callable[..., nn.Module] | None = None,
    base: Mapping[str, Floats] | None = None,
    trust_code: bool = False,
) -> tuple[Chain | None, Mapping[str, Floats]]:
    """The network g of a certificate: its chain (None with a factory) and its tensors.

    Raises:
        Refused: if the file or its message is malformed, or a helper is missing or not the right one.
    """
    network, _ = _decoded(read(load(source)), factory, base, trust_code=trust_code)
    if network.rule is not None:
        raise Refused(
            "The message holds no network: it names the rule by which g is learned from the sample. Run it "
            "with codebound, which hands g over as a network that needs the sample no more."
        )
    return network.chain, network.tensors


def _decoded(
    certificate: Certificate,
    factory: Callable[..., nn.Module] | None,
    base: Mapping[str, Floats] | None,
    *,
    trust_code: bool,
) -> tuple[Network, Made | None]:
    """The network of the message, and what the factory made; helpers must be those of the header."""
    header = certificate.header
    if header.base is not None and base is not None:
        same_tensors(base, header.base.sha256, "Base")
    made = layout = None
    if header.architecture is not None and factory is not None:
        made = make(factory, header, trust_code=trust_code)
        layout = state_layout(made.module)
    return decode(certificate, factory_layout=layout, base=base), made


def _evaluator(header: Header, network: Network, made: Made | None, progress: Progress | None) -> Evaluator:
    if network.chain is not None:
        return chain_evaluator(network.chain, network.tensors, header=header, progress=progress)
    assert made is not None  # decode() refuses without one
    wide, narrow = (made.forward(network.tensors, dtype) for dtype in (torch.float64, torch.float32))
    return _of_module(of_module(wide, narrow), header, progress)


def _of_module(functions: Functions, header: Header, progress: Progress | None = None) -> Evaluator:
    width = GUESSED_WIDTH * math.prod(header.input_shape)
    return Evaluator(functions, header=header, widest=width, progress=progress)


def _check_function(header: Header, network: Network, made: Made, x: Inputs) -> None:
    module = _of_module(unbounded(loaded(made.module, network.tensors)), header)
    graph = None if made.graph is None else _of_module(unbounded(made.forward(network.tensors)), header)
    check_function(module, graph, x)


def _missing(header: Header, subject_weights: object, unlabelled: object) -> list[str]:
    """What the statement needs and was not given."""
    needs = (
        (header.subject == "f" and subject_weights is None, "the weights of f", "--subject-weights"),
        (header.statement == "C-12b" and unlabelled is None, "the unlabelled inputs", "--unlabelled"),
    )
    return [
        f"{header.statement} cannot be checked without {what}: give them with {option}."
        for is_missing, what, option in needs
        if is_missing
    ]
