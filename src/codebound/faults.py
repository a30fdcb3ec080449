"""What counts as a fault: any question with a yes or no for each example, fixed before the sample is seen."""

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

_NUMBERS = {"wrong": 0, "class": 1, "confused": 2, "false-alarm": 1, "top": 1}
_MEANINGS = (
    "wrong (any error), class:C (errors on examples of class C), confused:A:B (class A taken for B), "
    "false-alarm:C (class C seen where it is not), top:K (label not among the K best guesses), and for two "
    "classes missed and false-alarm (1 is the alarm)"
)
_FOR_TWO_CLASSES = {"missed": "class:1", "false-alarm": "class:0"}


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault, and the examples that it can happen on.

    It is counted on the examples of one class, or of the other classes, where it names one: the bound is then
    about new data of that class, and n is the number of such examples. They are independent draws from the
    distribution of their class, so that every bound applies as it is.

    Attributes:
        kind: ``wrong``, ``class``, ``confused``, ``false-alarm`` or ``top``.
        numbers: The classes it names, or how many guesses are allowed.
    """

    kind: str = "wrong"
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        return ":".join((self.kind, *map(str, self.numbers)))

    def check(self, classes: int) -> None:
        """Refuses a fault that cannot happen with so many classes."""
        least, most = (1, classes - 1) if self.kind == "top" else (0, classes - 1)
        if any(not least <= number <= most for number in self.numbers):
            raise UsageError(
                f"the fault {self} does not fit {classes} classes: its numbers go from {least} to {most}."
            )

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
        if self.kind in ("confused", "false-alarm"):
            seen = margins(logits, torch.full_like(labels, self.numbers[-1]))
            return torch.where(seen.isfinite(), -seen, -torch.inf)
        if self.kind != "top":
            return margins(logits, labels)
        scores, column = logits.detach().double(), labels.long().unsqueeze(1)
        others = scores.scatter(1, column, -torch.inf).topk(self.numbers[0], dim=1).values[:, -1]
        is_sound = scores.isfinite().all(dim=1)
        return torch.where(is_sound, scores.gather(1, column).squeeze(1) - others, -torch.inf)

    def guess_rate(self, classes: int) -> float:
        """How often a guess without looking makes this fault: a bound as large says nothing."""
        if self.kind in ("confused", "false-alarm"):
            return 1.0 / classes
        return 1.0 - (self.numbers[0] if self.kind == "top" else 1) / classes

    def says(self, share: str) -> str:
        """What a network does that makes this fault on at most a share of its examples.

        Example:
            >>> parse_fault("confused:3:5").says("2.00 %")
            'takes at most 2.00 % of new data of class 3 for class 5'
        """
        words = {
            "wrong": "errs on at most {share} of new data",
            "class": "errs on at most {share} of new data of class {0}",
            "confused": "takes at most {share} of new data of class {0} for class {1}",
            "false-alarm": "sees class {0} in at most {share} of new data of other classes",
            "top": "misses the label with its {0} best guesses on at most {share} of new data",
        }
        return words[self.kind].format(*self.numbers, share=share)


WRONG = Fault()


def parse_fault(text: str, *, classes: int | None = None) -> Fault:
    """The fault that a text names.

    Args:
        text: Such as ``wrong``, ``class:3``, ``confused:3:5``, ``false-alarm:1``, ``top:5``, ``missed``.
        classes: Number of classes, where it is known: the fault has to fit them.

    Example:
        >>> parse_fault("missed", classes=2)
        Fault(kind='class', numbers=(1,))
    """
    if text in _FOR_TWO_CLASSES:
        if classes not in (None, 2):
            raise UsageError(f"the fault {text!r} needs two classes. Got {classes}; name one, as in class:3.")
        text = _FOR_TWO_CLASSES[text]
    kind, *numbers = text.split(":")
    if _NUMBERS.get(kind) != len(numbers) or not all(
        re.fullmatch(r"0|[1-9]\d{0,5}", each) for each in numbers
    ):
        raise UsageError(f"unknown fault {text!r}. Known: {_MEANINGS}.")
    fault = Fault(kind, tuple(map(int, numbers)))
    if kind == "confused" and fault.numbers[0] == fault.numbers[1]:
        raise UsageError(f"the fault {text!r} takes a class for itself: name two classes.")
    if classes is not None:
        fault.check(classes)
    return fault


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
