"""Modes 8 to 12 against the literal writer, whose sums are sums of plain integers."""

import itertools

import cbound_writer as writer
import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from codebound_verify.arithmetic import Decoder
from codebound_verify.networks.papers import random_tensors
from codebound_verify.networks.papers.random_tensors import RightFactor, product
from codebound_verify.networks.tensors import Blocks, Static, read_tensor, to_float32
from codebound_verify.refusal import Refused

CODES = (writer.adaptive, writer.dense, writer.enumerative, writer.static)
SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, max_side=5)
SEEDS = st.integers(0, 5) | st.integers(0, 2**41 - 2)


@st.composite
def inners(draw, shape):
    """An inner tensor of any mode, step and size of its integers."""
    code = draw(st.sampled_from((*CODES, None)))
    if code is None:
        return writer.zero(shape)
    limit = draw(st.sampled_from((1, 9, 50 if code in (writer.adaptive, writer.static) else 2**20)))
    q = draw(arrays.arrays(np.int64, shape, elements=st.integers(-limit, limit), fill=st.just(0)))
    return code(q, draw(st.integers(-400, 400)))


def read(tensor: writer.Tensor, shape, base=None) -> np.ndarray:
    """What the verifier makes of a tensor, blocks and all."""
    coder = writer.Coder()
    tensor.write(coder, "t")
    word = coder.end()
    bits = word + "".join(block for _, block in coder.blocks)
    message = writer.pack_bits(bits)
    decoder = Decoder(message, len(bits))
    recipe = read_tensor(decoder, shape)
    assert decoder.finish() == len(word)
    blocks, parts, used = Blocks(message, len(word), len(bits)), [], len(word)
    for part in recipe.parts:
        if isinstance(part, Static):
            part, size = blocks.read(part)
            used += size
        parts.append(part)
    assert used == len(bits)
    return to_float32(recipe.make(*parts), shape, base)


def expect(tensor: writer.Tensor, data) -> None:
    """The same bits, with and without a base; what float32 cannot hold is refused."""
    shape = tensor.values.shape
    base = data.draw(st.none() | arrays.arrays(np.float32, shape, elements=st.floats(-8, 8, width=32)))
    with np.errstate(over="ignore"):
        expected = (tensor.values if base is None else tensor.values + base).astype(np.float32)
    if not np.isfinite(expected).all():
        with pytest.raises(Refused, match="too large"):
            read(tensor, shape, base)
        return
    found = read(tensor, shape, base)
    assert found.shape == shape
    assert found.tobytes() == expected.tobytes()


@given(SHAPES, st.booleans(), st.booleans(), st.integers(1, 9), SEEDS, st.data())
def test_projected(shape, rows, gaussian, k, seed, data):
    z = data.draw(inners((shape[0] if rows and len(shape) > 1 else 1, k)))
    expect(writer.projected(shape, z, rows=rows, gaussian=gaussian, seed=seed), data)


@given(SHAPES, st.data())
def test_low_rank(shape, data):
    rows, columns = writer.matrix_of(shape)
    r = data.draw(st.integers(1, min(rows, columns)))
    expect(writer.low_rank(shape, data.draw(inners((rows, r))), data.draw(inners((r, columns)))), data)


FILLS = st.builds(writer.Fill, st.booleans(), st.integers(-1000, 700), st.integers(-(2**20), 2**20), SEEDS)


@given(SHAPES, st.none() | FILLS, st.data())
def test_filled(shape, fill, data):
    expect(writer.filled(data.draw(inners(shape)), fill), data)


@given(SHAPES, SEEDS, st.integers(0, 2), st.data())
def test_ticket(shape, seed, kind, data):
    expect(writer.ticket(data.draw(inners(shape)), kind=kind, seed=seed), data)


LOCAL_SHAPES = arrays.array_shapes(min_dims=2, max_dims=5, max_side=4)


@given(LOCAL_SHAPES, SEEDS, st.integers(1, 6), st.integers(1, 6), st.data())
def test_mixed(shape, seed, b, k, data):
    expect(writer.mixed(shape, data.draw(inners((b,))), mixes=k, seed=seed), data)


def drawn(shape, limit=2**20) -> writer.Tensor:
    return writer.dense(np.random.default_rng(0).integers(-limit, limit + 1, shape))


LARGER = {  # tensors with more elements than the smallest tiles and blocks
    "projected": writer.projected((5, 3, 71), drawn((1, 6))),
    "projected rows": writer.projected((5, 3, 71), drawn((5, 6)), rows=True, seed=1),
    "gaussian": writer.projected((5, 3, 71), drawn((1, 6)), gaussian=True, seed=2),
    "gaussian rows": writer.projected((5, 3, 71), drawn((5, 6)), rows=True, gaussian=True, seed=3),
    "low rank": writer.low_rank((5, 3, 71), drawn((5, 4)), drawn((4, 213))),
    "filled": writer.filled(drawn((3, 99), 1), writer.Fill(False, -3, 40, 8)),
    "filled everywhere": writer.filled(drawn((3, 99), 1), writer.Fill(True, -3, 40, 8)),
    "signs": writer.ticket(drawn((3, 99)), kind=0),
    "popcounts": writer.ticket(drawn((3, 99)), kind=1),
    "uniform": writer.ticket(drawn((3, 99)), kind=2),
    "mixed": writer.mixed((5, 3, 71), drawn((5,)), mixes=7, seed=4),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", LARGER)
def test_borders_of_tiles_and_blocks_change_nothing(name, monkeypatch):
    tensor = LARGER[name]
    shape, expected = tensor.values.shape, tensor.values.astype(np.float32)
    np.testing.assert_array_equal(read(tensor, shape), expected)
    monkeypatch.setattr("codebound_verify.networks.tensors.NARROWEST", 64)
    for tile, block in itertools.product((64, 128, 300), (1, 2, 10, 40, 100)):
        monkeypatch.setattr("codebound_verify.networks.tensors.TILE", tile)
        monkeypatch.setattr("codebound_verify.networks.papers.random_tensors.BLOCK", block)
        np.testing.assert_array_equal(read(tensor, shape), expected)


@given(st.integers(1, 2**20), st.integers(1, 40), st.integers(1, 2**12))
@examples(50)
def test_products_are_exact_up_to_the_largest_sums(largest, rows, terms):
    """All terms of one sign and as large as they can be, then one of them smaller by one."""
    left = np.full((rows, terms), largest, np.int32)
    left[:, -1] -= 1
    right = RightFactor(2**20, lambda first, stop, _: np.full((stop - first, 3), 2**20, np.int32))
    assert set(product(left, right, slice(0, 3)).ravel()) == {(largest * terms - 1) * 2**20}


def test_sums_that_float32_cannot_hold_are_made_in_float64(monkeypatch):
    """Teeth: with a wrong limit of float32 the same sums come out wrong."""
    left = np.full((1, 3), 2**20 - 1, np.int32)
    right = RightFactor(2**20, lambda first, stop, _: np.full((stop - first, 1), 2**20 - 1, np.int32))
    exact = 3 * (2**20 - 1) ** 2
    assert product(left, right, slice(0, 1))[0, 0] == exact
    monkeypatch.setattr(random_tensors, "EXACT32", 2**60)
    assert product(left, right, slice(0, 1))[0, 0] != exact


def test_an_integer_has_no_minus_zero():
    found = read(writer.ticket(writer.zero((200,))), (200,))
    assert not np.signbit(found).any()


def numbers(*values) -> writer.Tensor:
    """Gamma-coded numbers, bits as strings, and inner tensors: to say what no writer would."""

    def write(coder, name):
        for value in values:
            if isinstance(value, writer.Tensor):
                value.write(coder, name)
            elif isinstance(value, str):
                coder.bit(int(value))
            else:
                coder.gamma(value)

    return writer.Tensor(write, np.zeros(1))


def decoder_of(*values) -> Decoder:
    coder = writer.Coder()
    numbers(*values).write(coder, "t")
    bits = coder.end()
    return Decoder(writer.pack_bits(bits), len(bits))


def test_the_largest_sums_of_a_mixture_are_allowed():
    (z,) = read_tensor(decoder_of(12, 2**12, 2**12, 1, writer.dense(np.full(2**12, 128))), (3, 4)).parts
    assert 2**10 * 2**12 * 2**24 * z.limit == 2**53


ONE_LANE = writer.Tensor(lambda coder, name: coder.uniform(0, 13), np.zeros(1))
AT_THE_LIMIT = {  # numbers and shape of a tensor that takes all the work there may be
    "projected": ((8, "0", "0", 2**11, 1, 2), (2**10, 2**15)),
    "gaussian": ((8, "1", "1", 2**14, 1, 2), (2**10 - 16, 2**12)),
    "low rank": ((9, 2**11, 2, 2), (2**12, 2**13)),
    "mixed": ((12, 2**11, 2**9, 1, 2), (2**10, 2**15 - 2**13)),
    "block": ((7, 1, 1, 1, 2**16 + 1, 1, ONE_LANE), (2**23,)),
}
MORE = {
    "projected": (8, "0", "0", 1, 1, 2),
    "low rank": (9, 1, 2, 2),
    "filled": (10, 2),
    "ticket": (11,),
    "mixed": (12, 1, 1, 1, 2),
}


@pytest.mark.few(10)
@pytest.mark.parametrize("first", AT_THE_LIMIT)
@pytest.mark.parametrize("second", MORE)
def test_work_is_limited_before_it_is_done(first, second):
    values, shape = AT_THE_LIMIT[first]
    decoder = decoder_of(*values, *MORE[second])
    read_tensor(decoder, shape)
    with pytest.raises(Refused, match="multiplications that make its tensors are more than 68719476736"):
        read_tensor(decoder, (1, 1))
