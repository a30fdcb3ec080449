"""``codebound certify``: a guarantee on the error of a network, as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import NEXT_BEST, REFUTED, Format, emit, listener, note
from codebound.cli.options import RUN, option, start_engine
from codebound.methods.search import list_methods
from codebound.report.templates import Table, tabulate

if TYPE_CHECKING:
    from codebound.report.folder import Saved

_OWN = ", ".join(name for name, each in list_methods().items() if not each.needs_network)
_OF_NETWORKS = ", ".join(name for name, each in list_methods().items() if each.needs_network)
_METHODS = (
    f"auto tries them and takes the smallest bound; {_OWN}; for a --network: {_OF_NETWORKS}; or "
    "package.module:function of yours."
)
_UNLABELLED = "Fresh inputs, written like the data: then the error of the network itself is bounded."
_LEARNER = (
    "package.module:Class of scikit-learn's kind, or a function that trains a network: it learns from one "
    "part of the data, and errors count on the rest."
)
_COPIES = (
    "Rows with equal inputs: any (counted so that every reading is right), independent draws, or repeated "
    "records of one."
)
_ASSURANCE = "any, or replayed: only what the verifier can learn or decode again by itself."


def command(
    data: opt.DataArgument,
    learner: Annotated[str | None, option(_LEARNER)] = None,
    weights: opt.Weights = None,
    model: opt.SomeModel = None,
    unlabelled: Annotated[str | None, option(_UNLABELLED)] = None,
    known: opt.Known = None,
    claim: opt.Claim = None,
    copies: Annotated[str, option(_COPIES)] = "any",
    method: Annotated[str, option(_METHODS)] = "auto",
    assurance: Annotated[str, option(_ASSURANCE)] = "any",
    delta: opt.Delta = 0.05,
    test: opt.Test = None,
    holdout: opt.Holdout = None,
    minutes: Annotated[
        float | None, option("Stop searching after so long, with the best until then.")
    ] = None,
    out: opt.NewFolder = None,
    seed: opt.Seed = 0,
    run: opt.Run = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
    verbose: Annotated[
        bool, option("Also what was skipped, and every note.", RUN, "--verbose", "-v")
    ] = False,
) -> None:
    """Bound the error on new data: of a classifier that is learned here, or of yours.

    Example: codebound certify digits --holdout 0.2
    """
    options = dict(locals())
    for table in opt.KEYS:
        options |= opt.read_keys(table, options.pop(table))
    from codebound.cli.actions import certify_from_options

    with start_engine(options["engine"], options["workers"], options["address"]) as counters:
        saved = certify_from_options(options, out=out, engine=counters, listener=listener(quiet=quiet))
    print_result(saved, output, quiet=quiet, verbose=verbose)


def print_result(saved: Saved, output: Format, *, quiet: bool, verbose: bool = False) -> None:
    """Prints the result; the sentence and the way to check it go to stderr.

    Raises:
        typer.Exit: After all is printed: with status 3 where test data refute the certificate, with 4
            where a better one was refused, which is a defect.
    """
    from codebound.report.html import class_rows, offer_rows
    from codebound.report.summary import closing_lines, result_rows, skipped_lines
    from codebound.sample.caveats import DEVELOPED

    result = saved.result
    tables = [tabulate(("what", "value", "in words"), result_rows(result))]
    if "by_class" in result:
        tables.append(Table("Error on each class; all rows hold at once", class_rows(result)))
    if verbose and "offers" in result:
        tables.append(Table("", offer_rows(result)))
    emit(result, output, tables, rows=[result])
    if output is Format.table and not quiet:
        said = [*result["notes"], *skipped_lines(result["methods_skipped"])] if verbose else []
        said += [DEVELOPED] if verbose and result["developed"] else []
        note("\n".join(filter(None, [*said, *closing_lines(saved)])))
    if result.get("refuted_by_test") or result["refusals"]:
        raise typer.Exit(REFUTED if result.get("refuted_by_test") else NEXT_BEST)
