"""``codebound data``: results on stdout, the rest on stderr, errors as messages."""

import csv
import gzip
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner
from worlds.files import idx, md5_of

from codebound.cli.data import app
from codebound.run.errors import DataError, UsageError
from codebound.sample.formats.catalogue import KNOWN
from codebound.sample.load import load_sample, split

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
MNIST = {
    "train-images-idx3-ubyte": idx(IMAGES),
    "train-labels-idx1-ubyte": idx(np.array([1, 1, 2, 3, 9], np.uint8)),
    "t10k-images-idx3-ubyte": idx(IMAGES[[1, 3]]),
    "t10k-labels-idx1-ubyte": idx(np.array([1, 4], np.uint8)),
}


@pytest.fixture
def run(monkeypatch, own_cache, offline):
    """Runs the command with a five-example MNIST in the catalogue, an empty cache and no network."""
    monkeypatch.setitem(KNOWN, "mnist", replace(KNOWN["mnist"], digests=md5_of(MNIST)))
    monkeypatch.setenv("COLUMNS", "160")

    def invoke(*arguments: str):
        return CliRunner().invoke(app, arguments)

    return invoke


def fill(folder):
    folder.mkdir(parents=True)
    for name, content in MNIST.items():
        (folder / name).write_bytes(content)


def test_list_says_where_data_is_and_how_to_get_it(run, tmp_path):
    fill(tmp_path / "cache/data/mnist")
    result = run("list")
    assert result.exit_code == 0
    for words in (
        "embedded in scikit-learn",
        str(tmp_path / "cache/data/mnist"),
        "codebound data get cifar10",
    ):
        assert words in result.stdout
    rows = {row["name"]: row for row in json.loads(run("list", "--format", "json").stdout)}
    assert list(rows) == list(KNOWN)
    assert rows["cifar10"] == {
        "name": "cifar10",
        "train": 50000,
        "test": 10000,
        "input": "3x32x32",
        "classes": 10,
        "found": "",
        "remedy": "codebound data get cifar10",
    }
    assert len(list(csv.DictReader(io.StringIO(run("list", "--format", "csv").stdout)))) == len(KNOWN)


def test_list_looks_in_a_folder(run, tmp_path):
    fill(tmp_path / "MNIST/raw")
    rows = json.loads(run("list", "--folder", str(tmp_path), "--format", "json").stdout)
    assert next(row["found"] for row in rows if row["name"] == "mnist") == str(tmp_path / "MNIST/raw")


def test_show_describes_a_sample(run):
    result = run("show", "digits")
    assert result.exit_code == 0
    digits = load_sample("digits")
    for words in (
        "1797",
        "1x8x8",
        "x / 16",
        "values from 0 to 16",
        digits.sha256,
        "178, 182, 177",
    ):
        assert words in result.stdout
    assert "test copies" not in result.stdout


@pytest.mark.parametrize("role", ["train", "test"])
def test_show_counts_copies_between_the_splits(run, tmp_path, role):
    fill(tmp_path / "cache/data/mnist")
    record = json.loads(run("show", "mnist", "--role", role, "--format", "json").stdout)
    assert (record["role"], record["n"]) == (role, {"train": 5, "test": 2}[role])
    assert record["test_duplicates"] == 2
    assert record["sha256"] == load_sample("mnist", role=role).sha256
    assert sum(record["class_counts"]) == record["n"]
    assert re.search(r"test copies +2 ", run("show", "mnist", "--role", role).stdout)


def test_show_has_one_csv_row_and_warnings_go_to_stderr(run, tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((3, 2), np.int64), y=[0, 1, 2])
    (row,) = csv.DictReader(io.StringIO(run("show", str(tmp_path / "d.npz"), "--format", "csv").stdout))
    assert (row["n"], row["class_counts"], row["input_shape"]) == ("3", "1 1 1", "2")
    result = run("show", str(tmp_path / "d.npz"))
    assert "Warning: the inputs are int64" in result.stderr
    assert "Warning" not in result.stdout


def test_get_prints_the_folder_and_then_has_nothing_to_do(run, tmp_path, monkeypatch):
    class Response(io.BytesIO):
        length = None

    monkeypatch.setattr(
        "urllib.request.urlopen",
        lambda address, timeout: Response(
            gzip.compress(MNIST[address.rpartition("/")[2].removesuffix(".gz")])
        ),
    )
    first = run("get", "mnist")
    assert first.stdout == f"{tmp_path / 'cache/data/mnist'}\n"
    assert "fetched from the original address" in first.stderr
    second = run("get", "mnist")
    assert second.stdout == first.stdout
    assert "nothing to do" in second.stderr
    assert run("get", "mnist", "-q").stderr == ""
    embedded = run("get", "digits")
    assert (embedded.exit_code, embedded.stdout, "nothing to do" in embedded.stderr) == (0, "", True)


def test_failures_are_messages(run):
    result = run("get", "mnist")
    assert isinstance(result.exception, DataError)
    assert "no network in tests" in str(result.exception)
    assert isinstance(run("show", "mnist").exception, DataError)


def test_save_writes_what_certify_counts_on(run, tmp_path):
    out = tmp_path / "sample.npz"
    result = run("save", "digits", "--holdout", "0.2", "--out", str(out))
    sample = split(load_sample("digits"), {"train": 0.8, "test": 0.2})["train"]
    assert result.stdout.strip() == sample.sha256 == load_sample(str(out)).sha256
    assert (
        run("save", "digits", "--out", str(tmp_path / "all.npz")).stdout.strip()
        == load_sample("digits").sha256
    )
    for refused in (out, tmp_path / "new.npy"):
        with pytest.raises(UsageError, match=r"must be a new file that ends in \.npz"):
            CliRunner().invoke(app, ["save", "digits", "--out", str(refused)], catch_exceptions=False)


def test_show_takes_a_table(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,kind\n1,pear\n2,apple\n")
    record = json.loads(run("show", f"{tmp_path / 't.csv'}:kind", "--format", "json").stdout)
    assert (record["n"], record["class_counts"]) == (2, [1, 1])
