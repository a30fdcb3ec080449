"""Words of forms and choices of tables: one code, read back, of Kraft sum at most 1 for any tables."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits.plain_code import (
    FIRST_TABLE,
    FORMS,
    OTHER_LOSS,
    RESERVED,
    TABLE,
    PlainReader,
    PlainWriter,
    TableChoice,
    bits_of,
    code_form,
    code_table,
    code_word,
)
from codebound.run.errors import FormatError


def bits_from(digits):
    writer = PlainWriter()
    for digit in digits:
        writer.bits(int(digit), 1)
    return writer.finish()


def read(bits, columns):
    reader = PlainReader(bits)
    found = code_table(reader, code_form(reader), columns=columns)
    reader.finish()
    return found, reader.ledger


def test_the_shares_of_the_words_are_those_of_the_page():
    shares = [Fraction(1, 2 ** bits_of(form)) for form in FORMS]
    assert shares == [Fraction(1, 2**k) for k in range(1, 7)]
    assert sum(shares) + 2 * Fraction(1, 2**7) == 1  # another loss, and what is reserved


@given(st.lists(st.integers(2, 4), min_size=1, max_size=5))
def test_all_choices_of_tables_are_one_code_and_are_read_back(columns):
    words = {str(TableChoice().encode()[0])}
    for table, width in enumerate(columns, start=1):
        signs = [(0,) * at + (sign,) * (width - at) for at in range(width) for sign in (1, -1)]
        for choice in (TableChoice(table), *(TableChoice(table, e, each) for e in (0, 15) for each in signs)):
            bits, ledger = choice.encode()
            assert read(bits, tuple(columns)) == (choice, ledger)
            assert sum(size for _, size in ledger) == bits.length
            words.add(str(bits))
    ordered = sorted(words)
    assert not any(b.startswith(a) for a, b in pairwise(ordered))
    assert sum(Fraction(1, 2 ** len(word)) for word in words) <= Fraction(3, 8)


@given(st.lists(st.integers(2, 3), min_size=1, max_size=3), st.text("01", min_size=40, max_size=40))
def test_every_string_begins_with_one_choice_or_is_refused(columns, digits):
    reader = PlainReader(bits_from("110" + digits))
    try:
        choice = code_table(reader, code_form(reader), columns=tuple(columns))
    except FormatError:
        return
    bits, _ = choice.encode()
    if choice.form == TABLE:
        assert ("110" + digits).startswith(str(bits))


def test_a_table_is_written_as_the_page_says():
    assert str(TableChoice().encode()[0]) == "10"
    assert str(TableChoice(2, 11, (1, 0, -1)).encode()[0]) == "110" + "010" + "1" + "1011" + "10" + "0" + "11"
    assert TableChoice(2, 11, (1, 0, -1)).biases == (0.5, 0.0, -0.5)
    assert (TableChoice().form, TableChoice(1, 0, (1, 1)).form) == (FIRST_TABLE, TABLE)


@pytest.mark.parametrize("digits", ["1100110", "110001000", "11"])
def test_a_table_that_is_not_declared_is_refused(digits):
    with pytest.raises(FormatError):
        read(bits_from(digits), (3, 3))


def test_a_loss_stands_in_front_of_a_form_once_and_the_last_word_is_reserved():
    for word in (OTHER_LOSS, RESERVED):
        with pytest.raises(FormatError, match="reserved"):
            code_form(PlainReader(bits_from("1" * word + "0" * (word < RESERVED))))
    assert code_word(PlainReader(bits_from("1111110")), OTHER_LOSS, RESERVED) == OTHER_LOSS
