"""Samples as people have them in memory: arrays, tensors, data frames, datasets and loaders of PyTorch."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from codebound.data.arrays import from_arrays
from codebound.data.foreign import from_frame, is_frame
from codebound.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from codebound.data.dataset import Dataset

ACCEPTED = (
    "a pair (inputs, labels) of arrays, tensors or data frames, a data frame with a column of labels, a "
    "Dataset or DataLoader of PyTorch, or a name that load_dataset knows"
)
_LOOKED_AT_TWICE = 3
_LABELS = "labels of the pair"


def collected(
    given: object, *, role: str, classes: int | None = None, class_names: tuple[str, ...] = ()
) -> Dataset:
    """A sample from what is in memory; the items of a dataset are collected once, in their order.

    Args:
        given: What ``ACCEPTED`` lists. Transforms of a dataset are applied: the network sees what they make.
        role: What it may be used for; only an unlabelled sample may come without labels.
        classes: Number of classes; by default the largest label plus one.
        class_names: What the classes are called, for labels of a data frame that are words.

    Raises:
        DataError: It is nothing of that, or its items change from one look to the next.

    Example:
        >>> collected((np.zeros((4, 3)), [0, 1, 1, 0]), role="train").input_shape
        (3,)
    """
    kind = type(given).__name__
    name = "arrays" if kind in ("tuple", "list", "ndarray", "Tensor") else kind
    if is_frame(given):
        return from_frame(given, role=role, classes=classes, class_names=class_names)
    x, y = _parts(given, name=name)
    if is_frame(x):
        return from_frame(_joined(x, y), _LABELS, role=role, classes=classes, class_names=class_names)
    labels = None if y is None else _labels(y, name=name)
    return from_arrays(_array(x), labels, name=name, role=role, classes=classes, source=f"{kind} in memory")


def _joined(frame: Any, labels: Any) -> Any:
    """A frame with the labels as a column of their own."""
    if not hasattr(frame, "assign"):
        raise DataError("inputs in such a frame: give one frame, with a column called label.")
    return frame.assign(**{_LABELS: getattr(labels, "array", labels)})


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
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return np.asarray(values.float() if values.dtype == torch.bfloat16 else values)
    return np.asarray(values)


def _labels(y: Any, *, name: str) -> NDArray[Any]:
    """Labels as numbers."""
    labels = _array(y)
    if labels.dtype.kind in "OUS":
        raise DataError(
            f"{name}: labels are whole numbers from 0. Got words such as {str(labels.flat[0])!r:.40}; "
            "numpy.unique(labels, return_inverse=True) numbers them."
        )
    return labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
