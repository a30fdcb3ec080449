"""Small files and folders: written in one step, checked when read, named by content, locked.

A lock is freed by the system however a process ends. Nothing here loads torch.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import re
import shutil
import sys
import time
import uuid
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from codebound import __version__
from codebound.run.errors import CodeboundError, FormatError, UsageError
from codebound.run.extensions import current_directory_importable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_UNFINISHED_WRITE = ".partial"
_UNFINISHED_FOLDER = ".unfinished"
_MOST_JSON_BYTES = 64 << 20
_MOST_TOML_BYTES = 1 << 20
_MOST_KEY_PARTS = 32  # parts of a key with dots, which take a parser their square
_KEY_PART = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*"""
_LONG_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*(?:{_KEY_PART}\.[ \t]*){{{_MOST_KEY_PARTS}}}", re.MULTILINE)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {path} cannot be made: {error.strerror}.") from error


@contextmanager
def write_whole(folder: Path) -> Iterator[Path]:
    """Write a folder that gets its name when all is written.

    It stands beside ``folder``, which may be there if it is empty, until then. A write that fails leaves
    nothing; what a killed process left of the same folder is removed first.
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
    """Open a stream whose bytes become the file in one step."""
    temporary = None
    try:
        if path.exists() and not path.is_file():
            raise UsageError(
                f"{path} is a folder or a device, which no file can replace. Choose another name."
            )
        _remove_unfinished(path)
        temporary, file = _open_unfinished(path)
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


def _open_unfinished(path: Path) -> tuple[Path, IO[bytes]]:
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
    """Remove unfinished writes of this file that nobody holds locked."""
    for each in path.parent.iterdir():
        if is_unfinished_write(each, (path.name,)):
            with suppress(OSError), each.open("rb") as left:
                if try_lock(left.fileno()):
                    each.unlink()


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: whoever reads it, or is killed half-way, never meets half of it."""
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
    """Replace numbers that JSON cannot write by None.

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
    """Read a JSON object; the advice says what to do if it cannot be read."""
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
    """Refuse queues and devices, which may have no end."""
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
    """Read a short TOML file; ``what`` it is, for messages."""
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
    """Lock an open file or folder until it is closed; False: another has it."""
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


_BLOCK = 1 << 20
_MODULES = (".py", "/__init__.py")
_POLL_SECONDS = 0.05


def content_key(parts: Mapping[str, object]) -> str:
    """SHA-256 over canonical JSON: the order of keys does not matter, every value does."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@cache
def versions() -> str:
    """Return the versions that numbers depend on: ours, numpy and torch.

    Builds of one version count as one, so that nodes with and without a GPU can work together.
    """
    others = {name: importlib.metadata.version(name).partition("+")[0] for name in ("numpy", "torch")}
    return ", ".join(f"{name} {number}" for name, number in {"codebound": __version__, **others}.items())


def named_sha256(value: object, hashed: Callable[[str], str]) -> str:
    """Hashes of all that a text, or a list of texts, names; empty where it names nothing."""
    texts = value if isinstance(value, list) else [value]
    return " ".join(hashed(text) if isinstance(text, str) else "" for text in texts).strip()


def source_sha256(value: str) -> str:
    """Hash of what a text names: a file, a folder, or the source file of ``package.module:factory``.

    Relative paths and modules are looked up in the current directory. Empty when it names none of them.
    """
    try:
        path = Path(value).expanduser()
        if path.is_file():
            return file_sha256(path)
        if value and path.is_dir():  # no text is no name of the current directory
            digest = hashlib.sha256()
            for file in sorted(each for each in path.rglob("*") if each.is_file()):
                digest.update(f"{file.relative_to(path).as_posix()}\n{file_sha256(file)}\n".encode())
            return digest.hexdigest()
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody has that home directory
        raise UsageError(f"{value} cannot be read: {error}.") from error
    module, colon, name = value.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        return ""
    origin = _origin(module)
    return "" if origin is None else file_sha256(origin)


def _origin(module: str) -> Path | None:
    """File of a module, found without running the packages around it."""
    first, *inner = module.split(".")
    with current_directory_importable():
        spec = PathFinder.find_spec(first)
    if spec is None or (inner and not spec.submodule_search_locations):
        return None
    paths = [Path(place, *inner) for place in spec.submodule_search_locations or ()]
    files = [spec.origin or ""] if not inner else [f"{each}{end}" for each in paths for end in _MODULES]
    return next((Path(each) for each in files if Path(each).is_file()), None)


def file_sha256(path: Path) -> str:
    """Hash of a file, which is never in memory as a whole."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


class BusyError(UsageError):
    """Another process does this work just now."""

    def __init__(self, path: Path, what: str, holder: str = "", *, is_kept: bool = True) -> None:
        who = f"another process ({holder})" if holder else "another process"
        super().__init__(f"{what} is being run by {who}. Wait for it, or stop it first.")
        self._path, self._what, self._is_kept = path, what, is_kept

    def wait(self, until: float) -> None:
        """Wait until the lock is free, or until a time of the monotonic clock."""
        patience = until - time.monotonic()
        with suppress(BusyError), hold_lock(self._path, self._what, patience=patience, is_kept=self._is_kept):
            pass


def lock_beside(path: Path) -> Path:
    """Lock file beside a file or folder."""
    return path.with_name(f".{path.name}.lock")


def hold_lock(
    path: Path, what: str, *, patience: float = 0.0, is_kept: bool = True
) -> AbstractContextManager[None]:
    """Hold a lock; the system frees it when the process ends, however it ends.

    A folder that is there is locked itself, which leaves nothing behind; by a file beside it where folders
    have no locks; by nothing on a disk without any. Any other path is a lock file, whose folder is made, and
    which ``is_kept`` afterwards. ``patience`` is in seconds.
    """
    deadline = time.monotonic() + patience
    if path.is_dir():
        return _lock_folder(path, what, deadline)
    return _lock_file(path, what, deadline, is_kept=is_kept)


@contextmanager
def _lock_file(path: Path, what: str, deadline: float, *, is_kept: bool) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise CodeboundError(f"{path.parent} cannot be written: {error.strerror}.") from error
    with file:
        try:
            if not _is_free(file.fileno(), deadline):
                file.seek(0)
                raise BusyError(path, what, file.read(200).strip(), is_kept=is_kept)
            is_there = path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno()))
        except OSError as error:
            if not is_kept:
                path.unlink(missing_ok=True)
            raise CodeboundError(
                f"{path} cannot be locked: {error.strerror}. Choose a folder on a disk with locks."
            ) from error
        if not is_there:  # whoever held it has removed it
            with _lock_file(path, what, deadline, is_kept=is_kept):
                yield
            return
        try:
            with suppress(OSError):  # a lock without room for the name of its holder holds all the same
                file.truncate(0)
                os.write(file.fileno(), f"process {os.getpid()} on {platform.node()}\n".encode())
            yield
        finally:
            if not is_kept:
                with suppress(OSError):
                    path.unlink()


@contextmanager
def _lock_folder(path: Path, what: str, deadline: float) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            descriptor = os.open(path, os.O_RDONLY)  # not on Windows
            stack.callback(os.close, descriptor)
            if not _is_free(descriptor, deadline):  # not on network disks
                raise BusyError(path, what)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # says nothing about locks
                raise CodeboundError(f"{path} cannot be locked: {error.strerror}.") from error
            try:
                stack.enter_context(_lock_file(lock_beside(path.resolve()), what, deadline, is_kept=False))
            except BusyError:
                raise
            except CodeboundError:  # a disk without locks
                pass
        yield


def _is_free(descriptor: int, deadline: float) -> bool:
    """Lock an open file before the deadline; False if another holds it then."""
    while not try_lock(descriptor):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def differences(there: Mapping[str, object], here: Mapping[str, object]) -> list[str]:
    """Differences of two records of settings, a line each."""
    return [
        f"{name} is {there.get(name)!r} there, {here.get(name)!r} here"
        for name in dict.fromkeys((*there, *here))
        if there.get(name) != here.get(name)
    ]


def optional_folder(out: Path | None) -> AbstractContextManager[Path | None]:
    """A new folder, if one was asked for."""
    return nullcontext() if out is None else new_folder(out)


@contextmanager
def new_folder(out: Path | None, verb: str = "certify") -> Iterator[Path]:
    """A folder that nothing was in before; it is gone if what follows fails.

    An empty one is taken, so that the same command can be given again after a process was killed.
    """
    numbered = (Path("runs") / f"{verb}-{number}" for number in range(1, 10_000))
    for folder in [out] if out is not None else numbered:
        with ExitStack() as stack:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(hold_lock(folder, f"what goes to {folder}"))
            except FileExistsError:
                continue
            except BusyError:
                if out is not None:
                    raise
                continue
            except OSError as error:
                raise UsageError(f"the folder {folder} cannot be made: {error.strerror}.") from error
            if any(folder.iterdir()):
                continue
            try:
                yield folder
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            return
    raise UsageError(f"{out} exists already; results are never overwritten. Choose another folder.")
