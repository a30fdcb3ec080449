"""``codebound compress``: a smaller network, what it cost, and the message that says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, cell, emit, note, print_table, progress_bar
from codebound.cli.loading import load_layers, load_samples, model_sizes, new_folder
from codebound.cli.options import option, record_options
from codebound.errors import UsageError
from codebound.files import write_json
from codebound.report.tables import Table, tabulate
from codebound_papers.cli import options as own
from codebound_papers.compress.catalogue import COMPRESSORS

if TYPE_CHECKING:
    from codebound_papers.compress.compressors import CompressedNetwork, LocalNetwork
    from codebound_papers.compress.summary import CompressionSummary

_METHODS = f"{', '.join(COMPRESSORS)}; see --list."
_COLUMNS = (
    *("layer", "shape", "kept", "dense bytes", "sparse bytes", "coded bits"),
    *("spectral error", "predicted"),
)
_READ = (
    "one message per tensor, each filled up with zeros to whole bytes: "
    "codebound.coding.modes.decode_tensors(Bits(its bytes, bits), [shape])"
)


def _show_methods(value: bool) -> None:
    if value:
        from codebound_papers.compress.methods import default_options, option_text

        rows = []
        for name, entry in COMPRESSORS.items():
            defaults = (f"{key}={option_text(value)}" for key, value in default_options(name).items())
            rows.append((name, entry.sentence, " ".join(defaults)))
        print_table(tabulate(("method", "what it does", "options (--set)"), rows))
        raise typer.Exit


def command(
    model: opt.Model,
    method: Annotated[str, option(_METHODS)],
    weights: opt.Weights = None,
    options: Annotated[
        list[str] | None,
        option("An option of the method, such as --set density=0.2; may be repeated.", None, "--set"),
    ] = None,
    layers: Annotated[
        str | None, option("Names of layers to compress, joined by commas (default: all).")
    ] = None,
    data: Annotated[
        str | None,
        option(
            "Sample: name, .npz file, image folder, or package.module:factory. Measures accuracy and "
            "deviation; lottery and imp train on it."
        ),
    ] = None,
    data_folder: opt.DataFolder = None,
    test: Annotated[
        str | None, option("Sample to measure on instead of --data; a known name gives its tests.")
    ] = None,
    holdout: opt.Holdout = None,
    examples: Annotated[
        int | None, typer.Option(min=1, help="Measure on the first examples only (default: all).")
    ] = None,
    input_shape: own.InputShape = None,
    classes: own.Classes = None,
    seed: own.NaturalSeed = 0,
    out: opt.NewFolder = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
    list_methods: Annotated[
        bool,
        typer.Option(
            "--list", callback=_show_methods, is_eager=True, help="Print the methods and their options."
        ),
    ] = False,
) -> None:
    """Compress a network and say what became of every layer.

    Files get smaller; nothing here runs faster, and no speed-up is claimed.

    Example: codebound compress --model mlp --weights runs/w/model.safetensors --method naive --data digits
    """
    settings = record_options(locals())
    from codebound.data.load import load_dataset
    from codebound_papers.compress.compressors import Job
    from codebound_papers.compress.methods import option_text, parse_options, run_method
    from codebound_papers.compress.summary import summarise

    chosen = parse_options(method, options or ())
    if data is None and COMPRESSORS[method].algorithm.trains:
        raise UsageError(f"{method} trains on a sample: give one, with --data.")
    sample = measured = None
    if data is not None:
        sample, fresh = load_samples(data, data_folder, test=test, holdout=holdout)
        measured = fresh or sample
    elif test is not None:
        measured = load_dataset(test, role="test", folder=data_folder)
    shape, outputs = model_sizes(model, input_shape, classes, measured)
    network = load_layers(model, shape, outputs, weights)
    if measured is not None and examples is not None:
        measured = measured.select(range(min(examples, measured.n)), role=measured.role)
    with new_folder(out, "compress") as folder, progress_bar(method, quiet=quiet) as progress:
        compressed = run_method(
            method,
            chosen,
            Job(
                network=network,
                input_shape=shape,
                sample=None if sample is None else sample.on("cpu"),
                layers=None if layers is None else tuple(layers.split(",")),
                seed=seed,
                progress=progress,
            ),
        )
        summary = summarise(compressed, None if measured is None else measured.on("cpu"), progress=progress)
    texts = {name: option_text(value) for name, value in chosen.items()}
    record = {"method": method, "options": texts, **summary.record(), "out": str(folder)}
    _save(folder, compressed, summary)
    settings |= {"options": texts, "input_shape": list(shape), "classes": outputs}
    for name, content in (("config", settings), ("result", record)):
        write_json(folder / f"{name}.json", content)
    tensors = (*record["layers"], *record["carried"])
    rows = [each | {"shape": "x".join(map(str, each["shape"]))} for each in tensors]
    emit(record, output, _tables(summary), rows=rows)
    if output is Format.table and not quiet:
        _explain(summary, record)


def _save(folder: Path, compressed: CompressedNetwork | LocalNetwork, summary: CompressionSummary) -> None:
    """Writes the decoded weights, and the message with what its reader has to know."""
    from codebound.files import write_atomically
    from codebound.tensors import save_weights

    state = compressed.module().state_dict()
    save_weights(
        folder / "compressed.safetensors", {name: state[name].contiguous() for name in summary.codes}
    )
    write_atomically(folder / "message.bin", b"".join(each.data for each in summary.messages.values()))
    about: dict[str, Any] = {
        "read_with": _READ,
        "tensors": [
            {"name": name, "shape": list(code.shape), "bits": summary.messages[name].length}
            for name, code in summary.codes.items()
        ],
    }
    if compressed.chain is not None:
        about["architecture"] = compressed.chain.described()
    write_json(folder / "message.json", about)


def _tables(summary: CompressionSummary) -> Iterator[Table]:
    yield _layers(summary)
    rows = {"all tensors": _ratio(summary)}
    if summary.accuracy_before is not None and summary.accuracy_after is not None:
        rows["accuracy"] = f"{summary.accuracy_before:.2%} before, {summary.accuracy_after:.2%} after"
    if (moved := summary.deviation) is not None:
        rows["deviation of the outputs"] = f"{moved.largest:.4g} at most, {moved.mean:.4g} on average"
        rows["bounded by the recursion"] = str(cell(moved.recursion))
        rows["and by the e-form"] = str(cell(moved.e_form))
    yield tabulate(("what", "value"), rows.items())


def _explain(summary: CompressionSummary, record: dict[str, Any]) -> None:
    """What the result means, on stderr."""
    if summary.deviation is not None and summary.deviation.reason:
        note(f"A bound is missing: {summary.deviation.reason}")
    for sentence in dict.fromkeys(layer.predicted_by for layer in summary.layers if layer.predicted_by):
        note(f"About the predicted error: {sentence}.")
    note(f"Sparse bytes are those of {record['sparse_format']}; no layer is stored that way here.")
    note(f"Written to {record['out']}: compressed.safetensors (dense), message.bin and message.json (code).")
    if not summary.layers:
        note("No layer was compressed; the table says why.")
    elif record["method"] == "conv":
        note("compressed.safetensors has filters for every location, so it is larger than the original.")
    is_smaller = record["coded_bytes"] < record["dense_bytes"]
    note(
        f"The message is {'what got smaller' if is_smaller else 'no smaller than the original'}. "
        "Nothing runs faster: no speed-up is claimed."
    )


def _ratio(summary: CompressionSummary) -> str:
    coded = summary.coded_bytes
    return (
        f"{summary.dense_bytes:,} bytes as they were, {coded:,} bytes ({summary.coded_bits:,} bits) in the "
        f"message: a ratio of {summary.dense_bytes / coded:.1f}"
    )


def _layers(summary: CompressionSummary) -> Table:
    """The compressed layers, and the carried tensors by reason."""
    rows: list[tuple[object, ...]] = [
        (
            layer.name or "(the network)",
            "x".join(map(str, layer.shape)),
            f"{layer.kept:.2%}",
            layer.dense_bytes,
            layer.sparse_bytes,
            layer.coded_bits,
            cell(layer.spectral_error_measured),
            cell(layer.spectral_error_predicted),
        )
        for layer in summary.layers
    ]
    for reason, count in Counter(tensor.reason for tensor in summary.carried).items():
        tensors = [tensor for tensor in summary.carried if tensor.reason == reason]
        name = tensors[0].name if count == 1 else f"{count} tensors"
        shape = "x".join(map(str, tensors[0].shape)) if count == 1 else ""
        dense, bits = sum(each.dense_bytes for each in tensors), sum(each.coded_bits for each in tensors)
        rows.append((f"{name}: {reason}", shape, "all", dense, "-", bits, "-", "-"))
    return tabulate(_COLUMNS, rows)
