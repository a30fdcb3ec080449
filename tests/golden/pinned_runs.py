"""Runs whose results are pinned: commands of codebound on small files that are made with a seed.

``python tests/golden/pinned_runs.py`` records them anew in ``pins.json``, on one thread and with the pinned
versions. A change of the structure leaves every one of them as it is; a change of method says in its commit
which one moves, and why.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

GOLDEN = Path(__file__).parent
PINS = GOLDEN / "pins.json"
WEIGHTS = GOLDEN / "pinned_weights.npz"
_F = "--data clouds.npz --model linear --weights linear.safetensors --effort quick"
_BASE = "--data clouds.npz --model linear --base linear.safetensors"
RUNS = {
    "table, split": "--data table.csv:label --method split --effort quick",
    "table, default": "--data table.csv:label --effort quick",
    "table, picks": "--data table.csv:label --method picks --effort quick",
    "table, small delta": "--data table.csv:label --effort quick --delta 0.001",
    "two classes, default": "--data two.csv:label --effort quick",
    "two classes, false alarms": "--data two.csv:label --method split --effort quick --loss false-alarm:1",
    "two classes, by class": "--data two.csv:label --method picks --effort quick --by-class",
    "clouds, split": "--data clouds.npz --test test.npz --method split --effort quick",
    "clouds, default": "--data clouds.npz --test test.npz",
    "clouds, picks": "--data clouds.npz --method picks --effort quick",
    "clouds, picks, one class": "--data clouds.npz --method picks --effort quick --loss class:1",
    "clouds, split, one confusion": "--data clouds.npz --method split --effort quick --loss confused:0:1",
    "clouds, split, costs above": "--data clouds.npz --method split --effort quick"
    " --loss cost-above:1:distance",
    "clouds, split, answered": "--data clouds.npz --method split --effort quick --on answered:0.5",
    "clouds, split, each class": "--data clouds.npz --method split --effort quick --on 'each class'",
    "clouds, as in the file": "--data clouds.npz --method split --effort quick --order file",
    "copies": "--data copies.npz --method split --effort quick",
    "copies, records": "--data copies.npz --method split --effort quick --copies repeated",
    "copies, draws": "--data copies.npz --method split --effort quick --copies independent",
    "network, constant": f"{_F} --method constant",
    "network, naive": f"{_F} --method naive",
    "network, prune": f"{_F} --method prune --test test.npz",
    "network, two best": f"{_F} --method prune --loss top:2",
    "network, base": f"{_BASE} --method prune --effort quick",
    "network, scores": f"{_BASE} --method scores --effort quick",
    "network, biases": f"{_BASE} --method scores",
    "network, f by fresh inputs": f"{_F} --method naive --unlabelled fresh.npz",
    "network, f on a range": f"{_F} --method naive --input-range -9 9",
    "pictures, default": "--data pictures.npz --effort quick",
    "pictures, split": "--data pictures.npz --method split --effort quick",
    "pictures, picks": "--data pictures.npz --method picks --effort quick",
}


def write_files(folder: Path) -> None:
    """Write the samples and the weights that the runs name."""
    from safetensors.numpy import save_file

    stream = np.random.default_rng(8)
    centres = 2.0 * np.eye(3, 5)
    for name, n in (("clouds", 300), ("test", 100), ("fresh", 200)):
        y = stream.integers(3, size=n)
        x = (centres[y] + 0.8 * stream.normal(size=(n, 5))).clip(-8.0, 8.0).astype(np.float32)
        np.savez(folder / f"{name}.npz", x=x, y=y)
    x, y = (np.load(folder / "clouds.npz")[key] for key in "xy")
    np.savez(folder / "copies.npz", x=np.concatenate([x, x[:60]]), y=np.concatenate([y, y[:60]]))
    digits = load_digits()
    np.savez(folder / "pictures.npz", x=digits.images[:240, None].astype(np.uint8), y=digits.target[:240])
    rows = ["age,city,day,height,label"]
    for _ in range(260):
        age, height = int(stream.integers(18, 90)), stream.normal(170.0, 10.0)
        city = ("Bern", "Genf", "Chur")[stream.integers(3)]
        label = "abc"[(age > 50) + (city == "Bern" and height > 168.0)]
        tall = "" if stream.random() < 0.05 else f"{height:.1f}"
        rows.append(f"{age},{city},2024-0{stream.integers(1, 10)}-11,{tall},{label}")
    (folder / "table.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    two = [row.replace(",c", ",b") for row in rows]
    (folder / "two.csv").write_text("\n".join(two) + "\n", encoding="utf-8")
    weights = np.load(WEIGHTS)
    for name in ("linear", "mlp"):
        tensors = {key.split("/")[1]: weights[key] for key in weights.files if key.startswith(f"{name}/")}
        save_file(tensors, folder / f"{name}.safetensors")


def arguments_of(name: str, out: Path) -> list[str]:
    """The words of a run, whose certificate goes to ``out``."""
    return ["certify", *shlex.split(RUNS[name]), "--out", str(out), "--quiet"]


def outcome(status: int, out: Path) -> dict[str, object]:
    """What is pinned of a run: its exit status, and claim, known share and message of its file."""
    record: dict[str, object] = {"status": status}
    if (out / "certificate.cbound").is_file():
        content = (out / "certificate.cbound").read_bytes()
        header = json.loads(content[12 : 12 + int.from_bytes(content[8:12], "little")])
        told = json.loads((out / "result.json").read_text(encoding="utf-8"))
        record |= {"claim": header["claim"], "known": header["known"]["rows"], "verdict": told["verdict"]}
        record |= {"bits": header["message"]["bits"], "ledger": header["message"]["ledger"]}
        record |= {"method": told["method"], "statement": told["statement"]}
        record |= {"by class": told["by_class"]} if "by_class" in told else {}
    return record


def main() -> None:
    """Record every run."""
    import torch

    from codebound.cli.main import main as run

    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    pins = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_files(Path(folder))
        for number, name in enumerate(RUNS):
            out = Path(f"out{number}")
            sys.argv = ["codebound", *arguments_of(name, out)]
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    run()
                status = 0
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else bool(end.code)
            pins[name] = outcome(int(status or 0), out)
            claim = pins[name].get("claim")
            print(name, status, claim["bound"] if claim else "")
    PINS.write_text(
        json.dumps(pins, indent=None, sort_keys=True).replace('}, "', '},\n"') + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
