"""One check after the other: each notes what it found, and one whose ground is missing says nothing."""

import cbound_writer as writer
import pytest

from codebound_verify.checklist import Checklist, Given
from codebound_verify.container import read

CASE = writer.linear_case(60)
STEPS = ("numbers", "sample", "message", "errors", "weights", "original")


def checklist_of(x=CASE.x, y=CASE.y, **given) -> Checklist:
    return Checklist(read(CASE.data()), x, y, Given(by_class=True, **given))


def test_every_step_notes_what_it_found():
    checklist = checklist_of()
    for step in STEPS:
        getattr(checklist, f"check_{step}")()
    assert checklist.reasons == []
    assert len(checklist.passed) == 7
    assert checklist.network.split is None
    assert checklist.repeats.n == 60
    assert sum(row.n for row in checklist.bound_classes()) == 60
    assert checklist.compare_with_test() is None


@pytest.mark.parametrize("step", ["errors", "weights", "original"])
def test_a_step_whose_ground_is_missing_is_left_out(step):
    checklist = checklist_of()
    getattr(checklist, f"check_{step}")()
    assert (checklist.reasons, len(checklist.passed)) == ([], 1)


def test_nothing_is_said_beside_a_refusal():
    checklist = checklist_of(CASE.x[1:], CASE.y[1:], test=(CASE.x, CASE.y))
    for step in STEPS:
        getattr(checklist, f"check_{step}")()
    assert any("59 examples" in reason for reason in checklist.reasons)
    assert (checklist.bound_classes(), checklist.compare_with_test()) == ((), None)
    assert "the decoded network makes no more errors than stated" not in checklist.passed
