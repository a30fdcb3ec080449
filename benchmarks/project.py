"""Time and memory of random projections and of their decoding, against the size of the layer.

Run: python benchmarks/project.py [--full]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from codebound_papers.compress.random_matrices import combine, project_onto

T = TypeVar("T")
COUNT = 2000
SIDES = (256, 512, 1024, 2048, 4096)
KINDS = (("signs", False, False), ("signs by rows", True, False), ("Gaussians by rows", True, True))


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """A result and its wall time in seconds."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def peak_gib() -> float:
    """The most memory that this process has had so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def main() -> None:
    """Prints one line per size and kind of helper."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="layers up to 4096 x 4096")
    sides = SIDES if parser.parse_args().full else SIDES[:2]
    rng = np.random.default_rng(0)
    print(f"k = {COUNT:,}; peak memory is that of the process so far")
    print(
        f"{'layer':>12} {'helper':>18} {'project s':>10} {'decode s':>9} {'ns/product':>11} {'peak GiB':>9}"
    )
    for side in sides:
        weights = rng.normal(size=(side, side)) / np.sqrt(side)
        for name, by_rows, gaussian in KINDS:
            vectors = weights if by_rows else weights.reshape(1, -1)
            products, project_s = timed(
                lambda v=vectors, g=gaussian: project_onto(v, count=COUNT, seed=0, gaussian=g)  # type: ignore[misc]
            )
            levels = np.rint(products * (50 / np.abs(products).max())).astype(np.int64)
            _, decode_s = timed(
                lambda z=levels, n=vectors.shape[1], g=gaussian: combine(z, n, seed=0, gaussian=g)  # type: ignore[misc]
            )
            each = 1e9 * (project_s + decode_s) / (2 * COUNT * side**2)
            print(
                f"{side:>5} x {side:<4} {name:>18} {project_s:10.2f} {decode_s:9.2f} {each:11.3f} "
                f"{peak_gib():9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
