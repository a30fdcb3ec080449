"""Tables in files: what is read, by which rule, and what the message says where something is left open."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from r_writer import table as r_table

from codebound.data.foreign import from_frame
from codebound.data.frames import Column, Title, inputs_of, split_table
from codebound.data.load import load_dataset
from codebound.errors import DataError

FRUIT = """weight,colour{red|green|blue},ripe{no|yes},kind
1.5,green,yes,apple
2,red,no,pear
-1e-3,blue,yes,apple
"""
ENCODED = [[1.5, 0, 1, 0, 1], [2, 1, 0, 0, 0], [-1e-3, 0, 0, 1, 1]]


def write(tmp_path, text: str, name: str = "t.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_enter_as_they_are_and_words_by_their_levels(tmp_path):
    sample = load_dataset(f"{write(tmp_path, FRUIT)}:kind")
    assert sample.x.tolist() == ENCODED
    assert (sample.y.tolist(), sample.classes, sample.scaling.divisor) == ([0, 1, 0], 2, 1.0)
    assert "labels in column kind; classes 0 = apple, 1 = pear" in sample.source


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_tabs_marks_of_order_quotes_and_empty_lines(tmp_path, newline):
    text = FRUIT.replace(",", "\t").replace("green\t", '"green"\t').replace("\n", newline)
    path = tmp_path / "t.tsv"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode() + newline.encode())
    assert load_dataset(f"{path}:kind").x.tolist() == ENCODED


@pytest.mark.parametrize("name", ["y", "Label", "TARGET", "class"])
def test_a_usual_name_of_the_labels_need_not_be_given(tmp_path, name):
    sample = load_dataset(str(write(tmp_path, f"a,{name},b\n1,2,3\n4,0,6\n")))
    assert (sample.x.tolist(), sample.y.tolist(), sample.classes) == ([[1, 3], [4, 6]], [2, 0], 3)


def test_declared_classes_count_even_where_none_occurs(tmp_path):
    text = "a,kind{apple|fig|pear}\n1,pear\n2,apple\n"
    sample = load_dataset(f"{write(tmp_path, text)}:kind", role="test")
    assert (sample.y.tolist(), sample.classes, sample.role) == ([2, 0], 3, "test")


def test_frames_of_r_come_by_the_same_door(tmp_path):
    path = tmp_path / "fruit.rda"
    columns = {
        "weight": [1.5, 2.0],
        "colour": ([3, 1], ["red", "green", "blue"]),
        "kind": ([1, 2], ["a", "b"]),
    }
    path.write_bytes(r_table(columns))
    sample = load_dataset(f"{path}:kind")
    assert sample.x.tolist() == [[1.5, 0, 0, 1], [2, 1, 0, 0]]
    assert (sample.y.tolist(), sample.classes) == ([0, 1], 2)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-1e6, 1e6)), min_size=1, max_size=12))
def test_an_example_depends_on_its_own_row_alone(rows):
    def encoded(chosen):
        codes, numbers = (np.array(each, float) for each in zip(*chosen, strict=True))
        return inputs_of([Column("c", codes, tuple("abcd")), Column("v", numbers)], name="t")

    together = encoded(rows)
    for row, example in zip(rows, together, strict=True):
        np.testing.assert_array_equal(encoded([row])[0], example)


CELLS = st.tuples(
    st.sampled_from(["?", "", "NA", "1", "-2.5", "red", "blue", "x1"]), st.sampled_from(["a", "b", ""])
)


@given(st.lists(CELLS, min_size=1, max_size=12))
def test_missing_values_and_words_depend_on_their_own_row_alone(rows):
    full = [("", ""), ("red", "a"), ("1", "b")]  # so that every column has all its kinds

    def encoded(chosen):
        table = [
            (Title.read("mixed{?}", source="t"), [first for first, _ in chosen]),
            (Title.read("level{a|b|?}", source="t"), [second for _, second in chosen]),
            (Title.read("y", source="t"), np.zeros(len(chosen))),
        ]
        columns, _ = split_table(table, "y", name="t", role="train")
        return inputs_of(columns, name="t")

    together = encoded([*rows, *full])
    for row, example in zip(rows, together, strict=False):
        np.testing.assert_array_equal(encoded([row, *full])[0], example)


def test_missing_values_get_an_input_and_undeclared_ones_a_remark(tmp_path):
    declared = load_dataset(
        str(write(tmp_path, "age{?},colour{red|green|blue|?},y\n30,red,0\n?,,1\n41,blue,0\n"))
    )
    assert declared.x.tolist() == [[30, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1], [41, 0, 0, 0, 1, 0]]
    assert declared.warnings == ()
    sample = load_dataset(str(write(tmp_path, "age,height,y\n30,1,0\n?,2,1\n")))
    assert sample.x.tolist() == [[30, 0, 1], [0, 1, 2]]
    (remark,) = sample.warnings
    assert "missing in age:" in remark
    assert "age{?}" in remark


def test_words_without_levels_are_hashed_and_that_is_said(tmp_path):
    sample = load_dataset(str(write(tmp_path, "town,y\nRome,0\nOslo,1\nRome,1\n,0\n")))
    assert sample.x.shape == (4, 17)
    assert sample.x.sum(axis=1).tolist() == [1, 1, 1, 1]
    assert sample.x[0].tolist() == sample.x[2].tolist() != sample.x[1].tolist()
    assert sample.x[3, 16] == 1
    assert any("words without declared levels in town" in each for each in sample.warnings)
    mixed = load_dataset(str(write(tmp_path, "town,y\n12,0\nOslo,1\n,1\n")))
    assert mixed.x[:, 0].tolist() == [12, 0, 0]  # the number, or none
    assert mixed.x[:, 1].tolist() == [0, 0, 1]  # whether it is missing
    assert mixed.x[:, 2:].sum(axis=1).tolist() == [0, 1, 0]  # the word
    assert mixed.x[1, 2:].tolist() == sample.x[1, :16].tolist()


def frames():
    pandas = pytest.importorskip("pandas")
    values = {"age": [30.0, None, 41.0], "colour": ["red", None, "blue"], "town": ["Rome", "Oslo", None]}
    frame = pandas.DataFrame(values)
    frame["colour"] = pandas.Categorical(frame["colour"], ["red", "green", "blue"])
    frame["adult"] = [True, False, True]
    frame["kind"] = ["b", "a", "b"]
    return frame


def expected(tmp_path):
    text = "age,colour{red|green|blue},town,adult,kind\n30,red,Rome,1,b\n,,Oslo,0,a\n41,blue,,1,b\n"
    return load_dataset(f"{write(tmp_path, text)}:kind")


def require_same(sample, wanted):
    assert sample.x.tolist() == wanted.x.tolist()
    assert (sample.y.tolist(), sample.classes, sample.warnings) == (wanted.y.tolist(), 2, wanted.warnings)


def test_data_frames_are_read_like_files(tmp_path):
    frame = frames()
    require_same(from_frame(frame, "kind"), expected(tmp_path))
    with pytest.raises(DataError, match=r"column 'when' holds datetime64.* neither numbers nor texts"):
        from_frame(frame.assign(when=np.array(["2020", "2021", "2022"], "M8[ns]")), "kind")
    with pytest.raises(DataError, match=r"which column holds the labels"):
        from_frame(frame)


def test_polars_and_arrow_and_parquet_are_read_like_files(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    frame = frames()
    table = pyarrow.Table.from_pandas(frame)
    require_same(from_frame(table, "kind"), expected(tmp_path))
    lazy = polars.from_pandas(frame.assign(colour=frame["colour"].astype(object))).with_columns(
        polars.col("colour").cast(polars.Enum(["red", "green", "blue"]))
    )
    require_same(from_frame(lazy, "kind"), expected(tmp_path))
    frame.to_parquet(tmp_path / "t.parquet")
    require_same(load_dataset(f"{tmp_path / 't.parquet'}:kind"), expected(tmp_path))
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(DataError, match="no readable Parquet file"):
        load_dataset(f"{tmp_path / 't.parquet'}:kind")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"codebound\[parquet\]"):
        load_dataset(f"{tmp_path / 't.parquet'}:y")


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("a,b\n1,2\n", "", r"which column holds the labels\? For a file .*, as in .*t.csv:b; for a frame"),
        ("a,kind\n1,2\n", ":knid", "no column 'knid'. Did you mean 'kind'"),
        ("a,a,b\n1,2,0\n", ":a", "more than one column 'a'"),
        ("1,2\n3,4\n", ":2", "begins with numbers"),
        ("a\n1\n", ":a", "at least two columns"),
        ("", ":a", "a row of names"),
        ("a,y\n", "", "a row for each example"),
        ("a,y\n1,0\n1\n", "", "example 2 has 1 values, the header names 2"),
        ("a,y\n1,\n2,1\n", "", "column 'y' lacks 1 of 2 labels, the first in example 1"),
        ("a,y\n1,0.5\n", "", "words or whole numbers, counted from 0"),
        ("a,y\n1,-1\n", "", "words or whole numbers, counted from 0"),
        (
            "a{red|blue},y\nred,0\ngreen,0\n",
            "",
            "example 2 has 'green' in column 'a', which declares red, blue",
        ),
        ("a{red|red},y\nred,0\n", "", "must be different words"),
        ('a,y\n1,"0\n', "", "cannot be read as a table"),
        ("a,y\n1e999,0\n", "", "NaN or infinity"),
    ],
)
def test_what_is_left_open_is_said(tmp_path, text, target, message):
    with pytest.raises(DataError, match=message):
        load_dataset(f"{write(tmp_path, text)}{target}")


def test_a_test_sample_says_its_classes(tmp_path):
    path = write(tmp_path, "a,kind\n1,pear\n2,apple\n")
    with pytest.raises(DataError, match=r"order of the sample\'s.*as in kind{apple\|pear}"):
        load_dataset(f"{path}:kind", role="test")


def test_an_unlabelled_table_needs_no_labels_and_uses_none(tmp_path):
    bare = load_dataset(str(write(tmp_path, "a,b\n1,2\n3,4\n")), role="unlabelled", classes=3)
    assert (bare.x.tolist(), bare.y.tolist(), bare.classes) == ([[1, 2], [3, 4]], [0, 0], 3)
    labelled = load_dataset(str(write(tmp_path, "a,y,b\n1,new,2\n3,,4\n")), role="unlabelled", classes=3)
    assert (labelled.x.tolist(), labelled.y.tolist()) == (bare.x.tolist(), [0, 0])


def test_a_test_table_with_other_classes_is_refused(tmp_path):
    path = write(tmp_path, "a,kind{apple|pear}\n1,pear\n")
    with pytest.raises(DataError, match="declares 2 classes, the sample has 3"):
        load_dataset(f"{path}:kind", role="test", classes=3)


def test_a_file_that_is_not_there_is_no_factory(tmp_path):
    with pytest.raises(DataError, match=r"absent\.csv:kind does not exist"):
        load_dataset("absent.csv:kind")


def test_other_encodings_are_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a,y\n\u00e4,0\n".encode("latin-1"))
    with pytest.raises(DataError, match="no text in UTF-8"):
        load_dataset(str(path))
