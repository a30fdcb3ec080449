"""Samples of texts, which an encoder reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codebound.run.errors import DataError
from codebound.sample.arrays import from_arrays
from codebound.sample.columns import text_cells
from codebound.sample.frames import Reading, joined_texts
from codebound.sample.load import call_factory, labels_in
from codebound.sample.tables import is_frame, read_file, read_frame, table_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.sample.dataset import Sample


def load_texts(spec: Any, *, role: str = "train", like: Sample | None = None) -> Sample:
    """Load texts from ``table.csv:LABELS``, from ``package.module:factory``, or from memory.

    Of a table all other columns are the text. A factory is called without arguments and returns a list of
    texts and a list of labels. In memory it is such a pair, or a data frame with a column called label. The
    sample has its texts, and one column of cells.
    """
    how, name = Reading.like(role, like), "texts in memory"
    if not isinstance(spec, str):
        found, source = _from_memory(spec, how), f"{type(spec).__name__} in memory"
    elif (table := table_of(name := spec)) is not None:
        path, target = table
        found, source = joined_texts(read_file(path), target, how, name=str(path)), f"table {path}"
    elif ":" in spec:
        returns = "It is called without arguments and returns a list of texts and a list of labels."
        found, source = _from_memory(call_factory(spec, returns), how), f"factory {spec}"
    else:
        raise DataError(
            f"no texts {spec!r}: an encoder of texts reads table.csv:LABELS, or "
            "package.module:factory that returns a list of texts and a list of labels."
        )
    texts, labels, names = found
    if not texts or not all(isinstance(each, str) for each in texts):
        raise DataError(f"{name} must hold at least one text, and nothing but texts.")
    count = how.classes if how.classes is not None else len(names) or None
    x = text_cells(texts)[:, None]
    sample = from_arrays(x, labels, name=name, role=role, classes=count, source=source, cells=True)
    return replace(sample, class_names=names, texts=tuple(texts))


def _from_memory(given: Any, how: Reading) -> tuple[list[str], NDArray[Any], tuple[str, ...]]:
    """Texts, labels and classes of a data frame or a pair."""
    name = "texts in memory"
    if is_frame(given):
        return joined_texts(read_frame(given, name=name), None, how, name=name)
    if not isinstance(given, tuple | list) or len(given) != 2 or isinstance(given[0], str):
        raise DataError("give a pair (texts, labels), two lists, or a data frame with a column called label.")
    labels, names, _ = labels_in(given[1], how, name=name)
    return list(given[0]), labels, names
