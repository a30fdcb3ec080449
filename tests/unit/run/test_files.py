"""Files are there as a whole or not at all, and what cannot be read says what to do."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codebound.certificate.file import Certificate
from codebound.holdout.ledger import read_ledger
from codebound.run.errors import CodeboundError, FormatError, UsageError
from codebound.run.files import (
    is_unfinished_write,
    read_json,
    read_toml,
    replace_file,
    write_atomically,
    write_json,
    write_text,
    write_whole,
)

KILLED = """
import os, sys, pathlib
from codebound.run.files import replace_file, write_whole

folder = pathlib.Path(sys.argv[1])
with write_whole(folder / "result") as place:
    (place / "part").write_bytes(b"half")
    with replace_file(folder / "result.json") as file:
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
    with write_whole(tmp_path / "result") as place:
        (place / "other").write_bytes(b"whole")
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["other", "result", "result.json"]


def test_a_write_in_progress_is_nobodys_leftover(tmp_path):
    path = tmp_path / "a.txt"
    with replace_file(path) as first:
        first.write(b"first")
        write_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_without_locks_is_written_to_all_the_same(tmp_path, monkeypatch):
    def unsupported(descriptor):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("codebound.run.files.try_lock", unsupported)
    for content in (b"first", b"second"):
        write_atomically(tmp_path / "a.txt", content)
        assert (tmp_path / "a.txt").read_bytes() == content


def fill(folder, error=None):
    with write_whole(folder) as place:
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


DAMAGED = {"empty": b"", "half": b"{", "list": b"[1]", "bytes": b"\xff", "number": b'{"a": NaN}'}


@pytest.mark.parametrize("content", [*DAMAGED.values(), b'{"a":' * 100_000], ids=[*DAMAGED, "deep"])
def test_damaged_files_are_refused_with_the_advice(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"a\.json .*Start again\."):
        read_json(path, advice="Start again.")


def test_huge_files_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_bytes(b"{}")
    monkeypatch.setattr("codebound.run.files._MOST_JSON_BYTES", 1)
    with pytest.raises(FormatError, match="larger than 1 bytes"):
        read_json(path, advice="Start again.")


@pytest.mark.parametrize(
    "content",
    [
        "a=" + "[" * 100_000,
        "a" + ".a" * 100_000 + "=1",
        "[" + '"\\"]"' + ' . "]"' * 100_000 + "]",
        "a={" + "b.'=' ." * 40,
    ],
    ids=["deep", "key", "table", "inside"],
)
def test_toml_that_would_take_a_parser_minutes_is_refused(tmp_path, content):
    path = tmp_path / "a.toml"
    path.write_text(content)
    begun = time.process_time()
    with pytest.raises(UsageError, match=r"no TOML: maximum|a key of more than 32 parts"):
        read_toml(path, "the plan")
    assert time.process_time() - begun < 5.0


def test_toml_as_people_write_it_is_read(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(f"[a.'b.c'.d]\nwidths = [{'0.25, ' * 5000}]\nname = '{'www.' * 100}'\n")
    assert len(read_toml(path, "the plan")["a"]["b.c"]["d"]["widths"]) == 5000


def test_a_device_is_neither_read_nor_replaced(tmp_path):
    os.mkfifo(tmp_path / "queue")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path / "link", tmp_path / "queue"):
        for read in (
            lambda path: read_json(path, advice=""),
            lambda path: read_toml(path, "the plan"),
            Certificate.load,
            read_ledger,
        ):
            with pytest.raises(CodeboundError, match="a queue or a device"):
                read(path)
    for path in (Path("/dev/null"), tmp_path / "queue", tmp_path):
        with pytest.raises(UsageError, match="no file can replace"):
            write_text(path, "content")
    assert Path("/dev/null").is_char_device()
    assert (tmp_path / "queue").is_fifo()


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path):
    (tmp_path / "others").write_text("theirs")
    (tmp_path / "a").symlink_to(tmp_path / "others")
    write_text(tmp_path / "a", "ours")
    assert ((tmp_path / "others").read_text(), (tmp_path / "a").read_text()) == ("theirs", "ours")
