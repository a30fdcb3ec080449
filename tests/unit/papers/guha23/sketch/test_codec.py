"""Sketches as codes: what is written comes back bit for bit, and nothing without a proof is believed."""

import itertools
import tracemalloc

import cbound_writer as reference
import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits.plain_code import Bits
from codebound.known.messages import Options, Setting
from codebound.run.errors import FormatError, UsageError
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message, decode
from codebound_networks.chains.operations import Linear
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.modes import decode_tensors, encode_tensors
from codebound_networks.codes.tensors import Dense, Enumerative, Zero
from codebound_papers.guha23.sketch.codec import (
    Sketched,
    plain_bits,
    sides,
    sketch_unsolved,
    sketched,
    smallest_sketch,
    solved,
)


def sparse(rows, columns, nonzeros, *, limit=3, seed=0):
    rng = np.random.default_rng(seed)
    levels = np.zeros(rows * columns, dtype=np.int32)
    where = rng.choice(levels.size, nonzeros, replace=False)
    levels[where] = rng.integers(1, limit + 1, nonzeros) * rng.choice([-1, 1], nonzeros)
    return levels.reshape(rows, columns)


def bits_of(tensor: reference.Tensor) -> Bits:
    coder = reference.Coder()
    tensor.write(coder, "")
    return behind("", coder)


def behind(word: str, coder: reference.Coder) -> Bits:
    bits = word + coder.end() + "".join(block for _, block in coder.blocks)
    return Bits(reference.pack_bits(bits), len(bits))


def literal_message(tensor: reference.Tensor) -> Bits:
    """A linear layer for six classes, of inputs as they are stored, with nothing else said."""
    coder = reference.Coder()
    coder.gamma(6 - 1)
    coder.uniform(0, 4)
    for _ in range(4):  # no subspace, margin, base and stack
        coder.bit(0)
    coder.gamma(1)
    coder.gamma(1)  # linear
    coder.bit(0)
    tensor.write(coder, "0.weight")
    return behind("111110", coder)


@pytest.mark.thorough
@examples(12)
@given(st.integers(0, 99), st.sampled_from([(24, 24), (20, 31), (24, 4, 2, 3)]), st.sampled_from([4, 5]))
def test_what_is_written_comes_back_exactly(seed, shape, degree):
    levels = sparse(shape[0], int(np.prod(shape[1:])), 20, seed=seed).reshape(shape)
    code = sketched(levels, step=-13, m=19, degree=degree, seed=seed)
    if code is None:  # rare: some matrices have rivals of the same norm
        return
    (read,) = decode_tensors(encode_tensors([code]), [shape])
    assert read.matrix is None
    with pytest.raises(FormatError, match="not recovered yet"):
        read.weights()
    again = solved(read)
    expected = best_tensor_code(levels, step=-13)
    assert again.weights().tobytes() == code.weights().tobytes() == expected.weights().tobytes()
    assert encode_tensors([again]) == encode_tensors([code])


@pytest.mark.thorough
def test_most_matrices_of_that_size_are_recovered():
    """The round trip above has teeth: it is about something nearly always."""
    codes = [sketched(sparse(24, 24, 20, seed=seed), step=0, m=19, degree=4, seed=seed) for seed in range(10)]
    assert sum(code is not None for code in codes) >= 8


def test_the_sketch_is_that_of_the_page():
    levels = sparse(24, 30, 24)
    code = sketched(levels, step=0, m=19, degree=4, seed=5)
    assert code.inner.levels.tolist() == reference.sketch_of(levels, (19, 19), t=4, seed=5).tolist()


def test_a_matrix_that_does_not_come_back_is_no_code():
    full = sparse(24, 24, 24 * 24)
    assert sketched(full, step=0, m=16, degree=4) is None
    row = np.zeros((24, 24), dtype=np.int32)
    row[7] = 1
    assert sketched(row, step=0, m=16, degree=4) is None


def test_a_sparser_rival_is_not_taken_for_the_matrix():
    """What the decoder proves may be another matrix: then the encoder has no code, and does not lie."""
    left = np.zeros((5, 6), dtype=int)
    for column, rows in enumerate(reference.sketch_columns(0, "sketch/left", 5, 6, 2)):
        left[rows, column] = 1
    kernel = next(
        np.array(v) for v in itertools.product((-1, 0, 1), repeat=6) if any(v) and not (left @ v).any()
    )
    rival = np.diag([3, 0, 0, -1, 0, 2])
    levels = rival + np.outer(kernel, [0, 0, 0, 0, 1, 0])
    draft = sketch_unsolved(levels, step=0, m=5, degree=2, seed=0)
    assert np.array_equal(solved(draft).matrix, rival)
    assert np.abs(levels).sum() > np.abs(rival).sum()
    assert sketched(levels, step=0, m=5, degree=2) is None
    assert smallest_sketch(levels, step=0, m=5, degree=2).code is None


UNPROVEN = {
    "a sketch of nothing sparse": np.arange(1, 17).reshape(4, 4),
    "a sketch of no integer matrix": np.array([[1, 0, 0, 0], [0] * 4, [0] * 4, [0] * 4]),
}


@pytest.mark.parametrize("name", UNPROVEN)
def test_a_message_without_a_proof_is_refused(name):
    tensor = reference.sketched((6, 6), reference.dense(UNPROVEN[name]), t=2)
    (read,) = decode_tensors(bits_of(tensor), [(6, 6)])
    with pytest.raises(FormatError, match="proven"):
        solved(read)


def test_whole_messages_are_solved_or_refused():
    chain = Chain((6,), (Linear(6, False),))
    x = np.diag([3, 0, 0, -1, 0, 2])
    y = reference.dense(reference.sketch_of(x, (5, 5), t=2), -3)
    bits = literal_message(reference.sketched((6, 6), y, t=2, x=x))
    message = decode(bits, input_shape=(6,))
    assert np.array_equal(message.codes["0.weight"].matrix, x)
    assert message.weights(None)["0.weight"].tolist() == (x * reference.step(-3)).astype(np.float32).tolist()
    assert message.encode()[0] == bits
    assert Message(Options(Setting(chain.classes)), chain, message.codes).encode()[0] == bits
    hostile = literal_message(reference.sketched((6, 6), reference.dense(np.arange(25).reshape(5, 5)), t=2))
    with pytest.raises(FormatError, match="no matrix of 6 x 6"):
        decode(hostile, input_shape=(6,))


def test_zeros_and_a_base():
    code = Sketched((6, 6), Zero((5, 5)), degree=2, seed=0)
    base = np.ones((6, 6), dtype=np.float32)
    assert not solved(code).weights().any()
    assert np.array_equal(solved(code).weights(base=base), base)


def written(*numbers):
    coder = reference.Coder()
    for number in numbers:
        coder.gamma(number)
    bits = coder.end()
    return Bits(reference.pack_bits(bits), len(bits))


REFUSED = {
    "a long side": ((2**13 + 1, 1), (13,), "at most 8,192"),
    "more rows than the matrix": ((6, 6), (13, 7, 5, 2), "not larger than its matrix, 6 x 6"),
    "more columns than the matrix": ((6, 6), (13, 5, 7, 2), "not larger"),
    "a high degree": ((60, 60), (13, 40, 40, 17), "at most 16 ones"),
    "a degree above a side": ((6, 6), (13, 5, 5, 6), "do not exist"),
    "too few different columns": ((6, 6), (13, 5, 3, 2), "6 different columns with 2 ones among 3"),
    "much to recover": ((2**12, 2**12), (13, 64, 64, 5), "products to decode"),
    "much to draw": ((2**13, 2**4), (13, 2**13, 2**4, 2), "products to decode"),
    "floats for a sketch": ((6, 6), (13, 5, 5, 2, 1, 6), "cannot have mode 6"),
    "a sketch of a sketch": ((6, 6), (13, 5, 5, 2, 1, 13), "cannot have mode 13"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_messages_are_refused_before_anything_is_drawn(name):
    shape, numbers, because = REFUSED[name]
    bits = written(*numbers)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=because):
            decode_tensors(bits, [shape])
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


UNWRITABLE = {
    "degree": lambda: Sketched((6, 6), Zero((5, 5)), degree=17, seed=0),
    "seed": lambda: Sketched((6, 6), Zero((5, 5)), degree=2, seed=-1),
    "sizes": lambda: Sketched((6, 6), Zero((7, 5)), degree=2, seed=0),
    "a vector for a sketch": lambda: Sketched((6, 6), Zero((7,)), degree=2, seed=0),
    "matrix": lambda: Sketched((6, 6), Zero((5, 5)), 2, 0, np.zeros((5, 6), dtype=np.int64)),
    "side": lambda: sketched(np.ones((2**13 + 1, 1), dtype=np.int32), step=0, m=3, degree=2),
    "no side": lambda: sketched(np.eye(6, dtype=np.int32), step=0, m=0, degree=2),
    "ones": lambda: sketched(np.eye(40, dtype=np.int32), step=0, m=30, degree=17),
    "columns": lambda: sketched(np.eye(6, dtype=np.int32), step=0, m=3, degree=2),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_the_format_does_not_allow_is_not_written(name):
    with pytest.raises(UsageError) as caught:
        encode_tensors([UNWRITABLE[name]()])
    assert len(str(caught.value)) > 20


@given(st.integers(1, 300), st.integers(1, 200), st.integers(1, 200))
def test_a_sketch_has_about_m_squared_numbers_or_all_of_them(m, rows, columns):
    m1, m2 = sides(m, rows=rows, columns=columns)
    assert 1 <= m1 <= rows
    assert 1 <= m2 <= columns
    assert m1 * m2 >= min(m * m, rows * columns)
    if m <= min(rows, columns):
        assert (m1, m2) == (m, m)


def test_plain_lengths_are_those_of_the_coder():
    for limit, nonzeros in ((1, 0), (1, 40), (7, 300)):
        levels = sparse(30, 40, nonzeros, limit=limit)
        plain = plain_bits(levels, step=-11)
        top = max(1, int(np.abs(levels).max()))
        for code, bits in ((Dense, plain.dense), (Enumerative, plain.sparse)):
            assert abs(encode_tensors([code(levels, -11, top)]).length - bits) <= 2


def test_the_smallest_sketch_grows_until_it_is_proven():
    levels = sparse(40, 40, 60)
    found = smallest_sketch(levels, step=-3)
    assert found.reason == ""
    assert (found.code.matrix == levels).all()
    assert found.code.inner.shape == (found.m1, found.m2)
    assert encode_tensors([found.code]).length > plain_bits(levels, step=-3).sparse  # G-E18
    assert smallest_sketch(levels, step=-3, m=12).code is None
    assert smallest_sketch(levels, step=-3, m=35, degree=3, seed=9).code.degree == 3


def test_why_there_is_no_sketch():
    levels = sparse(40, 40, 30)
    levels[11] = 1
    assert smallest_sketch(levels, step=0).reason.startswith("row 11 has 40 non-zeros, more than half of m")
    assert smallest_sketch(levels.T.copy(), step=0).reason.startswith("column 11 has 40 non-zeros")
    assert smallest_sketch(np.zeros((3, 3), dtype=np.int32), step=0).reason == "all elements are zero"
    assert "as large as the matrix" in smallest_sketch(sparse(9, 9, 60), step=0).reason
    assert "bits, more than 10" in smallest_sketch(sparse(40, 40, 30), step=0, most_bits=10).reason
    assert "do not exist" in smallest_sketch(sparse(40, 40, 30), step=0, m=20, degree=1).reason
    assert "at most 8,192" in smallest_sketch(sparse(2**13 + 1, 2, 9), step=0, m=50).reason
    assert "no proof" in smallest_sketch(sparse(40, 40, 60), step=0, m=11).reason


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 1)])
def test_the_smallest_sketches_are_decoded_or_refused(shape):
    code = Sketched(shape, Dense(np.ones(shape, np.int32), 0, 2), degree=1, seed=0)
    try:
        found = solved(code)
    except FormatError:
        return
    assert found.matrix.sum() == np.prod(shape)  # one one in every column: the sketch is a permutation
