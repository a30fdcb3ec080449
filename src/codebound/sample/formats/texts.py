"""Texts with labels: what an encoder of texts turns into a sample. They come from a table or a factory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import DataError
from codebound.run.extensions import import_named
from codebound.sample.arrays import from_arrays
from codebound.sample.columns import Title
from codebound.sample.dataframes import is_frame, titled, values_of
from codebound.sample.formats.table_files import labelled_texts, table_of
from codebound.sample.frames import column_of_labels, labels_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_PLACE = np.zeros((1, 1), dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Texts:
    """Labelled texts, in stored order.

    Attributes:
        name: Name or path they were loaded from.
        role: What they may be used for.
        texts: One for each example.
        y: Labels from 0.
        classes: Number of classes.
        levels: What the classes are called, where they have names.
        source: Where they came from, in words.
    """

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
    def sha256(self) -> str:
        """SHA-256 over the texts in UTF-8, each with its length before it."""
        digest = hashlib.sha256()
        for text in self.texts:
            content = text.encode()
            digest.update(f"{len(content)}|".encode() + content)
        return digest.hexdigest()


def load_texts(
    spec: Any,
    *,
    role: str = "train",
    classes: int | None = None,
    class_names: tuple[str, ...] = (),
) -> Texts:
    """Texts from ``table.csv:LABELS``, or from ``package.module:factory``; or from memory.

    Of a table all other columns are the text. A factory is called without arguments and returns a list of
    texts and a list of labels. In memory it is such a pair, or a data frame with a column called label.

    Raises:
        DataError: There is no such table or factory, or it holds no texts.
    """
    if not isinstance(spec, str):
        name, (texts, labels, levels) = "texts in memory", _held(spec, role, classes, class_names)
        return _checked(name, role, texts, labels, levels, classes, source=f"{type(spec).__name__} in memory")
    table = table_of(spec)
    if table is not None:
        texts, labels, levels = labelled_texts(table, role=role, classes=classes, class_names=class_names)
        source = f"table {table.path}"
    elif ":" in spec:
        (texts, labels, levels), source = _held(_made(spec), role, classes, class_names), f"factory {spec}"
    else:
        raise DataError(
            f"no texts {spec!r}: an encoder of texts reads table.csv:LABELS, or "
            "package.module:factory that returns a list of texts and a list of labels."
        )
    return _checked(spec, role, texts, labels, levels, classes, source=source)


def _checked(
    name: str,
    role: str,
    texts: list[str],
    labels: NDArray[np.int64],
    levels: tuple[str, ...],
    classes: int | None,
    *,
    source: str,
) -> Texts:
    if not texts or not all(isinstance(each, str) for each in texts):
        raise DataError(f"{name} must hold at least one text, and nothing but texts.")
    count = classes if classes is not None else len(levels) or None
    blank = np.repeat(_PLACE, len(texts), axis=0)
    checked = from_arrays(blank, labels, name=name, role=role, classes=count)  # one check of labels for all
    return Texts(name, role, tuple(texts), checked.y, checked.classes, levels, source)


def _held(
    given: Any, role: str, classes: int | None, class_names: tuple[str, ...]
) -> tuple[list[str], NDArray[np.int64], tuple[str, ...]]:
    """Texts, labels, and what these are called, of a data frame or of a pair."""
    name = "texts in memory"
    known: dict[str, Any] = {"role": role, "classes": classes, "class_names": class_names}
    if is_frame(given):
        return texts_of(titled(given, name=name), None, name=name, **known)
    if not isinstance(given, tuple | list) or len(given) != 2 or isinstance(given[0], str):
        raise DataError("give a pair (texts, labels), two lists, or a data frame with a column called label.")
    texts, labels = list(given[0]), values_of(given[1], name=f"{name}: labels")
    if len(texts) != len(labels):
        raise DataError(f"there are {len(texts)} texts and {len(labels)} labels: give one for each.")
    column = column_of_labels(Title("labels"), labels, name=name, **known)
    return texts, labels_of(column, name=name), column.levels


def _made(spec: str) -> tuple[Sequence[str], Sequence[int]]:
    try:
        made = import_named(spec)()
        texts, labels = made
    except (Exception, SystemExit) as error:  # whatever the user's code raises, the message names it
        raise DataError(
            f"{spec} failed with {type(error).__name__}: {error}. It is called without arguments and returns "
            "a list of texts and a list of labels."
        ) from error
    return texts, labels


def selected(texts: Texts, indices: Sequence[int] | NDArray[np.int64], *, role: str) -> Texts:
    """The texts at ``indices``, in that order, with a new role."""
    return replace(
        texts, texts=tuple(texts.texts[each] for each in indices), y=texts.y[np.asarray(indices)], role=role
    )
