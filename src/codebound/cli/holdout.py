"""``codebound holdout``: a test set that is sealed, looked at, and paid for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.report.text_tables import Table, tabulate
from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from codebound.holdout.ledger import Ledger

app = typer.Typer(
    help="Seal a test set, look at it, and pay for every look.", no_args_is_help=True, add_completion=False
)

_LedgerFile = Annotated[Path, typer.Argument(help="The ledger (.looks.jsonl).")]
_ModelName = Annotated[
    str | None, option("How the networks of --weights are built: zoo name or package.module:factory.")
]
_Weights = Annotated[list[Path] | None, option("Weights of a network; can be given more than once.")]
_Predictions = Annotated[
    list[Path] | None,
    option(
        "A .npy file of predicted classes, numbers or words, or of scores, of any program; can be given more "
        "than once."
    ),
]


@app.command()
def seal(
    data: Annotated[
        str, typer.Argument(help="The test set: an .npz file, a name (its test split), a folder.")
    ],
    looks: Annotated[
        str, option("How many networks will be tried, or open: later ones then cost more.")
    ] = "1",
    delta: opt.Delta = 0.05,
    target: Annotated[float | None, option("The error that is to be shown, fixed now.")] = None,
    answers: Annotated[
        str | None,
        option(
            "What a look tells: exact (the errors), levels (how far the best was beaten), pass (whether "
            "--target is met). Default: exact where no later look depends on it, else levels."
        ),
    ] = None,
    step: Annotated[float | None, option("Distance of two levels, as a share of the examples.")] = None,
    loss: opt.LossName = "wrong",
    by_class: Annotated[
        bool, option("Bound the errors on every class too, in exact answers and in the final look.")
    ] = False,
    allow_copies: opt.AllowCopies = False,
    model: _ModelName = None,
    weights: _Weights = None,
    predictions: _Predictions = None,
    data_folder: opt.DataFolder = None,
    out: Annotated[Path | None, option("The ledger (default: the name of the file, .looks.jsonl).")] = None,
    output: opt.Output = Format.table,
) -> None:
    """Freeze a test set before the first look; networks given here are fixed and pay for no answers.

    Example: codebound holdout seal test.npz --looks 50 --target 0.06
    """
    options = dict(locals())
    from codebound.holdout.from_files import seal_from_options
    from codebound.run.progress import Listener

    if looks != "open" and not looks.isdecimal():
        raise UsageError(f"--looks is a number, or open. Got {looks!r}.")
    planned = None if looks == "open" else int(looks)
    _show(seal_from_options(options, looks=planned, out=out, listener=Listener(note)), output)


@app.command()
def look(
    ledger: _LedgerFile,
    model: _ModelName = None,
    weights: Annotated[Path | None, option("Weights of the network.")] = None,
    certificate: Annotated[Path | None, option("A .cbound file: the network that it decodes to.")] = None,
    predictions: Annotated[
        Path | None,
        option("A .npy file of predicted classes, numbers or words, or of scores, of any program."),
    ] = None,
    name: Annotated[str | None, option("What the network is called (default: the name of its file).")] = None,
    is_final: Annotated[
        bool, option("The last look: tells the exact errors and closes the ledger.", None, "--final")
    ] = False,
    data: Annotated[str | None, option("Where the sealed examples are (default: as sealed).")] = None,
    data_folder: opt.DataFolder = None,
    output: opt.Output = Format.table,
) -> None:
    """Try one network on the sealed examples; the answer is in the ledger before it is printed.

    Example: codebound holdout look test.looks.jsonl --model linear --weights f/model.safetensors
    """
    options = dict(locals())
    from codebound.holdout.from_files import look_from_options

    _show(look_from_options(options), output)


@app.command()
def show(ledger: _LedgerFile, output: opt.Output = Format.table) -> None:
    """Print what was sealed and every look."""
    from codebound.holdout.ledger import read_ledger

    _show(read_ledger(ledger), output)


def _show(ledger: Ledger, output: Format) -> None:
    """The ledger as tables; for people, the last answer and the head on stderr."""
    from codebound.bounds.risk import percent
    from codebound.sample.losses import parse_loss

    told, is_exact = ledger.seal, ledger.seal["levels"] is None
    rows = [
        {
            "look": number,
            "model": each["model"]["name"],
            "listed": "yes" if each["listed"] else "no",
            "errors": "not better"
            if each["answer"] is None
            else f"{'' if is_exact or each['final'] else 'at most '}{each['answer']}",
            "answers paid": f"{each['answer_bits']:.1f} bits",
            "bound": "-" if each["bound"] is None else percent(each["bound"]),
        }
        for number, each in enumerate(ledger.looks, start=1)
    ]
    tables = [tabulate(("what", "value"), _seal_rows(ledger)), *([Table("", rows)] if rows else [])]
    if looks := [each for each in ledger.looks if each.get("by_class")]:
        name = looks[-1]["model"]["name"]
        by_class = [
            (label, "no examples" if bound is None else percent(bound), f"{errors} of {size}")
            for label, ((errors, bound), size) in enumerate(
                zip(looks[-1]["by_class"], told["by_class"], strict=True)
            )
        ]
        title = f"Errors of {name} on each class; they hold at once, with all other bounds"
        tables.append(tabulate(("class", "bound", "errors"), by_class, title=title))
    emit({"seal": told, "looks": list(ledger.looks), "head": ledger.head}, output, tables, rows=rows)
    if output is not Format.table:
        return
    last = ledger.looks[-1] if ledger.looks else None
    if last is not None and last["bound"] is not None:
        does = parse_loss(told["fault"]).says(percent(last["bound"]))
        note(
            f"With probability at least 1 - {told['delta']!r} over the draw of the test sample, for all "
            f"looks at once: {last['model']['name']} {does}."
        )
        if last["meets"] is not None:
            note(f"The target {told['target']} is {'met' if last['meets'] else 'NOT met'}.")
    elif last is not None:
        note(f"{last['model']['name']} is not better than the best so far; no more is told.")
    note(f"Head, to be written down elsewhere: {ledger.head}")


def _seal_rows(ledger: Ledger) -> list[tuple[str, object]]:
    told = ledger.seal
    left = "no end"
    if told["looks"] is not None:
        left = f"{told['looks']} planned, {len(told['models'])} of them listed"
    answers = "exact" if told["levels"] is None else f"by {len(told['levels'])} levels"
    return [
        ("sealed", f"{told['data']['name']}, {told['data']['examples']} examples, {told['date']}"),
        ("loss", f"{told['fault']}, on {told['n']} examples"),
        ("delta", told["delta"]),
        ("target", "none" if told["target"] is None else told["target"]),
        ("looks", f"{len(ledger.looks)} made; {left}"),
        ("answers", f"{answers}; {ledger.answer_bits:.1f} bits so far"),
    ]
