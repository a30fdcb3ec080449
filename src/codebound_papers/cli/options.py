"""The options that several verbs of the papers share."""

from pathlib import Path
from typing import Annotated

import typer

from codebound.cli.options import RUN, option

STABILITY = "Noise stability"

_EXAMPLES = "Examples to measure on, drawn at random (default: 1000, fewer for large networks)."
_BIASES = "augmented: part of the weights, as the theory needs; separate: left out, as published."
_SHAPE = "Such as 3x32x32, where no data say it (default: that of the zoo)."
_CLASSES = "Number of classes, where no data say it (default: 10)."
_INITIAL = "Weights before training: adds what is relative to the distance from them."
MARGIN_SHARE = "Share of the sample whose margin may be at most gamma; 0 takes the smallest margin."

Examples = Annotated[int | None, option(_EXAMPLES)]
Biases = Annotated[str, option(_BIASES, STABILITY)]
Initial = Annotated[Path | None, option(_INITIAL, STABILITY)]
ChunkSize = Annotated[int, option("Examples at a time; bounds the memory.", RUN)]
NaturalSeed = Annotated[int, typer.Option(min=0, help="Seed of everything random.", rich_help_panel=RUN)]
InputShape = Annotated[str | None, option(_SHAPE)]
Classes = Annotated[int | None, typer.Option(min=2, help=_CLASSES)]
