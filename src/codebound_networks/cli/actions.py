"""Trainings as functions: options in, files and a record out."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebound.bounds.risk import count_of, rate
from codebound.cli.actions import load_samples
from codebound.known.provenance import Origin, origin_of
from codebound.run.device import resolve_device
from codebound.run.files import content_key, write_json
from codebound.run.progress import NOBODY, Listener
from codebound.sample.caveats import remarks
from codebound_networks.about_f.models import load_network
from codebound_networks.train import runs
from codebound_networks.train.config import TrainConfig, parse_schedule, preset
from codebound_networks.train.harness import fit, run_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codebound.sample.dataset import Sample
    from codebound_networks.train.runs import TrainResult

# settings of a training whose option has another name
_OTHER_NAMES = {"learning_rate": "lr", "label_shuffle": "shuffle_labels", "keep_every": "keep_epochs"}
TRAIN_OPTIONS = {each.name: _OTHER_NAMES.get(each.name, each.name) for each in fields(TrainConfig)}
"""The option of every setting of a training."""


def train_from_options(
    options: Mapping[str, Any], *, out: Path | None = None, listener: Listener = NOBODY
) -> dict[str, Any]:
    """Trains a network and counts its errors; an interrupted training in the same folder goes on.

    The default folder is one in ``runs`` that is named by what determines the run.
    """
    arch, data, schedule = options["arch"], options["data"], options["schedule"]
    changes = {name: options[each] for name, each in TRAIN_OPTIONS.items() if options.get(each) is not None}
    if schedule is not None:
        changes["schedule"] = parse_schedule(schedule)
    start = TrainConfig() if options["preset"] is None else preset(options["preset"])
    config, place = replace(start, **changes), resolve_device(options["device"])
    sample, test_set = load_samples(options)
    model = load_network(arch, sample, options["weights"], seed=config.seed)
    run = run_record(model, sample, config, test_set=test_set)
    if out is None:
        out = Path("runs") / f"{_slug(arch)}-{_slug(data)}-{content_key(run)[:10]}"
    runs.require_same(out, run)
    for warning in remarks(sample):
        listener.note(f"Warning: {warning}.")
    listener.note(_start_line(arch, sample, config, place=str(place), done=runs.epochs_on_disk(out)))
    listener.note(f"Run folder {out}; if interrupted, the same command goes on from the last checkpoint.")
    with listener.bar("training") as progress:
        result = fit(model, sample, config, test_set=test_set, device=place, out=out, progress=progress)
    record = {
        "model": arch,
        "data": data,
        **result.record(),
        "starts_fresh": origin_of(model) == Origin(),
        "weights": str(out / runs.WEIGHTS),
        "out": str(out),
        "sentence": _sentence(arch, result, test_name="held-out" if options["test"] is None else "test"),
    }
    write_json(out / runs.RESULT, record)
    return record


def _slug(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", Path(text).name).strip("-")[:40]


def _start_line(arch: str, sample: Sample, config: TrainConfig, *, place: str, done: int) -> str:
    task = f"{arch} on {sample.name}, {sample.n} examples, {count_of(config.epochs, 'epoch')}, {place}"
    if done == 0:
        return f"Training {task}."
    if done < config.epochs:
        return f"Training {task}: continuing after epoch {done}."
    return f"Training {task}: finished before, reading its result."


def _sentence(arch: str, result: TrainResult, *, test_name: str) -> str:
    train_part = f"{result.train_errors} of {result.n} training examples ({rate(result.train_error)})"
    test_part = ""
    if result.test_errors is not None and result.test_error is not None:
        test_part = (
            f" and {result.test_errors} of {result.test_n} {test_name} examples ({rate(result.test_error)})"
        )
    return f"After {count_of(result.epochs, 'epoch')}, {arch} is wrong on {train_part}{test_part}."
