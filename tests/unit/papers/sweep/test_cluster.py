"""Jobs on Ray, for real: one node of this machine."""

import socket
import sys
from threading import Lock

import numpy as np
import pytest
from torch import nn

from codebound.certificate.evaluate import count_errors
from codebound.run.errors import CodeboundError
from codebound.run.job import Job
from codebound.sample.dataset import Sample
from codebound_papers.sweep.cluster import RayEngine

TOYS = """
import os

def square(x): return x * x
def folder(): return os.getcwd()
def lost_once(log):
    if not os.path.exists(log):
        open(log, "w").close()
        os.kill(os.getpid(), 9)
    return "ran again"
def fail(log):
    with open(log, "a") as file: file.write("x")
    raise ValueError("no luck")
"""


class Unreadable:
    """Cannot be made again where it arrives."""

    def __reduce__(self):
        return int, ("no number",)


def counts_on_one_sample(engine, monkeypatch):
    """Networks are counted on parts of a sample that were sent once, and on another sample when it is one."""
    sent, put = [], engine._ray.put
    monkeypatch.setattr(engine._ray, "put", lambda value: sent.append(value) or put(value))
    random = np.random.default_rng(0)
    x, y = random.normal(size=(50, 3)).astype(np.float32), random.integers(0, 2, size=50)
    sample, other = (Sample("s", "train", x, labels, 2).on("cpu") for labels in (y, 1 - y))
    for network in (nn.Linear(3, 2), nn.Linear(3, 2)):
        for data in (sample, other, sample):
            assert count_errors(network, data, engine=engine) == count_errors(network, data)
    assert [part.n for part in sent] == [50, 50]


@pytest.mark.thorough
def test_values_failures_and_the_folder(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    (tmp_path / "ray_toys.py").write_text(TOYS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("codebound_papers.sweep.cluster._SILENCE_SECONDS", 0.5)
    log = tmp_path / "log"
    jobs = [Job(function="ray_toys:square", arguments={"x": x}) for x in range(6)]
    lost = str(tmp_path / "lost")
    jobs += [Job(function="ray_toys:lost_once", arguments={"log": lost})]
    jobs += [Job(function="ray_toys:folder"), Job(function="ray_toys:fail", arguments={"log": str(log)})]
    with RayEngine(workers=1) as engine:
        assert engine.slots == 1
        found = list(engine.as_finished(jobs))
        counts_on_one_sample(engine, monkeypatch)
        (unsendable,) = engine.as_finished([Job(function="ray_toys:square", arguments={"x": Lock()})])
        (unreadable,) = engine.as_finished([Job(function="ray_toys:square", arguments={"x": Unreadable()})])
        with pytest.raises(CodeboundError, match="no node of the cluster has the 1 cores and 1 GPUs"):
            list(engine.as_finished([Job(function="ray_toys:square", arguments={"x": 1}, gpus=1)]))
    for each in (unsendable, unreadable):
        assert each.failure is not None
        assert "cannot be sent to or from a worker" in each.failure.message
    by_job = {id(each.job): each for each in found}
    values = [by_job[id(job)].value for job in jobs]
    assert values == [0, 1, 4, 9, 16, 25, "ran again", str(tmp_path), None]
    failure = by_job[id(jobs[-1])].failure
    assert failure is not None
    assert failure.message == "ValueError: no luck"
    assert "in fail" in failure.traceback
    assert log.read_text() == "x"  # what a job raises is no reason to run it again


def test_without_ray_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(CodeboundError, match=r"pip install 'codebound\[ray\]'"):
        RayEngine()


@pytest.mark.thorough
def test_an_address_where_nothing_answers_fails_at_once():
    pytest.importorskip("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(CodeboundError, match="ray start --head"):
        RayEngine(f"127.0.0.1:{port}")
