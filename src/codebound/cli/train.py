"""``codebound train``: from an architecture and a sample to weights, in a folder that can be resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.console import REFUTED, Format, emit, listener, note
from codebound.cli.options import RUN, option
from codebound.errors import UsageError
from codebound.progress import progress_bar
from codebound.report.tables import Table, tabulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codebound.data.dataset import Dataset

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
    weights: Annotated[Path | None, option("Weights to start from (default: random).", _START)] = None,
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
        bool | None,
        option("Nesterov's form of SGD's momentum.", _SETTINGS, "--nesterov/--no-nesterov"),
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
        from codebound.commands import TRAIN_OPTIONS

        chosen = {"weights", "preset", *TRAIN_OPTIONS.values()} - {"seed"}
        _refuse(options, chosen, "--for-certificate chooses that; --effort says how long it may take")
        _train_to_few_bits(options, out=out, output=output, quiet=quiet)
        return
    _refuse(options, {"effort", "delta", "base", "base_says"}, "it belongs to --for-certificate")
    if arch is None:
        raise UsageError("give an architecture, such as mlp; only --for-certificate chooses one by itself.")
    from codebound.commands import train_from_options

    record = train_from_options(options, out=out, listener=listener(quiet=quiet))
    emit(record, output, [_errors(record), f"{record['sentence']}\nWeights: {record['weights']}"])


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


def _train_to_few_bits(options: Mapping[str, Any], *, out: Path | None, output: Format, quiet: bool) -> None:
    """Trains, certifies, and writes what ``train`` writes, with the certificate beside it.

    With an architecture its weights are a few integers in a random subspace, around the base if there is one.
    Without, the network is a small one for the shape of the inputs.
    """
    from codebound.bounds.risk import percent
    from codebound.certification import certify
    from codebound.commands import given_base, load_network, load_samples, new_folder, record_options, saved
    from codebound.device import resolve_device
    from codebound.files import write_json
    from codebound.nets.loading import factory_of
    from codebound.train import runs

    given = record_options(options)
    sample, test_set = load_samples(options)
    arch, data, base = given["arch"], given["data"], given["base"]
    if base is not None and arch is None:
        raise UsageError("--base needs the architecture of the base: give it as the argument ARCH.")
    place = resolve_device(given["device"])
    # without an architecture any network with the shapes of the data: for images the method has its own
    model = arch or ("linear" if len(sample.input_shape) == 3 else "mlp")
    network = load_network(model, sample)
    pretrained = given_base(options, network, sample)
    method = _method(sample, device=place.type, has_architecture=arch is not None, has_base=base is not None)
    settings = {
        **{name: given[name] for name in ("for_certificate", "data", "test", "holdout", "base", "base_says")},
        "model": arch or f"the network of the method {method}",
        "method": method,
        "effort": given["effort"] or "standard",
        "delta": 0.05 if given["delta"] is None else given["delta"],
        "seed": given["seed"] or 0,
        "device": str(place),
    }
    with new_folder(out, "train") as folder:
        if not quiet:
            note(f"Training to few bits by {method} on {sample.n} examples of {data}, {place}.")
        with progress_bar("training", quiet=quiet) as progress:
            found = certify(
                network,
                sample,
                test_set=test_set,
                base=pretrained,
                factory=factory_of(model),
                progress=progress,
                **{name: settings[name] for name in ("method", "effort", "delta", "seed", "device")},
            )
        kept = saved(
            replace(found, original_errors=None),
            folder,
            settings=settings,
            data="" if given["holdout"] is not None else data,
            data_folder=options["data_folder"],
            weights=runs.WEIGHTS,
        )
    test = None if found.confrontation is None else found.confrontation.test
    record = {
        "model": arch,
        "data": data,
        **kept.result,
        "train_error": found.certificate.facts.errors / sample.n,
        "test_errors": None if test is None else test.errors,
        "test_n": None if test is None else test.n,
        "test_error": None if test is None else test.errors / test.n,
        "seed": settings["seed"],
        "device": str(place),
        "weights": str(folder / runs.WEIGHTS),
        "out": str(folder),
        "sentence": kept.sentence,
    }
    write_json(folder / runs.RESULT, record)
    bound, bits = percent(record["bound"]), record["code_bits"]
    shown: list[Table | str] = [
        _errors(record),
        kept.sentence,
        f"Certified error: {bound}, {bits} bits by {record['method']}.",
    ]
    if found.alarm:
        shown.append(found.alarm)
    if "base_declared" in record:
        shown.append(f"DECLARED, not checked: {record['base_declared']}")
    emit(record, output, [*shown, f"Weights: {record['weights']}", f"Check it: {record['verify']}"])
    if not quiet:
        for sentence in record["notes"]:
            note(sentence)
    if found.alarm:
        raise typer.Exit(REFUTED)


def _method(sample: Dataset, *, device: str, has_architecture: bool, has_base: bool) -> str:
    """The method that makes the most of a network of this kind on this device."""
    from codebound.chains.few_bits import DICTIONARY_SIDE

    if has_base:
        return "subspace"
    if has_architecture:
        return "subspace-f"
    shape = sample.input_shape
    has_filters = len(shape) == 3 and min(shape[1:]) >= DICTIONARY_SIDE
    return "features" if has_filters and device == "cpu" else "subspace"
