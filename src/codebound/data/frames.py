"""Tables with named columns, and the fixed rule that turns one into a sample.

Numbers enter as they are. A column of words enters by its levels, which are declared with the column: two
levels become one column of 0 and 1, more become a column of 0 and 1 each, in the order of the levels. So an
example's inputs depend on that example and on the declaration, never on the other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from codebound.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TARGETS = ("y", "label", "target", "class")
"""Names of the column with the labels, in any case, that need not be given."""

_MAX_VALUES = 1 << 28


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name in the header.
        values: Numbers, or positions in ``levels``; NaN where a value is missing.
        levels: What a column of words can hold, in order; empty for a column of numbers.
    """

    name: str
    values: NDArray[np.float64]
    levels: tuple[str, ...] = ()


def find_target(columns: Sequence[Column], target: str | None, *, name: str) -> int:
    """Position of the column with the labels: the named one, or the only one that is called like labels."""
    names = [column.name for column in columns]
    wanted = [
        i for i, each in enumerate(names) if (each.lower() in TARGETS if target is None else each == target)
    ]
    if len(wanted) == 1:
        return wanted[0]
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    if target is None:
        raise DataError(
            f"{name}: which column holds the labels? Write it behind the file, as in {name}:{names[-1]}. "
            f"Columns: {shown}."
        )
    close = get_close_matches(target, names, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    number = "no column" if not wanted else "more than one column"
    raise DataError(f"{name} has {number} {target!r}.{meant} Columns: {shown}.")


def inputs_and_labels(
    columns: Sequence[Column], target: int, *, name: str
) -> tuple[NDArray[np.float64], NDArray[np.int64], int | None]:
    """Inputs ``(n, features)``, labels, and the number of classes where the labels have levels.

    Raises:
        DataError: A value is missing, or a label is neither a level nor a whole number from 0.
    """
    for column in columns:
        missing = np.flatnonzero(np.isnan(column.values))
        if missing.size:
            raise DataError(
                f"{name}: column {column.name!r} lacks {missing.size} of {len(column.values)} values, the "
                f"first in example {missing[0] + 1}. Fill them by a rule that was fixed in advance, or drop "
                "the column."
            )
    inputs = [column for i, column in enumerate(columns) if i != target]
    width = sum(_width(column) for column in inputs)
    if not inputs or width * len(inputs[0].values) > _MAX_VALUES:
        raise DataError(
            f"{name} becomes {width} inputs an example; 1 to {_MAX_VALUES} values in all are read."
        )
    x = np.concatenate([_encoded(column) for column in inputs], axis=1)
    labels = columns[target]
    if not labels.levels and not _are_labels(labels.values):
        raise DataError(
            f"{name}: the labels in column {labels.name!r} must be words or whole numbers, counted from 0."
        )
    return x, labels.values.astype(np.int64), len(labels.levels) or None


def _width(column: Column) -> int:
    return len(column.levels) if len(column.levels) > 2 else 1


def _encoded(column: Column) -> NDArray[np.float64]:
    if _width(column) == 1:
        return column.values[:, None]
    return np.equal.outer(column.values, np.arange(len(column.levels))).astype(np.float64)


def _are_labels(values: NDArray[np.float64]) -> bool:
    return bool(((values >= 0) & (values < 1 << 53) & (values == np.floor(values))).all())
