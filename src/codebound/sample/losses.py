"""Losses: each is 0 or 1 for an example (docs/format.md, 5.6 and 6.1).

Each kind is a final class that knows all that is ever asked about it. To add one, write in this file a frozen
dataclass and name it in ``LOSSES``: its ``kind`` is the first word of its name, its fields are the others, as
``spelling`` says; then the same in ``codebound_verify/losses.py``. A loss of a message has a ``number``, and
goes into a new version of the page first. Hold-outs have losses of their own (``holdout/units.py``).
"""

from __future__ import annotations

import re
from abc import ABC
from dataclasses import asdict, astuple, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from codebound.run.errors import DataError, FormatError, UsageError, did_you_mean
from codebound.run.extensions import LazyModule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self  # since Python 3.11

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.bits.plain_code import PlainReader, PlainWriter
    from codebound.sample.dataset import Sample
else:
    np, torch = LazyModule("numpy"), LazyModule("torch")

MOST_LABELS = 1 << 16
_MOST_COST = 15
_MOST_CLASSES = {True: 16, False: 19}  # by whether costs are distances
_DISTANCE = "distance"
_NUMBER = r"0|[1-9]\d{0,4}"
_TABLE = rf"{_DISTANCE}|[0-9a-f]+(,[0-9a-f]+)*"
_MEANINGS = (
    "wrong (any error), class:C (errors on examples of class C), confused:A:B (class A taken for B), "
    "false-alarm:C (class C seen where it is not), top:K (label not among the K best guesses), "
    "cost-above:L:COSTS (a cost above L), with COSTS distance or a digit 0-9a-f for each label and class "
    "such as 01,50; for two classes missed and false-alarm (1 is the alarm); for values residual:TAU"
)
_FOR_TWO_CLASSES = {"missed": "class:1", "false-alarm": "class:0"}


@dataclass(frozen=True)
class Loss(ABC):
    """A loss of 0 or 1 and its examples.

    It is counted on the examples of one class, or of the other classes, where it names one: the bound is then
    about new data of that class. Such examples are independent draws from the distribution of their class.

    """

    kind: ClassVar[str]  # the first word of its name
    spelling: ClassVar[tuple[str, ...]] = ()  # of the other words, in the order of its fields
    promise: ClassVar[str]  # what a network does that incurs it on at most a share of its examples
    number: ClassVar[int | None] = None  # in a message
    least: ClassVar[int] = 0  # number that it can have in its name
    has_part: ClassVar[bool] = False  # it is about a part of the examples only
    is_of_values: ClassVar[bool] = False  # labels and predictions are values, without classes

    def __str__(self) -> str:
        return ":".join((self.kind, *map(str, astuple(self))))

    @property
    def guesses(self) -> int:
        """Number of guesses that it allows."""
        return 1

    def check_labels(self, labels: Sequence[int]) -> None:
        """Refuse a loss that does not fit classes of these labels."""
        if any(isinstance(each, int) and each not in labels for each in astuple(self)):
            raise UsageError(f"the loss {self} does not fit {len(labels)} classes: it names a label of none.")

    def is_about(self, labels: Any) -> Any:
        """Return a mask of its examples, from an array or a tensor of labels."""
        return labels >= 0

    def differences(self, values: Tensor, labels: Tensor, classes: NDArray[np.int64] | None = None) -> Tensor:
        """Return the distance to the loss, in units of the scores. It is incurred at 0 and below.

        Scores that are not finite, and labels that no column has, are losses. ``classes`` has the label of
        each column, rising; by default its number.
        """
        scores, count = values.detach().double(), values.shape[1]
        columns, is_known = labels.long(), labels < count
        if classes is not None:
            names = torch.from_numpy(classes).to(labels.device)
            columns = torch.searchsorted(names, columns).clamp(max=count - 1)
            is_known = names[columns] == labels
        found = self._differences(scores, torch.where(is_known, columns, 0), classes)
        return torch.where(scores.isfinite().all(dim=1) & is_known, found, -torch.inf)

    def _differences(self, scores: Tensor, columns: Tensor, classes: NDArray[np.int64] | None) -> Tensor:
        return column_leads(scores, columns, self.guesses)

    def guess_rate(self, classes: int) -> Fraction:
        """Return the rate of this loss for blind guesses. A bound as large says nothing."""
        return 1 - Fraction(self.guesses, classes)

    def says(self, share: str) -> str:
        """Describe a network that incurs this loss on at most a share.

        Example:
            >>> parse_loss("confused:3:5").says("2.00 %")
            'takes at most 2.00 % of new data of class 3 for class 5'
        """
        return self.promise.format(share=share, **asdict(self))

    def write(self, writer: PlainWriter, classes: int) -> None:
        """Write its number and its words into a message."""
        if self.number is None:
            raise UsageError(f"no message is about the loss {self}.")
        writer.bits(self.number, 3)
        for number in (each for each in astuple(self) if isinstance(each, int)):
            writer.gamma(number + 1 - self.least)

    @classmethod
    def read(cls, reader: PlainReader, classes: int) -> Self:
        """Read its words behind its number."""
        numbers = [reader.gamma() - 1 + cls.least for each in cls.spelling if each is _NUMBER]
        if max(numbers, default=0) >= MOST_LABELS:
            raise FormatError(f"the loss {cls.kind} of the message has a number that no class has.")
        return cls(*numbers)


@dataclass(frozen=True)
class Wrong(Loss):
    """Any error."""

    kind, number, promise = "wrong", 5, "errs on at most {share} of new data"


@dataclass(frozen=True)
class OfClass(Loss):
    """An error on an example of one class."""

    kind, number, spelling, has_part = "class", 0, (_NUMBER,), True
    promise = "errs on at most {share} of new data of class {label}"
    label: int

    def is_about(self, labels: Any) -> Any:  # noqa: D102
        return labels == self.label


class AbstractSeen(Loss):
    """A class that is seen where it is not."""

    has_part = True
    seen: int

    def _differences(self, scores: Tensor, columns: Tensor, classes: NDArray[np.int64] | None) -> Tensor:
        return -leads_of(scores, self.seen, classes)

    def guess_rate(self, classes: int) -> Fraction:  # noqa: D102
        return Fraction(1, classes)


@dataclass(frozen=True)
class Confused(AbstractSeen):
    """An example of one class that is taken for another."""

    kind, number, spelling = "confused", 1, (_NUMBER, _NUMBER)
    promise = "takes at most {share} of new data of class {label} for class {seen}"
    label: int
    seen: int

    def __post_init__(self) -> None:
        if self.label == self.seen:
            raise UsageError(f"the loss {str(self)!r} takes a class for itself: name two classes.")

    def is_about(self, labels: Any) -> Any:  # noqa: D102
        return labels == self.label


@dataclass(frozen=True)
class FalseAlarm(AbstractSeen):
    """An example of another class that is taken for one."""

    kind, number, spelling = "false-alarm", 2, (_NUMBER,)
    promise = "sees class {seen} in at most {share} of new data of other classes"
    seen: int

    def is_about(self, labels: Any) -> Any:  # noqa: D102
        return labels != self.seen


@dataclass(frozen=True)
class Top(Loss):
    """A label that is not among the best guesses."""

    kind, number, spelling, least = "top", 3, (_NUMBER,), 1
    promise = "misses the label with its {best} best guesses on at most {share} of new data"
    best: int

    @property
    def guesses(self) -> int:  # noqa: D102
        return self.best

    def check_labels(self, labels: Sequence[int]) -> None:  # noqa: D102
        if not 1 <= self.best < len(labels):
            raise UsageError(
                f"the loss {self} does not fit {len(labels)} classes: 1 to {len(labels) - 1} guesses."
            )


@dataclass(frozen=True)
class CostAbove(Loss):
    """A cost of the predicted class above a limit.

    Costs are ``distance``, or a hexadecimal digit for each label and each class but the label itself; rows
    with commas between them may have these, too.
    """

    kind, number, spelling = "cost-above", 4, (_NUMBER, _TABLE)
    promise = "causes a cost above {limit} on at most {share} of new data"
    limit: int
    costs: str

    def __post_init__(self) -> None:
        rows = self.costs.split(",")
        if len(rows) > 1:
            if any(len(row) != len(rows) or row[y] != "0" for y, row in enumerate(rows)):
                raise UsageError(
                    f"costs for {len(rows)} classes are {len(rows)} rows of one digit for each class, with 0 "
                    f"for the label itself. Got {self.costs!r:.60}."
                )
            object.__setattr__(self, "costs", "".join(row[:y] + row[y + 1 :] for y, row in enumerate(rows)))

    def matrix(self, classes: int) -> NDArray[np.int64]:
        """Return the costs, a row for each label, a column for each class."""
        is_distance = self.costs == _DISTANCE
        numbers = np.arange(classes)
        found: NDArray[np.int64] = np.abs(np.subtract.outer(numbers, numbers))
        if not is_distance and len(self.costs) == classes * (classes - 1):
            found[found > 0] = [int(digit, 16) for digit in self.costs]
        elif not is_distance or classes > _MOST_CLASSES[True]:
            raise UsageError(f"the costs of {self} are not for {classes} classes.")
        if classes > _MOST_CLASSES[is_distance] or self.limit >= found.max():
            raise UsageError(
                f"costs are for at most {_MOST_CLASSES[is_distance]} classes, and one is above the limit. "
                f"Got {self} for {classes} classes, whose largest cost is {found.max()}."
            )
        return found

    def check_labels(self, labels: Sequence[int]) -> None:  # noqa: D102
        self.matrix(len(labels))

    def _differences(self, scores: Tensor, columns: Tensor, classes: NDArray[np.int64] | None) -> Tensor:
        is_dear = torch.from_numpy(self.matrix(scores.shape[1]) > self.limit).to(scores.device)[columns]
        return _best(scores, ~is_dear) - _best(scores, is_dear)

    def guess_rate(self, classes: int) -> Fraction:  # noqa: D102
        return Fraction(int((self.matrix(classes) > self.limit).sum(axis=0).min()), classes)

    def write(self, writer: PlainWriter, classes: int) -> None:  # noqa: D102
        super().write(writer, classes)
        largest = int(self.matrix(classes).max())
        writer.bits(int(self.costs != _DISTANCE), 1)
        if self.costs != _DISTANCE:
            writer.bits(largest - 1, 4)
            for digit in self.costs:
                writer.bits(int(digit, 16), largest.bit_length())

    @classmethod
    def read(cls, reader: PlainReader, classes: int) -> Self:  # noqa: D102
        limit = reader.gamma() - 1
        if not reader.bits(1):
            return cls(limit, _DISTANCE)
        largest = reader.bits(4) + 1
        if largest > _MOST_COST or classes > _MOST_CLASSES[False]:
            raise FormatError("the costs of the message are too large, or of too many classes.")
        digits = [reader.bits(largest.bit_length()) for _ in range(classes * (classes - 1))]
        if max(digits) > largest:
            raise FormatError("a cost of the message is larger than the largest.")
        return cls(limit, "".join(f"{digit:x}" for digit in digits))


@dataclass(frozen=True)
class LargeResidual(Loss):
    """A predicted value that is off by too much; NaN is."""

    kind, spelling = "residual", (r"(?=[\d.]*[1-9])\d{1,15}(\.\d{1,15})?(e-?\d{1,2})?",)
    promise = "is off by more than {tau} on at most {share} of new data"
    is_of_values = True
    tau: str

    def check_labels(self, labels: Sequence[int]) -> None:  # noqa: D102
        raise UsageError(
            f"the loss {self} is one of predicted values, not of classes: seal examples with values "
            "(codebound holdout)."
        )


LOSSES: dict[str, type[Loss]] = {
    each.kind: each for each in (Wrong, OfClass, Confused, FalseAlarm, Top, CostAbove, LargeResidual)
}
"""All kinds by the first word of their names."""
WRONG = Wrong()


def _best(scores: Tensor, among: Tensor) -> Tensor:
    """The largest score of some classes; minus infinity without one."""
    return scores.masked_fill(~among, -torch.inf).amax(dim=1)


def column_leads(scores: Tensor, columns: Tensor, best: int = 1) -> Tensor:
    """Score in a column of each row, less the largest, or ``best``-th, of the others."""
    places = columns.unsqueeze(1)
    others = scores.scatter(1, places, -torch.inf).topk(best, dim=1).values[:, -1]
    return scores.gather(1, places).squeeze(1) - others


def leads(values: Tensor) -> Tensor:
    """Largest score less the second, in float64."""
    best = values.detach().double().topk(2, dim=1).values
    return best[:, 0] - best[:, 1]


def leads_of(values: Tensor, label: int, classes: NDArray[np.int64] | None = None) -> Tensor:
    """Score of one class less the largest of the others, in float64; ``classes`` has columns' labels."""
    labels = range(values.shape[1]) if classes is None else classes.tolist()
    if label not in labels:
        raise UsageError(f"no class has the label {label}.")
    columns = torch.full((len(values),), labels.index(label), device=values.device)
    return column_leads(values.detach().double(), columns)


def parse_loss(text: str, *, classes: int | None = None) -> Loss:
    """The loss that a text names.

    Args:
        text: Such as ``wrong``, ``class:3``, ``confused:3:5``, ``false-alarm:1``, ``top:5``, ``missed``,
            ``cost-above:2:distance``, ``residual:0.1``.
        classes: Number of classes, where it is known: the loss has to fit them, numbered from 0.

    Example:
        >>> parse_loss("missed", classes=2)
        OfClass(label=1)
    """
    if text in _FOR_TWO_CLASSES:
        if classes not in (None, 2):
            raise UsageError(f"the loss {text!r} needs two classes. Got {classes}; name one, as in class:3.")
        text = _FOR_TWO_CLASSES[text]
    kind, *words = text.split(":")
    known = LOSSES.get(kind)
    if (
        known is None
        or len(words) != len(known.spelling)
        or not all(map(re.fullmatch, known.spelling, words))
    ):
        raise UsageError(f"unknown loss {text!r:.80}.{did_you_mean(kind, LOSSES)} Known: {_MEANINGS}.")
    loss = known(
        *(int(word) if like is _NUMBER else word for like, word in zip(known.spelling, words, strict=True))
    )
    if classes is not None:
        loss.check_labels(range(classes))
    return loss


def read_loss(reader: PlainReader, classes: int) -> Loss:
    """Read the loss of a message about so many classes. Whether these have its labels is known later."""
    number = reader.bits(3)
    known = next((each for each in LOSSES.values() if each.number == number), None)
    if known is None:
        raise FormatError(f"the message has a loss of kind {number}, which is reserved.")
    try:
        loss = known.read(reader, classes)
        if not loss.has_part:
            loss.check_labels(range(classes))
    except UsageError as error:
        raise FormatError(f"the loss of the message is none: {error}") from error
    return loss


def possible_examples(loss: Loss, sample: Sample) -> Sample:
    """The examples that a loss is about; the sample itself where it is all of them."""
    rows = np.flatnonzero(loss.is_about(sample.y))
    if not len(rows):
        raise DataError(
            f"the sample has no example that the loss {loss} is about, so nothing can be said about "
            "it. Collect examples of that class, or ask for another loss."
        )
    return sample if len(rows) == sample.n else sample.select(rows, role=sample.role)
