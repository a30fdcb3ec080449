"""Records that are stored more than once, with labels that contradict each other (docs/format.md, 6.3)."""

from fractions import Fraction

import numpy as np
import pytest

from codebound.sample.arrays import from_arrays
from codebound.sample.counting import Verdicts, count
from codebound.sample.order import Design, arrange
from codebound.sample.questions import Question

INPUTS, STORED, RATE = 120, 3, Fraction(7, 10)


def counted(right, labels, inputs):
    """Errors and rows that count, of records with nothing known."""
    sample = from_arrays(inputs[:, None].astype(float), labels, name="records")
    arranged = arrange(sample, Design(order="file", copies="repeated"))
    every = np.ones_like(right)
    none = np.zeros(0, np.int64)
    (tally,) = count(
        arranged, Verdicts(right, every, every), question=Question(), known=none, classes=np.arange(2)
    )
    return tally.errors, tally.n


def test_contradicting_labels_never_make_the_error_look_smaller():
    """Every copy has a label of its own, wrong in seven of ten; as records they would be half wrong."""
    stream = np.random.default_rng(0)
    inputs = np.repeat(np.arange(INPUTS), STORED)
    for _ in range(50):
        labels = (stream.random(len(inputs)) < float(RATE)).astype(np.int64)  # the classifier says 0
        errors, n = counted(labels == 0, labels, inputs)
        assert errors >= RATE * n


def test_that_simulation_has_teeth():
    """Right records of inputs with two labels, counted too, pull the rate far down."""
    stream = np.random.default_rng(0)
    inputs = np.repeat(np.arange(INPUTS), STORED)
    labels = (stream.random(len(inputs)) < float(RATE)).astype(np.int64)
    pairs = {*zip(inputs.tolist(), labels.tolist(), strict=True)}
    wrong = sum(label for _, label in pairs)
    assert wrong < RATE * len(pairs)


@pytest.mark.parametrize(
    ("labels", "expected"), [([0, 0, 1, 0], (1, 2)), ([0, 0, 0, 0], (0, 2)), ([1, 1, 1, 1], (2, 2))]
)
def test_records_are_counted_once_and_right_ones_not_beside_another_label(labels, expected):
    labels = np.array(labels)
    assert counted(labels == 0, labels, np.array([5, 5, 6, 6])) == expected
