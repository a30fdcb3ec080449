"""Time of one certified bound at every size, beside SciPy's beta quantile where that one has an answer.

Run: python benchmarks/bounds.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ratios import beside
from scipy.stats import beta

from codebound.bounds.occam import occam_binomial, occam_hoeffding, occam_kl
from codebound.bounds.risk import OccamFacts

CASES = [
    (0, 1_797, 500),
    (300, 60_000, 0),
    (300, 60_000, 5_000),
    (15_000, 50_000, 8_000),
    (0, 10**9, 10**7),
    (5 * 10**8, 10**9, 0),
    (5 * 10**8, 10**9, 10**7),
]


def best_of(repeats: int, work: Callable[[], object]) -> float:
    """Shortest wall time in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    """Prints one line per size."""
    print(
        f"{'errors':>12} {'n':>12} {'bits':>10} {'ours ms':>9} {'scipy ms':>9} {'ratio':>7}  scipy's answer"
    )
    for errors, n, bits in CASES:
        facts = OccamFacts(errors=errors, n=n, code_bits=bits, delta=0.05)
        ours = best_of(20, lambda f=facts: (occam_binomial(f), occam_kl(f), occam_hoeffding(f)))  # type: ignore[misc]
        level = 0.05 * 2.0**-bits if bits < 1000 else 0.0
        theirs = best_of(20, lambda d=level, k=errors, m=n: beta.isf(d, k + 1, m - k))  # type: ignore[misc]
        answer = float(beta.isf(level, errors + 1, n - errors))
        same = math.isclose(answer, occam_binomial(facts).value, rel_tol=1e-6)
        verdict = "agrees" if same else f"{answer:.4g} (underflow)"
        if same:
            what = f"three bounds for {errors:,} errors of {n:,} and {bits:,} bits"
            beside(what, ours=ours, theirs=theirs, peer="one quantile of scipy.stats.beta", unit="ms")
        print(f"{errors:>12,} {n:>12,} {bits:>10,} {ours:9.3f} {theirs:9.3f} {theirs / ours:7.2f}  {verdict}")


if __name__ == "__main__":
    main()
