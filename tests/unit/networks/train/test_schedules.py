import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.run.errors import UsageError
from codebound_networks.train.config import Constant, Cosine, Step, parse_schedule


@given(st.floats(0, 1000), st.integers(1, 1000))
def test_constant_is_one(time, epochs):
    assert Constant().factor(time, epochs) == 1.0


@given(st.integers(0, 298), st.floats(0, 0.999))
def test_step_halves_at_every_multiple_and_nowhere_else(epoch, within):
    halvings = sum(1 for boundary in range(30, 300, 30) if boundary <= epoch)
    assert Step(every=30, multiply=0.5).factor(epoch + within, 299) == 0.5**halvings


def test_step_stops_at_its_last_epoch():
    schedule = Step(every=40, multiply=0.1, last=240)
    assert schedule.factor(299.9, 300) == schedule.factor(240.0, 300) == pytest.approx(1e-6)
    assert Step(every=40, multiply=0.1).factor(299.9, 300) == pytest.approx(1e-7)


@given(st.floats(0, 10))
def test_cosine_follows_half_a_cosine(time):
    assert Cosine().factor(time, 10) == pytest.approx(math.cos(math.pi * time / 20) ** 2, abs=1e-12)


@given(st.floats(0, 4.999))
def test_warm_up_is_linear(time):
    assert Cosine(warmup=5).factor(time, 20) == pytest.approx(time / 5)


def test_warm_up_meets_the_cosine_at_one():
    assert Cosine(warmup=5).factor(5, 20) == pytest.approx(1.0)
    assert Cosine(warmup=5).factor(math.nextafter(5, 0), 20) == pytest.approx(1.0)


@pytest.mark.parametrize("schedule", [Constant(), Step(30, 0.5), Step(40, 0.1, 240), Cosine(), Cosine(2.5)])
def test_text_and_schedule_are_inverse(schedule):
    assert parse_schedule(str(schedule)) == schedule


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "linear",
        "step",
        "step:every=30",
        "step:every=x,multiply=0.5",
        "step:every=30,multiply=0.5,by=2",
        "cosine:warm=3",
        "constant:1",
        "step:every",
        "cosine:warmup=1=2",
    ],
)
def test_misspelt_schedules_are_answered_with_the_forms(spec):
    with pytest.raises(UsageError, match=r"unknown schedule .* cosine\[:warmup=5\]"):
        parse_schedule(spec)


@pytest.mark.parametrize(
    "spec",
    [
        "step:every=0,multiply=0.5",
        "step:every=3,multiply=0",
        "step:every=3,multiply=nan",
        "step:every=9,multiply=0.5,last=3",
        "cosine:warmup=-1",
        "cosine:warmup=nan",
        "cosine:warmup=inf",
    ],
)
def test_values_out_of_range_are_refused(spec):
    with pytest.raises(UsageError, match=r"schedule (step|cosine): "):
        parse_schedule(spec)
