"""``certify``: from a trained network and its sample to a certificate that a second program accepted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import nn

from codebound.bounds.faulty import occam_table
from codebound.bounds.held_out import holdout
from codebound.bounds.original import grid_theta
from codebound.certificate.assessment import abstaining_tally, assess, issue
from codebound.certificate.claims import (
    AboutG,
    AbstractClaim,
    AfterSplit,
    ByDisagreement,
    OnDomain,
    prior_and_rest,
    require_shape,
)
from codebound.certificate.evaluate import count_errors
from codebound.certificate.one_example import require_one_example
from codebound.certificate.task import Original, Task
from codebound.chains.message import Message
from codebound.data.dataset import as_dataset, cross_duplicates
from codebound.device import resolve_device
from codebound.errors import CertificateError, CodeboundError, DataError, ModelError, UsageError
from codebound.facts import HoldoutFacts, PickedFacts, check_delta
from codebound.faults import WRONG, parse_fault, possible_examples
from codebound.nets.origins import UNKNOWN, Origin, origin_of
from codebound.nets.walk import Network
from codebound.progress import Progress, silent, watched
from codebound.results import Certification, ClassBound
from codebound.rng import torch_stream
from codebound.search.methods import known_methods, makes_own, require_method
from codebound.search.routes import Route, compared_routes
from codebound.search.search import EFFORTS, Effort, Search, run
from codebound.train.config import Cosine, TrainConfig
from codebound.train.harness import fit

if TYPE_CHECKING:
    from codebound.bounds.risk import RiskBound
    from codebound.certificate.assessment import Assessed
    from codebound.certificate.base import Pretrained
    from codebound.certificate.task import Tensors
    from codebound.chains.chain import Chain
    from codebound.data.dataset import Dataset
    from codebound.encoders.encoder import Encoder
    from codebound.engine.job import Engine

_PRIOR_STEPS = 4000
_PRIOR_SEED = 0
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
            no network, ``standard`` does, ``max`` for much longer.
        delta: Failure probability.
        test_set: Examples used for no choice; adds the hold-out bound of the network that the certificate is
            about, and an alarm where they refute it.
        unlabelled: Fresh inputs: short for ``ByDisagreement(unlabelled)``, the error of f itself (C-12b).
        input_range: Smallest and largest stored value that any input can have: short for
            ``OnDomain(low, high)``, the error of f itself on that domain (C-12a).
        prior_tenths: Tenths of the sample that a helper is made of: short for ``AfterSplit(tenths)``; errors
            count on the rest (C-10). Of several the best is taken: which one stands in the message.
        helper: What makes the helper, called with that part alone; or a network that was made of that part
            alone, which is then declared. With the methods ``auto`` and ``picks`` it encodes the rest, which
            is the sample then: by its scores of the classes, of which the largest may be taken as it is; or,
            for picks, by what enters its last linear layer. It may be several networks, whose scores are
            averaged, or whose rows stand side by side. With other methods the message codes the difference
            to it. None: the model is trained on it from a fresh start, or without a model a linear network
            is learned from it in closed form.
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
    if test_set is not None:
        test_set = as_dataset(test_set, role="test", like=sample)
    if unlabelled is not None:
        unlabelled = as_dataset(unlabelled, role="unlabelled", like=sample)
    encoder = None
    if helper is not None and prior_tenths is not None and method in ENCODES:
        if any(each is not None for each in (claim, unlabelled, input_range, base)):
            raise UsageError("a helper of the first part encodes the rest: give no base and no other claim.")
        encoder, sample, test_set = _behind(
            helper, sample, test_set, prior_tenths, has_scores=method == "auto", progress=progress
        )
        model = prior_tenths = helper = None
    stated = _counting(_claim(claim, unlabelled, input_range, prior_tenths), fault, sample.classes)
    claim = stated if stated.fault == WRONG else replace(stated, fault=WRONG)  # type: ignore[type-var]
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
        raise UsageError("a helper is made of a part of the sample: give prior_tenths too.")
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
            original = _original(module, sample, factory, trust_code=trust_code)
        except ModelError as reason:
            from codebound.nets.adapting import runs_on

            needs_f = base is not None or stated != AboutG(stated.fault) or not makes_own(method)
            if needs_f or not runs_on(module, sample.input_shape, sample.classes):
                raise
            unread = f"{reason}\n  Methods that make a network of their own go on without it."
    original_errors = (
        None if original is None else count_errors(original.build(), sample.on("cpu"), engine=engine).errors
    )
    if original is None and (base is not None or claim.is_about_f):
        raise UsageError("this certificate starts from a network: give a model.")
    if base is not None and origin_of(base.network).has_seen(sample.sha256):
        raise CertificateError("this base was trained on this very sample: the bound would not hold.")
    of_base = None if base is None or original is None else _base_tensors(base, original, sample)

    def attempt(
        stated: AbstractClaim,
        method: str,
        effort: Effort,
        minutes: float | None,
        original: Original | None = original,
        base: Pretrained | None = base,
        behind: Encoder | None = None,
    ) -> _Attempt:
        """The best message for one claim, on the sample or on the table that an encoder makes of it."""
        claim = stated if stated.fault == WRONG else replace(stated, fault=WRONG)  # type: ignore[type-var]
        whole = _table(behind, sample, place, progress)
        prior, rest = claim.split(whole)
        start, known = original, None
        if prior is not None:
            says, start = _helper(helper, original, prior, factory, trust_code=trust_code, progress=progress)
            known = says, start.arrays
        elif base is not None and original is not None:
            known = base.name, of_base or _base_tensors(base, original, sample)
        task_of = partial(
            Task,
            sample=whole,
            delta=delta,
            original=start,
            base=known,
            rest=rest,
            allow_copies=allow_copies,
        )
        task = task_of(claim=claim)
        search = Search(
            task,
            effort,
            seed=seed,
            device=place,
            engine=engine,
            progress=progress,
        )
        best = run(search, method, minutes=minutes)
        if stated.fault != WRONG:
            task = task_of(claim=stated)
            if best.picked is not None:
                from codebound.certificate.picked import assess_picked

                best = assess_picked(best.picked, task)
            else:
                assert isinstance(best.message, Message)  # there are no others
                options = replace(best.message.options, setting=task.options.setting)
                best = assess(replace(best.message, options=options), task, engine=engine)
        return _Attempt(task, search, best, whole, rest, behind)

    shares = _each_share(stated, prior_tenths)
    encodes = of_base is not None and claim.allows_picks and method in ENCODES
    each_minutes = None if minutes is None else minutes / (len(shares) + (encodes and method == "auto"))
    attempts: list[_Attempt] = []
    not_behind = ""
    if encodes and base is not None and original is not None and of_base is not None:
        from codebound.search.own_features import features_encoder

        try:
            own = features_encoder(original, of_base, base.says, sample, device=place)
            attempts = [attempt(stated, "picks", effort, each_minutes, None, None, own)]
        except CodeboundError as reason:
            if method == "picks":
                raise
            not_behind = f"on the features of the base: {reason}"
    if not (encodes and method == "picks"):
        is_stopped = bool(attempts) and attempts[0].search.is_interrupted
        attempts += [attempt(each, method, effort, each_minutes) for each in shares if not is_stopped]
    if encoder is not None and encoder.has_scores:  # which may be taken as they are
        largest = largest_input(sample.classes)
        scored = _original(largest.network, sample, "", trust_code=False)
        attempts.append(attempt(stated, "biases", "quick", None, scored, largest))
    routes: tuple[Route, ...] = ()
    is_whole = not any(each.search.is_interrupted for each in attempts)
    if method == "auto" and stated == AboutG() and base is None and is_whole:
        if original is None and len(sample.input_shape) == 1:
            attempts += [attempt(AfterSplit(each), "prune", "quick", None) for each in _SHARES_OF_TABLES]
        routes = compared_routes([each.search for each in attempts], sample, delta=delta, device=place)
    task, search, best, whole, rest, behind = min(attempts, key=lambda each: each.best.rank)
    if not_behind:
        search.skipped["picks"] = not_behind
    certificate = issue(best, task, progress=progress)
    fresh, copies, tested = None, None, test_set
    is_plain = stated.fault == WRONG and not claim.is_about_f
    if test_set is not None:
        tested = _table(behind, test_set, place, progress)
        if stated.fault.kind != "cost":
            fresh = _held_out(best, task, tested, engine)
        copies = cross_duplicates(sample, test_set).count
    beside, apart = None, None
    if test_set is not None and original is not None and is_plain:
        beside = _holdout_of_f(original, test_set, delta=delta, engine=engine)
        if not copies and tested is not None:
            from codebound.through import disagreements

            takes_stored = best.picked is not None
            differ = disagreements(
                original.build(), best.network, test_set, tested, takes_stored=takes_stored
            )
            apart = HoldoutFacts(errors=differ, n=test_set.n, delta=delta)
    notes = (unread,) if unread else () if original is None else original.notes
    is_new = base is None and known_methods()[search.method].is_own
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
        is_interrupted=search.is_interrupted,
        is_out_of_time=search.is_out_of_time,
        seconds=time.perf_counter() - start,
        allow_copies=allow_copies,
        by_class=_class_bounds(best, task, rest, engine=engine) if by_class else (),
        routes=routes,
        source="" if certificate.helper.architecture is None else task.f.source,
        notes=notes,
        encoder=behind or encoder,
        disagreement=apart,
        is_behind_f=behind is not None,
    )


def _table(encoder: Encoder | None, sample: Dataset, place: torch.device, progress: Progress) -> Dataset:
    """The sample, or what an encoder makes of it."""
    if encoder is None:
        return sample
    from codebound.encoders.tables import encoded

    return encoded(encoder, sample, device=place, progress=progress)


class _Attempt(NamedTuple):
    """What a search came to for one claim, on which sample, and the examples that it counted on."""

    task: Task
    search: Search
    best: Assessed
    sample: Dataset
    rest: Dataset
    encoder: Encoder | None


def _behind(
    helper: Callable[[Dataset], Any] | Pretrained,
    sample: Dataset,
    test_set: Dataset | None,
    tenths: int | Sequence[int],
    *,
    has_scores: bool,
    progress: Progress,
) -> tuple[Encoder, Dataset, Dataset | None]:
    """A helper that was made of the first part of a sample, and what it makes of the rest."""
    from codebound.certificate.base import Pretrained
    from codebound.encoders.helpers import helper_encoder

    if not isinstance(tenths, int):
        if len(tenths) != 1:
            raise UsageError(
                "a helper that encodes is made of one share of the sample: the rest is a sample of its own, "
                "and no message says which share it was. Give one, or the method prune."
            )
        (tenths,) = tenths
    prior, rest = prior_and_rest(sample, tenths)
    if isinstance(helper, Pretrained):
        made, says = helper.network, helper.name
    else:
        says = _maker(helper)
        try:
            made = helper(prior)
        except Exception as error:  # of somebody else's training
            raise UsageError(
                f"{says} failed with {type(error).__name__}: {error}. It is called with the first part of "
                "the sample, a Dataset, and returns a network."
            ) from error
    encoder = helper_encoder(made, prior, n=sample.n, says=says, has_scores=has_scores)
    table = replace(encoder.table(rest, progress=progress), role="train")
    return encoder, table, None if test_set is None else encoder.table(test_set, progress=progress)


def largest_input(classes: int) -> Pretrained:
    """The network that takes the largest of its inputs, which are scores of the classes already."""
    from codebound.certificate.base import Pretrained

    network = nn.Linear(classes, classes)
    with torch.no_grad():
        network.weight.copy_(torch.eye(classes))
        network.bias.zero_()
    return Pretrained(nn.Sequential(network), "the largest input, as it is: no number of it was learned")


def _maker(helper: Callable[[Dataset], Any]) -> str:
    return f"{getattr(helper, '__module__', '')}:{getattr(helper, '__qualname__', type(helper).__name__)}"


def _each_share(stated: AbstractClaim, tenths: int | Sequence[int] | None) -> list[AbstractClaim]:
    """The claim, or one for each share of the sample that a helper may be made of."""
    if isinstance(stated, AfterSplit) and isinstance(tenths, Sequence):
        return [replace(stated, tenths=each) for each in tenths]
    return [stated]


def _helper(
    helper: Callable[[Dataset], Any] | Pretrained | None,
    original: Original | None,
    prior: Dataset,
    factory: str,
    *,
    trust_code: bool,
    progress: Progress,
) -> tuple[str, Original]:
    """What is known of the first part of a split, in words and as a network."""
    from codebound.certificate.base import MAX_WORDS, Pretrained
    from codebound.search.rivals import linear_helper

    if isinstance(helper, Pretrained):
        return helper.name, _original(helper.network, prior, factory, trust_code=trust_code)
    if helper is not None:
        says = f"made by {_maker(helper)}"
        made = helper(prior)
        if not isinstance(made, torch.nn.Module):
            raise UsageError(f"a helper is a torch module. Got {type(made).__name__}.")
        return f"{says} of the first part"[:MAX_WORDS], _original(
            made.eval(), prior, factory, trust_code=trust_code
        )
    if original is not None:
        return "trained on the prior part of the sample", _trained_on_prior(original, prior, progress)
    return (
        "linear, learned in closed form from the first part of the sample",
        _original(linear_helper(prior), prior, factory, trust_code=trust_code),
    )


def _class_bounds(
    best: Assessed, task: Task, rest: Dataset, *, engine: Engine | None
) -> tuple[ClassBound, ...]:
    """The errors of g on every class of the examples that count, with limits that hold at once."""
    if best.picked is not None:
        return _picked_class_bounds(best, task)
    index = best.message.options.theta_index
    theta = 0.0 if index is None else grid_theta(index).value
    rest = replace(rest, scaling=task.sample.scaling)  # as the message says it
    parts = [np.flatnonzero(rest.y == label) for label in range(task.sample.classes)]
    counts = [
        (
            count_errors(
                best.network, rest.select(part, role=rest.role).on("cpu"), theta=theta, engine=engine
            ).errors
            if len(part)
            else 0,
            len(part),
        )
        for part in parts
    ]
    limits = occam_table(counts, code_bits=best.facts.code_bits, delta=task.delta)
    return tuple(
        ClassBound(label, errors, n, limit)
        for label, ((errors, n), limit) in enumerate(zip(counts, limits, strict=True))
    )


def _picked_class_bounds(best: Assessed, task: Task) -> tuple[ClassBound, ...]:
    """The same for a network that was learned from picks: those of a class count on that class alone."""
    from codebound.certificate.picked import picked_class_bound

    assert best.picked is not None  # the caller has looked
    assert isinstance(best.facts, PickedFacts)
    share = task.delta / task.sample.classes * (1.0 - 1e-15)
    rows = []
    for label in range(task.sample.classes):
        own, bound = picked_class_bound(best.picked, task.sample, label, replace(best.facts, delta=share))
        errors, n, picks = (0, 0, 0) if own is None else (own.errors, own.n, own.picks)
        rows.append(ClassBound(label, errors, n, bound, picks))
    return tuple(rows)


def _held_out(best: Assessed, task: Task, test_set: Dataset, engine: Engine | None) -> RiskBound:
    """What data that were used for no choice say about the network; a picked one takes inputs as stored."""
    fault = task.claim.fault
    tested = possible_examples(fault, test_set)
    if best.picked is not None:
        from codebound.picks.network import count_faults

        counts = count_faults(best.network, tested, fault)
    else:
        subject = task.f.build() if task.claim.is_about_f else best.network
        counts = count_errors(subject, tested.on("cpu"), fault=fault, engine=engine).counts
    kept = abstaining_tally(counts, tested.n)["kept"] if fault.kind == "abstain" else tested.n
    facts = HoldoutFacts(
        errors=counts[0],
        n=kept,
        delta=task.delta,
        classes=task.sample.classes,
        subject=best.bound.subject,
    )
    return holdout(facts)


def _holdout_of_f(original: Original, test_set: Dataset, *, delta: float, engine: Engine | None) -> RiskBound:
    """What the test sample says about f, if f has not been trained on it."""
    counted = count_errors(original.build(), test_set.on("cpu"), engine=engine)
    return holdout(
        HoldoutFacts(errors=counted.errors, n=test_set.n, delta=delta, classes=test_set.classes, subject="f")
    )


def _original(module: nn.Module, sample: Dataset, factory: str, *, trust_code: bool) -> Original:
    """The network f, if it is a function of one example with as many outputs as there are classes."""
    original = Original.read(
        module, sample.input_shape, classes=sample.classes, factory=factory, trust_code=trust_code
    )
    if original.module is not None:
        require_one_example(original.module, sample)
    if original.chain is not None and original.chain.classes != sample.classes:
        raise ModelError(
            f"the network has {original.chain.classes} outputs, the sample {sample.classes} classes. Where "
            "the last classes have no example, say how many there are: codebound.from_arrays(x, y, name=..., "
            "classes=...), or a factory that returns that, package.module:factory."
        )
    return original


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


def _base_tensors(base: Pretrained, original: Original, sample: Dataset) -> Tensors:
    """The tensors of a base, if it is a network like f."""
    named = original.architecture
    found = Original.read(
        base.network,
        sample.input_shape,
        classes=sample.classes,
        factory="" if named is None else named.name,
        trust_code=named is not None and named.graph_sha256 is None,
    )
    for name, tensor in original.arrays.items():
        if name not in found.arrays or found.arrays[name].shape != tensor.shape:
            has = f"has shape {found.arrays[name].shape}" if name in found.arrays else "is not there"
            raise ModelError(
                f"the base is another network than f: its tensor {name} {has}; f has {tensor.shape} there. "
                "Give a base of the same architecture."
            )
    if (found.chain, found.architecture) != (original.chain, original.architecture):
        raise ModelError(
            "the base is another network than f: their tensors are alike, but not the operations between "
            "them. Give a base of the same architecture."
        )
    return found.arrays


def _trained_on_prior(original: Original, prior: Dataset, progress: Progress) -> Original:
    """The network trained anew, from a fresh start, on the prior part alone: it may then be the helper.

    Its seed cannot be chosen: whoever picked the best of many bases would have to pay for the choice.
    """
    if original.chain is None:
        raise CertificateError("a base is trained for networks that are chains of known layers.")
    config = TrainConfig(
        epochs=max(10, math.ceil(_PRIOR_STEPS * 64 / prior.n)),
        batch_size=64,
        learning_rate=0.002,
        schedule=Cosine(),
        seed=_PRIOR_SEED,
    )
    result = fit(_fresh(original.chain), prior, config, progress=progress)
    return Original(
        original.chain, {name: tensor.detach() for name, tensor in result.model.state_dict().items()}
    )


def _fresh(chain: Chain) -> nn.Module:
    """The chain with new random weights: f itself has seen the whole sample."""
    stream = torch_stream(_PRIOR_SEED, "prior")
    tensors = {}
    for name, shape in chain.tensor_shapes().items():
        fan_in = max(1, int(np.prod(shape[1:])))
        scale = (2.0 / fan_in) ** 0.5 if len(shape) > 1 else 0.0
        tensors[name] = scale * torch.randn(shape, generator=stream)
    return chain.build(tensors)
