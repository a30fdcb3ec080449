"""Files are there as a whole or not at all, and what cannot be read says what to do."""

import os
import subprocess
import sys

import pytest

from codebound.errors import CodeboundError, FormatError
from codebound.files import (
    is_unfinished_write,
    read_json,
    replacing,
    write_atomically,
    write_json,
    write_text,
    written_whole,
)

KILLED = """
import os, sys, pathlib
from codebound.files import replacing, written_whole

folder = pathlib.Path(sys.argv[1])
with written_whole(folder / "result") as place:
    (place / "part").write_bytes(b"half")
    with replacing(folder / "result.json") as file:
        file.write(b"half")
        file.flush()
        os.kill(os.getpid(), 9)
"""


def test_a_write_that_is_killed_leaves_the_old_file_whole_and_the_next_one_cleans_up(tmp_path):
    path = tmp_path / "result.json"
    write_atomically(path, b"old content")
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)]).returncode == -9
    assert path.read_bytes() == b"old content"
    assert not (tmp_path / "result").exists()
    (left,) = (each for each in tmp_path.iterdir() if each.name.startswith("."))
    assert is_unfinished_write(left, ("result.json",))
    assert not is_unfinished_write(left, ("other.json",))
    write_atomically(path, b"new content")
    with written_whole(tmp_path / "result") as place:
        (place / "other").write_bytes(b"whole")
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["other", "result", "result.json"]


def test_a_write_in_progress_is_nobodys_leftover(tmp_path):
    path = tmp_path / "a.txt"
    with replacing(path) as first:
        first.write(b"first")
        write_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_without_locks_is_written_to_all_the_same(tmp_path, monkeypatch):
    def unsupported(descriptor):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("codebound.files.try_lock", unsupported)
    for content in (b"first", b"second"):
        write_atomically(tmp_path / "a.txt", content)
        assert (tmp_path / "a.txt").read_bytes() == content


def fill(folder, error=None):
    with written_whole(folder) as place:
        (place / "a").write_bytes(b"a")
        if error is not None:
            raise error


def test_a_folder_is_there_as_a_whole_or_not_at_all(tmp_path):
    folder = tmp_path / "result"
    with pytest.raises(KeyboardInterrupt):
        fill(folder, KeyboardInterrupt())
    assert not list(tmp_path.iterdir())
    folder.mkdir()
    (folder / "other").write_bytes(b"of the user")
    with pytest.raises(CodeboundError, match="result cannot be written: Directory not empty"):
        fill(folder)
    assert [each.name for each in tmp_path.rglob("*")] == ["result", "other"]


def test_a_full_disk_is_a_message_and_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CodeboundError, match=r"a\.txt cannot be written: No space left on device"):
        write_text(tmp_path / "a.txt", "text")
    assert not list(tmp_path.iterdir())


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"name": "ä", "value": 1.5})
    assert read_json(path, advice="Remove it.") == {"name": "ä", "value": 1.5}
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"value": float("nan")})


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"], ids=["empty", "half", "list", "bytes"])
def test_damaged_files_are_refused_with_the_advice(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"a\.json .*Start again\."):
        read_json(path, advice="Start again.")


def test_huge_files_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_bytes(b"{}")
    monkeypatch.setattr("codebound.files._MOST_JSON_BYTES", 1)
    with pytest.raises(FormatError, match="larger than 1 bytes"):
        read_json(path, advice="Start again.")
