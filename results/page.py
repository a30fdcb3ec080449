"""Writes the tables of results/README.md and its picture from the files beside it.

Run: python results/page.py

A new certificate is one entry of ``RESULTS``, a new sample one of ``DATA``; a program for it is a file in
``as_program`` and an entry there.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebound.bounds.held_out import picked_risk
from codebound.bounds.numerics import kl_inverse_upper
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts, PickedFacts, percent
from codebound.certificate.file import Certificate
from codebound_papers.report.figures import Contours, Plot, Series, plots_figure, standalone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HERE = Path(__file__).parent
PAGE, PICTURE = HERE / "README.md", HERE / "scatter.svg"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"
PROGRAMS = HERE / "as_program" / "counted.json"
DELTA = 0.05
TEST_N = 10_000
MORE_BITS = 500


@dataclass(frozen=True)
class Data:
    """A sample, with what others certified on it.

    Attributes:
        name: What it is called.
        others: Certified errors of others who code or shrink a network.
        compressed: The same by sample compression.
        goal: What we aim at.
    """

    name: str
    others: str
    compressed: str
    goal: str


@dataclass(frozen=True)
class Result:
    """A certificate of this folder.

    Attributes:
        data: Its sample.
        network: What g is.
        base: What is declared of a base or of scores, if there are any.
        is_older: Whether the codes that its message uses were fixed before the first result on any sample.
    """

    data: str
    network: str
    base: str = ""
    is_older: bool = False


SHARE = "scores, declared to be made of a known share that is not counted"
DATA = {
    "mnist": Data(
        "MNIST",
        "11.6 % (Lotfi 2022), 21.7 % (Perez-Ortiz 2021), 46 % (Zhou 2019)",
        "3.06 % (Pick-to-Learn 2026)",
        "6.0 %, then 3.0 %",
    ),
    "fashion-mnist": Data(
        "Fashion-MNIST", "32.8 % (Lotfi 2022), 44.8 % (Perez-Ortiz, run again)", "-", "20.5 %, then 18 %"
    ),
    "cifar10": Data(
        "CIFAR-10",
        "56.0 % (Lotfi 2022), 74.1 % (Gaussian PAC-Bayes)",
        "48.5 % (Pick-to-Learn 2026)",
        "52 %, then 45 %",
    ),
    "digits": Data("digits", "-", "-", "35 %, then 28 %"),
}
PICKED = "**learned from picks**, kernel on"
RESULTS = {
    "mnist-picked": Result("mnist", f"{PICKED} fixed filters of the straightened image"),
    "fashion-mnist-picked": Result("fashion-mnist", f"{PICKED} whitened patches"),
    "digits-picked": Result("digits", f"{PICKED} fixed filters of the straightened image"),
    "mnist-subspace": Result(
        "mnist", "convolutions on fixed filters of the straightened image, mean over 5 shifts, 500 integers"
    ),
    "mnist-features": Result("mnist", "sparse layer on fixed filters of the straightened image"),
    "mnist-guha-mlp": Result("mnist", "784-784x4-10 ReLU (Guha et al.), pruned", is_older=True),
    "fashion-subspace": Result("fashion-mnist", "convolutions on fixed filters, mirrored, 650 integers"),
    "fashion-features": Result("fashion-mnist", "sparse layer on fixed filters"),
    "cifar10-subspace": Result("cifar10", "convolutions on fixed filters, mirrored, 1500 integers"),
    "digits-features": Result("digits", "sparse layer on fixed filters of the straightened image"),
    "digits-linear": Result("digits", "linear, pruned", is_older=True),
    "digits-from-mnist": Result("digits", "two convolutions, fine-tuned", base="from MNIST at 8 x 8 pixels"),
    "mnist-default": Result("mnist", "a kernel on fixed filters", base=SHARE),
    "fashion-mnist-default": Result("fashion-mnist", "a kernel on whitened patches", base=SHARE),
    "cifar10-default": Result("cifar10", "a kernel on whitened patches", base=SHARE),
}
LONG = "takes more than 5 minutes of a core or 6 GB to verify"
GPU = "rests on networks that were trained on a GPU"
LEFT = {
    "mnist-5000-picked": (
        "0.96 %",
        f"{LONG}: 134 s of 3 cores and 6.6 GB, for 1.02 % in the new order",
    ),
    "fashion-mnist-15000-picked": ("6.78 %", f"{LONG}: 651 s of two cores"),
    "cifar10-15000-picked": ("19.79 %", f"{LONG}: 770 s of two cores"),
    "cifar10-picked": ("25.83 %", f"{LONG}: 148 s of 3 cores and 6.2 GB, for 25.17 % by 512 filters"),
    "cifar10-encoded-share": ("10.79 %", "rests on an encoder of others and a table that is not kept"),
    "mnist-helped": ("0.53 %", GPU),
    "fashion-mnist-helped": ("5.43 %", GPU),
    "cifar10-helped": ("6.65 %", GPU),
}
"""Files of versions 1 to 3 that are not issued anew, with their bounds, and why."""
LEVELS = {
    "mnist": (0.03, 0.06, 0.1, 0.15, 0.2),
    "fashion-mnist": (0.18, 0.205, 0.23, 0.26),
    "cifar10": (0.45, 0.5, 0.52, 0.55, 0.6),
    "digits": (0.1, 0.2, 0.28, 0.35, 0.45),
}


@dataclass(frozen=True)
class Numbers:
    """Numbers of a result: counts, bits, bounds, and the bits of the whole design as a program.

    Examples that a rule picked, where g was learned from them, count like errors (C-15).
    """

    n: int
    errors: int
    picks: int | None
    bits: int
    bound: float
    program_bits: int | None
    test_errors: int | None
    holdout: float | None
    assurance: str = "replayed"
    before: str = ""
    verified: str = ""

    @property
    def train(self) -> float:
        """Training error of g."""
        return self.errors / self.n

    def at(self, bits: int) -> float:
        """The bound of the same network with a message of so many bits."""
        if self.picks is not None:
            return picked_risk(
                PickedFacts(picks=self.picks, errors=self.errors, n=self.n, code_bits=bits, delta=DELTA)
            ).value
        facts = OccamFacts(errors=self.errors, n=self.n, code_bits=bits, delta=DELTA)
        return occam_binomial(facts).value

    @property
    def with_more_bits(self) -> float:
        """The bound, were the message longer."""
        return self.at(self.bits + MORE_BITS)

    @property
    def as_program(self) -> float | None:
        """The bound with a program in place of the message."""
        return None if self.program_bits is None else self.at(self.program_bits)


def numbers(name: str) -> Numbers:
    """The numbers of a result."""
    record = json.loads((HERE / f"{name}.json").read_text())
    before, used = record["before"], record["verified"]
    program = json.loads(PROGRAMS.read_text()).get(name)
    return Numbers(
        n=record["n"],
        errors=record["train_errors"],
        picks=record.get("picks"),
        bits=record["code_bits"],
        bound=record["bound"],
        program_bits=None if program is None else counted_bits(program),
        test_errors=record.get("test_errors"),
        holdout=record.get("holdout"),
        assurance=record["assurance"],
        before=f"{percent(before['bound'])} ({before['bits']:,} bits)",
        verified=f"{_cost(used)}, {used['gigabytes']:.1f} GB",
    )


def _cost(used: dict[str, Any]) -> str:
    """Seconds of cores; of one core without those in which others had it, of more with those they waited."""
    if used["threads"] == "1":
        return f"{used['processor_seconds']:.0f} s of a core"
    return f"{used['seconds']:.0f} s of {used['threads']} cores"


def counted_bits(program: dict[str, Any]) -> int:
    """Bits of a program, compressed, and of what it reads."""
    return 8 * len(base64.b64decode(program["deflated"])) + int(program["payload_bits"])


COLUMNS = (
    "data",
    "g",
    "assurance",
    "bits",
    "training error",
    "certified error",
    "before format 1.0",
    f"+{MORE_BITS} bits",
    "whole design paid as a program",
    "test error",
    "hold-out bound",
    "to verify",
    "record",
)


def table() -> str:
    """All results, the best of each sample first, those from a base last; then the best beside others."""
    lines = _lines(COLUMNS)
    for key, data in DATA.items():
        rows = [(numbers(name), name, RESULTS[name]) for name in present(key)]
        for found, name, what in sorted(rows, key=lambda row: (bool(row[2].base), row[0].bound)):
            lines += _lines(_cells(data, found, name, what))[:1]
    lines += [
        "",
        *_lines(("data", *BEST, "others, messages or weights", "others, sample compression", "aim here")),
    ]
    for key, data in DATA.items():
        own = [numbers(name) for name in present(key) if RESULTS[name].base in ("", SHARE)]
        best = [_least(map(value, own)) for value in BEST.values()]
        lines += _lines((data.name, *best, data.others, data.compressed, data.goal))[:1]
    lines += ["", *_lines(("not issued anew", "certified error then", "because it"))]
    for name, cells in LEFT.items():
        lines += _lines((name, *cells))[:1]
    return "\n".join(lines) + "\n"


def _cells(data: Data, found: Numbers, name: str, what: Result) -> tuple[str, ...]:
    program = f"{found.program_bits or 0:,} bits: {percent(found.as_program or 1.0)}"
    return (
        f"{data.name}, n = {found.n:,}",
        f"{what.network}; **{what.base}**" if what.base else what.network,
        found.assurance,
        f"{found.bits:,}",
        f"{100.0 * found.train:.2f} %" + (f", {found.picks:,} picked" if found.picks is not None else ""),
        f"**{percent(found.bound)}**",
        found.before,
        percent(found.with_more_bits),
        "-" if found.program_bits is None else program,
        "-" if found.test_errors is None else f"{100.0 * found.test_errors / TEST_N:.2f} %",
        "-" if found.holdout is None else percent(found.holdout),
        found.verified,
        f"[{name}]({name}.json)",
    )


def _of(assurance: str, found: Numbers, value: float | None) -> float | None:
    return value if found.assurance == assurance else None


BEST: dict[str, Callable[[Numbers], float | None]] = {
    "ours, replayed": lambda found: _of("replayed", found, found.bound),
    f"ours, replayed, +{MORE_BITS} bits": lambda found: _of("replayed", found, found.with_more_bits),
    "ours, whole design paid": lambda found: found.as_program,
    "ours, recounted": lambda found: _of("recounted", found, found.bound),
}


def _least(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return percent(min(known)) if known else "-"


def _lines(cells: Sequence[str]) -> list[str]:
    """A row, and the rule that stands below it where it is the first."""
    return [f"| {' | '.join(cells)} |", "|---" * len(cells) + "|"]


def count_programs() -> dict[str, dict[str, Any]]:
    """The programs of this folder, compressed, with the bits that each reads; a minute or two."""
    from as_program.counting import SMALLEST, deflated, payload, source

    found = {}
    for name in SMALLEST:
        certificate = Certificate.load(HERE / "certificates" / f"{name}.cbound")
        stream = base64.b64encode(deflated(source(name))).decode()
        found[name] = {"deflated": stream, "payload_bits": payload(name, certificate)[1]}
    return found


def present(key: str) -> list[str]:
    """The results on a sample that are in this folder."""
    return [name for name, what in RESULTS.items() if what.data == key and (HERE / f"{name}.json").exists()]


def picture() -> str:
    """Bits against training error, with lines of equal bound."""
    plots = []
    for key, data in DATA.items():
        found_all = [(numbers(name), RESULTS[name]) for name in present(key)]
        rows = [
            row for row in found_all if row[0].picks is None
        ]  # others have no place among bits and errors
        if not rows:
            continue
        n = rows[0][0].n  # of the whole sample: lines of equal bound are for one n
        rows = [row for row in rows if row[0].n == n]
        most_bits = 1.3 * max(found.bits for found, _ in rows)
        most_error = 1.4 * max(found.train for found, _ in rows)
        bits = [most_bits * i / 40 for i in range(1, 41)]
        errors = [most_error * i / 40 for i in range(41)]
        nats = [(b * math.log(2.0) - math.log(DELTA)) / n for b in bits]
        grid = [[kl_inverse_upper(error, each) for each in nats] for error in errors]
        series: list[Series | Contours] = [Contours(bits, errors, grid, LEVELS[key])]
        for label, is_based in (("", False), ("from a base", True)):
            points = [found for found, what in rows if bool(what.base) == is_based]
            if points:
                series.append(
                    Series(label, [p.bits for p in points], [p.train for p in points], style="points")
                )
        plots.append(
            Plot(f"{data.name}: lines of equal bound", "bits of the message", "training error of g", series)
        )
    return standalone(plots_figure(plots, columns=2))


def main() -> None:
    """Counts the programs, and writes page and picture."""
    PROGRAMS.write_text(json.dumps(count_programs(), indent=2) + "\n")
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.split(END)[1])
    PICTURE.write_text(picture())


if __name__ == "__main__":
    main()
