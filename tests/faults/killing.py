"""Kills commands at random moments: python tests/faults/killing.py [--kills 100] [--seed 0] [NAME ...]

Each command runs in a process that was forked from this one, which has everything loaded, and gets SIGKILL
after a random share of the time that it takes. After every kill all files must be whole and what was finished
must still be there; after some kills the command runs to its end, which must be that of an undisturbed run,
without leftovers.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import random
import signal
import struct
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors.torch import load_file

from codebound.certificate.file import Certificate
from codebound.cli.main import main as codebound_main

if TYPE_CHECKING:
    from collections.abc import Callable

KILLS_A_ROUND = 5
PLAN = """
[defaults]
data = "sample.npz"
model = "linear"

[[jobs]]
verb = "train"
epochs = 3

[[jobs]]
verb = "certify"
network = "@train"
method = "naive"
effort = "quick"
"""


@dataclass(frozen=True)
class Command:
    """A command line, what it leaves that can be compared, and what of it must never vanish."""

    arguments: tuple[str, ...]
    result: Callable[[Path], object]
    finished: Callable[[Path], set[str]]
    prepare: Callable[[Path], None] = lambda folder: None


def names(pattern: str) -> Callable[[Path], set[str]]:
    """Files that, once they are there, stay."""
    return lambda folder: {str(path.relative_to(folder)) for path in folder.glob(pattern)}


def digest(*patterns: str) -> Callable[[Path], object]:
    """Content of files that are the same in every run."""
    return lambda folder: {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for pattern in patterns
        for path in folder.glob(pattern)
    }


def rows_of_sweep(folder: Path) -> object:
    rows = json.loads((folder / "out/rows.json").read_text())["rows"]
    return [{name: value for name, value in row.items() if "seconds" not in name} for row in rows]


def parts_of_journal(folder: Path) -> set[str]:
    return {
        name
        for path in folder.glob("out/*.cells.json")
        for name in json.loads(path.read_text()).get("cells", {})
    }


def epochs_of_run(folder: Path) -> set[str]:
    from codebound_networks.train.runs import epochs_on_disk

    return {str(epoch) for epoch in range(epochs_on_disk(folder / "out"))}


def certified(folder: Path) -> None:
    """A certificate with its dossier's words, to be reported."""
    run(("certify", "sample.npz", "--method", "picks", "--run", "effort=quick", "--out", "cert", "-q"))
    run(("audit", "report", "cert"))
    words = folder / "cert" / "dossier.toml"
    words.write_text(words.read_text().replace('= ""', '= "said"'))


def sealed(folder: Path) -> None:
    """A test set with a ledger, and predictions to look through."""
    np.save(folder / "p.npy", np.zeros(240, int))
    run(("holdout", "seal", "sample.npz", "--out", "looks.jsonl"))


def lines_of_ledger(folder: Path) -> set[str]:
    """Whole lines; the memory of this machine must fit, or nobody could look again."""
    run(("holdout", "show", "looks.jsonl"))
    return {hashlib.sha256(line).hexdigest() for line in (folder / "looks.jsonl").read_bytes().splitlines()}


def answers(folder: Path) -> object:
    return [json.loads(line).get("result") for line in (folder / "looks.jsonl").read_text().splitlines()]


def slow_network(folder: Path) -> None:
    """Datasets of a few examples, from addresses that take their time."""
    from codebound.sample.formats.catalogue import KNOWN

    random_bytes = np.random.default_rng(0)
    files = {}
    for stem, n in (("train", 5), ("t10k", 3)):
        for kind, shape in (("images-idx3", (n, 28, 28)), ("labels-idx1", (n,))):
            head = bytes([0, 0, 8, len(shape)]) + b"".join(struct.pack(">I", side) for side in shape)
            body = random_bytes.integers(0, 10, shape, dtype=np.uint8).tobytes()
            files[f"{stem}-{kind}-ubyte"] = head + body
    md5 = {file: hashlib.md5(content).hexdigest() for file, content in files.items()}
    KNOWN["mnist"] = replace(KNOWN["mnist"], digests=md5)

    class Slow(io.BytesIO):
        length: int

        def read(self, size: int | None = -1) -> bytes:
            time.sleep(0.03)
            return super().read(100)

    def urlopen(address: str, timeout: float) -> Slow:
        response = Slow(gzip.compress(files[address.rpartition("/")[2].removesuffix(".gz")]))
        response.length = len(response.getvalue())
        return response

    import urllib.request

    urllib.request.urlopen = urlopen  # type: ignore[assignment]


_TRAIN = ("train", "linear", "--data", "sample.npz", "--epochs", "25", "--keep-epochs", "10", "--out", "out")
COMMANDS = {
    "train": Command((*_TRAIN, "-q"), digest("out/model.safetensors", "out/epochs/*"), epochs_of_run),
    "certify": Command(
        ("certify", "sample.npz", "--method", "picks", "--run", "effort=quick", "--out", "out", "-q"),
        digest("out/certificate.cbound", "out/g.safetensors", "out/picks.csv"),
        names("out/*"),
    ),
    "sweep": Command(
        ("sweep", "plan.toml", "--out", "out", "--workers", "1", "-q"),
        rows_of_sweep,
        names("out/jobs/*/result.json"),
        lambda folder: (folder / "plan.toml").write_text(PLAN) and None,
    ),
    "reproduce": Command(
        ("reproduce", "S-Fig1", "--quick", "--out", "out", "-q"), digest("out/*.svg"), parts_of_journal
    ),
    "get": Command(
        ("data", "get", "mnist"), digest("cache/data/mnist/*"), names("cache/data/mnist/*"), slow_network
    ),
    "report": Command(("audit", "report", "cert"), names("cert/*"), names("cert/dossier.*"), certified),
    "look": Command(("holdout", "look", "looks.jsonl", "p.npy"), answers, lines_of_ledger, sealed),
}


def run(arguments: tuple[str, ...], seconds: float | None = None) -> int | None:
    """Runs a command in a forked process; None: it was killed after that many seconds."""
    child = os.fork()
    if child == 0:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(quiet, 1)
        os.dup2(log, 2)
        sys.argv = ["codebound", *arguments]
        try:
            codebound_main()
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else 0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(99)
        os._exit(0)
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if deadline is not None and time.monotonic() >= deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.002)


def leftovers(folder: Path) -> list[str]:
    """Files and folders of writes that were never finished."""
    return [str(path) for path in folder.rglob("*") if path.name.endswith((".partial", ".unfinished"))]


def require_whole(folder: Path) -> None:
    """Every file that has its name has all of its content."""
    for path in folder.rglob("*"):
        if path.is_dir() or any(part.endswith((".partial", ".unfinished")) for part in path.parts):
            continue
        if path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".jsonl":
            [json.loads(line) for line in path.read_text().splitlines()]
        elif path.suffix == ".cbound":
            Certificate.load(path)
        elif path.suffix == ".safetensors":
            load_file(path)
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                dict(arrays)
        elif path.suffix in (".html", ".svg"):
            assert path.read_text().rstrip().endswith((f"</{path.suffix[1:]}>",)), path


def disturb(name: str, kills: int, seed: int) -> None:
    """Kills a command that many times, and lets it end now and then."""
    command, chance = COMMANDS[name], random.Random(f"{name} {seed}")
    with tempfile.TemporaryDirectory() as reference, tempfile.TemporaryDirectory() as place:
        wanted, seconds = complete(command, Path(reference), fresh=True)
        done = 0
        while done < kills:
            begin(command, folder := Path(tempfile.mkdtemp(dir=place)))
            before = command.finished(folder)
            for _ in range(min(KILLS_A_ROUND, kills - done)):
                run(command.arguments, chance.uniform(0.0, 1.05 * seconds))
                require_whole(folder)
                now = command.finished(folder)
                assert now >= before, f"{name}: lost {sorted(before - now)}"
                before, done = now, done + 1
            found, _ = complete(command, folder, fresh=False)
            assert found == wanted, f"{name} ended otherwise: {found} for {wanted}"
            require_whole(folder)
            assert not leftovers(folder), leftovers(folder)
    print(f"{name}: {done} kills within {seconds:.1f} s, ended as undisturbed", flush=True)


def begin(command: Command, folder: Path) -> None:
    """A folder with the sample and what the command needs, as the current one."""
    os.chdir(folder)
    os.environ["CODEBOUND_CACHE"] = str(folder / "cache")
    random_numbers = np.random.default_rng(1)
    y = random_numbers.integers(0, 3, 240)
    x = random_numbers.normal(size=(240, 8)) + 4.0 * np.eye(8)[y]
    np.savez(folder / "sample.npz", x=x.astype(np.float32), y=y)
    command.prepare(folder)


def complete(command: Command, folder: Path, *, fresh: bool) -> tuple[object, float]:
    """Lets the command end, and says what it leaves and how long it took."""
    if fresh:
        begin(command, folder)
    start = time.monotonic()
    code = run(command.arguments)
    done_before = not fresh and command.arguments[0] in ("certify", "holdout") and code == 2
    assert code == 0 or done_before, f"{command.arguments}: {code}\n{(folder / 'log').read_text()}"
    return command.result(folder), time.monotonic() - start


def main() -> None:
    """Disturbs all commands, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *COMMANDS], metavar="NAME")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chosen = options.names or list(COMMANDS)
    for number, name in enumerate(chosen):
        share = (options.kills * (number + 1)) // len(chosen) - (options.kills * number) // len(chosen)
        disturb(name, share, options.seed)


if __name__ == "__main__":
    main()
