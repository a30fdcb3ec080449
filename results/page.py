"""Every table and picture of README.md and of the pages of this folder, from the JSON of runs beside it.

    python results/page.py              writes them
    python results/page.py --check      ends with an error if one of them is not what its JSON says
    python results/page.py --run        first certifies digits again, the example of README.md (seconds)
    python results/page.py --programs   first counts the bits of the programs in as_program (minutes)

A new certificate is one entry of ``RESULTS``, a new sample one of ``DATA``; a program for it is a file in
``as_program`` and an entry there. A row of the table of README.md is one entry of ``PROTOCOLS``.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

import codebound as cb
from codebound.bounds.held_out import holdout, picked_risk
from codebound.bounds.numerics import kl_inverse_upper
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import HoldoutFacts, OccamFacts, PickedFacts, percent
from codebound.certificate.file import Certificate
from codebound.sample.order import Design, arrange
from codebound_papers.report.figures import Contours, Plot, Series, plots_figure, standalone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HERE = Path(__file__).parent
ROOT = HERE.parent
SCATTER, EXAMPLE = HERE / "scatter.svg", HERE / "example.json"
MEASURED = ("everyday", "first_look", "any_learner")
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"
PROGRAMS = HERE / "as_program" / "counted.json"
DELTA = 0.05
TEST_N = 10_000
MORE_BITS = 500


@dataclass(frozen=True)
class Result:
    """A certificate of this folder.

    Attributes:
        data: Its sample.
        network: What g is.
        base: What is declared of a base or of scores, if there are any.
    """

    data: str
    network: str
    base: str = ""


SHARE = "scores, declared to be made of a known share that is not counted"
DATA = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "digits": "digits",
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
    "mnist-guha-mlp": Result("mnist", "784-784x4-10 ReLU (Guha et al.), pruned"),
    "fashion-subspace": Result("fashion-mnist", "convolutions on fixed filters, mirrored, 650 integers"),
    "fashion-features": Result("fashion-mnist", "sparse layer on fixed filters"),
    "cifar10-subspace": Result("cifar10", "convolutions on fixed filters, mirrored, 1500 integers"),
    "digits-features": Result("digits", "sparse layer on fixed filters of the straightened image"),
    "digits-linear": Result("digits", "linear, pruned"),
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
    verified: str = ""

    @property
    def test(self) -> str:
        """Test error of g."""
        return "-" if self.test_errors is None else f"{100.0 * self.test_errors / TEST_N:.2f} %"

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
    used = record["verified"]
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
    *("data", "g", "assurance", "bits", "counted error", "certified error", f"+{MORE_BITS} bits"),
    *("design paid as a program", "test error", "hold-out bound", "to verify", "record"),
)


def table() -> str:
    """All results, the best of each sample first, those from a base last; then what is not issued anew."""
    lines = _lines(COLUMNS)
    for key, data in DATA.items():
        rows = [(numbers(name), name, RESULTS[name]) for name in present(key)]
        for found, name, what in sorted(rows, key=lambda row: (bool(row[2].base), row[0].bound)):
            lines += _lines(_cells(data, found, name, what))[:1]
    lines += ["", *_lines(("data", *BEST))]
    for key, data in DATA.items():
        own = [numbers(name) for name in present(key) if RESULTS[name].base in ("", SHARE)]
        lines += _lines((data, *(_least(map(value, own)) for value in BEST.values())))[:1]
    lines += ["", *_lines(("not issued anew", "certified error then", "because it"))]
    for name, cells in LEFT.items():
        lines += _lines((name, *cells))[:1]
    return "\n".join(lines) + "\n"


def _cells(data: str, found: Numbers, name: str, what: Result) -> tuple[str, ...]:
    program = f"{found.program_bits or 0:,} bits: {percent(found.as_program or 1.0)}"
    return (
        f"{data}, n = {found.n:,}",
        f"{what.network}; **{what.base}**" if what.base else what.network,
        found.assurance,
        f"{found.bits:,}",
        f"{100.0 * found.train:.2f} %" + (f", {found.picks:,} picked" if found.picks is not None else ""),
        f"**{percent(found.bound)}**",
        percent(found.with_more_bits),
        "-" if found.program_bits is None else program,
        found.test,
        "-" if found.holdout is None else percent(found.holdout),
        found.verified,
        f"[json]({name}.json)",
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


def scatter() -> str:
    """Bits against counted error, with lines of equal bound."""
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
            Plot(f"{data}: lines of equal bound", "bits of the message", "counted error of g", series)
        )
    return standalone(plots_figure(plots, columns=2))


@dataclass(frozen=True)
class Protocol:
    """A row of the table of README.md.

    Attributes:
        letter: A every label counted, B part of them as base, C base of other data, D the network as it is.
        data: Its sample.
        record: The JSON of the run; empty where we have none.
        published: The smallest certified error that others have published.
        whose: By whom, with n and delta where they differ from ours.
    """

    letter: str
    data: str
    record: str
    published: float | None = None
    whose: str = ""


P2L, TO_DISAGREE = "Pick-to-Learn 2026", "Bound to Disagree 2026"
PROTOCOLS = (
    Protocol("A", "mnist", "mnist-picked", 0.0306, f"{P2L}; n 43,200, delta .005"),
    Protocol("A", "fashion-mnist", "fashion-mnist-picked", 0.328, "Lotfi 2022"),
    Protocol("A", "cifar10", "cifar10-subspace", 0.485, f"{P2L}; n 36,000, delta .01"),
    Protocol("B", "mnist", "mnist-default", 0.014, "Lotfi 2022"),
    Protocol("B", "fashion-mnist", "fashion-mnist-default", 0.101, "Lotfi 2022"),
    Protocol("B", "cifar10", "cifar10-default", 0.0902, f"{TO_DISAGREE}; delta .01"),
    Protocol("C", "cifar10", "", 0.086, "Akinwande 2024"),
    Protocol("D, labels", "cifar10", "pretrained-resnet20-unseen"),
    Protocol("D, inputs", "cifar10", "pretrained-resnet20-seen", 0.1736, TO_DISAGREE),
)


def by_protocol() -> str:
    """The table of README.md, in per cent; the smaller certified error of a row is bold."""
    lines = _lines(("data", "n", "ours", "hold-out", "test", "best published"))
    for row in PROTOCOLS:
        n, ours, *others = measured(row.record)
        is_ours = ours is not None and (row.published is None or ours < row.published)
        said = "-" if ours is None else _bare(ours)
        theirs = "-" if row.published is None else f"{100.0 * row.published:.4g}"
        theirs = f"{theirs if is_ours else f'**{theirs}**'} ({row.whose})" if row.whose else theirs
        cells = (f"{row.letter}: {DATA[row.data]}", n, f"**{said}**" if is_ours else said, *others, theirs)
        lines += _lines(cells)[:1]
    return "\n".join(lines) + "\n"


def measured(name: str) -> tuple[str, float | None, str, str]:
    """n, the certified error, the hold-out limit of the same classifier, and its test error."""
    if not name:
        return "-", None, "-", "-"
    record = json.loads((HERE / f"{name}.json").read_text())
    errors, bound, held = record.get("test_errors"), record["bound"], record.get("holdout")
    if "through_f" in record:  # about the network itself, by inputs without labels
        errors, bound, held = record["test_errors_f"], record["through_f"], record["holdout_f"]
    elif "original_errors" in record:  # what was counted is the test set
        facts = HoldoutFacts(errors=record["errors"], n=record["n"], delta=DELTA, classes=10)
        errors, held = record["errors"], holdout(facts).value
    test = "-" if errors is None else f"{100.0 * errors / TEST_N:.2f}"
    return f"{record['n']:,}", bound, "-" if held is None else _bare(held), test


def _bare(limit: float) -> str:
    """A limit in per cent, rounded up, without the sign."""
    return percent(limit).removesuffix(" %")


def run_example() -> dict[str, Any]:
    """The first command of README.md, with the errors on what its classifier learned from."""
    parts = cb.split(cb.load_sample("digits"), {"train": 0.8, "test": 0.2})
    sample, test = parts["train"], parts["test"]
    found = cb.certify(sample, test=test)
    limit, known = found.certificate.limit, found.certificate.known.rows
    with TemporaryDirectory() as folder:
        found.save_to(Path(folder) / "g")
        g = cb.load_classifier(Path(folder) / "g")
    rows, _ = arrange(sample, Design()).split(known)
    wrong = {
        name: sum(a != b for a, b in zip(g.predict(torch.from_numpy(x)), y.tolist(), strict=True))
        for name, x, y in (("known", sample.x[rows], sample.y[rows]), ("test", test.x, test.y))
    }
    held = HoldoutFacts(errors=wrong["test"], n=test.n, delta=DELTA, classes=sample.classes)
    return {
        "command": "codebound certify digits --holdout 0.2",
        "bound": found.bound,
        "errors": limit.errors,
        "n": limit.n,
        "known": known,
        "known_errors": wrong["known"],
        "test_errors": wrong["test"],
        "test_n": test.n,
        "holdout": holdout(held).value,
        "classes": sample.classes,
        "codebound": cb.__version__,
    }


WIDTH, LEFT_EDGE, RIGHT_EDGE, STEP = 760, 300, 640, 36
STYLE = """text { font: 14px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 12px; fill: #59636e } .strong { font-weight: 600 } .line { stroke: #d1d9e0 }
.proven { fill: #1a7f37 } .limit { fill: #9a6700 } .seen { fill: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .small { fill: #9198a1 } .line { stroke: #3d444d }
.proven { fill: #3fb950 } .limit { fill: #d29922 } .seen { fill: #9198a1 } }"""


def example_picture() -> str:
    """Limits as bars and measured errors as dots, on one scale."""
    run = json.loads(EXAMPLE.read_text())
    tested, learned = run["test_errors"] / run["test_n"], run["known_errors"] / run["known"]
    rows = (
        (
            "Certified error",
            f"{run['errors']} of {run['n']} that it did not learn from",
            "proven",
            run["bound"],
        ),
        ("Hold-out limit", f"the same classifier on {run['test_n']} others", "limit", run["holdout"]),
        ("Test error", f"{run['test_errors']} of these {run['test_n']}", "seen", tested),
        ("Training error", f"{run['known_errors']} of {run['known']} that it learned from", "seen", learned),
    )
    most = 1.1 * max(value for *_, value in rows)
    height = 64 + STEP * len(rows) + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>How often the classifier of the example is wrong on new digits</title>",
        f"<style>{STYLE}</style>",
        '<text x="16" y="28" class="strong">How often is it wrong on new digits?</text>',
        '<text x="16" y="46" class="small">Bars: limits, with probability 95 %. Dots: measured.</text>',
        f'<line x1="{LEFT_EDGE}" y1="60" x2="{LEFT_EDGE}" y2="{height - 22}" class="line"/>',
    ]
    for place, (name, note, kind, value) in enumerate(rows):
        y, x = 64 + STEP * place, LEFT_EDGE + (RIGHT_EDGE - LEFT_EDGE) * value / most
        bar = f'<rect x="{LEFT_EDGE}" y="{y + 8}" width="{x - LEFT_EDGE:.1f}" height="16" class="{kind}"/>'
        dot = f'<circle cx="{x:.1f}" cy="{y + 16}" r="6" class="{kind}"/>'
        said = f"{100.0 * value:.2f} %" if kind == "seen" else f"at most {percent(value)}"
        weight = ' class="strong"' if kind == "proven" else ""
        parts += [
            f'<text x="16" y="{y + 14}"{weight}>{name}</text>',
            f'<text x="16" y="{y + 29}" class="small">{note}</text>',
            dot if kind == "seen" else bar,
            f'<text x="{x + 12:.1f}" y="{y + 21}"{weight}>{said}</text>',
        ]
    guess = f"guessing: {100.0 * (1.0 - 1.0 / run['classes']):.0f} %, far off to the right"
    parts += [f'<text x="{LEFT_EDGE}" y="{height - 8}" class="small">{guess}</text>', "</svg>"]
    return "\n".join(parts) + "\n"


def pages() -> dict[Path, str]:
    """Every page with its tables, and the picture of README.md; nothing is written."""
    for folder in (HERE, ROOT / "benchmarks"):  # whose scripts measured these
        sys.path.insert(0, str(folder))
    everyday, first_look, any_learner = map(importlib.import_module, MEASURED)
    looks, learners = (json.loads((HERE / f"{name}.json").read_text()) for name in MEASURED[1:])
    draws = HERE / "everyday.jsonl"  # a line for each draw
    lines = draws.read_text().splitlines() if draws.exists() else []
    measured_sets = {HERE / "everyday.md": everyday.page(list(map(json.loads, lines)))} if lines else {}
    return measured_sets | {
        ROOT / "README.md": _between(ROOT / "README.md", by_protocol()),
        ROOT / "docs/example.svg": example_picture(),
        HERE / "README.md": _between(HERE / "README.md", table()),
        HERE / "first_look.md": first_look.show(looks),
        HERE / "any_learner.md": any_learner.page(learners),
    }


def _between(page: Path, text: str) -> str:
    """The page with its table, which stands between two marks."""
    before, rest = page.read_text("utf-8").split(BEGIN)
    return before + BEGIN + text + END + rest.split(END)[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pages, or compare them with their JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("check", "run", "programs"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args(arguments)
    if options.run:
        EXAMPLE.write_text(json.dumps(run_example(), indent=1) + "\n")
    if options.programs:
        PROGRAMS.write_text(json.dumps(count_programs(), indent=2) + "\n")
    made = pages()
    if options.check:
        stale = [path.relative_to(ROOT) for path, text in made.items() if path.read_text("utf-8") != text]
        if stale:
            sys.exit(f"{', '.join(map(str, stale))}: not what the JSON says. Run python results/page.py.")
        return
    for path, text in made.items():
        path.write_text(text, "utf-8")
    SCATTER.write_text(scatter())


if __name__ == "__main__":
    main()
