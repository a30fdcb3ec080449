"""Options that several commands share."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from codebound.errors import UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from codebound.engine.job import Engine

BASE_HELP = (
    "Weights of the same architecture that were neither trained nor selected on the sample; the last layer "
    "may be missing or of another size. Only the difference to them is coded."
)
BASE_SAYS_HELP = "Where the base comes from, in words: part of the certificate."

PARALLEL = "Large samples"
"""Panel of the help page."""

Workers = Annotated[
    int | None, typer.Option(help="Processes (default: one for each core).", rich_help_panel=PARALLEL)
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Of a Ray cluster, such as auto or host:6379 (default: start Ray here).",
        rich_help_panel=PARALLEL,
    ),
]


def given_engine(
    kind: str | None, workers: int | None, address: str | None
) -> AbstractContextManager[Engine | None]:
    """The engine that was asked for, if any."""
    from codebound.engine.processes import open_engine

    if kind is None:
        if workers is not None or address is not None:
            raise UsageError("--workers and --address belong to --engine: give it too.")
        return nullcontext()
    return open_engine(kind, workers=workers, address=address)
