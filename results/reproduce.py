"""Makes the certificates of this folder again: trains, certifies, verifies, writes JSON and files.

Run: python results/reproduce.py digits-linear        (half a minute)
     python results/reproduce.py mnist-guha-mlp       (three minutes; needs `codebound data get mnist`)
     python results/reproduce.py digits-features      (a minute of one core)
     python results/reproduce.py mnist-features       (ten minutes on one core)
     python results/reproduce.py fashion-features     (ten minutes; needs `codebound data get fashion-mnist`)
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import codebound

HERE = Path(__file__).parent
GUHA = "mlp:depth=5,width=784"
RECIPES = {
    "digits-linear": [
        "train linear --data digits --epochs 100 --out f",
        "certify --model linear --weights f/model.safetensors --data digits --out g",
    ],
    "digits-features": ["certify --model linear --data digits --method features --out g"],
    "mnist-guha-mlp": [
        f"train {GUHA} --data mnist --test mnist --epochs 5 --out f",
        f"certify --model {GUHA} --weights f/model.safetensors --data mnist --test mnist --out g",
    ],
    "mnist-features": ["certify --model linear --data mnist --test mnist --method features --out g"],
    "fashion-features": [
        "certify --model linear --data fashion-mnist --test fashion-mnist --method features --out g"
    ],
}


def main() -> None:
    """Runs one recipe in a temporary folder and keeps its certificate, result and verdict."""
    name = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        for command in RECIPES[name]:
            subprocess.run(["codebound", *command.split()], cwd=folder, check=True)
        data = RECIPES[name][-1].split("--data ")[1].split()[0]
        verdict = subprocess.run(
            ["codebound-verify", "g/certificate.cbound", "--data", data, "--format", "json"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        certificate = HERE / "certificates" / f"{name}.cbound"
        certificate.parent.mkdir(exist_ok=True)
        certificate.write_bytes((Path(folder) / "g/certificate.cbound").read_bytes())
        result = json.loads((Path(folder) / "g/result.json").read_text())
    record = {
        "commands": [f"codebound {command}" for command in RECIPES[name]],
        "verify": f"codebound-verify results/certificates/{name}.cbound --data {data}",
        "verdict": json.loads(verdict.stdout)["verdict"],
        **{key: result[key] for key in result if key not in ("verdict", "certificate", "verify")},
        "seed": 0,
        "device": "cpu",
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "codebound": codebound.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    (HERE / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    sys.stdout.write(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
