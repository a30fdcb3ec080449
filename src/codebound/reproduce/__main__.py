"""``python -m codebound.reproduce ITEM``: the long part of an item, where only PyTorch, numpy and safetensors
are installed.

``codebound reproduce ITEM`` with the same options, in the same folder and on any machine, then finds every
part finished and writes tables and figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from codebound.errors import CodeboundError, UsageError
from codebound.reproduce.run import compute

_SECONDS_BETWEEN_LINES = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Finishes the parts of one item; 0 done, 1 failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m codebound.reproduce", description="Compute the parts of an item, without drawing it."
    )
    parser.add_argument("item", help="such as S-Tab1; `codebound reproduce list` shows all")
    parser.add_argument("--out", type=Path, required=True, help="folder; an interrupted run continues in it")
    parser.add_argument("--full", dest="size", action="store_const", const="full", default="quick")
    parser.add_argument("--tiny", dest="size", action="store_const", const="tiny", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="train for fewer epochs than the item says")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", type=Path, help="folder with pretrained networks")
    given = parser.parse_args(arguments)
    try:
        compute(
            given.item,
            given.out,
            size=given.size,
            seed=given.seed,
            epochs=given.epochs,
            device=given.device,
            models=given.models,
            progress=_Lines(),
        )
    except CodeboundError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2 if isinstance(error, UsageError) else 1
    sys.stdout.write(f"Every part is finished: {given.out}\n")
    return 0


class _Lines:
    """A line now and then, which a log keeps better than a bar."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        if (now := time.monotonic()) - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            sys.stderr.write(f"{done}{'' if total is None else f'/{total}'} {note}\n")


if __name__ == "__main__":
    raise SystemExit(main())
