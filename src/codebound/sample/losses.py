"""Scores of a network on a sample, and losses: each is 0 or 1 for an example.

Each kind is a final class that knows all that is ever asked about it. To add one, write in this file a frozen
dataclass and name it in ``LOSSES``: its ``kind`` is the first word of its name, its fields are the others, as
``spelling`` says; ``promise`` and what differs from ``Loss`` follow. One that messages have has a
``number`` and ``code``, and goes into the page of a new version first, then into ``codebound_verify.losses``.
"""

from __future__ import annotations

import copy
import re
from abc import ABC
from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from codebound.run.errors import DataError, ModelError, UsageError
from codebound.run.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self  # since Python 3.11

    from torch import Tensor, nn

    from codebound.sample.dataset import Dataset, DeviceData

    Choose = Callable[[int, int], int]

MOST_COST = 15
MOST_CLASSES = 19  # of a matrix of costs
DISTANCE = "distance"
_NUMBER = r"0|[1-9]\d{0,5}"
_TABLE = rf"{DISTANCE}|[0-9a-f]+(,[0-9a-f]+)+"
_MEANINGS = (
    "wrong (any error), class:C (errors on examples of class C), confused:A:B (class A taken for B), "
    "false-alarm:C (class C seen where it is not), top:K (label not among the K best guesses), "
    "cost-above:L:COSTS (a cost above L), with COSTS distance or a digit 0-9a-f for each label and class "
    "such as 01,50; for two classes missed and false-alarm (1 is the alarm); for values residual:TAU"
)
_NOT_YES_OR_NO = {
    "abstain": ("counts errors among the examples that are answered", "wrong, which counts all, or class:C"),
    "cost": ("is a mean", "cost-above:L:COSTS, how often a cost exceeds L, or class:C"),
}
"""Losses that files of version 3 may state: what they are, and what to ask for instead."""
_FOR_TWO_CLASSES = {"missed": "class:1", "false-alarm": "class:0"}


def margins(logits: Tensor, labels: Tensor, *, best: int = 1) -> Tensor:
    """``mar(v, y) = v[y] - max_{j != y} v[j]`` of every row, in float64.

    Where several guesses are the ``best``, the last of so many largest scores takes the place of the largest.

    A row with a NaN or an infinity has margin ``-inf``: it is an error at every threshold.

    Args:
        logits: ``(n, classes)``, at least two classes.
        labels: ``(n,)`` integers in ``[0, classes)``.

    Example:
        >>> margins(torch.tensor([[3.0, 1.0], [0.5, 0.5], [0.0, float("nan")]]), torch.tensor([0, 1, 0]))
        tensor([2., 0., -inf], dtype=torch.float64)
    """
    _check(logits, labels)
    scores = logits.detach().double()
    column = labels.long().unsqueeze(1)
    others = scores.scatter(1, column, -torch.inf).topk(best, dim=1).values[:, -1]
    margin = scores.gather(1, column).squeeze(1) - others
    is_sound = torch.isfinite(scores).all(dim=1) & torch.isfinite(margin)
    return torch.where(is_sound, margin, -torch.inf)


def logit_chunks(
    model: nn.Module,
    data: DeviceData,
    *,
    chunk_size: int = 1024,
    dtype: torch.dtype = torch.float64,
    progress: Progress = silent,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits and labels, chunk by chunk in stored order, of a copy of ``model`` in evaluation mode.

    The copy is put in ``dtype`` and on the device of the data; ``model`` itself is not touched.
    """
    if chunk_size < 1:
        raise UsageError(f"chunk_size must be at least 1. Got {chunk_size}.")
    evaluated = copy.deepcopy(model).to(device=data.x.device, dtype=dtype).eval()
    done = 0
    for x, labels in data.chunks(chunk_size, dtype):
        try:
            with torch.no_grad():
                logits = evaluated(x)
        except RuntimeError as cause:
            raise ModelError(
                f"the network fails on inputs of shape {tuple(x.shape[1:])}, {len(x)} at a time: {cause}"
            ) from cause
        if not isinstance(logits, torch.Tensor):
            raise ModelError(
                f"the network returns a {type(logits).__name__}, and which part of it are the logits is "
                "unknown. Return them alone, or under the name logits."
            )
        if logits.dim() != 2 or logits.shape[1] < 2:
            require_logits(tuple(logits.shape), max(2, int(data.y.max()) + 1))
        _check(logits, labels)
        yield logits, labels
        done += len(labels)
        progress(done, data.n)


def error_count(model: nn.Module, data: DeviceData, *, dtype: torch.dtype) -> int:
    """Examples with a margin of at most 0: wrong, tied or not finite."""
    chunks = logit_chunks(model, data, dtype=dtype)
    return sum(int((margins(logits, labels) <= 0.0).sum()) for logits, labels in chunks)


def require_logits(shape: tuple[int, ...], classes: int) -> None:
    """Refuses outputs of a batch that are no row of scores for each example, and says what would be."""
    if len(shape) == 2 and shape[1] == classes:
        return
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        raise ModelError(
            f"the network has one output for each example, the sample {classes} classes: a score for each of "
            "them is needed. For two classes return torch.cat((-z, z), 1) of a column z of logits, or "
            "torch.cat((1 - p, p), 1) of probabilities p of class 1."
        )
    if len(shape) == 2:
        raise ModelError(
            f"the network has {shape[1]} outputs, the sample {classes} classes. Where the last classes have "
            "no example, say how many there are: codebound.from_arrays(x, y, name=..., classes=...), or a "
            "factory that returns that, package.module:factory."
        )
    raise ModelError(
        f"the network makes {tuple(shape[1:])} of one example; one row of {classes} scores is needed. Where "
        "other axes have size 1, end with nn.Flatten(); else with a mean over them, or a layer."
    )


def _check(logits: Tensor, labels: Tensor) -> None:
    if logits.dim() != 2 or logits.shape[1] < 2:
        raise UsageError(f"logits must have shape (n, classes), classes >= 2. Got {tuple(logits.shape)}.")
    if labels.shape != logits.shape[:1] or labels.is_floating_point():
        raise UsageError(
            f"labels must be {len(logits)} integers. Got shape {tuple(labels.shape)}, dtype {labels.dtype}."
        )
    if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= logits.shape[1]):
        raise UsageError(
            f"labels must lie in [0, {logits.shape[1] - 1}], as the network has {logits.shape[1]} outputs. "
            f"Got labels from {int(labels.min())} to {int(labels.max())}."
        )


@dataclass(frozen=True)
class Loss(ABC):
    """A loss of 0 or 1, and the examples that it is about.

    It is counted on the examples of one class, or of the other classes, where it names one: the bound is then
    about new data of that class, and n is the number of such examples. They are independent draws from the
    distribution of their class, so that every bound applies as it is.

    Attributes:
        kind: The first word of its name.
        spelling: What the other words look like, in the order of its fields.
        promise: What a network does that incurs it on at most a share of its examples.
        number: Its number in a message; None where no message has it.
        least: The smallest number that it can have in its name.
        is_new: Whether files had no word for it before version 3.
        has_part: Whether it is about a part of the examples only.
        is_ranked: Whether the scores decide where several guesses are allowed, not the predicted class.
        is_of_values: Whether labels and predictions are values, without classes.
    """

    kind: ClassVar[str]
    spelling: ClassVar[tuple[str, ...]] = ()
    promise: ClassVar[str]
    number: ClassVar[int | None] = None
    least: ClassVar[int] = 0
    is_new: ClassVar[bool] = False
    has_part: ClassVar[bool] = False
    is_ranked: ClassVar[bool] = False
    is_of_values: ClassVar[bool] = False

    def __str__(self) -> str:
        return ":".join((self.kind, *map(str, astuple(self))))

    @classmethod
    def code(cls, choose: Choose, given: Loss, classes: int, table: Callable[[], str]) -> Self:
        """Codes its fields, or reads them where WRONG is given.

        Args:
            choose: Codes one of so many numbers from 0 on.
            given: The loss.
            classes: Number of classes.
            table: Codes the costs.
        """
        (number,) = astuple(given) or (cls.least,)
        return cls(choose(number - cls.least, classes - cls.least) + cls.least)  # type: ignore[call-arg]

    @property
    def guesses(self) -> int:
        """Number of guesses that it allows."""
        return 1

    @property
    def least_classes(self) -> int:
        """Number of classes that it is written out for."""
        return 1

    def check(self, classes: int) -> None:
        """Refuses a loss that does not fit so many classes."""
        numbers = [each for each in astuple(self) if isinstance(each, int)]
        if any(not self.least <= number < classes for number in numbers):
            raise UsageError(
                f"the loss {self} does not fit {classes} classes: its numbers go from {self.least} to "
                f"{classes - 1}."
            )

    def is_counted(self, labels: Tensor) -> Tensor:
        """Return a mask of the examples that it is about."""
        return torch.ones_like(labels, dtype=torch.bool)

    def leads(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the distance to the loss, in units of the scores. It is incurred at 0 and below.

        Ties, NaN and infinities are losses.
        """
        return margins(logits, labels)

    def is_incurred(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return a mask of losses. The scores are a row, or a value, for each example."""
        return self.is_counted(labels) & (self.leads(scores, labels) <= 0.0)

    def guess_rate(self, classes: int) -> float:
        """Return the rate of this loss for blind guesses. A bound as large says nothing."""
        return 1.0 - self.guesses / classes

    def says(self, share: str) -> str:
        """Describe a network that incurs this loss on at most a share.

        Example:
            >>> parse_loss("confused:3:5").says("2.00 %")
            'takes at most 2.00 % of new data of class 3 for class 5'
        """
        return self.promise.format(share=share, **asdict(self))


@dataclass(frozen=True)
class Wrong(Loss):
    """Any error."""

    kind, promise = "wrong", "errs on at most {share} of new data"


@dataclass(frozen=True)
class OfClass(Loss):
    """An error on an example of one class."""

    kind, number, spelling, has_part = "class", 0, (_NUMBER,), True
    promise = "errs on at most {share} of new data of class {label}"
    label: int

    def is_counted(self, labels: Tensor) -> Tensor:  # noqa: D102
        return labels == self.label


class AbstractSeen(Loss):
    """A class that is seen where it is not."""

    has_part = True
    seen: int

    def leads(self, logits: Tensor, labels: Tensor) -> Tensor:  # noqa: D102
        found = margins(logits, torch.full_like(labels, self.seen))
        return torch.where(found.isfinite(), -found, -torch.inf)

    def guess_rate(self, classes: int) -> float:  # noqa: D102
        return 1.0 / classes


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

    @classmethod
    def code(cls, choose: Choose, given: Loss, classes: int, table: Callable[[], str]) -> Self:  # noqa: D102
        label, seen = astuple(given) or (0, 0)
        label = choose(label, classes)
        seen = choose(max(0, seen - (seen > label)), classes - 1)
        return cls(label, seen + (seen >= label))

    def is_counted(self, labels: Tensor) -> Tensor:  # noqa: D102
        return labels == self.label


@dataclass(frozen=True)
class FalseAlarm(AbstractSeen):
    """An example of another class that is taken for one."""

    kind, number, spelling = "false-alarm", 2, (_NUMBER,)
    promise = "sees class {seen} in at most {share} of new data of other classes"
    seen: int

    def is_counted(self, labels: Tensor) -> Tensor:  # noqa: D102
        return labels != self.seen


@dataclass(frozen=True)
class Top(Loss):
    """A label that is not among the best guesses."""

    kind, number, spelling, least, is_ranked = "top", 3, (_NUMBER,), 1, True
    promise = "misses the label with its {best} best guesses on at most {share} of new data"
    best: int

    @property
    def guesses(self) -> int:  # noqa: D102
        return self.best

    def leads(self, logits: Tensor, labels: Tensor) -> Tensor:  # noqa: D102
        return margins(logits, labels, best=self.best)


def cost_matrix(table: str, classes: int) -> tuple[tuple[int, ...], ...]:
    """Return the costs of predicted classes, a row for each label: digits of a table, or their distance.

    Raises:
        UsageError: The costs are for another number of classes, or out of range.
    """
    if table == DISTANCE:
        rows = tuple(tuple(abs(y - j) for j in range(classes)) for y in range(classes))
    else:
        rows = tuple(tuple(int(digit, 16) for digit in row) for row in table.split(","))
    if [*map(len, rows)] != [classes] * classes or any(rows[y][y] for y in range(classes)):
        raise UsageError(
            f"costs for {classes} classes are as many rows, one for each label, separated by commas and "
            f"of one digit for each class, with 0 for the label itself. Got {table!r:.60}."
        )
    most_classes = MOST_COST + 1 if table == DISTANCE else MOST_CLASSES
    if classes > most_classes or not 1 <= max(map(max, rows)) <= MOST_COST:
        raise UsageError(
            f"costs go from 0 to 1 .. {MOST_COST}, for at most {MOST_CLASSES} classes ({MOST_COST + 1} "
            f"for {DISTANCE}). Got {table!r:.60} for {classes}."
        )
    return rows


@dataclass(frozen=True)
class CostAbove(Loss):
    """A cost of a predicted class, by its label, that is too much."""

    kind, number, spelling, is_new = "cost-above", 1, (_NUMBER, _TABLE), True
    promise = "causes a cost above {limit} on at most {share} of new data"
    limit: int
    table: str

    @classmethod
    def code(cls, choose: Choose, given: Loss, classes: int, table: Callable[[], str]) -> Self:  # noqa: D102
        (limit, *_), costs = astuple(given) or (0,), table()
        return cls(choose(limit, max(map(max, cost_matrix(costs, classes)))), costs)

    def check(self, classes: int) -> None:  # noqa: D102
        largest = max(map(max, cost_matrix(self.table, classes)))
        if self.limit >= largest:
            raise UsageError(
                f"no cost is above {self.limit}: the largest is {largest}. Name a smaller limit."
            )

    @property
    def least_classes(self) -> int:  # noqa: D102
        return self.table.count(",") + 1

    def leads(self, logits: Tensor, labels: Tensor) -> Tensor:  # noqa: D102
        scores = logits.detach().double()
        costs = torch.tensor(cost_matrix(self.table, scores.shape[1]), device=scores.device)[labels.long()]
        is_dear = costs > self.limit
        leads = _best(scores, ~is_dear) - _best(scores, is_dear)
        return torch.where(scores.isfinite().all(dim=1), leads, -torch.inf)

    def guess_rate(self, classes: int) -> float:  # noqa: D102
        columns = zip(*cost_matrix(self.table, classes), strict=True)
        least: int = min(sum(cost > self.limit for cost in column) for column in columns)
        return least / classes


@dataclass(frozen=True)
class LargeResidual(Loss):
    """A predicted value that is off by too much; NaN is."""

    kind, spelling = "residual", (r"(?=[\d.]*[1-9])\d{1,15}(\.\d{1,15})?(e-?\d{1,2})?",)
    promise = "is off by more than {tau} on at most {share} of new data"
    is_of_values = True
    tau: str

    def check(self, classes: int) -> None:  # noqa: D102
        raise UsageError(
            f"the loss {self} is one of predicted values, not of classes: seal examples with values "
            "(codebound holdout), or use PickToLearn(tau=...)."
        )

    def is_incurred(self, scores: Tensor, labels: Tensor) -> Tensor:  # noqa: D102
        return ~((scores - labels).abs() <= float(self.tau))


LOSSES: dict[str, type[Loss]] = {
    each.kind: each for each in (Wrong, OfClass, Confused, FalseAlarm, Top, CostAbove, LargeResidual)
}
"""All kinds by the first word of their names."""
WRONG = Wrong()


def _best(scores: Tensor, among: Tensor) -> Tensor:
    """The largest score of some classes; minus infinity without one."""
    return scores.masked_fill(~among, -torch.inf).amax(dim=1)


def parse_loss(text: str, *, classes: int | None = None) -> Loss:
    """The loss that a text names.

    Args:
        text: Such as ``wrong``, ``class:3``, ``confused:3:5``, ``false-alarm:1``, ``top:5``, ``missed``,
            ``cost-above:2:distance``, ``residual:0.1``.
        classes: Number of classes, where it is known: the loss has to fit them.

    Example:
        >>> parse_loss("missed", classes=2)
        OfClass(label=1)
    """
    if text in _FOR_TWO_CLASSES:
        if classes not in (None, 2):
            raise UsageError(f"the loss {text!r} needs two classes. Got {classes}; name one, as in class:3.")
        text = _FOR_TWO_CLASSES[text]
    kind, *words = text.split(":")
    if kind in _NOT_YES_OR_NO:
        what, instead = _NOT_YES_OR_NO[kind]
        raise UsageError(
            f"the loss {text:.80} {what}, which this program no longer bounds: a loss is yes or no for each "
            f"example. Ask for {instead}."
        )
    known = LOSSES.get(kind)
    if (
        known is None
        or len(words) != len(known.spelling)
        or not all(map(re.fullmatch, known.spelling, words))
    ):
        raise UsageError(f"unknown loss {text!r:.80}. Known: {_MEANINGS}.")
    loss = known(
        *(int(word) if like is _NUMBER else word for like, word in zip(known.spelling, words, strict=True))
    )
    if classes is not None:
        loss.check(classes)
    return loss


def possible_examples(loss: Loss, sample: Dataset) -> Dataset:
    """The examples that a loss is about; the sample itself where it is all of them."""
    labels = torch.from_numpy(sample.y)
    if counted_examples(loss, labels) == sample.n:
        return sample
    return sample.select(loss.is_counted(labels).nonzero()[:, 0].numpy(), role=sample.role)


def counted_examples(loss: Loss, labels: Tensor) -> int:
    """Count the examples that a loss is about.

    Raises:
        DataError: None: nothing can be said.
    """
    count = int(loss.is_counted(labels).sum())
    if count == 0:
        raise DataError(
            f"the sample has no example that the loss {loss} is about, so nothing can be said about "
            "it. Collect examples of that class, or ask for another loss."
        )
    return count
