"""The seam between long work and whoever watches it: a callable, so that libraries never print."""

from typing import Protocol


class Progress(Protocol):
    """Called by long-running functions as they advance; the command line draws a bar from it."""

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        """Reports that ``done`` of ``total`` units are finished; ``note`` is shown beside the bar."""


def silent(done: int, total: int | None, note: str = "") -> None:
    """The default: nobody watches."""
