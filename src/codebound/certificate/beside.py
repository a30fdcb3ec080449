"""What is counted beside a certificate: the errors on every class, and those on a test sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from codebound.bounds.facts import HoldoutFacts, PickedFacts
from codebound.bounds.faulty import occam_table
from codebound.bounds.held_out import holdout
from codebound.bounds.original import grid_theta
from codebound.certificate.assessment import tally_of
from codebound.certificate.evaluate import count_errors
from codebound.faults import possible_examples

if TYPE_CHECKING:
    from codebound.bounds.risk import RiskBound
    from codebound.certificate.assessment import Assessed
    from codebound.certificate.task import Task
    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine


@dataclass(frozen=True, slots=True)
class ClassBound:
    """Errors on the examples of one class, and picks among them; without examples there is no limit."""

    label: int
    errors: int
    n: int
    bound: float | None
    picks: int = 0


def class_bounds(
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


def held_out(best: Assessed, task: Task, test_set: Dataset, engine: Engine | None) -> RiskBound:
    """What data that were used for no choice say about the network; a picked one takes inputs as stored."""
    fault = task.claim.fault
    tested = possible_examples(fault, test_set)
    if best.picked is not None:
        from codebound.picks.network import count_faults

        counts = count_faults(best.network, tested, fault)
    else:
        subject = task.f.build() if task.claim.is_about_f else best.network
        counts = count_errors(subject, tested.on("cpu"), fault=fault, engine=engine).counts
    kept = tally_of(fault, counts, tested.n).get("kept", tested.n)
    facts = HoldoutFacts(
        errors=counts[0], n=kept, delta=task.delta, classes=task.sample.classes, subject=best.bound.subject
    )
    return holdout(facts)


def holdout_of_f(errors: int, test_set: Dataset, *, delta: float) -> RiskBound:
    """What the errors of f on the test sample say about it, if f has not been trained on that."""
    return holdout(
        HoldoutFacts(errors=errors, n=test_set.n, delta=delta, classes=test_set.classes, subject="f")
    )
