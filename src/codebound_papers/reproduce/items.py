"""Items of ``codebound reproduce``.

To add one: a file with a decorated function in the folder ``items`` of its paper; the first line of its
docstring is the title, the rest what it is about.

Whatever takes long, and whatever needs data, a GPU or files of somebody else, happens inside cells:
``settings.cells.get(name, compute)``. Once they are finished, the function runs on any machine.
"""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from codebound.run.progress import Progress, silent
from codebound_papers.journal import Journal
from codebound_papers.report.figures import Figure, Marks
from codebound_papers.value import one_line

Size = Literal["tiny", "quick", "full"]
"""``full`` has the paper's settings, ``quick`` shows the same in minutes, ``tiny`` is for tests: it takes
seconds and shows nothing but that the item runs."""

Row = Mapping[str, Any]
OUTCOMES = Path(__file__).with_name("outcomes.json")
"""Verdicts and costs of the results that came with codebound, by item; results/reproduction.py writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of an item's run."""

    size: Size = "quick"  # how much of it
    seed: int = 0  # of everything random
    epochs: int | None = None  # most epochs to train for; None: as many as the item says
    device: str = "cpu"  # where tensors live: cpu, cuda, cuda:1, or auto for `compute` to choose
    models: Path | None = None  # folder with pretrained networks of others, as safetensors files; None: none
    cells: Journal = field(default_factory=Journal)  # parts that are finished
    progress: Progress = silent  # told the finished parts, and how a training advances
    deadline: float = math.inf  # moment of time.monotonic after which no further part is begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """Result of an item.

    A table has plain numbers and texts, the same columns in every row; where a paper prints a number, it
    stands in a column ``published`` or ``published_...`` beside ours. Sentences say whether we agree with the
    paper, with the ID of an erratum; deviations, where our settings differ from the published ones.
    """

    tables: Mapping[str, Sequence[Row]]  # by title
    sentences: Iterable[str]
    deviations: Iterable[str] = ()
    points: Mapping[str, Sequence[Row]] = field(default_factory=dict)  # drawn, but too many to print
    figures: Mapping[str, Figure | Marks] = field(default_factory=dict)  # by the stem of their file

    def __post_init__(self) -> None:
        for name in ("sentences", "deviations"):
            object.__setattr__(self, name, tuple(one_line(each) for each in getattr(self, name)))


Run = Callable[[Settings], Reproduction]
Lacks = Callable[[Settings], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Item:
    """Something that can be made again."""

    id: str  # its name on the command line: the paper's figure or table, as in docs/references.md
    title: str  # what it shows
    quick: str  # what the quick run costs, in words
    full: str  # what the full one costs
    # what the paper shows and what is done here: its section in results/reproduction.md
    about: str
    run: Run  # makes it
    lacks: Lacks  # what cannot be had on this machine, with the reason; such rows say "not run"

    @property
    def stem(self) -> str:
        """Its name in file names."""
        return self.id.replace(":", "-")


PAPERS = ("arora18", "guha23", "shin21")
ITEMS: dict[str, Item] = {}


def item(id: str, *, quick: str, full: str, of: str = "", lacks: Lacks | None = None) -> Callable[[Run], Run]:
    """Registers an item; the docstring is its title, and what it is about. ``of``: whose networks it has."""

    def register(function: Run) -> Run:
        title, _, about = (inspect.getdoc(function) or "").partition("\n\n")
        short, long = (f"{cost}; {of}" if of else cost for cost in (quick, full))
        ITEMS[id] = Item(id, title, short, long, about, function, lacks or (lambda _: ()))
        return function

    return register


def list_items() -> dict[str, Item]:
    """The items by their IDs, in the order of their functions' names; the modules ``items`` register them."""
    for paper in PAPERS:
        folder = importlib.import_module(f"codebound_papers.{paper}.items")
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            importlib.import_module(module.name)
    return dict(sorted(ITEMS.items(), key=lambda each: each[1].run.__name__))


AGREE, IN_PART, DISAGREE = "We agree", "We agree in part", "We do not agree"


def verdict(agreed: int, *, of: int, settings: Settings, differs: str = "") -> str:
    """Return the verdict on a statement that was checked in some cases: layers, networks, strengths.

    Where it holds in all of them we agree, where in at least half of them we agree in part. Where in fewer,
    we do not agree only if the run has the published size and length; otherwise the question stays open.
    ``differs`` says what else keeps a run from speaking about the published one.

    >>> [verdict(agreed, of=3, settings=Settings(size="full")) for agreed in (3, 2, 1)]
    ['We agree', 'We agree in part', 'We do not agree']
    >>> verdict(1, of=3, settings=Settings(size="quick"))
    'Open (this run is smaller than the published one)'
    """
    if agreed == of:
        return AGREE
    if 2 * agreed >= of:
        return IN_PART
    words = ["smaller"] * (settings.size != "full") + ["shorter"] * (settings.epochs is not None)
    below = f"this run is {' and '.join(words)} than the published one" if words else ""
    reasons = [reason for reason in (below, differs) if reason]
    return f"Open ({'; '.join(reasons)})" if reasons else DISAGREE
