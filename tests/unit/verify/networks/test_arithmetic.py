"""The code word: any symbols come back, in no bit more than the page gives them."""

import certificate_reader
import network_reader
import numpy as np
import pytest
from code_writer import encoded, packed, within
from hypothesis import given
from hypothesis import strategies as st

from codebound_verify.message import Bits
from codebound_verify.networks.arithmetic import COUNT_LIMIT, Budget, Context, Decoder, Flags, Witness
from codebound_verify.refusal import Refused


def decoder_of(bits: str, front: str = "") -> tuple[Decoder, Bits]:
    plain = Bits(*packed(front + bits))
    plain.bits(len(front))
    return Decoder(plain, Witness(b"")), plain


SYMBOLS = st.one_of(
    st.integers(1, 2**41 - 1).map(lambda k: ("gamma", k, k)),
    st.integers(2, 2**24).flatmap(
        lambda total: st.integers(0, total - 1).map(lambda v: ("uniform", (v, total), v))
    ),
    st.booleans().map(lambda b: ("bit", str(int(b)), int(b))),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda f: ("float32", float(f), float(f))),
)


@given(st.lists(SYMBOLS, min_size=1, max_size=30), st.text("01", max_size=9), st.text("01", max_size=9))
def test_symbols_come_back(symbols, front, behind):
    """Whatever stands in front of the code word and behind it."""
    word = encoded(*(step for _, step, _ in symbols))
    decoder, bits = decoder_of(word + behind, front)
    for kind, step, value in symbols:
        found = decoder.uniform(step[1]) if kind == "uniform" else getattr(decoder, kind)()
        assert found == value
    decoder.note("symbols")
    decoder.finish()
    assert bits.place == len(front) + len(word)
    assert sum(count for _, count in bits.ledger) == len(word)
    assert bits.ledger[-1][0] == "end"
    assert bits.ledger[-1][1] in (0, 1, 2)


@given(
    st.integers(2**24 + 1, 2**40).flatmap(lambda total: st.tuples(st.integers(0, total - 1), st.just(total)))
)
def test_large_uniforms_come_in_two_parts(symbol):
    value, total = symbol
    most = total - 1
    high = value >> 16
    tail = (most % 2**16) + 1 if high == most >> 16 else 2**16
    steps = [(high, (most >> 16) + 1)] if (most >> 16) + 1 <= 2**24 else None
    if steps is None:
        return
    decoder, _ = decoder_of(encoded(*steps, (value % 2**16, tail)))
    assert decoder.uniform(total) == value
    decoder.finish()


@given(st.lists(st.integers(0, 6), max_size=200))
def test_contexts(symbols):
    counts = [0] * 7
    decoder, _ = decoder_of(encoded(*(within(counts, symbol) for symbol in symbols)))
    context = Context(7)
    assert [context.read(decoder) for _ in symbols] == symbols
    decoder.finish()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=200))
def test_flags(symbols):
    counts = [[0, 0] for _ in range(3)]
    decoder, _ = decoder_of(encoded(*(within(counts[which], symbol) for which, symbol in symbols)))
    flags = Flags(3)
    assert [flags.read(decoder, which) for which, _ in symbols] == [symbol for _, symbol in symbols]
    decoder.finish()


@pytest.mark.parametrize("kind", [Flags, lambda: Context(2)])
def test_counts_are_halved_when_their_sum_gets_to_the_limit(kind, monkeypatch):
    monkeypatch.setattr("codebound_verify.networks.arithmetic.COUNT_LIMIT", 8)
    assert COUNT_LIMIT == 2**20
    counts, steps, symbols = [0, 0], [], [1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 0]
    for symbol in symbols:
        steps.append(within(counts, symbol))
        if sum(counts) >= 8:
            counts[:] = [(n + 1) // 2 for n in counts]
    decoder, _ = decoder_of(encoded(*steps))
    context = kind()
    assert [context.read(decoder) for _ in symbols] == symbols
    decoder.finish()


@given(st.text("01", min_size=1, max_size=60))
def test_any_bits_mean_the_same_to_the_third_reader(text):
    """Of bits that nobody encoded, too: both take the same symbols, and the same words as complete."""
    decoder, bits = decoder_of(text)
    other = network_reader.Decoder(certificate_reader.Bits(*packed(text)))

    def symbols(uniform):
        return [uniform(total) for total in (2, 3, 1000, 7)]

    def outcome(uniform, end):
        try:
            found = symbols(uniform)
            end()
        except (Refused, certificate_reader.Refused):
            return None
        return found

    one = outcome(decoder.uniform, decoder.finish)
    assert one == outcome(other.uniform, other.end)
    assert one is None or bits.place == other.plain.place


def test_every_word_is_one_code_word():
    """Of all words of some length, those that are complete have the Kraft sum of different intervals."""
    total = 0.0
    for value in range(2**10):
        decoder, bits = decoder_of(f"{value:010b}")
        decoder.uniform(3)
        decoder.uniform(5)
        try:
            decoder.finish()
        except Refused:
            continue
        total += 2.0**-10
        assert bits.place <= 10
    assert total <= 1.0


def test_a_word_may_not_end_before_its_last_zero():
    """Zeros beyond the end of a message count as its bits nowhere but in decoding."""
    (symbols,) = [s for s in ([(0, 3)], [(1, 3)], [(2, 3)]) if encoded(*s).endswith("0")][:1]
    word = encoded(*symbols)
    for bits, is_whole in ((word, True), (word[:-1], False)):
        decoder, _ = decoder_of(bits)
        assert decoder.uniform(3) == symbols[0][0]
        if is_whole:
            decoder.finish()
        else:
            with pytest.raises(Refused, match="bits; "):
                decoder.finish()


def test_a_budget():
    budget = Budget(3, "the things")
    budget.spend(3)
    with pytest.raises(Refused, match="the things are more than 3"):
        budget.spend(1)


def test_a_number_too_large():
    for steps, read in ((["1"], lambda d: d.size("k", 0)), ([2 * 5 + 1], lambda d: d.signed("j", 4))):
        decoder, _ = decoder_of(encoded(*steps))
        with pytest.raises(Refused, match="at most"):
            read(decoder)
    for j in (-4, 4):
        decoder, _ = decoder_of(encoded(2 * j + 1 if j >= 0 else -2 * j))
        assert decoder.signed("j", 4) == j


def test_the_largest_numbers():
    decoder, _ = decoder_of(encoded(2**41 - 1))
    assert decoder.gamma() == 2**41 - 1
    decoder, _ = decoder_of(encoded("0" * 41 + "1" * 50))
    with pytest.raises(Refused, match="41 binary digits"):
        decoder.gamma()
    decoder, _ = decoder_of(encoded(float(np.finfo(np.float32).max)))
    assert decoder.float32() == np.finfo(np.float32).max
