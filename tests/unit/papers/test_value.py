"""Published values: what a decorator makes of them, and the scales that they are read on."""

import math

import pytest

from codebound.run.errors import UsageError
from codebound_papers import value as module
from codebound_papers.value import Constant, Hypothesis, PublishedValue, expression


def published(log_value=-2.0, **changes):
    return PublishedValue(log_value=log_value, sentence="A number.", **changes)


def test_a_value_beyond_all_doubles_keeps_its_logarithm():
    huge = published(5000.0)
    assert huge.value == math.inf
    assert huge.log10 == pytest.approx(5000.0 / math.log(10.0))
    assert published(math.log(0.25)).value == pytest.approx(0.25)


def test_conditions_that_nobody_measured_are_not_called_unmet():
    conditions = tuple(Hypothesis(str(holds), holds) for holds in (True, False, None))
    assert published(hypotheses=conditions).unmet == (conditions[1],)


def test_a_record_is_plain_and_has_no_infinity():
    value = published(math.inf, hypotheses=(Hypothesis("h", None),), constants=(Constant("c", 1.0, "open"),))
    record = value.record()
    assert record["value"] is None
    assert record["log10"] is None
    assert record["hypotheses"] == [{"statement": "h", "holds": None, "found": ""}]
    assert record["constants"] == [{"symbol": "c", "value": 1.0, "meaning": "open"}]


@pytest.mark.parametrize("examples", [1, 100, 60_000])
def test_a_capacity_becomes_an_excess_risk(examples):
    bar = published(math.log(900.0), unit="capacity").like_for_like(examples)
    assert bar.value == pytest.approx(math.sqrt(900.0 / examples))
    assert bar.unit == "risk"
    assert bar.like_for_like(7) is bar
    assert "square-rooted" in bar.sentence


def test_other_numbers_have_no_such_form():
    with pytest.raises(UsageError, match="is a numbers"):
        published(unit="numbers").like_for_like(100)
    with pytest.raises(UsageError, match="at least 1 example"):
        published(unit="capacity").like_for_like(0)


def test_the_decorator_labels_and_registers(monkeypatch):
    monkeypatch.setattr(module, "EXPRESSIONS", [])

    @expression("I-17", name="toy", unit="deviation", subject="f", needs={"b": "initial"}, kind=None)
    def toy(facts, *, a, b, c=1.0):
        return published(facts + a + b + c)

    @expression("I-17", "I-18", name="pair", kind=None)
    def pair(facts):
        return published(), published(name="own")

    found = toy(1.0, a=2.0, b=3.0)
    assert (found.ref, found.name, found.unit, found.subject, found.log_value) == (
        "I-17", "toy", "deviation", "f", 7.0,
    )  # fmt: skip
    assert [each.name for each in pair(0)] == ["", "own"]  # they label themselves
    first, second = module.EXPRESSIONS
    assert first.needs == {"a": "a", "b": "initial"}
    assert (first.function, second.ref) == (toy, "I-17")
