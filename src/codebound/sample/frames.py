"""Samples of tables with named columns: the column of labels, its classes, and the inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from codebound.run.errors import DataError, did_you_mean
from codebound.sample.arrays import from_arrays
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
    text_cells,
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

QUANTITY = (
    "A quantity is made classes of by limits that were fixed in advance; for a quantity itself there is "
    "codebound holdout seal with the loss residual:TAU"
)
_EXACT = float(1 << 53)
_COUNTED = 10  # rows from which on a column that numbers them is no accident
_MANY_ROWS = 20  # from which on it shows that nearly all words of a column differ
_MAX_VALUES = 1 << 28
_SHOWN = 3
_SHOWN_LEVELS = 12
_SHOWN_CHARACTERS = 24


@dataclass(frozen=True, slots=True)
class Reading:
    """Options for reading a sample."""

    role: str = "train"
    classes: int | None = None
    class_names: tuple[str, ...] = ()
    columns: tuple[Title, ...] = ()
    cells: bool | None = None
    input_shape: tuple[int, ...] = ()
    texts: bool = False

    @classmethod
    def like(cls, role: str, sample: Sample, *, texts: bool = False) -> Reading:
        """Return the options that read another sample alike."""
        cells = sample.is_cells if sample.columns else None
        shape = () if sample.features else sample.input_shape  # what was encoded had another
        return cls(role, sample.classes, sample.class_names, sample.columns, cells, shape, texts)


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
    """Columns of the sample, found by their names; of equal names the first is the first there."""
    held: dict[str, list[Values]] = {}
    for title, values in table:
        held.setdefault(title.name, []).append(values)
    absent = [title.name for title in like if not held.get(title.name)]
    chosen = [(title, held[title.name].pop(0)) for title in like if held.get(title.name)]
    if len(chosen) != len(like):
        raise DataError(
            f"{name} lacks columns of the sample: {_few(absent or [title.name for title in like])}. It has "
            f"{_few([title.name for title, _ in table])}."
        )
    return chosen


def read_labels(
    title: Title, values: Values, how: Reading, *, name: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels of a column, and the names of classes; none for whole numbers from 0.

    Words that are neither declared nor names of classes are numbered in their order; so are whole numbers if
    one is negative. Those of a test sample are refused where the sample has numbers.
    """
    levels = _levels_of(title, values, how, name=name)
    if levels:
        codes = codes_of(Title(title.name, levels), values, name=name)
    else:
        found = (None if each is None or each in MISSING else number_in(each) for each in texts_of(values))
        codes = np.array([np.nan if each is None else each for each in found])
    missing = np.flatnonzero(np.isnan(codes))
    if missing.size:
        raise DataError(
            f"{name}: column {title.name!r} lacks {missing.size} of {len(codes)} labels, the first in "
            f"example {missing[0] + 1}. Leave out what has no label by a rule that was fixed in advance."
        )
    if not levels and not ((codes >= 0) & (codes < _EXACT) & (codes == np.floor(codes))).all():
        raise DataError(
            f"{name}: the labels in column {title.name!r} must be words or whole numbers, counted from 0; "
            f"they go from {codes.min():g} to {codes.max():g}. {QUANTITY}."
        )
    return codes.astype(np.int64), levels


def _levels_of(title: Title, values: Values, how: Reading, *, name: str) -> tuple[str, ...]:
    """Names of classes in the order of labels; none where labels are numbers as they are."""
    if levels := title.levels or (values.levels if isinstance(values, Coded) else ()):
        return levels
    words, class_names = _names(values), how.class_names
    if not class_names and words and all(map(is_day, words)):
        raise DataError(
            f"{name}: column {title.name!r} holds days, such as {words[0]!r:.40}, and labels are classes. "
            "Name the column with the classes, or make classes of days by limits that were fixed in advance."
        )
    if class_names and set(words) <= set(class_names):
        return class_names
    has_numbers_for_names = bool(class_names) and all(map(is_number, class_names))
    if not words or (_count_from_zero(words) and not has_numbers_for_names):
        return ()
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
    return words


def _names(values: Values) -> tuple[str, ...]:
    """Labels that occur, in the order of numbers, or of words."""
    if isinstance(values, np.ndarray):
        return tuple(map(text_of, np.unique(values[np.isfinite(values)]).tolist()))
    found = {text for text in texts_of(values) if text is not None and text not in MISSING}
    return tuple(sorted(found, key=float) if all(map(is_number, found)) else sorted(found))


def _count_from_zero(words: Sequence[str]) -> bool:
    """Return True if labels are numbers that stay as they are. Fractions are refused later."""
    numbers = [float(each) for each in words if is_number(each)]
    return len(numbers) == len(words) and (min(numbers) >= 0 or any(each % 1 != 0 for each in numbers))


def sample_of(
    table: Sequence[tuple[Title, Values]], target: str | None, how: Reading, *, name: str, source: str
) -> Sample:
    """The sample in a table: cells where it has words or gaps, else numbers.

    Inputs are the columns of the other sample, by their names and in their order, where there is one. For
    whoever reads texts all of them are one.
    """
    names, at, labels = [title.name for title, _ in table], None, None
    levels: tuple[str, ...] = ()
    if how.role != "unlabelled" or (not how.columns and _find_label_names(names, target)):
        at = _find_target(names, target, name=name)
    if at is not None and how.role != "unlabelled":
        labels, levels = read_labels(*table[at], how, name=name)
        source += f", labels in column {names[at]}"
    given = [(title_of(*each), each[1]) for i, each in enumerate(table) if i != at]
    if how.columns:
        given = _match_columns(given, how.columns, name=name)
    if not given or len(given) * len(given[0][1]) > _MAX_VALUES:
        raise DataError(
            f"{name} has {len(given)} columns of inputs; 1 to {_MAX_VALUES} values in all are read."
        )
    columns = tuple(title for title, _ in given)
    texts: tuple[str, ...] = ()
    if how.texts:
        cells = zip(*(texts_of(values) for _, values in given), strict=True)
        columns, texts = (), tuple("\n".join(filter(None, each)) for each in cells)
        x = text_cells(texts)[:, None]
    else:
        x = np.column_stack([cells_of(title, values, name=name) for title, values in given])
        _require_allowed(x, columns, how, name=name)
    if levels and how.classes not in (None, len(levels)):
        raise DataError(f"{name} declares {len(levels)} classes, the sample has {how.classes}.")
    if levels:
        named = ", ".join(f"{label} = {level}" for label, level in enumerate(levels[:_SHOWN_LEVELS]))
        source += f"; classes {named}{', ...' if len(levels) > _SHOWN_LEVELS else ''}"
    found = from_arrays(
        x,
        labels,
        name=name,
        role=how.role,
        classes=len(levels) or how.classes,
        cells=how.texts or how.cells,
        source=source,
    )
    remarks = found.warnings if how.texts else (*found.warnings, *_remarks(columns, x))
    return replace(found, warnings=remarks, class_names=levels, columns=columns, texts=texts)


def _require_allowed(x: NDArray[np.float64], columns: Sequence[Title], how: Reading, *, name: str) -> None:
    """Refuse infinite numbers, and words and gaps where the sample has none."""
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


_REMARKS = (
    (
        "nearly every row has words of its own in {}: declared scores read texts by their words, and an "
        "encoder by what they mean, a replayed split hardly; leave out what is the name of a row"
    ),
    (
        "numbers and words stand together in {}: a learner takes all of them for words (a number is written "
        "1234.5, a day 2020-02-29)"
    ),
    (
        "numbers beyond 2^53 in {}: 16 of their digits are kept, so neighbours are equal; names of things "
        "are words (to declare it: name{{*}})"
    ),
    (
        "{} numbers the rows, and new data have no row in this table: leave such a column out (pandas "
        "writes it unless told index=False)"
    ),
)


def _remarks(columns: Sequence[Title], x: NDArray[np.float64]) -> list[str]:
    """Remarks on inputs that hardly help."""
    names, patterns = [title.name for title in columns], x.view(np.uint64)
    words = [cells[cells >> 48 == WORD] for cells in patterns.T]
    is_text = [len(x) >= _MANY_ROWS and 2 * len(np.unique(each)) > len(x) for each in words]
    is_mixed = [len(each) > 0 and np.isfinite(cells).any() for each, cells in zip(words, x.T, strict=True)]
    with np.errstate(invalid="ignore"):
        is_huge = np.any(np.abs(x) > _EXACT, axis=0).tolist()
    masks = (is_text, is_mixed, is_huge, list(map(_numbers_rows, x.T)))
    found = ((list(compress(names, mask)), remark) for mask, remark in zip(masks, _REMARKS, strict=True))
    return [remark.format(_few(those)) for those, remark in found if those]


def _numbers_rows(cells: NDArray[np.float64]) -> bool:
    is_start = len(cells) >= _COUNTED and cells[0] in (0.0, 1.0)
    return bool(is_start and np.array_equal(cells, cells[0] + np.arange(len(cells))))


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more columns" if len(names) > _SHOWN else ""
    return ", ".join(map(_short, names[:_SHOWN])) + more


def _short(text: str) -> str:
    """Shorten a name, for declarations have little room."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _find_label_names(names: Sequence[str], target: str | None) -> list[int]:
    return [
        i for i, each in enumerate(names) if (each.lower() in TARGETS if target is None else each == target)
    ]


def _find_target(names: Sequence[str], target: str | None, *, name: str) -> int:
    """Position of the column with the labels: the named one, or the only one that is called like labels."""
    wanted = _find_label_names(names, target)
    if len(wanted) == 1:
        return wanted[0]
    shown = ", ".join(names[:20]) + (" and others" if len(names) > 20 else "")
    if target is None:
        raise DataError(
            f"{name}: which column holds the labels? For a file write it behind its name, as in "
            f"{name if '.' in name else 'table.csv'}:{names[-1]}; of a frame give a pair, as in "
            f'(frame.drop(columns="{names[-1]}"), frame["{names[-1]}"]). Columns: {shown}.'
        )
    if wanted:
        raise DataError(f"{name} has more than one column {target!r}. Rename all but one. Columns: {shown}.")
    raise DataError(f"{name} has no column {target!r}.{did_you_mean(target, names)} Columns: {shown}.")
