"""Tables and figures of the papers, made again: one file per item, each with its command and its costs."""

from codebound.reproduce import sketch_phase
from codebound.reproduce.cells import Cells
from codebound.reproduce.item import ITEMS, Item, Reproduction, Settings, Size, item
from codebound.reproduce.run import Finished, find_item, reproduce

__all__ = [
    "ITEMS",
    "Cells",
    "Finished",
    "Item",
    "Reproduction",
    "Settings",
    "Size",
    "find_item",
    "item",
    "reproduce",
    "sketch_phase",
]
