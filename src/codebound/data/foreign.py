"""Data frames of pandas, polars and pyarrow, and Parquet files, as titled columns of numbers and texts.

None of these packages is needed, and none is loaded unless a frame of it, or a Parquet file, is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.data.frames import Title, sample_of, split_table
from codebound.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from codebound.data.dataset import Dataset
    from codebound.data.frames import Values

_MISSING = "NA"


def is_frame(value: object) -> bool:
    """Whether this is a data frame that ``from_frame`` reads."""
    return _package(value) in _READERS


def from_frame(
    frame: Any,
    target: str | None = None,
    *,
    name: str = "",
    role: str = "train",
    classes: int | None = None,
    class_names: tuple[str, ...] = (),
) -> Dataset:
    """The sample in a data frame of pandas, polars or pyarrow, by the rule of ``frames``.

    Levels are those of a categorical type (pandas Categorical, polars Enum, a dictionary of arrow), or those
    that the name of a column declares, as in a file.

    Args:
        frame: The frame; it is not changed.
        target: The column with the labels, unless it is called y, label, target or class.
        name: What to call the sample in results.
        role: What it may be used for.
        classes: Number of classes; by default what occurs or is declared.
        class_names: What they are called, in the order of labels, where words are not declared.

    Raises:
        DataError: The frame leaves something open; the message says what to do.
    """
    package = _package(frame)
    source = name or f"a {package} frame"
    columns, labels = split_table(
        titled(frame, name=source), target, name=source, role=role, class_names=class_names
    )
    return sample_of(columns, labels, name=source, role=role, classes=classes, source=f"{package} frame")


def titled(frame: Any, *, name: str) -> list[tuple[Title, Values]]:
    """The columns of a frame, with what their names and types declare.

    Raises:
        DataError: A column holds neither numbers nor texts.
    """
    reader = _READERS.get(_package(frame))
    if reader is None:
        raise DataError(f"{name} is no data frame of pandas, polars or pyarrow. Got {type(frame).__name__}.")
    return [reader(Title.read(str(each), source=name), column, name) for each, column in _items(frame)]


def read_parquet(path: Path, *, limit: int) -> Any:
    """The table in a Parquet file.

    Raises:
        DataError: pyarrow is not installed, or the file cannot be read or promises more bytes than ``limit``.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(f"{path}: Parquet needs pyarrow: pip install 'codebound[parquet]'.") from error
    try:
        with parquet.ParquetFile(path) as file:
            groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
            promised = max(
                sum(group.total_byte_size for group in groups),
                file.metadata.num_rows * file.metadata.num_columns,
            )
            if promised > limit:
                raise DataError(
                    f"{path} holds {promised} bytes; {limit} are read. Take fewer rows or columns."
                )
            return file.read()
    except DataError:
        raise
    except Exception as error:  # a crafted file can make the parser raise nearly anything
        raise DataError(f"{path} is no readable Parquet file: {error}.") from error


def _package(value: object) -> str:
    """The package that a frame belongs to; empty for what is none."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return package if kind.__name__ in ("DataFrame", "Table") else ""


def _items(frame: Any) -> list[tuple[Any, Any]]:
    if _package(frame) == "pandas":
        return [(name, frame.iloc[:, i]) for i, name in enumerate(frame.columns)]
    if _package(frame) == "pyarrow":
        return list(zip(frame.column_names, frame.columns, strict=True))
    return [(name, frame[name]) for name in frame.columns]


def _of_pandas(title: Title, column: Any, name: str) -> tuple[Title, Values]:
    if hasattr(column, "cat"):
        levels = tuple(map(str, column.cat.categories))
        return _with_levels(title, levels), [
            levels[code] if code >= 0 else _MISSING for code in column.cat.codes
        ]
    if column.dtype.kind in "biuf":
        return title, column.to_numpy(dtype=np.float64, na_value=np.nan)
    if column.dtype.kind in "mM":
        raise _no_numbers(title, str(column.dtype), name)
    return title, _cells(column.tolist(), title, name)


def _of_polars(title: Title, column: Any, name: str) -> tuple[Title, Values]:
    if column.dtype.is_numeric() or str(column.dtype) == "Boolean":
        return title, _numbers(column.to_list())
    levels = tuple(column.dtype.categories) if str(column.dtype).startswith("Enum") else ()
    return _with_levels(title, levels), _cells(column.to_list(), title, name)


def _of_arrow(title: Title, column: Any, name: str) -> tuple[Title, Values]:
    kind = str(column.type)
    if kind.startswith("dictionary"):
        chunks = column.unify_dictionaries().chunks
        levels = tuple(map(str, chunks[0].dictionary.to_pylist())) if chunks else ()
        return _with_levels(title, levels), _cells(column.to_pylist(), title, name)
    if kind == "bool" or kind.startswith(("int", "uint", "float", "double", "halffloat", "decimal")):
        return title, _numbers(column.to_pylist())
    return title, _cells(column.to_pylist(), title, name)


_READERS = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow}


def _with_levels(title: Title, levels: tuple[str, ...]) -> Title:
    return Title(title.name, title.levels or levels, title.can_miss)


def _numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([np.nan if each is None else float(each) for each in values])


def _cells(values: Sequence[Any], title: Title, name: str) -> list[str]:
    """Texts as they would stand in a file."""
    cells = []
    for each in values:
        if each is None or each != each or type(each).__name__ in ("NAType", "NaTType"):
            cells.append(_MISSING)
        elif isinstance(each, str):
            cells.append(each.strip())
        elif isinstance(each, bool | int | float | np.generic) and not isinstance(each, Mapping):
            cells.append(repr(float(each)))
        else:
            raise _no_numbers(title, type(each).__name__, name)
    return cells


def _no_numbers(title: Title, kind: str, name: str) -> DataError:
    return DataError(
        f"{name}: column {title.name!r} holds {kind}, neither numbers nor texts. Replace it by numbers, by a "
        "rule that was fixed in advance, or drop it."
    )
