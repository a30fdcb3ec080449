"""The options that several verbs of the papers share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codebound.cli.options import RUN, option

STABILITY = "Noise stability"

Examples = Annotated[
    int | None, option("Examples to measure on, drawn at random (default: 1000, fewer for large networks).")
]
Biases = Annotated[
    str,
    option(
        "augmented: part of the weights, as the theory needs; separate: left out, as published.", STABILITY
    ),
]
Initial = Annotated[
    Path | None,
    option("Weights before training: adds what is relative to the distance from them.", STABILITY),
]
ChunkSize = Annotated[int, option("Examples at a time; bounds the memory.", RUN)]
NaturalSeed = Annotated[int, typer.Option(min=0, help="Seed of everything random.", rich_help_panel=RUN)]
InputShape = Annotated[
    str | None, option("Such as 3x32x32, where no data say it (default: that of the zoo).")
]
Classes = Annotated[
    int | None, typer.Option(min=2, help="Number of classes, where no data say it (default: 10).")
]
