"""A plan of real commands: the same rows on both engines, and on a cluster that loses a node."""

import json
import threading
import time
from collections import Counter

import pytest
from typer.testing import CliRunner

from codebound.cli.main import app
from codebound.run.errors import CodeboundError
from codebound.run.job import Job
from codebound_papers.sweep.cluster import RayEngine
from codebound_papers.sweep.execution import execute, states
from codebound_papers.sweep.grid import PlannedVerb, plan_jobs
from codebound_verify.__main__ import main as verify_main

PLAN = """
[defaults]
data = "digits"
holdout = 0.2
model = "linear"

[grid]
seed = [0, 1]

[[jobs]]
verb = "train"
epochs = 2

[[jobs]]
verb = "certify"
network = "@train"
method = "naive"
effort = "quick"

[[jobs]]
verb = "compress"
network = "@train"
method = "naive"

[[jobs]]
verb = "measure"
network = "@train"
families = "spectra,margins"
examples = 50
"""
TOYS = """
import time

def note(text):
    with open("log", "a") as file: file.write(text + "\\n")

def work(arguments, *, out):
    note(f"start {arguments['x']}")
    time.sleep(arguments["sleep"])
    note(f"end {arguments['x']}")
    return {"value": arguments["x"] ** 2}
"""


@pytest.fixture
def run(codebound, empty_folder):
    def sweep(*arguments):
        code, out, err = codebound("sweep", "plan.toml", "-q", "--format", "json", *arguments)
        assert code == 0, err
        return json.loads(out)

    return sweep


@pytest.mark.thorough
def test_commands_become_rows(run, tmp_path, capsys, monkeypatch):
    (tmp_path / "plan.toml").write_text(PLAN.replace("seed = [0, 1]", "seed = [0]"))
    record = run("--workers", "1", "--out", "s")
    assert [row["verb"] for row in record["rows"]] == ["train", "certify", "compress", "measure"]
    train, certify, compress, measure = record["rows"]
    assert certify["original_errors"] == train["train_errors"]  # the weights that were trained
    assert certify["train.epochs"] == 2
    assert compress["accuracy_before"] == pytest.approx(1.0 - train["test_error"])
    assert measure["layers.linear1.frobenius_norm"] > 0
    output = tmp_path / "s" / "jobs"
    (certificate,) = output.rglob("certificate.cbound")
    command = json.loads((certificate.parent / "result.json").read_text())["verify"].split()
    monkeypatch.chdir(certificate.parent)
    verify_main(command[1:])
    assert capsys.readouterr().out.startswith("ACCEPT")  # the command in the report works where it is


@pytest.mark.slow
def test_both_engines_give_the_same_rows(run, tmp_path):
    pytest.importorskip("ray")
    (tmp_path / "plan.toml").write_text(PLAN)
    local = run("--workers", "2", "--out", "local")
    ray = run("--workers", "2", "--out", "ray", "--engine", "ray")
    assert len(local["rows"]) == 8
    assert local["rows"] == ray["rows"]


@pytest.mark.slow
def test_a_node_that_is_lost_costs_no_row(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    (tmp_path / "cluster_toys.py").write_text(TOYS)
    monkeypatch.chdir(tmp_path)
    verb = PlannedVerb(name="work", function="cluster_toys:work", options=frozenset({"x", "sleep"}))
    plan = {"grid": {"x": list(range(10))}, "jobs": [{"verb": "work", "sleep": 3}]}
    jobs = plan_jobs(plan, {"work": verb})
    folder, done = tmp_path / "sweep", set()  # what has a result when the node is lost must not run again
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=2) for _ in range(2)]
        cluster.wait_for_nodes()

        def kill() -> None:
            log = tmp_path / "log"
            while not (log.exists() and log.read_text().count("start") >= 5):  # both nodes are at work
                time.sleep(0.05)
            time.sleep(1.0)  # and in the middle of it: who is about to end outlives its node
            done.update(path.parent.name for path in folder.glob("jobs/*/result.json"))
            cluster.remove_node(nodes[0], allow_graceful=False)

        killer = threading.Thread(target=kill, daemon=True)
        with RayEngine(cluster.address) as engine:
            killer.start()
            merged = execute(jobs, folder, engine=engine)
            killer.join(timeout=30)
            cluster.remove_node(nodes[1], allow_graceful=False)
            with pytest.raises(CodeboundError, match="no node of the cluster"):  # and no waiting for ever
                list(engine.as_finished([Job(function="cluster_toys:note", arguments={"text": "late"})]))
    finally:
        cluster.shutdown()
    assert [row["value"] for row in merged.rows] == [x * x for x in range(10)]
    assert not merged.failed
    lines = Counter((tmp_path / "log").read_text().splitlines())
    assert [x for x, job in enumerate(jobs) if job.key in done and lines[f"end {x}"] != 1] == []
    assert min(lines[f"end {x}"] for x in range(10)) == 1
    assert sum(lines[f"start {x}"] for x in range(10)) > 10  # a job was lost with the node and ran again
    assert set(states(jobs, folder).values()) == {"done"}


CERTIFY = ("certify", "digits", "--model", "linear", "--method", "naive", "--run", "effort=quick")


@pytest.fixture(params=["local", "ray"])
def engine(request):
    if request.param == "ray":
        pytest.importorskip("ray")
    return request.param


@pytest.mark.slow
def test_certify_counts_the_same_on_an_engine(tmp_path, monkeypatch, engine):
    monkeypatch.chdir(tmp_path)
    here, there = (
        json.loads(CliRunner().invoke(app, (*CERTIFY, "--format", "json", "-q", *more)).stdout)
        for more in ((), ("--run", f"engine={engine}", "--run", "workers=2"))
    )
    assert [here[name] for name in ("bound", "errors", "code_bits")] == [
        there[name] for name in ("bound", "errors", "code_bits")
    ]


@pytest.mark.slow
def test_measure_finds_the_same_on_an_engine(tmp_path, monkeypatch, engine):
    monkeypatch.chdir(tmp_path)
    measure = (
        "measure",
        "--model",
        "mlp:widths=16",
        "--data",
        "digits",
        "--examples",
        "200",
        "--format",
        "json",
    )
    here, there = (
        json.loads(CliRunner().invoke(app, (*measure, "-q", "--device", "cpu", *more)).stdout)
        for more in ((), ("--engine", engine, "--workers", "2"))
    )
    assert here["margins"] == there["margins"]
    assert here["network"] == there["network"]
    assert here["layers"] == there["layers"]


@pytest.mark.parametrize("alone", ["workers=2", "address=auto"])
def test_certify_refuses_workers_without_an_engine(alone):
    refused = CliRunner().invoke(app, (*CERTIFY, "--run", alone))
    assert "an engine" in str(refused.exception)
