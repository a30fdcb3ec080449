"""Test-set errors of the certified network, and of f."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.bounds.facts import HoldoutFacts
from codebound.bounds.held_out import holdout
from codebound.certificate.evaluate import count_errors
from codebound.sample.losses import possible_examples

if TYPE_CHECKING:
    from codebound.bounds.risk import RiskBound
    from codebound.certificate.assessment import AbstractAssessed
    from codebound.certificate.task import Task
    from codebound.run.job import Engine
    from codebound.sample.dataset import Dataset


def held_out(best: AbstractAssessed, task: Task, test_set: Dataset, engine: Engine | None) -> RiskBound:
    """Hold-out bound of the certified network on fresh data."""
    fault = task.claim.fault
    tested = possible_examples(fault, test_set)
    if task.claim.is_about_f:
        errors = count_errors(task.f.build(), tested.on("cpu"), fault=fault, engine=engine).errors
    else:
        errors = best.errors_on(tested, fault, engine)
    facts = HoldoutFacts(
        errors=errors,
        n=tested.n,
        delta=task.delta,
        classes=task.sample.classes,
        subject=best.bound.subject,
    )
    return holdout(facts)


def holdout_of_f(errors: int, test_set: Dataset, *, delta: float) -> RiskBound:
    """Hold-out bound of f from its test errors. It needs a test sample that f never saw."""
    return holdout(
        HoldoutFacts(errors=errors, n=test_set.n, delta=delta, classes=test_set.classes, subject="f")
    )
