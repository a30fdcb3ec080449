"""``codebound data``: list, fetch, inspect, save and encode datasets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, emit_rows, listener, note
from codebound.cli.options import option
from codebound.report.templates import Table, tabulate
from codebound.run.progress import progress_bar

if TYPE_CHECKING:
    from codebound.sample.dataset import Sample, Scaling

app = typer.Typer(
    help="List, fetch, inspect and encode datasets.", no_args_is_help=True, add_completion=False
)

_Spec = Annotated[
    str, typer.Argument(help="A name, an .npz file, table.csv:LABELS, a folder, or package.module:factory.")
]


_Folder = Annotated[
    Path | None, option("Where to look before the cache: torchvision's root, or the files themselves.")
]


@app.command("list")
def list_datasets(folder: _Folder = None, output: opt.Output = Format.table) -> None:
    """Show every dataset known by name and where it was found."""
    from codebound.sample.formats.catalogue import KNOWN, locate_all

    rows: list[dict[str, object]] = []
    for name, found in locate_all(folder).items():
        known = KNOWN[name]
        advice = "" if found else f"codebound data get {name}"
        facts = {"train": known.sizes["train"], "test": known.sizes.get("test", 0)}
        where = {"where": found or f"not here: {advice}"}
        where = where if output is Format.table else {"found": found, "remedy": advice}
        shape = {"input": _shape(known.input_shape), "classes": known.classes}
        rows.append({"name": name, **facts, **shape, **where})
    emit_rows(rows, output)
    if output is Format.table:
        note(
            "Also taken: an .npz file (x, y), table.csv:LABELS, a folder of images by class, module:factory."
        )


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="A name from `codebound data list`.")], quiet: opt.Quiet = False
) -> None:
    """Fetch a dataset, check it, and print its folder."""
    from codebound.sample.formats.catalogue import KNOWN
    from codebound.sample.formats.download import fetch

    known = KNOWN.get(name.lower())
    if known is not None and known.layout == "embedded":
        note(f"{name}: embedded in scikit-learn, nothing to do.")
        return
    with progress_bar(name, quiet=quiet) as progress:
        fetched = fetch(name, progress=progress)
    if not quiet:
        for failure in fetched.failures:
            note(f"did not work: {failure}")
        done = f"fetched from {fetched.route}" if fetched.route else "already here, nothing to do"
        note(f"{name}: {done} (all checksums verified).")
    typer.echo(fetched.folder)


@app.command()
def show(
    spec: _Spec,
    role: opt.Role = opt.SplitRole.train,
    folder: _Folder = None,
    output: opt.Output = Format.table,
) -> None:
    """Describe a sample: size, classes, values, scaling, content hash, warnings, copies across splits."""
    from codebound.sample.description import describe_sample

    found = describe_sample(spec, role=role.value, folder=folder)
    if found.not_compared:
        note(found.not_compared)
    record = found.record()
    emit(record, output, [_describe(found.sample, record)])
    if output is Format.table:
        for warning in record["warnings"]:
            note(f"Warning: {warning}.")


@app.command()
def save(
    spec: _Spec,
    out: opt.NewTable,
    role: opt.Role = opt.SplitRole.train,
    holdout: opt.Holdout = None,
    folder: _Folder = None,
) -> None:
    """Write a sample as .npz for codebound-verify, and print its hash.

    With --holdout it is the part that `codebound certify` counts on with the same --holdout.
    """
    from codebound.sample.description import save_sample
    from codebound.sample.load import load_sample, split

    sample = load_sample(spec, role=role.value, folder=folder)
    if holdout is not None:
        sample = split(sample, {"train": 1.0 - holdout, "test": holdout})[role.value]
    save_sample(sample, out)
    typer.echo(sample.sha256)


@app.command()
def encode(
    spec: _Spec,
    encoder: Annotated[str, option("The function that makes the encoder: package.module:factory.")],
    out: opt.SomeTable = None,
    compare: Annotated[Path | None, option("A table (.npz) to compare with: says what differs.")] = None,
    role: opt.Role = opt.SplitRole.train,
    folder: _Folder = None,
    device: opt.Device = "cpu",
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Turn a sample into the table of its encoded inputs.

    Example: codebound data encode cifar10 --encoder efficientnet:features --out table.npz
    """
    from codebound.known.encoder import describe_differences, load_encoder
    from codebound.run.device import resolve_device
    from codebound.sample.description import save_sample
    from codebound.sample.load import load_sample

    place = resolve_device(device)
    found = load_encoder(encoder, device=place)
    with listener(quiet=quiet).bar("encode") as progress:
        table = found.table(spec, role=role.value, folder=folder, device=place, progress=progress)
    record = {
        "encoder": found.name,
        "encoder_sha256": found.sha256,
        "licence": found.licence,
        "data": spec,
        "n": table.n,
        "columns": table.input_shape[0],
        "classes": table.classes,
        "sha256": table.sha256,
    }
    if compare is not None:
        record["differs"] = describe_differences(table, load_sample(str(compare)))
    if out is not None:
        save_sample(table, out)
        record["out"] = str(out)
    emit(record, output, [tabulate(("what", "value"), list(record.items()))])
    if output is Format.table and not quiet:
        made = table.features
        note("" if made is None else f"A certificate on this table declares: {made.by}, made of {made.of}.")


def _describe(dataset: Sample, record: dict[str, Any]) -> Table:
    from codebound.bounds.risk import rate

    counts, copies = record["class_counts"], record["test_duplicates"]
    shown = ", ".join(map(str, counts[:20])) + (", ..." if len(counts) > 20 else "")
    majority = max(counts) / dataset.n
    values = f"values from {dataset.x.min():g} to {dataset.x.max():g}"
    values = "cells: numbers, words and gaps" if dataset.is_cells else values
    rows = [
        ("examples", str(dataset.n), f"the sample size n, with the role {dataset.role}"),
        ("input", _shape(dataset.input_shape), "channels x height x width, or features"),
        ("stored as", dataset.x.dtype.name, values),
        ("network sees", *_scaling_in_words(dataset.scaling)),
        ("classes", str(dataset.classes), f"always guessing the largest class errs on {rate(1 - majority)}"),
        ("per class", shown, "examples of class 0, 1, ..."),
        ("sha256", dataset.sha256, "names these very bytes and labels; a certificate quotes it"),
        ("source", dataset.source, ""),
    ]
    if copies is not None:
        rows.append(("test copies", str(copies), "test inputs that also occur in the training split"))
    return tabulate(("what", "value", "meaning"), rows)


def _scaling_in_words(scaling: Scaling) -> tuple[str, str]:
    if scaling == type(scaling)():
        return "x", "the values as they are stored"
    steps = "x" if scaling.divisor == 1.0 else f"x / {scaling.divisor:g}"
    if any(scaling.mean) or any(std != 1.0 for std in scaling.std):
        steps = f"({steps} - mean) / std with mean {scaling.mean} and std {scaling.std}"
    return steps, "constants fixed in advance, not estimated from the sample"


def _shape(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))
