"""Tables with named columns as samples: which column has the labels, what they are, and what to know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from codebound.run.errors import DataError
from codebound.sample.columns import (
    BUCKETS,
    MISSING,
    Coded,
    Column,
    Title,
    admit,
    column_by_levels,
    column_of,
    inputs_of,
    inputs_with_gaps,
    is_day,
    is_number,
    text_of,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from codebound.sample.columns import Values
    from codebound.sample.dataset import Dataset

TARGETS = ("y", "label", "target", "class")
"""Names of the column with the labels, in any case, that need not be given."""

_EXACT = float(1 << 53)
_COUNTED = 10  # rows from which on a column that numbers them is no accident
_MANY_ROWS = 20  # from which on it shows that nearly all words of a column differ
_FEW_COPIES = 100  # one in so many is let pass
_SHOWN = 3
_SHOWN_LEVELS = 12
_SHOWN_CHARACTERS = 24


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read a sample: its role, and what it has in common with another one.

    Attributes:
        role: What it may be used for.
        classes: Number of classes; None for what occurs or is declared.
        class_names: What the classes of the other sample are called, in the order of labels.
        columns: What became the inputs of the other sample, where that is a table.
        input_shape: Shape of an input of the other sample.
    """

    role: str = "train"
    classes: int | None = None
    class_names: tuple[str, ...] = ()
    columns: tuple[Title, ...] = ()
    input_shape: tuple[int, ...] = ()


def split_table(
    table: Sequence[tuple[Title, Values]], target: str | None, how: Reading, *, name: str
) -> tuple[list[Column], Column | None]:
    """The columns of inputs, and that of the labels, which an unlabelled table need not have.

    Inputs are those of the columns of the other sample, by their names and in their order, where there are
    any.

    Raises:
        DataError: The table leaves something open; the message says what to write.
    """
    names, at, labels = [title.name for title, _ in table], None, None
    if how.role != "unlabelled":
        at = find_target(names, target, name=name)
        labels = column_of_labels(*table[at], how, name=name)
    elif not how.columns and _find_label_names(names, target):
        at = find_target(names, target, name=name)
    inputs = [each for i, each in enumerate(table) if i != at]
    if not how.columns:
        return [column_of(*each, name=name) for each in inputs], labels
    columns = [column_of(*each, name=name) for each in _match_columns(inputs, how.columns, name=name)]
    for column in columns:
        missing = np.flatnonzero(np.isnan(column.values))
        if missing.size and not column.can_miss:
            raise DataError(
                f"{name}: example {missing[0] + 1} lacks a value in column {column.name!r}, and none is "
                f"missing there in the sample. Declare in the sample that one can be: {column.name}{{?}}."
            )
    return columns, labels


def rows_like(
    table: Sequence[tuple[Title, Values]], like: tuple[Title, ...], *, name: str
) -> NDArray[np.float64]:
    """Inputs of any rows by the columns of a sample: NaN for what these rule out, or lack and never lacked.

    Raises:
        DataError: A column is not there, or the columns differ in length.
    """
    chosen = _match_columns(table, like, name=name)
    if len({len(values) for _, values in chosen}) != 1:
        lengths = ", ".join(f"{_short(title.name)}: {len(values)}" for title, values in chosen[:_SHOWN])
        raise DataError(f"{name}: its columns hold different numbers of values ({lengths}). Give one a row.")
    return inputs_with_gaps([column_of(title, admit(title, values), name=name) for title, values in chosen])


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


def column_of_labels(title: Title, values: Values, how: Reading, *, name: str) -> Column:
    """The labels; words that are neither declared nor names of classes are numbered in their order.

    So are whole numbers if one is negative. Those of a test sample are not where the number of classes of its
    sample is known: their order must be that of the sample.
    """
    if title.levels:
        return column_by_levels(title, values, name)
    if isinstance(values, Coded):
        return column_by_levels(replace(title, levels=values.levels), values, name)
    words, class_names = _names(values), how.class_names
    if not class_names and words and all(map(is_day, words)):
        raise DataError(
            f"{name}: column {title.name!r} holds days, such as {words[0]!r:.40}, and labels are classes. "
            "Name the column with the classes, or make classes of days by limits that were fixed in advance."
        )
    if class_names and set(words) <= set(class_names):
        return column_by_levels(replace(title, levels=class_names), values, name)
    has_numbers_for_names = bool(class_names) and all(map(is_number, class_names))
    if not words or (_count_from_zero(words) and not has_numbers_for_names):
        return column_of(Title(title.name, has_numbers=True), values, name=name)
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
    return column_by_levels(replace(title, levels=words), values, name)


def _names(values: NDArray[np.float64] | Sequence[str]) -> tuple[str, ...]:
    """The labels that occur, in the order of numbers, or of words."""
    if isinstance(values, np.ndarray):
        return tuple(map(text_of, np.unique(values[np.isfinite(values)]).tolist()))
    found = set(values) - MISSING
    return tuple(sorted(found, key=float) if all(map(is_number, found)) else sorted(found))


def _count_from_zero(words: Sequence[str]) -> bool:
    """Return True if labels are numbers that stay as they are. Fractions are refused later."""
    numbers = [float(each) for each in words if is_number(each)]
    return len(numbers) == len(words) and (min(numbers) >= 0 or any(each % 1 != 0 for each in numbers))


def texts_of(
    table: Sequence[tuple[Title, Values]], target: str | None, how: Reading, *, name: str
) -> tuple[list[str], NDArray[np.int64], tuple[str, ...]]:
    """The text of every example, all columns but the labels; their labels; and what these are called.

    Raises:
        DataError: The table leaves something open; the message says what to write.
    """
    at = find_target([title.name for title, _ in table], target, name=name)
    labels = column_of_labels(*table[at], how, name=name)
    cells = [words_of(values) for i, (_, values) in enumerate(table) if i != at]
    texts = ["\n".join(filter(None, each)) for each in zip(*cells, strict=True)]
    return texts, labels_of(labels, name=name), labels.levels


def sample_of(
    table: Sequence[tuple[Title, Values]], target: str | None, how: Reading, *, name: str, source: str
) -> Dataset:
    """The sample in a table.

    Labels are whole numbers from 0, or words: then the classes are those that the header declares, or those
    of the other sample, or those that occur, sorted, unless it is the test sample of another.

    Raises:
        DataError: The table leaves something open; the message says what to write.
    """
    from codebound.sample.arrays import from_arrays  # which loads torch

    columns, labels = split_table(table, target, how, name=name)
    levels = () if labels is None else labels.levels
    if how.role not in ("test", "unlabelled"):
        _require_no_texts(columns, labels, name=name)
    if levels and how.classes not in (None, len(levels)):
        raise DataError(f"{name} declares {len(levels)} classes, the sample has {how.classes}.")
    _require_finite(columns, name=name)
    named = ", ".join(f"{label} = {level}" for label, level in enumerate(levels[:_SHOWN_LEVELS]))
    classes = f"; classes {named}{', ...' if len(levels) > _SHOWN_LEVELS else ''}" if levels else ""
    found = from_arrays(
        inputs_of(columns, name=name),
        None if labels is None else labels_of(labels, name=name),
        name=name,
        role=how.role,
        classes=len(levels) or how.classes,
        source=source + (f", labels in column {labels.name}{classes}" if labels else ""),
    )
    return replace(
        found,
        warnings=(*found.warnings, *_remarks(columns)),
        class_names=levels,
        columns=tuple(column.title for column in columns),
    )


def _require_finite(columns: Sequence[Column], *, name: str) -> None:
    for column in columns:
        infinite = np.flatnonzero(np.isinf(column.values))
        if infinite.size:
            raise DataError(
                f"{name}: example {infinite[0] + 1} has an infinite number in column {column.name!r}. Leave "
                "the cell empty, which stands for a missing value, or replace it."
            )


def _are_texts(column: Column) -> bool:
    """Return True if a column holds nearly as many different words as rows."""
    return len(column.values) >= _MANY_ROWS and 2 * column.different > len(column.values)


def _require_no_texts(columns: Sequence[Column], labels: Column | None, *, name: str) -> None:
    """Refuses texts whose rows become equal by hashing: they would be taken for copies."""
    texts = [each for each in columns if _are_texts(each)]
    if not texts:
        return
    n, different = len(texts[0].values), max(each.different for each in texts)
    kept = inputs_of(columns, name=name)
    if labels is not None:
        kept = np.column_stack([kept, labels.values])
    rows = len({row.tobytes() for row in kept})
    if rows < different and _FEW_COPIES * (n - rows) > n:
        raise DataError(
            f"{name}: {_of_texts(texts)}, so {n - rows} of {n} rows would be equal to earlier ones. Give "
            "texts to an encoder of texts (the option encoder, docs/howto/encoders.md), and leave out what "
            "is the name of a row."
        )


def _of_texts(texts: Sequence[Column]) -> str:
    first = texts[0]
    return (
        f"{_few([each.name for each in texts])} holds {first.different} different words or texts in "
        f"{len(first.values)} rows: a text, or the name of a row. It is 1 in one of {BUCKETS} inputs, by its "
        "SHA-256"
    )


def _remarks(columns: Sequence[Column]) -> list[str]:
    """Return remarks on inferred declarations and on inputs that hardly help."""
    remarks = []
    if lacking := [each.name for each in columns if not each.can_miss and np.isnan(each.values).any()]:
        remarks.append(
            f"values are missing in {_few(lacking)}: such a column has another input, 1 where one is; that "
            f"they can be was known before the sample was drawn (to declare it: {_short(lacking[0])}{{?}})"
        )
    if texts := [each for each in columns if _are_texts(each)]:
        remarks.append(
            f"{_of_texts(texts)}, which tells next to nothing: an encoder reads texts (the option encoder), "
            "and the name of a row is left out"
        )
    if hashed := [each for each in columns if each.open_word]:
        names = [each.name for each in hashed]
        remarks.append(
            f"words without declared levels in {_few(names)}, such as {_short(hashed[0].open_word)!r}: a "
            f"word is 1 in one of {BUCKETS} inputs, by its SHA-256; that the column holds words was known "
            f"before the sample was drawn (levels: {_short(names[0])}{{red|green}}, any words: {{*}}; a "
            "number is written 1234.5, a day 2020-02-29)"
        )
    if typed := [each.name for each in columns if each.has_type]:
        remarks.append(
            f"levels of a categorical type in {_few(typed)}: that the column can hold these and no others "
            "was known before the sample was drawn"
        )
    if huge := [each.name for each in columns if (np.abs(each.values) > _EXACT).any()]:
        remarks.append(
            f"numbers beyond 2^53 in {_few(huge)}: 16 of their digits are kept, so neighbours are equal; "
            f"names of things are words (to declare it: {_short(huge[0])}{{*}})"
        )
    if counted := [each.name for each in columns if _numbers_rows(each)]:
        remarks.append(
            f"{_few(counted)} numbers the rows, and new data have no row in this table: leave such a column "
            "out (pandas writes it unless told index=False)"
        )
    return remarks


def _numbers_rows(column: Column) -> bool:
    values = column.values
    return (
        not column.levels
        and column.words is None
        and len(values) >= _COUNTED
        and values[0] in (0.0, 1.0)
        and np.array_equal(values, values[0] + np.arange(len(values)))
    )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more columns" if len(names) > _SHOWN else ""
    return ", ".join(map(_short, names[:_SHOWN])) + more


def _short(text: str) -> str:
    """So much of a name that a declaration in a certificate has room for the rest of its sentence."""
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


def labels_of(column: Column, *, name: str) -> NDArray[np.int64]:
    """The labels that a column holds.

    Raises:
        DataError: One is missing, or neither a level nor a whole number from 0.
    """
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
