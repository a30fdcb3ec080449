"""A job of a sweep: its folder, and how a worker runs it, as often as need be and to its end once.

``jobs/KEY/`` belongs to one job; ``output/`` in it is what the command wrote. ``result.json`` comes last, in
one step: with it the job is done or failed, without it the job is unfinished, whatever else is there.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from codebound.run.errors import CodeboundError, FormatError
from codebound.run.extensions import import_named
from codebound.run.files import (
    hold_lock,
    make_folder,
    named_sha256,
    read_json,
    source_sha256,
    versions,
    write_json,
    write_text,
)

State = Literal["done", "failed", "waiting"]

_RESULT = "result.json"
_PATIENCE = 20.0  # seconds for a process of an earlier attempt to be gone


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The folder of one job."""

    path: Path  # the folder; absolute, because reports and rows are read from anywhere

    @classmethod
    def of(cls, sweep: Path, key: str) -> JobFolder:
        """The folder of a job in that of a sweep."""
        return cls(sweep.absolute() / "jobs" / key)

    @property
    def output(self) -> Path:
        """Folder that the command writes to."""
        return self.path / "output"

    @property
    def traceback(self) -> Path:
        """File with the traceback of a job that failed."""
        return self.path / "traceback.txt"

    def result(self) -> dict[str, Any] | None:
        """Return the result of the job, or None as long as it is unfinished."""
        path = self.path / _RESULT
        if not path.exists():
            return None
        record = read_json(path, advice="Remove its folder to run the job again.")
        kinds = {"row": dict, "timings": dict, "error": str}
        is_sound = all(isinstance(record.get(name, kind()), kind) for name, kind in kinds.items())
        is_ended = "error" in record or {"row", "timings"} <= record.keys()
        if record.get("job") != self.path.name or not (is_sound and is_ended):
            raise FormatError(f"{path} is not the result of this job. Remove {self.path} to run it again.")
        return record

    def state(self) -> State:
        """Return the state of the job: done, failed, or still to run."""
        record = self.result()
        return "waiting" if record is None else "failed" if "error" in record else "done"

    def finish(self, record: dict[str, Any], *, traceback: str = "") -> None:
        """Ends the job: after this it is done or failed."""
        make_folder(self.path)
        if traceback:
            write_text(self.traceback, traceback)
        write_json(self.path / _RESULT, record)

    def reopen(self) -> None:
        """Makes a failed job one that is still to run."""
        (self.path / _RESULT).unlink(missing_ok=True)
        self.traceback.unlink(missing_ok=True)


def run_job(
    *, job: Mapping[str, Any], function: str, options: Mapping[str, Any], is_resumable: bool, folder: str
) -> None:
    """Runs a planned job by its record, if it is unfinished; one that is done or failed is left as it is."""
    if job["versions"] != versions():
        raise CodeboundError(
            f"this worker has {versions()}, the sweep {job['versions']}. Install the same versions on every "
            "node."
        )
    place = JobFolder.of(Path(folder), job["job"])
    with hold_lock(place.path / "lock", f"job {place.path.name}", patience=_PATIENCE):
        if place.result() is not None:
            return
        _check_inputs(job)
        if place.output.exists() and not is_resumable:
            shutil.rmtree(place.output)
        start = time.perf_counter(), time.process_time()
        found = import_named(function)(options, out=place.output)
        result = json.loads(json.dumps(found, allow_nan=False))  # as its file has it
        seconds, cpu_seconds = time.perf_counter() - start[0], time.process_time() - start[1]
        row, timings = row_of(result, hidden=str(Path(folder).absolute()))
        timings = {"seconds": round(seconds, 3), "cpu_seconds": round(cpu_seconds, 3), **timings}
        place.finish({**job, "row": row, "timings": timings})


def _check_inputs(job: Mapping[str, Any]) -> None:
    """Refuses content that is not what the key of the job was made from."""
    for name, digest in job["inputs"].items():
        value = job["arguments"][name]
        if named_sha256(value, source_sha256) != digest:
            raise CodeboundError(
                f"{name} = {value!r} is not what it was when the sweep began: it has changed since, or this "
                "node has another one. Run the sweep again, with the same files on all nodes."
            )


def row_of(result: Mapping[str, Any], *, hidden: str) -> tuple[dict[str, Any], dict[str, float]]:
    """A result as one flat row, and its timings apart, since these are never the same twice.

    Values inside others are named by their path, those in a list by the name of its element; other lists,
    texts that hold the folder ``hidden``, and how to verify are left to the files of the job.

    >>> row_of({"bound": 0.3, "seconds": 1.5, "layers": [{"name": "fc", "rank": 2}]}, hidden="/tmp/s")
    ({'bound': 0.3, 'layers.fc.rank': 2}, {'result.seconds': 1.5})
    """
    row: dict[str, Any] = {}
    timings: dict[str, float] = {}
    own_files = re.compile(re.escape(hidden) + r"[^ ,()]*/output/")
    for path, value in _leaves(result):
        name = own_files.sub("", path)
        if name.rpartition(".")[2] == "seconds" or name.endswith("_seconds"):
            timings[f"result.{name}"] = value
        elif not (name.startswith("verify") or (isinstance(value, str) and hidden in value)):
            row[name] = value
    return row, timings


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, Mapping) and isinstance(each.get("name"), str):
                inside = {key: part for key, part in each.items() if key != "name"}
                yield from _leaves(inside, f"{name}.{each['name']}")
    else:
        yield name, value
