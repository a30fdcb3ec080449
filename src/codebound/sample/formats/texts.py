"""Texts with labels: what an encoder of texts turns into a sample. They come from a table or a factory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import DataError
from codebound.sample.arrays import from_arrays
from codebound.sample.columns import text_cells
from codebound.sample.dataset import Sample
from codebound.sample.frames import Reading, joined_texts
from codebound.sample.load import call_factory, labels_in
from codebound.sample.tables import is_frame, read_file, read_frame, table_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Texts:
    """Labelled texts, in stored order; ``levels`` are the names of classes, where they have some."""

    name: str
    role: str
    texts: tuple[str, ...] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    classes: int
    levels: tuple[str, ...] = ()
    source: str = ""

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.texts)

    @property
    def sample(self) -> Sample:
        """The sample that they are: one column of cells."""
        x = text_cells(self.texts)[:, None]
        found = Sample(self.name, self.role, x, self.y, self.classes, source=self.source, is_cells=True)
        return replace(found, class_names=self.levels)

    @property
    def sha256(self) -> str:
        """Hash of the sample."""
        return self.sample.sha256


def load_texts(
    spec: Any, *, role: str = "train", classes: int | None = None, class_names: tuple[str, ...] = ()
) -> Texts:
    """Texts from ``table.csv:LABELS``, or from ``package.module:factory``; or from memory.

    Of a table all other columns are the text. A factory is called without arguments and returns a list of
    texts and a list of labels. In memory it is such a pair, or a data frame with a column called label.
    """
    how, name = Reading(role, classes, class_names), "texts in memory"
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
    texts, labels, levels = found
    if not texts or not all(isinstance(each, str) for each in texts):
        raise DataError(f"{name} must hold at least one text, and nothing but texts.")
    count = classes if classes is not None else len(levels) or None
    blank = np.zeros((len(texts), 1), dtype=np.uint8)
    checked = from_arrays(blank, labels, name=name, role=role, classes=count)  # one check of labels for all
    return Texts(name, role, tuple(texts), checked.y, checked.classes, levels, source)


def _from_memory(given: Any, how: Reading) -> tuple[list[str], NDArray[np.generic], tuple[str, ...]]:
    """Texts, labels, and what these are called, of a data frame or of a pair."""
    name = "texts in memory"
    if is_frame(given):
        return joined_texts(read_frame(given, name=name), None, how, name=name)
    if not isinstance(given, tuple | list) or len(given) != 2 or isinstance(given[0], str):
        raise DataError("give a pair (texts, labels), two lists, or a data frame with a column called label.")
    texts, (labels, levels, _) = list(given[0]), labels_in(given[1], how, name=name)
    if len(texts) != len(labels):
        raise DataError(f"there are {len(texts)} texts and {len(labels)} labels: give one for each.")
    return texts, labels, levels
