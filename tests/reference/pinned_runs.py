"""Runs whose results are pinned: commands of codebound on small files that are made with a seed.

``python tests/reference/pinned_runs.py`` records them anew in ``tests/golden/pins.json``, on one thread and
with the pinned versions. A change of the structure leaves every one of them as it is; a change of method says
in its commit which one moves, and why.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

GOLDEN = Path(__file__).parents[1] / "golden"
PINS = GOLDEN / "pins.json"
WEIGHTS = GOLDEN / "pinned_weights.npz"
_HEADER_AT = 12  # behind seven bytes of magic, one of version and four of length

QUICK = {
    "table, picks": "certify --data table.csv:label --method picks --effort quick",
    "table, split": "certify --data table.csv:label --method split --effort quick",
    "table, constant": "certify --data table.csv:label --method constant",
    "clouds, split": "certify --data clouds.npz --test test.npz --method split --effort quick",
    "network, naive": "certify --data clouds.npz --model linear --weights linear.safetensors --method naive",
    "network, biases": "certify --data clouds.npz --model linear"
    " --base linear.safetensors --method biases --effort quick",
    "copies": "certify --data copies.npz --method split",
    "bound, message": "bound --errors 300 --n 60000 --bits 5000 --delta 0.05 --classes 10",
    "bound, picks": "bound --picks 700 --errors 100 --n 60000 --bits 30 --delta 0.05",
    "bound, untouched": "bound --errors 5 --n 360 --holdout",
}
_F = "certify --data clouds.npz --model linear --weights linear.safetensors --effort quick"
_M = "certify --data clouds.npz --model mlp:depth=2,width=8 --weights mlp.safetensors --effort quick"
THOROUGH = {
    "table, default": "certify --data table.csv:label",
    "table, default, quick": "certify --data table.csv:label --effort quick",
    "table, small delta": "certify --data table.csv:label --effort quick --delta 0.001",
    "two classes, default": "certify --data two.csv:label --effort quick",
    "two classes, false alarms": "certify --data two.csv:label --method split --effort quick"
    " --loss false-alarm:1",
    "two classes, by class": "certify --data two.csv:label --method picks --effort quick --by-class",
    "clouds, default": "certify --data clouds.npz --test test.npz",
    "clouds, picks": "certify --data clouds.npz --method picks --effort quick",
    "clouds, picks, one class": "certify --data clouds.npz --method picks --effort quick --loss class:1",
    "clouds, split, one confusion": "certify --data clouds.npz --method split --effort quick"
    " --loss confused:0:1",
    "clouds, split, costs above": "certify --data clouds.npz --method split --effort quick"
    " --loss cost-above:1:distance",
    "clouds, helper": "certify --data clouds.npz --prior-fraction 0.5 --method prune --effort quick",
    "clouds, helpers": "certify --data clouds.npz --prior-fraction auto --method prune --effort quick",
    "clouds, allowed copies": "certify --data copies.npz --method split --effort quick --allow-copies",
    "network, default": _F,
    "network, prune": f"{_F} --method prune --test test.npz",
    "network, features": f"{_F} --method features",
    "network, subspace": f"{_F} --method subspace",
    "network, mbp": f"{_F} --method mbp",
    "network, low rank": f"{_M} --method lowrank",
    "network, project": f"{_M} --method project",
    "network, heavy tails": f"{_M} --method heavytail",
    "network, filled": f"{_M} --method gaussian-fill",
    "network, sketch": f"{_M} --method sketch",
    "network, vectors": f"{_M} --method vector-compress",
    "network, two best": f"{_F} --method prune --loss top:2",
    "network, base": "certify --data clouds.npz --model linear --base linear.safetensors"
    " --method prune --effort quick",
    "network, f by fresh inputs": f"{_F} --method naive --unlabelled fresh.npz",
    "network, f on a range": f"{_F} --method naive --input-range -9 9",
    "pictures, default, quick": "certify --data pictures.npz --effort quick",
    "pictures, picks": "certify --data pictures.npz --method picks --effort quick",
    "pictures, split": "certify --data pictures.npz --method split --effort quick",
}
RUNS = QUICK | THOROUGH


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
    """The words of a run; a certificate goes to ``out``."""
    words = shlex.split(RUNS[name])
    if words[0] == "certify":
        return [*words, "--out", str(out), "--quiet"]
    return [*words, "--format", "json"]


def outcome(name: str, status: int, printed: str, out: Path) -> dict[str, object]:
    """Return what is pinned of a run: its exit status, and its claim, counts and bits."""
    record: dict[str, object] = {"status": status}
    file = out / "certificate.cbound"
    if file.is_file():
        content = file.read_bytes()
        size = int.from_bytes(content[8:_HEADER_AT], "little")
        header = json.loads(content[_HEADER_AT : _HEADER_AT + size])
        facts = {key: value for key, value in header["facts"].items() if not key.endswith("sha256")}
        verdict = json.loads((out / "result.json").read_text(encoding="utf-8"))["verdict"]
        record |= {"claim": header["claim"], "facts": facts, "ledger": header["ledger"], "verdict": verdict}
    elif RUNS[name].startswith("bound") and not status:
        record["bounds"] = json.loads(printed)
    return record


def main() -> None:
    """Record every run."""
    import contextlib
    import io
    import os
    import tempfile

    import torch

    from codebound.cli.main import main as run

    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    pins = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_files(Path(folder))
        for number, name in enumerate(RUNS):
            out, printed = Path(f"out{number}"), io.StringIO()
            sys.argv = ["codebound", *arguments_of(name, out)]
            try:
                with contextlib.redirect_stdout(printed):
                    run()
                status = 0
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else bool(end.code)
            pins[name] = outcome(name, int(status or 0), printed.getvalue(), out)
            claim = pins[name].get("claim")
            print(name, status, claim["bound"] if claim else "")
    PINS.write_text(json.dumps(pins, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
