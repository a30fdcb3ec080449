"""``python -m codebound_papers.reproduce ITEM ...``: the long part of items, where only PyTorch, numpy and
safetensors are installed.

``codebound reproduce ITEM`` with the same options then finds every part finished and writes what it shows.
"""

import argparse
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

from codebound.run.errors import CodeboundError, UsageError
from codebound_papers.journal import OutOfTimeError
from codebound_papers.reproduce import help_texts
from codebound_papers.reproduce.items import Settings
from codebound_papers.reproduce.run import compute, find_items

_SECONDS_BETWEEN_LINES = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Finishes the parts of items; 0 done or out of time, 1 failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m codebound_papers.reproduce",
        description="Compute the parts of items, without drawing them.",
    )
    add, shown = parser.add_argument, "or all; `codebound reproduce list` shows them"
    add("items", nargs="+", metavar="ITEM", help=f"{help_texts.ITEM}, a family such as G, {shown}")
    add("--out", type=Path, required=True, help=help_texts.OUT)
    add("--full", dest="size", action="store_const", const="full", default="quick", help=help_texts.FULL)
    add("--tiny", dest="size", action="store_const", const="tiny", help=argparse.SUPPRESS)
    add("--seed", type=int, default=0)
    add("--epochs", type=int, help=help_texts.EPOCHS)
    add("--device", default="auto")
    add("--models", type=Path, help=help_texts.MODELS)
    add("--deadline", type=float, default=math.inf, help=help_texts.DEADLINE)
    given = parser.parse_args(arguments)
    chosen = {name: getattr(given, name) for name in ("size", "seed", "epochs", "device", "models")}
    settings = Settings(**chosen, deadline=time.monotonic() + given.deadline)
    left, failed = [], []
    try:
        for item in find_items(given.items):
            try:
                _, cells = compute(item.id, given.out, replace(settings, progress=_Lines(item.id)))
                if missing := cells.left:
                    left.append(item.id)
                    sys.stdout.write(f"{item.id}: the deadline has passed before {'; '.join(missing)}.\n")
                else:
                    sys.stdout.write(f"{item.id}: every part is finished.\n")
            except OutOfTimeError as reason:
                left.append(item.id)
                sys.stdout.write(f"{item.id}: {reason}\n")
            except UsageError:
                raise
            except CodeboundError as error:  # of one network: other items may have others
                failed.append(item.id)
                sys.stderr.write(f"Error: {item.id}: {error}\n")
            sys.stdout.flush()
    except UsageError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    if left:
        sys.stdout.write(f"Left, for the same command: {' '.join(left)}\n")
    return 1 if failed else 0


class _Lines:
    """A line now and then, which a log keeps better than a bar."""

    def __init__(self, item: str) -> None:
        self._item, self._last = item, 0.0

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        if (now := time.monotonic()) - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            sys.stderr.write(f"{self._item}: {done}{'' if total is None else f'/{total}'} {note}\n")


if __name__ == "__main__":
    raise SystemExit(main())
