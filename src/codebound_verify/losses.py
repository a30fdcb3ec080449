"""Losses other than plain errors (docs/format.md, sections 5 and 6.4; docs/format-3.md, the same)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from .arithmetic import Context
from .refusal import Refused

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from .arithmetic import Decoder
    from .sample import Labels

KINDS = ("class", "confused", "false-alarm", "top")
"""In the order of their numbers in a message; the loss "wrong" has none."""
NO_LONGER = {"abstain": "counts errors among the examples that are answered", "cost": "is a mean"}
"""Losses of version 3 that this program refuses: they are not 0 or 1 for every example."""
COST_LIMIT = 15
LITERAL_CLASSES = 19
DISTANCE = "distance"

Costs = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Loss:
    """``kind`` and what it names: classes, a number of allowed guesses, or a cost that is not too much.

    ``costs`` are those of every label, ``spelled`` is their text.
    """

    kind: str = "wrong"
    named: tuple[int, ...] = ()
    spelled: str = ""
    costs: Costs = ()

    @property
    def text(self) -> str:
        """As the header writes it."""
        return ":".join([self.kind, *map(str, self.named), *([self.spelled] if self.spelled else [])])

    @property
    def is_partial(self) -> bool:
        """Return True if it is counted on a part of the examples."""
        return self.kind in ("class", "confused", "false-alarm")

    def possible(self, y: Labels) -> NDArray[np.bool_]:
        """Mask of the examples that it is about."""
        if not self.is_partial:
            return np.ones(len(y), dtype=bool)
        is_named: NDArray[np.bool_] = y == self.named[0]
        return ~is_named if self.kind == "false-alarm" else is_named

    def distances(self, logits: Tensor, y: Tensor) -> Tensor:
        """Distance of the logits from a loss of 1."""
        label = y[:, None]
        own, others = logits.gather(1, label)[:, 0], logits.scatter(1, label, -torch.inf)
        if self.kind in ("confused", "false-alarm"):
            seen = self.named[-1]
            rest = torch.cat([logits[:, :seen], logits[:, seen + 1 :]], dim=1)
            return rest.amax(1) - logits[:, seen]
        if self.kind == "top":
            return own - others.topk(self.named[0], dim=1).values[:, -1]
        if self.costs:  # the best class that does not cost too much, less the best one that does
            is_dear = (torch.tensor(self.costs, device=logits.device) > self.named[0])[y]
            cheap = torch.where(is_dear, -torch.inf, logits).amax(1)
            return cheap - torch.where(is_dear, logits, -torch.inf).amax(1)
        return own - others.amax(1)

    def guessing(self, classes: int) -> float:
        """Rate of this loss for a class at random, or K; for costs, of the best class for all."""
        if self.kind in ("confused", "false-alarm"):
            return 1 / classes
        if self.costs:
            by_class = zip(*self.costs, strict=True)
            return int(min(sum(cost > self.named[0] for cost in each) for each in by_class)) / classes
        return 1 - (self.named[0] if self.kind == "top" else 1) / classes

    @property
    def claim(self) -> str:
        """Quantity that a bound is on, in words."""
        words = {
            "class": "error on class {0}",
            "confused": "share of class {0} that is taken for class {1}",
            "false-alarm": "share of the other classes that is taken for class {0}",
            "top": "share of labels outside the best {0}",
            "cost-above": "share of predictions that cost more than {0}",
        }
        return words.get(self.kind, "error").format(*self.named)


WRONG = Loss()


def read_loss(text: object, classes: int, *, has_new: bool) -> Loss | None:
    """The loss that a header names; None if there is no such loss with so many classes."""
    if text == WRONG.text:
        return WRONG
    if not isinstance(text, str):
        return None
    kind, *words = text.split(":")
    if kind in NO_LONGER and has_new:
        raise Refused(f"Loss: the loss {text:.80} {NO_LONGER[kind]}, which this program no longer checks.")
    if kind == "cost-above":
        return _cost_above(words, classes) if has_new else None
    if not re.fullmatch(r"[a-z-]+(:(0|[1-9][0-9]{0,4})){1,2}", text):
        return None
    loss = Loss(kind, tuple(map(int, words)))
    if kind not in KINDS or len(words) != (2 if kind == "confused" else 1):
        return None
    is_fitting = len({*loss.named}) == len(loss.named) and max(loss.named) < classes
    return loss if is_fitting and (kind != "top" or loss.named[0] >= 1) else None


def _cost_above(words: list[str], classes: int) -> Loss | None:
    costs = _read_costs(words[1], classes) if len(words) == 2 else None
    if costs is None:
        return None
    limits = {str(limit): limit for limit in range(max(map(max, costs)))}
    named = limits.get(words[0])
    return None if named is None else Loss("cost-above", (named,), spelled=words[1], costs=costs)


def _read_costs(text: str, classes: int) -> Costs | None:
    """The costs of a header, if they are those of so many classes, of which a damaged header has none."""
    if classes < 2:
        return None
    if text == DISTANCE:
        return _distances(classes) if classes <= COST_LIMIT + 1 else None
    rows = text.split(",")
    if classes > LITERAL_CLASSES or len(rows) != classes:
        return None
    if not all(re.fullmatch("[0-9a-f]+", row) and len(row) == classes for row in rows):
        return None
    costs = tuple(tuple(int(digit, 16) for digit in row) for row in rows)
    return costs if any(map(any, costs)) and not any(costs[y][y] for y in range(classes)) else None


def _distances(classes: int) -> Costs:
    return tuple(tuple(abs(label - other) for other in range(classes)) for label in range(classes))


def decode_loss(decoder: Decoder, classes: int) -> Loss:
    """The loss of a message that has one (section 5)."""
    kind = KINDS[decoder.uniform(len(KINDS))]
    if kind == "top":
        return Loss(kind, (decoder.uniform(classes - 1) + 1,))
    first = decoder.uniform(classes)
    if kind != "confused":
        return Loss(kind, (first,))
    second = decoder.uniform(classes - 1)
    return Loss(kind, (first, second + 1 if second >= first else second))


def decode_new_loss(decoder: Decoder, classes: int) -> Loss:
    """The one of those that version 3 has and that is still checked (docs/format-3.md, section 5)."""
    number = decoder.uniform(4)
    if number == 3:
        raise Refused("Message: a loss of kind 3 is reserved.")
    if number != 1:
        what = NO_LONGER["cost" if number else "abstain"]
        raise Refused(f"Message: a loss of kind {number} {what}, which this program no longer checks.")
    spelled, costs = _decode_costs(decoder, classes)
    limit = decoder.uniform(max(map(max, costs)))
    return Loss("cost-above", (limit,), spelled=spelled, costs=costs)


def _decode_costs(decoder: Decoder, classes: int) -> tuple[str, Costs]:
    is_literal = decoder.bit()
    most = LITERAL_CLASSES if is_literal else COST_LIMIT + 1
    if classes > most:
        raise Refused(f"Message: there are costs for {classes} classes; {most} at most are allowed.")
    if not is_literal:
        return DISTANCE, _distances(classes)
    largest = decoder.uniform(COST_LIMIT) + 1
    symbols = Context(largest + 1)
    costs = [[0] * classes for _ in range(classes)]
    for label in range(classes):
        for other in range(classes):
            if other != label:
                costs[label][other] = symbols.read(decoder)
    if max(map(max, costs)) < largest:
        raise Refused(f"Message: no cost is {largest}, which it says is the largest.")
    return ",".join("".join(f"{cost:x}" for cost in row) for row in costs), tuple(map(tuple, costs))
