"""The checks of a certificate in their order, behind ``read_container``; later ones need earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .claim import OF_TABLES, RISK, check_counts, check_kind, check_limits, check_vacuous
from .container import Container
from .counting import Scores, Tally, recount
from .header import Table
from .losses import Array
from .message import Message, finish_message, read_message
from .order import Arranged, arrange
from .refusal import Lacking, Refused
from .rooms import room
from .sample import Data, Progress, check_sample, hash_arrays
from .tables import TableChoice, check_table, read_table, read_table_choice, scores_of_table

Tensors = Mapping[str, Array]
LONG = 1 << 40  # multiplications, from which on a check takes minutes
A_MINUTE = 6e11  # of them, on one core
Mapped = tuple[str, str, Sequence[Array], bool]  # what is read from a file: its name, hash and arrays


@dataclass(frozen=True, kw_only=True)
class Given:
    """Things that are given beside a file and its sample."""

    cells: bool = False  # the inputs are cells (section 3.2)
    clusters: Array | None = None  # the number of the cluster of each row
    groups: Array | None = None
    tables: Sequence[str | Path | Tensors | None] = ()  # of scores, in the order of the header
    base: Tensors | None = None  # if the message is a network and the header names one
    unlabelled: Array | None = None  # inputs, for the statement C-12b
    answers: str | Path | Tensors | None = None  # of f on them, where the header has no chain of f
    subject_weights: Tensors | None = None  # of the original network f
    learned_weights: Tensors | None = None  # handed over as g: are they those of the message?
    test: tuple[Array, Array] | None = None  # took no part in making the classifier: may refute the claim
    by_class: bool = False  # count the errors on every class too
    progress: Progress | None = None  # called while rows are evaluated
    announce: Callable[[str], None] | None = None  # called before a check that takes minutes


@dataclass
class Checklist:
    """The checks of one certificate: ``reasons`` to refuse, ``passed`` in words, and what was found.

    A step whose ground is missing is left out: there is a reason already.
    """

    container: Container
    given: Given
    reasons: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=lambda: ["the file is well-formed and its hashes are right"])
    data: Data | None = None
    arranged: Arranged | None = None
    message: Message | None = None
    table: Table | None = None  # that the message names
    scores: Scores | None = None
    learned: Any = None  # g, if a rule learned it
    network: Any = None  # g, if the message holds it
    evaluator: Any = None  # the same as a function; or f, if the claim is about it
    picked: NDArray[np.int64] | None = None
    is_finished: bool = False
    mapped: list[Mapped] = field(default_factory=list)

    def run(self, x: Array, y: Array) -> None:
        """Check everything that the verdict rests on."""
        self._read(x, y)
        if self.data is None or self.arranged is None or self.message is None:
            return
        self._make_scores(self.message, self.data, self.arranged)
        if self.scores is not None:
            self._count(self.message, self.data, self.arranged, self.scores)
            self._check_weights()

    @contextmanager
    def _check(self, what: str) -> Iterator[None]:
        try:
            yield
        except Lacking:
            raise
        except Refused as refused:
            self.reasons.extend(refused.reasons)
        else:
            self.passed.append(what)

    def _read(self, x: Array, y: Array) -> None:
        """Check that the data are those of the file, put them in order, and read the message's words."""
        header, given = self.container.header, self.given
        with self._check("the data are the sample that the certificate names"):
            self.data = data = check_sample(x, y, header, is_cells=given.cells)
            if isinstance(data.x, np.memmap):
                self.mapped.append(("the sample", header.sample.sha256, (data.x, data.y), given.cells))
        if self.data is not None:
            with self._check("the known rows are those that the order of the sample puts first"):
                self.arranged = arrange(self.data, header, given.clusters, given.groups)
        with self._check("the message begins with words of the page"):
            self.message = read_message(self.container)

    def _make_scores(self, message: Message, data: Data, arranged: Arranged) -> None:
        """Read the rest of the message, and make or read the scores that it names."""
        header, make = self.container.header, None
        with self._check("the message says what the header repeats, in exactly the bits that it charges"):
            make = self._read_form(message, data, arranged)
            finish_message(message, header)
            has_picks = self.table is not None and self.table.picks is not None
            check_kind(header, message.form, message.question, has_picks=has_picks)
        if make is not None and not self.reasons:
            with self._check("the scores are those of the message: read, learned or computed again"):
                self.scores = make()

    def _read_form(self, message: Message, data: Data, arranged: Arranged) -> Callable[[], Scores]:
        """Read what follows the word of a form. What it returns makes the scores."""
        header, given, form, bits = self.container.header, self.given, message.form, message.bits
        if form != "network" and self.container.witness:
            raise Refused(
                "Witness: nothing has to be proved where no network is decoded; it has to be empty."
            )
        if form in OF_TABLES:
            choice = read_table_choice(bits, form, header)
            self.table = header.known.tables[choice.index]
            return partial(self._read_table, choice, self.table, data, arranged)
        make: Callable[[], Scores]
        if form == "network":
            self.network = room("network").read_network(bits, self.container, data, given.base)
            work, make = header.sample.rows * self.network.chain.work, self._evaluate
        else:
            rules, learning = room("rule"), room("picks")
            if form == "picks":
                rule, learn = rules.read_picks(bits, data, arranged, header), learning.carry_out
            else:
                rule, learn = rules.read_split(bits, form, data, arranged, header), learning.learn_split
            learned = partial(learn, rule, data, arranged, given.progress)
            work, make = rule.work, partial(self._learn, learned, form)
        if work > LONG and given.announce is not None:
            minutes = f"{work / A_MINUTE:.0f} minutes"
            given.announce(f"It takes about {work:.0e} multiplications: some {minutes} on one core.")
        return make

    def _read_table(self, choice: TableChoice, table: Table, data: Data, arranged: Arranged) -> Scores:
        tables = self.given.tables
        if choice.index >= len(tables) or (source := tables[choice.index]) is None:
            raise Lacking(f"table {choice.index + 1} of its scores (--scores)")
        declared = read_table(source, table, data)
        check_table(declared, arranged)
        self.picked = declared.picks
        arrays = [each for each in (declared.scores, declared.picks) if each is not None]
        self.mapped.append(("the table of scores", table.sha256, arrays, False))
        return scores_of_table(declared, choice)

    def _evaluate(self) -> Scores:
        scores: Any = room("evaluation").NetworkScores(self.network, self.given.progress)
        self.evaluator = scores.evaluator
        found: Scores = scores
        return found

    def _learn(self, learn: Callable[[], Any], form: str) -> Scores:
        self.learned = learn()
        self.passed += self.learned.sentences
        self.picked = self.learned.picks if form == "picks" else None
        scores: Scores = self.learned
        return scores

    def _count(self, message: Message, data: Data, arranged: Arranged, scores: Scores) -> None:
        """Count what each limit follows from, and check limits, bound and the word vacuous."""
        header, tallies = self.container.header, None
        with self._check("no row is counted as right that is not, and every copy as the header says"):
            if len(scores.classes) != header.sample.classes:
                raise Refused(
                    f"Scores: they are of {len(scores.classes)} classes; the header says "
                    f"{header.sample.classes}."
                )
            tallies = recount(message.question, header, data, arranged, scores, self.picked)
        if tallies is None:
            return
        if header.original is not None:
            with self._check("what is shown about g carries over to f"):
                tallies = self._carry_over(data, tallies)
        if self.reasons:
            return
        with self._check("errors and right rows are as stated, or fewer"):
            check_counts(header, tallies)
        with self._check("limits and bound follow from the counts, the bits and delta"):
            check_limits(header)
        with self._check("what guessing does is compared with the bound"):
            check_vacuous(header, message.question, data.y[arranged.counted])
        self.is_finished = True

    def _carry_over(self, data: Data, tallies: tuple[Tally, ...]) -> tuple[Tally, ...]:
        """The counts that hold for the network f that was given (section 9)."""
        carried = room("original network").carry_over(
            self.container.header, self.network, self.evaluator, self.given, data
        )
        self.evaluator, disagreement, mapped = carried
        self.mapped += mapped
        return tallies if disagreement is None else (replace(tallies[0], of=RISK), disagreement)

    def _check_weights(self) -> None:
        """Check that weights handed over beside the file are those of g."""
        subject = self.network if self.learned is None else self.learned
        if self.given.learned_weights is not None and subject is not None:
            with self._check("the weights beside it are those of g"):
                subject.check_weights(self.given.learned_weights)

    def find_changed(self) -> str | None:
        """Name what is no longer as it was hashed, if anything: others may write to a mapped file."""
        return next((what for what, sha, a, c in self.mapped if hash_arrays(*a, is_cells=c) != sha), None)
