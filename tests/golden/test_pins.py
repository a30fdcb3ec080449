"""What certify promised for pinned runs, it promises still: counts, bits, bound, verdict and exit status."""

import json

import pytest
import torch
from golden.pinned_runs import PINS, RUNS, arguments_of, outcome, write_files

EXPECTED = json.loads(PINS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pins")
    write_files(folder)
    return folder


@pytest.fixture
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(getattr(request, "param", 1))
    yield
    torch.set_num_threads(before)


def is_same(value, expected):
    """Equal, and numbers to nine digits: what is learned may differ in the last ones."""
    if isinstance(expected, dict):
        return value.keys() == expected.keys() and all(is_same(value[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(value) == len(expected) and all(map(is_same, value, expected))
    if isinstance(expected, float):
        return value == pytest.approx(expected, rel=1e-9)
    return value == expected


def comes_to(name, codebound, files, out, monkeypatch):
    monkeypatch.chdir(files)
    status, _, said = codebound(*arguments_of(name, out))
    assert "Traceback" not in said
    return json.loads(json.dumps(outcome(status, out))), said


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", RUNS)
def test_a_pinned_run_comes_to_the_same(name, codebound, files, tmp_path, monkeypatch):
    record, said = comes_to(name, codebound, files, tmp_path / "out", monkeypatch)
    assert is_same(record, EXPECTED[name]), said


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [2, 3], indirect=True)
@pytest.mark.parametrize("name", ["table, default", "pictures, picks", "network, scores", "network, prune"])
def test_other_counts_of_threads_come_to_the_same(name, threads, codebound, files, tmp_path, monkeypatch):
    record, said = comes_to(name, codebound, files, tmp_path / "out", monkeypatch)
    assert is_same(record, EXPECTED[name]), said


def test_a_pin_that_moved_is_seen():
    moved = json.loads(json.dumps(EXPECTED))
    moved["table, split"]["claim"]["limits"][0]["errors"] += 1
    assert not is_same(moved, EXPECTED)


def test_every_run_has_its_pin():
    assert EXPECTED.keys() == RUNS.keys()
    assert {each["verdict"] for each in EXPECTED.values() if not each["status"]} == {"ACCEPT"}
