"""``codebound train``: from an architecture and a sample to weights, in a folder that can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.console import REFUTED, Format, emit, listener, note
from codebound.cli.options import RUN, option
from codebound.report.templates import Table, tabulate
from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_START = "Where to start"
_SETTINGS = "Settings"
_BITS = "Straight to few bits"


def command(
    data: opt.Data,
    arch: Annotated[
        str | None,
        typer.Argument(
            help="Zoo name such as mlp:depth=5,width=784, or package.module:factory; may be left out with "
            "--for-certificate.",
            show_default=False,
        ),
    ] = None,
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
    nesterov: Annotated[
        bool | None, option("Nesterov's form of SGD's momentum.", _SETTINGS, "--nesterov/--no-nesterov")
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
    for_certificate: Annotated[
        bool,
        option(
            "Train straight to few bits, and certify: the weights are those of the certified network.",
            _BITS,
            "--for-certificate",
        ),
    ] = False,
    effort: Annotated[str | None, option("standard (minutes) or max (default: standard).", _BITS)] = None,
    delta: Annotated[
        float | None, option("Failure probability of the certificate (default: 0.05).", _BITS)
    ] = None,
    base: opt.Base = None,
    base_says: opt.BaseSays = None,
    device: opt.Device = "auto",
    out: Annotated[
        Path | None,
        option(
            "Run folder; the same command goes on where it was killed (default: runs/ARCH-DATA-HASH). "
            "With --for-certificate it must be new (default: runs/train-NUMBER).",
            RUN,
        ),
    ] = None,
    checkpoint_every: Annotated[int | None, option("Epochs between checkpoints (default: 1).", RUN)] = None,
    keep_epochs: Annotated[
        int | None,
        option("Keep the weights of every so many epochs, for compare --over (default: only the last).", RUN),
    ] = None,
    eval_every: Annotated[
        int | None, option("Epochs between full error counts (default: only at the end).", RUN)
    ] = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Train a classifier and count its errors.

    Example: codebound train mlp --data digits --holdout 0.2
    """
    options = dict(locals())
    if for_certificate:
        from codebound_networks.cli.actions import TRAIN_OPTIONS, few_bits_from_options

        chosen = {"weights", "preset", *TRAIN_OPTIONS.values()} - {"seed"}
        _refuse(options, chosen, "--for-certificate chooses that; --effort says how long it may take")
        record = few_bits_from_options(options, out=out, listener=listener(quiet=quiet))
        _print_few_bits(record, output, quiet=quiet)
        return
    _refuse(options, {"effort", "delta", "base", "base_says"}, "it belongs to --for-certificate")
    if arch is None:
        raise UsageError("give an architecture, such as mlp; only --for-certificate chooses one by itself.")
    from codebound_networks.cli.actions import train_from_options

    record = train_from_options(options, out=out, listener=listener(quiet=quiet))
    emit(record, output, [_errors(record), f"{record['sentence']}\nWeights: {record['weights']}"])
    if not quiet:
        for sentence in record["notes"]:
            note(sentence)


def _refuse(given: Mapping[str, object], names: Iterable[str], why: str) -> None:
    found = [f"--{name.replace('_', '-')}" for name in given if name in names and given[name] is not None]
    if found:
        raise UsageError(f"{', '.join(found)} cannot be given here: {why}.")


def _errors(record: Mapping[str, Any]) -> Table:
    from codebound.bounds.risk import rate

    rows = [
        (name, record[size], record[f"{name}_errors"], rate(record[f"{name}_error"]))
        for name, size in (("train", "n"), ("test", "test_n"))
        if record[size] is not None
    ]
    return tabulate(("sample", "examples", "errors", "error"), rows)


def _print_few_bits(record: Mapping[str, Any], output: Format, *, quiet: bool) -> None:
    from codebound.bounds.risk import percent

    bound, bits, alarm = percent(record["bound"]), record["code_bits"], record.get("alarm")
    shown: list[Table | str] = [
        _errors(record),
        record["sentence"],
        f"Certified error: {bound}, {bits} bits by {record['method']}.",
    ]
    if alarm:
        shown.append(alarm)
    shown += [f"DECLARED, not checked: {name}: {said}" for name, said in record["declared"].items()]
    emit(record, output, [*shown, f"Weights: {record['weights']}", f"Check it: {record['verify']}"])
    if not quiet:
        for sentence in record["notes"]:
            note(sentence)
    if alarm:
        raise typer.Exit(REFUTED)
