"""Jobs in processes of this machine: values, failures, lost workers, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import pytest

from codebound.run.errors import UsageError
from codebound.run.job import Job, LocalEngine, open_engine

TOYS = """
import os, signal, time

def square(x): return x * x
def process(): return os.getpid()
def threads(): return os.environ["OMP_NUM_THREADS"]
def fail(text): raise ValueError(text)
def leave(): raise SystemExit("enough")
def die(): os.kill(os.getpid(), signal.SIGKILL)
def end(code): os._exit(code)
def unsendable(): return lambda: None
def sleep(seconds, mark):
    open(mark, "w").write(str(os.getpid()))
    time.sleep(seconds)
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    (tmp_path / "engine_toys.py").write_text(TOYS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def job(name: str, *, cpus: int = 1, **arguments: object) -> Job:
    return Job(function=f"engine_toys:{name}", arguments=arguments, cpus=cpus)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    try:
        state, *numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return False
    return (
        state != "Z" or int(numbers[16]) > 1
    )  # a zombie waits for its parent; threads may outlive it a while


def eventually(condition, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_failures_and_lost_workers_are_results_and_the_engine_goes_on(toys):
    jobs = [
        job("fail", text="no luck"),
        job("leave"),
        job("die"),
        job("end", code=3),
        job("unsendable"),
        job("absent"),
        job("square", x=3),
    ]
    with LocalEngine(1) as engine:
        found = {each.job.function.partition(":")[2]: each for each in engine.as_finished(jobs)}
        (unsent,) = engine.as_finished([job("square", x=lambda: None)])
        assert "importable by name" in unsent.failure.message
        assert [each.value for each in engine.as_finished([job("square", x=4)])] == [16]
    assert found["square"].value == 9
    failures = {name: each.failure for name, each in found.items() if each.failure is not None}
    assert failures.keys() == {"fail", "leave", "die", "end", "unsendable", "absent"}
    assert failures["fail"].message == "ValueError: no luck"
    assert "in fail" in failures["fail"].traceback
    assert "SIGKILL" in failures["die"].message
    assert "exit code 3" in failures["end"].message
    assert "cannot be sent" in failures["unsendable"].message
    assert "absent" in failures["absent"].message


def test_a_script_without_a_guard_ends_with_a_failure_for_each_job(toys):
    (toys / "script.py").write_text(
        "from codebound.run.job import Job, LocalEngine\n"
        "jobs = [Job(function='engine_toys:square', arguments={'x': 'x' * 10**6}) for _ in range(2)]\n"
        "print([each.failure is not None for each in LocalEngine(1).as_finished(jobs)])\n"
    )
    result = subprocess.run(
        [sys.executable, "script.py"], cwd=toys, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.stdout == "[True, True]\n"


def test_workers_are_reused_and_never_more_than_the_limit(toys):
    with LocalEngine(2) as engine:
        first = {each.value for each in engine.as_finished(job("process") for _ in range(8))}
        second = {each.value for each in engine.as_finished(job("process") for _ in range(8))}
    assert len(first | second) <= 2
    assert os.getpid() not in first


def test_a_worker_killed_while_idle_is_replaced(toys):
    with LocalEngine(1) as engine:
        (first,) = engine.as_finished([job("process")])
        os.kill(first.value, signal.SIGKILL)
        assert eventually(lambda: not is_running(first.value))
        (second,) = engine.as_finished([job("process")])
    assert second.failure is None
    assert second.value != first.value


def test_jobs_may_be_added_meanwhile(toys):
    waiting = deque([job("square", x=2)])
    seen = []
    with LocalEngine(2) as engine:
        for finished in engine.as_finished(waiting):
            seen.append(finished.value)
            if finished.value < 1000:
                waiting.append(job("square", x=finished.value))
    assert seen == [4, 16, 256, 65536]


def test_a_job_has_as_many_threads_as_cores(toys):
    with LocalEngine(1) as engine:
        found = [each.value for each in engine.as_finished([job("threads"), job("threads", cpus=3)])]
    assert found == ["1", "3"]


def test_whoever_stops_listening_stops_the_workers(toys):
    mark = toys / "mark"
    with LocalEngine(2) as engine:
        finished = engine.as_finished([job("sleep", seconds=60, mark=str(mark)), job("square", x=1)])
        assert next(finished).value == 1
        assert eventually(lambda: mark.exists() and mark.read_text())
        finished.close()
        assert eventually(lambda: not is_running(int(mark.read_text())))


def test_workers_end_with_their_parent_even_when_it_is_killed(toys):
    mark = toys / "mark"
    script = (
        "from codebound.run.job import Job, LocalEngine\n"
        "if __name__ == '__main__':\n"
        f"    job = Job(function='engine_toys:sleep', arguments={{'seconds': 60, 'mark': {str(mark)!r}}})\n"
        "    list(LocalEngine(1).as_finished([job]))\n"
    )
    (toys / "script.py").write_text(script)
    parent = subprocess.Popen([sys.executable, "script.py"], cwd=toys)
    try:
        assert eventually(lambda: mark.exists() and mark.read_text(), 60)
    finally:
        parent.kill()
        parent.wait()
    assert eventually(lambda: not is_running(int(mark.read_text())))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("slurm", {}, "local or ray"),
        ("local", {"address": "auto"}, "the engine ray"),
        ("local", {"workers": 0}, "at least one worker"),
        ("ray", {"address": "auto", "workers": 2}, "not both"),
    ],
)
def test_wrong_choices_are_refused(kind, options, message):
    with pytest.raises(UsageError, match=message):
        open_engine(kind, **options)


@pytest.mark.parametrize("needs", [{"cpus": 0}, {"gpus": -1}])
def test_a_job_needs_something(needs):
    with pytest.raises(UsageError):
        Job(function="json:dumps", **needs)
