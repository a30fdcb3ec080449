"""Runs an item in a folder: finished parts, results as JSON, figures as SVG."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codebound.run.errors import UsageError
from codebound.run.files import make_folder, write_text
from codebound_papers.journal import JOURNAL, Journal
from codebound_papers.reproduce.items import Item, Reproduction, Settings, list_items

MODELS = "CODEBOUND_MODELS"
"""Environment variable that names the folder with pretrained networks."""

_EPOCHS = {"A-": 299, "G-ExpX": 100, "G-": 300}  # of the published trainings, by the begin of a name


@dataclass(frozen=True, slots=True)
class Finished:
    """An item that was run and written."""

    reproduction: Reproduction  # what it found
    record: dict[str, Any]  # the content of the JSON file: what was found, command, seed, time, machines
    files: tuple[Path, ...]  # what was written


def find_item(id: str) -> Item:
    """The item of that name."""
    if id not in list_items():
        raise UsageError(f"nothing is called {id!r} here. Known: {', '.join(sorted(list_items()))}.")
    return list_items()[id]


def models_folder(given: Path | None = None) -> Path | None:
    """The folder with pretrained networks: the given one, else that of the environment variable."""
    named = os.environ.get(MODELS)
    folder = given if given is not None else Path(named).expanduser() if named else None
    if folder is not None and not folder.is_dir():
        raise UsageError(f"the folder of pretrained networks {folder} does not exist (models, or {MODELS}).")
    return folder


def _compute(id: str, folder: Path, settings: Settings) -> tuple[Reproduction, Journal]:
    """Return the result of an item, and the journal of its parts, which an interrupted run may have begun.

    ``OutOfTimeError`` says that the deadline has passed before a part that the item cannot do without.
    """
    from codebound import __version__
    from codebound.run.device import resolve_device

    entry, place = find_item(id), str(resolve_device(settings.device))
    if settings.epochs is not None and settings.epochs < 1:
        raise UsageError(f"a network is trained for at least one epoch. Got {settings.epochs}.")
    make_folder(folder)
    if not os.access(folder, os.W_OK):
        raise UsageError(f"the folder {folder} cannot be written. Choose another one.")
    run = {"item": id, "size": settings.size, "seed": settings.seed, "epochs": settings.epochs}
    cells = Journal(
        folder / f"{entry.stem}{JOURNAL}",
        run={**run, "codebound": __version__},
        machine=_machine(place),
        progress=settings.progress,
        deadline=settings.deadline,
    )
    here = replace(settings, device=place, models=models_folder(settings.models), cells=cells)
    return entry.run(here), cells


def reproduce(id: str, folder: Path, settings: Settings) -> Finished:
    """Runs an item, or the rest of it, and writes what it found; after the deadline, the finished rows."""
    entry, (found, cells) = find_item(id), _compute(id, folder, settings)
    machines = cells.machines()
    size, seed, epochs = settings.size, settings.seed, settings.epochs
    options = f"{id} --{size} --seed {seed}" + ("" if epochs is None else f" --epochs {epochs}")
    if any(machine["device"].startswith("cuda") for machine in machines):
        options += " --device cuda"
    short = [] if epochs is None else [_short(entry, epochs)]
    record = {
        "item": id,
        "title": entry.title,
        "about": entry.about,
        "command": f"codebound reproduce {options}",
        "size": size,
        "seed": seed,
        "epochs": epochs,
        "seconds": cells.total("seconds"),
        "cpu_seconds": cells.total("cpu_seconds"),
        "machines": machines,
        "not_run": list(cells.left),
        "sentences": list(found.sentences),
        "deviations": [*short, *found.deviations],
        "figures": [f"{stem}.svg" for stem in found.figures],
        "tables": found.tables,
        "points": found.points,
    }
    texts = {f"{stem}.svg": figure.svg() for stem, figure in found.figures.items()}
    texts[f"{entry.stem}.json"] = _dump(record) + "\n"
    for name, text in texts.items():
        write_text(folder / name, text)
    return Finished(found, record, tuple(folder / name for name in texts))


def _short(item: Item, epochs: int) -> str:
    published = next((length for begin, length in _EPOCHS.items() if item.id.startswith(begin)), None)
    theirs = "" if published is None else f"; the published ones were for {published}"
    return f"No network was trained for more than {epochs} epochs{theirs}."


def _machine(place: str) -> dict[str, Any]:
    import platform

    import numpy as np
    import torch

    from codebound import __version__
    from codebound.run.device import device_name

    return {
        "device": device_name(torch.device(place)),
        "codebound": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
    }


def _dump(value: object, depth: int = 0) -> str:
    """JSON with one row of a table per line, so that two results can be compared."""
    space = "\n" + " " * (depth + 1)
    if isinstance(value, Mapping) and (
        depth == 0 or any(isinstance(each, list | tuple) for each in value.values())
    ):
        parts = [f"{json.dumps(key)}: {_dump(each, depth + 1)}" for key, each in value.items()]
        return "{" + space + ("," + space).join(parts) + space[:-1] + "}"
    if isinstance(value, list | tuple) and value:
        return "[" + space + ("," + space).join(_dump(each, depth + 1) for each in value) + space[:-1] + "]"
    return json.dumps(value, allow_nan=False)
