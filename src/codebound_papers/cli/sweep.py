"""``codebound sweep``: many runs from one plan, here or on a cluster; it can be stopped and continued."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, cell, emit, emit_rows, note
from codebound.cli.options import PARALLEL, RUN, option
from codebound.report.templates import Table
from codebound.run.files import write_text
from codebound.run.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codebound_papers.sweep.execution import Merged
    from codebound_papers.sweep.grid import PlannedJob

_BOUNDS = ("bound", "holdout", "holdout_f", "through_f")
_ENGINE = "local: processes of this machine; ray: a Ray cluster."
_OUT = "Folder for the results; a sweep continues in it (default: runs/sweep-PLAN)."
_RETRY = "Run jobs again that failed before."
_DRY_RUN = "Show the jobs and what is done; run nothing."


def command(
    plan: Annotated[Path, typer.Argument(help="A plan in TOML, with the tables defaults, grid and jobs.")],
    engine: Annotated[str, option(_ENGINE, PARALLEL)] = "local",
    workers: opt.Workers = None,
    address: opt.Address = None,
    out: Annotated[Path | None, option(_OUT, RUN)] = None,
    retry_failed: Annotated[bool, option(_RETRY, None, "--retry-failed")] = False,
    dry_run: Annotated[bool, option(_DRY_RUN, None, "--dry-run", "--list")] = False,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Run train, compress, certify, measure and compare over a grid; what is done is never run again.

    Example: codebound sweep plan.toml --workers 4
    """
    from codebound.bounds.risk import count_of
    from codebound.run.job import open_engine
    from codebound_papers.sweep.execution import execute, states
    from codebound_papers.sweep.grid import read_plan
    from codebound_papers.sweep.verbs import list_verbs

    jobs = read_plan(plan, list_verbs())
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
    write_text(folder / "sweep.html", _page(plan, jobs, merged, folder))
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


def _page(plan: Path, jobs: Sequence[PlannedJob], merged: Merged, folder: Path) -> str:
    from codebound.bounds.risk import count_of
    from codebound.report.templates import render

    failed = [f"Failed: job {each.job.label}: {each.error}" for each in merged.failed]
    values = {
        "title": f"Sweep {plan.stem}",
        "heading": heading,
        "subtitle": f"{count_of(len(jobs), 'job')}: {len(merged.rows)} done, {len(failed)} failed, "
        f"{merged.waiting} waiting",
        "notes": [*failed, "All columns are in rows.csv. A job's number leads to its page or its files."],
        "parts": [
            {"table": table, "links": [_link(folder, str(row["job"])) for row in table.rows]}
            | {"figure": _figure(table)}
            for table in _tables(jobs, merged)
        ],
    }
    return render("sweep.html.j2", values, package="codebound_papers.report")


def _link(folder: Path, key: str) -> str:
    """The page of a job as seen from the sweep's, or the folder with its files."""
    place = next((folder / "jobs").glob(f"{key}*")) / "output"
    found = next((each for each in sorted(place.glob("*.html"))), place)
    return found.relative_to(folder).as_posix()


def _figure(table: Table) -> str:
    """Error rates and bounds of all jobs of a name, in their order; nothing for a single job."""
    from codebound_papers.report.figures import Figure, Plot, Series

    places = range(1, len(table.rows) + 1)
    series = []
    for name in table.rows[0]:
        values = [str(row[name]).removesuffix(" %") for row in table.rows if str(row[name]).endswith(" %")]
        if len(values) == len(places) > 1:
            series.append(Series(heading(name), list(places), list(map(float, values)), "points"))
    ticks = tuple(places) if len(places) <= 20 else ()
    return (
        Figure([Plot("", "job", "per cent", series, x_ticks=ticks, headroom=0.3)]).inline() if series else ""
    )


def heading(name: str) -> str:
    """The name of a column for people."""
    plain = name.removeprefix("result.").replace("_", " ")
    return {"holdout": "hold-out bound", "code bits": "bits of message"}.get(plain, plain)


def _job_rows(jobs: Sequence[PlannedJob], known: Mapping[str, str]) -> list[dict[str, object]]:
    from codebound_papers.sweep.execution import format_value

    return [
        {
            "job": job.short_key,
            "name": job.name,
            "verb": job.verb.name,
            "state": known[job.key],
            "arguments": " ".join(f"{name}={format_value(value)}" for name, value in job.arguments.items()),
        }
        for job in jobs
    ]


def _tables(jobs: Sequence[PlannedJob], merged: Merged) -> Iterator[Table]:
    for title in dict.fromkeys(job.name for job in jobs):
        mine = [job for job in jobs if job.name == title]
        rows = [row for row in merged.rows if row["name"] == title]
        if rows:
            found = [_result_name(name, rows) for name in mine[0].verb.columns]
            columns = ["job", *_find_varied(mine, jobs), *found]
            yield Table(title, [{name: _cell(name, row.get(name)) for name in columns} for row in rows])


def _cell(name: str, value: object) -> object:
    """A value as other verbs print it: error rates and bounds on them in per cent."""
    from codebound.bounds.risk import percent, rate

    what = name.removeprefix("result.")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float) or not (what in _BOUNDS or what.endswith("_error")):
        return cell(value)
    return percent(value) if what in _BOUNDS else rate(value)


def _find_varied(mine: Sequence[PlannedJob], jobs: Sequence[PlannedJob]) -> list[str]:
    """Arguments in which jobs of one name differ; of those that always agree, the first."""
    from codebound_papers.sweep.execution import arguments_of

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
