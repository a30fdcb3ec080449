"""``certify``: from a trained network and its sample to a certificate that a second program accepted."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codebound.bounds.facts import HoldoutFacts, check_delta
from codebound.bounds.held_out import holdout
from codebound.certificate.claims import (
    AboutG,
    AbstractClaim,
    AfterSplit,
    ByDisagreement,
    OnDomain,
    require_shape,
)
from codebound.certificate.evaluate import collect_answers, count_differences, count_errors
from codebound.known.provenance import UNKNOWN, Origin, origin_of, remember
from codebound.methods.inputs import (
    ENCODES,
    Networks,
    describe_own_message,
    encode_rest,
    explain_no_features,
)
from codebound.methods.offers import BY_HELPER
from codebound.methods.registry import list_methods, require_method
from codebound.methods.search import EFFORTS, Effort
from codebound.methods.strategy import Strategy
from codebound.report.folder import Certification
from codebound.run.device import resolve_device
from codebound.run.errors import DataError, UsageError
from codebound.run.extensions import form_of, reader
from codebound.run.progress import Progress, show_progress, silent
from codebound.sample.dataset import cross_duplicates, require_certifiable, seen_rows
from codebound.sample.load import as_dataset
from codebound.sample.losses import WRONG, parse_loss, possible_examples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from codebound.bounds.risk import RiskBound
    from codebound.certificate.assessment import AbstractAssessed
    from codebound.certificate.task import Task
    from codebound.known.base import Pretrained
    from codebound.methods.offers import Attempt
    from codebound.run.job import Engine
    from codebound.sample.dataset import Dataset

SHARES = (3, 5, 7, 8, 9)
"""Tenths of a sample that a helper is made of where the best is asked for."""


@show_progress
def certify(
    model: nn.Module | Any | None,
    sample: Any,
    *,
    claim: AbstractClaim | None = None,
    method: str = "auto",
    minutes: float | None = None,
    effort: Effort = "standard",
    delta: float = 0.05,
    test_set: Any = None,
    unlabelled: Any = None,
    input_range: tuple[float, float] | None = None,
    prior_tenths: int | Sequence[int] | None = None,
    helper: Callable[[Dataset], Any] | Pretrained | None = None,
    trained_on: str | None = None,
    loss: str = "wrong",
    base: Pretrained | None = None,
    allow_copies: bool = False,
    by_class: bool = False,
    seed: int = 0,
    device: str = "cpu",
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Certification:
    """Compresses a network and bounds its error on new data by the length of the message.

    Args:
        model: The trained network f, or what ``wrap`` made of it; it is not changed. None where there is
            none: then methods that make a network of their own are tried.
        sample: The sample it was trained on: a Dataset, a pair ``(inputs, labels)`` of arrays or tensors, a
            data frame, a Dataset or a DataLoader of PyTorch, or what ``load_dataset`` knows by name. Other
            samples are given in the same ways.
        claim: What to certify, one of ``codebound.certificate.claims``; by default ``AboutG()``, the error of
            the compressed network.
        method: A name of ``list_methods()``, or ``auto`` for the best of them.
        minutes: Time for the search; the best until then is verified. None: as long as ``effort`` takes.
        effort: How far each method goes, the same on every machine: ``quick`` trains no network, ``standard``
            does, ``max`` for much longer. (The helper of a large share, which is made where all else is far
            from a hold-out set, is left out with ``quick``, and where it would take a quarter of an hour.)
        delta: Failure probability.
        test_set: Examples used for no choice; adds the hold-out bound of the network that the certificate is
            about, and an alarm where they refute it.
        unlabelled: Fresh inputs: short for ``ByDisagreement(unlabelled)``, the error of f itself (C-12b).
        input_range: Smallest and largest stored value that any input can have: short for
            ``OnDomain(low, high)``, the error of f itself on that domain (C-12a).
        prior_tenths: Tenths of the sample that a helper is made of: short for ``AfterSplit(tenths)``; errors
            count on the rest (C-10). Of several the best is taken: which one stands in the message.
        helper: What makes the helper, called with that part alone (and ``device`` and ``progress``, where it
            takes them by name); or a network that was made of that part alone, which is then declared. With
            the methods ``auto`` and ``picks`` it encodes the rest, which is the sample then: by its scores of
            the classes or, for picks, by what enters its last linear layer; of several networks scores are
            averaged, and rows stand side by side. With other methods the message codes the difference to it.
            None: the model is trained anew on that part, or without a model a linear network is learned.
        trained_on: The ``sha256`` of the sample that f was trained on, and no other: then the hold-out bound
            of f is either shown without an "if" or left out. Of networks that ``fit`` trained it is known.
        loss: What the certificate counts (docs/losses.md). The network is chosen by its plain errors.
        base: A network of the same architecture that was neither trained nor selected on the sample: the
            message codes only the difference to it. The certificate declares it; nobody can check it.
        allow_copies: Whether more than one example in a hundred may be an exact copy of an earlier one; the
            certificate then declares that they are independent draws.
        by_class: Also bound the error on every class; all limits hold at once with probability ``1 - delta``,
            beside the claim (C-17). Not for ``unlabelled``.
        seed: Seed of the search; free, because no decoder needs it.
        device: Where networks are trained; errors are always counted on the CPU, in float64.
        engine: Where errors are counted, with the same count; None: here.
        progress: Told how far the search is; by default a bar, in a terminal or a notebook.

    Raises:
        CertificateError: No certificate can be issued for this network. Where the second program refuses the
            best one, the next best is issued, and ``refusals`` says so.

    Example:
        >>> from codebound.sample.load import load_dataset
        >>> from codebound import load_model
        >>> digits = load_dataset("digits")
        >>> network = load_model("linear", input_shape=(1, 8, 8), classes=10)
        >>> certify(network, digits, method="prune", effort="quick").certificate.claim.vacuous  # untrained
        True
        >>> few = digits.select(range(300), role="train")
        >>> certify(None, few, effort="quick").method  # a share is learned from, and nothing picked
        'split'
    """
    began, place = time.perf_counter(), resolve_device(device)
    _check_settings(method, effort, minutes, delta)
    sample = as_dataset(sample)
    if test_set is not None:
        test_set = as_dataset(test_set, role="test", like=sample)
    if unlabelled is not None:
        unlabelled = as_dataset(unlabelled, role="unlabelled", like=sample)
    encoder = None
    if helper is not None and prior_tenths is not None and method in ENCODES:
        if any(each is not None for each in (claim, unlabelled, input_range, base)):
            raise UsageError("a helper of the first part encodes the rest: give no base and no other claim.")
        encoder, sample, test_set = encode_rest(
            helper,
            sample,
            test_set,
            prior_tenths,
            has_scores=method == "auto",
            allow_copies=allow_copies,
            device=place,
            progress=progress,
        )
        model = prior_tenths = helper = None
    require_certifiable(sample)
    counted = parse_loss(loss, classes=sample.classes)
    claims = [
        each if counted == WRONG else replace(each, loss=counted)  # type: ignore[type-var]
        for each in _claims(claim, unlabelled, input_range, prior_tenths)
    ]
    stated = claims[0]
    _check_arguments(stated, sample, test_set, base=base, helper=helper, by_class=by_class)
    given = None if model is None else reader("modules")(model)
    module: nn.Module | None = None if given is None else given.model
    start = Networks(None)
    if given is not None:
        start = form_of("networks")(
            given, base, sample, stated=stated, method=method, has_helper=helper is not None
        )
    elif base is not None or stated.is_about_f:
        raise UsageError("this certificate starts from a network: give a model.")
    f = start.original
    here = sample.on("cpu")  # held until the end: whoever counts on the whole sample has the same
    original_errors = None if f is None else count_errors(f.build(), here, engine=engine).errors
    course = Strategy(
        sample=sample,
        start=start,
        claims=claims,
        encoder=encoder,
        method=method,
        effort=effort,
        minutes=minutes,
        delta=delta,
        helper=helper,
        allow_copies=allow_copies,
        seed=seed,
        device=place,
        engine=engine,
        progress=progress,
    )
    found, certificate = course.run()
    origin = (
        Origin(trained_on) if trained_on is not None else UNKNOWN if module is None else origin_of(module)
    )
    tested = {"holdout": None, "copies": None} if test_set is None else _test(course, found, test_set)
    notes, search = start.notes, found.search
    is_new = base is None and (found.method == BY_HELPER or list_methods()[found.method].is_own)
    if f is not None and is_new and method == "auto" and stated == AboutG():
        costs = describe_own_message(f, sample, delta=delta, bound=found.best.bound.value)
        notes += (costs, explain_no_features(origin, sample))
    network = found.best.network.float()
    remember(network, replace(origin, is_whole=False).add_training(sample.sha256, seen_rows(sample)))
    return Certification(
        certificate=certificate,
        network=network,
        sample=found.sample,
        settings={
            "model": "none" if module is None else type(module).__name__,
            "data": sample.name,
            "claim": str(stated),
            "loss": str(stated.loss),
            "method": method,
            **({"effort": effort} if minutes is None else {"minutes": minutes}),
            "delta": delta,
            "seed": seed,
            "device": str(place),
        },
        origin=origin,
        original_errors=original_errors,
        base=found.task.base_tensors,
        original=found.task.f.arrays if stated.is_about_f else None,
        unlabelled=stated.unlabelled,
        method=found.method,
        skipped=search.skipped,
        tried=search.tried,
        is_interrupted=course.is_interrupted,
        is_out_of_time=search.is_out_of_time,
        seconds=time.perf_counter() - began,
        allow_copies=allow_copies,
        by_class=found.best.class_bounds(found.task, engine=engine) if by_class else (),
        routes=course.routes(found),
        refusals=tuple(course.refusals),
        notes=notes,
        encoder=found.encoder or encoder,
        is_behind_f=found.encoder is not None and not found.encoder.made_of,
        **tested,
    )


def _check_settings(method: str, effort: str, minutes: float | None, delta: float) -> None:
    check_delta(delta)
    require_method(method)
    if effort not in EFFORTS:
        raise UsageError(f"unknown effort {effort!r}. Known: {', '.join(EFFORTS)}.")
    if minutes is not None and (not minutes > 0.0 or effort != "standard"):
        raise UsageError(
            f"minutes are a positive number, in place of an effort. Got {minutes}, effort {effort}."
        )


def _check_arguments(
    stated: AbstractClaim,
    sample: Dataset,
    test_set: Dataset | None,
    *,
    base: Pretrained | None,
    helper: object,
    by_class: bool,
) -> None:
    """Refuses what does not go together."""
    if by_class and stated.unlabelled is not None:
        raise UsageError("unlabelled inputs say nothing about single classes. Leave out by_class.")
    if base is not None and stated.trains_base:
        raise UsageError("a claim after a split has a helper of its own: give it or a base, not both.")
    if helper is not None and not stated.trains_base:
        raise UsageError(
            "a helper is made of a part of the sample: say of which (prior_tenths, or a prior fraction)."
        )
    if test_set is not None:
        require_shape("test", test_set, sample)
        if test_set.y.max() >= sample.classes:
            raise DataError(
                f"the test sample has a label {test_set.y.max()}; the sample has {sample.classes} classes."
            )


def _test(course: Strategy, found: Attempt, test_set: Dataset) -> dict[str, Any]:
    """Evaluate g, and f beside it, on a test sample; each result is an attribute of ``Certification``."""
    original, claim = course.start.original, found.task.claim
    rows = course.table(found.encoder, test_set)
    tested = {
        "holdout": bound_by_test(found.best, found.task, rows, course.engine),
        "copies": cross_duplicates(course.sample, test_set).count,
    }
    if original is None or claim.loss != WRONG or claim.is_about_f:
        return tested
    of_f = collect_answers(original.build(), test_set.on("cpu"), engine=course.engine)
    facts = HoldoutFacts(errors=of_f.errors, n=test_set.n, delta=course.delta)
    tested["holdout_f"] = holdout(replace(facts, classes=test_set.classes, subject="f"))
    if not tested["copies"]:
        differ = count_differences(of_f, found.best.network, rows, takes_stored=found.best.kind.is_learned)
        tested["disagreement"] = replace(facts, errors=differ)
    return tested


def bound_by_test(best: AbstractAssessed, task: Task, test_set: Dataset, engine: Engine | None) -> RiskBound:
    """Hold-out bound of the certified network on fresh data."""
    loss = task.claim.loss
    tested = possible_examples(loss, test_set)
    if task.claim.is_about_f:
        errors = count_errors(task.f.build(), tested.on("cpu"), loss=loss, engine=engine).errors
    else:
        errors = best.errors_on(tested, loss, engine)
    facts = HoldoutFacts(
        errors=errors,
        n=tested.n,
        delta=task.delta,
        classes=task.sample.classes,
        subject=best.bound.subject,
    )
    return holdout(facts)


def _claims(
    claim: AbstractClaim | None,
    unlabelled: Dataset | None,
    input_range: tuple[float, float] | None,
    prior_tenths: int | Sequence[int] | None,
) -> list[AbstractClaim]:
    """The claim, from itself or from its short spellings: one for each share that a helper may be made of."""
    ways: list[list[AbstractClaim]] = [] if claim is None else [[claim]]
    if unlabelled is not None:
        ways.append([ByDisagreement(unlabelled)])
    if input_range is not None:
        ways.append([OnDomain(*input_range)])
    if prior_tenths is not None:
        tenths = [prior_tenths] if isinstance(prior_tenths, int) else prior_tenths
        ways.append([AfterSplit(each) for each in tenths])
    if len(ways) > 1:
        raise UsageError(
            "a certificate has one claim: choose one of unlabelled inputs, an input range and a prior part."
        )
    if ways == [[]]:
        raise UsageError("give at least one share of the sample for a helper.")
    return ways[0] if ways else [AboutG()]
