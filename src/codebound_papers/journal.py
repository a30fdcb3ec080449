"""A journal: the finished parts of a long run in one file, so that an interrupted run continues."""

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from codebound.run.errors import CodeboundError, FormatError, UsageError
from codebound.run.files import BusyError, differences, hold_lock, lock_beside, read_json, write_text
from codebound.run.progress import Progress, silent

Value = Mapping[str, Any]

JOURNAL = ".cells.json"
"""Suffix of a journal that lies among other files."""


class OutOfTimeError(CodeboundError):
    """The deadline has passed, and a part is not finished."""


class Journal:
    """Values by name, each on disk as soon as it is computed: an interrupted run continues.

    >>> journal = Journal()
    >>> journal.get("two", lambda: {"value": 2})
    {'value': 2}
    >>> journal.get("two", lambda: {"value": 3})
    {'value': 2}
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        run: Mapping[str, Any] | None = None,
        machine: Mapping[str, Any] | None = None,
        progress: Progress = silent,
        deadline: float = math.inf,
    ) -> None:
        """Takes over what an earlier run left in a file; without a path the values stay in memory.

        ``run`` is what they depend on: a file of another run is refused. ``machine`` is where new ones are
        computed. After the deadline, a moment of ``time.monotonic``, no new value is begun.
        """
        self._path, self._run, self._progress = path, dict(run or {}), progress
        self._machine, self._deadline = dict(machine or {}), deadline
        self._kept: dict[str, dict[str, Any]] = {}
        self._asked: set[str] = set()
        self.left: tuple[str, ...] = ()  # parts that a caller has done without, for want of time
        if path is not None and path.exists():
            self._kept = self._read(path)

    def __contains__(self, name: str) -> bool:
        """Return True if the value of that name is finished."""
        return name in self._kept

    def get(self, name: str, compute: Callable[[], Value]) -> Value:
        """The value of that name, computed if it is new; it must be plain JSON."""
        (value,) = self.get_all({name: compute})
        return value

    def get_all(self, parts: Mapping[str, Callable[[], Value]]) -> list[Value]:
        """The values of those names; what another process works on comes last, and is waited for."""
        left = dict(parts)
        while left:
            busy = [busy for name in parts if name in left and (busy := self._finish(name, left))]
            if busy:
                self._progress(len(self._kept), None, "waiting for another process")
                busy[0].wait(self._deadline)
        return [dict(self._kept[name]["value"]) for name in parts]

    def get_some(self, parts: Mapping[str, Callable[[], Value]]) -> list[Value]:
        """The values of those parts that are finished, or can be in time; ``left`` names the others.

        For a result whose parts are rows that stand alone. Where there are none it is an error.
        """
        try:
            return self.get_all(parts)
        except OutOfTimeError:
            finished = {name: part for name, part in parts.items() if name in self._kept}
            if not finished:
                raise
        self.left += tuple(name for name in parts if name not in finished)
        return self.get_all(finished)

    def _finish(self, name: str, left: dict[str, Callable[[], Value]]) -> BusyError | None:
        """Finishes one of the parts that are left, unless another process works on it."""
        if name not in self._kept:
            if not time.monotonic() < self._deadline:  # negated, so that no number is no time
                raise OutOfTimeError(
                    f"the deadline has passed before the part {name!r} was begun. The same command with a "
                    "later deadline goes on."
                )
            self._progress(len(self._kept), None, name)
            start = time.perf_counter(), time.process_time()
            try:
                computed = left[name]()
            except BusyError as busy:
                return busy
            value = json.loads(json.dumps(computed, allow_nan=False))  # as a later run will read it
            end = time.perf_counter(), time.process_time()
            seconds, cpu_seconds = (round(b - a, 3) for a, b in zip(start, end, strict=True))
            clocks = {"seconds": seconds, "cpu_seconds": cpu_seconds}
            self._kept[name] = {**clocks, "machine": self._machine, "value": value}
            self._save()
        self._asked.add(name)
        del left[name]
        return None

    def total(self, clock: Literal["seconds", "cpu_seconds"]) -> float:
        """Return the total time of the parts that were asked for. On a busy machine the clocks differ."""
        return round(sum(float(self._kept[name][clock]) for name in self._asked), 1)

    def machines(self) -> list[dict[str, Any]]:
        """Return the machines of the requested parts, with the counts and times."""
        counts, seconds = Counter[str](), Counter[str]()
        for part in (part for name, part in self._kept.items() if name in self._asked):
            machine = json.dumps(part["machine"], sort_keys=True)
            counts[machine] += 1
            seconds[machine] += part["seconds"]
        return [
            {**json.loads(machine), "cells": count, "seconds": round(seconds[machine], 1)}
            for machine, count in counts.items()
        ]

    def _save(self) -> None:
        if self._path is not None:
            record = {"run": self._run, "cells": self._kept}
            write_text(self._path, json.dumps(record, indent=0, allow_nan=False) + "\n")

    def _read(self, path: Path) -> dict[str, dict[str, Any]]:
        advice = "Remove it, or choose another folder."
        record = read_json(path, advice=advice)
        try:
            run, parts = dict(record["run"]), dict(record["cells"])
            for part in parts.values():
                float(part["seconds"]), float(part["cpu_seconds"])
                dict(part["machine"]), dict(part["value"])
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"{path} does not hold the finished parts of a run: {error!r}. {advice}"
            ) from error
        if found := differences(run, self._run):
            raise UsageError(
                f"{path} belongs to another run: {'; '.join(found)}. Their parts cannot be mixed. Give the "
                "options of that run, choose another folder, or remove the file."
            )
        return parts


def compute_once(path: Path, name: str, compute: Callable[[], Value]) -> Value:
    """A value of a journal that many processes share; ``BusyError``: another one computes it now."""
    if name in (found := Journal(path)):
        return found.get(name, compute)
    with hold_lock(lock_beside(path), str(path)):
        return Journal(path).get(name, compute)  # read again: another may just have finished it
