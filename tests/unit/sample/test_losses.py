"""Scores, and what counts as a loss, against definitions written out example by example."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from codebound.bits.arithmetic import Reader, Writer
from codebound.bits.setting import Setting, read_loss, write_loss
from codebound.run.errors import DataError, ModelError, UsageError
from codebound.sample.dataset import Dataset
from codebound.sample.losses import LOSSES as KINDS
from codebound.sample.losses import OfClass, counted_examples, error_count, logit_chunks, parse_loss

CLASSES = 4
SCORES = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, math.nan, math.inf]), min_size=4, max_size=4)
COSTS = "0123,1012,2f01,3210"
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
        rows = [[int(digit, 16) for digit in row] for row in numbers[1].split(",")]
    return any(rows[label][j] > int(numbers[0]) for j in winners)


@given(st.sampled_from(LOSSES), SCORES, st.integers(0, CLASSES - 1))
def test_losses_are_counted_by_the_book(text, scores, label):
    loss = parse_loss(text, classes=CLASSES)
    logits, labels = torch.tensor([scores]), torch.tensor([label])
    expected = is_loss(text, scores, label)
    assert bool(loss.is_counted(labels)) == (expected is not None)
    if expected is not None:
        assert bool(loss.is_incurred(logits, labels)[0]) == expected


@pytest.mark.parametrize("text", EVERY)
def test_a_loss_is_written_as_it_is_read(text):
    assert str(parse_loss(text)) == text
    assert "at most 3 %" in parse_loss(text).says("3 %")


def test_every_kind_has_an_example():
    assert {text.split(":")[0] for text in EVERY} == set(KINDS)


@pytest.mark.parametrize("text", [text for text in EVERY if parse_loss(text).number is not None])
def test_a_loss_is_coded_as_it_is_decoded(text):
    writer, loss = Writer(), parse_loss(text, classes=CLASSES)
    write_loss(writer, Setting(CLASSES, loss=loss), [].append)
    assert read_loss(Reader(writer.finish()), CLASSES) == loss


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
    assert counted_examples(parse_loss("class:1"), torch.tensor([0, 1, 1])) == 2
    with pytest.raises(DataError, match="no example"):
        counted_examples(parse_loss("class:2"), torch.tensor([0, 1, 1]))


DATA = Dataset("one", "train", np.eye(3, dtype="float32"), np.array([0, 1, 1]), 2).on("cpu")


class Returns(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_ties_and_scores_that_are_not_finite_are_errors():
    assert error_count(Returns(lambda x: x[:, :2]), DATA, dtype=torch.float64) == 1
    assert error_count(Returns(lambda x: x[:, :2] / 0), DATA, dtype=torch.float64) == 3


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: [x, x], "returns a list"),
        (lambda x: x[:, :1], r"torch\.cat\(\(-z, z\), 1\)"),
        (lambda x: x[:, 0], "one output for each example"),
        (lambda x: x[:, :2, None], r"makes \(2, 1\) of one example(.|\n)*nn\.Flatten"),
    ],
)
def test_other_outputs_are_told_what_to_be(function, words):
    with pytest.raises(ModelError, match=words):
        next(logit_chunks(Returns(function), DATA))
