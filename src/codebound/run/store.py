"""Results that outlive the process that computes them: named by content, locked, each written whole.

A key is a hash of everything a result depends on; a lock is freed by the system however a process ends.
Nothing here loads torch.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import time
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from codebound import __version__
from codebound.run.errors import CodeboundError, UsageError
from codebound.run.extensions import current_directory_importable
from codebound.run.files import try_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from importlib.machinery import ModuleSpec

_BLOCK = 1 << 20
_POLL_SECONDS = 0.05


def content_key(parts: Mapping[str, object]) -> str:
    """SHA-256 over canonical JSON: the order of keys does not matter, every value does.

    Example:
        >>> content_key({"seed": 0, "epochs": 2}) == content_key({"epochs": 2, "seed": 0})
        True
        >>> content_key({"seed": 0}) == content_key({"seed": 1})
        False
    """
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

    Raises:
        UsageError: It is there and cannot be read.
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
    return file_sha256(Path(origin)) if origin and Path(origin).is_file() else ""


def _origin(module: str) -> str | None:
    """The file of a module; unlike ``importlib.util.find_spec`` this runs none of the packages around it."""
    first, *inner = module.split(".")
    with current_directory_importable():
        spec = _spec(first, None)
        for part in inner:
            if spec is None or spec.submodule_search_locations is None:
                return None
            spec = _spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    return None if spec is None else spec.origin


def _spec(name: str, places: Sequence[str] | None) -> ModuleSpec | None:
    finders = (each for each in sys.meta_path if hasattr(each, "find_spec"))
    found = (finder.find_spec(name, places) for finder in finders)
    return next((each for each in found if each is not None), None)


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
        """Returns when the work can be asked for again, or at that moment of ``time.monotonic``."""
        patience = until - time.monotonic()
        with suppress(BusyError), hold_lock(self._path, self._what, patience=patience, is_kept=self._is_kept):
            pass


def lock_beside(path: Path) -> Path:
    """The lock file of a file or folder that must not hold one."""
    return path.with_name(f".{path.name}.lock")


def hold_lock(
    path: Path, what: str, *, patience: float = 0.0, is_kept: bool = True
) -> AbstractContextManager[None]:
    """Holds a lock; the system frees it when the process ends, however it ends.

    A folder that is there is locked itself, which leaves nothing behind; by a file beside it where folders
    have no locks; by nothing on a disk without any. Any other path is a lock file, whose folder is made.

    Args:
        path: What is locked.
        what: The same in words, for the message.
        patience: Seconds to wait for another process.
        is_kept: Whether a lock file stays there afterwards.

    Raises:
        BusyError: Another process holds it.
        CodeboundError: The lock file cannot be written or locked.
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
    """Locks what is open as soon as nobody else holds it; False if somebody does at the deadline."""
    while not try_lock(descriptor):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def differences(there: Mapping[str, object], here: Mapping[str, object]) -> list[str]:
    """In what two records of settings differ, one line for each."""
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
