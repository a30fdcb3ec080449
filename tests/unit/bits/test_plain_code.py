"""Plain bits against strings of digits, and what they refuse."""

import random

import pytest

from codebound.bits.plain_code import Bits, PlainReader, PlainWriter
from codebound.run.errors import FormatError


def bits_of(text: str) -> Bits:
    padded = text + "0" * (-len(text) % 8)
    return Bits(bytes(int(padded[at : at + 8], 2) for at in range(0, len(padded), 8)), len(text))


def test_fields_are_the_digits_of_the_page() -> None:
    writer = PlainWriter()
    for number in (1, 2, 3, 4, 9):
        writer.gamma(number)
    writer.note("numbers")
    writer.ones(2)
    writer.ones(4, 4)
    writer.note("words")
    writer.bits(0, 0)
    writer.bits(6, 4)
    assert str(writer.finish()) == "101001100100000100111011110110"
    assert writer.ledger == (("numbers", 19), ("words", 7))


def test_random_fields_are_read_back() -> None:
    draw = random.Random(0)
    for _ in range(50):
        fields = [(draw.choice("bgof"), draw.randrange(1, 1 << draw.randrange(1, 41))) for _ in range(30)]
        writer = PlainWriter()
        for kind, value in fields:
            if kind == "b":
                writer.bits(value, 41)
            elif kind == "g":
                writer.gamma(value)
            elif kind == "o":
                writer.ones(value % 9, 8)
            else:
                writer.flag(value % 2)
        message = writer.finish()
        reader = PlainReader(message)
        for kind, value in fields:
            if kind == "b":
                assert reader.bits(41) == value
            elif kind == "g":
                assert reader.gamma() == value
            elif kind == "o":
                assert reader.ones(most=8) == value % 9
            else:
                assert reader.flag() == bool(value % 2)
        assert reader.place == message.length == writer.place
        reader.finish()


def test_a_reader_begins_anywhere() -> None:
    reader = PlainReader(bits_of("111001010000000011"), 3)
    assert reader.gamma() == 5
    reader.note("first")
    assert reader.bits(10) == 3
    reader.note("second")
    assert reader.ledger == (("first", 5), ("second", 10))
    reader.finish()


@pytest.mark.parametrize("text", ["", "0", "00", "001", "0011", "0" * 41 + "1" + "0" * 41])
def test_a_number_that_ends_too_soon_or_is_too_long_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        PlainReader(bits_of(text)).gamma()


def test_what_fits_no_field_and_what_is_left_over_is_refused() -> None:
    reader = PlainReader(bits_of("0"))
    with pytest.raises(FormatError, match="ends after 0 bits, the file has 1"):
        reader.finish()
    for write in (
        lambda: PlainWriter().bits(4, 2),
        lambda: PlainWriter().gamma(0),
        lambda: PlainWriter().gamma(1 << 41),
        lambda: PlainWriter().ones(5, 4),
    ):
        with pytest.raises(FormatError):
            write()
