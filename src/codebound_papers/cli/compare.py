"""``codebound compare``: certified bounds, hold-out bounds and all published ones in one table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, listener
from codebound.cli.options import RUN, option, start_engine
from codebound.report.templates import Table
from codebound.run.errors import UsageError
from codebound_papers.cli import options as own

_WHAT = "What is compared"
_CERTIFICATE = "A .cbound file for this sample; may be repeated. Each is verified first."
_BASE = "Safetensors file of the base that a --certificate names; may be repeated."
_UNLABELLED = "Inputs that a --certificate about the network was made with, written like --data."
_CERTIFY = "Make a quick certificate where no --certificate is given."
_OVER = "Along a training: RUN is a folder of train --keep-epochs. An interrupted one goes on."
_LIKE_FOR_LIKE = "Divide the bars of figures by n and take the root, as in the other bounds."
_EXAMPLES = """Examples for cushions and Jacobians, drawn at random, and at most 50 for smoothness; margins
are those of all."""
_GUHA, _SLACK = "Guha's theorems", "of all layers (default: four times their number)."
_D = "Strength of pruning (default: as strong as the margin allows)."
_OUT = """New folder for compare.json, compare.csv, compare.svg and a page. With --over it may exist (default:
RUN/compare)."""


def command(
    model: opt.Model,
    data: opt.Data,
    weights: opt.Weights = None,
    data_folder: opt.DataFolder = None,
    test: opt.Test = None,
    holdout: opt.Holdout = None,
    certificate: Annotated[list[Path] | None, option(_CERTIFICATE, _WHAT)] = None,
    base: Annotated[list[Path] | None, option(_BASE, _WHAT)] = None,
    unlabelled: Annotated[str | None, option(_UNLABELLED, _WHAT)] = None,
    certify: Annotated[bool, option(_CERTIFY, _WHAT, "--certify/--no-certify")] = True,
    over: Annotated[
        tuple[str, Path] | None, typer.Option(metavar="epochs RUN", help=_OVER, rich_help_panel=_WHAT)
    ] = None,
    like_for_like: Annotated[bool, option(_LIKE_FOR_LIKE, _WHAT, "--like-for-like")] = False,
    margin_share: Annotated[float, option(own.MARGIN_SHARE, _WHAT)] = 0.05,
    examples: Annotated[int, option(_EXAMPLES, _WHAT)] = 1000,
    initial: own.Initial = None,
    d: Annotated[float | None, option(_D, _GUHA, "--d")] = None,
    eps: Annotated[float | None, option(f"eps {_SLACK}", _GUHA)] = None,
    lambda_: Annotated[float | None, option(f"lambda {_SLACK}", _GUHA, "--lambda")] = None,
    rho: Annotated[float | None, option("Step of rounding (default: 255 levels).", _GUHA)] = None,
    delta: opt.Delta = 0.05,
    chunk_size: own.ChunkSize = 256,
    device: opt.Device = "auto",
    seed: opt.Seed = 0,
    engine: opt.EngineKind = None,
    workers: opt.Workers = None,
    address: opt.Address = None,
    out: Annotated[Path | None, option(_OUT, RUN)] = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Compare all bounds on a network: certified ones, hold-out bounds, and every published one.

    Example: codebound compare --model mlp --network runs/w/model.safetensors --data digits --holdout 0.2
    """
    options = dict(locals())
    from codebound_papers.compare import comparison as verb
    from codebound_papers.compare.page import compare_table, without_number

    hear = listener(quiet=quiet)
    with start_engine(engine, workers, address) as measurers:
        if over is None:
            record = verb.compare_from_options(options, out=out, engine=measurers, listener=hear)
            tables = (compare_table(record), without_number(record))
            shown = [table for table in tables if table is not None]
            emit(record, output, [*shown, *record["notes"]], rows=record["rows"])
            if out is not None:
                hear.note(f"Page with the picture: {out / 'compare.html'}")
            return
        if any(options[name] for name in verb.OF_ONE_NETWORK):
            raise UsageError(
                "--over takes its weights from the run and no certificate: leave out --network, --initial, "
                "--certificate, --base and --unlabelled."
            )
        record = verb.compare_epochs_from_options(options, out=out, engine=measurers, listener=hear)
    points = record["epochs"]
    told = "None of the published bounds is a guarantee; a certificate is about one network."
    brief = Table("", [_brief(point) for point in points])
    emit(record, output, [brief, told], rows=verb.flat_points(points))


def _brief(point: Mapping[str, Any]) -> dict[str, object]:
    """A point for a terminal: errors, margins, and the smallest of the bounds."""
    from codebound.bounds.risk import rate
    from codebound_papers.compare.comparison import smallest_rate

    return {
        "epoch": point["epoch"],
        "training error": rate(point["train_error"]),
        "test error": "-" if point["test_error"] is None else rate(point["test_error"]),
        "gamma": f"{point['gamma']:.4g}",
        "smallest margin": f"{point['least_margin']:.4g}",
        "smallest published bound": smallest_rate(point),
    }
