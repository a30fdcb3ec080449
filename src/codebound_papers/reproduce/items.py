"""What an item of ``codebound reproduce`` is. To add one: a file with a decorated function
in the folder ``items`` of its paper.

Whatever takes long, and whatever needs data, a GPU or files of somebody else, happens inside cells:
``settings.cells.get(name, compute)``. Journal may be finished on one machine and shown on another, so that
the function runs with PyTorch, numpy and safetensors alone, and needs nothing else once they are finished.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from codebound.progress import Progress, silent
from codebound_papers.journal import Journal
from codebound_papers.report.figures import Figure, Marks

Size = Literal["tiny", "quick", "full"]
"""``full`` has the paper's settings, ``quick`` shows the same in minutes, ``tiny`` is for tests: it takes
seconds and shows nothing but that the item runs."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an item is run."""

    size: Size = "quick"  # how much of it
    seed: int = 0  # of everything random
    epochs: int | None = None  # most epochs to train for; None: as many as the item says
    device: str = "cpu"  # where tensors live: cpu, cuda, cuda:1, or auto for `compute` to choose
    # folder with pretrained networks of others, as safetensors files; None: there is none
    models: Path | None = None
    cells: Journal = field(default_factory=Journal)  # parts that are finished
    progress: Progress = silent  # told the finished parts, and how a training advances
    deadline: float = math.inf  # moment of time.monotonic after which no further part is begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """What an item found.

    Attributes:
        tables: Rows by title: plain numbers and texts, the same columns in every row of a table. Where a
            paper prints a number, it stands in a column ``published`` or ``published_...`` beside ours.
        sentences: Whether we agree with the paper; where not, the reason, with the ID of the erratum.
        deviations: Where our settings differ from the published ones.
        points: Rows by title that are drawn but too many to print.
        figures: By the stem of their file.
    """

    tables: Mapping[str, Sequence[Row]]
    sentences: Sequence[str]
    deviations: Sequence[str] = ()
    points: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    figures: Mapping[str, Figure | Marks] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """Something that can be made again."""

    id: str  # its name on the command line: the paper's figure or table, as in docs/references.md
    title: str  # what it shows
    quick: str  # what the quick run costs, in words
    full: str  # what the full one costs
    # what the paper shows and what is done here, in Markdown: the text of its section in
    # results/reproduction.md
    about: str
    run: Callable[[Settings], Reproduction]  # makes it
    # what cannot be had on this machine, with the reason; such rows say "not run"
    lacks: Callable[[Settings], Sequence[str]]
    # whether other items find the networks that it trains: of several items it comes first
    trains: bool = False

    @property
    def stem(self) -> str:
        """Its name in file names."""
        return self.id.replace(":", "-")

    @property
    def family(self) -> str:
        """What its name begins with: the letter of its paper."""
        return re.split("[-:]", self.id)[0]


PAPERS = ("arora18", "guha23", "shin21")
ITEMS: dict[str, Item] = {}

Run = Callable[[Settings], Reproduction]


def nothing(settings: Settings) -> Sequence[str]:
    """Of an item that needs nothing but this library and known datasets."""
    return ()


def item(
    id: str,
    *,
    title: str,
    quick: str,
    full: str,
    lacks: Callable[[Settings], Sequence[str]] = nothing,
    trains: bool = False,
) -> Callable[[Run], Run]:
    """Registers an item; the docstring of the function says what it is about."""

    def register(function: Run) -> Run:
        ITEMS[id] = Item(id, title, quick, full, inspect.getdoc(function) or "", function, lacks, trains)
        return function

    return register


def known_items() -> dict[str, Item]:
    """The items by their IDs: paper by paper, its experiments, figures and tables.

    Every module in the folder ``items`` of a paper registers those it has; the names of their functions have
    the order.
    """
    for paper in PAPERS:
        folder = importlib.import_module(f"codebound_papers.{paper}.items")
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            importlib.import_module(module.name)
    return dict(sorted(ITEMS.items(), key=lambda each: each[1].run.__name__))
