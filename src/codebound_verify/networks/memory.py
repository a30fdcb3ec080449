"""Memory that is freed and taken again many times a second."""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Parameters of mallopt (malloc.h), what they are set to, and about what the C library makes of them itself.
MAP_ABOVE, RETURN_ABOVE, TAKEN_AHEAD = -3, -1, -2
KEPT = {MAP_ABOVE: 1 << 25, RETURN_ABOVE: (1 << 31) - 1, TAKEN_AHEAD: 1 << 24}
USUAL = {MAP_ABOVE: 1 << 25, RETURN_ABOVE: 1 << 26, TAKEN_AHEAD: 1 << 17}


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory in the process until the context ends.

    The C library of Linux gives large results of operations back to the system as soon as they are freed, and
    the next ones are new pages, each of which is fetched and cleared; with two cores that takes a third of
    the time. Results above 32 MiB, of huge images, still go back at once; elsewhere this does nothing.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt"):
        yield
        return
    try:
        _set(library, KEPT)
        yield
    finally:
        _set(library, USUAL)
        library.malloc_trim(0)


def _set(library: ctypes.CDLL, values: dict[int, int]) -> None:
    for parameter, value in values.items():
        library.mallopt(parameter, value)
