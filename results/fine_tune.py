"""The everyday case: few labelled examples, and a network that was pre-trained on other data.

    python results/fine_tune.py       pre-trains on MNIST, fine-tunes on digits, certifies, verifies

MNIST, shrunk to the 8 x 8 pixels of digits, trains the base; it comes from other writers and another country
than digits. The message holds what fine-tuning changed. Everything about the base (crop, epochs, rate, seed)
was written down before it was first tried on digits, and there is one base: whoever picks the best of many
after looking has to pay for that choice.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from records import FILES, made_with, verify, write_record

from codebound.sample.load import load_sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAME = "digits-from-mnist"
MODEL = "few-bits"
SAYS = "trained on the 60,000 training images of MNIST, shrunk to 8 x 8 pixels, by results/fine_tune.py"
TRAINED = "base/model.safetensors"
COMMANDS = [
    f"train {MODEL} --data mnist8.npz --epochs 10 --lr 0.002 --schedule cosine --out base",
    f"certify digits --model {MODEL} --network {TRAINED} --known base={TRAINED} --known says=SAYS --out g",
    f"certify digits --model {MODEL} --method subspace --out alone",
]


def shrunk(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The middle 20 x 20 pixels, where MNIST has its digits, averaged over areas of 2.5 x 2.5."""
    halves = images[:, :, 4:24, 4:24].astype(np.float64).repeat(2, axis=2).repeat(2, axis=3)
    means: NDArray[np.float64] = halves.reshape(len(images), 1, 8, 5, 8, 5).mean(axis=(3, 5))
    return np.rint(means).astype(np.uint8)


def main() -> None:
    """Runs the commands in a temporary folder, and keeps certificate, base and record here."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mnist = load_sample("mnist")
        np.savez(folder / "mnist8.npz", x=shrunk(np.asarray(mnist.x)), y=np.asarray(mnist.y))
        for command in COMMANDS:
            words = [word.replace("=SAYS", f"={SAYS}") for word in command.split()]
            subprocess.run(["codebound", *words], cwd=folder, check=True)
        alone = json.loads((folder / "alone/result.json").read_text())["bound"]
        shutil.copy(folder / "g/certificate.cbound", FILES / f"{NAME}.cbound")
        shutil.copy(folder / TRAINED, FILES / f"{NAME}.base.safetensors")
    made = {"commands": [f"codebound {command}" for command in COMMANDS], "bound_without_base": alone}
    more = {"made": made, **made_with("cpu"), "verified": verify(FILES / f"{NAME}.cbound", "digits")}
    write_record(NAME, "digits", more)


if __name__ == "__main__":
    main()
