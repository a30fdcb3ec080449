"""Sweeps of toy jobs: each ends once, whatever is killed in between, and the table holds them all."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from codebound.run.errors import CodeboundError, FormatError, UsageError
from codebound.run.files import hold_lock, versions
from codebound.run.job import LocalEngine
from codebound_papers.sweep.execution import execute, merge, states
from codebound_papers.sweep.grid import PlannedVerb, plan_jobs
from codebound_papers.sweep.jobs import run_job

TOYS = """
import os, pathlib, time

def note(text):
    with open("log", "a") as file: file.write(text + "\\n")

def make(arguments, *, out):
    return work("make", arguments, out)

def use(arguments, *, out):
    return work("use", arguments, out)

def work(verb, arguments, out):
    name = f"{verb} {arguments['x']}"
    note("start " + name)
    if verb == "make" and out.exists(): note("resumed " + name)
    out.mkdir(exist_ok=verb == "make")
    (out / "half").write_text("")
    time.sleep(arguments.get("sleep", 0))
    if os.path.exists(f"broken {arguments['x']}"): raise ValueError("broken on purpose")
    if os.path.exists(f"deadly {arguments['x']}"): os._exit(7)
    value = arguments["x"] ** 2
    if "source" in arguments: value += int(pathlib.Path(arguments["source"]).read_text())
    (out / "value").write_text(str(value))
    note("end " + name)
    return {"value": value, "seconds": time.perf_counter(), "out": str(out), "part": {"half": value / 2}}
"""
OPTIONS = frozenset({"x", "y", "sleep", "source"})
VERBS = {
    "make": PlannedVerb(
        name="make", function="sweep_toys:make", options=OPTIONS, weights="value", is_resumable=True
    ),
    "use": PlannedVerb(name="use", function="sweep_toys:use", options=OPTIONS, files=frozenset({"source"})),
}
PLAN = {
    "grid": {"x": [1, 2, 3]},
    "jobs": [{"verb": "make"}, {"verb": "use", "source": "@make"}],
}
SCRIPT = """
import json, sys
from pathlib import Path
from codebound.run.job import LocalEngine
from codebound_papers.sweep.grid import PlannedVerb
from codebound_papers.sweep.execution import execute
from codebound_papers.sweep.grid import plan_jobs

if __name__ == "__main__":
    options = frozenset({"x", "y", "sleep", "source"})
    verbs = {
        name: PlannedVerb(name=name, function=f"sweep_toys:{name}", options=options, weights="value",
                   files=frozenset({"source"}), is_resumable=name == "make")
        for name in ("make", "use")
    }
    with LocalEngine(2) as engine:
        execute(plan_jobs(json.loads(sys.argv[1]), verbs), Path("sweep"), engine=engine)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "sweep_toys.py").write_text(TOYS)
    monkeypatch.chdir(tmp_path)
    return Path("sweep")


@pytest.fixture(scope="module")
def shared_engine():
    with LocalEngine(2) as engine:
        yield engine


@pytest.fixture
def engine(folder):
    with LocalEngine(2) as engine:  # its workers start in the folder of the test
        yield engine


def log(kind):
    lines = Path("log").read_text().splitlines() if Path("log").exists() else []
    return Counter(line.partition(" ")[2] for line in lines if line.startswith(kind + " "))


def test_every_job_has_a_row_and_runs_once(folder, engine):
    jobs = plan_jobs(PLAN, VERBS)
    merged = execute(jobs, folder, engine=engine)
    assert [(row["verb"], row["x"], row["value"]) for row in merged.rows] == [
        ("make", 1, 1), ("use", 1, 2), ("make", 2, 4), ("use", 2, 8), ("make", 3, 9), ("use", 3, 18)
    ]  # fmt: skip
    assert not merged.failed
    again = execute(jobs, folder, engine=engine)
    assert again == merged
    assert set(log("start").values()) == {1}


def test_rows_are_flat_and_hold_neither_times_nor_paths(folder, engine):
    merged = execute(plan_jobs(PLAN, VERBS), folder, engine=engine)
    used = next(row for row in merged.rows if row["verb"] == "use")
    made = next(row for row in merged.rows if row["verb"] == "make")
    assert used == {
        "job": used["job"],
        "name": "use",
        "verb": "use",
        "x": 1,
        "source": f"@{made['job']}/value",
        "make.x": 1,
        "value": 2,
        "part.half": 1.0,
    }
    assert merged.timings[used["job"]].keys() == {"seconds", "cpu_seconds", "result.seconds"}
    record = json.loads((folder / "rows.json").read_text())
    assert record["rows"] == list(merged.rows)
    with (folder / "rows.csv").open() as file:
        assert [row["value"] for row in csv.DictReader(file)] == ["1", "2", "4", "8", "9", "18"]


def test_what_an_argument_and_a_result_both_call_by_one_name_is_kept_twice(folder, engine):
    (folder.parent / "sweep_clash.py").write_text("def work(arguments, *, out): return {'x': 5, 'y': 6}\n")
    verbs = {"v": PlannedVerb(name="v", function="sweep_clash:work", options=frozenset({"x", "y"}))}
    (row,) = execute(plan_jobs({"jobs": [{"verb": "v", "x": 1, "y": 6}]}, verbs), folder, engine=engine).rows
    assert (row["x"], row["result.x"], row["y"]) == (1, 5, 6)
    assert "result.y" not in row


def test_failures_are_listed_kept_and_retried_only_when_asked(folder, engine):
    jobs = plan_jobs(PLAN, VERBS)
    Path("broken 2").touch()
    Path("deadly 3").touch()
    merged = execute(jobs, folder, engine=engine)
    assert [row["x"] for row in merged.rows] == [1, 1]
    errors = {(each.job.verb.name, each.job.arguments["x"]): each.error for each in merged.failed}
    assert errors.keys() == {("make", 2), ("use", 2), ("make", 3), ("use", 3)}
    assert errors["make", 2] == "ValueError: broken on purpose"
    assert "exit code 7" in errors["make", 3]
    assert "which failed" in errors["use", 2]
    broken = next(each for each in merged.failed if each.job.arguments["x"] == 2)
    assert "in work" in broken.traceback.read_text()

    Path("broken 2").unlink()
    Path("deadly 3").unlink()
    assert execute(jobs, folder, engine=engine) == merged
    assert log("start")["make 2"] == 1
    whole = execute(jobs, folder, engine=engine, retry_failed=True)
    assert not whole.failed
    assert len(whole.rows) == 6
    assert log("end") == {f"{verb} {x}": 1 for verb in ("make", "use") for x in (1, 2, 3)}
    assert not list(folder.rglob("traceback.txt"))


@pytest.mark.thorough
def test_kill_9_in_the_middle_and_nothing_ends_twice(folder, tmp_path):
    plan = {**PLAN, "grid": {"x": [1, 2, 3, 4]}, "defaults": {"sleep": 0.4}}
    (tmp_path / "script.py").write_text(SCRIPT)
    parent = subprocess.Popen([sys.executable, "script.py", json.dumps(plan)], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # until one has ended, and another is in its middle
            if 0 < log("end").total() < log("start").total():
                break
            time.sleep(0.02)
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    jobs = plan_jobs(plan, VERBS)
    before = states(jobs, folder)
    assert "waiting" in before.values()
    with LocalEngine(2) as engine:
        merged = execute(jobs, folder, engine=engine)
    assert [row["value"] for row in merged.rows] == [1, 2, 4, 8, 9, 18, 16, 32]
    started = log("start")
    for job in jobs:
        if before[job.key] == "done":
            assert started[f"{job.verb.name} {job.arguments['x']}"] == 1
    assert sum(started.values()) > len(jobs)  # the kill met a job in its middle


def test_a_job_goes_on_where_its_command_can_and_starts_anew_where_it_cannot(folder):
    for job in plan_jobs({"jobs": [{"verb": "make", "x": 1}, {"verb": "use", "x": 1}]}, VERBS):
        half = folder / "jobs" / job.key / "output" / "half"
        half.parent.mkdir(parents=True)
        half.write_text("")
        arguments = {
            "job": job.record(),
            "function": job.verb.function,
            "options": job.options(str),
            "is_resumable": job.verb.is_resumable,
            "folder": str(folder),
        }
        run_job(**arguments)
        run_job(**arguments)  # a second call finds the result
    assert log("resumed") == {"make 1": 1}
    assert log("start") == {"make 1": 1, "use 1": 1}


def test_two_sweeps_in_one_folder_are_refused(folder, shared_engine):
    folder.mkdir()
    with (
        hold_lock(folder / "sweep.lock", "the sweep"),
        pytest.raises(UsageError, match=f"process {os.getpid()}"),
    ):
        execute(plan_jobs(PLAN, VERBS), folder, engine=shared_engine)
    with hold_lock(folder / "sweep.lock", "the sweep"):
        pass  # free again


def test_rows_of_another_version_are_refused(folder, engine, monkeypatch):
    jobs = plan_jobs({"jobs": [{"verb": "make", "x": 1}]}, VERBS)
    execute(jobs, folder, engine=engine)
    path = folder / "jobs" / jobs[0].key / "result.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "versions": versions().replace("torch ", "torch 9")}))
    with pytest.raises(CodeboundError, match=r"torch 9.*do not mix"):
        merge(jobs, folder)


def test_a_worker_of_another_version_refuses_the_job(folder):
    (job,) = plan_jobs({"jobs": [{"verb": "make", "x": 1}]}, VERBS)
    record = {**job.record(), "versions": "codebound 0.0.9"}
    with pytest.raises(CodeboundError, match=f"this worker has {re.escape(versions())}"):
        run_job(job=record, function=job.verb.function, options={}, is_resumable=True, folder=str(folder))


@pytest.mark.parametrize("content", ["{", "{}", '{"job": "0", "row": {}}', "[]"])
def test_a_damaged_result_is_named(folder, content):
    jobs = plan_jobs({"jobs": [{"verb": "make", "x": 1}]}, VERBS)
    path = folder / "jobs" / jobs[0].key / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(FormatError, match=r"result\.json"):
        states(jobs, folder)


class _Elsewhere:
    """An engine whose nodes see another disk: jobs end, their results are not here."""

    slots = 1

    def as_finished(self, jobs):
        from codebound.run.job import Finished

        while jobs:
            yield Finished(jobs.popleft())


def test_a_folder_that_nodes_do_not_share_is_noticed(folder, monkeypatch):
    monkeypatch.setattr(sys.modules["codebound_papers.sweep.execution"], "_PATIENCE", 0.3)
    with pytest.raises(CodeboundError, match="does not share"):
        execute(plan_jobs(PLAN, VERBS), folder, engine=_Elsewhere())


class _Late(_Elsewhere):
    """An engine of a shared disk that shows files some time after they were written."""

    def as_finished(self, jobs):
        from codebound.run.job import Finished, call

        while jobs:
            job = jobs.popleft()
            threading.Timer(0.1, call, [job]).start()
            yield Finished(job)


@pytest.mark.thorough
def test_a_result_that_becomes_visible_late_is_waited_for(folder, monkeypatch):
    monkeypatch.setattr("codebound.run.job.use_threads", lambda count: None)  # this is no worker
    merged = execute(plan_jobs(PLAN, VERBS), folder, engine=_Late())
    assert [row["value"] for row in merged.rows] == [1, 2, 4, 8, 9, 18]


class _LosingAfterwards(_Elsewhere):
    """An engine whose workers are killed right after they have written the result."""

    def as_finished(self, jobs):
        from codebound.run.job import Failure, Finished, call

        while jobs:
            job = jobs.popleft()
            yield Finished(job, call(job)[0], Failure("killed"))


def test_a_worker_that_dies_after_its_result_costs_nothing(folder, monkeypatch):
    monkeypatch.setattr("codebound.run.job.use_threads", lambda count: None)
    merged = execute(plan_jobs(PLAN, VERBS), folder, engine=_LosingAfterwards())
    assert not merged.failed
    assert len(merged.rows) == 6


def test_a_file_that_changed_after_the_plan_was_read_is_refused(folder, engine, tmp_path):
    source = tmp_path / "source"
    source.write_text("10")
    jobs = plan_jobs({"jobs": [{"verb": "use", "x": 1, "source": "source"}]}, VERBS)
    source.write_text("20")
    (failed,) = execute(jobs, folder, engine=engine).failed
    assert "source = 'source' is not what it was" in failed.error
    source.write_text("10")
    (row,) = execute(jobs, folder, engine=engine, retry_failed=True).rows
    assert row["value"] == 11


def test_a_folder_that_cannot_be_made_is_named(folder, shared_engine):
    folder.write_text("a file")
    with pytest.raises(UsageError, match="cannot be made"):
        execute(plan_jobs(PLAN, VERBS), folder, engine=shared_engine)
