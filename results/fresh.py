"""First looks: certificates on data that nobody looked at before the format was frozen.

    python results/fresh.py --list            prints every command and runs nothing
    python results/fresh.py NAME [NAME ...]   runs the recipes of these data, or of all without a name

Data, network, epochs, seeds, efforts and time limits are fixed here, and this file is committed, before a
label is looked at; whatever comes out is kept. A first look happens once: a record is written before the
data are opened, and no way that has a record is run again into the same folder; --ways runs a part of them.
What the default of `codebound certify` gives is the result; beside it stands what every method of its own
gives by itself.
Samples are taken whole, as their sources distribute them. Equal rows are declared to be independent draws
that are equal (--allow-copies), because nobody looked how many there are; every record has their number.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import codebound
from codebound.certificate.versions import PAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).parent
ROOT = HERE.parent
FIXED = ("src", "docs/format.md", "results/fresh.py", "benchmarks/public_sets")
SETS = ROOT / "benchmarks"
"""Where the package public_sets is, which names and reads the samples."""
DEFAULT = "default"
EPOCHS, SEED, DELTA, HOLDOUT = 30, 0, 0.05, 0.2
LIMIT_SECONDS = {DEFAULT: 420}  # of processor time, so that a busy machine changes nothing
METHOD_SECONDS = 100
METHODS = ("constant", "picks", "split", "features", "biases", "prune", "subspace", "subspace-f")
WAYS = (DEFAULT, *METHODS)
GRACE_SECONDS = 900  # on the clock, to count and verify what was found until the limit


@dataclass(frozen=True)
class Recipe:
    """A sample, the network that is handed to `certify`, and what its rows are."""

    data: str
    network: str
    rows: str
    effort: str = "standard"
    has_test: bool = False

    @property
    def spec(self) -> str:
        """What `--data` takes: the factory of a public set, or the user's own."""
        return f"public_sets:{self.data.replace('-', '_')}" if self.data in RECIPES else self.data

    @property
    def sample(self) -> list[str]:
        """Options for the sample: the source's own test part, else a fifth by the fixed permutation."""
        test = ["--test", f"{self.spec}_test"] if self.has_test else ["--holdout", str(HOLDOUT)]
        return ["--data", self.spec, *test]

    def fetching(self) -> list[list[str]]:
        """How the files are fetched and their checksums compared, which opens none of them."""
        known = self.data in RECIPES
        return [["python", "-m", "public_sets", self.data.replace("-", "_")]] if known else []

    def training(self) -> list[str]:
        """How the network is made that is handed to `certify`."""
        settings = ["--epochs", str(EPOCHS), "--seed", str(SEED), "--device", "cpu"]
        return ["train", self.network, *self.sample, *settings, "--out", "f"]

    def certification(self, way: str) -> list[str]:
        """How a certificate is made: by default, or by one method."""
        weights = ["--model", self.network, "--weights", "f/model.safetensors"]
        method = [] if way == DEFAULT else ["--method", way]
        choices = ["--effort", self.effort, "--seed", str(SEED), "--delta", str(DELTA), "--allow-copies"]
        return ["certify", *weights, *self.sample, *choices, *method, "--out", way]

    def verification(self, file: str) -> list[str]:
        """How anybody checks a certificate of ours."""
        part = [] if "--test" in self.sample else ["--holdout", str(HOLDOUT)]
        save = ["PYTHONPATH=benchmarks", "codebound", "data", "save", self.spec, *part, "--out", "sample.npz"]
        check = f"codebound-verify results/fresh/certificates/{file} --data sample.npz --allow-copies"
        return [" ".join(save), check]


RECIPES = {
    recipe.data: recipe
    for recipe in (
        Recipe("letter", "mlp:widths=64", "features of printed letters"),
        Recipe("satellite", "mlp:widths=64", "pixels of a landscape in four bands"),
        Recipe("shuttle", "mlp:widths=64", "sensor readings"),
        Recipe("dna", "mlp:widths=64", "stretches of DNA"),
        Recipe("newsgroups", "linear", "texts", has_test=True),
        Recipe("r8", "linear", "texts", has_test=True),
        Recipe("italy-power", "mlp:widths=64", "time series"),
        Recipe("japanese-vowels", "mlp:widths=64", "time series in twelve channels", has_test=True),
        Recipe("mfeat", "mlp:widths=64", "images of numerals"),
    )
}


class RefusedError(Exception):
    """A first look that would be none."""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    seconds: float
    processor_seconds: float
    status: int
    was_stopped: bool
    said: str


def run(command: Sequence[str], *, folder: Path, limit: float | None = None) -> Done:
    """Runs a program; at the limit it is interrupted as by Ctrl-C, so that a search keeps what it found."""
    paths = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(SETS))))
    # one thread: sums round alike, and so do searches
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background a shell has it ignored
    start, was_stopped = time.perf_counter(), False
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=said
        )
        used = 0.0
        while process.poll() is None and (limit is None or used < limit):
            time.sleep(0.2)
            used = processor_seconds(process.pid, used)
        if process.poll() is None:
            was_stopped = True
            process.send_signal(signal.SIGINT)
            try:
                process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        said.seek(0)
        seconds = round(time.perf_counter() - start, 1)
        return Done(seconds, round(used, 1), process.returncode, was_stopped, said.read()[-2000:])


def processor_seconds(pid: int, before: float) -> float:
    """What a process has used so far, as Linux tells; of one that has ended, what it had used before."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return before
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def program(name: str) -> str:
    """Our command of that name, beside the Python that runs this."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else name


def look(recipe: Recipe, out: Path, ways: Sequence[str] = WAYS) -> dict[str, Any]:
    """Runs a recipe once and keeps all of it: a record, and a certificate for each way that gave one.

    Raises:
        RefusedError: The folder has a record of one of these ways, the programs are not those of a commit,
            or the data cannot be fetched.
    """
    name = slug(recipe.data)
    path = out / f"{name}.json"
    here = surroundings()
    record: dict[str, Any] = {
        "data": recipe.data,
        "rows": recipe.rows,
        "network": recipe.network,
        "state": "begun",
        **here,
        "commands": commands(recipe),
        "ways": {},
    }
    if path.exists():
        record = json.loads(path.read_text())
        if record["state"] == "failed" or set(ways) & set(record["ways"]):
            raise RefusedError(
                f"{path} exists: a first look happens once. Commit it as it is, finished or not; to look "
                "again, which is a second look, give another folder with --out."
            )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name_of_program, *arguments in recipe.fetching():
            done = run([program(name_of_program), *arguments], folder=folder)
            if done.status != 0:
                raise RefusedError(
                    f"{recipe.data} was not looked at, for it could not be fetched: {done.said}"
                )
        out.mkdir(parents=True, exist_ok=True)
        record["ways"].update(dict.fromkeys(ways))
        path.write_text(as_text(record))
        trained = run([program("codebound"), *recipe.training()], folder=folder)
        record["training_seconds"] = trained.seconds
        if trained.status != 0:
            record.update(state="failed", failure=trained.said)
            path.write_text(as_text(record))
            return record
        for way in ways:
            found = one_way(recipe, way, folder, out / "certificates" / f"{name}-{way}.cbound")
            record["ways"][way] = {"commit": here["commit"], "begun": here["begun"], **found}
            path.write_text(as_text(record))
            shutil.rmtree(folder / way, ignore_errors=True)
    if all(record["ways"].get(way) for way in WAYS):
        record["state"] = "finished"
    path.write_text(as_text(record))
    return record


def one_way(recipe: Recipe, way: str, folder: Path, target: Path) -> dict[str, Any]:
    """Certifies in one way, has the second program check it, keeps it; or says what came instead."""
    limit = LIMIT_SECONDS.get(way, METHOD_SECONDS)
    done = run([program("codebound"), *recipe.certification(way)], folder=folder, limit=limit)
    outcome = {
        "limit_processor_seconds": limit,
        "processor_seconds": done.processor_seconds,
        "seconds": done.seconds,
        "stopped_at_limit": done.was_stopped,
    }
    certificate, result = folder / way / "certificate.cbound", folder / way / "result.json"
    if not certificate.exists():
        return {**outcome, "certificate": None, "reason": done.said.strip()[-600:]}
    known = json.loads(result.read_text())
    arguments = shlex.split(known["verify"])[1:]
    checked = run([program("codebound-verify"), *arguments], folder=folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(certificate, target)
    kept = {key: known[key] for key in known if key not in ("certificate", "verify", "seconds")}
    return {
        **outcome,
        "certificate": target.name,
        "verify": recipe.verification(target.name),
        "verify_status": checked.status,
        "verify_seconds": checked.seconds,
        **kept,
    }


def slug(data: str) -> str:
    """A name for files."""
    return Path(data.partition(":")[0]).stem


def commands(recipe: Recipe) -> list[str]:
    """Every command of a recipe, as typed, with the time it may take."""
    lines = [" ".join(each) for each in (*recipe.fetching(), ["codebound", *recipe.training()])]
    for way in WAYS:
        seconds = LIMIT_SECONDS.get(way, METHOD_SECONDS)
        limit = f"  # at most {seconds} s of processor time"
        lines.append(" ".join(["codebound", *recipe.certification(way), limit]))
    return lines


def surroundings() -> Mapping[str, Any]:
    """The format, the commit and the versions.

    Raises:
        RefusedError: Sources, page or recipes differ from the commit, or the page from the programs.
    """
    page = hashlib.sha256((ROOT / "docs/format.md").read_bytes()).hexdigest()
    if page != PAGE.sha256:
        raise RefusedError("docs/format.md is not the page that the programs name: freeze the format first.")
    if changed := git("status", "--porcelain", "--", *FIXED):
        raise RefusedError(f"commit these before looking at data: {' '.join(changed.split())}.")
    import numpy
    import torch

    return {
        "format_sha256": page,
        "format_frozen": PAGE.frozen,
        "commit": git("rev-parse", "HEAD"),
        "recipe_commit": git("log", "-1", "--format=%H %cI", "--", "results/fresh.py"),
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "codebound": codebound.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, 1 thread",
    }


def git(*arguments: str) -> str:
    """What git says."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def as_text(record: Mapping[str, Any]) -> str:
    """A record as a file."""
    return json.dumps(record, indent=2) + "\n"


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECIPES))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="a part of the recipe")
    parser.add_argument("--list", action="store_true", help="print the commands and run nothing")
    parser.add_argument("--out", type=Path, default=HERE / "fresh", help="folder of the records")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in RECIPES]
    if unknown:
        parser.error(f"no recipe for {', '.join(unknown)}")
    for name in options.names or RECIPES:
        if options.list:
            sys.stdout.write("\n".join([f"# {name}", *commands(RECIPES[name]), ""]))
            continue
        try:
            record = look(RECIPES[name], options.out, options.ways)
        except RefusedError as refusal:
            sys.exit(str(refusal))
        sys.stdout.write(f"{name}: {record['state']}\n")


if __name__ == "__main__":
    main()
