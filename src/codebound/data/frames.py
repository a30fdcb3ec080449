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


def find_target(names: Sequence[str], target: str | None, *, name: str) -> int:
    """Position of the column with the labels: the named one, or the only one that is called like labels."""
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


def inputs_of(columns: Sequence[Column], *, name: str) -> NDArray[np.float64]:
    """Inputs ``(n, features)`` from all columns.

    Raises:
        DataError: There are none, or too many, or a value is missing.
    """
    width = sum(map(_width, columns))
    if not columns or width * len(columns[0].values) > _MAX_VALUES:
        raise DataError(
            f"{name} becomes {width} inputs an example; 1 to {_MAX_VALUES} values in all are read."
        )
    for column in columns:
        _require_values(column, name)
    return np.concatenate([_encoded(column) for column in columns], axis=1)


def labels_of(column: Column, *, name: str) -> NDArray[np.int64]:
    """The labels that a column holds.

    Raises:
        DataError: One is missing, or neither a level nor a whole number from 0.
    """
    _require_values(column, name)
    if not column.levels and not _are_labels(column.values):
        raise DataError(
            f"{name}: the labels in column {column.name!r} must be words or whole numbers, counted from 0."
        )
    return column.values.astype(np.int64)


def _require_values(column: Column, name: str) -> None:
    missing = np.flatnonzero(np.isnan(column.values))
    if missing.size:
        raise DataError(
            f"{name}: column {column.name!r} lacks {missing.size} of {len(column.values)} values, the first "
            f"in example {missing[0] + 1}. Fill them by a rule fixed in advance, or drop the column."
        )


def _width(column: Column) -> int:
    return len(column.levels) if len(column.levels) > 2 else 1


def _encoded(column: Column) -> NDArray[np.float64]:
    if _width(column) == 1:
        return column.values[:, None]
    return np.equal.outer(column.values, np.arange(len(column.levels))).astype(np.float64)


def _are_labels(values: NDArray[np.float64]) -> bool:
    return bool(((values >= 0) & (values < 1 << 53) & (values == np.floor(values))).all())
