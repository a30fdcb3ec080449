"""``codebound compress``: a smaller network, what it cost, and the message that says it."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, cell, emit, listener, note, print_table
from codebound.cli.options import option
from codebound.report.templates import Table, tabulate
from codebound_papers.cli import options as own
from codebound_papers.compress.catalogue import COMPRESSORS, find_compressor

_METHODS = f"{', '.join(COMPRESSORS)}; see --list."
_SET = """An option of the method, such as --set density=0.2; may be repeated. Without any, and with --data,
those of the shortest message that costs at most 1 % of the accuracy."""
_LAYERS = "Names of layers to compress, joined by commas (default: all)."
_DATA = """Sample: name, .npz file, image folder, or package.module:factory. Measures accuracy and deviation;
lottery, imp and balanced train on it."""
_TEST = "Sample to measure on instead of --data; a known name gives its tests."
_LIST = "Print the methods and their options."
_EXAMPLES = "Measure on the first examples only (default: all)."
_COLUMNS = (
    *("layer", "shape", "kept", "dense bytes", "sparse bytes", "coded bits"),
    *("spectral error", "predicted"),
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
    options: Annotated[list[str] | None, option(_SET, None, "--set")] = None,
    layers: Annotated[str | None, option(_LAYERS)] = None,
    data: Annotated[str | None, option(_DATA)] = None,
    data_folder: opt.DataFolder = None,
    test: Annotated[str | None, option(_TEST)] = None,
    holdout: opt.Holdout = None,
    examples: Annotated[int | None, typer.Option(min=1, help=_EXAMPLES)] = None,
    input_shape: own.InputShape = None,
    classes: own.Classes = None,
    seed: own.NaturalSeed = 0,
    out: opt.NewFolder = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
    list_methods: Annotated[
        bool, typer.Option("--list", callback=_show_methods, is_eager=True, help=_LIST)
    ] = False,
) -> None:
    """Compress a network and say what became of every layer.

    Files get smaller; nothing here runs faster, and no speed-up is claimed.

    Example: codebound compress --model mlp --network runs/w/model.safetensors --method naive --data digits
    """
    values = dict(locals())
    find_compressor(method)
    from codebound_papers.compress.compression import compress_from_options

    record = compress_from_options(values, out=out, listener=listener(quiet=quiet))
    tensors = (*record["layers"], *record["carried"])
    rows = [each | {"shape": "x".join(map(str, each["shape"]))} for each in tensors]
    emit(record, output, _tables(record), rows=rows)
    if output is Format.table and not quiet:
        _explain(record)


def _tables(record: dict[str, Any]) -> Iterator[Table]:
    from codebound.bounds.risk import rate

    yield _layers(record)
    dense, coded = record["dense_bytes"], record["coded_bytes"]
    message = f"{coded:,} bytes ({record['coded_bits']:,} bits) in the message"
    rows = {"all tensors": f"{dense:,} bytes as they were, {message}: a ratio of {dense / coded:.1f}"}
    before, after = record["accuracy_before"], record["accuracy_after"]
    if before is not None and after is not None:
        rows["accuracy"] = f"{rate(before)} before, {rate(after)} after"
    if (moved := record["deviation"]) is not None:
        rows["deviation of the outputs"] = "unknown: outputs are NaN or infinite"
        if moved["largest"] is not None and moved["mean"] is not None:
            largest, mean = (f"{moved[name]:.4g}" for name in ("largest", "mean"))
            rows["deviation of the outputs"] = f"{largest} at most, {mean} on average"
        rows["bounded by the recursion"] = str(cell(moved["recursion"]))
        rows["and by the e-form"] = str(cell(moved["e_form"]))
    yield tabulate(("what", "value"), rows.items())


def _explain(record: dict[str, Any]) -> None:
    for sentence in record["notes"]:
        note(sentence)
    note("Options: " + " ".join(f"--set {name}={value}" for name, value in record["options"].items()))
    for sentence in dict.fromkeys(each["predicted_by"] for each in record["layers"] if each["predicted_by"]):
        note(f"About the predicted error: {sentence}.")
    note(f"Sparse bytes are those of {record['sparse_format']}; no layer is stored that way here.")
    note(f"Written to {record['out']}: compressed.safetensors (dense), message.bin and message.json (code).")
    if not record["layers"]:
        note("No layer was compressed; the table says why.")
    is_smaller = record["coded_bytes"] < record["dense_bytes"]
    note(
        f"The message is {'what got smaller' if is_smaller else 'no smaller than the original'}. "
        "Nothing runs faster: no speed-up is claimed."
    )
    from codebound_papers.compress.compression_summary import UNKNOWN_FAITH

    note((record["faithful"] or {"says": UNKNOWN_FAITH})["says"])


def _layers(record: dict[str, Any]) -> Table:
    """The compressed layers, and the carried tensors by reason."""
    from codebound.bounds.risk import rate

    rows: list[tuple[object, ...]] = []
    for layer in record["layers"]:
        shape = "x".join(map(str, layer["shape"]))
        sizes = (layer[name] for name in ("dense_bytes", "sparse_bytes", "coded_bits"))
        errors = (cell(layer[f"spectral_error_{how}"]) for how in ("measured", "predicted"))
        rows.append((layer["name"] or "(the network)", shape, rate(layer["kept"]), *sizes, *errors))
    for reason, count in Counter(tensor["reason"] for tensor in record["carried"]).items():
        tensors = [tensor for tensor in record["carried"] if tensor["reason"] == reason]
        name = tensors[0]["name"] if count == 1 else f"{count} tensors"
        shape = "x".join(map(str, tensors[0]["shape"])) if count == 1 else ""
        dense, bits = (sum(each[name] for each in tensors) for name in ("dense_bytes", "coded_bits"))
        rows.append((f"{name}: {reason}", shape, "all", dense, "-", bits, "-", "-"))
    return tabulate(_COLUMNS, rows)
