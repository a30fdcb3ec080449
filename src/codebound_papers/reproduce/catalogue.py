"""All items of ``codebound reproduce``."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from codebound_papers.reproduce.items import ITEMS

if TYPE_CHECKING:
    from codebound_papers.reproduce.items import Item

PAPERS = ("arora18", "guha23", "shin21")


def known_items() -> dict[str, Item]:
    """The items by their IDs, in the order of their modules, whichever was imported first.

    Every module in the folder ``items`` of a paper registers those it has.
    """
    for paper in PAPERS:
        folder = importlib.import_module(f"codebound_papers.{paper}.items")
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            importlib.import_module(module.name)
    return dict(sorted(ITEMS.items(), key=lambda each: each[1].run.__module__))
