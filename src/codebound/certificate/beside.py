"""What is counted beside a certificate: the errors on a test sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.bounds.facts import HoldoutFacts
from codebound.bounds.held_out import holdout
from codebound.certificate.assessment import abstaining_tally
from codebound.certificate.evaluate import count_errors
from codebound.faults import possible_examples

if TYPE_CHECKING:
    from codebound.bounds.risk import RiskBound
    from codebound.certificate.assessment import AbstractAssessed
    from codebound.certificate.task import Original, Task
    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine


def held_out(best: AbstractAssessed, task: Task, test_set: Dataset, engine: Engine | None) -> RiskBound:
    """What data that were used for no choice say about the network."""
    fault = task.claim.fault
    tested = possible_examples(fault, test_set)
    if task.claim.is_about_f:
        counts = count_errors(task.f.build(), tested.on("cpu"), fault=fault, engine=engine).counts
    else:
        counts = best.counts_on(tested, fault, engine)
    kept = abstaining_tally(counts, tested.n)["kept"] if fault.kind == "abstain" else tested.n
    facts = HoldoutFacts(
        errors=counts[0], n=kept, delta=task.delta, classes=task.sample.classes, subject=best.bound.subject
    )
    return holdout(facts)


def holdout_of_f(original: Original, test_set: Dataset, *, delta: float, engine: Engine | None) -> RiskBound:
    """What the test sample says about f, if f has not been trained on it."""
    counted = count_errors(original.build(), test_set.on("cpu"), engine=engine)
    return holdout(
        HoldoutFacts(errors=counted.errors, n=test_set.n, delta=delta, classes=test_set.classes, subject="f")
    )
