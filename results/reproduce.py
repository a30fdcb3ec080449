"""Makes the certificates of this folder again: trains, certifies, verifies, writes JSON and files.

Run: python results/reproduce.py digits-linear        (half a minute)
     python results/reproduce.py mnist-guha-mlp       (three minutes; needs `codebound data get mnist`)

The networks called features were trained by a method that left after commit c4a8f837; `reissue.py` keeps
their certificates.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from records import FILES, made_with, verify, write_record

GUHA = "mlp:depth=5,width=784"
RECIPES = {
    "digits-linear": [
        "train linear --data digits --epochs 100 --out f",
        "certify digits --model linear --network f/model.safetensors --out g",
    ],
    "mnist-guha-mlp": [
        f"train {GUHA} --data mnist --test mnist --epochs 5 --out f",
        f"certify mnist --model {GUHA} --network f/model.safetensors --test mnist --out g",
    ],
}


def main() -> None:
    """Runs one recipe in a temporary folder, and keeps its certificate and record."""
    name = sys.argv[1]
    data = RECIPES[name][-1].split()[1]
    with tempfile.TemporaryDirectory() as folder:
        for command in RECIPES[name]:
            subprocess.run(["codebound", *command.split()], cwd=folder, check=True)
        shutil.copy(Path(folder) / "g/certificate.cbound", FILES / f"{name}.cbound")
        result = json.loads((Path(folder) / "g/result.json").read_text())
    made = {"commands": [f"codebound {command}" for command in RECIPES[name]]}
    more = {"made": made, **made_with("cpu"), "verified": verify(FILES / f"{name}.cbound", data)}
    write_record(name, data, more, test_errors=result.get("test_errors"))


if __name__ == "__main__":
    main()
