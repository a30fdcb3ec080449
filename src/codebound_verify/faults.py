"""Faults other than plain errors (docs/format.md, sections 5 and 6.4; docs/format-3.md, the same)."""

from __future__ import annotations

import itertools
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
"""Kinds of faults in the order of their numbers in a message; the fault "wrong" has none."""
GAPS = (
    *("0.01", "0.02", "0.03", "0.05", "0.07", "0.1", "0.15", "0.2", "0.25", "0.3", "0.4", "0.5"),
    *("0.6", "0.7", "0.8", "0.9", "1", "1.25", "1.5", "1.75", "2", "2.5", "3", "3.5", "4", "5", "6", "7"),
    *("8", "10", "12", "15"),
)
"""Gaps between the two largest logits up to which a network may abstain."""
COST_LIMIT = 15
LITERAL_CLASSES = 19
DISTANCE = "distance"

Costs = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Fault:
    """``kind`` and what it names: classes, a number of allowed guesses, or a cost that is not too much.

    ``gap`` is that of an abstaining network, ``costs`` are those of every label, ``spelled`` is their text.
    """

    kind: str = "wrong"
    named: tuple[int, ...] = ()
    gap: str = ""
    spelled: str = ""
    costs: Costs = ()

    @property
    def text(self) -> str:
        """Text of the fault, as the header writes it."""
        return ":".join([self.kind, *map(str, self.named), *filter(None, (self.gap, self.spelled))])

    @property
    def largest(self) -> int:
        """Largest cost, of which mean costs are shares."""
        return max(map(max, self.costs))

    @property
    def ladder(self) -> list[tuple[int, int]]:
        """The costs that occur, upwards from 0: each as the one below it and the step up to it."""
        rungs = sorted({0}.union(*self.costs))
        return [(low, high - low) for low, high in itertools.pairwise(rungs)]

    @property
    def is_partial(self) -> bool:
        """Return True if it is counted on a part of the examples."""
        return self.kind in ("class", "confused", "false-alarm")

    def possible(self, y: Labels) -> NDArray[np.bool_]:
        """Mask of the examples on which it can happen."""
        if not self.is_partial:
            return np.ones(len(y), dtype=bool)
        is_named: NDArray[np.bool_] = y == self.named[0]
        return ~is_named if self.kind == "false-alarm" else is_named

    def distances(self, logits: Tensor, y: Tensor) -> Tensor:
        """Distances of the logits from all that is counted, one column each.

        For ``abstain`` that is: neither right nor silent, not kept, not right; for ``cost``: a cost above 0,
        above 1, ..
        """
        label = y[:, None]
        own, others = logits.gather(1, label), logits.scatter(1, label, -torch.inf)
        if self.kind in ("confused", "false-alarm"):
            seen = self.named[-1]
            rest = torch.cat([logits[:, :seen], logits[:, seen + 1 :]], dim=1)
            return rest.amax(1, keepdim=True) - logits[:, seen : seen + 1]
        if self.kind == "top":
            return own - others.topk(self.named[0], dim=1).values[:, -1:]
        margin = own - others.amax(1, keepdim=True)
        if self.kind == "abstain":
            two, gap = logits.topk(2, dim=1).values, float(self.gap)
            lead = two[:, :1] - two[:, 1:]
            right = margin - gap
            return torch.cat([torch.maximum(right, gap - lead), lead - gap, right], dim=1)
        if self.costs:
            limits = self.named if self.kind == "cost-above" else tuple(range(self.largest))
            return torch.cat([self._under(limit, logits, y) for limit in limits], dim=1)
        return margin

    def _under(self, limit: int, logits: Tensor, y: Tensor) -> Tensor:
        """The best class that does not cost too much, less the best one that does."""
        is_dear = (torch.tensor(self.costs, device=logits.device) > limit)[y]
        cheap = torch.where(is_dear, -torch.inf, logits).amax(1, keepdim=True)
        return cheap - torch.where(is_dear, logits, -torch.inf).amax(1, keepdim=True)

    def guessing(self, classes: int) -> float:
        """Rate of this fault for a class at random, or K; for costs, of the best class for all."""
        if self.kind in ("confused", "false-alarm"):
            return 1 / classes
        if self.costs:
            by_class = list(zip(*self.costs, strict=True))
            if self.kind == "cost":
                return int(min(sum(each) for each in by_class)) / (self.largest * classes)
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
            "abstain": "error, where it does not abstain,",
            "cost-above": "share of predictions that cost more than {0}",
            "cost": "mean cost, as a share of the largest,",
        }
        return words.get(self.kind, "error").format(*self.named)


WRONG = Fault()


def read_fault(text: object, classes: int, *, has_new: bool) -> Fault | None:
    """The fault that a header names; None if there is no such fault with so many classes."""
    if text == WRONG.text:
        return WRONG
    if not isinstance(text, str):
        return None
    kind, *words = text.split(":")
    if kind in ("abstain", "cost-above", "cost"):
        return _read_new(kind, words, classes) if has_new else None
    if not re.fullmatch(r"[a-z-]+(:(0|[1-9][0-9]{0,4})){1,2}", text):
        return None
    fault = Fault(kind, tuple(map(int, words)))
    if kind not in KINDS or len(words) != (2 if kind == "confused" else 1):
        return None
    is_fitting = len({*fault.named}) == len(fault.named) and max(fault.named) < classes
    return fault if is_fitting and (kind != "top" or fault.named[0] >= 1) else None


def _read_new(kind: str, words: list[str], classes: int) -> Fault | None:
    if kind == "abstain":
        return Fault(kind, gap=words[0]) if len(words) == 1 and words[0] in GAPS else None
    if len(words) != (2 if kind == "cost-above" else 1):
        return None
    costs = _spelled_costs(words[-1], classes)
    if costs is None:
        return None
    fault = Fault(kind, spelled=words[-1], costs=costs)
    if kind == "cost":
        return fault
    limits = {str(limit): limit for limit in range(fault.largest)}
    return Fault(kind, (limits[words[0]],), spelled=words[-1], costs=costs) if words[0] in limits else None


def _spelled_costs(text: str, classes: int) -> Costs | None:
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


def decode_new_fault(decoder: Decoder, classes: int) -> Fault:
    """One of those that version 3 has (docs/format-3.md, section 5)."""
    number = decoder.uniform(4)
    if number == 0:
        return Fault("abstain", gap=GAPS[decoder.uniform(len(GAPS))])
    if number == 3:
        raise Refused("Message: a fault of kind 3 is reserved.")
    spelled, costs = _decode_costs(decoder, classes)
    if number == 2:
        return Fault("cost", spelled=spelled, costs=costs)
    limit = decoder.uniform(max(map(max, costs)))
    return Fault("cost-above", (limit,), spelled=spelled, costs=costs)


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
