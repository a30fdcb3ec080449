"""Questions that a claim answers: a loss, and the examples that count (docs/format.md, 5.6 and 6.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.bits.plain_code import (
    FORMS,
    OTHER_LOSS,
    RESERVED,
    USUAL_SPLIT,
    PlainWriter,
    code_form,
    code_word,
)
from codebound.run.errors import UsageError
from codebound.sample.losses import MOST_LABELS, WRONG, Loss, parse_loss, read_loss

if TYPE_CHECKING:
    from codebound.bits.plain_code import Bits, Ledger, PlainReader

ALL = "all"
ONE_ROW, ANY_ROW = "one row a cluster", "any row of a cluster"
EACH_CLASS, EACH_GROUP = "each class", "each group"
_LAST = (EACH_GROUP, ONE_ROW, ANY_ROW)
_SMALL = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_LARGE = (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 15)
_THRESHOLDS = tuple(map(str, _SMALL + _LARGE))
_SAYS = {
    EACH_CLASS: ", on each class by itself",
    EACH_GROUP: ", on each group by itself",
    ONE_ROW: ", counted on one row of every cluster",
    ANY_ROW: ", counted where any row of a cluster is wrong",
}


@dataclass(frozen=True, slots=True)
class Question:
    """A loss, and the examples that it is counted on."""

    loss: Loss = WRONG
    on: str = ALL

    def __post_init__(self) -> None:
        kind, _, word = self.on.partition(":")
        is_known = (
            self.on in (ALL, EACH_CLASS, *_LAST)
            or (kind == "answered" and word in _THRESHOLDS)
            or (
                kind == "predicted"
                and word.isdecimal()
                and word == str(int(word))
                and int(word) < MOST_LABELS
            )
        )
        if not is_known:
            raise UsageError(
                f"errors are counted on 'all', 'answered:T', 'predicted:C', '{EACH_CLASS}', '{EACH_GROUP}', "
                f"'{ONE_ROW}' or '{ANY_ROW}', with T one of {', '.join(_THRESHOLDS)}. Got {self.on!r:.80}."
            )

    @property
    def is_plain(self) -> bool:
        """Return True if it is every error, on all rows."""
        return self.loss == WRONG and self.on == ALL

    def says(self, share: str) -> str:
        """Describe a classifier that this is true of at most a share.

        Example:
            >>> Question(on="answered:2").says("2.00 %")
            'errs on at most 2.00 % of the new data that it answers'
            >>> Question(on="predicted:3").says("2.00 %")
            'errs on at most 2.00 % of the new data that it takes for class 3'
        """
        found = self.loss.says(share)
        kind, _, word = self.on.partition(":")
        if kind in ("answered", "predicted"):
            which = "answers" if kind == "answered" else f"takes for class {word}"
            return found.replace("of new data", f"of the new data that it {which}")
        return found + _SAYS.get(self.on, "")

    def __str__(self) -> str:
        return str(self.loss) if self.on == ALL else f"{self.loss} on {self.on}"


def parse_question(loss: str, on: str = ALL, *, classes: int | None = None) -> Question:
    """The question that two texts name.

    Example:
        >>> parse_question("class:3", "answered:2")
        Question(loss=OfClass(label=3), on='answered:2')
    """
    return Question(parse_loss(str(loss), classes=classes), str(on))


def code_question(coder: PlainWriter | PlainReader, question: Question | None, classes: int) -> Question:
    """Loss and rows behind the word ``1111110``."""
    if isinstance(coder, PlainWriter):
        assert question is not None
        loss, on = question.loss, question.on
        loss.write(coder, classes)
    else:
        loss, on = read_loss(coder, classes), ALL
    on = _code_on(coder, on)
    coder.require(loss != WRONG or on not in (ALL, ONE_ROW), "the usual loss stands behind no word.")
    return Question(loss, on)


def _code_on(coder: PlainWriter | PlainReader, on: str) -> str:
    kind, _, word = on.partition(":")
    kinds = ("all", "answered", "predicted", EACH_CLASS)
    number = coder.ones(kinds.index(kind) if kind in kinds else len(kinds), len(kinds))
    if number == 1:
        place = _THRESHOLDS.index(word) if kind == "answered" else 0
        return f"answered:{_THRESHOLDS[coder.code(place, 5)]}"
    if number == 2:
        label = coder.gamma(int(word) + 1 if kind == "predicted" else 1) - 1
        coder.require(label < MOST_LABELS, f"there is no class {label}.")
        return f"predicted:{label}"
    if number < len(kinds):
        return kinds[number]
    place = coder.code(_LAST.index(on) if on in _LAST else 0, 2)
    coder.require(place < len(_LAST), "this choice of rows is reserved.")
    return _LAST[place]


def code_start(
    coder: PlainWriter | PlainReader,
    form: str = USUAL_SPLIT,
    question: Question | None = None,
    *,
    classes: int,
) -> tuple[str, Question | None]:
    """Code the word of a form, behind an unusual question."""
    word = code_word(coder, FORMS.index(form) if question is None else OTHER_LOSS, RESERVED)
    if word < OTHER_LOSS:
        return FORMS[word], None
    question = code_question(coder, question, classes)
    coder.note("loss")
    return code_form(coder, form), question


def front(question: Question, classes: int) -> tuple[Bits, Ledger]:
    """Bits in front of the word of a form: none for every error, on all rows or on one a cluster."""
    writer = PlainWriter()
    if question.loss != WRONG or question.on not in (ALL, ONE_ROW):
        code_word(writer, OTHER_LOSS, RESERVED)
        code_question(writer, question, classes)
        writer.note("loss")
    return writer.finish(), writer.ledger
