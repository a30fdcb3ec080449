"""The rows of all jobs that are done, as one table."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codebound.errors import CodeboundError
from codebound.files import write_json, write_text
from codebound.store import versions
from codebound.sweep.jobs import JobFolder
from codebound.sweep.plan import PlannedJob, Reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Failed:
    """A job without a row.

    Attributes:
        job: The job.
        error: What it raised, or which failed job it needed.
        traceback: The file with the whole traceback; None where nothing was raised.
    """

    job: PlannedJob
    error: str
    traceback: Path | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """The table of a sweep.

    Attributes:
        rows: One flat row per job that is done, in the order of the plan: job, name, verb, arguments, those
            of the jobs it builds on as ``name.option``, and what it found. They depend on the plan alone.
        timings: Seconds by job; these differ from run to run.
        failed: Jobs that failed, and jobs that needed them.
        waiting: Jobs that have not run.
    """

    rows: tuple[dict[str, Any], ...]
    timings: Mapping[str, Mapping[str, float]]
    failed: tuple[Failed, ...]
    waiting: int

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


def merge(jobs: Sequence[PlannedJob], folder: Path) -> Merged:
    """Reads what the jobs of a plan left in the folder of a sweep.

    Raises:
        CodeboundError: Some were run by other versions of the software; such rows cannot be compared.
    """
    planned = {job.key: job for job in jobs}
    rows, timings, failed, waiting = [], {}, [], 0
    failures: dict[str, str] = {}
    for job in jobs:
        place = JobFolder.of(folder, job.key)
        result = place.result()
        blocked = next((each.job for each in job.references if each.job in failures), None)
        if result is None and blocked is None:
            waiting += 1
            continue
        if result is None and blocked is not None:
            failures[job.key] = f"needs job {planned[blocked].label}, which failed"
            failed.append(Failed(job, failures[job.key]))
            continue
        assert result is not None
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


def write_table(merged: Merged, folder: Path) -> tuple[Path, Path]:
    """Writes ``rows.json`` and ``rows.csv``, and says where."""
    whole, table = folder / "rows.json", folder / "rows.csv"
    write_json(whole, merged.record())
    text = io.StringIO()
    columns = list(dict.fromkeys(name for row in merged.rows for name in row))
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(merged.rows)
    write_text(table, text.getvalue())
    return whole, table


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
    own = {name: shown(value) for name, value in job.arguments.items()}
    for reference in job.references:
        producer = planned[reference.job]
        for name, value in arguments_of(producer, planned).items():
            own[f"{producer.name}.{name}"] = value
    return own


def shown(value: object) -> Any:
    """An argument as people see it; a reference is a text."""
    if isinstance(value, list):
        return " ".join(str(each) for each in value)
    return str(value) if isinstance(value, Reference) else value
