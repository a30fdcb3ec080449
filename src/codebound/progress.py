"""The seam between long work and whoever watches it: a callable, so that libraries never print."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    """Called by long-running functions as they advance; the command line draws a bar from it."""

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        """Reports that ``done`` of ``total`` units are finished; ``note`` is shown beside the bar."""


def silent(done: int, total: int | None, note: str = "") -> None:
    """The default: nobody watches."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Who follows a command.

    Attributes:
        note: Told a line for people.
        bar: Gives, for as long as a step of that name lasts, what is told how it advances.
    """

    note: Callable[[str], object] = lambda text: None
    bar: Callable[[str], AbstractContextManager[Progress]] = lambda step: nullcontext(silent)


NOBODY = Listener()
