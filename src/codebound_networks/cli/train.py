"""``codebound train``: from an architecture and a sample to weights, in a folder that can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, listener, note
from codebound.cli.options import RUN, option
from codebound.report.templates import Table, tabulate

if TYPE_CHECKING:
    from collections.abc import Mapping


_START = "Where to start"
_SETTINGS = "Settings"


def command(
    arch: Annotated[
        str, typer.Argument(help="Zoo name such as mlp:depth=5,width=784, or package.module:factory.")
    ],
    data: opt.Data,
    data_folder: opt.DataFolder = None,
    test: opt.Test = None,
    holdout: opt.Holdout = None,
    weights: Annotated[
        Path | None, option("Weights to start from (default: random).", _START, "--network")
    ] = None,
    preset: Annotated[
        str | None,
        option(
            "A paper's settings: arora18, guha23, guha23-cifar10, guha23-released; flags go on top.", _START
        ),
    ] = None,
    optimizer: Annotated[str | None, option("adam or sgd (default: adam).", _SETTINGS)] = None,
    lr: Annotated[float | None, option("Learning rate (default: 0.001).", _SETTINGS)] = None,
    momentum: Annotated[
        float | None, option("Momentum of SGD, beta1 of Adam (default: 0.9).", _SETTINGS)
    ] = None,
    weight_decay: Annotated[float | None, option("L2 penalty (default: 0).", _SETTINGS)] = None,
    schedule: Annotated[
        str | None,
        option("constant, step:every=30,multiply=0.5 or cosine:warmup=5 (default: constant).", _SETTINGS),
    ] = None,
    epochs: Annotated[int | None, option("Passes over the sample (default: 20).", _SETTINGS)] = None,
    batch_size: Annotated[int | None, option("Examples a step (default: 128).", _SETTINGS)] = None,
    shuffle_labels: Annotated[
        float | None, option("Fraction of the training labels to redraw at random.", _SETTINGS)
    ] = None,
    augment: Annotated[
        str | None, option("none, crop or flip-crop of images (default: none).", _SETTINGS)
    ] = None,
    seed: Annotated[int | None, option("Seed of everything random (default: 0).", _SETTINGS)] = None,
    device: opt.Device = "auto",
    out: Annotated[
        Path | None,
        option(
            "Run folder; the same command goes on where it was killed (default: runs/ARCH-DATA-HASH).",
            RUN,
        ),
    ] = None,
    checkpoint_every: Annotated[int | None, option("Epochs between checkpoints (default: 1).", RUN)] = None,
    keep_epochs: Annotated[
        int | None,
        option("Keep the weights of every so many epochs, for compare --over (default: only the last).", RUN),
    ] = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Train a classifier and count its errors.

    Example: codebound train mlp --data digits --holdout 0.2
    """
    options = dict(locals())
    from codebound_networks.cli.actions import train_from_options

    record = train_from_options(options, out=out, listener=listener(quiet=quiet))
    emit(record, output, [_errors(record), f"{record['sentence']}\nWeights: {record['weights']}"])
    if not quiet:
        for sentence in record["notes"]:
            note(sentence)


def _errors(record: Mapping[str, Any]) -> Table:
    from codebound.bounds.risk import rate

    rows = [
        (name, record[size], record[f"{name}_errors"], rate(record[f"{name}_error"]))
        for name, size in (("train", "n"), ("test", "test_n"))
        if record[size] is not None
    ]
    return tabulate(("sample", "examples", "errors", "error"), rows)
