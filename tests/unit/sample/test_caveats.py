"""What labels show is said in one sentence each, and nothing is said about an ordinary sample."""

import re

import numpy as np
import pytest

from codebound.sample.arrays import from_arrays
from codebound.sample.caveats import remarks
from codebound.sample.dataset import Scaling

RANDOM = np.random.default_rng(0)
ORDINARY = RANDOM.integers(0, 3, 300)


def said(labels, **options):
    return remarks(from_arrays(RANDOM.normal(size=(len(labels), 2)) + 3, labels, name="t"), **options)


def test_nothing_is_said_about_an_ordinary_sample():
    assert said(ORDINARY) == ()


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.sort(ORDINARY), "sorted by their labels"),
        (np.full(200, 2), "all 200 examples have the label 2"),
        (ORDINARY + 1, "no example has the label 0: .* 4 classes .*counted from 1, subtract 1$"),
        (ORDINARY + 2, "class 0 is one of the 5 classes and never occurs here$"),
        (
            (np.arange(1000) == 7) | (np.arange(1000) == 3),
            "99.8 % of the examples have the label 0: who always",
        ),
        ([0, 1, 1, 0] * 5, "20 examples are few: .* by 64 %"),
    ],
    ids=["sorted", "one class", "from 1", "from 2", "rare class", "tiny"],
)
def test_what_labels_show_is_one_sentence(labels, sentence):
    (found,) = said(labels)
    assert re.search(sentence, found)


def test_few_examples_are_bounded_as_the_theorem_does():
    from codebound.bounds.facts import OccamFacts
    from codebound.bounds.occam import occam_binomial

    (found,) = said([0, 1, 1, 0] * 10, delta=0.01)
    least = occam_binomial(OccamFacts(errors=0, n=40, code_bits=25, delta=0.01)).value
    assert found.endswith(f"by {100.0 * least:.0f} %")


@pytest.mark.parametrize(
    ("pictures", "is_said"),
    [
        (RANDOM.random((300, 1, 8, 8)), False),
        (RANDOM.random((300, 1, 8, 8)) * 16, True),
        (RANDOM.random((300, 3, 8, 8)) - 0.1, True),
        (RANDOM.integers(0, 255, (300, 1, 8, 8), dtype=np.uint8), False),
        (RANDOM.random((300, 64)) * 16, False),
        (RANDOM.random((300, 1, 4, 4)) * 16, False),
    ],
    ids=["from 0 to 1", "to 16", "negative", "bytes", "a table", "too small to be one"],
)
def test_pictures_that_would_be_cut_off_are_told(pictures, is_said):
    found = remarks(from_arrays(pictures, ORDINARY, name="t"))
    assert [bool(re.search("cuts off the rest", each)) for each in found] == [True] * is_said


def test_what_is_known_to_be_white_is_not_cut_off():
    sample = from_arrays(RANDOM.random((300, 1, 8, 8)) * 16, ORDINARY, name="t", scaling=Scaling(16.0))
    assert remarks(sample) == ()


def test_one_example_is_spoken_of_as_one():
    only, few = said([0])
    assert only.startswith("the only example has the label 0")
    assert few.startswith("1 example is few")
