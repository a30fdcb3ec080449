"""The arithmetic decoder reads what a literal, unlimited-precision writer wrote."""

import cbound_writer as writer
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from codebound_verify import arithmetic
from codebound_verify.arithmetic import Context, Decoder, Flags
from codebound_verify.refusal import Refused


def decoder_of(coder: writer.Coder, tail: str = "") -> Decoder:
    bits = coder.end() + tail
    return Decoder(writer.pack_bits(bits), len(bits))


@st.composite
def symbols(draw):
    total = draw(st.integers(1, 2**24) | st.integers(1, 5))
    cum = draw(st.integers(0, total - 1))
    return cum, draw(st.integers(1, total - cum)), total


@given(st.lists(symbols(), max_size=60), st.text("01", max_size=70))
def test_reads_every_symbol_whatever_follows_the_code_word(written, tail):
    coder = writer.Coder()
    for symbol in written:
        coder.symbol(*symbol)
    word = coder.end()
    decoder = decoder_of(coder, tail)
    for cum, freq, total in written:
        assert cum <= decoder.slot(total) < cum + freq
        decoder.take(cum, freq, total)
    assert decoder.shifts == coder.shifts
    assert decoder.finish() == len(word)


@given(st.lists(symbols(), min_size=1, max_size=30))
def test_a_choice_of_two_is_two_symbols(written):
    coder = writer.Coder()
    choices = [(cum, total) for cum, _, total in written if cum]
    for zeros, total in choices:
        coder.symbol(0, zeros, total)
        coder.symbol(zeros, total - zeros, total)
    decoder = decoder_of(coder)
    for zeros, total in choices:
        assert decoder.choose(zeros, total) == 0
        assert decoder.choose(zeros, total) == 1
    assert decoder.shifts == coder.shifts


def test_nothing_coded_is_the_empty_word():
    assert Decoder(b"", 0).finish() == 0


@given(st.integers(2, 2**50).flatmap(lambda total: st.tuples(st.integers(0, total - 1), st.just(total))))
def test_uniform(pair):
    value, total = pair
    coder = writer.Coder()
    coder.uniform(value, total)
    assert decoder_of(coder).uniform(total) == value


@given(st.integers(1, 2**41 - 1), st.integers(-(2**39), 2**39))
def test_gamma_and_signed(k, j):
    coder = writer.Coder()
    coder.gamma(k)
    coder.signed(j)
    decoder = decoder_of(coder)
    assert decoder.gamma() == k
    assert decoder.signed() == j


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float32(value):
    coder = writer.Coder()
    coder.float32(value)
    assert repr(decoder_of(coder).float32()) == repr(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_only_finite_numbers_exist(value):
    coder = writer.Coder()
    coder.float32(value)
    with pytest.raises(Refused, match="not finite"):
        decoder_of(coder).float32()


def test_a_number_of_42_digits_is_refused():
    coder = writer.Coder()
    coder.gamma(2**41)
    with pytest.raises(Refused, match="41 binary digits"):
        decoder_of(coder).gamma()


@given(st.lists(st.integers(0, 4), max_size=200), st.integers(3, 40))
def test_contexts_adapt_and_halve_as_the_page_says(written, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arithmetic, "COUNT_LIMIT", limit)
        patch.setattr(writer, "COUNT_LIMIT", limit)
        coder, context, flags = writer.Coder(), writer.Context(5), writer.Context(2)
        for symbol in written:
            context.code(coder, symbol)
            flags.code(coder, symbol % 2)
        decoder, context, flags = decoder_of(coder), Context(5), Flags(3)
        for symbol in written:
            assert context.read(decoder) == symbol
            assert flags.read(decoder, 1) == symbol % 2
        assert decoder.shifts == coder.shifts


@given(st.lists(symbols(), min_size=1, max_size=30))
def test_a_longer_or_another_word_in_the_same_interval_is_refused(written):
    coder = writer.Coder()
    for symbol in written:
        coder.symbol(*symbol)
    word = coder.end()
    bits = format(coder.low + coder.range - 1, f"0{48 + coder.shifts}b")  # the last point of the interval
    assume(not bits.startswith(word))
    decoder = Decoder(writer.pack_bits(bits), len(bits))
    for symbol in written:
        decoder.take(*symbol)
    with pytest.raises(Refused, match="shortest"):
        decoder.finish()


def test_reading_stops_soon_after_the_end():
    decoder = Decoder(b"", 0)
    with pytest.raises(Refused, match="ends inside its code word"):
        decoder.uniform(2**24)


def test_too_many_elements_are_refused_before_they_are_read():
    decoder = Decoder(b"", 0)
    for budget, limit in ((decoder.coded, 2**24), (decoder.inner, 2**26), (decoder.work, 2**36)):
        budget.spend(limit)
        with pytest.raises(Refused, match=f"more than {limit}"):
            budget.spend(1)
