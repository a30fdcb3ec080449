"""``certify``: from a trained network and its sample to a certificate that a second program accepted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import nn

from codebound.certificate.assessment import issue
from codebound.certificate.beside import class_bounds, held_out, holdout_of_f
from codebound.certificate.claims import (
    AboutG,
    AbstractClaim,
    AfterSplit,
    ByDisagreement,
    OnDomain,
    require_shape,
)
from codebound.certificate.evaluate import count_errors
from codebound.certificate.task import NO_NETWORK
from codebound.data.dataset import as_dataset, cross_duplicates
from codebound.device import resolve_device
from codebound.errors import CertificateError, CodeboundError, DataError, ModelError, UsageError
from codebound.facts import HoldoutFacts, check_delta
from codebound.faults import WRONG, parse_fault
from codebound.nets.origins import UNKNOWN, Origin, origin_of
from codebound.nets.walk import Network
from codebound.progress import Progress, silent, watched
from codebound.results import Certification
from codebound.search.attempts import Attempt, Attempts, plain
from codebound.search.methods import known_methods, makes_own, require_method
from codebound.search.routes import BY_HELPER, Route, compared_routes, is_worth_helping
from codebound.search.search import EFFORTS, Effort, OutOfTimeError
from codebound.search.starts import (
    base_tensors,
    beyond_message,
    encoded_rest,
    largest_input,
    read_original,
)

if TYPE_CHECKING:
    from codebound.certificate.base import Pretrained
    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine

SHARES = (3, 5, 7, 8, 9)
"""Tenths of a sample that a helper is made of where the best is asked for."""
_SHARES_OF_TABLES = (5, 8)
ENCODES = ("auto", "picks")
"""Methods for which a helper that was given encodes the rest of the sample."""


@watched
def certify(
    model: nn.Module | Network | None,
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
    fault: str = "wrong",
    base: Pretrained | None = None,
    factory: str = "",
    trust_code: bool = False,
    allow_copies: bool = False,
    by_class: bool = False,
    seed: int = 0,
    device: str = "cpu",
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Certification:
    """Compresses a network and bounds its error on new data by the length of the message.

    Args:
        model: The trained network f; it is not changed. None where there is none: then methods that make a
            network of their own are tried.
        sample: The sample it was trained on: a Dataset, a pair ``(inputs, labels)`` of arrays or tensors, a
            data frame, a Dataset or a DataLoader of PyTorch, or what ``load_dataset`` knows by name. Other
            samples are given in the same ways.
        claim: What to certify, one of ``codebound.certificate.claims``; by default ``AboutG()``, the error of
            the compressed network.
        method: A name of ``known_methods()``, or ``auto`` for the best of them: what is quick and tight comes
            first, and the others as long as they may still be better.
        minutes: Time for the search, before what it found is verified; the best until then is certified.
            None: as long as ``effort`` takes.
        effort: How far each method goes where no time is given, the same on every machine: ``quick`` trains
            no network, ``standard`` does, ``max`` for much longer. (Only the helper of a large share, which
            is made where all else is far from a hold-out set, is left out where it would take more than a
            quarter of an hour, or with ``quick``.)
        delta: Failure probability.
        test_set: Examples used for no choice; adds the hold-out bound of the network that the certificate is
            about, and an alarm where they refute it.
        unlabelled: Fresh inputs: short for ``ByDisagreement(unlabelled)``, the error of f itself (C-12b).
        input_range: Smallest and largest stored value that any input can have: short for
            ``OnDomain(low, high)``, the error of f itself on that domain (C-12a).
        prior_tenths: Tenths of the sample that a helper is made of: short for ``AfterSplit(tenths)``; errors
            count on the rest (C-10). Of several the best is taken: which one stands in the message.
        helper: What makes the helper, called with that part alone (and ``device`` and ``progress``, where it
            takes them by name); or a network that was made of that part alone, which is then declared.
            With the methods ``auto`` and ``picks`` it encodes the rest, which is the sample then: by its
            scores of the classes, of which the largest may be taken as it is; or, for picks, by what enters
            its last linear layer. It may be several networks, whose scores are averaged, or whose rows stand
            side by side. With other methods the message codes the difference to it. None: the model is
            trained on it from a fresh start, or without a model a linear network is learned from it in closed
            form.
        trained_on: The ``sha256`` of the sample that f was trained on, and no other: then the hold-out bound
            of f, beside that of g, is either shown without an "if" or left out. Of networks that ``fit``
            trained it is known.
        fault: What the certificate counts (docs/faults.md). The network is chosen by its plain errors all the
            same: one that is good at nothing but avoiding a fault is of no use.
        base: A network of the same architecture that was neither trained nor selected on the sample: the
            message codes only the difference to it. The certificate declares it; nobody can check it.
        factory: ``package.module:factory`` of the model, needed where its code has to be trusted.
        trust_code: Make the code of a factory that cannot be read an assumption of the certificate.
        allow_copies: Whether more than one example in a hundred may be an exact copy of an earlier one; the
            certificate then declares that they are independent draws.
        by_class: Also bound the error on every class; the limits of all classes hold at once with
            probability ``1 - delta``, beside the claim (C-17). Not for ``unlabelled``.
        seed: Seed of the search; free, because no decoder needs it.
        device: Where pruned networks are trained; errors are always counted on the CPU, in float64.
        engine: Where errors are counted, a part of the sample on each of its workers; None: here. The count
            is the same.
        progress: Told how far the search is; by default a bar, in a terminal or a notebook.

    Raises:
        CertificateError: No certificate can be issued for this network.

    Example:
        >>> from codebound.data.load import load_dataset
        >>> from codebound.nets.loading import load_model
        >>> digits = load_dataset("digits")
        >>> network = load_model("linear", input_shape=(1, 8, 8), classes=10)
        >>> certify(network, digits, method="prune", effort="quick").certificate.claim.vacuous  # untrained
        True
        >>> few = digits.select(range(300), role="train")
        >>> certify(None, few, effort="quick").method  # a share is learned from, and nothing picked
        'split'
    """
    start, place = time.perf_counter(), resolve_device(device)
    sample = as_dataset(sample)
    allow_copies = allow_copies or sample.has_equal_draws
    if test_set is not None:
        test_set = as_dataset(test_set, role="test", like=sample)
    if unlabelled is not None:
        unlabelled = as_dataset(unlabelled, role="unlabelled", like=sample)
    encoder = None
    if helper is not None and prior_tenths is not None and method in ENCODES:
        if any(each is not None for each in (claim, unlabelled, input_range, base)):
            raise UsageError("a helper of the first part encodes the rest: give no base and no other claim.")
        encoder, sample, test_set = encoded_rest(
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
    stated = _counting(_claim(claim, unlabelled, input_range, prior_tenths), fault, sample.classes)
    claim = plain(stated)
    if by_class and stated.unlabelled is not None:
        raise UsageError("unlabelled inputs say nothing about single classes. Leave out by_class.")
    check_delta(delta)
    require_method(method)
    if effort not in EFFORTS:
        raise UsageError(f"unknown effort {effort!r}. Known: {', '.join(EFFORTS)}.")
    if minutes is not None and (not minutes > 0.0 or effort != "standard"):
        raise UsageError(
            f"minutes are a positive number, in place of an effort. Got {minutes}, effort {effort}."
        )
    if base is not None and claim.trains_base:
        raise UsageError("a claim after a split has a helper of its own: give it or a base, not both.")
    if helper is not None and not claim.trains_base:
        raise UsageError(
            "a helper is made of a part of the sample: say of which (prior_tenths, or a prior fraction)."
        )
    if test_set is not None:
        require_shape("test", test_set, sample)
        if test_set.y.max() >= sample.classes:
            raise DataError(
                f"the test sample has a label {test_set.y.max()}; the sample has {sample.classes} classes."
            )
    module = model.model if isinstance(model, Network) else model
    if module is not None and not isinstance(module, nn.Module):
        raise UsageError(
            f"model is a torch.nn.Module, or None: then a network is made. Got {type(module).__name__}; "
            "codebound.PickToLearn bounds the error of an estimator of scikit-learn."
        )
    origin = UNKNOWN if module is None else origin_of(module)
    if trained_on is not None:
        origin = Origin(trained_on)
    original, unread = None, ""
    if module is not None:
        try:
            needs_chain = claim.is_about_f or (claim.trains_base and helper is None)
            original = read_original(module, sample, factory, trust_code=trust_code, needs_chain=needs_chain)
        except ModelError as reason:
            from codebound.nets.adapting import runs_on

            needs_f = base is not None or stated != AboutG(stated.fault) or not makes_own(method)
            if needs_f or not runs_on(module, sample.input_shape, sample.classes):
                raise
            unread = f"{reason}\n  Methods that make a network of their own go on without it."
    too_large = "" if original is None else beyond_message(original)
    codes_f = claim.is_about_f or (claim.trains_base and helper is None) or not makes_own(method)
    if too_large and (codes_f or (base is not None and method not in ENCODES)):
        raise CertificateError(too_large)
    original_errors = (
        None if original is None else count_errors(original.build(), sample.on("cpu"), engine=engine).errors
    )
    if original is None and (base is not None or claim.is_about_f):
        raise UsageError("this certificate starts from a network: give a model.")
    if base is not None and origin_of(base.network).has_seen(sample.sha256):
        raise CertificateError("this base was trained on this very sample: the bound would not hold.")
    of_base = None
    if base is not None and original is not None:
        is_f = base.network is module
        of_base = original.arrays if is_f else base_tensors(base, original, sample)
    start_at = None if too_large else original
    known = None if base is None or of_base is None or too_large else (base.name, of_base)
    common = Attempts(
        sample=sample,
        delta=delta,
        helper=helper,
        factory=factory,
        trust_code=trust_code,
        allow_copies=allow_copies,
        seed=seed,
        device=place,
        engine=engine,
        progress=progress,
    )
    shares = _each_share(stated, prior_tenths)
    encodes = of_base is not None and claim.allows_picks and method in ENCODES
    goes_all_ways = method == "auto" and stated == AboutG() and base is None
    helps = goes_all_ways and encoder is None and is_worth_helping(sample)
    parts = len(shares) + (encodes and method == "auto") + helps
    each_minutes = None if minutes is None else minutes / parts
    attempts: list[Attempt] = []
    not_behind = ""
    if encodes and base is not None and original is not None and of_base is not None:
        from codebound.search.own_features import features_encoder

        try:
            own = features_encoder(original, of_base, base.says, sample, device=place)
            attempts = [common.best(stated, "picks", effort, minutes=each_minutes, encoder=own)]
        except CodeboundError as reason:
            if method == "picks":
                raise
            not_behind = f"on the features of the base: {reason}"
    if not (encodes and method == "picks") and not _is_interrupted(attempts):
        with _keeping(attempts):
            for each in shares:
                if not _is_interrupted(attempts):
                    found = common.best(
                        each, method, effort, minutes=each_minutes, original=start_at, base=known
                    )
                    attempts.append(found)
    if encoder is not None and encoder.has_scores:  # which may be taken as they are
        largest = largest_input(sample.classes)
        scored = read_original(largest.network, sample, "", trust_code=False)
        scores = largest.name, scored.arrays
        attempts.append(common.best(stated, "biases", "quick", original=scored, base=scores))
    routes: tuple[Route, ...] = ()
    if goes_all_ways and not _is_interrupted(attempts):
        with _keeping(attempts):
            for tenths in _SHARES_OF_TABLES if original is None and len(sample.input_shape) == 1 else ():
                if not _is_interrupted(attempts):
                    attempts.append(common.best(AfterSplit(tenths), "prune", "quick"))
            if helps and not _is_interrupted(attempts):
                from codebound.search.helped import helped_attempts

                left = None if minutes is None else start + 60.0 * minutes - time.perf_counter()
                attempts += helped_attempts(common, attempts, stated, effort=effort, seconds=left)
            if not _is_interrupted(attempts):
                searches = [each.search for each in attempts]
                routes = compared_routes(searches, sample, delta=delta, device=place)
    task, search, best, whole, rest, behind = min(attempts, key=lambda each: each.best.rank)
    if not_behind:
        search.skipped["picks"] = not_behind
    if unread or too_large:
        instead = "the network that was given is not coded, for the reason that is given."
        search.skipped.update({name: instead for name, why in search.skipped.items() if why == NO_NETWORK})
    certificate = issue(best, task, progress=progress)
    fresh, copies, tested = None, None, test_set
    is_plain = stated.fault == WRONG and not claim.is_about_f
    if test_set is not None:
        tested = common.table(behind, test_set)
        if stated.fault.kind != "cost":
            fresh = held_out(best, task, tested, engine)
        copies = cross_duplicates(sample, test_set).count
    beside, apart = None, None
    if test_set is not None and original is not None and is_plain:
        beside = holdout_of_f(original, test_set, delta=delta, engine=engine)
        if not copies and tested is not None:
            from codebound.through import disagreements

            takes_stored = best.picked is not None
            differ = disagreements(
                original.build(), best.network, test_set, tested, takes_stored=takes_stored
            )
            apart = HoldoutFacts(errors=differ, n=test_set.n, delta=delta)
    notes = (unread,) if unread else () if original is None else original.notes
    notes += (too_large,) if too_large else ()
    is_new = base is None and (search.method == BY_HELPER or known_methods()[search.method].is_own)
    if original is not None and is_new and method == "auto" and stated == AboutG():
        from codebound.search.own_features import own_message_words, why_no_features

        costs = own_message_words(original, sample, delta=delta, bound=best.bound.value)
        notes += (costs, why_no_features(origin, sample))
    return Certification(
        certificate=certificate,
        network=best.network.float(),
        sample=whole,
        settings={
            "model": factory or ("none" if module is None else type(module).__name__),
            "data": sample.name,
            "claim": str(stated),
            "fault": str(stated.fault),
            "method": method,
            **({"effort": effort} if minutes is None else {"minutes": minutes}),
            "delta": delta,
            "seed": seed,
            "device": str(place),
        },
        holdout=fresh,
        holdout_f=beside,
        origin=origin,
        original_errors=original_errors,
        base=task.base_tensors,
        original=task.f.arrays if claim.is_about_f else None,
        unlabelled=claim.unlabelled,
        copies=copies,
        method=search.method,
        skipped=search.skipped,
        tried=search.tried,
        is_interrupted=_is_interrupted(attempts),
        is_out_of_time=search.is_out_of_time,
        seconds=time.perf_counter() - start,
        allow_copies=allow_copies,
        by_class=class_bounds(best, task, rest, engine=engine) if by_class else (),
        routes=routes,
        source="" if certificate.helper.architecture is None else task.f.source,
        notes=notes,
        encoder=behind or encoder,
        disagreement=apart,
        is_behind_f=behind is not None and not behind.made_of,
    )


def _is_interrupted(attempts: Sequence[Attempt]) -> bool:
    return any(each.search.is_interrupted for each in attempts)


@contextmanager
def _keeping(attempts: Sequence[Attempt]) -> Iterator[None]:
    """Whoever interrupts what comes after an attempt keeps that one."""
    try:
        yield
    except KeyboardInterrupt as end:
        if not attempts:
            raise
        is_late = isinstance(end, OutOfTimeError)
        attempts[0].search.is_out_of_time |= is_late
        attempts[0].search.is_interrupted |= not is_late


def _each_share(stated: AbstractClaim, tenths: int | Sequence[int] | None) -> list[AbstractClaim]:
    """The claim, or one for each share of the sample that a helper may be made of."""
    if isinstance(stated, AfterSplit) and isinstance(tenths, Sequence):
        return [replace(stated, tenths=each) for each in tenths]
    return [stated]


def _claim(
    claim: AbstractClaim | None,
    unlabelled: Dataset | None,
    input_range: tuple[float, float] | None,
    prior_tenths: int | Sequence[int] | None,
) -> AbstractClaim:
    """The claim, from itself or from its short spellings."""
    claims = [] if claim is None else [claim]
    if unlabelled is not None:
        claims.append(ByDisagreement(unlabelled))
    if input_range is not None:
        claims.append(OnDomain(*input_range))
    if prior_tenths is not None:
        tenths = [prior_tenths] if isinstance(prior_tenths, int) else list(prior_tenths)
        if not tenths:
            raise UsageError("give at least one share of the sample for a helper.")
        claims.append(AfterSplit(tenths[0]))
    if len(claims) > 1:
        raise UsageError(
            "a certificate has one claim: choose one of unlabelled inputs, an input range and a prior part."
        )
    return claims[0] if claims else AboutG()


def _counting(claim: AbstractClaim, fault: str, classes: int) -> AbstractClaim:
    """The claim about a fault, where one was named."""
    found = parse_fault(fault, classes=classes)
    return claim if found == WRONG else replace(claim, fault=found)  # type: ignore[type-var]
