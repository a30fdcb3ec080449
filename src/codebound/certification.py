"""The story: ``certify`` makes a classifier of labelled examples, and a certificate of its error.

1. A request says what is fixed before: the sample, what is ``Known``, and the ``Claim``. A ``Task`` is that,
   prepared (``request.py``); what a network, a learner or a helper adds is put in by ``methods/inputs.py``.
2. Methods offer outcomes to a ``Search``; the best of each is kept, whatever ends it (``methods/search.py``).
3. The best offer that the second program accepts is issued; the next best where it refuses one
   (``certificate/offers.py``).

Between a learner and the file there are four records: what was learned (``Learned``, a ``ScoreTable``, or the
message of a network), the ``Outcome`` that says how it is coded and judged, the ``Offer`` with its counts and
its bound, and the ``Certificate``. The ``Result`` is a certificate with what belongs beside it.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codebound.bounds.held_out import holdout
from codebound.bounds.risk import HoldoutFacts, check_delta
from codebound.certificate.evaluate import collect_answers, count_differences, count_errors
from codebound.certificate.offers import assess, bound_classes, count_learned, issue, prefer_fewer_errors
from codebound.known.provenance import UNKNOWN, origin_of
from codebound.methods.search import Search, find_method, list_offers, refusal_error
from codebound.methods.search import run as search_by
from codebound.report.folder import Result
from codebound.request import ERROR, NOTHING, USUAL_RUN, Claim, Known, Run, Task, require_like
from codebound.run.device import resolve_device
from codebound.run.errors import CertificateError, CodeboundError, RefusedError
from codebound.run.progress import open_bar
from codebound.sample.dataset import count_copies, require_certifiable, whole
from codebound.sample.load import as_dataset
from codebound.sample.losses import possible_examples
from codebound.sample.questions import Question, parse_question

if TYPE_CHECKING:
    from torch import nn

    from codebound.bounds.risk import Subject
    from codebound.certificate.file import Certificate
    from codebound.certificate.offers import Offer
    from codebound.known.messages import AbstractOriginal
    from codebound.run.job import Engine
    from codebound.sample.dataset import Sample


def certify(
    data: Any,
    *,
    learner: Any = None,
    network: nn.Module | Any = None,
    known: Known = NOTHING,
    claim: Claim = ERROR,
    method: str = "auto",
    delta: float = 0.05,
    test: Any = None,
    run: Run = USUAL_RUN,
) -> Result:
    """Find a classifier with a proven error on new data, and the certificate that proves it.

    Args:
        data: The labelled examples: a Sample, a pair ``(inputs, labels)`` of arrays or tensors, a data
            frame, a Dataset or a DataLoader of PyTorch, or what ``load_sample`` knows by name. Other samples
            are given in the same ways.
        learner: A classifier of scikit-learn, or a function that makes a network of a sample: it learns from
            the known share alone, and its scores are counted on the rest.
        network: The trained network f, or what ``wrap`` made of it; it is not changed.
        known: What was fixed without the counted examples.
        claim: The error that is bounded.
        method: A name of ``list_methods()``, ``package.module:function`` of yours, or ``auto`` for the best.
        delta: Failure probability.
        test: Examples used for no choice; adds the hold-out bound of the classifier that the certificate is
            about, and an alarm where they refute it.
        run: Effort, seed, device and progress of the search.

    Raises:
        CertificateError: No certificate can be issued. Where the second program refuses the best one, the
            next best is issued, and ``refusals`` says so.

    Example:
        >>> import codebound as cb
        >>> few = cb.load_sample("digits").select(range(300), role="train")
        >>> found = cb.certify(few, run=cb.Run(effort="quick"))
        >>> found.method  # a share is learned from, and nothing picked
        'split'
    """
    delta = check_delta(delta)
    with open_bar("certify") if run.progress is None else nullcontext(run.progress) as progress:
        began, place = time.perf_counter(), resolve_device(run.device)
        sample = as_dataset(data)
        require_certifiable(sample)
        if test is not None:
            test = as_dataset(test, role="test", like=sample)
            require_like("test", test, sample)
        if claim.unlabelled is not None:
            claim = replace(claim, unlabelled=as_dataset(claim.unlabelled, role="unlabelled", like=sample))
        question = parse_question(claim.loss, claim.on, classes=sample.classes)
        task = Task(sample=sample, delta=delta, design=claim.design, tables=tuple(known.scores))
        module = f = original_errors = None
        origin, notes = UNKNOWN, []
        asked = (network, learner, known.base, known.helper, known.share, claim.unlabelled, claim.input_range)
        if any(each is not None for each in asked):
            from codebound.methods.inputs import add_known

            task, given = add_known(
                task, network, learner, known, claim=claim, method=method, device=place, progress=progress
            )
            module, f, notes = given.module, given.original, [*given.notes]
            held = task.sample.on("cpu")
            original_errors = None if f is None else count_errors(f.build(), held, engine=run.engine)
            if module is not None:
                origin = origin_of(module)

        seed = whole("seed", run.seed)
        search = Search(task, run.effort, seed=seed, device=place, engine=run.engine, progress=progress)
        search_by(search, method, minutes=run.minutes)

        offers = _answer(question, claim.assurance, search)
        certificate, issued = _issue_best(offers, search)
        task = search.task
        if f is not None and method == "auto" and not task.is_about_f:
            from codebound.methods.inputs import explain_unused

            if known.base is None and find_method(issued.method).is_own:
                notes += explain_unused(given, origin, sample, delta=delta, bound=issued.bound)
        tested = {} if test is None else _test(issued, task, test, f, learner, run.engine)
        effort = {"effort": run.effort} if run.minutes is None else {"minutes": run.minutes}
        return Result(
            certificate=certificate,
            offer=issued,
            task=task,
            settings={
                "model": "none" if module is None else type(module).__name__,
                "data": sample.name,
                "loss": str(question.loss),
                "on": question.on,
                "method": method,
                **effort,
                "delta": delta,
                "seed": seed,
                "device": str(place),
            },
            origin=origin,
            original_errors=original_errors,
            skipped=search.skipped,
            tried=search.tried,
            is_interrupted=search.is_interrupted,
            is_out_of_time=search.is_out_of_time,
            seconds=time.perf_counter() - began,
            by_class=bound_classes(issued, task) if claim.by_class else (),
            offers=list_offers(offers, issued, delta=delta),
            refusals=tuple(search.refusals),
            notes=tuple(notes),
            **tested,
        )


def _answer(question: Question, assurance: str, search: Search) -> list[Offer]:
    """The offers for the question that was asked: classifiers are chosen by plain errors, whatever it is.

    Raises:
        CertificateError: The scores of all of them are declared, and the claim has to be replayed.
        CodeboundError: The question can be asked of none of them; the reason is that of the best.
    """
    offers = search.offers
    if question not in (search.task.question, Question()):
        search.task = replace(search.task, question=question)
        found: list[Offer] = []
        reasons = []
        for offer in offers:
            try:
                found.append(assess(offer.outcome, search.task, method=offer.method))
            except CodeboundError as reason:  # noqa: PERF203
                reasons.append(reason)
        if not found:
            raise reasons[0]
        offers = sorted(found, key=lambda each: each.rank)
    offers = [each for each in offers if assurance == "any" or not each.outcome.is_recounted]
    if not offers:
        raise CertificateError(
            "no classifier was found that the second program makes by itself: those that were found have "
            "declared scores. Take another method, or any assurance."
        )
    return prefer_fewer_errors(offers)


def _issue_best(offers: list[Offer], search: Search) -> tuple[Certificate, Offer]:
    """The first certificate, of those offered in their order, that the second program accepts."""
    for offer in offers:
        try:
            return issue(offer, search.task, progress=search.progress), offer
        except RefusedError as error:  # noqa: PERF203
            search.refuse(offer, error.reasons)
    raise refusal_error(search.refusals)


def _test(
    issued: Offer,
    task: Task,
    test_set: Sample,
    original: AbstractOriginal | None,
    learner: Any,
    engine: Engine | None,
) -> dict[str, Any]:
    """Evaluate g, and f beside it, on a test sample; each result is an attribute of ``Result``."""
    from codebound.methods.scores import learn_whole

    outcome, question = issued.outcome, task.question
    about = possible_examples(question.loss, test_set)
    subject: Subject = "f" if task.is_about_f else "g"
    if task.is_about_f:
        errors: int | None = count_errors(task.f.build(), about.on("cpu"), loss=question.loss, engine=engine)
    else:
        errors = outcome.count_losses(about, question.loss)

    copies = count_copies(task.sample, test_set)
    tested: dict[str, Any] = {"copies": copies}
    classes = task.sample.classes
    if errors is not None:
        facts = HoldoutFacts(errors=errors, n=about.n, delta=task.delta, classes=classes, subject=subject)
        tested["holdout"] = holdout(facts)
    if not question.is_plain or task.is_about_f:
        return tested
    if (whole := learn_whole(outcome, task, learner)) is not None:
        tested["errors_of_whole"] = count_learned(whole, test_set)
    if original is None:
        return tested
    of_f = collect_answers(original.build(), test_set.on("cpu"))
    facts = HoldoutFacts(errors=of_f.errors, n=test_set.n, delta=task.delta, classes=classes, subject="f")
    tested["holdout_f"] = holdout(facts)
    if not copies and outcome.classifier is not None:
        differ = count_differences(of_f, outcome.classifier, test_set, takes_stored=outcome.takes_stored)
        tested["disagreement"] = HoldoutFacts(errors=differ, n=test_set.n, delta=task.delta)
    return tested
