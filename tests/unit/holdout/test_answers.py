"""Columns of canonical cells: one hash for a CSV, an NPZ, a mapping and a frame."""

import hashlib

import numpy as np
import pytest

from codebound.holdout.answers import (
    as_table,
    canonical_cell,
    column_sha256,
    is_table_file,
    label_of,
    parse_csv,
    read_table,
    split_spec,
)
from codebound.run.errors import DataError, UsageError

CSV = b"label,a,conf\n1,1.0,0.25\n0, 1 ,nan\n1,,1e-3\n"


def test_the_same_answers_have_one_hash_however_they_are_stored(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + CSV.replace(b"\n", b"\r\n"))
    (tmp_path / "t.tsv").write_bytes(CSV.replace(b",", b"\t"))
    np.savez(tmp_path / "t.npz", label=[1, 0, 1], a=["1", "1", ""], conf=[0.25, np.nan, 1e-3])
    frames = [{"label": [1, 0, 1], "a": [1.0, 1, None], "conf": [0.25, float("nan"), 0.001]}]
    tables = [*(read_table(tmp_path / f"t.{kind}") for kind in ("csv", "tsv", "npz")), *map(as_table, frames)]
    hashes = [{name: column_sha256(cells) for name, cells in each.columns.items()} for each in tables]
    assert hashes[0]["label"] == hashlib.sha256(b"1:11:01:1").hexdigest()
    assert hashes[0]["a"] == hashlib.sha256(b"1:11:10:").hexdigest()
    assert all(each["label"] == hashes[0]["label"] and each["a"] == hashes[0]["a"] for each in hashes)
    assert hashes[2]["conf"] == hashes[3]["conf"] == column_sha256(["0.25", "", "0.001"])


def test_two_columns_never_run_into_each_other():
    assert column_sha256(["ab", "c"]) != column_sha256(["a", "bc"])
    assert column_sha256(["", "a"]) != column_sha256(["a", ""])


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [("1.0", "1"), ("-0.000", "0"), ("007", "7"), ("1.10", "1.10"), ("1" * 16, "1" * 16), (" NaN\t", ""),
     ("None", "None"), ("1e3", "1e3"), ("٣", "٣"), ("\u00a0x", "\u00a0x")],
)  # fmt: skip
def test_a_cell_has_one_form(raw, canonical):
    assert canonical_cell(raw) == canonical
    assert canonical_cell(canonical) == canonical


def test_rows_of_pictures_are_cells():
    x = np.arange(12, dtype="f4").reshape(3, 2, 2)
    cells = as_table({"x": x}).cells("x")
    assert cells[1] == hashlib.sha256(x[1].astype("<f4").tobytes()).hexdigest()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"label,a\n", "has no rows"),
        (b"label,a\n1,1\n0", "row 2 has 1 cells, and there are 2 columns. Was the file cut"),
        (b'label,a\n1,"half of a cell', "cut in the middle"),
        (b"label,a\n1,\xff\n", "not UTF-8 at byte 10"),
        (b"label,a,a\n1,2,3\n", "two columns called 'a'"),
    ],
)
def test_a_damaged_table_gets_one_sentence(content, says):
    with pytest.raises(DataError, match=says):
        parse_csv(content, "t.csv")


def test_a_stream_leaves_a_row_that_is_not_whole_for_later():
    assert parse_csv(b"label,a\n1,1\n0,", "t.csv", is_growing=True).columns["a"] == ("1",)
    assert parse_csv(b'label,a\n1,1\n0,"two\nlines', "t.csv", is_growing=True).columns["a"] == ("1",)
    assert len(parse_csv(b"label,a\n", "t.csv", is_growing=True)) == 0


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04 cut")
    np.savez(tmp_path / "objects.npz", a=np.array([{}], dtype=object))
    np.savez(tmp_path / "dates.npz", a=np.array(["2020-01-01"], dtype="M8[D]"))
    for name in ("cut.npz", "objects.npz", "dates.npz", "none.csv"):
        with pytest.raises(DataError):
            read_table(tmp_path / name)
    with pytest.raises(DataError, match="differ in length"):
        as_table({"a": [1], "b": [1, 2]})
    with pytest.raises(UsageError, match="mapping of columns"):
        as_table(7)
    with pytest.raises(DataError, match="no Unicode"):
        column_sha256(["\ud800"])


def test_a_specification_names_the_file_and_the_labels():
    assert split_spec("a.csv:label")[1] == "label"
    assert split_spec("C:a.csv")[1] is None
    assert is_table_file("a.NPZ:y")
    assert not is_table_file("digits")
    table = as_table({"y": [1], "b": [2]})
    assert label_of(table, None) == "y"
    with pytest.raises(DataError, match=r"no column 'label'\. It has 'y', 'b'"):
        label_of(table, "label")
    with pytest.raises(UsageError, match="which column has the labels"):
        label_of(as_table({"b": [2]}), None)
