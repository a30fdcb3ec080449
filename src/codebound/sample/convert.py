"""Samples as people have them in memory: arrays, tensors, data frames, datasets and loaders of PyTorch."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from codebound.bounds.risk import count_of
from codebound.run.errors import DataError
from codebound.sample.arrays import from_arrays, require_one_label
from codebound.sample.columns import Title
from codebound.sample.dataframes import from_frame, is_frame, of_titled, titled, values_of
from codebound.sample.frames import column_of_labels, labels_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized

    from numpy.typing import NDArray

    from codebound.sample.columns import Values
    from codebound.sample.dataset import Dataset

ACCEPTED = (
    "a pair (inputs, labels) of arrays, tensors or data frames, a data frame with a column of labels, a "
    "Dataset or DataLoader of PyTorch, or a name that load_dataset knows"
)
_LOOKED_AT_TWICE = 3
_LABELS = "labels of the pair"
_OF_NUMPY = (torch.float16, torch.float32, torch.float64)


def collected(
    given: object,
    *,
    role: str,
    classes: int | None = None,
    class_names: tuple[str, ...] = (),
    columns: tuple[Title, ...] = (),
) -> Dataset:
    """A sample from what is in memory; the items of a dataset are collected once, in their order.

    Args:
        given: What ``ACCEPTED`` lists. Transforms of a dataset are applied: the network sees what they make.
        role: What it may be used for; only an unlabelled sample may come without labels.
        classes: Number of classes; by default the largest label plus one.
        class_names: What the classes are called, in the order of labels, for labels that are words.
        columns: What became the inputs of another sample, for a data frame that is to be read by the same.

    Raises:
        DataError: It is nothing of that, or its items change from one look to the next.

    Example:
        >>> collected((np.zeros((4, 3)), [0, 1, 1, 0]), role="train").input_shape
        (3,)
    """
    kind = type(given).__name__
    name = "arrays" if kind in ("tuple", "list", "ndarray", "Tensor") else kind
    known: dict[str, Any] = {"role": role, "classes": classes, "class_names": class_names, "columns": columns}
    if is_frame(given):
        return from_frame(given, **known)
    x, y = _parts(given, name=name)
    if is_frame(x):
        table = titled(x, name="the frame")
        if y is None:
            return from_frame(x, **known)
        labels = values_of(y, name="the labels of the pair")
        _require_as_many(labels, table, name=type(x).__name__)
        table.append((Title(_LABELS), labels))
        return of_titled(table, _LABELS, name="a pair with a frame", source=f"{kind} in memory", **known)
    if isinstance(x, list | tuple) and x and isinstance(x[0], str):
        raise DataError(
            "these are texts, and texts need an encoder: encoder.table((texts, labels)) makes a sample of "
            "them (docs/howto/encoders.md)."
        )
    if y is None or role == "unlabelled":
        return from_arrays(_array(x), None, name=name, role=role, classes=classes, source=f"{kind} in memory")
    numbers, names = _labels(y, name=name, role=role, classes=classes, class_names=class_names)
    found = from_arrays(
        _array(x),
        numbers,
        name=name,
        role=role,
        classes=len(names) or classes,
        source=f"{kind} in memory",
    )
    return replace(found, class_names=names)


def _require_as_many(labels: Sized, table: list[tuple[Title, Values]], *, name: str) -> None:
    rows = len(table[0][1]) if table else 0
    if len(labels) != rows:
        raise DataError(
            f"the {name} has {count_of(rows, 'row')}, and there are {len(labels)} labels: give one for each."
        )


def _parts(given: Any, *, name: str) -> tuple[Any, Any]:
    """Inputs and labels, or None where there are none."""
    if isinstance(given, DataLoader):
        if isinstance(given.dataset, IterableDataset):
            return _stacked(chain.from_iterable(zip(*batch, strict=True) for batch in given), name=name)
        given = given.dataset
    if isinstance(given, TensorDataset):
        given = given.tensors
    if isinstance(given, np.ndarray | Tensor):
        return given, None
    if isinstance(given, tuple | list) and len(given) in (1, 2):
        return given[0], (*given, None)[1]
    if isinstance(given, IterableDataset):
        return _stacked(given, name=name)
    if isinstance(given, str | bytes | dict) or not (
        hasattr(given, "__len__") and hasattr(given, "__getitem__")
    ):
        raise DataError(f"{name} is no sample. Give {ACCEPTED}.")
    _require_fixed(given, name=name)
    return _stacked((given[i] for i in range(len(given))), name=name)


def _require_fixed(items: Any, *, name: str) -> None:
    """Refuses items that change from one look to the next: nobody could check what was counted."""
    for at in range(min(_LOOKED_AT_TWICE, len(items))):
        (first, _), (second, _) = (_row(items[at], name=name) for _ in range(2))
        if not np.array_equal(first, second):
            raise DataError(
                f"{name}: item {at} is another one when it is asked for again. Leave out random transforms: "
                "a certificate is about fixed examples."
            )


def _stacked(rows: Iterable[Any], *, name: str) -> tuple[Any, Any]:
    pairs = [_row(row, name=name) for row in rows]
    try:
        return np.stack([x for x, _ in pairs]), np.array([y for _, y in pairs])
    except ValueError as error:
        raise DataError(f"{name}: its inputs have no shape in common: {error}.") from error


def _row(row: Any, *, name: str) -> tuple[NDArray[Any], Any]:
    """One item: its input, channels first, and its label."""
    if not isinstance(row, tuple | list) or len(row) != 2:
        raise DataError(
            f"{name}: its items must be pairs (input, label). Got a {type(row).__name__}; wrap it in a "
            "dataset whose items are such pairs."
        )
    inputs, label = _array(row[0]), _array(row[1])
    if label.size != 1:
        raise DataError(f"{name}: a label is one number. Got shape {label.shape}.")
    if hasattr(row[0], "getbands") and inputs.ndim == 3:  # a picture of Pillow
        inputs = inputs.transpose(2, 0, 1)
    return inputs, label.reshape(())[()]


def _array(values: Any) -> NDArray[Any]:
    """An array of whatever holds numbers; nothing of it is left out or made up.

    Raises:
        DataError: It has holes, no common shape, or no values at all.
    """
    try:
        if isinstance(values, Tensor):
            plain = values.detach().to("cpu").to_dense().resolve_conj().resolve_neg()
            exact = plain.dtype in _OF_NUMPY or not plain.is_floating_point()
            return np.asarray(plain if exact else plain.float())
        array = np.asarray(values.toarray() if hasattr(values, "toarray") else values)  # sparse of scipy
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{type(values).__name__} is no array of numbers: {error}") from error
    if np.ma.is_masked(values):
        raise DataError(
            "the array is masked, and what a mask hides is no value. Fill it by a rule that was fixed in "
            "advance, or give a data frame, in which values may be missing."
        )
    return _of_objects(array) if array.dtype == object else array


def _of_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Numbers that were stored as objects, where float64 has them exactly; others stay what they are."""
    try:
        numbers = array.astype(np.float64)
        is_exact = bool((numbers == array).all())
    except (ValueError, TypeError, OverflowError):
        return array
    return numbers if is_exact else array


def _labels(
    y: Any, *, name: str, role: str, classes: int | None, class_names: tuple[str, ...]
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Labels as numbers, and what they are called: as in a table, where they are no whole numbers from 0."""
    labels = y if hasattr(y, "cat") else _array(y)  # of a categorical type
    if isinstance(labels, np.ndarray):
        labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
        require_one_label(labels, name)
        if labels.dtype.kind in "iub" and not class_names and labels.min(initial=0) >= 0:
            return labels, ()
    values = values_of(labels, name=f"{name}: labels")
    column = column_of_labels(
        Title("labels"), values, name=name, role=role, classes=classes, class_names=class_names
    )
    return labels_of(column, name=name), column.levels
