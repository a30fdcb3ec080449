"""Questions of a message: a loss, and the rows that count (docs/format.md, sections 5.6 and 6.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .refusal import Refused

if TYPE_CHECKING:
    from .message import Bits


Array: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[np.bool_]
Costs: TypeAlias = tuple[tuple[int, ...], ...]
Read: TypeAlias = tuple[tuple[int | str, ...], Costs]

_SMALL = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_LARGE = (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 15)
SURE = tuple(map(str, _SMALL + _LARGE))
"""The numbers T of ``answered:T``, as a claim writes them."""
ALL, EACH_CLASS, EACH_GROUP = "all", "each class", "each group"
ONE_ROW, ANY_ROW = "one row a cluster", "any row of a cluster"
PARTS, OF_CLUSTERS = (EACH_CLASS, EACH_GROUP), (ONE_ROW, ANY_ROW)
DISTANCE = "distance"
CLASSES_OF_DISTANCES, CLASSES_OF_COSTS, LARGEST_COST = 16, 19, 15
LARGEST_LABEL = 2**16 - 1


@dataclass(frozen=True)
class Question:
    """A loss and the rows that count, as a claim writes them. ``costs`` are those of ``cost-above``.

    Example:
        >>> question = Question("confused:1:2", "predicted:2")
        >>> question.kind, question.numbers, question.labels, question.predicted
        ('confused', (1, 2), (1, 2, 2), 2)
    """

    loss: str = "wrong"
    on: str = ALL
    costs: Costs = ()

    @property
    def kind(self) -> str:
        """Name of the loss, without its numbers."""
        return self.loss.partition(":")[0]

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the loss: labels, K, or the largest cost that is no error."""
        words = self.loss.split(":")[1:]
        return tuple(map(int, words[:1] if self.kind == "cost-above" else words))

    @property
    def labels(self) -> tuple[int, ...]:
        """Labels that the loss or the choice of rows names. Each has to be a class."""
        named = self.numbers if LOSSES[self.kind].labels else ()
        return named if self.predicted is None else (*named, self.predicted)

    @property
    def threshold(self) -> float | None:
        """T of ``answered:T``."""
        return float(self.on.partition(":")[2]) if self.on.startswith("answered:") else None

    @property
    def predicted(self) -> int | None:
        """C of ``predicted:C``."""
        return int(self.on.partition(":")[2]) if self.on.startswith("predicted:") else None


def read_question(bits: Bits, classes: int) -> Question:
    """Read what follows the word of another loss (section 5.6). The caller notes the part ``loss``.

    That the labels named are classes is confirmed where the classes are known, in ``counting``.
    """
    number = bits.bits(3)
    if number >= len(LOSSES):
        raise Refused(f"Message: there is no loss of kind {number}.")
    name, kind = list(LOSSES.items())[number]
    labels = [_read_label(bits) for _ in range(kind.labels)]
    if len({*labels}) < len(labels):
        raise Refused(f"Message: class {labels[0]} cannot be confused with itself.")
    words, costs = kind.read(bits, classes)
    loss, on = ":".join(map(str, (name, *labels, *words))), _read_choice(bits)
    if (loss, on) in (("wrong", ALL), ("wrong", ONE_ROW)):
        raise Refused("Message: the errors on all rows, or on one of a cluster, are asked without a word.")
    return Question(loss, on, costs)


def _read_label(bits: Bits) -> int:
    if (label := bits.gamma() - 1) > LARGEST_LABEL:
        raise Refused(f"Message: {label} is no label; the largest is {LARGEST_LABEL}.")
    return label


def _read_choice(bits: Bits) -> str:
    ones = 0
    while ones < 4 and bits.bits(1):
        ones += 1
    if ones == 0:
        return ALL
    if ones == 1:
        return f"answered:{SURE[bits.bits(5)]}"
    if ones == 2:
        return f"predicted:{_read_label(bits)}"
    if ones == 3:
        return EACH_CLASS
    if (number := bits.bits(2)) == 3:
        raise Refused("Message: the fourth choice of rows is reserved.")
    return (EACH_GROUP, ONE_ROW, ANY_ROW)[number]


def check_question(question: Question, classes: NDArray[np.int64]) -> None:
    """Check that the labels and costs that it names are those of the classes of the scores."""
    if strange := sorted({*question.labels} - {*classes.tolist()}):
        raise Refused(f"Message: label {strange[0]}, which its loss or rows name, is no class.")
    if question.costs and len(question.costs) != len(classes):
        raise Refused(f"Message: it has costs for {len(question.costs)} classes; there are {len(classes)}.")


def is_about(question: Question, labels: Array) -> Mask:
    """Mask of the rows, by their labels, that the loss is about."""
    if not (kind := LOSSES[question.kind]).labels:
        return np.ones(len(labels), dtype=bool)
    return np.asarray((labels == question.numbers[0]) != kind.is_of_others)


def columns_of(labels: Array, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Column of every label among the classes, which rise; -1 where it is none of them."""
    columns = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[columns] == labels, columns, -1)


def differences(
    question: Question, values: Array, columns: NDArray[np.int64], classes: NDArray[np.int64]
) -> Array:
    """Difference of each row, which has to be large enough; minus infinity without a column."""
    found = LOSSES[question.kind].differences(question, values, np.maximum(columns, 0), classes)
    return np.where(columns >= 0, found, -np.inf)


def lead_of(label: int, values: Array, classes: NDArray[np.int64]) -> Array:
    """Score of a label less the largest of the others."""
    column = int(np.searchsorted(classes, label))
    return np.asarray(values[:, column] - np.delete(values, column, axis=1).max(1))


def surplus(values: Array) -> Array:
    """The largest score less the second, as float64."""
    last = values.shape[1] - 1
    ends = np.partition(values, (last - 1, last), axis=1)
    return np.asarray(ends[:, last] - ends[:, last - 1])


def _lead(question: Question, values: Array, own: Array, classes: Array) -> Array:
    others, places = values.copy(), np.arange(len(values))
    others[places, own] = -np.inf
    best = question.numbers[0] if question.kind == "top" else 1
    rival = others.max(1) if best == 1 else np.partition(others, -best, axis=1)[:, -best]
    return np.asarray(values[places, own] - rival)


def _seen(question: Question, values: Array, own: Array, classes: Array) -> Array:
    return -lead_of(question.numbers[-1], values, classes)


def _cheap(question: Question, values: Array, own: Array, classes: Array) -> Array:
    is_cheap = (np.array(question.costs) <= question.numbers[0])[own]
    return np.asarray(np.where(is_cheap, values, -np.inf).max(1) - np.where(is_cheap, -np.inf, values).max(1))


def _best(bits: Bits, classes: int) -> Read:
    if (most := bits.gamma()) >= classes:
        raise Refused(f"Message: the best {most} of {classes} classes are all of them.")
    return (most,), ()


def _read_costs(bits: Bits, classes: int) -> Read:
    allowed, is_told = bits.gamma() - 1, bits.bits(1)
    if classes > (most := CLASSES_OF_COSTS if is_told else CLASSES_OF_DISTANCES):
        raise Refused(f"Message: there are costs for {classes} classes; {most} at most are allowed.")
    spelled = DISTANCE
    costs = [[abs(label - other) for other in range(classes)] for label in range(classes)]
    if is_told:
        if (largest := bits.bits(4) + 1) > LARGEST_COST:
            raise Refused(f"Message: costs up to {largest} are too large; {LARGEST_COST} is allowed.")
        spelled = ""
        for label, other in permutations(range(classes), 2):
            costs[label][other] = cost = bits.bits(largest.bit_length())
            spelled += f"{cost:x}"
            if cost > largest:
                raise Refused(f"Message: a cost is {cost}, above {largest}, the largest it allows.")
    if allowed >= max(map(max, costs)):
        raise Refused(f"Message: no cost is above {allowed}.")
    return (allowed, spelled), tuple(map(tuple, costs))


def _dear(question: Question, classes: int) -> int:
    return int((np.array(question.costs) > question.numbers[0]).sum(axis=0).min())


@dataclass(frozen=True)
class LossKind:
    """A loss, in all that this program asks about it; by default any error."""

    words: str  # for what is bounded, with its numbers
    labels: int = 0  # that it names first: it is then about the rows of one label, or of all others
    is_of_others: bool = False
    differences: Callable[[Question, Array, Array, Array], Array] = _lead
    guessed: Callable[[Question, int], int] = lambda question, classes: classes - 1  # in 6.6, times classes
    read: Callable[[Bits, int], Read] = lambda bits, classes: ((), ())  # its other words, and costs


LOSSES = {
    "class": LossKind("error on class {0}", 1),
    "confused": LossKind("share of class {0} that is taken for class {1}", 2, False, _seen, lambda *_: 1),
    "false-alarm": LossKind(
        "share of the other classes that is taken for class {0}", 1, True, _seen, lambda *_: 1
    ),
    "top": LossKind(
        "share of labels outside the best {0}", guessed=lambda q, n: n - q.numbers[0], read=_best
    ),
    "cost-above": LossKind(
        "share of predictions that cost more than {0}", 0, False, _cheap, _dear, _read_costs
    ),
    "wrong": LossKind("error"),
}
"""Losses in the order of their numbers in a message; 6 and 7 are refused."""
