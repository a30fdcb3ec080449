"""What counts as a fault: a question with a yes or no for each example, or a bounded cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from codebound.errors import DataError, UsageError
from codebound.scores import margins

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.data.dataset import Dataset

_LOW = "0.01 0.02 0.03 0.05 0.07 0.1 0.15 0.2 0.25 0.3 0.4 0.5 0.6 0.7 0.8 0.9"
_HIGH = "1 1.25 1.5 1.75 2 2.5 3 3.5 4 5 6 7 8 10 12 15"
THRESHOLDS = (*_LOW.split(), *_HIGH.split())
"""By how much the best score has to exceed the second, so that a network does not abstain: five bits."""
MOST_COST = 15
MOST_CLASSES = 19  # of a matrix of costs
DISTANCE = "distance"
_NUMBERS = {"wrong": 0, "class": 1, "confused": 2, "false-alarm": 1, "top": 1}
_MEANINGS = (
    "wrong (any error), class:C (errors on examples of class C), confused:A:B (class A taken for B), "
    "false-alarm:C (class C seen where it is not), top:K (label not among the K best guesses), abstain:T "
    "(wrong although the best score exceeds the second by more than T), cost:COSTS (the mean cost) and "
    "cost-above:L:COSTS, with COSTS distance or a digit 0-9a-f for each label and class such as "
    "01,50; for two classes missed and false-alarm (1 is the alarm); for values residual:TAU"
)
_FOR_TWO_CLASSES = {"missed": "class:1", "false-alarm": "class:0"}
_SAYS = {
    "wrong": "errs on at most {share} of new data",
    "class": "errs on at most {share} of new data of class {0}",
    "confused": "takes at most {share} of new data of class {0} for class {1}",
    "false-alarm": "sees class {0} in at most {share} of new data of other classes",
    "top": "misses the label with its {0} best guesses on at most {share} of new data",
    "abstain": "errs on at most {share} of the new data that it does not abstain from",
    "cost-above": "causes a cost above {0} on at most {share} of new data",
    "cost": "costs on average at most {share} of the largest cost on new data",
    "residual": "is off by more than {detail} on at most {share} of new data",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault, and the examples that it can happen on.

    It is counted on the examples of one class, or of the other classes, where it names one: the bound is then
    about new data of that class, and n is the number of such examples. They are independent draws from the
    distribution of their class, so that every bound applies as it is.

    Attributes:
        kind: ``wrong``, ``class``, ``confused``, ``false-alarm``, ``top``, ``abstain``, ``cost-above``,
            ``cost`` or ``residual``.
        numbers: The classes it names, how many guesses are allowed, the index of a threshold, or the cost
            that is not too much.
        detail: What each class costs where another is predicted, or how far a value may be off, as text.
    """

    kind: str = "wrong"
    numbers: tuple[int, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        numbers = [THRESHOLDS[self.numbers[0]]] if self.kind == "abstain" else map(str, self.numbers)
        return ":".join((self.kind, *numbers, *([self.detail] if self.detail else [])))

    @property
    def is_new(self) -> bool:
        """Whether files had no word for it before version 3."""
        return self.kind in ("abstain", "cost-above", "cost")

    @property
    def has_part(self) -> bool:
        """Whether it can happen on a part of the examples only."""
        return self.kind in ("class", "confused", "false-alarm")

    @property
    def threshold(self) -> float:
        """By how much the best score has to exceed the second, so that a network does not abstain."""
        return float(THRESHOLDS[self.numbers[0]])

    def check(self, classes: int) -> None:
        """Refuses a fault that cannot happen with so many classes."""
        if self.kind == "residual":
            raise UsageError(
                f"the fault {self} is one of predicted values, not of classes: seal examples with values "
                "(codebound holdout), or use PickToLearn(tau=...)."
            )
        if self.detail:
            matrix = self.matrix(classes)
            largest = max(map(max, matrix))
            if self.numbers and self.numbers[0] >= largest:
                raise UsageError(
                    f"no cost is above {self.numbers[0]}: the largest is {largest}. Name a smaller limit."
                )
            return
        if self.kind == "abstain":
            return
        least, most = (1, classes - 1) if self.kind == "top" else (0, classes - 1)
        if any(not least <= number <= most for number in self.numbers):
            raise UsageError(
                f"the fault {self} does not fit {classes} classes: its numbers go from {least} to {most}."
            )

    def matrix(self, classes: int) -> tuple[tuple[int, ...], ...]:
        """What each predicted class costs, label by label.

        Raises:
            UsageError: The costs are for another number of classes, or out of range.
        """
        if self.detail == DISTANCE:
            rows = tuple(tuple(abs(y - j) for j in range(classes)) for y in range(classes))
        else:
            rows = tuple(tuple(int(digit, 16) for digit in row) for row in self.detail.split(","))
        if (
            len(rows) != classes
            or any(len(row) != classes for row in rows)
            or any(rows[y][y] for y in range(classes))
        ):
            raise UsageError(
                f"costs for {classes} classes are as many rows, one for each label, separated by commas and "
                f"of one digit for each class, with 0 for the label itself. Got {self.detail!r:.60}."
            )
        most_classes = MOST_COST + 1 if self.detail == DISTANCE else MOST_CLASSES
        if classes > most_classes or not 1 <= max(map(max, rows)) <= MOST_COST:
            raise UsageError(
                f"costs go from 0 to 1 .. {MOST_COST}, for at most {MOST_CLASSES} classes ({MOST_COST + 1} "
                f"for {DISTANCE}). Got {self.detail!r:.60} for {classes}."
            )
        return rows

    def largest_cost(self, classes: int) -> int:
        """The largest cost, which a mean cost is divided by; 1 for what is no cost."""
        return max(map(max, self.matrix(classes))) if self.kind == "cost" else 1

    def costs(self, classes: int) -> tuple[int, ...]:
        """The costs above 0 that there are, from small to large."""
        return tuple(sorted({cost for row in self.matrix(classes) for cost in row} - {0}))

    def is_counted(self, labels: Tensor) -> Tensor:
        """Which examples it can happen on."""
        if self.kind in ("class", "confused"):
            return labels == self.numbers[0]
        if self.kind == "false-alarm":
            return labels != self.numbers[0]
        return torch.ones_like(labels, dtype=torch.bool)

    def lead(self, logits: Tensor, labels: Tensor) -> Tensor:
        """How far each example is from the fault, in units of the scores; it happens at 0 and below.

        Ties, NaN and infinities are faults.
        """
        return self.leads(logits, labels)[:, 0]

    def leads(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The leads of all that is counted, one column each (docs/format-3.md, section 6.4).

        Of an abstaining network these are: neither right nor silent; not kept; not right. Of a cost: above 0,
        above 1, and so on.
        """
        if self.kind in ("confused", "false-alarm"):
            seen = margins(logits, torch.full_like(labels, self.numbers[-1]))
            return torch.where(seen.isfinite(), -seen, -torch.inf).unsqueeze(1)
        if self.kind in ("wrong", "class"):
            return margins(logits, labels).unsqueeze(1)
        scores, column = logits.detach().double(), labels.long().unsqueeze(1)
        if self.kind == "top":
            others = scores.scatter(1, column, -torch.inf).topk(self.numbers[0], dim=1).values[:, -1:]
            found = scores.gather(1, column) - others
        elif self.kind == "abstain":
            best = scores.topk(2, dim=1).values
            kept = best[:, :1] - best[:, 1:] - self.threshold
            right = margins(logits, labels).unsqueeze(1) - self.threshold
            found = torch.cat([torch.maximum(right, -kept), kept, right], dim=1)
        else:
            costs = torch.tensor(self.matrix(scores.shape[1]), device=scores.device)[labels.long()]
            limits = self.numbers or range(self.largest_cost(scores.shape[1]))
            ahead = [_best(scores, costs <= most) - _best(scores, costs > most) for most in limits]
            found = torch.stack(ahead, dim=1)
        return torch.where(scores.isfinite().all(dim=1, keepdim=True), found, -torch.inf)

    def is_bad(self, classes: int) -> tuple[tuple[bool, ...], ...]:
        """Whether each predicted class is the fault, label by label; for faults that scores do not matter to.

        Raises:
            UsageError: It takes more than the predicted class.
        """
        numbers, every = self.numbers, range(classes)
        if self.kind in ("wrong", "class"):
            return tuple(tuple(j != y and y in (numbers or every) for j in every) for y in every)
        if self.kind == "confused":
            return tuple(tuple((y, j) == numbers for j in every) for y in every)
        if self.kind == "false-alarm":
            return tuple(tuple(y != j and j in numbers for j in every) for y in every)
        if self.kind == "cost-above":
            return tuple(tuple(cost > numbers[0] for cost in row) for row in self.matrix(classes))
        raise UsageError(f"the fault {self} is no question about the predicted class alone.")

    def guess_rate(self, classes: int) -> float:
        """How often a guess without looking makes this fault: a bound as large says nothing."""
        if self.kind in ("confused", "false-alarm"):
            return 1.0 / classes
        if self.detail:
            rows, largest = self.matrix(classes), self.largest_cost(classes)
            if self.numbers:
                rows = tuple(tuple(int(cost > self.numbers[0]) for cost in row) for row in rows)
            return min(map(sum, zip(*rows, strict=True))) / (largest * classes)
        return 1.0 - (self.numbers[0] if self.kind == "top" else 1) / classes

    def says(self, share: str) -> str:
        """What a network does that makes this fault on at most a share of its examples.

        Example:
            >>> parse_fault("confused:3:5").says("2.00 %")
            'takes at most 2.00 % of new data of class 3 for class 5'
        """
        return _SAYS[self.kind].format(*self.numbers, share=share, detail=self.detail)


def _best(scores: Tensor, among: Tensor) -> Tensor:
    """The largest score of some classes; minus infinity without one."""
    return scores.masked_fill(~among, -torch.inf).amax(dim=1)


WRONG = Fault()


def parse_fault(text: str, *, classes: int | None = None) -> Fault:
    """The fault that a text names.

    Args:
        text: Such as ``wrong``, ``class:3``, ``confused:3:5``, ``false-alarm:1``, ``top:5``, ``missed``,
            ``abstain:0.5``, ``cost:01,50``, ``cost-above:2:distance``, ``residual:0.1``.
        classes: Number of classes, where it is known: the fault has to fit them.

    Example:
        >>> parse_fault("missed", classes=2)
        Fault(kind='class', numbers=(1,), detail='')
    """
    if text in _FOR_TWO_CLASSES:
        if classes not in (None, 2):
            raise UsageError(f"the fault {text!r} needs two classes. Got {classes}; name one, as in class:3.")
        text = _FOR_TWO_CLASSES[text]
    fault = _parsed(text)
    if fault is None:
        raise UsageError(f"unknown fault {text!r:.80}. Known: {_MEANINGS}.")
    if fault.kind == "confused" and fault.numbers[0] == fault.numbers[1]:
        raise UsageError(f"the fault {text!r} takes a class for itself: name two classes.")
    if classes is not None:
        fault.check(classes)
    return fault


def _parsed(text: str) -> Fault | None:
    kind, *words = text.split(":")
    if kind == "abstain" and len(words) == 1:
        if words[0] not in THRESHOLDS:
            raise UsageError(
                f"a network abstains by one of the thresholds {', '.join(THRESHOLDS)}: so the choice is paid "
                f"for in five bits. Got {words[0]!r:.40}."
            )
        return Fault(kind, (THRESHOLDS.index(words[0]),))
    if kind == "residual":
        is_value = len(words) == 1 and re.fullmatch(r"\d{1,15}(\.\d{1,15})?(e-?\d{1,2})?", words[0])
        return Fault(kind, (), words[0]) if is_value and float(words[0]) > 0.0 else None
    costs = ""
    if kind in ("cost", "cost-above"):
        costs = words.pop() if words else ""
        if not re.fullmatch(rf"{DISTANCE}|[0-9a-f]+(,[0-9a-f]+)+", costs):
            return None
    count = {**_NUMBERS, "cost": 0, "cost-above": 1}.get(kind)
    if count != len(words) or not all(re.fullmatch(r"0|[1-9]\d{0,5}", each) for each in words):
        return None
    return Fault(kind, tuple(map(int, words)), costs)


def possible_examples(fault: Fault, sample: Dataset) -> Dataset:
    """The examples that a fault can happen on; the sample itself where it is all of them."""
    labels = torch.from_numpy(sample.y)
    if counted_examples(fault, labels) == sample.n:
        return sample
    return sample.select(fault.is_counted(labels).nonzero()[:, 0].numpy(), role=sample.role)


def counted_examples(fault: Fault, labels: Tensor) -> int:
    """How many examples a fault can happen on.

    Raises:
        DataError: None: nothing can be said.
    """
    count = int(fault.is_counted(labels).sum())
    if count == 0:
        raise DataError(
            f"the sample has no example that the fault {fault} can happen on, so nothing can be said about "
            "it. Collect examples of that class, or ask for another fault."
        )
    return count
