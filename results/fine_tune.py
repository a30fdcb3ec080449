"""The everyday case: few labelled examples, and a network that was pre-trained on other data.

    python results/fine_tune.py       pre-trains on MNIST, fine-tunes on digits, certifies, verifies

MNIST, shrunk to the 8 x 8 pixels of digits, trains the base; it comes from other writers and another country
than digits. The message holds what fine-tuning changed. Everything about the base (crop, epochs, rate, seed)
was written down before it was first tried on digits, and there is one base: whoever picks the best of many
after looking has to pay for that choice.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound import __version__
from codebound.sample.load import load_dataset

if TYPE_CHECKING:
    from numpy.typing import NDArray

HERE = Path(__file__).parent
NAME = "digits-from-mnist"
MODEL = "few-bits"
SAYS = "trained on the 60,000 training images of MNIST, shrunk to 8 x 8 pixels, by results/fine_tune.py"
TRAINED = "base/model.safetensors"
BASE = HERE / "certificates" / f"{NAME}.base.safetensors"
COMMANDS = [
    f"train {MODEL} --data mnist8.npz --epochs 10 --lr 0.002 --schedule cosine --out base",
    f"certify --model {MODEL} --weights {TRAINED} --data digits --base {TRAINED} --base-says SAYS --out g",
    f"certify --model {MODEL} --data digits --method subspace --out alone",
]


def shrunk(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The middle 20 x 20 pixels, where MNIST has its digits, averaged over areas of 2.5 x 2.5."""
    halves = images[:, :, 4:24, 4:24].astype(np.float64).repeat(2, axis=2).repeat(2, axis=3)
    means: NDArray[np.float64] = halves.reshape(len(images), 1, 8, 5, 8, 5).mean(axis=(3, 5))
    return np.rint(means).astype(np.uint8)


def main() -> None:
    """Runs the commands in a temporary folder and keeps certificate, base, numbers and verdict here."""
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mnist = load_dataset("mnist")
        np.savez(folder / "mnist8.npz", x=shrunk(np.asarray(mnist.x)), y=np.asarray(mnist.y))
        for command in COMMANDS:
            words = [SAYS if word == "SAYS" else word for word in command.split()]
            subprocess.run(["codebound", *words], cwd=folder, check=True)
        for each in ("g", "alone"):
            found = json.loads((folder / each / "result.json").read_text())
            results[each] = {key: found[key] for key in found if key not in ("certificate", "verify")}
        certificate = HERE / "certificates" / f"{NAME}.cbound"
        certificate.write_bytes((folder / "g" / "certificate.cbound").read_bytes())
        BASE.write_bytes((folder / "base" / "model.safetensors").read_bytes())
    verify = [
        "codebound-verify",
        str(certificate),
        "--data",
        "digits",
        "--base",
        str(BASE),
        "--format",
        "json",
    ]
    answer = json.loads(subprocess.run(verify, check=True, capture_output=True, text=True).stdout)
    record = {
        "commands": [f"codebound {command}" for command in COMMANDS],
        "verify": f"codebound-verify results/certificates/{NAME}.cbound --data digits --base "
        f"results/certificates/{BASE.name}",
        "verdict": answer["verdict"],
        "declared": answer["assumptions"][0],
        "from_base": results["g"],
        "without_base": results["alone"],
        "seed": 0,
        "device": "cpu",
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "codebound": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
    (HERE / f"{NAME}.json").write_text(json.dumps(record, indent=2) + "\n")
    sys.stdout.write(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
