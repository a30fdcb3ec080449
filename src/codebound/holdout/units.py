"""Losses of answers, and the units in which they are counted (docs/ledger.md, section 3)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from codebound.holdout.answers import as_number, canonical_cell, numbers_of
from codebound.run.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

CLAIMS = {"row": "one random row of a new cluster", "any": "any row of a new cluster"}
_WORDS = {"wrong": 0, "class": 1, "confused": 2, "false-alarm": 1, "precision": 1, "residual": 1}
_SAYS = {
    "wrong": "is wrong on",
    "class": "is wrong on rows of class {0}:",
    "confused": "takes rows of class {0} for {1}:",
    "false-alarm": "sees {0} where it is not:",
    "precision": "is wrong where it says {0}:",
    "residual": "is off by more than {0} on",
}


def require_claim(cluster: str | None, claim: str | None) -> None:
    """Refuse clusters without a claim, and a claim without clusters."""
    if (cluster is None) != (claim is None) or claim not in (None, *CLAIMS):
        choices = "; ".join(f"{key}: {words}" for key, words in CLAIMS.items())
        raise UsageError(
            f"clusters need a claim, and a claim needs clusters ({choices}). Got {cluster=}, {claim=}."
        )


class Masks(NamedTuple):
    """Rows that a loss is about, and those among them that are lost."""

    about: Mask
    lost: Mask


def parse_answer_loss(text: str | Sequence[str]) -> list[str]:
    """Return the words of a loss.

    Args:
        text: ``wrong``, ``class:C``, ``confused:A:B``, ``false-alarm:C``, ``precision:C`` or
            ``residual:TAU``; or its words, where a label has a colon.

    Example:
        >>> parse_answer_loss("precision:spam")
        ['precision', 'spam']
    """
    kind, *words = text.split(":") if isinstance(text, str) else text
    if _WORDS.get(kind) != len(words) or (kind == "confused" and words[0] == words[1]):
        raise UsageError(
            f"there is no loss {text!r}. Known: wrong, class:C, confused:A:B, false-alarm:C, precision:C, "
            "residual:TAU. Any other loss is a column of its own: label 1 in every row, answer 1 where "
            "it was right."
        )
    if kind == "residual" and (not as_number(words[0]) > 0.0 or words[0][0] in "+-"):
        raise UsageError(f"residual:TAU needs a number above 0. Got {words[0]!r}.")
    return [kind, *map(canonical_cell, words)]


def describe_loss(loss: Sequence[str], *, differs: bool = False) -> str:
    """Return a verb for a loss, such as ``is wrong on``."""
    return "answers unlike the original on" if differs else _SAYS[loss[0]].format(*loss[1:])


@dataclass(frozen=True, eq=False)
class Units:
    """Labelled rows, and how they become units: clusters by number, and the rows that stand for them."""

    labels: tuple[str, ...]
    loss: Sequence[str]
    groups: tuple[str, ...] | None = None
    names: tuple[str, ...] = ()
    clusters: NDArray[np.int64] | None = None
    stands: Mask | None = None

    @property
    def size(self) -> int:
        """Number of units."""
        return len(self.labels) if self.clusters is None else int(self.clusters.max(initial=-1)) + 1

    def masks(self, answers: Sequence[str]) -> Masks:
        """Return the rows that the loss is about for these answers, and those that are lost."""
        if len(answers) != len(self.labels):
            raise DataError(f"there are {len(answers)} answers, and {len(self.labels)} rows were sealed.")
        kind, *words = self.loss
        told, y = np.array(answers, dtype=object), np.array(self.labels, dtype=object)
        if kind == "residual":
            with np.errstate(invalid="ignore", over="ignore"):
                lost = ~(np.abs(numbers_of(answers) - numbers_of(self.labels)) <= float(words[0]))
        elif kind in ("confused", "false-alarm"):
            lost = told == words[-1]
        else:
            lost = told != y
        about = np.ones(len(y), dtype=bool)
        if kind in ("class", "confused"):
            about = y == words[0]
        elif kind == "false-alarm":
            about = y != words[0]
        elif kind == "precision":
            about = told == words[0]
        about, lost = about.astype(bool), lost.astype(bool)
        return Masks(about, about & lost)

    def with_any(self, rows: Mask) -> Mask:
        """Return the units that have any of these rows, among those that count."""
        if self.clusters is None:
            return rows
        rows = rows if self.stands is None else rows & self.stands
        found = np.zeros(self.size, dtype=bool)
        found[self.clusters[rows]] = True
        return found

    def parts(self) -> list[Mask]:
        """Return the rows of each group, in order; the rows of all are not among them."""
        if self.groups is None:
            return []
        cells = np.array(self.groups, dtype=object)
        return [(cells == name).astype(bool) for name in self.names]

    def sizes(self) -> list[int]:
        """Return the number of units that the loss is about: all, and in each group."""
        everywhere = np.ones(len(self.labels), dtype=bool)
        about = everywhere if self.loss[0] == "precision" else self.masks(self.labels).about
        return [int(self.with_any(about & part).sum()) for part in (everywhere, *self.parts())]


def units_of(
    labels: tuple[str, ...],
    loss: Sequence[str],
    *,
    groups: tuple[str, ...] | None = None,
    clusters: tuple[str, ...] | None = None,
    claim: str = "",
    salt: str = "",
    is_stream: bool = False,
) -> Units:
    """Return the units of columns of cells. A stream may lack a label so far."""
    if loss[0] == "residual":
        if (strange := np.flatnonzero(np.isnan(numbers_of(labels)))).size:
            row = int(strange[0])
            raise DataError(f"the loss residual needs numbers as labels. Row {row + 1} has {labels[row]!r}.")
    elif loss[0] != "wrong" and not is_stream:
        for word in loss[1:] if loss[0] != "confused" else loss[1:2]:
            if word not in labels:
                known = ", ".join(map(repr, sorted(set(labels))[:12]))
                raise UsageError(
                    f"the loss {':'.join(loss)} names {word!r}, which is no label. Labels: {known}."
                )
    codes, stands = None, None
    if clusters is not None:
        numbers = {cluster: number for number, cluster in enumerate(dict.fromkeys(clusters))}
        codes = np.array([numbers[each] for each in clusters], dtype=np.int64)
        if claim == "row":
            stands = _standing(codes, salt)
    names = () if groups is None else tuple(sorted(set(groups)))
    return Units(labels, loss, groups, names, codes, stands)


def _standing(codes: NDArray[np.int64], salt: str) -> Mask:
    """Return the row of each cluster with the smallest salted hash."""
    digests = [hashlib.sha256(f"{salt}:{row}".encode()).digest() for row in range(len(codes))]
    best: dict[int, int] = {}
    for row, code in enumerate(codes.tolist()):
        if code not in best or digests[row] < digests[best[code]]:
            best[code] = row
    stands = np.zeros(len(codes), dtype=bool)
    stands[list(best.values())] = True
    return stands
