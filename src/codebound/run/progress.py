"""Progress of long work, its bar, and interrupts by signals.

Ctrl-C, SIGTERM and SIGHUP end work in order: the best is kept, what is nearly done is finished.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import wraps
from html import escape
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

P = ParamSpec("P")
T = TypeVar("T")
_drawn: list[str] = []  # the bar on the terminal: there is room for one
_SECONDS_BETWEEN = 0.5  # two looks of a notebook


class Progress(Protocol):
    """Called by long-running functions as they advance; the command line draws a bar from it."""

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        """Report that ``done`` of ``total`` units are finished; ``note`` is shown beside the bar."""


def silent(done: int, total: int | None, note: str = "") -> None:
    """The default: nobody watches."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Receiver of notes and progress of a command."""

    note: Callable[[str], object] = lambda text: None
    bar: Callable[[str], AbstractContextManager[Progress]] = lambda step: nullcontext(silent)


NOBODY = Listener()


def show_progress(function: Callable[P, T]) -> Callable[P, T]:
    """Add a bar to a function where ``progress`` is not given."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if "progress" in kwargs:
            return function(*args, **kwargs)
        with open_bar(function.__name__) as progress:
            kwargs["progress"] = progress
            return function(*args, **kwargs)

    return run


def open_bar(what: str) -> AbstractContextManager[Progress]:
    """Open a bar in a terminal or a notebook; elsewhere nothing."""
    shell = sys.modules.get("IPython")
    if shell is not None and "IPKernelApp" in getattr(shell.get_ipython(), "config", {}):
        return _in_notebook(what)
    return progress_bar(what)


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[Progress]:
    """Draw a bar on stderr, if that is a terminal.

    The bar and the time that is left are those of the step that runs; the clock is that of all steps.
    """
    if quiet or _drawn or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    begun = time.monotonic()

    class _Clock(TextColumn):
        def render(self, task: Any) -> Any:
            self.text_format = clock(time.monotonic() - begun)
            return super().render(task)

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        _Clock(""),
        TimeRemainingColumn(compact=True),
        TextColumn(
            "{task.fields[note]}",
            markup=False,  # a name of a file or of a class is no markup
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        ),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        task = bar.add_task(what, total=None, note="")

        def advance(done: int, total: int | None, note: str = "") -> None:
            seen = bar.tasks[0]
            if total != seen.total or done < seen.completed:  # another step begins
                bar.reset(task, total=total)
            bar.update(task, completed=done, total=total, note=note)

        _drawn.append(what)
        try:
            yield advance
        finally:
            _drawn.pop()


@contextmanager
def _in_notebook(what: str) -> Iterator[Progress]:
    """Rewrite a line below the cell of a notebook."""
    from IPython.display import HTML, display

    begun = seen = time.monotonic()
    line = display(HTML(f"<span>{escape(what)}</span>"), display_id=True)  # a bare name may be that of a file

    def advance(done: int, total: int | None, note: str = "") -> None:
        nonlocal seen
        now = time.monotonic()
        if now - seen > _SECONDS_BETWEEN:
            seen = now
            share = f" {done / total:.0%}" if total else ""
            line.update(HTML(escape(f"{what}{share} {clock(now - begun)} {note}")))

    try:
        yield advance
    finally:
        line.update(HTML(""))


def clock(seconds: float) -> str:
    """A time as clocks show it.

    Example:
        >>> clock(3725.9)
        '1:02:05'
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


INTERRUPTED = 130
"""Exit status of a program that somebody has interrupted."""
_MOST_INTERRUPTS = 3
_SECONDS_TO_END = 1.0
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
    """Answer an interrupt within a second, whatever the main thread does.

    What was found is still counted and written; who interrupts three times leaves at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _commands.append(threading.Event())
    threading.Thread(target=_answer, args=(reader, note, _commands[-1]), daemon=True).start()
    try:
        yield
    finally:
        _commands.pop()
        signal.set_wakeup_fd(before)
        os.close(writer)  # which ends the thread


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
    """Interrupt, and send output nowhere: writing to a closed terminal would fail."""
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
