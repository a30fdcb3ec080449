"""Scores, and what counts as a loss, against definitions written out example by example."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits.plain_code import PlainReader, PlainWriter
from codebound.run.errors import DataError, FormatError, UsageError
from codebound.sample.dataset import Sample
from codebound.sample.losses import LOSSES as KINDS
from codebound.sample.losses import CostAbove, OfClass, parse_loss, possible_examples, read_loss

CLASSES = 4
SCORES = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, math.nan, math.inf]), min_size=4, max_size=4)
COSTS = "1231122f1321"
ROWS = "0123,1012,2f01,3210"
LOSSES = ["wrong", "class:2", "confused:2:0", "false-alarm:1", "top:1", "top:2", "top:3"]
LOSSES += [f"cost-above:1:{COSTS}", "cost-above:0:distance"]
EVERY = [*LOSSES, "residual:0.5"]


def is_loss(text: str, scores: list[float], label: int) -> bool | None:
    """By the book; None for an example that it is not about. Whatever is not clear is a loss."""
    kind, *numbers = text.split(":")
    if kind == "cost-above":
        return costs_too_much(numbers, scores, label)
    named = [int(number) for number in numbers]
    if (kind in ("class", "confused") and label != named[0]) or (kind == "false-alarm" and label == named[0]):
        return None
    if not all(map(math.isfinite, scores)):
        return True
    if kind in ("confused", "false-alarm"):
        seen = named[-1]
        return scores[seen] >= max(s for j, s in enumerate(scores) if j != seen)
    as_good = sum(s >= scores[label] for j, s in enumerate(scores) if j != label)
    return as_good >= (named[0] if kind == "top" else 1)


def costs_too_much(numbers: list[str], scores: list[float], label: int) -> bool:
    if not all(map(math.isfinite, scores)):
        return True
    winners = [j for j, score in enumerate(scores) if score == max(scores)]
    rows = [[abs(y - j) for j in range(CLASSES)] for y in range(CLASSES)]
    if numbers[1] != "distance":
        rows = [[int(digit, 16) for digit in row] for row in ROWS.split(",")]
    return any(rows[label][j] > int(numbers[0]) for j in winners)


@given(st.sampled_from(LOSSES), SCORES, st.integers(0, CLASSES - 1))
def test_losses_are_counted_by_the_book(text, scores, label):
    loss = parse_loss(text, classes=CLASSES)
    logits, labels = torch.tensor([scores]), torch.tensor([label])
    expected = is_loss(text, scores, label)
    assert bool(loss.is_about(labels)) == (expected is not None)
    if expected is not None:
        assert bool(loss.differences(logits, labels)[0] <= 0.0) == expected


@pytest.mark.parametrize("text", EVERY)
def test_a_loss_is_written_as_it_is_read(text):
    assert str(parse_loss(text)) == text
    assert "at most 3 %" in parse_loss(text).says("3 %")


def test_every_kind_has_an_example():
    assert {text.split(":")[0] for text in EVERY} == set(KINDS)


def test_columns_may_be_some_labels_alone():
    """Of classes 1, 4 and 6: class 4 is the second column, and a label of no column is a loss."""
    scores, classes = torch.tensor([[3.0, 1.0, 2.0]] * 3), np.array([1, 4, 6])
    labels = torch.tensor([1, 6, 5])
    found = {
        text: parse_loss(text).differences(scores, labels, classes).tolist()
        for text in ("wrong", "false-alarm:4")
    }
    assert found == {"wrong": [1.0, -1.0, -math.inf], "false-alarm:4": [2.0, 2.0, -math.inf]}
    far = parse_loss("cost-above:1:distance").differences(scores, labels, classes)
    assert far.tolist() == [1.0, -1.0, -math.inf]
    with pytest.raises(UsageError, match="no class has the label 2"):
        parse_loss("false-alarm:2").differences(scores, labels, classes)
    for text in ("class:2", "confused:1:2"):
        with pytest.raises(UsageError, match="label of none"):
            parse_loss(text).check_labels(classes.tolist())
    parse_loss("confused:4:6").check_labels(classes.tolist())


def test_costs_are_written_with_rows_or_without():
    assert parse_loss(f"cost-above:1:{ROWS}") == CostAbove(1, COSTS) == parse_loss(f"cost-above:1:{COSTS}")
    assert CostAbove(1, COSTS).matrix(4).tolist() == [
        [int(digit, 16) for digit in row] for row in ROWS.split(",")
    ]
    for strange in ("cost-above:1:12,50", "cost-above:1:01,5", "cost-above:1:010,501"):
        with pytest.raises(UsageError, match="costs for"):
            parse_loss(strange)
    for text, classes in (
        (f"cost-above:1:{COSTS}", 3),
        ("cost-above:15:15", 2),
        ("cost-above:0:distance", 17),
    ):
        with pytest.raises(UsageError, match="cost"):
            parse_loss(text, classes=classes)


CODES = {
    "wrong": "101",
    "class:2": "000011",
    "confused:2:0": "0010111",
    "false-alarm:1": "010010",
    "top:2": "011010",
    "cost-above:0:distance": "10010",
    "cost-above:1:120220": "10001010001011000101000",
}


@pytest.mark.parametrize("text", CODES)
def test_a_loss_is_coded_as_the_page_says_and_read_again(text):
    writer, classes = PlainWriter(), 3
    parse_loss(text, classes=classes).write(writer, classes)
    bits = writer.finish()
    assert str(bits) == CODES[text]
    reader = PlainReader(bits)
    assert str(read_loss(reader, classes)) == text
    reader.finish()


@pytest.mark.parametrize(
    ("digits", "words"),
    [
        ("110", "reserved"),
        ("111", "reserved"),
        ("001011011", "for itself"),
        ("011011", "does not fit 3 classes"),
        ("1000110", "above the limit"),
        ("100111111", "too large"),
        ("100110001110000000000", "larger than the largest"),
        ("000" + "0" * 16 + "1" + "0" * 15 + "1", "no class has"),
    ],
)
def test_codes_of_no_loss_are_refused(digits, words):
    writer = PlainWriter()
    for digit in digits:
        writer.bits(int(digit), 1)
    with pytest.raises(FormatError, match=words):
        read_loss(PlainReader(writer.finish()), 3)


def test_a_loss_of_values_has_no_code():
    with pytest.raises(UsageError, match="no message"):
        parse_loss("residual:0.5").write(PlainWriter(), 2)


def test_two_classes_have_words_of_their_own():
    assert parse_loss("missed", classes=2) == OfClass(1)
    assert parse_loss("false-alarm", classes=2) == OfClass(0)
    with pytest.raises(UsageError, match="two classes"):
        parse_loss("missed", classes=3)


@pytest.mark.parametrize(
    "text",
    ["", "wrong:1", "class", "class:x", "class:-1", "class:01", "confused:1", "confused:1:1", "top", "Wrong"],
)
def test_what_is_no_loss_is_refused(text):
    with pytest.raises(UsageError, match="loss"):
        parse_loss(text)


@pytest.mark.parametrize("text", ["class:4", "confused:0:4", "false-alarm:4", "top:0", "top:4"])
def test_a_loss_has_to_fit_the_classes(text):
    with pytest.raises(UsageError, match="does not fit 4 classes"):
        parse_loss(text, classes=4)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("wrong", 0.75), ("class:1", 0.75), ("confused:0:1", 0.25), ("false-alarm:1", 0.25), ("top:3", 0.25)],
)
def test_how_often_a_guess_makes_it(text, rate):
    assert parse_loss(text).guess_rate(CLASSES) == rate


def test_no_examples_no_statement():
    sample = Sample("three", "test", np.zeros((3, 1)), np.array([0, 1, 1]), 3)
    assert possible_examples(parse_loss("class:1"), sample).n == 2
    assert possible_examples(parse_loss("wrong"), sample) is sample
    with pytest.raises(DataError, match="no example"):
        possible_examples(parse_loss("class:2"), sample)
