"""Time that the second program takes to count: with float32 as a screen, and with float64 alone.

    python benchmarks/verify.py                # 500 examples for each of four certificates of results/
    python benchmarks/verify.py --examples 0 --screen mnist-subspace   # all of them, as the program counts

Data that are not in the cache (codebound data get) are left out. Seconds are of the clock and of all cores
together.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from ratios import beside

from codebound.run.errors import DataError
from codebound.sample.load import load_dataset
from codebound_verify.container import load, read
from codebound_verify.networks.evaluation import chain_evaluator
from codebound_verify.verdict import decode_network

FOLDER = Path(__file__).parents[1] / "results/certificates"
NAMES = ("digits-features", "mnist-subspace", "fashion-subspace", "cifar10-subspace")
DATA = {"fashion": "fashion-mnist"}


def main() -> None:
    """Prints a line for each file and way to count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, help="certificates of results/certificates")
    parser.add_argument("--examples", type=int, default=500, help="only the first so many; 0: all")
    parser.add_argument("--screen", action="store_true", help="do not count with float64 alone")
    options = parser.parse_args()
    print(f"{torch.get_num_threads()} threads")
    for name in options.names:
        path = FOLDER / f"{name}.cbound"
        header = read(load(path)).header
        chain, tensors = decode_network(path)
        try:
            data = load_dataset(DATA.get(name.split("-")[0], name.split("-")[0]))
        except DataError as error:
            print(f"{name:18} left out: {error}")
            continue
        x, y = (np.asarray(part)[: options.examples or None] for part in (data.x, data.y))
        found = {}
        for screen in (True,) if options.screen else (True, False):
            clock, cores = time.perf_counter(), time.process_time()
            stated = None if options.examples else header.errors  # which all examples are compared with
            network = chain_evaluator(chain, tensors, header=header)
            if not screen:
                network._narrow = ()
            errors = network.count_errors(x, y, stated=stated)
            clock, found[screen] = time.perf_counter() - clock, time.process_time() - cores
            way = "float32, then float64" if screen else "float64 alone"
            print(
                f"{name:18} {way:22} {errors:6} errors on {len(x)}: {clock:7.1f} s, "
                f"{found[screen]:7.1f} s of cores"
            )
        if not options.screen:
            what = f"counting {len(x):,} examples of {name}"
            beside(what, ours=found[True], theirs=found[False], peer="float64 for every example")


if __name__ == "__main__":
    main()
