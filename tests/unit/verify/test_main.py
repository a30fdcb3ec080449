"""The command: what it prints and the status it exits with; files in, a verdict out."""

import io
import json
import os
import subprocess
import sys

import cbound_writer as writer
import numpy as np
import pytest
from worlds.commands import Terminal, python

from codebound_verify import data
from codebound_verify.__main__ import _fold, main
from codebound_verify.files import GivenFiles, verdict_record, verify_file
from codebound_verify.refusal import Refused


@pytest.fixture
def files(tmp_path):
    case = writer.linear_case()
    np.savez(tmp_path / "sample.npz", x=case.x, y=case.y)
    (tmp_path / "true.cbound").write_bytes(case.data())
    case.fields["claim"]["bound"] = 0.001
    (tmp_path / "false.cbound").write_bytes(case.data())
    return tmp_path


def run(capsys, *arguments) -> tuple[int, str, str]:
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_accept(files, capsys):
    status, out, _ = run(capsys, files / "true.cbound", "--data", files / "sample.npz")
    assert status == 0
    assert out.startswith("ACCEPT\nWith probability at least 1 - 0.05")
    assert "400 examples" in out
    assert "The file declares:" in out


@pytest.mark.parametrize("width", [40, 80])
def test_lines_fit_a_terminal_and_a_number_keeps_its_sign(files, monkeypatch, width):
    shown = Terminal()
    monkeypatch.setattr("sys.stdout", shown)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((width, 24)))
    main([str(files / "true.cbound"), "--data", str(files / "sample.npz")])
    lines = shown.getvalue().splitlines()
    assert max(len(line) for line in lines if " " in line.strip()) <= width
    assert not any(line.strip().startswith("%") for line in lines)
    _, whole = main_text(files, monkeypatch)
    assert shown.getvalue().split() == whole.split()


def main_text(files, monkeypatch):
    """The same into a file: lines of any length."""
    written = io.StringIO()
    monkeypatch.setattr("sys.stdout", written)
    return main([str(files / "true.cbound"), "--data", str(files / "sample.npz")]), written.getvalue()


def test_a_file_that_is_folded_never_begins_a_line(monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((40, 24)))
    told = f"  - {'x' * 30} ACCEPT ACCEPT ACCEPT\n{'y' * 38} ACCEPT"
    lines = _fold(told, Terminal()).split("\n")
    assert len(lines) == 4
    assert not any(line.startswith("ACCEPT") for line in lines)


def test_refuse_as_json(files, capsys):
    status, out, _ = run(capsys, files / "false.cbound", "--data", files / "sample.npz", "--format", "json")
    assert status == 1
    verdict = json.loads(out)
    assert verdict["verdict"] == "REFUSE"
    assert verdict["bound"] is None
    assert "smaller than the true" in verdict["reasons"][0]
    keys = "checked code_bits declarations delta errors n statement subject"
    assert set(keys.split()) <= verdict.keys()


def test_wrong_usage(files, capsys):
    good = files / "true.cbound"
    for arguments, message in (
        ((good,), "--data"),
        ((good, "--data", "nowhere"), "unknown"),
        ((good, "--data", files / "none.npz"), "none.npz: no such file"),
        ((files / "none.cbound", "--data", files / "sample.npz"), "none.cbound: no such file"),
        ((files, "--data", files / "sample.npz"), "directory"),
        ((good, "--data", files / "sample.npz", "--model", "math:pi"), "unrecognized arguments"),
        ((good, "--data", files / "sample.npz", "--base", good), "safetensors"),
    ):
        status, out, err = run(capsys, *arguments)
        assert status == 2
        assert out == ""
        assert message in err


def test_what_is_needed_and_not_given_is_no_verdict(files, capsys):
    case = writer.linear_case()
    case.fields["helper"]["base"] = {"name": "b", "sha256": "0" * 64}
    (files / "based.cbound").write_bytes(case.data())
    status, out, err = run(capsys, files / "based.cbound", "--data", files / "sample.npz")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "cannot be checked without its base (--base)" in err


def test_data_without_labels(files, capsys):
    np.savez(files / "x.npz", x=np.zeros((2, 2)))
    status, _, err = run(capsys, files / "true.cbound", "--data", files / "x.npz")
    assert status == 2
    assert "no labels" in err


def test_a_file_cannot_write_its_own_verdict(files, capsys):
    case = writer.linear_case()
    case.fields["declarations"] = ["\x1b[2J\nACCEPT\ud800"]
    case.fields["claim"]["bound"] = 0.001
    (files / "sly.cbound").write_bytes(case.data())
    _, out, _ = run(capsys, files / "sly.cbound", "--data", files / "sample.npz")
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if line.startswith("ACCEPT")] == []


@pytest.mark.thorough
def test_the_program_runs_without_codebound(files):
    """In a process of its own, where importing codebound fails."""
    code = (
        "import sys; sys.modules['codebound'] = None\n"
        "from codebound_verify.__main__ import main\n"
        "status = main(sys.argv[1:])\n"
        "assert not [name for name in sys.modules if name.startswith('codebound.')]\n"
        "sys.exit(status)"
    )
    command = [sys.executable, "-c", code, files / "true.cbound", "--data", files / "sample.npz"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_help_needs_no_torch():
    code = "import sys, codebound_verify.__main__; print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert python(code) == "False False\n"


@pytest.mark.parametrize("name", ["true", "false"])
def test_the_command_prints_the_record(files, capsys, name):
    file, sample = files / f"{name}.cbound", str(files / "sample.npz")
    verdict = verify_file(file, GivenFiles(data=sample))
    assert verdict.is_accepted == (name == "true")
    main([str(file), "--data", sample, "--max-error", "0.0", "--format", "json"])
    printed = json.loads(capsys.readouterr().out)
    assert len(printed["unmet"]) == 1
    assert printed == json.loads(json.dumps(verdict_record(verdict, printed["unmet"])))


def test_what_is_not_given_is_no_verdict(files):
    with pytest.raises(Refused, match="the sample is needed"):
        verify_file(files / "true.cbound", GivenFiles())
    with pytest.raises(Refused, match=r"cannot read .*none\.npz: no such file"):
        verify_file(files / "true.cbound", GivenFiles(data=str(files / "none.npz")))


@pytest.mark.parametrize("name", ["x", "y"])
def test_an_array_larger_than_the_sample_is_not_read(files, monkeypatch, name):
    """A few bytes of an archive may promise gigabytes; the header says how many numbers there are."""
    case = writer.linear_case()
    arrays = {"x": case.x, "y": case.y}
    arrays[name] = np.zeros((1 << 16, *arrays[name].shape[1:]), arrays[name].dtype)
    np.savez_compressed(files / "large.npz", **arrays)
    given = GivenFiles(data=str(files / "large.npz"))
    whole = verify_file(files / "true.cbound", given)
    assert "It was not read." not in " ".join(whole.reasons)
    monkeypatch.setattr(data, "READ_ANYWAY", 1 << 10)
    monkeypatch.setattr(np.lib.format, "read_array", only(case, np.lib.format.read_array))
    verdict = verify_file(files / "true.cbound", given)
    assert verdict.verdict == "REFUSE"
    assert f"{name}.npy has shape (65536" in verdict.reasons[0]
    assert main([str(files / "true.cbound"), "--data", given.data]) == 1
    assert verify_file(files / "true.cbound", GivenFiles(data=str(files / "sample.npz"))).is_accepted


def only(case, read_array):
    """Arrays of the sample are read, and no others."""

    def read(*given, **options):
        found = read_array(*given, **options)
        assert len(found) == len(case.x)
        return found

    return read


def test_a_queue_is_not_waited_for(files):
    os.mkfifo(files / "queue")
    with pytest.raises(Refused, match="has no end"):
        verify_file(files / "queue", GivenFiles(data=str(files / "sample.npz")))


def test_a_sample_without_an_end_is_refused(files):
    os.mkfifo(files / "endless.npz")
    with pytest.raises(Refused, match="a queue or a device"):
        verify_file(files / "true.cbound", GivenFiles(data=str(files / "endless.npz")))
