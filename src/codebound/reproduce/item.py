"""What an item of ``codebound reproduce`` is. To add one: a file here with a decorated function, imported
in ``__init__.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from codebound.reproduce.cells import Cells

Size = Literal["tiny", "quick", "full"]
"""``tiny`` takes seconds and shows nothing but that the item runs: it is for tests."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an item is run.

    Attributes:
        size: How much of it.
        seed: Of everything random.
        device: Where tensors live.
        cells: Parts that are finished; whatever takes long goes through them.
    """

    size: Size = "quick"
    seed: int = 0
    device: str = "cpu"
    cells: Cells = field(default_factory=Cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """What an item found; it depends on size, seed and device alone.

    Attributes:
        tables: Rows by title: plain numbers and texts, the same columns in every row of a table. Where a
            paper prints a number, it stands in a column ``published`` or ``published_...`` beside ours.
        sentences: Whether we agree with the paper; where not, the reason, with the ID of the erratum.
        deviations: Where our settings differ from the published ones.
        points: Rows by title that are drawn but too many to print.
        figures: SVG documents by the stem of their file.
    """

    tables: Mapping[str, Sequence[Row]]
    sentences: Sequence[str]
    deviations: Sequence[str] = ()
    points: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """Something that can be made again.

    Attributes:
        id: Its name on the command line, ``paper:what``.
        title: What it shows.
        quick: What the quick run costs, in words.
        full: What the full one costs.
        run: Makes it.
    """

    id: str
    title: str
    quick: str
    full: str
    run: Callable[[Settings], Reproduction]

    @property
    def stem(self) -> str:
        """Its name in file names."""
        return self.id.replace(":", "-")


ITEMS: dict[str, Item] = {}

Run = Callable[[Settings], Reproduction]


def item(id: str, *, title: str, quick: str, full: str) -> Callable[[Run], Run]:
    """Registers an item."""

    def register(function: Run) -> Run:
        ITEMS[id] = Item(id, title, quick, full, function)
        return function

    return register
