"""Tables with named columns as samples: which column has the labels, what they are, and what to know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from codebound.run.errors import DataError
from codebound.sample.columns import (
    MISSING,
    WORD,
    Coded,
    Title,
    cells_of,
    codes_of,
    is_day,
    is_number,
    number_in,
    text_of,
    texts_of,
    title_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from codebound.sample.columns import Values
    from codebound.sample.dataset import Sample

TARGETS = ("y", "label", "target", "class")
"""Names of the column with the labels, in any case, that need not be given."""

_EXACT = float(1 << 53)
_COUNTED = 10  # rows from which on a column that numbers them is no accident
_MANY_ROWS = 20  # from which on it shows that nearly all words of a column differ
_MAX_VALUES = 1 << 28
_SHOWN = 3
_SHOWN_LEVELS = 12
_SHOWN_CHARACTERS = 24


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read a sample, as the arguments of ``load_sample`` say it."""

    role: str = "train"
    classes: int | None = None
    class_names: tuple[str, ...] = ()
    columns: tuple[Title, ...] = ()
    cells: bool | None = None
    input_shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Labels:
    """The column with the labels: numbers, NaN where one is missing, and what classes are called."""

    name: str
    values: NDArray[np.float64]
    levels: tuple[str, ...] = ()


def rows_like(
    table: Sequence[tuple[Title, Values]], like: tuple[Title, ...], *, name: str
) -> NDArray[np.float64]:
    """Cells of any rows by the columns of a sample."""
    chosen = _match_columns(table, like, name=name)
    if len({len(values) for _, values in chosen}) != 1:
        lengths = ", ".join(f"{_short(title.name)}: {len(values)}" for title, values in chosen[:_SHOWN])
        raise DataError(f"{name}: its columns hold different numbers of values ({lengths}). Give one a row.")
    return np.column_stack([cells_of(title, values, name=name) for title, values in chosen])


def _match_columns(
    table: Sequence[tuple[Title, Values]], like: tuple[Title, ...], *, name: str
) -> list[tuple[Title, Values]]:
    """The columns of the sample, found by their names; of equal names the first is the first there."""
    held: dict[str, list[Values]] = {}
    for title, values in table:
        held.setdefault(title.name, []).append(values)
    absent = [title.name for title in like if not held.get(title.name)]
    chosen = [(title, held[title.name].pop(0)) for title in like if held.get(title.name)]
    if absent or len(chosen) != len(like):
        raise DataError(
            f"{name} lacks columns of the sample: {_few(absent or [title.name for title in like])}. It has "
            f"{_few([title.name for title, _ in table])}."
        )
    return chosen


def column_of_labels(title: Title, values: Values, how: Reading, *, name: str) -> Labels:
    """The labels; words that are neither declared nor names of classes are numbered in their order.

    So are whole numbers if one is negative. Those of a test sample are not where the number of classes of its
    sample is known: their order must be that of the sample.
    """
    levels = title.levels or (values.levels if isinstance(values, Coded) else ())
    if levels:
        return _by_levels(title, values, levels, name=name)
    words, class_names = _names(values), how.class_names
    if not class_names and words and all(map(is_day, words)):
        raise DataError(
            f"{name}: column {title.name!r} holds days, such as {words[0]!r:.40}, and labels are classes. "
            "Name the column with the classes, or make classes of days by limits that were fixed in advance."
        )
    if class_names and set(words) <= set(class_names):
        return _by_levels(title, values, class_names, name=name)
    has_numbers_for_names = bool(class_names) and all(map(is_number, class_names))
    if not words or (_count_from_zero(words) and not has_numbers_for_names):
        texts = (None if each is None or each in MISSING else number_in(each) for each in texts_of(values))
        return Labels(title.name, np.array([np.nan if each is None else each for each in texts]))
    if class_names:
        strange = ", ".join(word for word in words if word not in class_names)
        raise DataError(
            f"{name}: column {title.name!r} holds classes that the sample has not: {strange}. Those of "
            f"the sample are {', '.join(class_names[:_SHOWN_LEVELS])}."
        )
    if how.role == "test" and how.classes is not None:
        cell = f"{title.name}{{{'|'.join(words[:_SHOWN_LEVELS])}}}"
        raise DataError(
            f"{name}: column {title.name!r} holds words, and the labels of the sample are numbers. A "
            f"test sample needs its classes in the order of the sample's: write that into the header, as in "
            f"{cell}."
        )
    return _by_levels(title, values, words, name=name)


def _by_levels(title: Title, values: Values, levels: tuple[str, ...], *, name: str) -> Labels:
    return Labels(title.name, codes_of(Title(title.name, levels), values, name=name), levels)


def _names(values: Values) -> tuple[str, ...]:
    """The labels that occur, in the order of numbers, or of words."""
    if isinstance(values, np.ndarray):
        return tuple(map(text_of, np.unique(values[np.isfinite(values)]).tolist()))
    found = {text for text in texts_of(values) if text is not None and text not in MISSING}
    return tuple(sorted(found, key=float) if all(map(is_number, found)) else sorted(found))


def _count_from_zero(words: Sequence[str]) -> bool:
    """Return True if labels are numbers that stay as they are. Fractions are refused later."""
    numbers = [float(each) for each in words if is_number(each)]
    return len(numbers) == len(words) and (min(numbers) >= 0 or any(each % 1 != 0 for each in numbers))


def joined_texts(
    table: Sequence[tuple[Title, Values]], target: str | None, how: Reading, *, name: str
) -> tuple[list[str], NDArray[np.int64], tuple[str, ...]]:
    """The text of every example, all columns but the labels; their labels; and what these are called."""
    at = find_target([title.name for title, _ in table], target, name=name)
    labels = column_of_labels(*table[at], how, name=name)
    cells = [texts_of(values) for i, (_, values) in enumerate(table) if i != at]
    texts = ["\n".join(filter(None, each)) for each in zip(*cells, strict=True)]
    return texts, labels_of(labels, name=name), labels.levels


def sample_of(
    table: Sequence[tuple[Title, Values]], target: str | None, how: Reading, *, name: str, source: str
) -> Sample:
    """The sample in a table: cells where it has words or gaps, else numbers.

    Labels are whole numbers from 0, or words: then the classes are those that the header declares, or those
    of the other sample, or those that occur, sorted, unless it is the test sample of another. Inputs are
    those of the columns of the other sample, by their names and in their order, where there are any.
    """
    from codebound.sample.arrays import from_arrays  # which loads torch

    names, at, labels = [title.name for title, _ in table], None, None
    if how.role != "unlabelled":
        at = find_target(names, target, name=name)
        labels = column_of_labels(*table[at], how, name=name)
    elif not how.columns and _find_label_names(names, target):
        at = find_target(names, target, name=name)
    given = [(title_of(*each), each[1]) for i, each in enumerate(table) if i != at]
    if how.columns:
        given = _match_columns(given, how.columns, name=name)
    if not given or len(given) * len(given[0][1]) > _MAX_VALUES:
        raise DataError(
            f"{name} has {len(given)} columns of inputs; 1 to {_MAX_VALUES} values in all are read."
        )
    columns = tuple(title for title, _ in given)
    x = np.column_stack([cells_of(title, values, name=name) for title, values in given])
    _require_allowed(x, columns, how, name=name)
    levels = () if labels is None else labels.levels
    if levels and how.classes not in (None, len(levels)):
        raise DataError(f"{name} declares {len(levels)} classes, the sample has {how.classes}.")
    named = ", ".join(f"{label} = {level}" for label, level in enumerate(levels[:_SHOWN_LEVELS]))
    classes = f"; classes {named}{', ...' if len(levels) > _SHOWN_LEVELS else ''}" if levels else ""
    found = from_arrays(
        x,
        None if labels is None else labels_of(labels, name=name),
        name=name,
        role=how.role,
        classes=len(levels) or how.classes,
        cells=how.cells,
        source=source + (f", labels in column {labels.name}{classes}" if labels else ""),
    )
    remarks = (*found.warnings, *_remarks(columns, x))
    return replace(found, warnings=remarks, class_names=levels, columns=columns)


def _require_allowed(x: NDArray[np.float64], columns: Sequence[Title], how: Reading, *, name: str) -> None:
    """Refuses infinite numbers, and words and gaps where the sample has none."""
    for mask, what in (
        (np.isinf(x), "has an infinite number in column {}. Leave the cell empty, or replace it."),
        (
            np.isnan(x) & (how.cells is False),
            "has a word or a gap in column {}, and the sample has numbers alone. Read both as cells (cells).",
        ),
    ):
        if mask.any():
            row, column = np.argwhere(mask)[0].tolist()
            raise DataError(f"{name}: example {row + 1} {what.format(repr(columns[column].name))}")


def _remarks(columns: Sequence[Title], x: NDArray[np.float64]) -> list[str]:
    """Return remarks on inputs that hardly help."""
    remarks = []
    names = [title.name for title in columns]
    patterns = x.view(np.uint64)
    words = [cells[cells >> 48 == WORD] for cells in patterns.T]
    many = [len(x) >= _MANY_ROWS and 2 * len(np.unique(each)) > len(x) for each in words]
    if texts := list(compress(names, many)):
        remarks.append(
            f"nearly every row has words of its own in {_few(texts)}: a learner of tables makes next to "
            "nothing of a text, an encoder reads it (the option encoder); leave out what is the name of a row"
        )
    are_mixed = [len(each) > 0 and np.isfinite(cells).any() for each, cells in zip(words, x.T, strict=True)]
    if mixed := list(compress(names, are_mixed)):
        remarks.append(
            f"numbers and words stand together in {_few(mixed)}: a learner takes all of them for words (a "
            "number is written 1234.5, a day 2020-02-29)"
        )
    with np.errstate(invalid="ignore"):
        huge = list(compress(names, np.any(np.abs(x) > _EXACT, axis=0).tolist()))
    if huge:
        remarks.append(
            f"numbers beyond 2^53 in {_few(huge)}: 16 of their digits are kept, so neighbours are equal; "
            f"names of things are words (to declare it: {_short(huge[0])}{{*}})"
        )
    if counted := list(compress(names, map(_numbers_rows, x.T))):
        remarks.append(
            f"{_few(counted)} numbers the rows, and new data have no row in this table: leave such a column "
            "out (pandas writes it unless told index=False)"
        )
    return remarks


def _numbers_rows(cells: NDArray[np.float64]) -> bool:
    is_start = len(cells) >= _COUNTED and cells[0] in (0.0, 1.0)
    return bool(is_start and np.array_equal(cells, cells[0] + np.arange(len(cells))))


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more columns" if len(names) > _SHOWN else ""
    return ", ".join(map(_short, names[:_SHOWN])) + more


def _short(text: str) -> str:
    """So much of a name that a declaration has room for the rest of its sentence."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _find_label_names(names: Sequence[str], target: str | None) -> list[int]:
    return [
        i for i, each in enumerate(names) if (each.lower() in TARGETS if target is None else each == target)
    ]


def find_target(names: Sequence[str], target: str | None, *, name: str) -> int:
    """Position of the column with the labels: the named one, or the only one that is called like labels."""
    wanted = _find_label_names(names, target)
    if len(wanted) == 1:
        return wanted[0]
    shown = ", ".join(names[:20]) + (" and others" if len(names) > 20 else "")
    if target is None:
        raise DataError(
            f"{name}: which column holds the labels? For a file write it behind its name, as in "
            f"{name if '.' in name else 'table.csv'}:{names[-1]}; for a frame give "
            f'from_frame(frame, "{names[-1]}"). Columns: {shown}.'
        )
    if wanted:
        raise DataError(f"{name} has more than one column {target!r}. Rename all but one. Columns: {shown}.")
    close = get_close_matches(target, names, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    raise DataError(f"{name} has no column {target!r}.{meant} Columns: {shown}.")


def labels_of(column: Labels, *, name: str) -> NDArray[np.int64]:
    """The labels that a column holds."""
    missing = np.flatnonzero(np.isnan(column.values))
    if missing.size:
        raise DataError(
            f"{name}: column {column.name!r} lacks {missing.size} of {len(column.values)} labels, the first "
            f"in example {missing[0] + 1}. Leave out what has no label by a rule that was fixed in advance."
        )
    values = column.values
    is_label = (values >= 0) & (values < 1 << 53) & (values == np.floor(values))
    if not column.levels and not is_label.all():
        raise DataError(
            f"{name}: the labels in column {column.name!r} must be words or whole numbers, counted from 0; "
            f"they go from {values.min():g} to {values.max():g}. A quantity is made a class by "
            "a limit that was fixed in advance."
        )
    return values.astype(np.int64)
