"""Faults other than plain errors (docs/format.md, sections 5 and 6.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from .arithmetic import Decoder
    from .sample import Labels

KINDS = ("class", "confused", "false-alarm", "top")
"""In the order of their numbers in a message; the fault "wrong" has none."""


@dataclass(frozen=True)
class Fault:
    """``kind`` with the classes that it names, or how many guesses it allows."""

    kind: str = "wrong"
    named: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """As the header writes it."""
        return ":".join([self.kind, *map(str, self.named)])

    def possible(self, y: Labels) -> NDArray[np.bool_]:
        """On which examples it can happen."""
        if self.kind in ("wrong", "top"):
            return np.ones(len(y), dtype=bool)
        is_named: NDArray[np.bool_] = y == self.named[0]
        return ~is_named if self.kind == "false-alarm" else is_named

    def distance(self, logits: Tensor, y: Tensor) -> Tensor:
        """How far the logits are from the fault: by how much the right ones exceed the others."""
        if self.kind in ("confused", "false-alarm"):
            seen = self.named[-1]
            others = torch.cat([logits[:, :seen], logits[:, seen + 1 :]], dim=1)
            return others.amax(1) - logits[:, seen]
        label = y[:, None]
        own, others = logits.gather(1, label)[:, 0], logits.scatter(1, label, -torch.inf)
        if self.kind == "top":
            return own - others.topk(self.named[0], dim=1).values[:, -1]
        return own - others.amax(1)

    def guessing(self, classes: int) -> float:
        """How often a class by lot, or K of them, makes this fault."""
        if self.kind in ("confused", "false-alarm"):
            return 1 / classes
        return 1 - (self.named[0] if self.kind == "top" else 1) / classes

    @property
    def claim(self) -> str:
        """What a bound is on, in words."""
        words = {
            "class": "error on class {0}",
            "confused": "share of class {0} that is taken for class {1}",
            "false-alarm": "share of the other classes that is taken for class {0}",
            "top": "share of labels outside the best {0}",
        }
        return words.get(self.kind, "error").format(*self.named)


WRONG = Fault()


def read_fault(text: object, classes: int) -> Fault | None:
    """The fault that a header names; None if there is no such fault with so many classes."""
    if text == WRONG.text:
        return WRONG
    if not isinstance(text, str) or not re.fullmatch(r"[a-z-]+(:(0|[1-9][0-9]{0,4})){1,2}", text):
        return None
    kind, *numbers = text.split(":")
    fault = Fault(kind, tuple(map(int, numbers)))
    if kind not in KINDS or len(numbers) != (2 if kind == "confused" else 1):
        return None
    is_fitting = len({*fault.named}) == len(fault.named) and max(fault.named) < classes
    return fault if is_fitting and (kind != "top" or fault.named[0] >= 1) else None


def decode_fault(decoder: Decoder, classes: int) -> Fault:
    """The fault of a message that has one (section 5)."""
    kind = KINDS[decoder.uniform(len(KINDS))]
    if kind == "top":
        return Fault(kind, (decoder.uniform(classes - 1) + 1,))
    first = decoder.uniform(classes)
    if kind != "confused":
        return Fault(kind, (first,))
    second = decoder.uniform(classes - 1)
    return Fault(kind, (first, second + 1 if second >= first else second))
