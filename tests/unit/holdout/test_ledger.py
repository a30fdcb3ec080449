"""The chain of a ledger, and what this machine remembers of it."""

import hashlib
import json

import pytest

from codebound.holdout.ledger import key_of, read_ledger, read_lines
from codebound.holdout.seals import Plan, seal
from codebound.holdout.statements import look
from codebound.run.errors import FormatError, UsageError


@pytest.fixture
def path(answers):
    return look(seal(answers, Plan(look=("a", "b"))).path, "a", data=answers).path


def test_every_line_has_the_hash_of_the_one_before(path):
    ledger = read_ledger(path)
    first, second = path.read_bytes().splitlines()
    assert ledger.lines[0]["previous"] == "0" * 64
    assert ledger.lines[1]["previous"] == ledger.origin == hashlib.sha256(first).hexdigest()
    assert ledger.head == hashlib.sha256(second).hexdigest()
    assert first == json.dumps(json.loads(first), sort_keys=True, separators=(",", ":")).encode()


def test_a_file_that_was_cut_in_a_line_says_so(path):
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FormatError, match="cut in the middle of line 2"):
        read_lines(path)


@pytest.mark.parametrize("change", [(b'"errors":60', b'"errors":50'), (b'"delta":0.05', b'"delta":0.01')])
def test_a_line_that_was_changed_is_found(path, change):
    path.write_bytes(path.read_bytes().replace(*change))
    with pytest.raises(FormatError):
        read_ledger(path)


def test_a_line_that_is_gone_is_missed(path, answers):
    seal_line = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(seal_line)
    with pytest.raises(UsageError, match="lacks a line that was written on this machine"):
        look(path, "b", data=answers)
    assert path.read_bytes() == seal_line


def test_lines_from_another_machine_are_welcome(path, answers, own_cache):
    for each in own_cache.rglob("*.json"):
        each.unlink()
    assert len(look(path, "b", data=answers).statements) == 2


def test_names_do_not_make_another_statement():
    one = {"kind": "look", "column": {"name": "a", "sha256": "0" * 64}, "result": None}
    assert key_of(one) == key_of({**one, "column": {"name": "b", "sha256": "0" * 64}})
    assert key_of(one) != key_of({**one, "column": {"name": "a", "sha256": "1" * 64}})


@pytest.mark.parametrize("content", [b"nothing\n", b"[]\n", b"{}\n", b"\n", b"{" * 100_000 + b"\n"])
def test_what_is_no_ledger_is_refused(tmp_path, content):
    (tmp_path / "x.jsonl").write_bytes(content)
    with pytest.raises(FormatError):
        read_ledger(tmp_path / "x.jsonl")


def test_a_missing_ledger_says_how_to_make_one(tmp_path):
    with pytest.raises(UsageError, match="holdout seal"):
        read_ledger(tmp_path / "none.jsonl")
