"""The seam between long work and whoever watches it: a callable; and the bar that people see."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from html import escape
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

P = ParamSpec("P")
T = TypeVar("T")
_drawn: list[str] = []  # the bar on the terminal: there is room for one
_SECONDS_BETWEEN = 0.5  # two looks of a notebook


class Progress(Protocol):
    """Called by long-running functions as they advance; the command line draws a bar from it."""

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        """Reports that ``done`` of ``total`` units are finished; ``note`` is shown beside the bar."""


def silent(done: int, total: int | None, note: str = "") -> None:
    """The default: nobody watches."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Receiver of the notes of a command, and of the progress of each step while it lasts."""

    note: Callable[[str], object] = lambda text: None
    bar: Callable[[str], AbstractContextManager[Progress]] = lambda step: nullcontext(silent)


NOBODY = Listener()


def show_progress(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, with a bar for people where ``progress`` is not given."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if "progress" in kwargs:
            return function(*args, **kwargs)
        with open_bar(function.__name__) as progress:
            kwargs["progress"] = progress
            return function(*args, **kwargs)

    return run


def open_bar(what: str) -> AbstractContextManager[Progress]:
    """A bar for whoever sits in front of a terminal or a notebook; nothing for scripts without one."""
    shell = sys.modules.get("IPython")
    if shell is not None and "IPKernelApp" in getattr(shell.get_ipython(), "config", {}):
        return _in_notebook(what)
    return progress_bar(what)


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[Progress]:
    """A progress callable that draws a bar on stderr, and nothing when stderr is no terminal.

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
    """A line below the cell that is written again and again, and goes at the end."""
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
