"""Growth of time and memory: python benchmarks/scaling.py [SECTION ...] [--full]

engines   jobs a second and overhead a job, on processes of this machine and on Ray where it is installed
weights   certify (quick, naive), verify, measure (spectra, cushions, margins) and compare, against the number
          of weights, on 1,000 examples
samples   the same against the number of examples, on 10,000 weights
counting  errors counted in one process and in two, against the number of examples

Data are random bytes; every cell runs in a process of its own, with one thread. Its seconds are those of the
processor, which others who use the machine change less; its memory is the peak less what network and sample
took before. The exponent is the slope of the least-squares line through the logarithms, and beside it that
between the two largest sizes, where fixed costs no longer hide it. Needs Linux.
Sizes are 10^5 and 10^6 weights, 10^4 and 10^5 examples; --full takes all from 10^4 to 10^8 and from 10^3 to
10^6: half an hour and some gigabytes.
A message has at most 2^26 weights (docs/format.md), so the lines of certify and verify end at 6 * 10^7; for
more, certify makes a network of its own (method auto), which is measured beside them.
What is measured is kept at once in --out: stop at any time, and the same command goes on.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratios import beside

from codebound import __version__
from codebound.run.errors import CodeboundError
from codebound.run.job import Engine, Job, LocalEngine
from codebound_papers.journal import Journal
from codebound_papers.sweep.cluster import RayEngine

if TYPE_CHECKING:
    from codebound.report.folder import Result

SHAPE, CLASSES = (1, 28, 28), 10
INPUTS = math.prod(SHAPE)
FEW_EXAMPLES, FEW_WEIGHTS = 1_000, 10_000
STABILITY_EXAMPLES = 100
MOST_CODED = 60_000_000
TOY_JOBS = 200
VERBS = ("certify", "verify", "measure", "compare")
CODED = ("certify", "verify")


def nothing(*, number: int) -> int:
    """The smallest job."""
    return number


def case(weights: int, examples: int) -> tuple[Any, Any]:
    """A network of about that many weights and a sample of random bytes.

    Its layers are as wide as an image on one side, so that only the other side grows: no matrix has more than
    784 singular values.
    """
    import numpy as np

    from codebound.sample.dataset import Sample, Scaling
    from codebound_networks.reading.loading import load_model

    random = np.random.default_rng(0)
    x = random.integers(0, 256, size=(examples, *SHAPE), dtype=np.uint8)
    y = random.integers(0, CLASSES, size=examples)
    sample = Sample("random bytes", "train", x, y, CLASSES, Scaling(divisor=255.0))
    wide = max(1, weights // (3 * INPUTS + CLASSES))
    return load_model(f"mlp:widths={wide}x{INPUTS}x{wide}", input_shape=SHAPE, classes=CLASSES), sample


def cell(*, verb: str, weights: int, examples: int) -> dict[str, float]:
    """Seconds and megabytes of one call, in a process that has done nothing else."""
    from codebound.certificate.verification import verify
    from codebound.certification import certify
    from codebound.request import Run
    from codebound_papers.compare.table import compare
    from codebound_papers.measure.noise.quantities import StabilitySettings
    from codebound_papers.measure.record import MeasureSettings
    from codebound_papers.measure.summary import summarise

    model, sample = case(weights, examples)

    def certified() -> Result:
        return certify(
            sample,
            network=model,
            method="naive" if weights <= MOST_CODED else "auto",
            run=Run(effort="quick"),
        )

    file = certified().certificate if verb == "verify" else None

    def verified() -> None:
        assert file is not None
        if not (verdict := verify(file, sample)).is_accepted:
            raise CodeboundError("\n".join(verdict.reasons))

    cushions = StabilitySettings(interlayer="none", smoothness=None)
    calls: dict[str, Callable[[], object]] = {
        "certify": certified,
        "verify": verified,
        "measure": lambda: summarise(
            model, sample, MeasureSettings(families=("spectra", "stability", "margins"), stability=cushions)
        ),
        "compare": lambda: compare(
            model, sample, effort=None, settings=MeasureSettings(examples=STABILITY_EXAMPLES)
        ),
    }
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, start = megabytes("VmRSS"), time.process_time()
    calls[verb]()
    return {"seconds": time.process_time() - start, "megabytes": megabytes("VmHWM") - before}


def counted(engine: Engine | None, examples: int) -> float:
    """Seconds to count the errors of a network with 10^5 weights."""
    from codebound.certificate.evaluate import count_errors

    model, sample = case(100_000, examples)
    data = sample.on("cpu")
    start = time.perf_counter()
    count_errors(model, data, engine=engine)
    return time.perf_counter() - start


def engines(cells: Journal) -> None:
    """Overhead of jobs that do nothing."""
    choices: dict[str, Callable[[], Engine]] = {"local": lambda: LocalEngine(2)}
    if importlib.util.find_spec("ray") is not None:
        choices["ray"] = lambda: RayEngine(workers=2)
    for name, make in choices.items():
        found = cells.get(f"engine {name}", partial(overhead, make))
        each = found["seconds"] / TOY_JOBS
        print(
            f"{name:6} first results after {found['ready']:6.2f} s; {1 / each:8.0f} jobs/s, "
            f"{1e3 * each:.2f} ms a job",
            flush=True,
        )


def overhead(make: Callable[[], Engine]) -> dict[str, float]:
    """Seconds until an engine has its first results, and for many jobs after that."""
    start = time.perf_counter()
    with make() as engine:
        run_toys(engine, 2)
        ready = time.perf_counter() - start
        return {"ready": ready, "seconds": min(run_toys(engine, TOY_JOBS) for _ in range(3))}


def run_toys(engine: Engine, count: int) -> float:
    """Seconds for that many jobs that do nothing."""
    jobs = [Job(function="scaling:nothing", arguments={"number": number}) for number in range(count)]
    start = time.perf_counter()
    assert sorted(each.value for each in engine.as_finished(jobs)) == list(range(count))
    return time.perf_counter() - start


def grow(cells: Journal, what: str, sizes: Sequence[int], fixed: dict[str, int]) -> None:
    """Prints one line per command and size, and the exponents."""
    for verb in VERBS:
        beyond = [size for size in sizes if what == "weights" and size > MOST_CODED and verb in CODED]
        rows = []
        for size in [min(size, MOST_CODED) if beyond else size for size in sizes] + beyond:
            arguments = {"verb": verb, what: size, **fixed}
            found = cells.get(f"{verb} {what} {size}", partial(alone, arguments))
            if size not in beyond:
                rows.append((size, found["seconds"], found["megabytes"]))
            print(
                f"{verb:8} {size:>11,} {what:8} {found['seconds']:9.2f} s {found['megabytes']:9.0f} MB"
                + ("  by a network of its own" if size in beyond else ""),
                flush=True,
            )
        time_grows, memory_grows = (
            f"{slope(rows, column):.2f} ({slope(rows[-2:], column):.2f} in the end)" for column in (1, 2)
        )
        print(f"{verb:8} powers of the {what}: time {time_grows}, memory {memory_grows}", flush=True)


def alone(arguments: dict[str, Any]) -> dict[str, float]:
    """A cell in a process of its own."""
    with LocalEngine(1) as engine:
        (finished,) = engine.as_finished([Job(function="scaling:cell", arguments=arguments)])
    found: dict[str, float] = finished.value
    return found


def counting(cells: Journal, sizes: Sequence[int]) -> None:
    """Prints the time to count in one and in two processes."""
    for size in sizes:
        found = cells.get(f"counting {size}", partial(counted_twice, size))
        print(
            f"counting {size:>11,} examples   here {found['here']:7.2f} s, "
            f"two processes {found['two']:7.2f} s",
            flush=True,
        )
    what = f"errors of a network of 10^5 weights on {sizes[-1]:,} examples, in two processes"
    beside(what, ours=found["two"], theirs=found["here"], peer="one process")


def counted_twice(examples: int) -> dict[str, float]:
    """Seconds to count here and in two processes that have started."""
    with LocalEngine(2) as engine:
        counted(engine, 10_000)  # workers start and import
        return {
            "here": min(counted(None, examples) for _ in range(2)),
            "two": min(counted(engine, examples) for _ in range(2)),
        }


def slope(rows: Sequence[tuple[float, ...]], column: int) -> float:
    """Of the least-squares line through the logarithms of sizes and of a column."""
    x, y = ([math.log(max(row[place], 1e-9)) for row in rows] for place in (0, column))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum(
        (a - mean_x) ** 2 for a in x
    )


def megabytes(field: str) -> float:
    """A field of what Linux says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(field))) / 1024


def main() -> None:
    """Runs the sections that were asked for."""
    sections = ("engines", "weights", "samples", "counting")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*sections, []], help="default: all")
    parser.add_argument("--full", action="store_true", help="up to 10^8 weights and 10^6 examples")
    parser.add_argument("--out", type=Path, default=Path("runs/scaling.json"), help="file of finished cells")
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    cells = Journal(arguments.out, run={"benchmark": "scaling", "codebound": __version__})
    weights = [10**power for power in (range(4, 9) if arguments.full else (5, 6))]
    samples = [10**power for power in (range(3, 7) if arguments.full else (4, 5))]
    for section in arguments.sections or sections:
        if section == "engines":
            engines(cells)
        elif section == "weights":
            grow(cells, "weights", weights, {"examples": FEW_EXAMPLES})
        elif section == "samples":
            grow(cells, "examples", samples, {"weights": FEW_WEIGHTS})
        else:
            counting(cells, samples if arguments.full else samples[-1:])


if __name__ == "__main__":
    main()
