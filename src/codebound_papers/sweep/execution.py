"""Runs the jobs of a plan, each when what it needs is there and none twice; their rows are one table."""

from __future__ import annotations

import time
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codebound.report.templates import csv_text
from codebound.run.errors import CodeboundError
from codebound.run.files import hold_lock, make_folder, versions, write_json, write_text
from codebound.run.job import Engine, Finished, Job
from codebound.run.progress import Progress, silent
from codebound_papers.sweep.grid import PlannedJob, Reference
from codebound_papers.sweep.jobs import JobFolder, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_PATIENCE = 60.0  # seconds in which a file written elsewhere becomes visible: NFS remembers absent ones
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Failed:
    """A job without a row."""

    job: PlannedJob  # the job
    error: str  # what it raised, or which failed job it needed
    traceback: Path | None = None  # the file with the whole traceback; None where nothing was raised


@dataclass(frozen=True, slots=True)
class Merged:
    """The table of a sweep."""

    # one flat row per job that is done: job, name, verb, arguments, those of its jobs, what it found
    rows: tuple[dict[str, Any], ...]
    timings: Mapping[str, Mapping[str, float]]  # seconds by job; these differ from run to run
    failed: tuple[Failed, ...]  # jobs that failed, and jobs that needed them
    waiting: int  # jobs that have not run

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "versions": versions(),
            "rows": list(self.rows),
            "timings": dict(self.timings),
            "failed": [
                {"job": each.job.short_key, "name": each.job.name, "error": each.error}
                for each in self.failed
            ],
            "waiting": self.waiting,
        }


def states(jobs: Sequence[PlannedJob], folder: Path) -> dict[str, State]:
    """Return the states of jobs by key."""
    return {job.key: JobFolder.of(folder, job.key).state() for job in jobs}


def execute(
    jobs: Sequence[PlannedJob],
    folder: Path,
    *,
    engine: Engine,
    retry_failed: bool = False,
    progress: Progress = silent,
) -> Merged:
    """Runs what is still to run, and writes the table of everything.

    It may be killed at any time and called again. On a cluster, all nodes must see the folder at one path.
    """
    make_folder(folder)
    with hold_lock(folder / "sweep.lock", f"the sweep in {folder}"):
        known = states(jobs, folder)
        if retry_failed:
            for key in [key for key, state in known.items() if state == "failed"]:
                JobFolder.of(folder, key).reopen()
                known[key] = "waiting"
        _run(jobs, folder, engine, known=known, progress=progress)
        merged = merge(jobs, folder)
        write_json(folder / "rows.json", merged.record())
        write_text(folder / "rows.csv", csv_text(merged.rows))
    return merged


def _run(
    jobs: Sequence[PlannedJob],
    folder: Path,
    engine: Engine,
    *,
    known: Mapping[str, State],
    progress: Progress,
) -> None:
    by_key = {job.key: job for job in jobs}
    waiting = [job for job in jobs if known[job.key] == "waiting"]
    missing = {job.key: {each.job for each in job.references if known[each.job] != "done"} for job in waiting}
    needed_by: dict[str, list[PlannedJob]] = {}
    for job in waiting:
        for key in missing[job.key]:
            needed_by.setdefault(key, []).append(job)
    ready = deque(_engine_job(job, folder) for job in waiting if not missing[job.key])
    ended, failures = len(jobs) - len(waiting), sum(state == "failed" for state in known.values())
    progress(ended, len(jobs))
    with closing(engine.as_finished(ready)) as finished_jobs:
        for finished in finished_jobs:
            job = by_key[finished.job.arguments["job"]["job"]]
            if _settle(finished, job, folder):
                for other in needed_by.get(job.key, ()):
                    missing[other.key].discard(job.key)
                    if not missing[other.key]:
                        ready.append(_engine_job(other, folder))
            else:
                failures += 1
            ended += 1
            progress(ended, len(jobs), f"{failures} failed" if failures else job.name)


def _engine_job(job: PlannedJob, folder: Path) -> Job:
    return Job(
        function="codebound_papers.sweep.jobs:run_job",
        arguments={
            "job": job.record(),
            "function": job.verb.function,
            "options": job.options(lambda file: str(JobFolder.of(folder, file.job).output / file.file)),
            "is_resumable": job.verb.is_resumable,
            "folder": str(folder.absolute()),
        },
        cpus=job.cpus,
        gpus=job.gpus,
    )


def _settle(finished: Finished, job: PlannedJob, folder: Path) -> bool:
    """Return True if a job is done. The failure of one that is not is written into its folder."""
    place, failure = JobFolder.of(folder, job.key), finished.failure
    deadline = time.monotonic() + _PATIENCE
    while place.state() != "done":  # also a job whose process was lost may have left its result before
        if failure is not None:
            place.finish({**job.record(), "error": failure.message}, traceback=failure.traceback)
            return False
        if time.monotonic() > deadline:
            raise CodeboundError(
                f"job {job.label} ended, but {place.path} has no result of it: the node that ran it does not "
                f"share {folder}. Choose a folder that all nodes see at the same path."
            )
        time.sleep(_POLL_SECONDS)
    return True


def merge(jobs: Sequence[PlannedJob], folder: Path) -> Merged:
    """Reads what the jobs of a plan left in the folder of a sweep; rows of other versions are refused."""
    planned = {job.key: job for job in jobs}
    rows, timings, failed, waiting = [], {}, [], 0
    failures: dict[str, str] = {}
    for job in jobs:
        place = JobFolder.of(folder, job.key)
        result = place.result()
        blocked = next((each.job for each in job.references if each.job in failures), None)
        if result is None:
            if blocked is None:
                waiting += 1
            else:
                failures[job.key] = f"needs job {planned[blocked].label}, which failed"
                failed.append(Failed(job, failures[job.key]))
            continue
        if result.get("versions") != versions():
            raise CodeboundError(
                f"job {job.label} was run by {result.get('versions')}, this is {versions()}: rows of "
                "different versions do not mix. Install the same versions everywhere, remove "
                f"{place.path}, and run the sweep again."
            )
        if "error" in result:
            failures[job.key] = result["error"]
            trace = place.traceback
            failed.append(Failed(job, result["error"], trace if trace.exists() else None))
            continue
        rows.append(_row(job, result["row"], planned))
        timings[job.short_key] = result["timings"]
    return Merged(tuple(rows), timings, tuple(failed), waiting)


def _row(job: PlannedJob, found: Mapping[str, Any], planned: Mapping[str, PlannedJob]) -> dict[str, Any]:
    row: dict[str, Any] = {"job": job.short_key, "name": job.name, "verb": job.verb.name}
    row |= arguments_of(job, planned)
    for name, value in found.items():
        if name not in row:
            row[name] = value
        elif row[name] != value:
            row[f"result.{name}"] = value
    return row


def arguments_of(job: PlannedJob, planned: Mapping[str, PlannedJob]) -> dict[str, Any]:
    """The arguments of a job, and those of the jobs it builds on as ``name.option``."""
    own = {name: format_value(value) for name, value in job.arguments.items()}
    for reference in job.references:
        producer = planned[reference.job]
        for name, value in arguments_of(producer, planned).items():
            own[f"{producer.name}.{name}"] = value
    return own


def format_value(value: object) -> Any:
    """An argument as people see it; a reference is a text."""
    if isinstance(value, list):
        return " ".join(str(each) for each in value)
    return str(value) if isinstance(value, Reference) else value
