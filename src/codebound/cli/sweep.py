"""``codebound sweep``: many runs from one plan, here or on a cluster; it can be stopped and continued."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, cell, emit, emit_rows, note
from codebound.cli.options import PARALLEL, RUN, option
from codebound.errors import UsageError
from codebound.extensions import SweepVerb, find_extensions, loaded
from codebound.files import write_text
from codebound.progress import progress_bar
from codebound.report.tables import Table

if TYPE_CHECKING:
    from codebound.sweep.execution import Merged
    from codebound.sweep.plan import PlannedJob, PlannedVerb

_BOUNDS = ("bound", "holdout", "holdout_f", "through_f")


def command(
    plan: Annotated[Path, typer.Argument(help="A plan in TOML, with the tables defaults, grid and jobs.")],
    engine: Annotated[
        str, option("local: processes of this machine; ray: a Ray cluster.", PARALLEL)
    ] = "local",
    workers: opt.Workers = None,
    address: opt.Address = None,
    out: Annotated[
        Path | None,
        option("Folder for the results; a sweep continues in it (default: runs/sweep-PLAN).", RUN),
    ] = None,
    retry_failed: Annotated[
        bool, option("Run jobs again that failed before.", None, "--retry-failed")
    ] = False,
    dry_run: Annotated[
        bool, option("Show the jobs and what is done; run nothing.", None, "--dry-run", "--list")
    ] = False,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Run train, compress, certify, measure and compare over a grid; what is done is never run again.

    Example: codebound sweep plan.toml --workers 4
    """
    from codebound.bounds.risk import count_of
    from codebound.engine.processes import open_engine
    from codebound.sweep.execution import execute, states
    from codebound.sweep.plan import read_plan

    jobs = read_plan(plan, verbs())
    folder = Path("runs") / f"sweep-{plan.stem}" if out is None else out
    known = states(jobs, folder)
    if dry_run:
        emit_rows(_job_rows(jobs, known), output)
        return
    if not quiet:
        count = Counter(known.values())
        note(
            f"{count_of(len(jobs), 'job')} in {folder}: {count['done']} done, {count['failed']} failed, "
            f"{count['waiting']} to run."
        )
    try:
        with (
            open_engine(engine, workers=workers, address=address) as runner,
            progress_bar("jobs", quiet=quiet) as progress,
        ):
            merged = execute(jobs, folder, engine=runner, retry_failed=retry_failed, progress=progress)
    except KeyboardInterrupt:
        note(f"What is finished is kept in {folder}: the same command continues.")
        raise
    tables = list(_tables(jobs, merged))
    emit(merged.record(), output, tables, rows=merged.rows)
    write_text(folder / "sweep.html", _page(plan, jobs, merged, tables))
    for each in merged.failed:
        note(f"Failed: job {each.job.label}: {each.error}")
        if each.traceback is not None:
            note(f"  Traceback: {each.traceback}")
    if not quiet:
        note(
            f"Page: {folder / 'sweep.html'}. All columns: rows.csv and rows.json beside it; files of a job: "
            f"{folder / 'jobs'}/KEY/output."
        )
    if merged.failed:
        if not quiet:
            note("--retry-failed runs failed jobs again.")
        raise typer.Exit(1)


def _page(plan: Path, jobs: Sequence[PlannedJob], merged: Merged, tables: Sequence[Table]) -> str:
    from codebound.bounds.risk import count_of
    from codebound.report.html import sweep_page

    failed = [f"Failed: job {each.job.label}: {each.error}" for each in merged.failed]
    return sweep_page(
        f"Sweep {plan.stem}",
        subtitle=f"{count_of(len(jobs), 'job')}: {len(merged.rows)} done, {len(failed)} failed, "
        f"{merged.waiting} waiting",
        notes=[*failed, "All columns are in rows.csv; the files of a job are in jobs/KEY/output."],
        tables=tables,
    )


def _job_rows(jobs: Sequence[PlannedJob], known: Mapping[str, str]) -> list[dict[str, object]]:
    from codebound.sweep.execution import shown

    return [
        {
            "job": job.short_key,
            "name": job.name,
            "verb": job.verb.name,
            "state": known[job.key],
            "arguments": " ".join(f"{name}={shown(value)}" for name, value in job.arguments.items()),
        }
        for job in jobs
    ]


def _tables(jobs: Sequence[PlannedJob], merged: Merged) -> Iterator[Table]:
    for title in dict.fromkeys(job.name for job in jobs):
        mine = [job for job in jobs if job.name == title]
        rows = [row for row in merged.rows if row["name"] == title]
        if rows:
            found = [_result_name(name, rows) for name in mine[0].verb.columns]
            columns = ["job", *_varied(mine, jobs), *found]
            yield Table(title, [{name: _cell(name, row.get(name)) for name in columns} for row in rows])


def _cell(name: str, value: object) -> object:
    """A value as other verbs print it: error rates and bounds on them in per cent."""
    from codebound.bounds.risk import percent, rate

    what = name.removeprefix("result.")
    if not isinstance(value, float) or not (what in _BOUNDS or what.endswith("_error")):
        return cell(value)
    return percent(value) if what in _BOUNDS else rate(value)


def _varied(mine: Sequence[PlannedJob], jobs: Sequence[PlannedJob]) -> list[str]:
    """Arguments in which jobs of one name differ; of those that always agree, the first."""
    from codebound.sweep.execution import arguments_of

    planned = {job.key: job for job in jobs}
    arguments = [arguments_of(job, planned) for job in mine]
    columns: dict[tuple[str, ...], str] = {}
    for name in dict.fromkeys(name for each in arguments for name in each):
        values = tuple(str(each.get(name, "")) for each in arguments)
        if len(set(values)) > 1 and not any(value.startswith("@") for value in values):
            columns.setdefault(values, name)
    return list(columns.values())


def _result_name(name: str, rows: Sequence[Mapping[str, object]]) -> str:
    """The column of a result, which is another one where an argument has the same name."""
    return f"result.{name}" if any(f"result.{name}" in row for row in rows) else name


_OWN = {
    "train": SweepVerb(
        "codebound.training:train_from_options",
        "codebound.cli.train:command",
        "model.safetensors",
        ("train_error", "test_error"),
    ),
    "certify": SweepVerb(
        "codebound.commands:certify_record",
        "codebound.cli.certify:command",
        "g.safetensors",
        ("bound", "train_errors", "n", "code_bits", "vacuous", "holdout"),
    ),
}
# of the sweep, not of a job: where results go, how they are printed, and what runs at the same time
_OURS = frozenset({"out", "format", "quiet", "list", "engine", "workers", "address"})
# training straight to a certificate is no plain training: a plan has certify for that; and a run of epochs is
# a folder that compare writes into
_LEFT_OUT = {
    "train": frozenset({"for_certificate", "effort", "delta", "base", "base_says"}),
    "compare": frozenset({"over"}),
}
_SOURCES = frozenset({"model", "data", "test", "unlabelled"})


@dataclass(frozen=True)
class _Option:
    """An option of a command as its function declares it."""

    parameter: str
    kind: Any
    is_required: bool
    least: float | None
    most: float | None


def _commands() -> dict[str, SweepVerb]:
    return {**_OWN, **find_extensions()["SWEEP_VERBS"]}


def verbs() -> dict[str, PlannedVerb]:
    """Every command that can be a job, with its options."""
    from codebound.sweep.plan import PlannedVerb

    found = {}
    for name, command in _commands().items():
        options = _options(name)
        found[name] = PlannedVerb(
            name=name,
            function=f"{__name__}:run",
            options=frozenset(options),
            files=frozenset(
                name for name, each in options.items() if Path in (each.kind, *get_args(each.kind))
            ),
            sources=_SOURCES & options.keys(),
            weights=command.weights,
            columns=command.columns,
            is_resumable=name == "train",
            check=partial(keywords, name),
        )
    return found


def run(*, verb: str, arguments: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Calls the function of a command, and returns its record."""
    command = _commands()[verb]
    declared = inspect.signature(loaded(command.command)).parameters.values()
    defaults = {parameter.name: parameter.default for parameter in declared}
    found = loaded(command.function)({**defaults, **keywords(verb, arguments)}, out=out)
    record = json.loads(json.dumps(found, allow_nan=False))  # as its file has it
    assert isinstance(record, dict)
    return record


def keywords(verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What the function of a command is called with; a plan has the names of the command line, and ``model``.

    Raises:
        UsageError: An option is missing, or not of its kind.

    Example:
        >>> keywords("compress", {"model": "linear", "method": "naive", "set": ["density=0.2"]})
        {'model': 'linear', 'method': 'naive', 'options': ['density=0.2']}
        >>> keywords("certify", {"data": "digits"})  # without a network one is made
        {'data': 'digits'}
    """
    options = _options(verb)
    missing = [name for name, option in options.items() if option.is_required and name not in arguments]
    if missing:
        raise UsageError(f"{verb} needs {', '.join(missing)}.")
    return {
        options[name].parameter: _converted(name, options[name], value) for name, value in arguments.items()
    }


def _options(verb: str) -> dict[str, _Option]:
    function, found = loaded(_commands()[verb].command), {}
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        annotation, declared = get_args(hints[parameter.name])
        if type(None) in get_args(annotation):
            (annotation,) = (each for each in get_args(annotation) if each is not type(None))
        # the first name given to typer.Option stands where a default used to be
        words = (declared.default, *(declared.param_decls or ()))
        flags = [word for word in words if isinstance(word, str) and word.startswith("--")]
        name = flags[0].partition("/")[0].lstrip("-").replace("-", "_") if flags else parameter.name
        if parameter.name == "arch":
            name = "model"  # one name in all commands of a plan
        # a network may be left out in certify; in train only for a certificate, which is no job
        is_required = parameter.name == "arch" or parameter.default is inspect.Parameter.empty
        found[name] = _Option(parameter.name, annotation, is_required, declared.min, declared.max)
    hidden = _OURS | _LEFT_OUT.get(verb, frozenset())
    return {name: option for name, option in found.items() if name not in hidden}


_KINDS = {str: "a text", Path: "a path", bool: "true or false", int: "a whole number", float: "a number"}


def _converted(name: str, option: _Option, value: Any) -> Any:
    kind, parts = get_origin(option.kind) or option.kind, get_args(option.kind)
    if kind in (list, tuple):
        if not isinstance(value, list) or (kind is tuple and len(value) != len(parts)):
            size = f"{len(parts)} values" if kind is tuple else "values"
            raise UsageError(f"{name} is a list of {size}. Got {value!r}.")
        kinds = parts if kind is tuple else parts * len(value)
        return kind(_single(name, part, each) for part, each in zip(kinds, value, strict=True))
    value = _single(name, kind, value)
    if (option.least is not None and value < option.least) or (
        option.most is not None and value > option.most
    ):
        raise UsageError(f"{name} lies outside its range. Got {value!r}.")
    return value


def _single(name: str, kind: Any, value: Any) -> Any:
    accepted: Any = {Path: str, float: (int, float)}.get(kind, kind)
    if not isinstance(value, accepted) or isinstance(value, bool) != (kind is bool):
        raise UsageError(f"{name} is {_KINDS[kind]}. Got {value!r}.")
    return kind(value)
