"""What labels show is said in one sentence each, and nothing is said about an ordinary sample."""

import re

import numpy as np
import pytest

from codebound.data.arrays import from_arrays
from codebound.data.oddities import remarks

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
    from codebound.bounds.occam import occam_binomial
    from codebound.facts import OccamFacts

    (found,) = said([0, 1, 1, 0] * 10, delta=0.01)
    least = occam_binomial(OccamFacts(errors=0, n=40, code_bits=25, delta=0.01)).value
    assert found.endswith(f"by {100.0 * least:.0f} %")
