"""What is said about a sample: its labels and its copies."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.sample.arrays import from_arrays
from codebound.sample.caveats import remarks
from codebound.sample.dataset import Sample

RANDOM = np.random.default_rng(0)
ORDINARY = RANDOM.integers(0, 3, 300)


def remarks_on(labels):
    return remarks(from_arrays(RANDOM.normal(size=(len(labels), 2)) + 3, labels, name="t"))


def test_an_ordinary_sample_has_no_remarks():
    assert remarks_on(ORDINARY) == ()


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.full(200, 2), r"every label is 2 \(200 examples\)"),
        ([0], r"every label is 0 \(1 example\)"),
        (ORDINARY + 1, "no example has the label 0: .* 4 classes .*counted from 1, subtract 1$"),
        (ORDINARY + 2, "class 0 is one of the 5 classes and never occurs here$"),
        (
            (np.arange(1000) == 7) | (np.arange(1000) == 3),
            "99.8 % of the examples have the label 0: who always",
        ),
    ],
    ids=["one class", "one example", "from 1", "from 2", "rare class"],
)
def test_what_labels_show_is_one_sentence(labels, sentence):
    (found,) = remarks_on(labels)
    assert re.search(sentence, found)


@pytest.mark.parametrize(
    ("pictures", "is_said"),
    [
        (RANDOM.random((300, 1, 8, 8)), False),
        (RANDOM.random((300, 1, 8, 8)) * 16, False),
        (RANDOM.random((300, 1, 8, 8)) * 300, True),
        (RANDOM.random((300, 3, 8, 8)) - 0.1, True),
        (RANDOM.integers(0, 255, (300, 1, 8, 8), dtype=np.uint8), False),
        (RANDOM.random((300, 64)) * 16, False),
        (RANDOM.random((300, 1, 2, 4)) - 0.5, False),
    ],
    ids=["from 0 to 1", "to 16", "to 300", "negative", "bytes", "a table", "too small to be one"],
)
def test_a_remark_names_pictures_that_would_be_cut_off(pictures, is_said):
    found = remarks(from_arrays(pictures, ORDINARY, name="t"))
    assert [bool(re.search("cuts off what is below", each)) for each in found] == [True] * is_said


def sample_of(x, y):
    return Sample("s", "train", np.array(x, dtype=np.uint8).reshape(len(x), -1), np.array(y), 3)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, -0.0, 1.0, 2.0]), st.integers(0, 2)), min_size=1, max_size=20)
)
def test_a_copy_has_input_and_label_of_an_earlier_row(rows):
    x, y = np.array([[value] for value, _ in rows]), np.array([label for _, label in rows])
    wanted = [row in rows[:at] for at, row in enumerate(rows)]
    copies = [
        each for each in remarks(Sample("s", "train", x, y, 3)) if "an earlier" in each or "ones (" in each
    ]
    assert [int(each.split(" ", 1)[0]) for each in copies] == [sum(wanted)] * any(wanted)


def test_rates_of_copies_are_said_by_class_and_nothing_is_refused():
    x, y = np.arange(300.0)[:, None], np.arange(300) % 3
    x[y == 1] = 7.0
    (found,) = remarks(from_arrays(x, y, name="t"))
    assert "99 of 300 examples are copies of earlier ones (99.0 % of label 1): wrong ones all count" in found
    assert "must not depend on what it holds" in found
