"""One check after the other: each notes what it found, and one whose ground is missing says nothing."""

import cbound_writer as writer
import pytest

from codebound_verify.container import read
from codebound_verify.course import Course, Given

CASE = writer.linear_case(60)
NOTHING = dict.fromkeys(("base", "unlabelled", "subject_weights", "learned_weights", "test"))
STEPS = ("numbers", "sample", "message", "errors", "weights", "original")


def course_of(x=CASE.x, y=CASE.y, **given) -> Course:
    flags = {"allow_copies": False, "by_class": True, "progress": None}
    return Course(read(CASE.data()), Given(x=x, y=y, **{**NOTHING, **flags, **given}))


def test_every_step_notes_what_it_found():
    course = course_of()
    for step in STEPS:
        getattr(course, f"check_{step}")()
    assert course.reasons == []
    assert len(course.passed) == 7
    assert course.network.ledger == course.header.ledger
    assert course.repeats.n == 60
    assert sum(row.n for row in course.by_class()) == 60
    assert course.tested() is None


@pytest.mark.parametrize("step", ["errors", "weights", "original"])
def test_a_step_whose_ground_is_missing_is_left_out(step):
    course = course_of()
    getattr(course, f"check_{step}")()
    assert (course.reasons, len(course.passed)) == ([], 1)


def test_nothing_is_said_beside_a_refusal():
    course = course_of(CASE.x[1:], CASE.y[1:], test=(CASE.x, CASE.y))
    for step in STEPS:
        getattr(course, f"check_{step}")()
    assert any("59 examples" in reason for reason in course.reasons)
    assert (course.by_class(), course.tested()) == ((), None)
    assert "the decoded network makes no more errors than stated" not in course.passed
