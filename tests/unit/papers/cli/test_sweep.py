"""``codebound sweep`` on toy jobs: tables, exit codes, and what is shown without running anything."""

import csv
import io
import json

import pytest
from typer.testing import CliRunner

from codebound.cli.main import app
from codebound_papers.cli.sweep import _cell
from codebound_papers.sweep.grid import PlannedVerb

TOYS = """
def work(arguments, *, out):
    if arguments["x"] == 3 and arguments.get("careful", True): raise ValueError("three is refused")
    return {"value": arguments["x"] ** 2 / 3, "note": str(out)}
"""
PLAN = """
[defaults]
y = 1
[grid]
x = [1, 2, 3]
[[jobs]]
verb = "square"
"""


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    (tmp_path / "cli_toys.py").write_text(TOYS)
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    square = PlannedVerb(
        name="square",
        function="cli_toys:work",
        options=frozenset({"x", "y"}),
        columns=("value",),
    )
    monkeypatch.setattr("codebound_papers.sweep.verbs.list_verbs", lambda: {"square": square})
    return lambda *arguments: CliRunner().invoke(app, ("sweep", "plan.toml", "--workers", "1", *arguments))


@pytest.mark.thorough
def test_the_table_has_what_varies_and_what_was_found(sweep):
    result = sweep()
    assert result.exit_code == 1
    header, first, second = (result.stdout.splitlines()[line] for line in (2, 4, 5))
    assert header.split() == ["job", "x", "value"]
    assert (first.split()[1:], second.split()[1:]) == (["1", "0.3333"], ["2", "1.333"])
    assert "3 jobs in runs/sweep-plan: 0 done, 0 failed, 3 to run." in result.stderr
    assert "ValueError: three is refused" in result.stderr
    assert "traceback.txt" in result.stderr
    assert "--retry-failed" in result.stderr


def test_a_second_run_only_reads_and_a_retry_mends(sweep, tmp_path):
    sweep("-q")
    again = sweep()
    assert again.exit_code == 1
    assert "2 done, 1 failed, 0 to run" in again.stderr
    (tmp_path / "cli_toys.py").write_text(TOYS.replace("three", "nothing").replace("== 3", "== 99"))
    mended = sweep("--retry-failed", "--format", "csv")
    assert mended.exit_code == 0
    assert [row["x"] for row in csv.DictReader(io.StringIO(mended.stdout))] == ["1", "2", "3"]


def test_json_is_the_file_and_rows_hold_no_paths(sweep, tmp_path):
    record = json.loads(sweep("--format", "json", "--out", "here").stdout)
    assert record == json.loads((tmp_path / "here" / "rows.json").read_text())
    assert [row["value"] for row in record["rows"]] == [1 / 3, 4 / 3]
    assert all("note" not in row for row in record["rows"])
    assert [each["error"] for each in record["failed"]] == ["ValueError: three is refused"]


@pytest.mark.parametrize("flag", ["--dry-run", "--list"])
def test_nothing_runs_when_jobs_are_shown(sweep, tmp_path, flag):
    result = sweep(flag, "--format", "json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [row["state"] for row in rows] == ["waiting"] * 3
    assert rows[0]["arguments"] == "y=1 x=1"
    assert not (tmp_path / "runs").exists()
    sweep("-q")
    assert [row["state"] for row in json.loads(sweep(flag, "--format", "json").stdout)] == [
        "done",
        "done",
        "failed",
    ]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("bound", 0.39427, "39.43 %"), ("result.train_error", 0.1, "10.00 %"), ("seconds", 1.25, "1.25")],
)
def test_error_rates_have_the_form_of_other_verbs(name, value, shown):
    assert _cell(name, value) == shown
