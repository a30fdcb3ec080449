"""Runs the jobs of a plan on an engine, each when what it needs is there; what is done is never run again."""

from __future__ import annotations

import time
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING

from codebound.engine.job import Engine, Finished, Job
from codebound.errors import CodeboundError
from codebound.files import make_folder
from codebound.progress import Progress, silent
from codebound.store import locked
from codebound.sweep.jobs import JobFolder, State
from codebound.sweep.merging import Merged, merge, write_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codebound.sweep.plan import PlannedJob

_PATIENCE = 60.0  # seconds in which a file written elsewhere becomes visible: NFS remembers absent ones
_POLL_SECONDS = 0.2


def states(jobs: Sequence[PlannedJob], folder: Path) -> dict[str, State]:
    """How far every job is, by key."""
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

    It may be killed at any time and called again: jobs that are done stay done.

    Args:
        jobs: A plan; jobs come after those that they need.
        folder: Of the sweep; made if need be. On a cluster, all nodes must see it at the same path.
        engine: Where jobs run.
        retry_failed: Whether jobs that failed before run again.
        progress: Told the number of jobs that ended.

    Raises:
        UsageError: Another sweep is running in the folder.
    """
    make_folder(folder)
    with locked(folder / "sweep.lock", f"the sweep in {folder}"):
        known = states(jobs, folder)
        if retry_failed:
            for key in [key for key, state in known.items() if state == "failed"]:
                JobFolder.of(folder, key).reopen()
                known[key] = "waiting"
        _run(jobs, folder, engine, known=known, progress=progress)
        merged = merge(jobs, folder)
        write_table(merged, folder)
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
            if _settled(finished, job, folder):
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
        function="codebound.sweep.jobs:run_job",
        arguments={
            "job": job.record(),
            "function": job.verb.function,
            "is_resumable": job.verb.is_resumable,
            "folder": str(folder.absolute()),
        },
        cpus=job.cpus,
        gpus=job.gpus,
    )


def _settled(finished: Finished, job: PlannedJob, folder: Path) -> bool:
    """Whether a job is done; the failure of one that is not is written into its folder."""
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
