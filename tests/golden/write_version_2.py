"""Writes the golden files of version 2 with the literal writer: part of ``make freeze``, never after it."""

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "version-2"

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1] / "reference"))
    import cbound_writer as writer

    FOLDER.mkdir(exist_ok=True)
    case = writer.linear_case(30, scaling={"divisor": 16.0, "mean": [0.0], "std": [1.0]})
    (FOLDER / "tiny.cbound").write_bytes(case.data())
    np.savez_compressed(FOLDER / "given.npz", x_tiny=case.x, y_tiny=case.y, x=case.x, y=case.y)
