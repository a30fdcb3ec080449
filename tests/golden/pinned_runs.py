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
_F = "clouds.npz --model linear --network linear.safetensors --run effort=quick"
_BASE = "clouds.npz --model linear --known base=linear.safetensors"
RUNS = {
    "table, split": "table.csv:label --method split --run effort=quick",
    "table, default": "table.csv:label --run effort=quick",
    "table, picks": "table.csv:label --method picks --run effort=quick",
    "table, small delta": "table.csv:label --run effort=quick --delta 0.001",
    "two classes, default": "two.csv:label --run effort=quick",
    "two classes, false alarms": "two.csv:label --method split --run effort=quick --claim loss=false-alarm:1",
    "two classes, by class": "two.csv:label --method picks --run effort=quick --claim by-class=true",
    "clouds, split": "clouds.npz --test test.npz --method split --run effort=quick",
    "clouds, default": "clouds.npz --test test.npz",
    "clouds, picks": "clouds.npz --method picks --run effort=quick",
    "clouds, picks, one class": "clouds.npz --method picks --run effort=quick --claim loss=class:1",
    "clouds, split, one confusion": "clouds.npz --method split --run effort=quick --claim loss=confused:0:1",
    "clouds, split, costs above": "clouds.npz --method split --run effort=quick"
    " --claim loss=cost-above:1:distance",
    "clouds, split, answered": "clouds.npz --method split --run effort=quick --claim on=answered:0.5",
    "clouds, split, each class": "clouds.npz --method split --run effort=quick --claim 'on=each class'",
    "clouds, as in the file": "clouds.npz --method split --run effort=quick --claim order=file",
    "copies": "copies.npz --method split --run effort=quick",
    "copies, records": "copies.npz --method split --run effort=quick --copies repeated",
    "copies, draws": "copies.npz --method split --run effort=quick --copies independent",
    "network, constant": f"{_F} --method constant",
    "network, naive": f"{_F} --method naive",
    "network, prune": f"{_F} --method prune --test test.npz",
    "network, two best": f"{_F} --method prune --claim loss=top:2",
    "network, base": f"{_BASE} --method prune --run effort=quick",
    "network, scores": f"{_BASE} --method scores --run effort=quick",
    "network, biases": f"{_BASE} --method scores",
    "network, f by fresh inputs": f"{_F} --method naive --unlabelled fresh.npz",
    "network, f on a range": f"{_F} --method naive --claim input-range=-9:9",
    "pictures, default": "pictures.npz --run effort=quick",
    "pictures, split": "pictures.npz --method split --run effort=quick",
    "pictures, picks": "pictures.npz --method picks --run effort=quick",
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
