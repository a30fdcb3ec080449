"""One suite for all codes of a tensor: exact inverse, Kraft, prefix-freeness, refusal of everything else."""

import contextlib
import itertools
import math

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from worlds.messages import CODES, codes

from codebound.bits.plain_code import Bits, join
from codebound.run.errors import CodeboundError, FormatError
from codebound_networks.codes.arithmetic import Reader, Writer
from codebound_networks.codes.bell import Bell
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.modes import decode_tensors, encode_tensors, read_tensor
from codebound_networks.codes.numbers import gamma
from codebound_networks.codes.tensors import (
    Adaptive,
    Codebook,
    Dense,
    Enumerative,
    Raw,
    Static,
    Zero,
)
from codebound_papers.compress.codes import Filled, Filling, LowRank, Mixed, Projected, Ticket
from codebound_papers.guha23.sketch.codec import Sketched

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=6)
MATRICES = hnp.array_shapes(min_dims=2, max_dims=4, max_side=5)
UNSOLVED = [name for name in CODES if name != "sketched"]  # a sketch needs its witness
ANY = SHAPES.flatmap(lambda shape: codes(shape, names=UNSOLVED))


def code_of(name):
    """Of any shape that it may have."""
    return (MATRICES if name == "mixed" else SHAPES).flatmap(lambda shape: codes(shape, names=(name,)))


def bits_of(string):
    data = bytes(int(string[i : i + 8].ljust(8, "0"), 2) for i in range(0, len(string), 8))
    return Bits(data, len(string))


def same(a, b):
    return type(a) is type(b) and a.shape == b.shape and a.values().tobytes() == b.values().tobytes()


@pytest.mark.few(4)
@pytest.mark.parametrize("name", UNSOLVED)
@examples(40)
@given(data=st.data())
def test_decoding_inverts_encoding(name, data):
    code = data.draw(code_of(name))
    message = encode_tensors([code])
    (decoded,) = decode_tensors(message, [code.shape])
    assert same(decoded, code)
    assert encode_tensors([decoded]) == message


@examples(40)
@given(st.lists(ANY, min_size=0, max_size=5))
def test_tensors_in_sequence(codes):
    message = encode_tensors(codes)
    decoded = decode_tensors(message, [code.shape for code in codes])
    assert all(same(a, b) for a, b in zip(decoded, codes, strict=True))


@examples(60)
@given(ANY, st.text("01", max_size=120))
def test_what_follows_the_code_word_changes_nothing(code, garbage):
    garbage = "".join(map(str, code.blocks())) + garbage
    writer = Writer()
    gamma(writer, code.mode)
    code.code(writer)
    word = writer.finish()
    longer = join(word, bits_of(garbage))
    reader = Reader(longer)
    decoded = read_tensor(reader, code.shape)
    assert reader.finish() == word.length
    decoded, end = decoded.with_blocks(longer, word.length)
    assert end == word.length + sum(block.length for block in code.blocks())
    assert same(decoded, code)


@examples(300)
@given(st.binary(max_size=80), SHAPES)
def test_random_bits_decode_or_are_refused(data, shape):
    try:
        (code,) = decode_tensors(Bits(data, 8 * len(data)), [shape])
        weights = code.weights()
    except FormatError:
        return
    assert weights.shape == shape
    assert np.isfinite(weights).all()


@examples(60)
@given(st.binary(max_size=60), st.integers(1, 13), SHAPES)
def test_random_content_of_every_mode_decodes_or_is_refused(data, mode, shape):
    writer = Writer()
    gamma(writer, mode)
    message = join(writer.finish(), Bits(data, 8 * len(data)))
    with contextlib.suppress(FormatError):
        (code,) = decode_tensors(message, [shape])
        assert code.mode == mode


@examples(80)
@given(ANY, st.data())
def test_a_message_that_is_cut_or_longer_is_refused(code, data):
    string = str(encode_tensors([code]))
    cut = data.draw(st.integers(0, len(string) - 1))
    for wrong in (string[:cut], string + data.draw(st.text("01", min_size=1, max_size=40))):
        with pytest.raises(FormatError):
            decode_tensors(bits_of(wrong), [code.shape])


@pytest.mark.parametrize(
    "shape", [(2**25 + 1,), (0, 3), (2**20, 2**20), (2**40,)], ids=["long", "empty", "square", "huge"]
)
def test_sizes_are_refused_before_anything_is_allocated(shape):
    with pytest.raises(FormatError, match="2\\^25"):
        decode_tensors(Bits(b"\0" * 8, 64), [shape])


@pytest.mark.parametrize("mode", [1, 3, 4, 5, 6, 14])
def test_the_code_word_holds_at_most_2_24_elements(mode):
    writer = Writer()
    gamma(writer, mode)
    with pytest.raises(FormatError, match="static"):
        read_tensor(Reader(writer.finish()), (2**12, 2**12 + 1))


@pytest.mark.parametrize("mode", [15, 16, 1000])
def test_unknown_modes_are_refused(mode):
    writer = Writer()
    gamma(writer, mode)
    with pytest.raises(FormatError, match="mode"):
        decode_tensors(writer.finish(), [(3,)])


@pytest.mark.parametrize(
    "build",
    [
        lambda: Dense(np.array([3], dtype=np.int32), 0, 2),
        lambda: encode_tensors([Dense(np.array([3], dtype=np.int32), 1001, 3)]),
        lambda: encode_tensors([Dense(np.array([3], dtype=np.int32), 0, 2**20 + 1)]),
        lambda: encode_tensors([Adaptive(np.array([3], dtype=np.int32), 0, 4097)]),
        lambda: encode_tensors([Codebook(np.zeros(2, dtype=np.int32), np.zeros(257, dtype=np.float32))]),
        lambda: Codebook(np.array([2], dtype=np.int32), np.zeros(1, dtype=np.float32)),
        lambda: encode_tensors([Raw(np.array([np.nan], dtype=np.float32))]),
        lambda: encode_tensors([Raw(np.array([np.inf], dtype=np.float32))]),
        lambda: encode_tensors([Zero((0,))]),
        lambda: best_tensor_code(np.zeros((0, 2), dtype=np.int32), step=0),
        lambda: best_tensor_code(np.ones(3), step=0),
        lambda: best_tensor_code(np.full(70_000, 5000), step=0),
        lambda: best_tensor_code(np.array([2**40]), step=0),
        lambda: encode_tensors([Static(np.ones(2, dtype=np.int32), 0, 1, table=np.array([0, 2**16, 0]))]),
        lambda: encode_tensors([Static(np.zeros(2, dtype=np.int32), 0, 1, table=np.array([0, 9, 0]))]),
        lambda: encode_tensors([Static(np.zeros(2, dtype=np.int32), 0, 1, table=np.array([2**16]))]),
        lambda: Dense(np.array([2**20], dtype=np.int32), 1000, 2**20).weights(),
    ],
)
def test_what_has_no_code_is_an_error_with_a_message(build):
    with pytest.raises(CodeboundError) as caught:
        build()
    assert str(caught.value)


# ---------------------------------------------------------------- Kraft


def words_of(name, shape, limit):
    """The bit strings of all tensors of a shape with levels -limit .. limit, in one code."""
    size = math.prod(shape)
    for q in itertools.product(range(-limit, limit + 1), repeat=size):
        levels = np.array(q, dtype=np.int32).reshape(shape)
        if name == "dense":
            yield Dense(levels, 0, limit)
        elif name == "enumerative":
            yield Enumerative(levels, 0, limit)
        elif name == "codebook":
            yield Codebook((levels + limit).astype(np.int32), np.arange(2 * limit, dtype=np.float32))
        elif name == "static":
            yield Static(levels, 0, limit, table=np.array([5536, 50000, 10000]), lanes_log2=1)
        elif name == "bell":
            yield Bell(levels, 0, width=8)
        elif name == "best":
            yield best_tensor_code(levels, step=0)
        else:
            kind, rows, columns = (int(c) for c in name.split("-")[1:])
            yield Adaptive(levels, 0, limit, row_flags=rows, column_flags=columns, kind=kind)


def all_words(name, shape, limit=1):
    return [str(encode_tensors([code])) for code in words_of(name, shape, limit)]


def collisions(words):
    """Pairs of neighbours in order of which one is the beginning of the other."""
    ordered = sorted(words)
    return [(a, b) for a, b in itertools.pairwise(ordered) if b.startswith(a)]


ADAPTIVES = [f"adaptive-{k}-{r}-{c}" for k in range(4) for r in (0, 1) for c in (0, 1)]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["dense", "enumerative", "codebook", "static", "bell", "best"])
@pytest.mark.parametrize("shape", [(1,), (2, 3)])
def test_words_are_prefix_free_and_satisfy_kraft(name, shape):
    words = all_words(name, shape)
    assert len(words) == 3 ** math.prod(shape)
    assert not collisions(words)
    assert sum(2.0 ** -len(word) for word in words) <= 1.0


@pytest.mark.parametrize("name", ADAPTIVES)
def test_adaptive_words_are_prefix_free_and_satisfy_kraft(name):
    words = all_words(name, (2, 2))
    assert not collisions(words)
    assert sum(2.0 ** -len(word) for word in words) <= 1.0


def test_all_codes_together_are_prefix_free_and_satisfy_kraft():
    names = ["dense", "enumerative", "codebook", "static", "bell", *ADAPTIVES]
    words = [w for name in names for w in all_words(name, (2, 2))]
    words += [w for name in ("dense", "enumerative") for w in all_words(name, (2, 2), 2)]
    words.append(str(encode_tensors([Zero((2, 2))])))
    assert len(set(words)) == len(words)
    assert not collisions(words)
    assert sum(2.0 ** -len(word) for word in words) <= 1.0


def inners(shape):
    """All inner tensors of a shape with levels -1, 0, 1, in four modes."""
    yield Zero(shape)
    for code in words_of("dense", shape, 1):
        yield code
        yield Static(code.levels, 0, 1, table=np.array([5536, 50000, 10000]))
        yield Bell(code.levels, 0, width=8)


def helped():
    """Tiny instances of every code with a helper, for tensors of shape (2, 2)."""
    shape, both = (2, 2), (False, True)
    for by_rows, gaussian, seed, count in itertools.product(both, both, (0, 1), (1, 2)):
        for z in inners((2 if by_rows else 1, count)):
            yield Projected(shape, z, by_rows=by_rows, gaussian=gaussian, seed=seed)
    for left, right in itertools.product(inners((2, 1)), inners((1, 2))):
        yield LowRank(shape, left, right)
    for left, right in itertools.product(itertools.islice(inners(shape), 50), repeat=2):
        yield LowRank(shape, left, right)
    fillings = [Filling(everywhere, j, m, 1 - j) for everywhere in both for j in (0, 1) for m in (-1, 0)]
    for q in inners(shape):
        yield from (Filled(q, filling) for filling in (None, *fillings))
        yield from (Ticket(q, kind, seed) for kind in range(3) for seed in (0, 1))
    for size, mixes, seed in itertools.product((1, 2), (1, 2), (0, 1)):
        yield from (Mixed(shape, z, mixes, seed) for z in inners((size,)))
    for y, seed in itertools.product(inners(shape), (0, 1, 2)):
        yield Sketched(shape, y, degree=1, seed=seed)


@pytest.mark.thorough
def test_codes_with_helpers_are_prefix_free_and_satisfy_kraft():
    words = [str(encode_tensors([code])) for code in helped()]
    words += [str(encode_tensors([code])) for code in inners((2, 2))]
    assert len(words) > 5000
    assert len(set(words)) == len(words)
    assert not collisions(words)
    assert sum(2.0 ** -len(word) for word in words) <= 1.0


def broken_end(writer):
    """A classic mistake: the shortest number inside the interval, whose continuations lie outside."""
    size = 48 + writer.shifts
    low = sum(chunk << (48 + writer._pending + 64 * i) for i, chunk in enumerate(reversed(writer._chunks)))
    low += writer._low
    for length in range(size + 1):
        v = -((-low) >> (size - length))
        if v << (size - length) < low + writer._range:
            return format(v, f"0{length}b") if length else ""
    raise AssertionError


def test_the_prefix_test_has_teeth():
    words = []
    for code in words_of("dense", (2, 2), 1):
        writer = Writer()
        gamma(writer, code.mode)
        code.code(writer)
        words.append(broken_end(writer))
    assert collisions(words)
    assert sum(2.0 ** -len(word) for word in words) > sum(2.0 ** -len(w) for w in all_words("dense", (2, 2)))
