"""The best of all rounds and candidates: every one of them is named by a message, and paid for."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.any_learner.learners import Fitter, LearnerError
from codebound.any_learner.picking_rule import Contents, RuleConstants, UndecidedError, rounds
from codebound.bounds.facts import OccamFacts, PickedFacts
from codebound.bounds.held_out import occam_split
from codebound.bounds.lengths import choice_bits
from codebound.bounds.picked import picked_risk
from codebound.bounds.risk import count_of, percent
from codebound.run.errors import CodeboundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from codebound.any_learner.picking_rule import Positions, Round
    from codebound.bounds.risk import RiskBound
    from codebound.run.progress import Progress


_DOMAIN = b"codebound example 1"  # what the hash of an example begins with


@dataclass(frozen=True, slots=True)
class RuleMessage:
    """Name of the chosen rule, in a prefix-free code fixed beforehand.

    Attributes:
        candidate: Number of the candidate settings, from 0.
        rounds: After how many rounds it stopped; None: where the rule ends by itself.
    """

    candidate: int = 0
    rounds: int | None = None

    def bits(self, candidates: int) -> float:
        """Length: one of the candidates, a bit for the end, and ``log2 (r + 1)(r + 2)`` for a round r.

        The numbers ``1/((r + 1)(r + 2))`` add up to 1, so there is a code of all rounds.

        Example:
            >>> RuleMessage().bits(1), RuleMessage(0, 2).bits(1) > 4.58, RuleMessage(3).bits(8)
            (1.0, True, 4.0)
        """
        length = 1.0 + choice_bits(candidates)
        return length if self.rounds is None else length + choice_bits((self.rounds + 1) * (self.rounds + 2))


@dataclass(frozen=True, slots=True)
class Stage:
    """Message, counts and bound after a round.

    Attributes:
        message: The message that stops here.
        picks: How many examples were picked.
        errors: How many others are wrong.
        bound: The bound, with all choices paid.
    """

    message: RuleMessage
    picks: int
    errors: int
    bound: RiskBound


@dataclass(frozen=True, slots=True)
class Sample:
    """Examples as they are stored.

    Attributes:
        inputs: Inputs, in any form that a learner takes.
        labels: Labels or values.
        digests: The hash of each example.
    """

    inputs: Any
    labels: NDArray[Any]
    digests: list[bytes]

    def sha256(self, order: Iterable[int] | None = None) -> str:
        """Hash of the whole sample, or of some examples, in their order."""
        chosen = self.digests if order is None else [self.digests[at] for at in order]
        return hashlib.sha256(b"".join(chosen)).hexdigest()

    def contents(self, apart: Positions, *, by_class: bool) -> Contents:
        """The sample without what is set apart, as a rule may see it."""
        order = sorted(range(len(self.digests)), key=lambda at: self.digests[at])
        numbers = {digest: number for number, digest in enumerate(dict.fromkeys(self.digests))}
        return Contents(
            order=np.array(order, dtype=np.int64)[~np.isin(order, apart)],
            ids=np.array([numbers[digest] for digest in self.digests], dtype=np.int64),
            groups=self.labels.tolist() if by_class else [0] * len(self.digests),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A candidate, and what its bounds are made of.

    Attributes:
        rule: The constants of its rule.
        fitter: Its learner.
        contents: The sample, as a rule may see it.
        n: Examples that could be picked, of those that the loss is about.
        delta: Failure probability.
        classes: Number of classes; None for regressors.
        candidates: Settings that were to choose from.
        extra_bits: Bits for choices made elsewhere.
        part: Which examples the loss is about.
    """

    rule: RuleConstants
    fitter: Fitter
    contents: Contents
    n: int
    delta: float
    classes: int | None
    part: NDArray[np.bool_]
    candidates: int = 1
    extra_bits: float = 0.0

    def counted(self, at: Round) -> tuple[int, int]:
        """Picks and errors that count: on the part of the sample that the loss is about."""
        return int(self.part[at.picks].sum()), int(self.part[at.errors].sum())

    def bound(self, message: RuleMessage, *, picks: int, errors: int) -> RiskBound:
        """The bound of a message, with all choices paid.

        A message that says "no rounds", where there are no first picks either, leaves the sample untouched:
        it is a test set then, and C-10 holds, which is a little smaller than C-15.
        """
        bits, n_first = message.bits(self.candidates) + self.extra_bits, len(self.fitter.apart)
        if message.rounds == 0 and not picks and n_first:
            return occam_split(
                OccamFacts(errors=errors, n=self.n, code_bits=bits, delta=self.delta, classes=self.classes)
            )
        facts = PickedFacts(
            picks=picks,
            errors=errors,
            n=self.n,
            delta=self.delta,
            code_bits=bits,
            n_first=n_first,
            classes=self.classes,
        )
        return picked_risk(facts)


class RoundSearch:
    """Goes through the rounds of all variants; the smallest bound is kept.

    Every message stands for itself, so a search may stop wherever it likes: where nothing can be gained any
    more, where somebody stops it, or where a learner fails.

    Args:
        variants: A variant for each candidate.
        progress: Told after each round.
    """

    def __init__(self, variants: list[Variant], progress: Progress) -> None:
        self.stages: list[Stage] = []
        self.is_interrupted = False
        self._variants, self._progress = variants, progress
        self._best: tuple[Stage, Round] | None = None
        self._failures: dict[int, CodeboundError] = {}

    def run(self) -> tuple[Stage, Round]:
        """The message with the smallest bound, and its round.

        Raises:
            UsageError: There is none, or its learner does not learn the same from the same picks.
        """
        try:
            for number, variant in enumerate(self._variants):
                self._run_one(number, variant)
        except KeyboardInterrupt:
            if self._best is None:
                raise
            self.is_interrupted = True
        if self._best is None:
            raise next(iter(self._failures.values()))
        for number, failure in self._failures.items():
            warnings.warn(f"candidate {number} was left out: {failure}", stacklevel=5)
        stage, at = self._best
        _require_repeatable(self._variants[stage.message.candidate].fitter, at)
        return stage, at

    def _run_one(self, number: int, variant: Variant) -> None:
        fitter, before = variant.fitter, len(self.stages)
        try:
            for at in rounds(variant.contents, fitter, variant.rule, apart=len(fitter.apart)):
                if at.number == 0:
                    _require_repeatable(fitter, at)
                self._consider(number, variant, at)
                if self._is_over(number, variant, at):
                    return
        except (UndecidedError, LearnerError) as error:
            if len(self.stages) > before:  # what was found before stays true
                warnings.warn(f"the rounds ended early: {error}", stacklevel=6)
            else:
                self._failures[number] = error

    def _consider(self, number: int, variant: Variant, at: Round) -> None:
        messages = [RuleMessage(number, at.number), *([RuleMessage(number)] if at.is_last else [])]
        picks, errors = variant.counted(at)
        for message in messages:
            bound = variant.bound(message, picks=picks, errors=errors)
            stage = Stage(message, picks, errors, bound)
            self.stages.append(stage)
            if self._best is None or bound.value < self._best[0].bound.value:
                self._best = stage, at
        if self._best is not None:
            best, _ = self._best
            price = f"{count_of(best.picks, 'pick')}, {count_of(best.errors, 'error')}"
            note = f"bound {percent(best.bound.value)} ({price})"
            self._progress(len(self.stages), None, note)

    def _is_over(self, number: int, variant: Variant, at: Round) -> bool:
        """Return True if no later round of this candidate can improve."""
        if self._best is None:
            return False
        hoped = variant.bound(RuleMessage(number), picks=variant.counted(at)[0], errors=0)
        return hoped.value >= self._best[0].bound.value


def _require_repeatable(fitter: Fitter, at: Round) -> None:
    if not fitter.is_repeatable(at.model, at.picks):
        examples = count_of(len(fitter.apart) + len(at.picks), "example")
        raise UsageError(
            f"the learner {type(at.model).__name__}, fitted twice on the same {examples}, gives two "
            "different results: then no rule says what it learns, and there is no bound. Fix its seed "
            "(random_state=0), and the number of threads where it matters."
        )


def digests(inputs: Any, labels: NDArray[Any]) -> list[bytes]:
    """SHA-256 of every example.

    Numbers count with their bytes and other values as Python writes them: never with the padding of an array,
    which depends on the longest text in it.

    Args:
        inputs: An array, a sparse matrix, a data frame or a list, examples along the first axis.
        labels: The labels, one for each.

    Example:
        >>> short, both = ["a"], ["a", "longer"]
        >>> digests(short, np.array(short)) == digests(both, np.array(both))[:1]
        True
    """
    return [
        hashlib.sha256(b"%b %d %b%b" % (_DOMAIN, len(content), content, label)).digest()
        for content, label in zip(_rows(inputs), _rows(labels), strict=True)
    ]


def _rows(values: Any) -> Iterator[bytes]:
    if hasattr(values, "tocsr"):
        return _sparse_rows(values.tocsr())
    if hasattr(values, "iloc") and values.ndim == 1:
        values = values.to_numpy()
    elif hasattr(values, "iloc"):
        is_plain = len(set(values.dtypes)) == 1  # then it counts like the array that it holds
        values = values.to_numpy() if is_plain else values.to_numpy(dtype=object)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufc":
        kind = values.dtype.str.encode()
        return (kind + np.ascontiguousarray(row).tobytes() for row in values)
    return (
        repr(row.tolist() if isinstance(row, np.ndarray | np.generic) else row).encode() for row in values
    )


def _sparse_rows(matrix: Any) -> Iterator[bytes]:
    matrix = matrix.copy()
    matrix.sum_duplicates()
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        places = matrix.indices[start:stop].astype(np.int64)
        values = matrix.data[start:stop]
        yield b"%d %b%b" % (len(places), places.tobytes(), np.ascontiguousarray(values).tobytes())
