"""Labels until an alarm, beside RiskMonitoring of MAPIE: the same streams, one process.

    python benchmarks/watch.py
    python benchmarks/watch.py --runs 200
    python benchmarks/watch.py --runs 200 --twice

An error of B is certified, then the error becomes p. Both are told B and raise an alarm that may be looked at
after every label, false with probability at most .01. MAPIE keeps half of its level for reference data, also
where the threshold is given: with --twice it runs at .02 too, of which .01 is left. In the last part 3 % come
first, for a number of labels, then 10 %, with B = 5 %: a good past must not delay the alarm for long.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median

import numpy as np
from ratios import beside, is_installed

from codebound.bounds.monitoring import Mixture

LEVEL = 0.01
SETTINGS = ((0.05, 0.075), (0.05, 0.10), (0.05, 0.15), (0.01, 0.02), (0.01, 0.03))
GOOD_PASTS = (0, 1000, 3000)
MOST = 200_000  # labels

Alarm = Callable[[float, "np.ndarray[tuple[int], np.dtype[np.int64]]"], "int | None"]


def ours(bound: float, outcomes: np.ndarray) -> int | None:
    """Number of the label at which the mixture raises its alarm."""
    watch = Mixture(bound=bound, alpha=LEVEL)
    watch.update(outcomes)
    return watch.alarm_at


def theirs(level: float) -> Alarm:
    """The same for MAPIE at a level: the first label at which the lower limit exceeds the threshold."""
    from mapie.exchangeability_testing import RiskMonitoring

    def first(bound: float, outcomes: np.ndarray) -> int | None:
        monitor = RiskMonitoring(risk="accuracy", test_level=level, threshold=bound, warn=False)
        monitor.update(np.zeros(len(outcomes), dtype=int), outcomes)
        above = monitor.online_risk_lower_bound_sequence_history > bound
        return int(np.argmax(above)) + 1 if above.any() else None

    return first


def delay(alarm: Alarm, bound: float, rate: float, *, seed: int, good: int = 0, guess: int = 500) -> int:
    """Labels from the change to the alarm; the stream grows until there is one."""
    length = guess
    while length < MOST:
        rng = np.random.default_rng(seed)
        past = (rng.random(good) < 0.03).astype(np.int64)
        stream = np.concatenate([past, (rng.random(length) < rate).astype(np.int64)])
        if (found := alarm(bound, stream)) is not None:
            return found - good
        length = int(1.5 * length)
    return MOST


def compare(bound: float, rate: float, runs: range, levels: tuple[float, ...]) -> None:
    """Print the medians of one setting."""
    mine = median(delay(ours, bound, rate, seed=seed, guess=2000) for seed in runs)
    line = f"{bound:5.2f} {rate:6.3f} {mine:7.0f}"
    for level in levels:
        other = median(delay(theirs(level), bound, rate, seed=seed, guess=int(5 * mine)) for seed in runs)
        line += f" {other:11.0f} {other / mine:6.2f}"
        if level == LEVEL:
            what = f"labels to an alarm, {100 * bound:.0f} to {100 * rate:g} %"
            beside(what, ours=mine, theirs=other, peer="RiskMonitoring of MAPIE", unit="labels")
    print(line, flush=True)


def main() -> None:
    """Print one line per setting."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--twice", action="store_true")
    told = parser.parse_args()
    levels: tuple[float, ...] = (LEVEL, 2.0 * LEVEL) if told.twice else (LEVEL,)
    if not is_installed("mapie.exchangeability_testing"):
        levels = ()
    print(
        f"{'B':>5} {'p':>6} {'ours':>7}" + "".join(f"  MAPIE {each:.2f}  ratio" for each in levels),
        flush=True,
    )
    for bound, rate in SETTINGS:
        compare(bound, rate, range(told.runs), levels)
    runs = range(told.runs)
    for good in GOOD_PASTS:
        mine = median(delay(ours, 0.05, 0.10, seed=seed, good=good, guess=2000) for seed in runs)
        print(f"after {good:,} labels at 3 %: {mine:.0f} labels at 10 % to the alarm")


if __name__ == "__main__":
    main()
