"""Hottest spots of a few jobs: python benchmarks/profiles.py [JOB ...] [--spots 3]

picks     certify of the embedded digits, method picks, standard effort
prune     certify of a linear network on them, method prune, standard effort
verify    the second program on the certificate of picks, and on that of prune
measure   a 64-100-100-10 network on them: spectra, tails, cushions, smoothness and margins
compare   the published bounds of that network, on 200 of them

Nothing is compared with: for each job the hottest spots, which are what to make faster first. A spot is a
function of ours with what it calls of others, torch and numpy for the most part, but not of ours, so that
shares add up; beside it the dearest of these calls. The seconds are those of a first run without a profile,
which pays for imports too. Profiles make small calls look dearer than they are, and wait for other threads
(``acquire``) where these do the work: measure a gain by the processor time of a run without one.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from codebound.certificate.file import Certificate

SPOTS = 3
OURS = ("codebound", "codebound_networks", "codebound_papers", "codebound_verify")
Place: TypeAlias = tuple[str, int, str]


@dataclass(frozen=True)
class Spot:
    """A function of ours: seconds in it and in what it calls of others, and the dearest of these calls."""

    name: str
    seconds: float
    dearest: str


def name_of(place: Place) -> str:
    """Module and name of a function; the bare name of a function without a file."""
    path = Path(place[0])
    if place[0] == "~":
        return place[2].strip("<>").replace("built-in method ", "").replace("method ", "")
    known = [at for at, part in enumerate(path.parts) if part in (*OURS, "torch", "numpy")]
    module = ".".join((*path.parts[known[-1] : -1], path.stem)) if known else path.stem
    return f"{module}.{place[2]}"


def is_ours(place: Place) -> bool:
    """Return True if a function is one of this project."""
    return any(part in OURS for part in Path(place[0]).parts)


def spots(profile: cProfile.Profile) -> list[Spot]:
    """The functions of ours, hottest first.

    What a function of others takes goes to those that call it, by the share of its calls that is theirs: a
    profile knows callers, no stacks.
    """
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    seconds: dict[Place, float] = defaultdict(float)
    calls: dict[Place, dict[Place, float]] = defaultdict(lambda: defaultdict(float))

    def give(place: Place, took: float, dearest: Place, seen: frozenset[Place]) -> None:
        callers = {each: row[3] for each, row in stats[place][4].items() if each not in seen}
        if is_ours(place) or not callers:
            seconds[place] += took
            calls[place][dearest] += took
            return
        whole = sum(callers.values())
        for each, share in callers.items():
            part = took * (share / whole if whole else 1.0 / len(callers))
            if part > 1e-6:
                give(each, part, dearest, seen | {place})

    for place, (_, _, own, _, _) in stats.items():
        give(place, own, place, frozenset({place}))
    ranked = sorted(seconds, key=lambda place: -seconds[place])
    return [
        Spot(name_of(place), seconds[place], name_of(max(calls[place], key=lambda call: calls[place][call])))
        for place in ranked
        if is_ours(place)
    ]


def jobs() -> dict[str, Callable[[], object]]:
    """A call for every job; certificates and networks are made before."""
    import torch

    from codebound.certificate.verification import verify
    from codebound.certification import certify
    from codebound.sample.load import load_sample
    from codebound_networks.reading.loading import load_model
    from codebound_papers.compare.table import compare
    from codebound_papers.measure.record import MeasureSettings
    from codebound_papers.measure.summary import FAMILIES, summarise

    digits = load_sample("digits")
    torch.manual_seed(0)
    shape, classes = digits.input_shape, digits.classes
    linear = load_model("linear", input_shape=shape, classes=classes)
    deep = load_model("mlp:widths=100x100", input_shape=shape, classes=classes)
    made: dict[str, Certificate] = {}

    def certified(method: str) -> Certificate:
        made[method] = certify(
            digits, network=linear if method == "prune" else None, method=method
        ).certificate
        return made[method]

    def verified() -> None:
        for method in ("picks", "prune"):
            verify(made[method] if method in made else certified(method), digits)

    return {
        "picks": lambda: certified("picks"),
        "prune": lambda: certified("prune"),
        "verify": verified,
        "measure": lambda: summarise(deep, digits, MeasureSettings(families=FAMILIES)),
        "compare": lambda: compare(deep, digits, effort=None, settings=MeasureSettings(examples=200)),
    }


def main() -> None:
    """Prints the hottest spots of the jobs that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("jobs", nargs="*", help="default: all")
    parser.add_argument("--spots", type=int, default=SPOTS, help="functions of each")
    options = parser.parse_args()
    known = jobs()
    if unknown := set(options.jobs) - set(known):
        parser.error(f"unknown job {min(unknown)!r}; known: {', '.join(known)}")
    for name in options.jobs or known:
        before, profile = time.process_time(), cProfile.Profile()
        known[name]()
        seconds = time.process_time() - before
        profile.runcall(known[name])
        found = spots(profile)
        whole = sum(each.seconds for each in found) or 1.0
        print(f"{name}: {seconds:.2f} s of the processor", flush=True)
        for each in found[: options.spots]:
            share = f"{100.0 * each.seconds / whole:.0f} %"
            print(f"  {share:>5} {each.name}" + (f" ({each.dearest})" if each.dearest != each.name else ""))


if __name__ == "__main__":
    main()
