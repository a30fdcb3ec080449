"""Results that outlive the process that computes them: named by content, locked, each written whole.

Trainings, sweeps and journals of finished parts share what is here: a key that is a hash of everything a
result depends on, a lock that the system frees however a process ends, and a file of named values.
Nothing here loads torch.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

from codebound import __version__
from codebound.errors import CodeboundError, FormatError, UsageError
from codebound.files import read_json, write_text
from codebound.progress import Progress, silent
from codebound.user_code import current_directory_importable

_BLOCK = 1 << 20
_POLL_SECONDS = 0.05

Value = Mapping[str, Any]


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
    """What numbers depend on beside their settings: this package, and those it computes with.

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
            return _file_sha256(path)
        if path.is_dir():
            return _folder_sha256(path)
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody has that home directory
        raise UsageError(f"{value} cannot be read: {error}.") from error
    module, colon, name = value.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        return ""
    try:
        with current_directory_importable():
            spec = importlib.util.find_spec(module)
    except Exception:  # a package that fails to import: the job will say so
        return ""
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return ""
    return _file_sha256(Path(spec.origin))


def _folder_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(each for each in path.rglob("*") if each.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\n{_file_sha256(file)}\n".encode())
    return digest.hexdigest()


def _file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


class BusyError(UsageError):
    """Another process does this work just now."""

    def __init__(self, path: Path, what: str, holder: str) -> None:
        super().__init__(
            f"{what} is being run by another process ({holder or 'unknown'}). Wait for it, or stop it first."
        )
        self._path, self._what = path, what

    def wait(self, until: float) -> None:
        """Returns when the work can be asked for again, or at that moment of ``time.monotonic``."""
        with suppress(BusyError), locked(self._path, self._what, patience=until - time.monotonic()):
            pass


@contextmanager
def locked(path: Path, what: str, *, patience: float = 0.0, advice: str = "") -> Iterator[None]:
    """Holds a lock file; the system frees it when the process ends, however it ends.

    Args:
        path: The file; its folder is made.
        what: What is locked, for the message.
        patience: Seconds to wait for another process.
        advice: What to do where the folder cannot be written.

    Raises:
        BusyError: Another process holds it.
        CodeboundError: The file cannot be written or locked.
    """
    deadline = time.monotonic() + patience
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise CodeboundError(
            f"{path.parent} cannot be written: {error.strerror}. {advice}".strip()
        ) from error
    with file:
        try:
            while not _is_locked(file.fileno()):
                if time.monotonic() >= deadline:
                    file.seek(0)
                    raise BusyError(path, what, file.read(200).strip())
                time.sleep(_POLL_SECONDS)
            file.truncate(0)
            os.write(file.fileno(), f"process {os.getpid()} on {platform.node()}\n".encode())
        except OSError as error:
            raise CodeboundError(
                f"{path} cannot be locked: {error.strerror}. Choose a folder on a disk with room and locks."
            ) from error
        yield


def _is_locked(descriptor: int) -> bool:
    """Tries once to have the lock; False when another process has it."""
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


def differences(there: Mapping[str, object], here: Mapping[str, object]) -> list[str]:
    """In what two records of settings differ, one line for each."""
    return [
        f"{name} is {there.get(name)!r} there, {here.get(name)!r} here"
        for name in dict.fromkeys((*there, *here))
        if there.get(name) != here.get(name)
    ]


JOURNAL = ".cells.json"
"""How the name of a journal ends that lies among other files."""


class OutOfTimeError(CodeboundError):
    """The deadline has passed, and a part is not finished."""


class Journal:
    """Values by name, each on disk as soon as it is computed: an interrupted run continues.

    Attributes:
        left: Parts that a caller has done without, because the deadline had passed.

    Example:
        >>> journal = Journal()
        >>> journal.get("two", lambda: {"value": 2})
        {'value': 2}
        >>> journal.get("two", lambda: {"value": 3})
        {'value': 2}
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        run: Mapping[str, Any] | None = None,
        machine: Mapping[str, Any] | None = None,
        progress: Progress = silent,
        deadline: float = math.inf,
    ) -> None:
        """Takes over what an earlier run left.

        Args:
            path: The file; None keeps the values in memory.
            run: What the values depend on; a file that was made by another run is refused.
            machine: Where new values are computed: device and versions. A run may have begun on another.
            progress: Told the number of finished parts and the one to come.
            deadline: Moment of ``time.monotonic`` after which no new value is begun.
        """
        self._path, self._run, self._progress = path, dict(run or {}), progress
        self._machine, self._deadline = dict(machine or {}), deadline
        self._kept: dict[str, dict[str, Any]] = {}
        self._asked: set[str] = set()
        self.left: tuple[str, ...] = ()
        if path is not None and path.exists():
            self._kept = self._read(path)

    def __contains__(self, name: str) -> bool:
        """Whether the value of that name is finished."""
        return name in self._kept

    def get(self, name: str, compute: Callable[[], Value]) -> Value:
        """The value of that name, computed if it is new; it must be plain JSON.

        Raises:
            OutOfTimeError: It is new, and the deadline has passed.
        """
        (value,) = self.get_all({name: compute})
        return value

    def get_all(self, parts: Mapping[str, Callable[[], Value]]) -> list[Value]:
        """The values of those names; what another process works on comes last, and is waited for.

        Several processes that need the same networks so share them out among themselves.
        """
        left = dict(parts)
        while left:
            busy = [busy for name in parts if name in left and (busy := self._finish(name, left))]
            if busy:
                self._progress(len(self._kept), None, "waiting for another process")
                busy[0].wait(self._deadline)
        return [dict(self._kept[name]["value"]) for name in parts]

    def get_some(self, parts: Mapping[str, Callable[[], Value]]) -> list[Value]:
        """The values of those parts that are finished, or can be in time; ``left`` names the others.

        For a result whose parts are rows that stand alone: it shows those that there are.

        Raises:
            OutOfTimeError: There are none.
        """
        try:
            return self.get_all(parts)
        except OutOfTimeError:
            finished = {name: part for name, part in parts.items() if name in self._kept}
            if not finished:
                raise
        self.left += tuple(name for name in parts if name not in finished)
        return self.get_all(finished)

    def _finish(self, name: str, left: dict[str, Callable[[], Value]]) -> BusyError | None:
        """Finishes one of the parts that are left, unless another process works on it."""
        if name not in self._kept:
            if not time.monotonic() < self._deadline:  # negated, so that no number is no time
                raise OutOfTimeError(
                    f"the deadline has passed before the part {name!r} was begun. The same command with a "
                    "later deadline goes on."
                )
            self._progress(len(self._kept), None, name)
            start = time.perf_counter(), time.process_time()
            try:
                computed = left[name]()
            except BusyError as busy:
                return busy
            value = json.loads(json.dumps(computed, allow_nan=False))  # as a later run will read it
            end = time.perf_counter(), time.process_time()
            seconds, cpu_seconds = (round(b - a, 3) for a, b in zip(start, end, strict=True))
            clocks = {"seconds": seconds, "cpu_seconds": cpu_seconds}
            self._kept[name] = {**clocks, "machine": self._machine, "value": value}
            self._save()
        self._asked.add(name)
        del left[name]
        return None

    def total(self, clock: Literal["seconds", "cpu_seconds"]) -> float:
        """What the parts that were asked for took, whenever that was; on a busy machine the clocks differ."""
        return round(sum(float(self._kept[name][clock]) for name in self._asked), 1)

    def machines(self) -> list[dict[str, Any]]:
        """Where the parts that were asked for were computed; how many of them at each, and in what time."""
        counts, seconds = Counter[str](), Counter[str]()
        for part in (part for name, part in self._kept.items() if name in self._asked):
            machine = json.dumps(part["machine"], sort_keys=True)
            counts[machine] += 1
            seconds[machine] += part["seconds"]
        return [
            {**json.loads(machine), "cells": count, "seconds": round(seconds[machine], 1)}
            for machine, count in counts.items()
        ]

    def _save(self) -> None:
        if self._path is not None:
            record = {"run": self._run, "cells": self._kept}
            write_text(self._path, json.dumps(record, indent=0, allow_nan=False) + "\n")

    def _read(self, path: Path) -> dict[str, dict[str, Any]]:
        advice = "Remove it, or choose another folder."
        record = read_json(path, advice=advice)
        try:
            run, parts = dict(record["run"]), dict(record["cells"])
            for part in parts.values():
                float(part["seconds"]), float(part["cpu_seconds"])
                dict(part["machine"]), dict(part["value"])
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"{path} does not hold the finished parts of a run: {error!r}. {advice}"
            ) from error
        if found := differences(run, self._run):
            raise UsageError(
                f"{path} belongs to another run: {'; '.join(found)}. Their parts cannot be mixed. Give the "
                "options of that run, choose another folder, or remove the file."
            )
        return parts


def computed_once(path: Path, name: str, compute: Callable[[], Value]) -> Value:
    """A value of a journal that many processes share; one of them computes it.

    Raises:
        BusyError: Another process computes it now.
    """
    if name in (found := Journal(path)):
        return found.get(name, compute)
    with locked(lock_beside(path), str(path)):
        return Journal(path).get(name, compute)  # read again: another may just have finished it


def lock_beside(path: Path) -> Path:
    """The lock file of a file or folder that must not hold one."""
    return path.with_name(f".{path.name}.lock")
