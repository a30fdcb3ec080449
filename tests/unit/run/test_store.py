"""Keys name all that a result depends on; locks are freed however a process ends."""

import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.run.errors import CodeboundError, UsageError
from codebound.run.files import (
    BusyError,
    content_key,
    differences,
    hold_lock,
    lock_beside,
    named_sha256,
    source_sha256,
    try_lock,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
HOLDER = """
import sys, pathlib
from codebound.run.files import hold_lock
with hold_lock(pathlib.Path(sys.argv[1]), "a run"):
    print("held", flush=True)
    sys.stdin.read()
"""


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@given(st.dictionaries(st.text(), VALUES, max_size=4), st.dictionaries(st.text(), VALUES, max_size=4))
def test_keys_are_equal_where_the_values_are(one, other):
    backwards = dict(reversed(one.items()))
    assert content_key(one) == content_key(backwards)
    is_same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (content_key(one) == content_key(other)) is is_same


def test_a_key_is_the_hash_of_canonical_json():
    assert content_key({"b": 1, "a": "é"}) == sha256(rb'{"a":"\u00e9","b":1}')
    with pytest.raises(ValueError, match="JSON"):
        content_key({"a": float("nan")})


def test_a_text_names_a_file_a_folder_or_a_module(empty_folder):
    (empty_folder / "a.txt").write_bytes(b"a")
    (empty_folder / "kept" / "inner").mkdir(parents=True)
    (empty_folder / "kept" / "inner" / "b").write_bytes(b"b")
    (empty_folder / "broken_module.py").write_bytes(b"raise SystemExit")  # it is looked at, never run
    assert source_sha256("a.txt") == sha256(b"a")
    assert source_sha256("kept") == sha256(f"inner/b\n{sha256(b'b')}\n".encode())
    assert source_sha256("broken_module:factory") == sha256(b"raise SystemExit")
    assert "broken_module" not in sys.modules
    for nothing in ("linear", "mlp:widths=5", "no_such:thing", "", "a:b:c", "1x:y"):
        assert source_sha256(nothing) == ""
    both = named_sha256(["a.txt", 3, "kept"], source_sha256).split()
    assert both == [source_sha256("a.txt"), source_sha256("kept")]
    assert named_sha256(None, source_sha256) == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_files_are_refused(empty_folder):
    (empty_folder / "secret").write_bytes(b"a")
    (empty_folder / "secret").chmod(0)
    with pytest.raises(UsageError, match="secret cannot be read"):
        source_sha256("secret")


@pytest.fixture(params=["a file", "a folder"])
def other_process(request, tmp_path):
    """Another process has the lock."""
    path = tmp_path / "some" / "lock" if request.param == "a file" else tmp_path
    command = [sys.executable, "-c", HOLDER, path]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield path, process
    process.kill()
    process.communicate()


def test_another_process_is_named_and_a_killed_one_holds_nothing(other_process):
    path, process = other_process
    with (
        pytest.raises(BusyError, match="a run is being run by another process") as busy,
        hold_lock(path, "a run"),
    ):
        pass
    assert (f"process {process.pid} on" in str(busy.value)) is path.is_file()
    start = time.monotonic()
    with pytest.raises(BusyError), hold_lock(path, "a run", patience=0.2):
        pass
    assert time.monotonic() - start >= 0.2
    threading.Timer(0.2, process.kill).start()
    busy.value.wait(until=time.monotonic() + 60)
    with hold_lock(path, "a run", patience=60):
        pass


def test_a_folder_is_locked_by_a_file_beside_it_where_folders_have_no_locks(tmp_path, monkeypatch):
    def only_files(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "as on a network disk")
        return try_lock(descriptor)

    monkeypatch.setattr("codebound.run.files.try_lock", only_files)
    folder = tmp_path / "run"
    folder.mkdir()
    with hold_lock(folder, "it"):
        assert lock_beside(folder).exists()
        with pytest.raises(BusyError, match=f"process {os.getpid()}") as busy, hold_lock(folder, "it"):
            pass
    busy.value.wait(time.monotonic() + 60.0)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert not list(folder.iterdir())


def test_a_folder_on_a_disk_without_locks_is_taken_and_a_lock_file_is_not(tmp_path, monkeypatch):
    def none(descriptor):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("codebound.run.files.try_lock", none)
    folder = tmp_path / "run"
    folder.mkdir()
    with hold_lock(folder, "it"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    with pytest.raises(CodeboundError, match="cannot be locked"), hold_lock(tmp_path / "lock", "it"):
        pass


def test_too_many_open_files_say_nothing_about_locks(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("codebound.run.files.try_lock", full)
    with (
        pytest.raises(CodeboundError, match="cannot be locked: Too many open files"),
        hold_lock(tmp_path, "it"),
    ):
        pass


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_lock_file_stays_or_goes(tmp_path, is_kept):
    path = tmp_path / "lock"
    for _ in range(2):
        with hold_lock(path, "it", is_kept=is_kept):
            assert path.read_text().startswith(f"process {os.getpid()} on ")
        assert path.exists() is is_kept


def test_a_lock_without_room_for_the_name_of_its_holder_holds_and_goes(tmp_path, monkeypatch):
    def full(descriptor, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    path = tmp_path / "lock"
    with hold_lock(path, "this", is_kept=False), pytest.raises(BusyError), hold_lock(path, "this"):
        pass
    assert not path.exists()


def test_a_file_in_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with (
        pytest.raises(CodeboundError, match=r"file cannot be written"),
        hold_lock(tmp_path / "file" / "lock", "it"),
    ):
        pass


def test_settings_differ_in_these():
    there, here = {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5, "d": None}
    assert differences(there, here) == ["b is 2 there, 5 here", "c is 3 there, None here"]
