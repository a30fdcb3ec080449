"""Outcomes of methods: a classifier, the message that determines it, and its verdicts on the sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from codebound.bits.plain_code import NETWORK, PICKS
from codebound.bounds.risk import count_of
from codebound.certificate.evaluate import count_errors, judge_network
from codebound.known.score_tables import Biased, run_on
from codebound.learn.learner import KernelNetwork
from codebound.run.errors import FormatError
from codebound.run.extensions import form_of
from codebound.run.progress import Progress, silent
from codebound.sample.counting import Verdicts, judge
from codebound.sample.losses import WRONG
from codebound.sample.questions import Question

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from codebound.bits.plain_code import Bits, Ledger, TableChoice
    from codebound.certificate.task import AbstractMessage, Task
    from codebound.known.score_tables import ScoreTable
    from codebound.learn.learner import Learned
    from codebound.run.job import Engine
    from codebound.sample.dataset import Sample
    from codebound.sample.losses import Loss
    from codebound.sample.order import Arranged


class AbstractOutcome(ABC):
    """A classifier that a message determines, together with what is known."""

    form: str  # of its message
    classes: NDArray[np.int64]  # label of each of its scores
    known_rows: int = 0  # units of the sample that it was made from without a look at the others
    picked: NDArray[np.int64] | None = None  # stored indices of examples that were picked after a look
    place: int = 1  # of its table in the list of those that are declared
    is_recounted: bool = False  # the second program has only declared scores to count
    takes_stored: bool = True  # the classifier takes inputs as they are stored
    witness: bytes = b""  # proofs that a decoder would have to search for
    says: str = ""  # a few words on its examples, for the table of offers

    @abstractmethod
    def encode(self) -> tuple[Bits, Ledger]:
        """The message from the word of its form on, and the bits of each part."""

    @abstractmethod
    def judge(self, question: Question, task: Task, counted: NDArray[np.int64]) -> Verdicts:
        """Verdicts on every stored row; only those of ``counted`` are looked at."""

    @property
    @abstractmethod
    def classifier(self) -> nn.Module | None:
        """The classifier, where it is more than a table."""

    @abstractmethod
    def count_losses(self, data: Sample, loss: Loss) -> int | None:
        """Losses on other data; None where there is no classifier to ask."""


@dataclass(frozen=True, eq=False)
class NetworkOutcome(AbstractOutcome):
    """A network that its message describes, number by number; ``encoded`` is the message with its ledger."""

    message: AbstractMessage
    encoded: tuple[Bits, Ledger]
    network: nn.Module
    classes: NDArray[np.int64]
    known_rows: int
    witness: bytes
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
        """Encode a message, unless that was done, and decode it again."""
        bits, ledger = message.encode() if encoded is None else encoded
        witness, classes = message.witness(), np.arange(task.sample.classes)
        read: AbstractMessage = form_of("message")(bits, input_shape=task.sample.input_shape, witness=witness)
        for name, part in message.parts.items():  # numbers are those that were counted with
            if read.parts[name] != part:
                raise FormatError(
                    f"the message does not say what it was made for: {name} {read.parts[name]}, not {part}."
                )
        network = read.build(task.base_tensors)
        encoded = bits, ledger
        return cls(message, encoded, network, classes, task.known_rows, witness, engine, progress)

    def encode(self) -> tuple[Bits, Ledger]:  # noqa: D102
        return self.encoded

    def judge(self, question: Question, task: Task, counted: NDArray[np.int64]) -> Verdicts:  # noqa: D102
        found = judge_network(
            self.network,
            task.rest_data,  # these are the counted rows of every network, in stored order
            question=question,
            theta=self.message.theta,
            engine=self.engine,
            progress=self.progress,
        )
        whole = Verdicts(*(np.zeros(task.sample.n, bool) for _ in range(3)))
        for name in ("right", "counts", "speaks"):
            getattr(whole, name)[counted] = getattr(found, name)
        return whole

    @property
    def classifier(self) -> nn.Module:  # noqa: D102
        return self.network

    def count_losses(self, data: Sample, loss: Loss) -> int:  # noqa: D102
        return count_errors(self.network, data.on("cpu"), loss=loss, engine=self.engine)


class RuleOutcome(AbstractOutcome):
    """A kernel network that a rule learned from a share, or from examples that it picked."""

    def __init__(self, learned: Learned, arranged: Arranged) -> None:
        self.learned, self.arranged = learned, arranged
        self.form, self.classes, self.known_rows = learned.form, learned.classes, learned.first
        self.says = f"learned from {learned.first} examples without picks"
        if learned.form == PICKS:
            self.picked = learned.picks
            self.says = f"{count_of(len(learned.picks), 'pick')} beside {learned.first} first ones"

    def encode(self) -> tuple[Bits, Ledger]:  # noqa: D102
        return self.learned.choice(self.arranged).encode(self.arranged.sample.input_shape)

    def judge(self, question: Question, task: Task, counted: NDArray[np.int64]) -> Verdicts:  # noqa: D102
        values, room = self.learned.scores()
        return judge(question, values, task.sample.y, classes=self.classes, room=room)

    @cached_property
    def classifier(self) -> KernelNetwork:  # noqa: D102
        return KernelNetwork.of(self.learned, self.arranged.sample)

    def count_losses(self, data: Sample, loss: Loss) -> int:  # noqa: D102
        return count_learned(self.classifier, data, loss)


class TableOutcome(AbstractOutcome):
    """A declared table of scores, with or without biases."""

    is_recounted = True

    def __init__(self, choice: TableChoice, table: ScoreTable) -> None:
        self.choice, self.table = choice, table
        self.place, self.form = choice.table, choice.form
        self.known_rows, self.picked = table.rows, table.picks
        self.classes = np.arange(table.scores.shape[1])
        self.says = f"scores of {table.by}, which are declared"

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

    def count_losses(self, data: Sample, loss: Loss) -> int | None:  # noqa: D102
        if self.classifier is None:
            return None
        values = run_on(self.classifier, data).astype(np.float64)
        return _count_wrong(loss, data, judge(Question(loss), values, data.y))


def count_learned(network: KernelNetwork, data: Sample, loss: Loss = WRONG) -> int:
    """Losses of a network that a rule learned, which takes inputs as they are stored."""
    values, room = network.scores(data.x)
    classes = network.classes.numpy()
    return _count_wrong(loss, data, judge(Question(loss), values, data.y, classes=classes, room=room))


def _count_wrong(loss: Loss, data: Sample, verdicts: Verdicts) -> int:
    return int((np.asarray(loss.is_about(data.y)) & ~verdicts.right).sum())
