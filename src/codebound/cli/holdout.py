"""``codebound holdout``: questions to a test set, sealed and paid for, and an alarm for a stream."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.bound import plan
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.report.templates import Table, tabulate
from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from codebound.holdout.alarms import Watch
    from codebound.holdout.ledger import Ledger, Line

app = typer.Typer(
    help="Seal answers to a test set, ask questions, pay for each; watch a stream.",
    no_args_is_help=True,
    add_completion=False,
)

_LedgerFile = Annotated[Path, typer.Argument(help="The ledger (.ledger.jsonl).")]
_Data = Annotated[str | None, option("Where the sealed table is (default: as sealed).")]
_Out = Annotated[Path | None, option("The ledger, a new file (default: TABLE.ledger.jsonl).")]
_Risk = Annotated[float, option("Share of wrong answers among those given that is allowed.")]
_Thresholds = Annotated[str | None, option("Falling numbers with commas; the first should answer many rows.")]
_Rule = Annotated[str, option("sequence (thresholds in order) or choice (any of them, paid for).")]
_Loss = Annotated[
    str,
    option(
        "wrong, class:C, confused:C:D, false-alarm:C, precision:C (C is said), residual:TAU (off by more)."
    ),
]
_Cluster = Annotated[str | None, option("Column of patients or documents, whose rows belong together.")]
_Claim = Annotated[
    str | None, option("With --cluster: one random row of a new one (row), or any of it (any).")
]
_ModelName = Annotated[str | None, option("Architecture, where weights are given in place of a column.")]
_Margin = Annotated[
    float, option("B may err more often than A by so much, fixed before any outcome is seen.")
]


app.command("plan")(plan)


@app.command()
def seal(
    data: Annotated[str, typer.Argument(help="Labels and answers: answers.csv:LABEL, .npz, or a dataset.")],
    look: Annotated[
        list[str] | None, option("A column of answers, or a file (default: all); repeat it.")
    ] = None,
    better: Annotated[list[str] | None, option("A pair A,B of columns: does B err less often?")] = None,
    abstain: Annotated[list[str] | None, option("A pair ANSWERS,SCORES: right from which score on?")] = None,
    inputs: Annotated[str | None, option("Column of the questions, which then cannot be replaced.")] = None,
    group: Annotated[str | None, option("Column of groups, or the label: limits for all at once.")] = None,
    cluster: _Cluster = None,
    claim: _Claim = None,
    loss: _Loss = "wrong",
    delta: Annotated[float, option("Failure probability of all statements together.")] = 0.05,
    looks: Annotated[str | None, option("Statements in all, or open (default: the planned ones).")] = None,
    tell: Annotated[str | None, option("exact, or levels (how far the best was beaten).")] = None,
    target: Annotated[
        float | None, option("The error to be shown: a look then tells only whether it is.")
    ] = None,
    margin: _Margin = 0.0,
    risk: _Risk = 0.05,
    thresholds: _Thresholds = None,
    rule: _Rule = "sequence",
    model: _ModelName = None,
    allow_copies: opt.AllowCopies = False,
    out: _Out = None,
    output: opt.Output = Format.table,
) -> None:
    """Freeze a test set before the first look; what is planned here pays for no answers.

    Example: codebound holdout seal answers.csv:label --look a --look b --better a,b
    """
    from codebound.holdout.seals import Plan, count_strangers, sealed_table, with_files
    from codebound.holdout.seals import seal as make

    if looks not in (None, "open") and not str(looks).isdecimal():
        raise UsageError(f"--looks is a number, or open. Got {looks!r}.")
    plan = Plan(
        look=look or (),
        better=[_pair("--better", each) for each in better or ()],
        abstain=[_abstention(*_pair("--abstain", each), risk, thresholds, rule) for each in abstain or ()],
        inputs=inputs,
        group=group,
        cluster=cluster,
        claim=claim,
        loss=loss,
        delta=delta,
        looks="open" if looks == "open" else None if looks is None else int(looks),
        tell=tell,
        target=target,
        margin=margin,
        allow_copies=allow_copies,
    )
    table, label = sealed_table(data)
    table = with_files(table, [*plan.look, *(name for pair in plan.better for name in pair)], data, model)
    found = make(table, plan, label=label, out=out)
    _show(found, output)
    for name, count in count_strangers(found, table).items():
        note(f"{name}: {count} of its answers are no label, and count as errors.")


@app.command()
def look(
    ledger: _LedgerFile,
    column: Annotated[str | None, typer.Argument(help="The column of answers, or a file of them.")] = None,
    best: Annotated[bool, option("Look at all planned columns; the best is named.", None, "--best")] = False,
    model: _ModelName = None,
    is_final: Annotated[bool, option("The last line: tells the exact errors.", None, "--final")] = False,
    data: _Data = None,
    output: opt.Output = Format.table,
) -> None:
    """Bound how often a column of answers is wrong; the line is written before it is printed.

    Example: codebound holdout look answers.ledger.jsonl a
    """
    from codebound.holdout import statements
    from codebound.holdout.sentences import best_line

    if (column is None) != best:
        raise UsageError("a look is at one column, or with --best at all that were planned.")
    if best:
        found = statements.look_at_planned(ledger, data=data)
        _show(found, output, best_line(found))
    else:
        given = _with_files(ledger, data, (str(column),), model)
        _show(statements.look(ledger, str(column), data=given, is_final=is_final), output)


@app.command()
def better(
    ledger: _LedgerFile,
    a: Annotated[str, typer.Argument(help="The column to beat, or a file.")],
    b: Annotated[str, typer.Argument(help="The column that may be better, or a file.")],
    margin: _Margin = 0.0,
    model: _ModelName = None,
    data: _Data = None,
    output: opt.Output = Format.table,
) -> None:
    """Say if B errs less often than A, and by how much at least, on the same rows.

    Example: codebound holdout better answers.ledger.jsonl a b
    """
    from codebound.holdout.statements import better as compare

    given = _with_files(ledger, data, (a, b), model)
    _show(compare(ledger, a, b, margin=margin, data=given), output)


@app.command()
def abstain(
    ledger: _LedgerFile,
    answers: Annotated[str, typer.Argument(help="The column of answers.")],
    scores: Annotated[str | None, option("The column of scores; high ones are answered.")] = None,
    risk: _Risk = 0.05,
    thresholds: _Thresholds = None,
    rule: _Rule = "sequence",
    data: _Data = None,
    output: opt.Output = Format.table,
) -> None:
    """Find the score from which on answers are wrong at most as often as --risk.

    What was planned in the seal needs no options.

    Example: codebound holdout abstain answers.ledger.jsonl a
    """
    from codebound.holdout.ledger import read_ledger
    from codebound.holdout.seals import Abstention
    from codebound.holdout.statements import abstain as find

    planned = [
        each
        for each in read_ledger(ledger).seal.get("planned", ())
        if each["kind"] == "abstain" and each["column"]["name"] == answers
    ]
    if scores is None and thresholds is None and len(planned) == 1:
        (each,) = planned
        fixed = {key: each[key] for key in ("risk", "rule", "thresholds")}
        how = Abstention(column=answers, scores=each["scores"]["name"], **fixed)
    elif scores is None:
        raise UsageError(
            f"{len(planned)} searches for {answers!r} are planned: name --scores and --thresholds."
        )
    else:
        how = _abstention(answers, scores, risk, thresholds, rule)
    _show(find(ledger, how, data=data), output)


@app.command()
def watch(
    file: Annotated[Path, typer.Argument(help="The watch (.watch.jsonl): new, or to go on with.")],
    stream: Annotated[
        str, typer.Argument(help="All rows so far: stream.csv:LABEL; or new ones: stdin:LABEL.")
    ],
    answers: Annotated[
        str | None, option("Column of answers (default: LABEL is 1 where it was wrong).")
    ] = None,
    bound: Annotated[float | None, option("The error not to be exceeded; needed at the start.")] = None,
    alpha: Annotated[float, option("Chance of a false alarm, ever.")] = 0.01,
    certificate: Annotated[
        Path | None, option("Ledger or .cbound that proves --bound (default: what it proves of --answers).")
    ] = None,
    loss: _Loss = "wrong",
    group: Annotated[str | None, option("Column of groups, each with an alarm of its own.")] = None,
    groups: Annotated[str | None, option("All names of groups, with commas.")] = None,
    cluster: _Cluster = None,
    claim: _Claim = None,
    output: opt.Output = Format.table,
) -> None:
    """Follow a stream of labels; run it again when the stream has grown. It exits with 3 at an alarm.

    Example: codebound holdout watch live.watch.jsonl stream.csv:label --answers a --bound 0.05
    """
    from codebound.holdout.alarms import Watch, WatchTerms, read_chunks, read_stream, with_proof

    table, label = (None, stream[6:]) if stream.startswith("stdin:") else read_stream(stream)
    terms = WatchTerms(
        bound=bound,
        groups=tuple(groups.split(",")) if groups else (),
        alpha=alpha,
        loss=loss,
        group=group,
        cluster=cluster,
        claim=claim,
    )
    if file.exists():
        state = Watch.load(file)
        state.require(terms)
    else:
        terms = terms if certificate is None else with_proof(terms, certificate, answers)
        state = Watch.start(file, terms, stream=stream)
    before, alarms = state.labels, 0
    if table is not None:
        state.follow(table, label, answers)
    else:
        for rows in read_chunks(sys.stdin.fileno(), "stdin"):
            state.extend(rows, label, answers)
            if (raised := len(state.alarms) + (state.alarm_at is not None)) > alarms:
                alarms = raised
                note(str(state))
    _show_watch(state, state.labels - before, output)
    if state.alarm_at is not None or state.alarms:
        raise typer.Exit(3)


@app.command()
def faithful(
    inputs: Annotated[str, typer.Argument(help="Answers of both, without labels: a file, or a dataset.")],
    original: Annotated[str, typer.Argument(help="Column of the original, or a file.")],
    compressed: Annotated[str, typer.Argument(help="Column of the compressed one, or a file.")],
    model: _ModelName = None,
    delta: opt.Delta = 0.05,
    out: _Out = None,
    output: opt.Output = Format.table,
) -> None:
    """Bound how often a compressed classifier answers unlike the original, on inputs that made neither.

    Example: codebound holdout faithful fresh.csv f g
    """
    from codebound.holdout.answers import as_table, is_table_file
    from codebound.holdout.seals import sealed_table, with_files
    from codebound.holdout.statements import faithful as compare

    table = as_table(inputs) if is_table_file(inputs) else sealed_table(inputs)[0]
    table = with_files(table, (original, compressed), inputs, model)
    _show(compare(table, original, compressed, delta=delta, out=out), output)


@app.command()
def show(
    ledger: Annotated[Path, typer.Argument(help="A ledger or a watch.")],
    html: Annotated[Path | None, option("Write a page for people too.")] = None,
    output: opt.Output = Format.table,
) -> None:
    """Print what was sealed and every statement, or the state of a watch."""
    from codebound.holdout.ledger import read_ledger

    found = read_ledger(ledger)
    if found.seal["kind"] == "watch":
        from codebound.holdout.alarms import Watch

        _show_watch(Watch(found.path, found), 0, output)
    else:
        _show(found, output)
    if html is not None:
        from codebound.report.holdout_page import write_page

        write_page(ledger, html)
        note(f"Page: {html}")


def _with_files(ledger: Path, data: str | None, names: tuple[str, ...], model: str | None) -> object:
    """The sealed table with columns that are files; by default the data as they were given."""
    if not any(Path(name).suffix.lower() in (".npy", ".safetensors", ".cbound") for name in names):
        return data
    from codebound.holdout.ledger import read_ledger
    from codebound.holdout.seals import with_files
    from codebound.holdout.statements import table_of

    found = read_ledger(ledger)
    return with_files(table_of(found, data), names, data or found.seal["data"], model)


def _pair(name: str, text: str) -> tuple[str, str]:
    first, comma, second = text.partition(",")
    if not (first and comma and second):
        raise UsageError(f"{name} takes two columns with a comma between them. Got {text!r}.")
    return first, second


def _abstention(answers: str, scores: str, risk: float, thresholds: str | None, rule: str) -> Any:
    from codebound.holdout.answers import as_number
    from codebound.holdout.seals import Abstention

    if not thresholds:
        raise UsageError("a search for a threshold needs --thresholds, such as 0.9,0.8,0.7.")
    grid = tuple(as_number(each.strip()) for each in thresholds.split(","))
    return Abstention(column=answers, scores=scores, risk=risk, thresholds=grid, rule=rule)  # type: ignore[arg-type]


def _show(ledger: Ledger, output: Format, line: Line | None = None) -> None:
    """The ledger as tables; for people, the last statement and the head on stderr."""
    from codebound.bounds.risk import percent
    from codebound.holdout.sentences import describe_ledger, describe_line, naive_bound

    told = ledger.seal
    rows = [
        {
            "line": number + 1,
            "statement": each["kind"],
            "planned": "yes" if replace(ledger, lines=ledger.lines[:number]).is_planned(each) else "no",
            "says": describe_line(ledger, each),
        }
        for number, each in enumerate(ledger.statements, start=1)
    ]
    left = f"{told['looks'] or 'any number'} planned, {len(told['planned'])} of them by name"
    further = f"a statement that is not planned pays {ledger.answer_bits:.1f} bits"
    if ledger.open_left < 1:
        further = "only planned statements are left"
    sealed = [
        ("sealed", f"{told['data']}, {told['rows']} rows, {told['date']}"),
        ("loss", f"{':'.join(told['loss'])}, on {told['n']} {'clusters' if told['clusters'] else 'rows'}"),
        ("delta", told["delta"]),
        ("statements", f"{len(ledger.statements)} made; {left}"),
        ("answers", f"{'by levels' if told['levels'] else 'exact'}; {further}"),
    ]
    tables = [tabulate(("what", "value"), sealed), *([Table("", rows)] if rows else [])]
    record = {"seal": told, "statements": list(ledger.statements), "head": ledger.head}
    emit(record, output, tables, rows=rows)
    if output is not Format.table:
        return
    line = line or (ledger.statements[-1] if ledger.statements else None)
    if line is not None:
        note(describe_ledger(ledger, line))
        naive = naive_bound(ledger, line)
        if naive is not None and naive < line["result"]["bound"]:
            note(f"(Quoted as if nothing else had been looked at, it would be {percent(naive)}: no promise.)")
    note(f"Ledger: {ledger.path}\nHead, to be written down elsewhere: {ledger.head}")


def _show_watch(state: Watch, new: int, output: Format) -> None:
    from codebound.bounds.risk import percent
    from codebound.holdout.sentences import all_digits

    first = state.ledger.seal
    record = {
        "labels": state.labels,
        "new": new,
        "errors": state.overall.errors,
        "alarm": state.alarm_at,
        "groups": state.alarms,
        "upper_limit_if_constant": state.upper_limit(),
        "head": state.ledger.head,
    }
    rows = [
        ("watched", f"an error of {all_digits(first['bound'])}, false alarms {first['alpha']!r}"),
        ("labels", f"{state.labels}, {new} of them new; {state.overall.errors} wrong"),
        ("alarm", "none" if state.alarm_at is None else f"at label {state.alarm_at}"),
        *((f"alarm, {name}", f"at its label {at}") for name, at in state.alarms.items()),
        ("if the error never changed", f"it is at most {percent(state.upper_limit())}"),
    ]
    emit(record, output, [tabulate(("what", "value"), rows)])
    if output is Format.table:
        note(f"{state}\nHead, to be written down elsewhere: {state.ledger.head}")
