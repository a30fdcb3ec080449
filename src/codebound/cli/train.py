"""``codebound train``: from an architecture and a sample to weights, in a folder that can be resumed."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli.console import Format, note, print_csv, print_json, print_table, progress_bar
from codebound.cli.loading import load_samples
from codebound.cli.options import BASE_HELP, BASE_SAYS_HELP
from codebound.cli.train_to_few_bits import train_to_few_bits
from codebound.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codebound.data.dataset import Dataset
    from codebound.train.config import TrainConfig
    from codebound.train.result import TrainResult

_START = "Where to start"
_SETTINGS = "Settings"
_RUN = "The run"
_BITS = "Straight to few bits"


def train(
    data: Annotated[str, typer.Option(help="Name, .npz file, image folder, or package.module:factory.")],
    arch: Annotated[
        str | None,
        typer.Argument(
            help="Zoo name such as mlp:depth=5,width=784, or package.module:factory; may be left out with "
            "--for-certificate.",
            show_default=False,
        ),
    ] = None,
    data_folder: Annotated[Path | None, typer.Option(help="Folder that holds the named dataset.")] = None,
    test: Annotated[
        str | None, typer.Option(help="Test sample, written like --data; a known name gives its test split.")
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(help="Keep this fraction of --data for testing; the same for every --seed."),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Weights to start from (default: random).", rich_help_panel=_START)
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="A paper's settings: arora18, guha23, guha23-cifar10, guha23-released; flags go on top.",
            rich_help_panel=_START,
        ),
    ] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="adam or sgd (default: adam).", rich_help_panel=_SETTINGS)
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate (default: 0.001).", rich_help_panel=_SETTINGS)
    ] = None,
    momentum: Annotated[
        float | None,
        typer.Option(help="Momentum of SGD, beta1 of Adam (default: 0.9).", rich_help_panel=_SETTINGS),
    ] = None,
    nesterov: Annotated[
        bool | None,
        typer.Option(
            "--nesterov/--no-nesterov", help="Nesterov's form of SGD's momentum.", rich_help_panel=_SETTINGS
        ),
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="L2 penalty (default: 0).", rich_help_panel=_SETTINGS)
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="constant, step:every=30,multiply=0.5 or cosine:warmup=5 (default: constant).",
            rich_help_panel=_SETTINGS,
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the sample (default: 20).", rich_help_panel=_SETTINGS)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Examples a step (default: 128).", rich_help_panel=_SETTINGS)
    ] = None,
    shuffle_labels: Annotated[
        float | None,
        typer.Option(help="Fraction of the training labels to redraw at random.", rich_help_panel=_SETTINGS),
    ] = None,
    augment: Annotated[
        str | None,
        typer.Option(help="none, crop or flip-crop of images (default: none).", rich_help_panel=_SETTINGS),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of weights, batches, dropout and labels (default: 0).", rich_help_panel=_SETTINGS
        ),
    ] = None,
    for_certificate: Annotated[
        bool,
        typer.Option(
            "--for-certificate",
            help="Train straight to few bits, and certify: the weights are those of the certified network.",
            rich_help_panel=_BITS,
        ),
    ] = False,
    effort: Annotated[
        str | None,
        typer.Option(help="standard (minutes) or max (default: standard).", rich_help_panel=_BITS),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Failure probability of the certificate (default: 0.05).", rich_help_panel=_BITS),
    ] = None,
    base: Annotated[Path | None, typer.Option(help=BASE_HELP, rich_help_panel=_BITS)] = None,
    base_says: Annotated[str | None, typer.Option(help=BASE_SAYS_HELP, rich_help_panel=_BITS)] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.", rich_help_panel=_RUN)] = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Run folder; the same command goes on where it was killed (default: runs/ARCH-DATA-HASH). "
            "With --for-certificate it must be new (default: runs/train-NUMBER).",
            rich_help_panel=_RUN,
        ),
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Epochs between checkpoints (default: 1).", rich_help_panel=_RUN)
    ] = None,
    keep_epochs: Annotated[
        int | None,
        typer.Option(
            help="Keep the weights of every so many epochs, for compare --over (default: only the last).",
            rich_help_panel=_RUN,
        ),
    ] = None,
    eval_every: Annotated[
        int | None,
        typer.Option(
            help="Epochs between full error counts (default: only at the end).", rich_help_panel=_RUN
        ),
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="How to print the result.", rich_help_panel=_RUN)
    ] = Format.table,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Nothing but the result.", rich_help_panel=_RUN)
    ] = False,
) -> None:
    """Train a classifier and count its errors.

    Example: codebound train mlp --data digits --holdout 0.2
    """
    if for_certificate:
        chosen = {
            "weights": weights,
            "preset": preset,
            "optimizer": optimizer,
            "lr": lr,
            "momentum": momentum,
            "nesterov": nesterov,
            "weight-decay": weight_decay,
            "schedule": schedule,
            "epochs": epochs,
            "batch-size": batch_size,
            "shuffle-labels": shuffle_labels,
            "augment": augment,
            "checkpoint-every": checkpoint_every,
            "keep-epochs": keep_epochs,
            "eval-every": eval_every,
        }
        _refuse(chosen, "--for-certificate chooses that; --effort says how long it may take")
        train_to_few_bits(
            arch,
            data,
            samples=load_samples(data, data_folder, test=test, holdout=holdout),
            is_part=holdout is not None,
            data_folder=data_folder,
            base=base,
            base_says=base_says,
            effort=effort or "standard",
            delta=0.05 if delta is None else delta,
            seed=seed or 0,
            device=device,
            out=out,
            output=output,
            quiet=quiet,
        )
        return
    _refuse(
        {"effort": effort, "delta": delta, "base": base, "base-says": base_says},
        "it belongs to --for-certificate",
    )
    if arch is None:
        raise UsageError("give an architecture, such as mlp; only --for-certificate chooses one by itself.")
    from codebound.device import resolve_device
    from codebound.nets.loading import load_model
    from codebound.train import runs
    from codebound.train.config import TrainConfig
    from codebound.train.config import preset as named_preset
    from codebound.train.harness import fit, run_record
    from codebound.train.schedules import parse_schedule

    given = {
        "optimizer": optimizer,
        "learning_rate": lr,
        "momentum": momentum,
        "nesterov": nesterov,
        "weight_decay": weight_decay,
        "schedule": None if schedule is None else parse_schedule(schedule),
        "epochs": epochs,
        "batch_size": batch_size,
        "label_shuffle": shuffle_labels,
        "augment": augment,
        "seed": seed,
        "checkpoint_every": checkpoint_every,
        "keep_every": keep_epochs,
        "eval_every": eval_every,
    }
    settings = TrainConfig() if preset is None else named_preset(preset)
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    config = replace(settings, **changes)
    place = resolve_device(device)
    train_set, test_set = load_samples(data, data_folder, test=test, holdout=holdout)
    model = load_model(
        arch, input_shape=train_set.input_shape, classes=train_set.classes, weights=weights, seed=config.seed
    )
    if out is None:
        run = json.dumps(run_record(model, train_set, config, test_set=test_set), sort_keys=True)
        out = Path("runs") / f"{_slug(arch)}-{_slug(data)}-{hashlib.sha256(run.encode()).hexdigest()[:10]}"
    if not quiet:
        for warning in train_set.warnings:
            note(f"Warning: {warning}")
        note(_start_line(arch, train_set, config, place=str(place), done=runs.epochs_on_disk(out)))
        note(f"Run folder {out}; if interrupted, the same command goes on from the last checkpoint.")
    with progress_bar("training", quiet=quiet) as progress:
        result = fit(model, train_set, config, test_set=test_set, device=place, out=out, progress=progress)
    record = {
        "model": arch,
        "data": data,
        **result.record(),
        "weights": str(out / runs.WEIGHTS),
        "out": str(out),
        "sentence": _sentence(arch, result, test_name="held-out" if test is None else "test"),
    }
    runs.update_result(out, record)
    _show(record, result, output)


def _refuse(options: Mapping[str, object], why: str) -> None:
    found = [f"--{name}" for name, value in options.items() if value is not None]
    if found:
        raise UsageError(f"{', '.join(found)} cannot be given here: {why}.")


def _slug(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", Path(text).name).strip("-")[:40]


def _start_line(arch: str, sample: Dataset, config: TrainConfig, *, place: str, done: int) -> str:
    task = f"{arch} on {sample.name}, {sample.n} examples, {_epochs(config.epochs)}, {place}"
    if done == 0:
        return f"Training {task}."
    if done < config.epochs:
        return f"Training {task}: continuing after epoch {done}."
    return f"Training {task}: finished before, reading its result."


def _epochs(count: int) -> str:
    return "1 epoch" if count == 1 else f"{count} epochs"


def _sentence(arch: str, result: TrainResult, *, test_name: str) -> str:
    train_part = f"{result.train_errors} of {result.n} training examples ({result.train_error:.2%})"
    test_part = ""
    if result.test_errors is not None and result.test_error is not None:
        test_part = (
            f" and {result.test_errors} of {result.test_n} {test_name} examples ({result.test_error:.2%})"
        )
    return f"After {_epochs(result.epochs)}, {arch} is wrong on {train_part}{test_part}."


def _show(record: dict[str, object], result: TrainResult, output: Format) -> None:
    if output is Format.json:
        print_json(record)
        return
    if output is Format.csv:
        print_csv([{key: value for key, value in record.items() if not isinstance(value, dict)}])
        return
    rows = [
        {
            "sample": "train",
            "examples": result.n,
            "errors": result.train_errors,
            "error": f"{result.train_error:.2%}",
        }
    ]
    if result.test_n is not None and result.test_errors is not None:
        error = f"{result.test_error:.2%}"
        rows.append(
            {"sample": "test", "examples": result.test_n, "errors": result.test_errors, "error": error}
        )
    print_table(rows)
    typer.echo(f"{record['sentence']}\nWeights: {record['weights']}")
