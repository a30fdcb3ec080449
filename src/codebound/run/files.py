"""Small files, written in one step and checked when read. Nothing here loads torch."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import sys
import uuid
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from codebound.run.errors import CodeboundError, FormatError, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_UNFINISHED_WRITE = ".partial"
_UNFINISHED_FOLDER = ".unfinished"
_MOST_JSON_BYTES = 64 << 20
_MOST_TOML_BYTES = 1 << 20
_MOST_KEY_PARTS = 32  # parts of a key with dots, which take a parser their square
_KEY_PART = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*"""
_LONG_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*(?:{_KEY_PART}\.[ \t]*){{{_MOST_KEY_PARTS}}}", re.MULTILINE)


def make_folder(path: Path) -> None:
    """Makes a folder and those above it, unless it is there.

    Raises:
        UsageError: It cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {path} cannot be made: {error.strerror}.") from error


@contextmanager
def write_whole(folder: Path) -> Iterator[Path]:
    """A folder to write to, which gets its name when all is written: nobody meets half of it.

    It stands beside ``folder``, which may be there if it is empty, until then. A write that fails leaves
    nothing; what a killed process left of the same folder is removed first.

    Raises:
        CodeboundError: It cannot be written.
    """
    folder = folder.resolve() if folder.is_symlink() else folder
    place = folder.with_name(folder.name + _UNFINISHED_FOLDER)
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        yield place
        if folder.exists():
            folder.rmdir()
        place.rename(folder)
    except BaseException as error:
        shutil.rmtree(place, ignore_errors=True)
        if isinstance(error, OSError):
            raise CodeboundError(f"{folder} cannot be written: {error.strerror or error}.") from error
        raise


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose bytes become the file in one step; what a killed process left of it is removed."""
    temporary = None
    try:
        if path.exists() and not path.is_file():
            raise UsageError(
                f"{path} is a folder or a device, which no file can replace. Choose another name."
            )
        _remove_unfinished(path)
        temporary, file = _lock_file(path)
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # a file that is there must be whole, also after a power cut
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CodeboundError(f"{path} cannot be written: {error.strerror or error}.") from error
        raise


def _lock_file(path: Path) -> tuple[Path, IO[bytes]]:
    """A new file beside ``path`` that is ours: nobody removes it as left over."""
    while True:
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_UNFINISHED_WRITE}")
        file = temporary.open("wb")
        try:
            is_ours = try_lock(file.fileno()) and temporary.exists()
        except OSError:  # a disk without locks, where nobody removes leftovers either
            is_ours = True
        if is_ours:
            return temporary, file
        file.close()  # taken for a leftover before it was locked
        temporary.unlink(missing_ok=True)


def _remove_unfinished(path: Path) -> None:
    """Removes what is left of writes of this file whose processes are gone: nobody holds their lock."""
    for each in path.parent.iterdir():
        if is_unfinished_write(each, (path.name,)):
            with suppress(OSError), each.open("rb") as left:
                if try_lock(left.fileno()):
                    each.unlink()


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces a file in one step: whoever reads it, or is killed half-way, never meets half of it."""
    with replace_file(path) as file:
        file.write(content)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """The same for arrays, as a compressed ``.npz`` file; they are not copied."""
    import numpy as np

    with replace_file(path) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def write_text(path: Path, text: str) -> None:
    """The same for text; bytes of file names that are no text are shown by their numbers."""
    write_atomically(path, text.encode(errors="backslashreplace"))


def write_json(path: Path, record: object) -> None:
    """The same for a JSON value."""
    write_text(path, json.dumps(record, indent=2, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """The value with None in place of every number that JSON cannot write.

    Example:
        >>> finite({"worst": [0.5, math.inf]})
        {'worst': [0.5, None]}
    """
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path, *, advice: str) -> dict[str, Any]:
    """Reads a JSON object; the advice says what to do if it cannot be read.

    Raises:
        FormatError: The file is too large, or holds none.
    """
    try:
        content = _read_start(path, _MOST_JSON_BYTES + 1)
        if len(content) > _MOST_JSON_BYTES:
            raise ValueError(f"it is larger than {_MOST_JSON_BYTES:,} bytes, and so not a file of ours")
        record = json.loads(content, parse_constant=_refuse_constant)
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{path} cannot be read: {error}. {advice}") from error
    if not isinstance(record, dict):
        raise FormatError(f"{path} must hold a JSON object. Got a {type(record).__name__}. {advice}")
    return record


def require_file(path: Path) -> None:
    """Refuses what is there and is neither a file nor a folder: it may have no end, or nothing to read.

    Raises:
        OSError: It is a queue or a device.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a queue or a device, not a file", str(path))


def _read_start(path: Path, size: int) -> bytes:
    """The first bytes of a file."""
    require_file(path)
    with path.open("rb") as file:
        return file.read(size)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Reads a short TOML file; ``what`` it is, for messages.

    Raises:
        UsageError: It cannot be read, or is none.
    """
    try:
        content = _read_start(path, _MOST_TOML_BYTES + 1)
        text = content.decode()
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UsageError(f"{what} {path} is no TOML: {error}.") from error
    if len(content) > _MOST_TOML_BYTES or _LONG_KEY.search(text):
        raise UsageError(
            f"{what} {path} has more than {_MOST_TOML_BYTES:,} bytes, or a key of more than "
            f"{_MOST_KEY_PARTS} parts: too many for it."
        )
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} {path} is no TOML: {error}.") from error


def is_unfinished_write(path: Path, names: tuple[str, ...]) -> bool:
    """Return True if a file is an unfinished write of one of ``names``.

    ``write_atomically`` leaves such a file when it is killed.
    """
    return path.name.startswith(tuple(f".{name}." for name in names)) and path.suffix == _UNFINISHED_WRITE


def try_lock(descriptor: int) -> bool:
    """Locks an open file or folder until it is closed, however its process ends; False: another has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter on Windows
        return False
    return True
