"""Samples out of data files that other packages carry: tables of R, texts, time series, pixels in a table.

Each function turns the unpacked files of a split into inputs and labels by a fixed rule; what is particular
to a set stands in its entry of ``SETS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from codebound.run.errors import DataError
from codebound.sample.columns import Coded, Title
from codebound.sample.frames import Reading, read_labels
from public_sets.rdata import read_frame
from public_sets.words import hashed_words

Sample = tuple[NDArray[np.generic], NDArray[np.int64]]

_TAB_HEADER = (b"Category\tText", b"d\tstring", b"class\t")


def frame_of_bytes(files: Mapping[str, bytes], *, target: str) -> Sample:
    """A data frame whose inputs are whole numbers from 0 to 255."""
    x, y = frame_of_numbers(files, target=target, unit=1.0)
    return _as_bytes(x.astype(np.float64), *files), y


def frame_of_numbers(files: Mapping[str, bytes], *, target: str, unit: float) -> Sample:
    """A data frame whose inputs are divided by ``unit``, a power of two, which is exact."""
    ((name, content),) = files.items()
    columns = read_frame(content, name=name)
    labels = columns.pop([column.name for column in columns].index(target))
    if not columns or any(len(each.levels) > 2 or np.isnan(each.values).any() for each in columns):
        raise DataError(f"{name}: expected columns of numbers, or of two levels, without gaps.")
    values = Coded(labels.levels, labels.values) if labels.levels else labels.values
    y, _ = read_labels(Title(target), values, Reading(), name=name)
    return np.stack([each.values for each in columns], 1) / unit, y


def texts(files: Mapping[str, bytes], *, classes: Sequence[str], dimension: int) -> Sample:
    """Texts with their categories as counts of words; see ``words``."""
    found, y = plain_texts(files, classes=classes)
    return hashed_words(found, dimension), y


def plain_texts(files: Mapping[str, bytes], *, classes: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Texts with their categories, a line each, in Orange's table of two columns."""
    ((name, content),) = files.items()
    lines = content.split(b"\n")
    if tuple(lines[:3]) != _TAB_HEADER:
        raise DataError(f"{name}: expected the columns Category and Text of an Orange table.")
    rows = [line.decode("utf-8", "replace").partition("\t") for line in lines[3:] if line]
    y = _numbered([category for category, _, _ in rows], classes, name)
    return [text for _, _, text in rows], y


def series(files: Mapping[str, bytes], *, channels: int, length: int) -> Sample:
    """Time series of the files one after the other, ``(n, channels, length)``; short ones end in zeros."""
    parts = [_series(content, channels, length, name) for name, content in files.items()]
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def _series(
    content: bytes, channels: int, length: int, name: str
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    head, found, body = content.decode("utf-8", "replace").partition("@data\n")
    classes = [line.split()[2:] for line in head.splitlines() if line.startswith("@classLabel true ")]
    if not found or len(classes) != 1:
        raise DataError(f"{name} is no .ts file with class labels.")
    rows = [line.split(":") for line in body.splitlines() if line]
    x = np.zeros((len(rows), channels, length), dtype=np.float32)
    for example, row in enumerate(rows):
        values = [_floats(channel, name) for channel in row[:-1]]
        if len(values) != channels or not all(1 <= len(each) <= length for each in values):
            raise DataError(
                f"{name}: example {example + 1} is not {channels} channels of at most {length} values."
            )
        for at, each in enumerate(values):
            x[example, at, : len(each)] = each
    return x, _numbered([row[-1].strip() for row in rows], classes[0], name)


def pixels(files: Mapping[str, bytes], *, shape: tuple[int, int], gain: int) -> Sample:
    """Grey images, a row of whole numbers and a label each, after a row of names; stored ``gain`` times."""
    ((name, content),) = files.items()
    values = [_floats(line, name) for line in content.decode("utf-8", "replace").splitlines()[1:] if line]
    if {len(row) for row in values} != {shape[0] * shape[1] + 1}:
        raise DataError(f"{name}: expected {shape[0]} x {shape[1]} pixels and a label in every row.")
    table = np.array(values)
    labels = _as_bytes(table[:, -1:], name)[:, 0].astype(np.int64)
    return _as_bytes(table[:, :-1] * gain, name).reshape(-1, 1, *shape), labels


def _floats(line: str, name: str) -> list[float]:
    try:
        return [float(value) for value in line.split(",")]
    except ValueError as error:
        raise DataError(f"{name} holds something else than numbers: {error}.") from error


def _numbered(labels: Sequence[str], classes: Sequence[str], name: str) -> NDArray[np.int64]:
    at = {each: i for i, each in enumerate(classes)}
    unknown = next((label for label in labels if label not in at), None)
    if unknown is not None:
        raise DataError(f"{name}: {unknown[:40]!r} is none of the {len(classes)} classes.")
    return np.array([at[label] for label in labels], dtype=np.int64)


def _as_bytes(x: NDArray[np.float64], name: str) -> NDArray[np.uint8]:
    stored = x.clip(0, 255).astype(np.uint8)
    if not np.array_equal(stored, x):
        raise DataError(f"{name}: expected whole numbers from 0 to 255.")
    return stored
