"""Commands as jobs: their options, and values of the wrong kind."""

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from codebound.cli.certify import command
from codebound.cli.options import KEYS
from codebound.run.errors import UsageError
from codebound_papers.sweep.execution import _engine_job
from codebound_papers.sweep.grid import plan_jobs
from codebound_papers.sweep.verbs import complete_options, list_verbs


def test_options_are_those_of_the_command_line_without_what_the_sweep_decides():
    known = list_verbs()
    assert {"train", "compress", "certify", "measure"} <= set(known)
    assert {"model", "data", "network", "seed", "epochs", "batch_size"} <= known["train"].options
    assert {"model", "network", "method", "set"} <= known["compress"].options
    for verb in known.values():
        assert not {"out", "format", "quiet", "list", "engine", "workers", "address"} & verb.options
        assert "network" in verb.files
        assert {"model", "data"} <= verb.sources
    assert "over" not in known["compare"].options


@pytest.mark.parametrize(
    ("verb", "given", "expected"),
    [
        (
            "certify",
            {"data": "digits", "network": "a/b", "share": 0.5, "scores": ["s.npy"], "delta": 1},
            {"data": "digits", "weights": Path("a/b"), "share": 0.5, "scores": [Path("s.npy")], "delta": 1.0},
        ),
        ("train", {"model": "mlp", "data": "x", "lr": 1}, {"arch": "mlp", "lr": 1.0}),
    ],
)
def test_values_become_what_the_function_takes(verb, given, expected):
    found = complete_options(verb, given)
    assert {name: found[name] for name in expected} == expected


def test_what_a_plan_leaves_out_is_as_the_command_has_it():
    """But for what the sweep decides, which no function of a job asks for."""
    found = complete_options("certify", {"data": "digits", "delta": 0.01})
    declared = {each.name: each.default for each in inspect.signature(command).parameters.values()}
    assert declared.keys() - found.keys() == {"out", "output", "quiet", "verbose", *KEYS}
    for keys in KEYS.values():
        declared |= {key.replace("-", "_"): each.default for key, each in keys.items()}
    assert declared.keys() - found.keys() >= {"engine", "workers", "address"}
    assert found == {name: declared[name] for name in found} | {"data": "digits", "delta": 0.01}


@pytest.mark.thorough
def test_a_worker_needs_no_command_line(tmp_path):
    """All that it is sent is plain, and the function that it calls is of the library."""
    code = (
        "import pickle, sys; from codebound.run.job import call\n"
        "value, failure = call(pickle.loads(sys.stdin.buffer.read())); assert failure is None, failure\n"
        "print([name for name in sys.modules if name.startswith(('codebound.cli.options', 'typer'))])"
    )
    table = {"jobs": [{"verb": "train", "model": "linear", "data": "digits", "epochs": 1}]}
    (job,) = plan_jobs(table, list_verbs())
    sent = pickle.dumps(_engine_job(job, tmp_path))
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert done.stdout.split() == [b"[]"]
    assert (tmp_path / "jobs" / job.key / "output" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("verb", "arguments", "message"),
    [
        ("certify", {"model": "linear"}, "certify needs data"),
        ("train", {"data": "digits"}, "train needs model"),
        ("train", {"model": "linear", "data": "digits", "epochs": "many"}, "epochs is a whole number"),
        ("train", {"model": "linear", "data": "digits", "epochs": True}, "epochs is a whole number"),
        ("train", {"model": "linear", "data": 3}, "data is a text"),
        ("certify", {"model": "linear", "data": "digits", "delta": "5%"}, "delta is a number"),
        ("certify", {"model": "linear", "data": "digits", "scores": "s.npy"}, "list of values"),
        ("compress", {"model": "linear", "method": "naive", "set": "density=0.1"}, "list of values"),
        ("compress", {"model": "linear", "method": "naive", "examples": 0}, "outside its range"),
    ],
)
def test_wrong_values_are_named(verb, arguments, message):
    with pytest.raises(UsageError, match=message):
        complete_options(verb, arguments)
