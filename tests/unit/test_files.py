"""Files are there as a whole or not at all, and what cannot be read says what to do."""

import os

import pytest

from codebound.errors import CodeboundError, FormatError
from codebound.files import is_unfinished_write, read_json, write_atomically, write_json, write_text


class PowerCutError(Exception):
    pass


def test_a_write_that_is_killed_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_atomically(path, b"old content")

    def cut(descriptor):
        os.ftruncate(descriptor, 3)
        raise PowerCutError

    monkeypatch.setattr(os, "fsync", cut)
    with pytest.raises(PowerCutError):
        write_atomically(path, b"new content")
    assert path.read_bytes() == b"old content"
    (left,) = (each for each in tmp_path.iterdir() if each != path)
    assert is_unfinished_write(left, ("result.json",))
    assert not is_unfinished_write(left, ("other.json",))


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
