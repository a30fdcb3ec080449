"""``certify``: from labelled examples to a certificate that a second program accepted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bounds.facts import HoldoutFacts, check_delta
from codebound.bounds.held_out import holdout
from codebound.certificate.assessment import bound_classes, issue, recount
from codebound.certificate.evaluate import collect_answers, count_differences, count_errors
from codebound.certificate.task import AboutF, KnownTensors, Task, require_test_set
from codebound.known.provenance import UNKNOWN, Origin, origin_of, remember
from codebound.learn.rule import FIRST
from codebound.methods.inputs import (
    Networks,
    describe_own_message,
    explain_no_features,
    features_of_base,
    features_of_helper,
    scores_of_base,
    scores_of_helper,
)
from codebound.methods.offers import Offer, Refusal, list_routes, refusal_error
from codebound.methods.registry import list_methods, require_method
from codebound.methods.search import EFFORTS, Effort, Search, run
from codebound.report.folder import Certification
from codebound.run.device import resolve_device
from codebound.run.errors import CodeboundError, RefusedError, UsageError
from codebound.run.extensions import form_of, reader
from codebound.run.progress import Progress, show_progress, silent
from codebound.sample.dataset import cross_duplicates, require_certifiable, seen_rows
from codebound.sample.load import as_dataset
from codebound.sample.losses import possible_examples
from codebound.sample.made import whole
from codebound.sample.order import Design, arrange
from codebound.sample.questions import ALL, ONE_ROW, Question, parse_question

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from codebound.bounds.facts import Subject
    from codebound.bounds.risk import RiskBound
    from codebound.certificate.assessment import Assessed
    from codebound.certificate.file import Certificate
    from codebound.known.base import Pretrained
    from codebound.known.encoder import Encoder
    from codebound.known.score_tables import ScoreTable
    from codebound.run.job import Engine
    from codebound.sample.dataset import Dataset

_SCORED = ("auto", "scores")
"""Methods that count the scores of a base or a helper as a declared table."""


@show_progress
def certify(
    model: nn.Module | Any | None,
    sample: Any,
    *,
    design: Design | None = None,
    loss: str = "wrong",
    on: str = ALL,
    method: str = "auto",
    minutes: float | None = None,
    effort: Effort = "standard",
    delta: float = 0.05,
    test_set: Any = None,
    unlabelled: Any = None,
    input_range: tuple[float, float] | None = None,
    prior_tenths: int | None = None,
    helper: Callable[[Dataset], Any] | Pretrained | None = None,
    scores: ScoreTable | Sequence[ScoreTable] = (),
    trained_on: str | None = None,
    base: Pretrained | None = None,
    by_class: bool = False,
    seed: int = 0,
    device: str = "cpu",
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Certification:
    """Find a classifier with a proven error on new data, and the certificate that proves it.

    Args:
        model: The trained network f, or what ``wrap`` made of it; it is not changed. None where there is
            none: then methods that make a classifier of their own are tried.
        sample: The labelled examples: a Dataset, a pair ``(inputs, labels)`` of arrays or tensors, a data
            frame, a Dataset or a DataLoader of PyTorch, or what ``load_dataset`` knows by name. Other samples
            are given in the same ways.
        design: Order of the rows, reading of equal rows, clusters and groups; by default rows are independent
            draws, and copies are counted so that any reading of them is right.
        loss: What counts as an error (docs/losses.md). The classifier is chosen by its plain errors.
        on: Examples that count: ``all``, ``answered:T``, ``predicted:C``, ``each class``, ``each group``,
            or with clusters ``one row a cluster`` or ``any row of a cluster``.
        method: A name of ``list_methods()``, or ``auto`` for the best of them.
        minutes: Time for the search; the best until then is verified. None: as long as ``effort`` takes.
        effort: How far each method goes, the same on every machine: ``quick`` trains no network, ``standard``
            does, ``max`` for much longer.
        delta: Failure probability.
        test_set: Examples used for no choice; adds the hold-out bound of the classifier that the
            certificate is about, and an alarm where they refute it.
        unlabelled: Fresh inputs: the certificate is then about f itself (C-12b).
        input_range: Smallest and largest stored value that any input can have: the certificate is then
            about f itself on that domain (C-12a).
        prior_tenths: Tenths of the sample that a helper or a base is made of; errors count on the rest
            (C-10).
        helper: What makes the helper, called with that share alone (and ``device`` and ``progress``, where it
            takes them by name); or a network that was made of that share alone. With the methods ``auto`` and
            ``scores`` its scores are declared and counted; with ``picks`` what enters its last layer is the
            input; with others a message codes the difference to it. None: the model is trained anew on that
            share.
        scores: Tables of scores of every example, in an order that was fixed before any was counted: of a
            model, a prompt, a checkpoint. The first costs two bits, the others a few more.
        trained_on: The ``sha256`` of the sample that f was trained on, and no other: then the hold-out bound
            of f is either shown without an "if" or left out. Of networks that ``fit`` trained it is known.
        base: A network of the same architecture that was neither trained nor selected on the sample: its
            scores are declared, or a message codes only the difference to it. Nobody can check that.
        by_class: Also bound the error on every class; all limits hold at once with probability ``1 - delta``,
            beside the claim (C-17). Not for claims about f.
        seed: Seed of the search; free, because no decoder needs it.
        device: Where networks are trained; errors are always counted on the CPU, in float64.
        engine: Where errors are counted, with the same count; None: here.
        progress: Told how far the search is; by default a bar, in a terminal or a notebook.

    Raises:
        CertificateError: No certificate can be issued. Where the second program refuses the best one, the
            next best is issued, and ``refusals`` says so.

    Example:
        >>> from codebound.sample.load import load_dataset
        >>> digits = load_dataset("digits")
        >>> few = digits.select(range(300), role="train")
        >>> certify(None, few, effort="quick").method  # a share is learned from, and nothing picked
        'split'
    """
    began, place = time.perf_counter(), resolve_device(device)
    _check_settings(method, effort, minutes)
    delta, seed = check_delta(delta), whole("seed", seed)
    sample, design = as_dataset(sample), design or Design()
    if test_set is not None:
        test_set = as_dataset(test_set, role="test", like=sample)
    if unlabelled is not None:
        unlabelled = as_dataset(unlabelled, role="unlabelled", like=sample)
    require_certifiable(sample)
    question = parse_question(loss, on, classes=sample.classes)
    about = None if unlabelled is None and input_range is None else AboutF(unlabelled, input_range)
    if by_class and (about is not None or design.clusters is not None):
        raise UsageError("claims about f or clusters say nothing about single classes. Leave out by_class.")
    _check_arguments(sample, test_set, base=base, helper=helper, prior_tenths=prior_tenths)
    given = None if model is None else reader("modules")(model)
    module: nn.Module | None = None if given is None else given.model
    start = Networks(None)
    if given is not None:
        start = form_of("networks")(
            given,
            base,
            sample,
            is_about_f=about is not None,
            trains_base=prior_tenths is not None and helper is None,
            method=method,
            has_helper=helper is not None,
        )
    elif base is not None or about is not None:
        raise UsageError("this certificate starts from a network: give a model.")
    f = start.original
    held = sample.on("cpu")  # whoever asks for it later gets the same
    original_errors = None if f is None else count_errors(f.build(), held, engine=engine)
    setup = _Setup(sample, design, start, method, place, progress)
    setup.tables = tuple(scores) if isinstance(scores, Sequence) else (scores,)
    setup.add_known(base, helper, prior_tenths)
    plain = Question(on=ONE_ROW if design.clusters is not None else ALL)
    task = Task(
        sample=setup.sample,
        delta=delta,
        design=setup.design,
        question=plain,
        tables=setup.tables,
        original=setup.original,
        base=setup.base,
        about_f=about,
    )
    search = Search(task, effort, seed=seed, device=place, engine=engine, progress=progress)
    run(search, method, minutes=minutes)
    offers = search.offers
    if question not in (plain, Question()):  # classifiers are chosen by plain errors, whatever is asked
        task = replace(task, question=question, tables=task.tables)
        offers = _recount_all(offers, task)
    certificate, issued, refusals = _issue_best(offers, task, search.refusals, progress)
    best = issued.assessed
    origin = (
        Origin(trained_on) if trained_on is not None else UNKNOWN if module is None else origin_of(module)
    )
    tested: dict[str, Any] = {"holdout": None, "copies": None}
    if test_set is not None:
        tested = _test(issued, task, setup, test_set, f, engine)
    notes = start.notes
    is_new = base is None and list_methods()[issued.method].is_own
    if f is not None and is_new and method == "auto" and about is None:
        costs = describe_own_message(f, sample, delta=delta, bound=best.bound)
        notes += (costs, explain_no_features(origin, sample))
    network = best.outcome.classifier
    if network is not None:
        network = network.float() if not best.outcome.takes_stored else network
        remember(network, replace(origin, is_whole=False).add_training(sample.sha256, seen_rows(sample)))
    return Certification(
        certificate=certificate,
        network=network,
        sample=task.sample,
        settings={
            "model": "none" if module is None else type(module).__name__,
            "data": sample.name,
            "loss": str(question.loss),
            "on": question.on,
            "method": method,
            **({"effort": effort} if minutes is None else {"minutes": minutes}),
            "delta": delta,
            "seed": seed,
            "device": str(place),
        },
        origin=origin,
        original_errors=original_errors,
        guessing=_guess_rate(best, task),
        base=task.base_tensors if certificate.known.base is not None else None,
        original=task.f.arrays if about is not None else None,
        unlabelled=unlabelled,
        design=task.design,
        tables=task.tables,
        method=issued.method,
        skipped=search.skipped,
        tried=search.tried,
        is_interrupted=search.is_interrupted,
        is_out_of_time=search.is_out_of_time,
        seconds=time.perf_counter() - began,
        by_class=bound_classes(best, task) if by_class else (),
        routes=list_routes(offers, issued, delta=delta),
        refusals=refusals,
        notes=notes,
        encoder=setup.encoder,
        **tested,
    )


def _guess_rate(best: Assessed, task: Task) -> float | None:
    """Error of the commonest label among the counted rows, where every error counts."""
    if not task.question.is_plain:
        return None
    labels = task.sample.y[task.arranged.split(best.outcome.known_rows)[1]]
    return 1.0 - float(np.bincount(labels).max()) / len(labels)


class _Setup:
    """Sample, tables and base that a search starts from."""

    def __init__(
        self, sample: Dataset, design: Design, start: Networks, method: str, device: Any, progress: Progress
    ) -> None:
        self.sample, self.design, self.start, self.method = sample, design, start, method
        self.device, self.progress = device, progress
        self.original, self.base = start.coded, start.known
        self.tables: tuple[ScoreTable, ...] = ()
        self.encoder: Encoder | None = None

    def add_known(
        self,
        base: Pretrained | None,
        helper: Callable[[Dataset], Any] | Pretrained | None,
        prior_tenths: int | None,
    ) -> None:
        """Make what is known without the counted examples, of a base, a helper, or the model trained anew."""
        if prior_tenths is not None:
            arranged = arrange(self.sample, self.design)
            self._use_share(arranged, int(prior_tenths) * arranged.units // 10, helper)
        elif base is not None and self.method == "picks":
            self.encoder = features_of_base(self.start, self.sample, device=self.device)
            self._encode(self.encoder.table(self.sample, device=self.device, progress=self.progress))
        elif base is not None and self.method in _SCORED:
            self.tables += (scores_of_base(self.start, self.sample, device=self.device),)

    def _use_share(
        self, arranged: Any, share: int, helper: Callable[[Dataset], Any] | Pretrained | None
    ) -> None:
        given: dict[str, Any] = {"device": self.device, "progress": self.progress}
        if helper is not None and self.method in _SCORED:
            self.tables += (scores_of_helper(helper, arranged, share, **given),)
        elif helper is not None and self.method == "picks":
            if self.design.clusters is not None:
                raise UsageError(
                    "what a helper makes of inputs is stored in an order of rows: leave out clusters."
                )
            share = max((each for each in FIRST if each <= share), default=FIRST[0])  # picks begin with these
            self.encoder, table, _ = features_of_helper(helper, arranged, share, None, **given)
            groups = None if self.design.groups is None else self.design.groups[arranged.places]
            self.design = Design(order="file", copies=self.design.copies, groups=groups)
            self._encode(table)
        else:
            known, counted = arranged.split(share)
            prior, rest = (self.sample.select(rows, role="prior") for rows in (known, counted))
            made, original = form_of("helper")(
                helper, self.original, prior, unseen=(self.sample, rest), progress=self.progress
            )
            self.original = original
            self.base = KnownTensors(replace(made, rows=share), original.arrays)

    def _encode(self, table: Dataset) -> None:
        self.sample, self.original, self.base = table, None, None

    def table_of(self, other: Dataset) -> Dataset:
        """Other examples as the search has them."""
        return other if self.encoder is None else self.encoder.table(other, device=self.device)


def _recount_all(offers: list[Offer], task: Task) -> list[Offer]:
    """The offers that another question can be asked of, best first.

    Raises:
        CodeboundError: There are none; the reason is that of the best.
    """
    found, reasons = [], []
    for offer in offers:
        try:
            found.append(Offer(recount(offer.assessed, task), offer.method))
        except CodeboundError as reason:  # noqa: PERF203
            reasons.append(reason)
    if not found:
        raise reasons[0]
    return sorted(found, key=lambda each: each.rank)


def _issue_best(
    offers: list[Offer], task: Task, refusals: list[Refusal], progress: Progress
) -> tuple[Certificate, Offer, tuple[Refusal, ...]]:
    """The first certificate, of those offered in their order, that the second program accepts."""
    refusals = list(refusals)
    for offer in offers:
        try:
            return issue(offer.assessed, task, progress=progress), offer, tuple(refusals)
        except RefusedError as error:  # noqa: PERF203
            refusals.append(Refusal.of(offer, error.reasons))
    raise refusal_error(refusals)


def _check_settings(method: str, effort: str, minutes: float | None) -> None:
    require_method(method)
    if effort not in EFFORTS:
        raise UsageError(f"unknown effort {effort!r}. Known: {', '.join(EFFORTS)}.")
    if minutes is not None and (not minutes > 0.0 or effort != "standard"):
        raise UsageError(
            f"minutes are a positive number, in place of an effort. Got {minutes}, effort {effort}."
        )


def _check_arguments(
    sample: Dataset,
    test_set: Dataset | None,
    *,
    base: Pretrained | None,
    helper: object,
    prior_tenths: int | None,
) -> None:
    """Refuses what does not go together."""
    if base is not None and prior_tenths is not None:
        raise UsageError("a prior share has a helper of its own: give it or a base, not both.")
    if prior_tenths is not None and not 1 <= whole("prior_tenths", prior_tenths) <= 9:
        raise UsageError(f"the prior takes 1 to 9 tenths of the sample. Got {prior_tenths}.")
    if helper is not None and prior_tenths is None:
        raise UsageError(
            "a helper is made of a part of the sample: say of which (prior_tenths, or a prior fraction)."
        )
    if test_set is not None:
        require_test_set(test_set, sample)


def _test(
    issued: Offer, task: Task, setup: _Setup, test_set: Dataset, original: Any, engine: Engine | None
) -> dict[str, Any]:
    """Evaluate g, and f beside it, on a test sample; each result is an attribute of ``Certification``."""
    outcome = issued.assessed.outcome
    rows = setup.table_of(test_set)
    tested: dict[str, Any] = {
        "holdout": bound_by_test(issued, task, rows, engine),
        "copies": cross_duplicates(setup.sample, rows).count,
    }
    if original is None or not task.question.is_plain or task.is_about_f:
        return tested
    of_f = collect_answers(original.build(), test_set.on("cpu"), engine=engine)
    facts = HoldoutFacts(errors=of_f.errors, n=test_set.n, delta=task.delta)
    tested["holdout_f"] = holdout(replace(facts, classes=test_set.classes, subject="f"))
    if not tested["copies"] and outcome.classifier is not None:
        differ = count_differences(of_f, outcome.classifier, rows, takes_stored=outcome.takes_stored)
        tested["disagreement"] = replace(facts, errors=differ)
    return tested


def bound_by_test(issued: Offer, task: Task, test_set: Dataset, engine: Engine | None) -> RiskBound | None:
    """Hold-out bound of the certified classifier on fresh data; None where only its scores are known."""
    loss = task.question.loss
    tested = possible_examples(loss, test_set)
    subject: Subject = "f" if task.is_about_f else "g"
    if task.is_about_f:
        errors: int | None = count_errors(task.f.build(), tested.on("cpu"), loss=loss, engine=engine)
    else:
        errors = issued.assessed.outcome.count_losses(tested, loss)
    if errors is None:
        return None
    facts = HoldoutFacts(
        errors=errors, n=tested.n, delta=task.delta, classes=task.sample.classes, subject=subject
    )
    return holdout(facts)
