"""Work that several processes want and one of them does."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from codebound.errors import CodeboundError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SECONDS_BETWEEN_LOOKS = 0.5


class BusyError(CodeboundError):
    """Another process does this work just now."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"another process works on {path}. Ask again when it has finished.")
        self._path = path

    def wait(self, until: float) -> None:
        """Returns when the work can be asked for again, or at that moment of ``time.monotonic``."""
        while time.monotonic() < until and not _is_free(self._path):
            time.sleep(_SECONDS_BETWEEN_LOOKS)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keeps other processes away from a file or folder, in the cache, for as long as this one lives.

    The lock is the system's, on a file beside ``path``: it ends with the process, however that ends.

    Raises:
        BusyError: Another process is here.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f".{path.name}.lock").open("w")
    except OSError as error:
        raise CodeboundError(
            f"the cache {path.parent} cannot be written: {error.strerror}. "
            "Set CODEBOUND_CACHE to a folder of yours."
        ) from error
    with lock:
        try:
            import fcntl
        except ImportError:  # no such locks on this system: two processes do the same work twice
            yield
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(path) from error
        yield


def _is_free(path: Path) -> bool:
    try:
        with alone(path):
            return True
    except BusyError:
        return False
