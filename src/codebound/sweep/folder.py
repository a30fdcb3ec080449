"""The folder of a sweep: one folder per job, a result that is there as a whole or not at all, and a lock.

``jobs/KEY/`` belongs to one job; ``output/`` in it is what the command wrote. ``result.json`` comes last, in
one step: with it the job is done or failed, without it the job is unfinished, whatever else is there.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from codebound.errors import CodeboundError, FormatError, UsageError
from codebound.files import read_json, write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

State = Literal["done", "failed", "waiting"]

_RESULT = "result.json"
_LOCK = "lock"
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The folder of one job.

    Attributes:
        path: The folder; absolute, because reports and rows are read from anywhere.
    """

    path: Path

    @classmethod
    def of(cls, sweep: Path, key: str) -> JobFolder:
        """The folder of a job in that of a sweep."""
        return cls(sweep.absolute() / "jobs" / key)

    @property
    def output(self) -> Path:
        """Where the command writes."""
        return self.path / "output"

    @property
    def traceback(self) -> Path:
        """Where the traceback of a job that failed is."""
        return self.path / "traceback.txt"

    def result(self) -> dict[str, Any] | None:
        """What the job left, or None as long as it is unfinished."""
        path = self.path / _RESULT
        if not path.exists():
            return None
        record = read_json(path, advice="Remove its folder to run the job again.")
        if record.get("job") != self.path.name or not ("row" in record or "error" in record):
            raise FormatError(f"{path} is not the result of this job. Remove {self.path} to run it again.")
        return record

    def state(self) -> State:
        """Whether the job is done, failed, or still to run."""
        record = self.result()
        if record is None:
            return "waiting"
        return "failed" if "error" in record else "done"

    def finish(self, record: dict[str, Any], *, traceback: str = "") -> None:
        """Ends the job: after this it is done or failed."""
        self._make()
        if traceback:
            write_text(self.traceback, traceback)
        write_json(self.path / _RESULT, record)

    def reopen(self) -> None:
        """Makes a failed job one that is still to run."""
        (self.path / _RESULT).unlink(missing_ok=True)
        self.traceback.unlink(missing_ok=True)

    @contextmanager
    def claimed(self, patience: float) -> Iterator[None]:
        """Keeps other processes out; one that is about to be gone is waited for."""
        self._make()
        with locked(self.path / _LOCK, f"job {self.path.name}", patience=patience):
            yield

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CodeboundError(f"the folder {self.path} cannot be made: {error.strerror}.") from error


@contextmanager
def locked(path: Path, what: str, *, patience: float = 0.0) -> Iterator[None]:
    """Holds a lock file; the system frees it when the process ends, however it ends.

    Args:
        path: The file.
        what: What is locked, for the message.
        patience: Seconds to wait for another process.

    Raises:
        UsageError: Another process holds it.
        CodeboundError: The file cannot be written or locked.
    """
    deadline = time.monotonic() + patience
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise CodeboundError(f"{path} cannot be opened: {error.strerror}.") from error
    with file:
        try:
            while not _is_locked(file.fileno()):
                if time.monotonic() > deadline:
                    file.seek(0)
                    raise UsageError(
                        f"{what} is being run by another process ({file.read(200).strip() or 'unknown'}). "
                        "Wait for it, or stop it first."
                    )
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
