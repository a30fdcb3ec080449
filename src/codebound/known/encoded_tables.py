"""Tables of encoded samples: loaded, encoded once and kept, named by what encoder and inputs contain."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import numpy as np

from codebound.bounds.risk import count_of
from codebound.known.encoder import SCALING, UNIT, ZERO
from codebound.run.errors import CodeboundError, UsageError
from codebound.run.files import make_folder, write_atomically
from codebound.run.progress import Progress, silent
from codebound.run.store import content_key
from codebound.sample.formats.catalogue import cache_folder
from codebound.sample.formats.texts import Texts

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from numpy.typing import NDArray

    from codebound.known.encoder import Encoder
    from codebound.sample.dataset import Dataset


def load_table(
    encoder: Encoder,
    spec: str,
    *,
    role: str = "train",
    folder: Path | None = None,
    like: Dataset | None = None,
    device: str | torch.device = "cpu",
    progress: Progress = silent,
) -> Dataset:
    """A sample as the table of its encoded inputs; what was encoded before is read from the cache.

    ``spec`` and ``role`` are those of ``load_dataset``, or of ``load_texts`` for an encoder of texts; named
    datasets are looked for in ``folder``; classes and columns are those of the sample that it is ``like``.
    """
    raw = encoder.read(spec, role=role, like=like, folder=folder)
    return encoded(encoder, raw, device=device, progress=progress)


def encoded(
    encoder: Encoder, raw: Dataset | Texts, *, device: str | torch.device = "cpu", progress: Progress = silent
) -> Dataset:
    """The table of a sample, from the cache where it is there; of scores none is kept."""
    if encoder.has_scores:
        return encoder.table(raw, device=device, progress=progress)
    scaling = None if isinstance(raw, Texts) else repr(raw.scaling)
    key = content_key({"encoder": encoder.sha256, "inputs": raw.sha256, "scaling": scaling})
    path = cache_folder().parent / "tables" / f"{key}.npy"
    rows = _read(path, raw.n)
    if rows is None or not encoder.makes_table(raw, rows, device=device):  # its hash may not say all
        table = encoder.table(raw, device=device, progress=progress)
        _keep(path, table.x)
        return table
    return encoder.as_table(rows, raw)


def _read(path: Path, n: int) -> NDArray[np.uint8] | None:
    """Rows that were kept; None where there are none, or a damaged file."""
    try:
        rows = np.load(path, allow_pickle=False)
    except (OSError, ValueError, zipfile.BadZipFile):
        return None
    is_whole = rows.ndim == 2 and len(rows) == n and rows.dtype == np.uint8
    return rows if is_whole else None


def _keep(path: Path, rows: NDArray[np.generic]) -> None:
    """Keeps rows; a cache that cannot be written costs time, and nothing else."""
    content = io.BytesIO()
    np.save(content, rows)
    try:
        make_folder(path.parent)
        write_atomically(path, content.getvalue())
    except CodeboundError:
        return


def save_table(path: Path, table: Dataset) -> None:
    """Writes a table as an .npz file with x and y, which both programs read.

    Raises:
        UsageError: The file exists already, or is none of that kind.
    """
    if path.suffix != ".npz":
        raise UsageError(f"a table is an .npz file. Got {path}.")
    if path.exists():
        raise UsageError(f"{path} exists already. Choose another file.")
    content = io.BytesIO()
    np.savez_compressed(content, x=table.x, y=table.y)
    write_atomically(path, content.getvalue())


def differing(table: Dataset, other: Dataset) -> str:
    """Differences of another table of the same inputs, in words."""
    if table.x.shape != other.x.shape or other.x.dtype != np.uint8:
        return f"another table: {other.x.shape} {other.x.dtype}, not {table.x.shape} uint8"
    labels = int((table.y != other.y).sum())
    apart = np.abs(table.x.astype(np.int64) - other.x.astype(np.int64))
    count = int((apart > 0).sum())
    if not count and not labels:
        return "in nothing: the tables are the same"
    names = count_of(labels, "label differs", "labels differ")
    numbers = count_of(count, f"of {apart.size} bytes differs", f"of {apart.size} bytes differ")
    return f"{numbers}, by at most {apart.max()}; {names}"


def prototypes(encoder: Encoder, names: tuple[str, ...]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weights and biases of a linear layer: its scores are the products of a row with those of class names.

    It takes rows that are scaled by ``SCALING``.

    Raises:
        UsageError: The encoder does not take texts.
    """
    if not encoder.takes_texts:
        raise UsageError(
            f"class names are texts, and the encoder {encoder.name} takes none. Give a base instead: a "
            "linear layer for its rows that was made without the sample."
        )
    rows = (encoder.rows(names).astype(np.float64) - ZERO) / UNIT
    weight = rows * (SCALING.divisor / UNIT) / rows.shape[1]
    bias = -weight.sum(axis=1) * (ZERO / SCALING.divisor)
    return weight.astype(np.float32), bias.astype(np.float32)
