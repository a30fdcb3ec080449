"""Outcomes of methods: a classifier, the message that determines it, and its verdicts on the sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from codebound.bits.forms import NETWORK
from codebound.bounds.risk import count_of
from codebound.certificate.evaluate import count_errors, judge_network
from codebound.known.score_tables import Biased, run_on
from codebound.learn.kernel_network import KernelNetwork
from codebound.run.errors import FormatError
from codebound.run.extensions import form_of
from codebound.run.progress import Progress, silent
from codebound.sample.counting import Verdicts, judge
from codebound.sample.losses import WRONG
from codebound.sample.questions import Question

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from codebound.bits.bitstring import Bits
    from codebound.bits.forms import TableChoice
    from codebound.bits.plain_code import Ledger
    from codebound.certificate.messages import AbstractMessage
    from codebound.certificate.task import Task
    from codebound.known.score_tables import ScoreTable
    from codebound.learn.learner import Learned
    from codebound.run.job import Engine
    from codebound.sample.dataset import Dataset
    from codebound.sample.losses import Loss
    from codebound.sample.order import Arranged


class AbstractOutcome(ABC):
    """A classifier that a message determines, together with what is known.

    Attributes:
        form: Form of its message.
        known_rows: Units of the sample that it was made from without a look at the others.
        picked: Stored indices of examples that were picked after a look; None where no rule picks.
        is_recounted: Whether the second program has only declared scores to count.
        takes_stored: Whether the classifier takes inputs as they are stored.
    """

    form: str
    known_rows: int = 0
    picked: NDArray[np.int64] | None = None
    is_recounted: bool = False
    takes_stored: bool = True

    @property
    @abstractmethod
    def classes(self) -> NDArray[np.int64]:
        """Label of each of its scores."""

    @abstractmethod
    def encode(self) -> tuple[Bits, Ledger]:
        """The message from the word of its form on, and the bits of each part."""

    @property
    def witness(self) -> bytes:
        """Proofs that a decoder would have to search for."""
        return b""

    @abstractmethod
    def judge(self, question: Question, task: Task, counted: NDArray[np.int64]) -> Verdicts:
        """Verdicts on every stored row; only those of ``counted`` are looked at."""

    @property
    @abstractmethod
    def classifier(self) -> nn.Module | None:
        """The classifier, where it is more than a table."""

    @abstractmethod
    def count_losses(self, data: Dataset, loss: Loss) -> int | None:
        """Losses on other data; None where there is no classifier to ask."""

    @property
    @abstractmethod
    def says(self) -> str:
        """A few words on its examples, for the table of offers."""


@dataclass(frozen=True, eq=False)
class NetworkOutcome(AbstractOutcome):
    """A network that its message describes, number by number.

    Attributes:
        message: The message.
        encoded: Its bits and its ledger.
        network: What the bits decode to.
        labels: Number of classes.
        known_rows: Units that base and features were made of.
        engine: Where it is evaluated.
        progress: Told the examples done.
    """

    message: AbstractMessage
    encoded: tuple[Bits, Ledger]
    network: nn.Module
    labels: int
    known_rows: int = 0
    engine: Engine | None = None
    progress: Progress = silent
    form = NETWORK
    takes_stored = False

    @classmethod
    def of(
        cls,
        message: AbstractMessage,
        task: Task,
        *,
        encoded: tuple[Bits, Ledger] | None = None,
        engine: Engine | None = None,
        progress: Progress = silent,
    ) -> NetworkOutcome:
        """Encode a message, unless that was done, and decode it again.

        Raises:
            FormatError: The bits do not say what they were made for.
        """
        bits, ledger = message.encode() if encoded is None else encoded
        read: AbstractMessage = form_of("message")(
            bits, input_shape=task.sample.input_shape, witness=message.witness()
        )
        for name, part in message.parts.items():  # numbers are those that were counted with
            if read.parts[name] != part:
                raise FormatError(
                    f"the message does not say what it was made for: {name} {read.parts[name]}, not {part}."
                )
        network = read.build(task.base_tensors)
        return cls(message, (bits, ledger), network, task.sample.classes, task.known_rows, engine, progress)

    @property
    def classes(self) -> NDArray[np.int64]:  # noqa: D102
        return np.arange(self.labels)

    def encode(self) -> tuple[Bits, Ledger]:  # noqa: D102
        return self.encoded

    @property
    def witness(self) -> bytes:  # noqa: D102
        return self.message.witness()

    def judge(self, question: Question, task: Task, counted: NDArray[np.int64]) -> Verdicts:  # noqa: D102
        found = judge_network(
            self.network,
            task.rest_data,  # these are the counted rows of every network, in stored order
            question=question,
            theta=self.message.theta,
            engine=self.engine,
            progress=self.progress,
        )
        return _spread(found, counted, task.sample.n)

    @property
    def classifier(self) -> nn.Module:  # noqa: D102
        return self.network

    def count_losses(self, data: Dataset, loss: Loss) -> int:  # noqa: D102
        return count_errors(self.network, data.on("cpu"), loss=loss, engine=self.engine)

    @property
    def says(self) -> str:  # noqa: D102
        return ""


@dataclass(frozen=True, eq=False)
class RuleOutcome(AbstractOutcome):
    """A kernel network that a rule learned from a share, or from examples that it picked.

    Attributes:
        learned: What carrying out the rule came to.
        arranged: The sample in its order.
    """

    learned: Learned
    arranged: Arranged

    @property
    def form(self) -> str:  # type: ignore[override]
        """Form of its message."""
        return self.learned.form

    @property
    def known_rows(self) -> int:  # type: ignore[override]
        """Units of the share, or of the first examples."""
        return self.learned.first

    @property
    def picked(self) -> NDArray[np.int64] | None:  # type: ignore[override]
        """Examples that the rule picked."""
        return self.learned.picks if self.learned.form == "picks" else None

    @property
    def classes(self) -> NDArray[np.int64]:  # noqa: D102
        return self.learned.classes

    def encode(self) -> tuple[Bits, Ledger]:  # noqa: D102
        return self.learned.choice(self.arranged).encode(self.arranged.sample.input_shape)

    def judge(self, question: Question, task: Task, counted: NDArray[np.int64]) -> Verdicts:  # noqa: D102
        values, room = self.learned.scores()
        return judge(question, values, task.sample.y, classes=self.classes, room=room)

    @cached_property
    def classifier(self) -> KernelNetwork:  # noqa: D102
        return KernelNetwork.of(self.learned, self.arranged.sample)

    def count_losses(self, data: Dataset, loss: Loss) -> int:  # noqa: D102
        return count_learned(self.classifier, data, loss)

    @property
    def says(self) -> str:  # noqa: D102
        learned = self.learned
        if learned.form == "picks":
            return f"{count_of(len(learned.picks), 'pick')} beside {learned.first} first ones"
        return f"learned from {learned.first} examples without picks"


@dataclass(frozen=True, eq=False)
class TableOutcome(AbstractOutcome):
    """A declared table of scores, with or without biases.

    Attributes:
        choice: Which table, and the biases.
        table: The table.
    """

    choice: TableChoice
    table: ScoreTable
    is_recounted = True

    @property
    def form(self) -> str:  # type: ignore[override]
        """Form of its message."""
        return self.choice.form

    @property
    def known_rows(self) -> int:  # type: ignore[override]
        """Units of the sample that the scores were made from."""
        return self.table.rows

    @property
    def picked(self) -> NDArray[np.int64] | None:  # type: ignore[override]
        """Examples that the learner picked."""
        return self.table.picks

    @property
    def classes(self) -> NDArray[np.int64]:  # noqa: D102
        return np.arange(self.table.scores.shape[1])

    def encode(self) -> tuple[Bits, Ledger]:  # noqa: D102
        return self.choice.encode()

    def judge(self, question: Question, task: Task, counted: NDArray[np.int64]) -> Verdicts:  # noqa: D102
        values = self.table.scores.astype(np.float64)
        if self.choice.biases:
            values += np.array(self.choice.biases)
        return judge(question, values, task.sample.y)

    @property
    def classifier(self) -> nn.Module | None:  # noqa: D102
        network, biases = self.table.classifier, self.choice.biases
        return network if network is None or not biases else Biased(network, biases)

    def count_losses(self, data: Dataset, loss: Loss) -> int | None:  # noqa: D102
        if self.classifier is None:
            return None
        values = run_on(self.classifier, data).astype(np.float64)
        return _count_wrong(loss, data, judge(Question(loss), values, data.y))

    @property
    def says(self) -> str:  # noqa: D102
        return f"scores of {self.table.by}, which are declared"


def count_learned(network: KernelNetwork, data: Dataset, loss: Loss = WRONG) -> int:
    """Losses of a network that a rule learned, which takes inputs as they are stored."""
    values, room = network.scores(data.x)
    classes = network.classes.numpy()
    return _count_wrong(loss, data, judge(Question(loss), values, data.y, classes=classes, room=room))


def _count_wrong(loss: Loss, data: Dataset, verdicts: Verdicts) -> int:
    return int((np.asarray(loss.is_about(data.y)) & ~verdicts.right).sum())


def _spread(verdicts: Verdicts, rows: NDArray[np.int64], n: int) -> Verdicts:
    """Verdicts on some rows, at their places among n."""
    whole = Verdicts(*(np.zeros(n, bool) for _ in range(3)))
    for name in ("right", "counts", "speaks"):
        getattr(whole, name)[rows] = getattr(verdicts, name)
    return whole
