"""Runs an item in a folder: finished parts, results as JSON, figures as SVG."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codebound.errors import UsageError
from codebound.progress import Progress, silent
from codebound.reproduce.cells import Cells, write_text
from codebound.reproduce.item import ITEMS, Item, Reproduction, Settings, Size

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Finished:
    """An item that was run.

    Attributes:
        reproduction: What it found.
        record: The content of the JSON file: what was found, command, versions, seed, time.
        files: What was written.
    """

    reproduction: Reproduction
    record: dict[str, Any]
    files: tuple[Path, ...]


def find_item(id: str) -> Item:
    """The item of that name."""
    if id not in ITEMS:
        raise UsageError(f"nothing is called {id!r} here. Known: {', '.join(sorted(ITEMS))}.")
    return ITEMS[id]


def reproduce(
    id: str,
    folder: Path,
    *,
    size: Size = "quick",
    seed: int = 0,
    device: str = "auto",
    progress: Progress = silent,
) -> Finished:
    """Runs an item, or the rest of it if an earlier run was interrupted in the same folder.

    Args:
        id: Name of the item.
        folder: For the results; made if need be.
        size: How much of it.
        seed: Of everything random.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:1``.
        progress: Told the finished parts.
    """
    from codebound import __version__
    from codebound.train import resolve_device

    entry, place = find_item(id), str(resolve_device(device))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {folder} cannot be made: {error.strerror}.") from error
    run = {"item": id, "size": size, "seed": seed, "device": place, "codebound": __version__}
    cells = Cells(folder / f"{entry.stem}.cells.json", run=run, progress=progress)
    found = entry.run(Settings(size=size, seed=seed, device=place, cells=cells))
    record = {
        "item": id,
        "title": entry.title,
        "command": f"codebound reproduce {id} --{size} --seed {seed} --device {place}",
        "size": size,
        "seed": seed,
        "device": place,
        "seconds": cells.total("seconds"),
        "cpu_seconds": cells.total("cpu_seconds"),
        **_versions(),
        "sentences": list(found.sentences),
        "deviations": list(found.deviations),
        "tables": found.tables,
        "points": found.points,
    }
    texts = {f"{stem}.svg": svg for stem, svg in found.figures.items()}
    texts[f"{entry.stem}.json"] = _dumped(record) + "\n"
    for name, text in texts.items():
        write_text(folder / name, text)
    return Finished(found, record, tuple(folder / name for name in texts))


def _versions() -> dict[str, Any]:
    import platform

    import numpy as np
    import torch

    from codebound import __version__

    return {
        "codebound": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
    }


def _dumped(value: object, depth: int = 0) -> str:
    """JSON with one row of a table per line, so that two results can be compared."""
    space = "\n" + " " * (depth + 1)
    if isinstance(value, Mapping) and (
        depth == 0 or any(isinstance(each, list | tuple) for each in value.values())
    ):
        parts = [f"{json.dumps(key)}: {_dumped(each, depth + 1)}" for key, each in value.items()]
        return "{" + space + ("," + space).join(parts) + space[:-1] + "}"
    if isinstance(value, list | tuple) and value:
        return "[" + space + ("," + space).join(_dumped(each, depth + 1) for each in value) + space[:-1] + "]"
    return json.dumps(value, allow_nan=False)
