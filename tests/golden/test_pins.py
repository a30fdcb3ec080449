"""What certify promised for pinned runs, it promises still: counts, bits, bound, verdict and exit status."""

import json

import pytest
import torch
from pinned_runs import PINS, RUNS, arguments_of, outcome, write_files

EXPECTED = json.loads(PINS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pins")
    write_files(folder)
    return folder


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def is_same(value, expected):
    """Equal, and numbers to nine digits: what is learned may differ in the last ones."""
    if isinstance(expected, dict):
        return value.keys() == expected.keys() and all(is_same(value[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(value) == len(expected) and all(map(is_same, value, expected))
    if isinstance(expected, float):
        return value == pytest.approx(expected, rel=1e-9)
    return value == expected


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", RUNS)
def test_a_pinned_run_comes_to_the_same(name, codebound, files, tmp_path, monkeypatch):
    monkeypatch.chdir(files)
    status, printed, said = codebound(*arguments_of(name, tmp_path / "out"))
    record = json.loads(json.dumps(outcome(name, status, printed, tmp_path / "out")))
    assert is_same(record, EXPECTED[name]), said
    assert "Traceback" not in said


def test_a_pin_that_moved_is_seen():
    moved = json.loads(json.dumps(EXPECTED))
    moved["table, split"]["facts"]["errors"] += 1
    assert not is_same(moved, EXPECTED)


def test_every_run_has_its_pin():
    assert EXPECTED.keys() == RUNS.keys()
