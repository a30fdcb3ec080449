"""``codebound certify``: a guarantee on the error of a network, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import REFUTED, Format, emit, listener, note, print_table
from codebound.cli.options import RUN, option, start_engine
from codebound.methods.registry import list_methods
from codebound.report.text_tables import Table, tabulate

if TYPE_CHECKING:
    from codebound.report.folder import Saved

_F = "Certificates for the original network, or with a learned helper"
_METHODS = f"auto for the best of all, or {', '.join(list_methods())}; see --list."


def _show_methods(value: bool) -> None:
    if value:
        rows = [(name, each.sentence) for name, each in list_methods().items()]
        print_table(tabulate(("method", "what it does"), rows))
        raise typer.Exit


def command(
    data: opt.Data,
    model: Annotated[
        str | None,
        option(
            "Zoo name such as mlp:depth=5,width=784, or package.module:factory; none: a network of its own."
        ),
    ] = None,
    weights: opt.Weights = None,
    data_folder: opt.DataFolder = None,
    test: opt.Test = None,
    holdout: opt.Holdout = None,
    encoder: opt.EncoderName = None,
    class_names: Annotated[
        str | None,
        option("With an encoder of texts: what the classes are called, with commas, in the order of labels."),
    ] = None,
    method: Annotated[str, option(_METHODS)] = "auto",
    minutes: Annotated[
        float | None, option("Stop searching after so long, with the best until then (default: when done).")
    ] = None,
    effort: Annotated[
        str, option("In place of --minutes, the same on every machine: quick (no training), standard or max.")
    ] = "standard",
    delta: opt.Delta = 0.05,
    loss: opt.LossName = "wrong",
    on: Annotated[
        str,
        option(
            "Examples that count: all, answered:T, predicted:C, 'each class', 'each group'; of clusters "
            "'one row a cluster' or 'any row of a cluster'."
        ),
    ] = "all",
    copies: Annotated[
        str,
        option(
            "Rows with equal inputs: any (counted so that every reading is right), independent draws, or "
            "repeated records of one."
        ),
    ] = "any",
    order: Annotated[
        str,
        option("Which rows are learned from: by a hash of the rows, or as in the file (time): rows or file."),
    ] = "rows",
    clusters: Annotated[
        Path | None,
        option("Number of each row's cluster (.npy), where clusters are the draws: patients, users."),
    ] = None,
    groups: Annotated[
        Path | None, option("Number of each row's group (.npy), for --on 'each group'.")
    ] = None,
    unlabelled: Annotated[
        str | None, option("Fresh inputs, written like --data: certifies f itself (C-12b).", _F)
    ] = None,
    input_range: Annotated[
        tuple[float, float] | None,
        option("Smallest and largest stored input value that can occur: certifies f itself (C-12a).", _F),
    ] = None,
    prior_fraction: Annotated[
        str | None,
        option("0.1, 0.2, ... 0.9: make a helper of that part of the sample, count on the rest.", _F),
    ] = None,
    helper_from: Annotated[
        str | None,
        option("package.module:function that makes the helper, called with that part of the sample.", _F),
    ] = None,
    helper_weights: Annotated[
        Path | None, option("Weights of the model that were made of that part alone; that is declared.", _F)
    ] = None,
    by_class: Annotated[
        bool, option("Bound the error of g on every class too; all of these hold at once.")
    ] = False,
    base: opt.Base = None,
    base_says: opt.BaseSays = None,
    seed: opt.Seed = 0,
    device: Annotated[
        str, option("Where networks are trained: cpu or cuda; errors are counted on the CPU.", RUN)
    ] = "cpu",
    engine: opt.EngineKind = None,
    workers: opt.Workers = None,
    address: opt.Address = None,
    out: opt.NewFolder = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
    list_methods: Annotated[
        bool, typer.Option("--list", callback=_show_methods, is_eager=True, help="Print the methods.")
    ] = False,
) -> None:
    """Bound the error on new data: of a new classifier that is learned here, or of yours, compressed.

    Example: codebound certify --model linear --weights runs/w/model.safetensors --data digits --holdout 0.2
    """
    options = dict(locals())
    from codebound.cli.actions import certify_from_options

    with start_engine(engine, workers, address) as counters:
        saved = certify_from_options(options, out=out, engine=counters, listener=listener(quiet=quiet))
    print_result(saved, output, quiet=quiet)


def print_result(saved: Saved, output: Format, *, quiet: bool) -> None:
    """Prints the result; the sentence and the way to check it go to stderr.

    Raises:
        typer.Exit: With status 3, after all is printed, where test data refute the certificate.
    """
    from codebound.bounds.risk import percent
    from codebound.report.html import class_rows
    from codebound.report.summary import refused_lines, result_rows, skipped_lines
    from codebound.sample.caveats import DEVELOPED

    result = saved.result
    tables = [tabulate(("what", "value", "note"), result_rows(result))]
    if "routes" in result:
        routes = [
            (each["name"], percent(each["bound"]), each["assurance"], each["price"])
            for each in result["routes"]
        ]
        tables.append(tabulate(("method", "bound", "assurance", "what was counted and paid"), routes))
    if "by_class" in result:
        title = f"Error of {result['subject']} on each class; all rows hold at once"
        tables.append(Table(title, class_rows(result)))
    emit(result, output, tables, rows=[result])
    if output is Format.table and not quiet:
        if result["interrupted"]:
            note("The search was interrupted; this is the best message found until then.")
        if result["out_of_time"]:
            note("The time was up; this is the best message found until then.")
        for sentence in result["notes"]:
            note(sentence)
        for line in (*refused_lines(result["refusals"]), *skipped_lines(result["methods_skipped"])):
            note(line)
        note(saved.sentence)
        for said in filter(None, (result["advice"], result.get("routes_say"))):
            note(said)
        if result["developed"]:
            note(DEVELOPED)
        note(f"Check it: {result['verify']}")
        note(f"Report: {saved.folder / 'report.html'}")
    if result.get("refuted_by_test"):
        raise typer.Exit(REFUTED)
