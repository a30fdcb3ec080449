"""Losses are read as the page codes them, and their differences are those of its table, row by row."""

import numpy as np
import pytest
from certificate_reader import SURE as ON_PAGE
from code_writer import packed
from loss_loops import difference_of

from codebound_verify.losses import (
    SURE,
    Question,
    check_question,
    columns_of,
    differences,
    is_about,
    lead_of,
    read_question,
    surplus,
)
from codebound_verify.message import Bits
from codebound_verify.refusal import Refused

CODED = {
    "000 010 0": ("class:1", "all"),
    "001 010 011 0": ("confused:1:2", "all"),
    "010 1 110 011": ("false-alarm:0", "predicted:2"),
    "011 010 1110": ("top:2", "each class"),
    "100 010 0 0": ("cost-above:1:distance", "all"),
    "100 010 1 0001 01 10 00 10 10 00 10 00000": ("cost-above:1:120220", "answered:0.01"),
    "101 10 11111": ("wrong", "answered:15"),
    "101 1111 00": ("wrong", "each group"),
    "000 010 1111 01": ("class:1", "one row a cluster"),
    "000 000000000000000010000000000000000 1111 10": ("class:65535", "any row of a cluster"),
}
COSTS = {"distance": ((0, 1, 2), (1, 0, 1), (2, 1, 0)), "120220": ((0, 1, 2), (0, 0, 2), (2, 0, 0))}


def read(text: str, classes: int = 3) -> Question:
    bits = Bits(*packed(text))
    question = read_question(bits, classes)
    bits.finish()
    return question


@pytest.mark.parametrize("text", CODED)
def test_a_question_is_what_its_bits_say(text):
    question = read(text)
    assert (question.loss, question.on) == CODED[text]
    assert question.costs == COSTS.get(question.loss.split(":")[-1], ())
    with pytest.raises(Refused):
        read(text.replace(" ", "")[:-1])


def test_the_numbers_of_answered_are_those_of_the_page():
    assert list(SURE) == ON_PAGE
    for place, number in enumerate(ON_PAGE):
        assert read(f"101 10 {place:05b}").threshold == float(number)


REFUSED = {
    "110 0": "no loss of kind 6",
    "111 0": "no loss of kind 7",
    "101 0": "without a word",
    "101 1111 01": "without a word",
    "001 010 010 0": "itself",
    "011 011 0": "all of them",
    "100 011 0 0": "no cost is above 2",
    "100 1 1 1111 " + "0000" * 6 + " 0": "are too large",
    "100 1 1 0010 01 10 00 10 10 00 0": None,  # costs up to 3: fine
    "100 1 1 0100 101 110 000 010 010 000 0": "a cost is 6",
    "100 1 1 0000 0 0 0 0 0 0 0": "no cost is above 0",
    "101 1111 11": "reserved",
    "000 00000000000000001 0000000000000001 0": "is no label",  # 65536
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_question_that_the_page_does_not_know_is_refused(text):
    if REFUSED[text] is None:
        assert read(text).loss == "cost-above:0:120220"
        return
    with pytest.raises(Refused, match=REFUSED[text]):
        read(text)


def test_costs_are_for_few_classes():
    assert len(read("100 1 0 0", 16).costs) == 16
    for text, classes in (("100 1 0 0", 17), ("100 1 1 0000" + "1" * 380 + "0", 20)):
        with pytest.raises(Refused, match="are allowed"):
            read(text, classes)
    assert len(read("100 1 1 0000" + "1" * 342 + "0", 19).costs) == 19


def test_labels_and_costs_have_to_be_those_of_the_scores():
    classes = np.array([2, 5, 9])
    check_question(Question("confused:5:9", "predicted:2"), classes)
    check_question(Question("cost-above:0:distance", "all", COSTS["distance"]), classes)
    for question in (
        Question("class:3"),
        Question("confused:5:3"),
        Question("false-alarm:0"),
        Question("wrong", "predicted:1"),
        Question("cost-above:0:distance", "all", ((0, 1), (1, 0))),
    ):
        with pytest.raises(Refused):
            check_question(question, classes)


def concerns(question: Question, label: int) -> bool:
    if question.kind in ("class", "confused"):
        return label == question.numbers[0]
    return question.kind != "false-alarm" or label != question.numbers[0]


LOSSES = [
    Question("wrong"),
    Question("class:5"),
    Question("confused:5:2"),
    Question("false-alarm:9"),
    Question("top:1"),
    Question("top:2"),
    Question("cost-above:0:distance", "all", COSTS["distance"]),
    Question("cost-above:1:distance", "all", COSTS["distance"]),
    Question("cost-above:0:120220", "all", COSTS["120220"]),
]


@pytest.mark.parametrize("question", LOSSES, ids=lambda each: each.loss)
def test_differences_are_those_of_the_page(question):
    random = np.random.default_rng(0)
    classes, values = np.array([2, 5, 9]), random.integers(0, 4, (200, 3)).astype(float)  # with ties
    labels = random.choice([2, 5, 9, 3, 0, 11], 200)
    found = differences(question, values, columns_of(labels, classes), classes)
    rows = list(zip(values.tolist(), labels.tolist(), strict=True))
    assert found.tolist() == [difference_of(question, z, y, [2, 5, 9]) for z, y in rows]
    assert is_about(question, labels).tolist() == [concerns(question, y) for _, y in rows]


def test_leads_are_those_of_the_page():
    values = np.random.default_rng(1).integers(0, 4, (50, 3)).astype(float)
    ends = [sorted(z) for z in values.tolist()]
    assert surplus(values).tolist() == [z[2] - z[1] for z in ends]
    leads = [z[1] - max(z[0], z[2]) for z in values.tolist()]
    assert lead_of(5, values, np.array([2, 5, 9])).tolist() == leads
