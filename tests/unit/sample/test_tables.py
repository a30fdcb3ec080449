"""Tables in files: what is read, by which rule, and what the message says where something is left open."""

import csv
import sys
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from certificate_counts import cell as stored_cell
from hypothesis import given
from hypothesis import strategies as st

from codebound.run.errors import DataError
from codebound.sample.arrays import from_arrays
from codebound.sample.columns import Title, cells_of, number_in
from codebound.sample.frames import rows_like
from codebound.sample.load import as_dataset, load_sample

FRUIT = """weight,colour{red|green|blue},ripe{no|yes},kind
1.5,green,yes,apple
2,red,no,pear
-1e-3,blue,yes,apple
"""
FRUIT_CELLS = [[1.5, "green", "yes"], [2.0, "red", "no"], [-1e-3, "blue", "yes"]]


def patterns(rows):
    """Rows of numbers, words and None as the page stores them."""
    return [[pattern(each) for each in row] for row in rows]


def pattern(value):
    return int(stored_cell(value).view(np.uint64))


def stored(sample):
    assert sample.dtype == "cells"
    return sample.x.view(np.uint64).tolist()


def classes_like(count):
    """A sample with so many classes that have no names."""
    return from_arrays(np.zeros((count, 1)), range(count), name="classes")


def of_frame(frame, target):
    """The sample in a frame whose column of labels has any name."""
    lazy = frame.collect() if hasattr(frame, "collect") else frame
    return load_sample(
        (lazy.drop(columns=target) if hasattr(lazy, "iloc") else lazy.drop([target]), lazy[target])
    )


def write(tmp_path, text: str, name: str = "t.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_enter_as_they_are_and_words_as_patterns(tmp_path):
    sample = load_sample(f"{write(tmp_path, FRUIT)}:kind")
    assert stored(sample) == patterns(FRUIT_CELLS)
    assert (sample.y.tolist(), sample.classes, sample.scaling.divisor) == ([0, 1, 0], 2, 1.0)
    assert "labels in column kind; classes 0 = apple, 1 = pear" in sample.source


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_tabs_marks_of_order_quotes_and_empty_lines(tmp_path, newline):
    text = FRUIT.replace(",", "\t").replace("green\t", '"green"\t').replace("\n", newline)
    path = tmp_path / "t.tsv"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode() + newline.encode())
    assert stored(load_sample(f"{path}:kind")) == patterns(FRUIT_CELLS)


@pytest.mark.parametrize("name", ["y", "Label", "TARGET", "class"])
def test_a_usual_name_of_the_labels_need_not_be_given(tmp_path, name):
    sample = load_sample(str(write(tmp_path, f"a,{name},b\n1,2,3\n4,0,6\n")))
    assert (sample.x.tolist(), sample.y.tolist(), sample.classes) == ([[1, 3], [4, 6]], [2, 0], 3)


def test_declared_classes_count_even_where_none_occurs(tmp_path):
    text = "a,kind{apple|fig|pear}\n1,pear\n2,apple\n"
    sample = load_sample(f"{write(tmp_path, text)}:kind", role="test")
    assert (sample.y.tolist(), sample.classes, sample.role) == ([2, 0], 3, "test")


CELLS = st.sampled_from(["?", "", "NA", "1", "-2.5", "red", " Caf\u00e9", "Cafe\u0301 ", "x1"])


@given(
    st.lists(CELLS | st.floats(-1e6, 1e6).map(repr), min_size=1, max_size=12),
    st.sampled_from(["a", "a{*}", "a{1|red}"]),
)
def test_a_cell_depends_on_itself_alone(cells, title):
    column = Title.read(title, source="t")
    together = cells_of(column, cells, name="t").view(np.uint64).tolist()
    alone = [cells_of(column, [cell], name="t").view(np.uint64)[0] for cell in cells]
    assert together == alone
    for cell, found in zip(cells, together, strict=True):
        word = None if cell in ("?", "", "NA") else cell.strip()
        if title == "a" and word is not None and number_in(word) is not None:
            assert found == pattern(float(word))
        else:
            assert found == pattern(word)


def test_tables_of_numbers_alone_stay_numbers(tmp_path):
    sample = load_sample(str(write(tmp_path, "a,y\n1,0\n2,1\n")))
    assert (sample.dtype, sample.x.tolist(), sample.is_cells) == ("float64", [[1.0], [2.0]], False)
    gaps = load_sample(str(write(tmp_path, "a,y\n,0\n2,1\n", "gaps.csv")))
    assert load_sample(str(tmp_path / "t.csv"), like=gaps).dtype == "cells"


def test_missing_values_are_gaps(tmp_path):
    sample = load_sample(str(write(tmp_path, "age,colour,y\n30,red,0\n?,,1\nNaN,blue,0\n")))
    assert stored(sample) == patterns([[30.0, "red"], [None, None], [None, "blue"]])
    assert sample.warnings == ()


@pytest.mark.parametrize("cell", ["7%", "$3", "29/02/20", "1,5 or 2"])
def test_numbers_as_others_write_them_are_shown_as_words(tmp_path, cell):
    (remark,) = load_sample(str(write(tmp_path, f'a,b,y\n2,"{cell}",0\n3,4,1\n'))).warnings
    assert "numbers and words stand together in b" in remark
    assert "a number is written 1234.5, a day 2020-02-29" in remark


@pytest.mark.parametrize("cell", ["1,5", "-0,25", "12,345.6", "1.234,5", "1,234", "1 234,5"])
def test_numbers_with_commas_are_refused_with_what_to_write(tmp_path, cell):
    rows = f'"{cell}",0\n4,1\n,1\n'
    with pytest.raises(DataError, match=f"'b' holds numbers with commas, such as '{cell}'.* decimal=','"):
        load_sample(str(write(tmp_path, f"b,y\n{rows}")))
    declared = load_sample(str(write(tmp_path, f"b{{*}},y\n{rows}")))
    assert stored(declared) == patterns([[cell], ["4"], [None]])
    mixed = load_sample(str(write(tmp_path, f"b,y\n{rows}red,0\n")))  # words beside them
    assert any("numbers and words stand together" in each for each in mixed.warnings)


def test_a_column_of_texts_is_named_as_one(tmp_path):
    texts = "".join(f"text number {i} of many,{i % 2}\n" for i in range(100))
    (remark,) = load_sample(str(write(tmp_path, f"text,y\n{texts}"))).warnings
    assert remark.startswith("nearly every row has words of its own in text")
    towns = "".join(f"{'ab'[i % 2]},{i % 7},{i % 2}\n" for i in range(100))
    assert load_sample(str(write(tmp_path, f"t,z,y\n{towns}"))).warnings == ()


def test_days_are_no_labels(tmp_path):
    path = write(tmp_path, "a,day\n1,2020-02-29\n2,2020-03-01\n")
    with pytest.raises(DataError, match="'day' holds days, such as '2020-02-29', and labels are classes"):
        load_sample(f"{path}:day")
    declared = write(tmp_path, "a,day{2020-02-29|2020-03-01}\n1,2020-02-29\n2,2020-03-01\n")
    assert load_sample(f"{declared}:day").classes == 2


def test_remarks_on_columns_with_long_names_are_short(tmp_path):
    names = ",".join(f"how often in the last twelve months did you use {i}" * 3 for i in range(5))
    rows = "".join(f"word {i},7%,{10**17},{i},{i},{i % 2}\n" for i in range(30)) + f"a,1,1,{'b,' * 2}0\n"
    remarks = load_sample(str(write(tmp_path, f"{names},y\n{rows}"))).warnings
    assert len(remarks) == 3
    assert all(len(f"About the data: {each}") <= 400 for each in remarks)


def test_days_that_python_does_not_have_are_refused_in_words(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    far = pyarrow.array([10**12, 0], type=pyarrow.timestamp("s"))
    parquet.write_table(pyarrow.table({"a": far, "y": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"column 'a' holds .* a day after the year 9999"):
        load_sample(tmp_path / "t.parquet")


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
    return load_sample(f"{write(tmp_path, text)}:kind")


def require_same(sample, wanted):
    assert stored(sample) == stored(wanted)
    assert (sample.y.tolist(), sample.classes) == (wanted.y.tolist(), 2)


def test_data_frames_are_read_like_files(tmp_path):
    frame = frames()
    require_same(of_frame(frame, "kind"), expected(tmp_path))
    for strange in ([[1], [2], [3]], [np.zeros(2)] * 3, [b"a"] * 3, [1j, 2j, 3j]):
        with pytest.raises(DataError, match=r"column 'odd' holds .*, neither numbers nor texts"):
            of_frame(frame.assign(odd=strange), "kind")
    with pytest.raises(DataError, match=r"which column holds the labels"):
        load_sample(frame)


def test_polars_and_arrow_and_parquet_are_read_like_files(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    frame = frames()
    table = pyarrow.Table.from_pandas(frame)
    require_same(of_frame(table, "kind"), expected(tmp_path))
    lazy = polars.from_pandas(frame.assign(colour=frame["colour"].astype(object))).with_columns(
        polars.col("colour").cast(polars.Enum(["red", "green", "blue"]))
    )
    require_same(of_frame(lazy, "kind"), expected(tmp_path))
    frame.to_parquet(tmp_path / "t.parquet")
    require_same(load_sample(f"{tmp_path / 't.parquet'}:kind"), expected(tmp_path))
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(DataError, match="no readable Parquet file"):
        load_sample(f"{tmp_path / 't.parquet'}:kind")


def test_parquet_that_stands_for_more_than_it_holds_is_refused(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"a": ["x" * 10_000] * 5_000, "y": [0, 1] * 2_500})
    parquet.write_table(table, tmp_path / "t.parquet")  # each text is stored once
    assert (tmp_path / "t.parquet").stat().st_size < 100_000
    monkeypatch.setattr("codebound.sample.tables._MAX_BYTES", 1 << 20)
    with pytest.raises(DataError, match="holds more than 1048576 bytes"):
        load_sample(f"{tmp_path / 't.parquet'}:y")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"codebound\[parquet\]"):
        load_sample(f"{tmp_path / 't.parquet'}:y")


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("a,b\n1,2\n", "", r"which column holds the labels\? For a file .*, as in .*t.csv:b; of a frame"),
        ("a,kind\n1,2\n", ":knid", "no column 'knid'. Did you mean 'kind'"),
        ("a,a,b\n1,2,0\n", ":a", "more than one column 'a'. Rename"),
        ("1,2\n3,4\n", ":2", "begins with numbers"),
        ("a\n1\n", ":a", "at least two columns"),
        ("", ":a", "a row of names"),
        ("a,y\n", "", "a row for each example"),
        ("a,y\n1,0\n1\n", "", "example 2 has 1 value, the header names 2"),
        ("a,y\n1,\n2,1\n", "", "column 'y' lacks 1 of 2 labels, the first in example 1"),
        ("a,y\n1,0.5\n", "", "words or whole numbers, counted from 0"),
        ("a;y\n1;0\n", "", "it has ';', so save it with ','"),
        ("a|y\n1|0\n", "", r"it has '\|', so save it with ','"),
        ("5.1,3.5,setosa\n4.9,3,setosa\n", ":setosa", "begins with numbers"),
        (
            "a,y{red|blue}\n1,red\n2,green\n",
            ":y",
            "example 2 has 'green' in column 'y', which declares red, blue",
        ),
        ("a{red|red},y\nred,0\n", "", "must be different words"),
        ('a,y\n1,"0\n', "", "cannot be read as a table"),
        ("a,y\n1e999,0\n", "", "example 1 has an infinite number in column 'a'"),
    ],
)
def test_incomplete_tables_are_refused_with_a_remedy(tmp_path, text, target, message):
    with pytest.raises(DataError, match=message):
        load_sample(f"{write(tmp_path, text)}{target}")


def test_a_test_sample_says_its_classes(tmp_path):
    path = write(tmp_path, "a,kind\n1,pear\n2,apple\n")
    with pytest.raises(DataError, match=r"order of the sample\'s.*as in kind{apple\|pear}"):
        load_sample(f"{path}:kind", role="test", like=classes_like(2))
    declared = write(tmp_path, "a,kind{apple|pear}\n1,pear\n", "declared.csv")
    with pytest.raises(DataError, match="declares 2 classes, the sample has 3"):
        load_sample(f"{declared}:kind", role="test", like=classes_like(3))
    alone = load_sample(f"{path}:kind", role="test")
    assert (alone.class_names, alone.y.tolist()) == (("apple", "pear"), [1, 0])
    with pytest.raises(DataError, match="are words, apple, pear, and those of the sample are numbers"):
        as_dataset(alone, role="test", like=from_arrays(np.zeros((2, 1)), [0, 1], name="numbers"))


def test_an_unlabelled_table_needs_no_labels_and_uses_none(tmp_path):
    bare = load_sample(str(write(tmp_path, "a,b\n1,2\n3,4\n")), role="unlabelled", like=classes_like(3))
    assert (bare.x.tolist(), bare.y.tolist(), bare.classes) == ([[1, 2], [3, 4]], [0, 0], 3)
    labelled = load_sample(
        str(write(tmp_path, "a,y,b\n1,new,2\n3,,4\n")), role="unlabelled", like=classes_like(3)
    )
    assert (labelled.x.tolist(), labelled.y.tolist()) == (bare.x.tolist(), [0, 0])


def test_other_encodings_are_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a,y\n\u00e4,0\n".encode("latin-1"))
    with pytest.raises(DataError, match="no text in UTF-8"):
        load_sample(str(path))


def test_true_and_days_are_numbers_and_what_is_no_day_is_a_word(tmp_path):
    text = "ok,since,y\nTrue,1970-01-11,0\nfalse,1970-01-01T06:00:00Z,1\nTRUE,1970-01-01 02:00+02:00,1\n"
    assert load_sample(str(write(tmp_path, text))).x.tolist() == [[1, 10], [0, 0.25], [1, 0]]
    assert [number_in(each) for each in ("1970-02-30", "1970-01-01 24:00", "yes", "1970-1-1")] == [None] * 4


@given(st.datetimes())
def test_days_in_texts_are_those_of_the_calendar(moment):
    since = moment.replace(tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    exact = Fraction(since // timedelta(microseconds=1), 86_400_000_000)
    assert number_in(str(moment)) == number_in(moment.isoformat()) == float(exact)


def test_frames_with_every_type_are_their_own_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    frame = pandas.DataFrame(
        {
            "when": pandas.to_datetime(["2020-01-01 00:00", None, "2021-06-01 12:00", "1969-12-31 00:00"]),
            "ok": pandas.array([True, None, False, True], dtype="boolean"),
            "count": pandas.array([1, 2, None, 4], dtype="Int64"),
            "price": [Decimal("1.50"), Decimal(2), None, Decimal("0.25")],
            "mixed": ["a", 1, 2.5, 7],
            "y": [True, False, True, False],
        },
        index=[7, 9, 7, 3],
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    wanted = load_sample(str(tmp_path / "t.csv"))
    assert stored(wanted)[1:] == patterns(
        [[None, None, 2.0, 2.0, 1.0], [18779.5, 0.0, None, None, 2.5], [-1.0, 1.0, 4.0, 0.25, 7.0]]
    )
    assert load_sample(frame).sha256 == wanted.sha256
    tidy = frame.assign(mixed=frame["mixed"].astype(str))
    tidy.to_parquet(tmp_path / "t.parquet")
    assert load_sample(str(tmp_path / "t.parquet")).sha256 == wanted.sha256
    of_polars = polars.from_pandas(tidy)
    assert load_sample(of_polars).sha256 == load_sample(of_polars.lazy()).sha256 == wanted.sha256
    pair = as_dataset((of_polars.drop("y"), of_polars["y"]))
    assert pair.sha256 == wanted.sha256


def test_a_level_called_na_is_no_missing_value(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    cells = ["NA", None, "DE", "FR"]
    country = pandas.Categorical(cells, ["NA", "DE", "FR"])
    frame = pandas.DataFrame({"country": country, "y": [0, 1, 0, 1]})
    frame.to_parquet(tmp_path / "t.parquet")
    of_polars = polars.DataFrame(
        {"country": polars.Series(cells, dtype=polars.Enum(["NA", "DE", "FR"])), "y": [0, 1, 0, 1]}
    )
    wanted = patterns([["NA"], [None], ["DE"], ["FR"]])
    for sample in (load_sample(frame), load_sample(str(tmp_path / "t.parquet")), load_sample(of_polars)):
        assert stored(sample) == wanted
    frame.to_csv(tmp_path / "t.csv", index=False)
    again = as_dataset(str(tmp_path / "t.csv"), role="test", like=load_sample(frame))
    assert stored(again) == wanted
    with pytest.raises(DataError, match="levels that are written alike"):
        load_sample(frame.assign(country=pandas.Categorical([1, "1", 1, 1])))


def test_levels_in_a_name_hold_for_numbers_too(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size{1|2|3}": [3, 1], "y{-1|1}": [1, -1]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for sample in (load_sample(frame), load_sample(f"{tmp_path / 't.csv'}:y")):
        assert stored(sample) == patterns([["3"], ["1"]])
        assert (sample.y.tolist(), sample.class_names) == ([1, 0], ("-1", "1"))


def test_any_words_can_be_declared_and_numbers_among_them_are_words(tmp_path):
    text = "post{*},size,y\n10115,2,0\nSW1,big,1\n"
    sample = load_sample(str(write(tmp_path, text)))
    assert stored(sample) == patterns([["10115", 2.0], ["SW1", "big"]])


ROUNDED = "id,y\n123456789012345678901,0\n123456789012345678902,1\n"
COUNTED = ",y\n" + "".join(f"{row},{row % 2}\n" for row in range(12))


@pytest.mark.parametrize(
    ("text", "words"), [(ROUNDED, "numbers beyond 2^53 in id"), (COUNTED, "column 1 numbers the rows")]
)
def test_remarks_on_row_numbers_and_on_numbers_beyond_float64(tmp_path, text, words):
    (remark,) = load_sample(str(write(tmp_path, text))).warnings
    assert words in remark


def test_long_cells_other_marks_and_colons_in_names(tmp_path):
    path = tmp_path / "t.csv"
    limit = csv.field_size_limit()
    path.write_bytes(("a:b,t\n1," + "x" * 200_000 + "\n0,b\n").encode("utf-16"))
    sample = load_sample(f"{path}:a:b")
    assert (sample.y.tolist(), sample.x.shape, csv.field_size_limit()) == ([1, 0], (2, 1), limit)


class TestAnotherTable:
    """A test table is read by the columns of the sample, which are found by name."""

    SAMPLE = "age,town,ripe,kind\n30,Rome,no,a\n,Oslo,yes,b\n41,,no,a\n"

    @pytest.fixture
    def sample(self, tmp_path):
        return load_sample(f"{write(tmp_path, self.SAMPLE)}:kind")

    def read(self, tmp_path, text, sample, role="test"):
        path = write(tmp_path, text, "test.csv")
        return as_dataset(f"{path}:kind" if "kind" in text else str(path), role=role, like=sample)

    def test_each_row_becomes_what_it_became_in_the_sample(self, tmp_path, sample):
        _, *rows = self.SAMPLE.split()
        for row, wanted, label in zip(rows, stored(sample), sample.y, strict=True):
            cells = dict(zip(("age", "town", "ripe", "kind"), row.split(","), strict=True))
            order = ("kind", "note", "ripe", "town", "age")
            line = ",".join({**cells, "note": "7"}[each] for each in order)
            alone = self.read(tmp_path, f"{','.join(order)}\n{line}\n", sample)
            assert (stored(alone), alone.y.tolist()) == ([wanted], [label])

    def test_a_sample_of_cells_and_one_of_numbers_stay_what_they_are(self, tmp_path, sample):
        whole = self.read(tmp_path, "age,town,ripe\n1,2,3\n", sample, role="unlabelled")
        assert stored(whole) == patterns([[1.0, 2.0, 3.0]])
        numbers = load_sample(str(write(tmp_path, "age,label\n1,0\n2,1\n")))
        assert self.read(tmp_path, "age,label\n5,1\n", numbers).dtype == "float64"
        for cell in ("", "old"):
            with pytest.raises(DataError, match="example 1 has a word or a gap in column 'age'"):
                self.read(tmp_path, f"age,label\n{cell},0\n", numbers)

    def test_what_is_absent_is_named(self, tmp_path, sample):
        with pytest.raises(DataError, match="lacks columns of the sample: town"):
            self.read(tmp_path, "age,ripe,kind\n1,no,a\n", sample)

    def test_rows_of_any_kind_are_read_by_the_columns(self, sample):
        table = [
            (Title("ripe"), ["no", "yes"]),
            (Title("age"), np.array([1.0, np.nan])),
            (Title("town"), ["", "4"]),
        ]
        found = rows_like(table, sample.columns, name="rows").view(np.uint64).tolist()
        assert found == patterns([[1.0, None, "no"], [None, 4.0, "yes"]])
        with pytest.raises(DataError, match="different numbers of values"):
            rows_like([(Title("ripe"), ["no"]), *table[1:]], sample.columns, name="rows")

    def test_an_input_may_be_called_like_labels(self, tmp_path):
        path = write(tmp_path, "y,kind\n5,a\n6,b\n")
        sample = load_sample(f"{path}:kind")
        fresh = self.read(tmp_path, "z,y\n0,7\n0,8\n", sample, role="unlabelled")
        assert fresh.x.tolist() == [[7], [8]]
