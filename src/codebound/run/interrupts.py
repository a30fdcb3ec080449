"""Ctrl-C, SIGTERM and SIGHUP end work in order: the best is kept, what is nearly done is finished."""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

INTERRUPTED = 130
"""Exit status of a program that somebody has interrupted."""
_MOST_INTERRUPTS = 3
_SECONDS_TO_END = 1.0
_SECONDS_UNTIL_AGAIN = 0.05
_HANGUP = getattr(signal, "SIGHUP", None)  # not on Windows
SIGNALS = (signal.SIGINT, signal.SIGTERM, *([_HANGUP] if _HANGUP else []))
"""Those that ask a program to end."""
_commands: list[threading.Event] = []  # of the command that runs: set when somebody has interrupted it


def interrupt_on_signals() -> None:
    """From now on SIGTERM and SIGHUP interrupt like Ctrl-C.

    So a service manager or a batch system ends a program, and a terminal that is closed; who started it with
    ``nohup`` wants it to go on.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if _HANGUP is not None and signal.getsignal(_HANGUP) is signal.SIG_DFL:
            signal.signal(_HANGUP, _hang_up)


@contextmanager
def answer_interrupts(note: Callable[[str], object]) -> Iterator[None]:
    """Inside, somebody who interrupts is answered in a second, whatever the main thread is busy with.

    What was found is still counted and written; who interrupts three times leaves at once. An interrupt that
    strikes where Python drops exceptions, as in the callbacks of its own imports, comes again a moment later.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _commands.append(threading.Event())
    threading.Thread(target=_answer, args=(reader, note, _commands[-1]), daemon=True).start()
    dropped, sys.unraisablehook = sys.unraisablehook, _again
    try:
        yield
    finally:
        _commands.pop()
        sys.unraisablehook = dropped
        signal.set_wakeup_fd(before)
        os.close(writer)  # which ends the thread


def _again(dropped: sys.UnraisableHookArgs) -> None:
    """An interrupt that Python dropped, once more; nothing else changes."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        main = threading.main_thread().ident
        threading.Timer(_SECONDS_UNTIL_AGAIN, signal.pthread_kill, (main, signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(dropped)


def _answer(reader: int, note: Callable[[str], object], interrupted: threading.Event) -> None:
    times = 0
    while numbers := os.read(reader, 64):
        before, times = times, times + sum(number in SIGNALS for number in numbers)
        interrupted.set()
        if times >= _MOST_INTERRUPTS:
            os._exit(INTERRUPTED)
        if before == 0 < times and not select.select([reader], [], [], _SECONDS_TO_END)[0]:
            note("Stopping: what was found until now is counted and written. Ctrl-C again gives that up.")
    os.close(reader)


def _hang_up(number: int, frame: FrameType | None) -> None:
    """Nobody listens any more: what is said to a terminal that is gone would fail, and the work with it."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(stream).st_mode):
                os.dup2(silence, stream)
    os.close(silence)
    signal.default_int_handler(number, frame)


@contextmanager
def finish_block() -> Iterator[None]:
    """Finish the block inside despite a first interrupt. A second one ends it.

    Where the first time was before, as in the search whose best is counted now, nothing is held back. Signals
    reach the main thread only, so that elsewhere nothing changes.
    """
    is_again = any(each.is_set() for each in _commands)
    if is_again or threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {each: signal.getsignal(each) for each in SIGNALS}

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
