"""Questions of a claim: which rows count, in texts and in codes of the page."""

import pytest

from codebound.bits.plain_code import PlainReader, PlainWriter
from codebound.run.errors import FormatError, UsageError
from codebound.sample.questions import Question, code_question, parse_question

CODES = {
    ("wrong", "answered:0.01"): "1011000000",
    ("wrong", "answered:15"): "1011011111",
    ("wrong", "answered:1"): "1011010000",
    ("wrong", "predicted:2"): "101110011",
    ("wrong", "each class"): "1011110",
    ("wrong", "each group"): "101111100",
    ("class:0", "one row a cluster"): "0001111101",
    ("wrong", "any row of a cluster"): "101111110",
    ("top:1", "all"): "01110",
}


@pytest.mark.parametrize(("loss", "on"), CODES)
def test_a_question_is_coded_as_the_page_says(loss, on):
    writer, question = PlainWriter(), parse_question(loss, on)
    code_question(writer, question, 4)
    bits = writer.finish()
    assert str(bits) == CODES[loss, on]
    assert code_question(PlainReader(bits), None, 4) == question


@pytest.mark.parametrize("digits", ["1010", "101111111", "1100"])
def test_codes_of_no_question_are_refused(digits):
    writer = PlainWriter()
    for digit in digits:
        writer.bits(int(digit), 1)
    with pytest.raises(FormatError):
        code_question(PlainReader(writer.finish()), None, 4)


@pytest.mark.parametrize(
    "on", ["", "some", "answered", "answered:0.35", "answered:1.0", "predicted:", "predicted:02", "each"]
)
def test_other_rows_are_refused(on):
    with pytest.raises(UsageError, match="errors are counted on"):
        Question(on=on)
