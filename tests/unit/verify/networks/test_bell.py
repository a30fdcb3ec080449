"""The bell-shaped law: its table against mpmath, its code words against words computed by hand."""

import itertools

import cbound_writer as writer
import mpmath
import pytest

from codebound_verify.arithmetic import Decoder
from codebound_verify.networks.bell import DECAYS, LARGEST, borders, frequencies, read_bell
from codebound_verify.networks.tensors import read_tensor
from codebound_verify.refusal import Refused

WIDTHS = range(64)


def scale(width: int) -> mpmath.mpf:
    return mpmath.mpf(2) ** (mpmath.mpf(width) / 8 - 2)


def is_logistic(weights: list[int], width: int) -> bool:
    """W_k - 1 is 2^16 sech^2(k / 2s), rounded down, up to the rounding of r."""
    decay = mpmath.exp(-1 / scale(width))
    for k, weight in enumerate(weights):
        exact = 2**16 * mpmath.sech(k / (2 * scale(width))) ** 2
        allowed = exact * ((1 + mpmath.mpf(2) ** -17 / decay) ** k - 1) + 0.02
        if not -1 - allowed < weight - 1 - exact < allowed:
            return False
    return True


@pytest.mark.thorough
def test_the_decays_are_exponentials():
    assert len(DECAYS) == 64
    with mpmath.workdps(40):
        assert [int(mpmath.nint(2**16 * mpmath.exp(-1 / scale(i)))) for i in WIDTHS] == list(DECAYS)


@pytest.mark.few(3)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_weights_are_those_of_a_logistic_density(width):
    weights = frequencies(width)
    assert len(weights) == LARGEST + 1
    with mpmath.workdps(40):
        assert is_logistic(weights, width)
        assert not is_logistic(frequencies((width + 1) % 64), width)  # teeth
        assert not is_logistic([weight + 2 for weight in weights], width)


@pytest.mark.few(25)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_integer_has_an_interval_and_so_has_its_negative(width):
    starts = borders(width)
    sizes = [stop - start for start, stop in itertools.pairwise(starts)]
    assert len(sizes) == 2 * LARGEST + 1
    assert min(sizes) >= 1
    assert sizes == sizes[::-1]
    assert sizes[LARGEST:] == frequencies(width)
    assert starts[0] == 0
    assert starts[-1] <= 2**24


# Width 0 has W = 65537, 4629, 88, 2 and 252 ones: the total is 75479, and 0 has the part [0.0659, 0.9341) of
# the interval, 1 has [0.9341, 0.9955), 255 the last 1/75479 and -255 the first; 2^-17 < 1/75479 < 2^-16.
@pytest.mark.parametrize(
    ("integers", "word"),
    [
        ([0], "01"),
        ([0, 0], "01"),  # [0.1231, 0.8770)
        ([1], "11110"),
        ([-1], "00001"),
        ([255], "1" * 17),
        ([-255], "0" * 17),
    ],
)
def test_code_words_computed_by_hand(integers, word):
    word = "000000" + word  # uniform(0, 64)
    decoder = Decoder(writer.pack_bits(word), len(word))
    assert read_bell(decoder, len(integers)).tolist() == integers
    assert decoder.finish() == len(word)


def test_a_message_that_ends_is_refused():
    with pytest.raises(Refused, match="ends inside its code word"):
        read_bell(Decoder(b"", 0), 1)


def test_the_limit_of_a_bell_is_that_of_the_law_and_not_of_its_integers():
    """2^10 k b^2 255 is above 2^53 for k = b = 2^12, and below it for k = 2^11 (4.12)."""
    zeros = writer.bell([0] * 2**12, width=0)
    for mixes in (2**11, 2**12):
        coder = writer.Coder()
        for number in (12, 2**12, mixes, 1):
            coder.gamma(number)
        zeros.write(coder, "t")
        word = coder.end()
        decoder = Decoder(writer.pack_bits(word), len(word))
        if mixes == 2**11:
            (part,) = read_tensor(decoder, (3, 4)).parts
            assert part.limit == LARGEST
        else:
            with pytest.raises(Refused, match=r"at most 2\^53"):
                read_tensor(decoder, (3, 4))
