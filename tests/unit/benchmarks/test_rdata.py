"""Data frames of R: what R writes is read exactly, everything else is refused with a message."""

import bz2
import gzip
import lzma
import struct

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from public_sets.rdata import MAX_BYTES, read_frame, unpack
from r_writer import NULL, Symbols, attributes, flags, frame, integers, reals, save, strings, table

from codebound.run.errors import DataError

TABLE = table({"size": [1.5, -2.0, 0.0], "count": [3, 1, 2], "kind": ([2, 1, 2], ["red", "blue"])})
PACKED = {"plain": bytes, "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("version", [2, 3])
def test_numbers_and_factors(pack, version):
    columns = {"size": [1.5, -2.0], "count": [3, 1], "kind": ([2, 1], ["red", "blue"])}
    size, count, kind = read_frame(pack(table(columns, version)), name="t.rda")
    assert (size.name, size.values.tolist(), size.levels) == ("size", [1.5, -2.0], ())
    assert (count.name, count.values.tolist()) == ("count", [3.0, 1.0])
    assert (kind.name, kind.values.tolist(), kind.levels) == ("kind", [1.0, 0.0], ("red", "blue"))


@given(
    st.lists(
        st.tuples(st.floats(allow_nan=False), st.integers(-(1 << 31) + 1, (1 << 31) - 1), st.integers(1, 3)),
        min_size=1,
        max_size=20,
    )
)
def test_every_value_comes_back(rows):
    reals_, whole, codes = map(list, zip(*rows, strict=True))
    columns = read_frame(
        table({"a": [*reals_, 0.5], "b": [*whole, 0], "c": ([*codes, 1], ["x", "y", "z"])}), name="t"
    )
    assert columns[0].values.tolist()[:-1] == reals_
    assert columns[1].values.tolist()[:-1] == whole
    assert (columns[2].values + 1).tolist()[:-1] == codes


def test_missing_values_are_nan():
    a, b = read_frame(table({"a": [-(1 << 31), 4], "b": ([-(1 << 31), 1], ["x"])}), name="t")
    assert np.isnan(a.values).tolist() == np.isnan(b.values).tolist() == [True, False]


def test_other_objects_beside_the_frame_are_left_alone():
    symbols = Symbols()
    made = save(
        {
            "note": lambda: strings(["words", None]),
            "flag": lambda: integers([1], kind=10),
            "table": lambda: frame(symbols, {"a": lambda: reals([1.0])}, 1),
            "nothing": lambda: NULL,
        },
        symbols,
    )
    assert read_frame(made, name="t")[0].values.tolist() == [1.0]


def broken(body: bytes) -> bytes:
    symbols = Symbols()
    return save({"table": lambda: body}, symbols)


def odd_frame(columns: dict, rows: int = 1) -> bytes:
    symbols = Symbols()
    return save({"table": lambda: frame(symbols, columns, rows)}, symbols)


def nested(depth: int) -> bytes:
    one = flags(19) + struct.pack(">i", 1)
    return broken(one * depth + reals([1.0]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no file of R"),
        (b"RDA3\nA\n3\n", "no file of R"),
        (TABLE[:-1], "is damaged"),
        (TABLE + b"x", "bytes after the last object"),
        (TABLE[:60], "is damaged"),
        (gzip.compress(TABLE)[:-9], "truncated|unpacked"),
        (lzma.compress(TABLE)[:-30], "truncated|unpacked"),
        (b"BZh9garbage", "cannot be unpacked"),
        (broken(flags(4)), "type 4, which is not read"),
        (broken(flags(3) + reals([1.0])), "type 3, which is not read"),
        (broken(flags(238)), "type 238, which is not read"),
        (broken(flags(14) + struct.pack(">i", 1 << 30)), "not there"),
        (broken(flags(14) + struct.pack(">i", -1)), "not there"),
        (broken(flags(16) + struct.pack(">i", 1 << 30)), "not there"),
        (nested(40), "more nested"),
        (broken(reals([1.0])), "0 data frames among 1"),
        (odd_frame({"a": lambda: strings(["x"])}), "strings without levels"),
        (odd_frame({"a": lambda: NULL}), "neither numbers nor a factor"),
        (odd_frame({"a": lambda: reals([1.0]), "b": lambda: reals([1.0, 2.0])}), "differ in length"),
        (table({"a": ([3], ["x", "y"])}), "codes outside its levels"),
        (table({"a": ([0], ["x", "y"])}), "codes outside its levels"),
        (table({"a": ([1], ["x", "x"])}), "codes outside its levels"),
        (save({"a": lambda: struct.pack(">i", 7 << 8 | 255)}, Symbols()), "type 255"),
        (b"RDX2\nX\n" + struct.pack(">iii", 7, 0, 0) + NULL, "version 7"),
        (b"RDX2\nX\n" + struct.pack(">iii", 2, 0, 0) + flags(2) + NULL, "in place of a named value"),
        (
            b"RDX2\nX\n"
            + struct.pack(">iii", 2, 0, 0)
            + flags(2, tag=True)
            + struct.pack(">i", 9 << 8 | 255),
            "reference to name 9",
        ),
    ],
)
def test_what_is_no_data_frame_is_refused_in_words(content, message):
    with pytest.raises(DataError, match=message):
        read_frame(content, name="t.rda")


def test_two_frames_leave_open_which():
    symbols = Symbols()
    one = {name: lambda: frame(symbols, {"a": lambda: reals([1.0])}, 1) for name in "ab"}
    with pytest.raises(DataError, match="2 data frames"):
        read_frame(save(one, symbols), name="t")


def test_a_matrix_inside_a_frame_is_refused():
    symbols = Symbols()

    def matrix():
        head = flags(14, attributes=True) + struct.pack(">i2d", 2, 1.0, 2.0)
        return head + attributes(symbols, dim=integers([2, 1]))

    with pytest.raises(DataError, match="neither numbers nor a factor"):
        read_frame(save({"t": lambda: frame(symbols, {"m": matrix}, 2)}, symbols), name="t")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_bomb_is_stopped_at_the_limit(pack):
    with pytest.raises(DataError, match="more than the allowed 1000 bytes"):
        unpack(pack(bytes(100_000)), name="bomb", limit=1000)
    assert unpack(pack(bytes(1000)), name="fits", limit=1000) == bytes(1000)
    assert MAX_BYTES < 1 << 30


@examples(300)
@given(st.data())
def test_damaged_files_raise_nothing_but_a_data_error(data):
    content = bytearray(TABLE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.sampled_from([0, 1, 2, 9, 13, 14, 16, 19, 127, 128, 254, 255]))
    cut = data.draw(st.integers(len(content) // 2, len(content)))
    try:
        columns = read_frame(bytes(content[:cut]), name="fuzz")
    except DataError:
        return
    assert len({len(column.values) for column in columns}) == 1
    for column in columns:
        held = column.values[~np.isnan(column.values)]
        assert not column.levels or set(held) <= set(range(len(column.levels)))
