"""How long the second program takes to count: with float32 as a screen, and with float64 alone.

    python benchmarks/verify.py                # the three large certificates of results/, all examples
    python benchmarks/verify.py --examples 2000 digits-features
    python benchmarks/verify.py --float64      # also without the screen

The data must be in the cache (codebound data get). Seconds are of the clock and of all cores together.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from codebound.data.load import load_dataset
from codebound_verify.container import load, read
from codebound_verify.evaluate import chain_evaluator, count_errors
from codebound_verify.verdict import decode_network

FOLDER = Path(__file__).parents[1] / "results/certificates"
LARGE = ("mnist-subspace", "fashion-subspace", "cifar10-subspace")
DATA = {"fashion": "fashion-mnist"}


def main() -> None:
    """Prints a line for each file and way to count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=LARGE, help="certificates of results/certificates")
    parser.add_argument("--examples", type=int, help="only the first so many")
    parser.add_argument("--float64", action="store_true", help="count without the screen, too")
    options = parser.parse_args()
    print(f"{torch.get_num_threads()} threads")
    for name in options.names:
        path = FOLDER / f"{name}.cbound"
        header = read(load(path)).header
        chain, tensors = decode_network(path)
        assert chain is not None, f"{name} has a factory"
        data = load_dataset(DATA.get(name.split("-")[0], name.split("-")[0]))
        x, y = (np.asarray(part)[: options.examples] for part in (data.x, data.y))
        for screen in (True, False) if options.float64 else (True,):
            clock, cores = time.perf_counter(), time.process_time()
            errors = count_errors(chain_evaluator(chain, tensors, header=header), x, y, screen=screen)
            clock, cores = time.perf_counter() - clock, time.process_time() - cores
            way = "float32, then float64" if screen else "float64 alone"
            print(
                f"{name:18} {way:22} {errors:6} errors on {len(x)}: {clock:7.1f} s, {cores:7.1f} s of cores"
            )


if __name__ == "__main__":
    main()
