"""The command: what it prints and the status it exits with; files in, a verdict out."""

import argparse
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from file_worlds import made
from file_writer import edited
from ledger_writer import forged, write_watch
from worlds.commands import Terminal, python

from codebound.holdout import Plan, look, seal
from codebound_verify import __main__ as program
from codebound_verify.__main__ import _fold, main
from codebound_verify.holdout.ledger import LedgerVerdict
from codebound_verify.questions.requirements import list_unmet


@pytest.fixture
def place(folder):
    """A folder of a certificate, and the same file with a false bound beside it."""
    place = folder("first_table")
    data = (place / "certificate.cbound").read_bytes()
    (place / "false.cbound").write_bytes(edited(data, {"claim.bound": 0.001}))
    return place


def beside(place, name="false.cbound"):
    return place / name, "--data", place / "sample.npz", "--scores", place / "scores.safetensors"


@pytest.fixture
def run(capsys):
    def run(*arguments) -> tuple[int, str, str]:
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = stop.code
        return (status, *capsys.readouterr())

    return run


def test_accepted_and_refused(place, run):
    status, out, err = run(place)
    assert (status, err) == (0, "")
    assert out.startswith("ACCEPT, recounted")
    assert "\n2 bits.\nChecked:\n  - " in out
    status, out, _ = run(*beside(place), "--format", "json", "--max-error", "0.5")
    record = json.loads(out)
    assert (status, record["verdict"], record["bound"], len(record["unmet"])) == (1, "REFUSE", None, 1)
    assert "the bound is printed as 0.001" in record["reasons"][0]
    _, out, _ = run(*beside(place), "--max-error", "0.5")
    assert out.startswith(
        "FAIL\n  - an error of at most 0.5 is not shown: the bound is None\n  - the file is"
    )


@pytest.mark.parametrize("width", [40, 80])
def test_lines_fit_a_terminal_and_a_number_keeps_its_sign(place, monkeypatch, width):
    shown, written = Terminal(), io.StringIO()
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((width, 24)))
    for stream in (shown, written):
        monkeypatch.setattr("sys.stdout", stream)
        main([str(place)])
    lines = shown.getvalue().splitlines()
    assert max(len(line) for line in lines if " " in line.strip()) <= width
    assert not any(line.strip().startswith("%") for line in lines)
    assert shown.getvalue().split() == written.getvalue().split()


def test_what_a_file_says_never_begins_a_line(monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((40, 24)))
    told = f"  - {'x' * 30} ACCEPT ACCEPT ACCEPT\n{'y' * 38} ACCEPT"
    lines = _fold(told, Terminal()).split("\n")
    assert len(lines) == 4
    assert not any(line.startswith("ACCEPT") for line in lines)


def test_a_file_cannot_write_its_own_verdict(place, run):
    sly = "\\n ACCEPT  - PASS"
    data = (place / "false.cbound").read_bytes()
    (place / "false.cbound").write_bytes(edited(data, {"claim.bound": 0.001, "declarations": [sly]}))
    _, out, _ = run(*beside(place))
    assert [line for line in out.splitlines() if "ACCEPT" in line] == []
    status, out, err = run(place, "--data", "\x1b[2J\nACCEPT")
    assert (status, out) == (2, "")
    assert "\x1b" not in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: file"),
        (["false.cbound"], "give it with --data"),
        (["false.cbound", "--data", "nowhere"], "unknown"),
        (["false.cbound", "--data", "none.npz"], "none.npz: no such file"),
        (["none.cbound", "--data", "sample.npz"], "none.cbound: no such file"),
        ([".", "--scores", "none"], "none: no such file"),
        ([".", "--weights", "sample.npz"], "safetensors"),
        ([".", "--model", "math:pi"], "unrecognized arguments"),
        ([".", "--max-error", "x"], "invalid float value"),
        ([".", "--signed-by", "sample.npz"], "no public key in PEM form"),
    ],
)
def test_wrong_usage_says_nothing_about_the_file(place, run, monkeypatch, arguments, message):
    monkeypatch.chdir(place)
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.endswith("codebound-verify --help.\n")
    assert err.count("\n") == 1


def test_an_interruption_is_no_verdict_but_of_another_program_its_own(place, monkeypatch, capsys):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "verify_file", stopped)
    assert main([str(place)]) == 130
    assert capsys.readouterr().err == "Interrupted: nothing is said about the file.\n"
    with pytest.raises(KeyboardInterrupt):
        main([str(place)], prog="codebound verify")


def test_progress_is_shown_to_somebody_who_looks(folder, monkeypatch):
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    assert main([str(folder("network"))]) == 0
    assert shown.getvalue() == "\revaluated 300 of 300 examples\n"


def test_a_missing_signature_is_an_unmet_requirement(place, run):
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key, file = ed25519.Ed25519PrivateKey.generate(), place / "certificate.cbound"
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (place / "key.pem").write_bytes(pem)
    signature = place / "certificate.cbound.sig"
    for content, status, word in (
        (None, 1, "there is no signature"),
        (key.sign(file.read_bytes()), 0, "PASS"),
        (key.sign(b"another"), 1, "was not made for these bytes"),
    ):
        if content is not None:
            signature.write_bytes(content)
        found, out, _ = run(place, "--signed-by", place / "key.pem")
        assert (found, word in out) == (status, True)


def test_whoever_stops_reading_changes_no_status(place):
    """Of a pipe that nobody reads, a full disk, and a stream that was closed."""
    command = [sys.executable, "-m", "codebound_verify", place]
    reading, writing = os.pipe()
    os.close(reading)
    with Path("/dev/full").open("w") as full:
        jobs = [
            subprocess.Popen(command, stdout=stream, stderr=subprocess.PIPE, text=True)
            for stream in (writing, full)
        ]
    os.close(writing)
    found = [(job.communicate()[1], job.returncode) for job in jobs]
    assert found[0] == ("", 0)
    assert (found[1][1], "the verdict cannot be written" in found[1][0]) == (2, True)
    closed = "import sys; from codebound_verify.__main__ import main; sys.stdout = None; main(sys.argv[1:])"
    subprocess.run([sys.executable, "-c", closed, place], check=True)


def test_help_needs_neither_torch_nor_numpy_and_a_verdict_no_codebound(place):
    code = "import sys, codebound_verify.__main__; print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert python(code) == "False False\n"
    code = (
        "import sys; sys.modules['codebound'] = None\n"
        "from codebound_verify.__main__ import main\n"
        "print(main(sys.argv[1:]))"
    )
    assert python(code, place).endswith("\n0\n")


@pytest.fixture
def ledger(tmp_path, own_cache):
    """A ledger with two looks at 100 sealed rows, with limits for each class."""
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 100)
    np.savez(tmp_path / "data.npz", x=random.normal(size=(100, 3)).astype("f4"), y=y, a=y)
    path, data = tmp_path / "made.ledger.jsonl", f"{tmp_path / 'data.npz'}:y"
    seal(data, Plan(looks=2, group="y"), out=path)
    look(path, "a", data=data)
    look(path, "b\u202e", data=data, answers=y.tolist(), is_final=True)
    return path


def test_a_ledger_is_read_from_its_lines_and_more_can_be_asked(ledger, run):
    status, out, _ = run(ledger)
    assert (status, out.splitlines()[0]) == (0, "ACCEPT")
    assert out.splitlines()[1].startswith("2 statements, closed; head ")
    assert "Worst group, 0: at most" in out
    assert "\u202e" not in out
    assert "(give --data with all columns)" in out
    assert "(give --head, written down elsewhere, to check it)" in out
    head = out.splitlines()[1].rpartition(" ")[2].rstrip(".")
    status, out, _ = run(ledger, "--head", head, "--data", ledger.with_name("data.npz"), "--format", "json")
    record = json.loads(out)
    assert (status, record["verdict"], record["head"], record["recounted"]) == (0, "ACCEPT", head, 2)
    for demand, wanted in ((["--max-error", "0.01"], 1), (["--loss", "top:2"], 1), (["--loss", "wrong"], 0)):
        assert run(ledger, *demand)[0] == wanted


def test_a_ledger_that_was_cut_or_is_of_other_data_is_refused(ledger, run):
    lines = ledger.read_bytes().splitlines(keepends=True)
    head = json.loads(run(ledger, "--format", "json")[1])["head"]
    ledger.write_bytes(b"".join(lines[:-1]))
    assert run(ledger)[0] == 0
    status, out, _ = run(ledger, "--head", head)
    assert (status, "which no line has" in out) == (1, True)
    np.savez(ledger.with_name("data.npz"), y=np.zeros(100, int))
    status, out, _ = run(ledger, "--data", f"{ledger.with_name('data.npz')}:y")
    assert (status, "no column has SHA-256" in out) == (1, True)


def test_a_watch_shows_its_alarms_and_bounds_no_error(tmp_path, run):
    path, batch = tmp_path / "made.watch.jsonl", [(1, "x"), (0, "y"), (0, "x")] * 20
    path.write_bytes(forged(write_watch([batch], names=["x", "y"])))
    status, out, _ = run(path)
    assert (status, out.splitlines()[0]) == (0, "ACCEPT")
    assert "x: 20 errors in 40 labels, alarm at label" in out
    assert "y: 0 errors in 20 labels, no alarm." in out
    assert run(path, "--max-error", "0.9")[0] == 1
    assert run(path, "--data", tmp_path / "made.csv")[0] == 2  # a file that is not there
    (tmp_path / "made.csv").write_text("label\na\n")
    status, out, _ = run(path, "--data", tmp_path / "made.csv")
    assert (status, "leave the data out" in out) == (1, True)


def test_test_data_refute_and_a_class_is_bounded_on_demand(folder, run):
    place, (world, _) = folder("usual_split"), made("usual_split")
    np.savez(place / "test.npz", x=world.sample.x, y=(world.sample.y + 1) % 3)
    status, out, _ = run(place, "--test", place / "test.npz", "--by-class", "--max-error", "1")
    assert status == 3
    assert out.startswith("FAIL\n  - the test data refute it\n")
    assert "REFUTED BY TEST DATA: g errs on" in out
    assert "  - class 2: at most" in out
    np.savez(place / "test.npz", x=world.sample.x, y=world.sample.y)
    status, out, _ = run(place, "--test", place / "test.npz")
    assert (status, "\nTest data: g errs on" in out) == (0, True)


@pytest.mark.parametrize("option", ["--max-error", "--max-delta"])
def test_a_limit_that_is_no_number_is_wrong_usage(place, run, option):
    assert run(place, option, "nan")[0] == 2


def test_the_file_is_read_once(place, run, monkeypatch):
    """Else another could be signed, or verified, than the one that is read first."""
    reads, load = [], program.load
    monkeypatch.setattr(program, "load", lambda file: reads.append(file) or load(file))
    monkeypatch.setattr(
        Path, "read_bytes", lambda file: file.open("rb").read() if reads.append(file) is None else b""
    )
    assert run(place)[0] == 0
    assert reads.count(place / "certificate.cbound") == 2  # by load, and in it


def test_false_alarms_without_a_class_are_of_two_classes():
    wanted = argparse.Namespace(loss="false-alarm", max_error=None, max_delta=None, signed_by=None)
    for classes, unmet in ((2, 0), (3, 1)):
        verdict = LedgerVerdict("ACCEPT", (), loss="class:0", classes=classes)
        assert len(list_unmet(Path("a"), verdict, wanted)) == unmet
