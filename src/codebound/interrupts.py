"""Ctrl-C and SIGTERM end a computation in order: the best is kept, what is nearly done is finished."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def interrupt_on_sigterm() -> None:
    """From now on SIGTERM interrupts like Ctrl-C: as a service manager or a batch system ends a program."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt(f"signal {number}")


@contextmanager
def finishing() -> Iterator[None]:
    """What is inside is finished although somebody interrupts; the second time it is given up.

    Signals reach the main thread only, so that elsewhere nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {each: signal.getsignal(each) for each in _SIGNALS}

    def give_way(number: int, frame: object) -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    interruptible = [each for each, handler in before.items() if callable(handler)]
    for each in interruptible:
        signal.signal(each, give_way)
    try:
        yield
    finally:
        for each in interruptible:
            signal.signal(each, before[each])
