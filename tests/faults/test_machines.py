"""What machines do: they end programs, run out of room, run two at once, set clocks, change files."""

import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from worlds.samples import cloud_arrays

from codebound.certificate.file import Certificate
from codebound.certification import certify
from codebound.request import Run
from codebound.run.files import BusyError, hold_lock
from codebound.run.progress import finish_block, interrupt_on_signals
from codebound.sample.load import load_sample
from codebound_verify.__main__ import main as verify_main

PICKS = ("--method", "picks", "--run", "effort=quick")
COMPRESS = ("compress", "--model", "linear", "--input-shape", "8", "--classes", "3", "--method", "naive")
TRAIN = ("train", "linear", "--data", "sample.npz", "--epochs", "3")


def made_up(seed=1):
    return cloud_arrays(240, features=8, apart=4.0, seed=seed)


@pytest.fixture
def sample(empty_folder):
    x, y = made_up()
    np.savez("sample.npz", x=x, y=y)
    return empty_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory, monkeypatch):
    """What is rescued into the folder for temporary files goes with the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture
def sigterm():
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which whoever started the tests may ignore
    interrupt_on_signals()
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def leftovers(folder=Path()):
    names = [path.name for path in folder.rglob("*")]
    return [name for name in names if name.startswith(".") or name.endswith((".partial", ".unfinished"))]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_is_told_to_end_keeps_the_best_certificate(sample, sigterm, number):
    calls = []

    def end(done, total, note=""):
        calls.append(note)
        if "pick" in note and note[0] in "123456789":  # something can be kept
            os.kill(os.getpid(), number)

    found = certify(load_sample("sample.npz"), method="picks", run=Run(effort="quick", progress=end))
    assert found.is_interrupted
    assert found.certificate.claim.bound < 1.0


@pytest.mark.thorough
def test_who_closes_the_terminal_finds_what_was_done(sample, monkeypatch):
    """Each line to a terminal that is gone fails; the certificate is there all the same."""
    program, terminal = pty.fork()
    if program == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        command = ["certify", "sample.npz", "--method", "picks", "--out", "out"]
        os.execv(sys.executable, [sys.executable, "-m", "codebound", *command])
    seen = b""
    while b"%" not in seen:  # a bar is drawn
        seen += os.read(terminal, 4096)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]) in (0, 130)
    assert not leftovers()
    if Path("out").exists():
        assert verify_main(["out/certificate.cbound", "--data", "sample.npz"]) == 0


def test_nohup_is_respected(sigterm):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupt_on_signals()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_what_is_nearly_done_is_finished_unless_somebody_insists(sigterm):
    with finish_block():
        signal.raise_signal(signal.SIGTERM)
        done = True
    assert done
    with pytest.raises(KeyboardInterrupt):
        insist()
    with pytest.raises(KeyboardInterrupt):  # afterwards everything is as before
        signal.raise_signal(signal.SIGTERM)


def insist():
    with finish_block():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("the second signal was lost")


def test_a_sigterm_while_saving_loses_nothing(sample, sigterm, codebound, monkeypatch):
    from codebound.report import folder as results

    written = results.write_json

    def interrupted(path, record):
        os.kill(os.getpid(), signal.SIGTERM)
        written(path, record)

    found = certify(load_sample("sample.npz"), method="picks", run=Run(effort="quick"))
    monkeypatch.setattr(results, "write_json", interrupted)
    with pytest.raises(KeyboardInterrupt):  # two files: the second signal insists
        found.save_to("lost")
    assert not leftovers()
    assert not Path("lost").exists()
    monkeypatch.setattr(
        results, "write_json", lambda path, record: interrupted(path, record) or remove(monkeypatch, written)
    )
    found.save_to("kept")
    assert Certificate.load(Path("kept/certificate.cbound")) == found.certificate


def remove(monkeypatch, written):
    from codebound.report import folder as results

    monkeypatch.setattr(results, "write_json", written)


@pytest.mark.parametrize(
    "command",
    [
        (*TRAIN, "--out", "busy"),
        ("certify", "sample.npz", *PICKS, "--out", "busy"),
        (*COMPRESS, "--out", "busy"),
    ],
    ids=["train", "certify", "compress"],
)
def test_two_processes_never_share_a_run_folder(sample, codebound, command):
    Path("busy").mkdir()
    with hold_lock(Path("busy"), "another"):
        code, _, err = codebound(*command)
    assert code == 2
    assert "busy is being run by another process. Wait for it, or stop it first." in err
    assert not list(Path("busy").iterdir())
    code, _, err = codebound(*command)  # an empty folder, as a killed process leaves it, is taken
    assert code == 0, err


def test_one_process_fetches_at_a_time(empty_folder, codebound, monkeypatch):
    monkeypatch.setenv("CODEBOUND_CACHE", str(empty_folder))
    monkeypatch.setattr("codebound.sample.formats.download._OTHER_SECONDS", 0.1)
    (empty_folder / "data").mkdir()
    with hold_lock(empty_folder / "data", "another"):
        code, _, err = codebound("data", "get", "mnist")
    assert code == 2
    assert "is being run by another process" in err


def test_a_clock_that_jumps_changes_nothing(sample, codebound, monkeypatch):
    code, _, err = codebound(*TRAIN, "--out", "steady")
    assert code == 0, err
    jumps = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: (-1.0) ** next(jumps) * 1e9)
    monkeypatch.setattr(time, "time_ns", lambda: (-1) ** next(jumps) * 10**18)
    code, _, err = codebound(*TRAIN, "--out", "jumping")
    assert code == 0, err
    codebound("certify", "sample.npz", *PICKS, "--out", "certified")
    assert verify_main(["certified/certificate.cbound", "--data", "sample.npz"]) == 0
    assert Path("jumping/model.safetensors").read_bytes() == Path("steady/model.safetensors").read_bytes()


def test_a_sample_that_changes_is_kept_as_it_was_read(sample, codebound, monkeypatch):
    import codebound.certification as commands

    def change(*arguments, **options):
        found = certify(*arguments, **options)
        x, y = made_up(seed=2)
        np.savez("sample.npz", x=x, y=y)
        return found

    monkeypatch.setattr(commands, "certify", change)
    code, _, err = codebound("certify", "sample.npz", *PICKS, "--out", "out")
    assert code == 0, err
    assert verify_main(["out/certificate.cbound", "--data", "sample.npz"]) == 1
    assert verify_main(["out/certificate.cbound", "--data", "out/sample.npz"]) == 0


@pytest.fixture
def mounted(tmp_path):
    """Mounts a small file system, as root only."""
    place, options, umount = tmp_path / "small", [], shutil.which("umount") or "umount"
    place.mkdir()

    def mount(how):
        options.append(how)
        found = subprocess.run(
            [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", how, "tmpfs", place], capture_output=True
        )
        if found.returncode:
            pytest.skip(f"nothing can be mounted here: {found.stderr.decode().strip()}")
        return place

    yield mount
    for _ in options:
        subprocess.run([umount, place], capture_output=True)


class Response(io.BytesIO):
    length = 1000

    def __init__(self, address, timeout):
        super().__init__(bytes(1000))


def commands_into(place):
    return {
        "train": (*TRAIN, "--out", f"{place}/a"),
        "certify": ("certify", "sample.npz", *PICKS, "--holdout", "0.1", "--out", f"{place}/a"),
        "compress": (*COMPRESS, "--out", f"{place}/a"),
        "save": ("data", "save", "sample.npz", "--out", f"{place}/a.npz"),
        "export": (
            "export",
            "cert/certificate.cbound",
            "--weights",
            "cert/g.safetensors",
            "--to",
            "safetensors",
            "--out",
            f"{place}/g.safetensors",
        ),
        "sweep": ("sweep", "plan.toml", "--out", f"{place}/a"),
        "measure": ("measure", "--model", "linear", "--data", "sample.npz", "--out", f"{place}/a"),
        "reproduce": ("reproduce", "S-Fig1", "--quick", "--out", f"{place}/a"),
        "get": ("data", "get", "mnist"),
        "seal": ("holdout", "seal", "sample.npz", "--out", f"{place}/a.jsonl"),
    }


@pytest.mark.parametrize("how", ["full", "read-only"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("certify", "save") else pytest.mark.slow)
        for name in commands_into("")
    ],
)
def test_a_disk_without_room_is_said_and_nothing_half_written_stays(
    sample, codebound, mounted, name, how, monkeypatch
):
    Path("plan.toml").write_text(
        '[[jobs]]\nverb = "train"\nmodel = "linear"\ndata = "sample.npz"\nepochs = 1\n'
    )
    if name == "export":
        codebound("certify", "sample.npz", *PICKS, "--out", "cert")
    place = mounted("ro" if how == "read-only" else "size=4k")
    monkeypatch.setenv("CODEBOUND_CACHE", str(place / "cache"))
    monkeypatch.setattr("urllib.request.urlopen", Response)
    monkeypatch.setenv("PATH", "")
    if how == "full":
        (place / "filler").write_bytes(bytes(4096))
    code, _, err = codebound(*commands_into(place)[name])
    assert code in (1, 2), err
    assert ("No space left" if how == "full" else "Read-only file system") in err or name == "get", err
    assert "Traceback" not in err
    assert not leftovers(place)
    kept = [path for path in place.rglob("*") if path.is_file() and path.name != "filler"]
    assert all(path.stat().st_size == 0 and path.name.endswith("lock") for path in kept), kept
    if name == "certify" and how == "full":
        assert Certificate.load(Path(err.partition("the certificate is in ")[2].split()[0].rstrip("."))).claim


def test_the_result_of_a_search_is_not_lost_where_the_folder_has_no_room(sample, codebound, monkeypatch):
    from codebound.run import files

    def full(descriptor):
        raise OSError(28, "No space left on device")

    kept = files.os.fsync
    monkeypatch.setattr(
        files.os,
        "fsync",
        lambda descriptor: (
            full(descriptor)
            if "out" in str(Path(f"/proc/self/fd/{descriptor}").readlink())
            else kept(descriptor)
        ),
    )
    code, _, err = codebound("certify", "sample.npz", *PICKS, "--out", "out")
    assert code == 1
    assert "No space left on device" in err
    certificate = err.partition("the certificate is in ")[2].strip().rstrip(".")
    assert verify_main([certificate, "--data", "sample.npz"]) == 0
    assert not Path("out").exists()
    assert not leftovers()
    assert json.dumps(sorted(path.name for path in Path().iterdir())) == '["sample.npz"]'


def test_a_network_is_compressed_into_a_whole_folder_or_none(sample, codebound, mounted):
    place = mounted("size=8k")
    (place / "filler").write_bytes(bytes(4096))  # which leaves room for the first of five files
    code, _, err = codebound(*commands_into(place)["compress"])
    assert (code, "No space left" in err) == (1, True)
    assert [path.name for path in place.iterdir()] == ["filler"]
    (place / "filler").unlink()
    subprocess.run([shutil.which("mount") or "mount", "-o", "remount,size=64k", place], check=True)
    assert codebound(*commands_into(place)["compress"])[0] == 0
    assert (place / "a/result.json").exists()
    assert not leftovers(place)


def test_a_look_leaves_nothing_hidden_and_is_made_whole_or_not_at_all(
    sample, codebound, monkeypatch, mounted
):
    monkeypatch.setenv("CODEBOUND_CACHE", str(sample / "cache"))
    np.save("p.npy", np.zeros(240, int))
    ledger = Path("test.ledger.jsonl")
    cache = mounted("ro")
    monkeypatch.setenv("CODEBOUND_CACHE", str(cache / "cache"))
    for command in (("seal", "sample.npz"), ("look", ledger, "p.npy")):
        arguments = ("holdout", *command, *(["--out", ledger] if command[0] == "seal" else []))
        before = ledger.read_bytes() if ledger.exists() else None
        code, _, err = codebound(*arguments)
        assert (code, "Read-only file system" in err) == (2, True)
        assert (ledger.read_bytes() if ledger.exists() else None) == before
        with monkeypatch.context() as patch:
            patch.setenv("CODEBOUND_CACHE", str(sample / "cache"))
            assert codebound(*arguments)[0] == 0
    assert len(ledger.read_bytes().splitlines()) == 2
    assert not leftovers()


def test_a_lock_that_its_holder_removed_is_taken_anew(tmp_path):
    """Who waited for it holds the file that has the name, not the one that is gone."""
    path = tmp_path / "lock"
    with hold_lock(path, "this", is_kept=False):
        waiting = threading.Thread(target=hold_for_a_while, args=(path,))
        waiting.start()
        time.sleep(0.2)
    time.sleep(0.2)
    with pytest.raises(BusyError), hold_lock(path, "this", is_kept=False):
        pass
    waiting.join()
    assert not path.exists()


def hold_for_a_while(path):
    with hold_lock(path, "this", patience=5.0, is_kept=False):
        time.sleep(1.0)


def test_an_interrupted_verification_says_nothing_about_the_file(monkeypatch, capsys):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("codebound_verify.__main__._main", interrupt)
    assert verify_main(["certificate.cbound"]) == 130
    assert capsys.readouterr().err == "Interrupted: nothing is said about the file.\n"


@pytest.mark.thorough
def test_an_output_that_is_closed_changes_no_verdict(sample, codebound):
    """`| head -1` and `>&-`: the status is that of the verdict, and nothing else is said."""
    codebound("certify", "sample.npz", *PICKS, "--out", "out")
    verify = f"{sys.executable} -m codebound_verify out/certificate.cbound --data"
    for command, status, said in (
        (f"{verify} sample.npz | true; exit ${{PIPESTATUS[0]}}", 0, ""),
        (f"{verify} sample.npz > /dev/full", 2, "the verdict cannot be written: No space left on device"),
        (f"{verify} other.npz >&- 2>&-", 2, ""),
        (f"{sys.executable} -m codebound data list >&- 2>&-", 0, ""),
    ):
        found = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True)
        assert found.returncode == status, found.stderr
        assert said in found.stderr
        assert said or not found.stderr


def test_names_that_are_no_text_are_taken(sample, codebound):
    place = os.fsdecode(b"n\xff")
    Path(place).mkdir()
    Path("sample.npz").rename(f"{place}/s\udcfe.npz")
    code, _, err = codebound("certify", f"{place}/s\udcfe.npz", *PICKS, "--out", f"{place}/out")
    assert code == 0, err
    assert r"n\udcff/out/report.html" in err
    assert r"n\udcff" in Path(place, "out/README.md").read_text()
    assert codebound("audit", "report", f"{place}/out")[0] == 2  # asks for the author's words
    assert verify_main([f"{place}/out/certificate.cbound", "--data", f"{place}/s\udcfe.npz"]) == 0


def test_a_link_to_an_empty_folder_is_that_folder(sample, codebound):
    Path("real").mkdir()
    Path("link").symlink_to("real")
    code, _, err = codebound("certify", "sample.npz", *PICKS, "--out", "link")
    assert code == 0, err
    assert Path("link").is_symlink()
    assert verify_main(["real/certificate.cbound", "--data", "sample.npz"]) == 0


def test_a_terminal_without_the_letters_shows_their_numbers(sample, codebound, monkeypatch):
    x, y = made_up()
    rows = [",".join([*map(str, row), f"\u00fc{label}"]) for row, label in zip(x.tolist(), y, strict=True)]
    Path("t.csv").write_text("\n".join(["\u00e9,b,c,d,e,f,g,h,y", *rows]), encoding="utf-8")
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    assert codebound("data", "show", "t.csv:y")[0] == 0
    shown.flush()
    assert rb"\xfc0" in shown.buffer.getvalue()
