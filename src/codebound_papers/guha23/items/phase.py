"""Study of the sketch size: random draws, the law, printed ensemble, noise."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean, median, stdev
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from codebound import __version__
from codebound.bits.stream import Stream
from codebound.run.errors import UsageError
from codebound.run.files import content_key, make_folder
from codebound.sample.formats.catalogue import cache_folder
from codebound_networks.train.rng import numpy_stream
from codebound_papers.guha23.sketch.operators import Bipartite, column_ensemble, row_ensemble, sketch
from codebound_papers.guha23.sketch.peeling import peel
from codebound_papers.guha23.sketch.recovery import Recovery, recover, recover_l1_batch
from codebound_papers.guha23.sketch.sparsity import column_degree
from codebound_papers.journal import JOURNAL, compute_once
from codebound_papers.report.figures import Figure, Plot, Series, curves, curves_by
from codebound_papers.reproduce.items import Reproduction, Row, Settings, Size, item

L1, HYBRID = "l1", "peeling, then l1"
Line = Literal["column", "row"]

_RECOVERED = 1e-4  # relative error in the Frobenius norm that counts as recovery
_LONGER = 4  # on noisy sums no proof ends the l1 program: it runs until its digits settle
_ENOUGH = 0.75  # share of the draws from which a side counts as enough
_FACTORS = (1.75, 1.55, *(1.4 * 0.965**step for step in range(2, 22)))  # sides tried, in units of the law
_LINE = 2  # non-zeros in a line, where only one number of them is looked at
_ONES = 5
_LINES = "non-zeros in a line, j"
_LOUD = 1e-3  # noise from which the digits of the solver do not matter


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A matrix of side p with at most j non-zeros in a line, its sketch of side m, and how the ones of A and
    B are placed: so many in every column, or at most so many in every row.
    """

    p: int
    j: int
    m: int
    line: Line = "column"
    ones: int = 5

    def __str__(self) -> str:
        return f"p={self.p} j={self.j} m={self.m} {self.line}={self.ones}"


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    """A matrix and its sketch."""

    x: Tensor
    y: Tensor
    a: Bipartite
    b: Bipartite

    def error(self, value: Tensor) -> float:
        return float((value - self.x).norm() / self.x.norm())


def _by_l1(cases: list[_Case], iterations: int) -> list[Recovery]:
    return recover_l1_batch([(case.y, case.a, case.b) for case in cases], iterations=iterations)


_DECODERS: dict[str, Callable[[list[_Case], int], list[Recovery]]] = {
    L1: _by_l1,
    HYBRID: lambda cases, steps: [recover(case.y, case.a, case.b, iterations=steps) for case in cases],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """A number of random sparse matrices, each with its own A and B, and what becomes of their sketches."""

    seed: int
    device: str
    number: int
    iterations: int

    def nonzeros(self, p: int, j: int) -> float:
        """Mean number of non-zeros: a little below j p, because permutations overlap."""
        return fmean(np.count_nonzero(self._matrix(p, j, draw)) for draw in range(self.number))

    def count(self, design: Design, decoder: str) -> dict[str, Any]:
        """Count the draws that are recovered, proven to be, and wrongly proven."""
        cases = self._cases(design)
        found = _DECODERS[decoder](cases, self.iterations)
        right = [case.error(each.value) < _RECOVERED for case, each in zip(cases, found, strict=True)]
        proven = [each.recovered for each in found]
        wrong = sum(claim and not truth for claim, truth in zip(proven, right, strict=True))
        return {"draws": len(cases), "recovered": sum(right), "proven": sum(proven), "wrong": wrong}

    def errors(self, design: Design, noise: float) -> dict[str, list[float]]:
        """Relative error of each draw, by l1 and by peeling, with relative Gaussian noise on the sketch."""
        cases = [self._noisy(case, noise, draw) for draw, case in enumerate(self._cases(design))]
        found = [each.value for each in _by_l1(cases, _LONGER * self.iterations)]
        peeled = [torch.from_numpy(peel(case.y.cpu().numpy(), case.a, case.b).value) for case in cases]
        return {
            "l1": [case.error(value) for case, value in zip(cases, found, strict=True)],
            "peeling": [case.error(value.to(case.x)) for case, value in zip(cases, peeled, strict=True)],
        }

    def coverage(self, design: Design) -> dict[str, float]:
        """Mean number of ones in a column, share of columns without, share of non-zeros without a trace."""
        cases = self._cases(design)
        degrees = [(case.a.degrees, case.b.degrees) for case in cases]
        columns = np.concatenate([side for pair in degrees for side in pair])
        return {
            "ones_per_column": float(columns.mean()),
            "empty_columns": float((columns == 0).mean()),
            "lost_nonzeros": fmean(
                float((np.outer(a, b)[(case.x != 0).cpu().numpy()] == 0).mean())
                for case, (a, b) in zip(cases, degrees, strict=True)
            ),
        }

    def _matrix(self, p: int, j: int, draw: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The diagonal and j - 1 permutations, with Gaussian values."""
        stream = numpy_stream(self.seed, f"sketch:phase/matrix/{p}/{j}/{draw}")
        x = np.diag(stream.standard_normal(p))
        for _ in range(j - 1):
            x[np.arange(p), stream.permutation(p)] = stream.standard_normal(p)
        return x

    def _cases(self, design: Design) -> list[_Case]:
        ensemble = column_ensemble if design.line == "column" else row_ensemble
        cases = []
        for draw in range(self.number):
            stream = Stream(self.seed, f"sketch:phase/{design}/{draw}")
            a, b = (ensemble(stream, m=design.m, p=design.p, degree=design.ones) for _ in range(2))
            x = torch.from_numpy(self._matrix(design.p, design.j, draw)).to(self.device)
            cases.append(_Case(x, sketch(x, a, b), a, b))
        return cases

    def _noisy(self, case: _Case, noise: float, draw: int) -> _Case:
        stream = numpy_stream(self.seed, f"sketch:phase/noise/{draw}")
        direction = torch.from_numpy(stream.standard_normal(tuple(case.y.shape))).to(case.y)
        return _Case(case.x, case.y + noise * case.y.norm() / direction.norm() * direction, case.a, case.b)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PhaseSettings:
    """Extent of the study at one size."""

    sides: tuple[int, ...]
    lines: tuple[int, ...]
    draws: int
    iterations: int
    factors: tuple[float, ...] = _FACTORS
    noise: tuple[float, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


_SIZES: dict[Size, _PhaseSettings] = {
    "tiny": _PhaseSettings(
        sides=(16, 24), lines=(1, 2), draws=1, iterations=60, factors=_FACTORS[::4], noise=(1e-1,)
    ),
    "quick": _PhaseSettings(sides=(50, 100, 200), lines=(1, 2, 4, 8), draws=4, iterations=400),
    "full": _PhaseSettings(sides=(100, 200, 400, 784), lines=(1, 2, 4, 8, 16), draws=8, iterations=1000),
}


@dataclass(frozen=True, slots=True)
class Fit:
    """A constant fitted to ratios by least squares on a logarithmic scale, and how far they lie from it."""

    constant: float
    spread: float  # standard deviation of their logarithms: 0.05 is five per cent
    smallest: float
    largest: float
    sizes: int


def fit_constant(measured: Sequence[float], law: Sequence[float]) -> Fit:
    """The c of ``measured = c law``, by least squares of the logarithms.

    >>> fit_constant([2.0, 8.0], [1.0, 4.0])
    Fit(constant=2.0, spread=0.0, smallest=2.0, largest=2.0, sizes=2)
    """
    ratios = [value / unit for value, unit in zip(measured, law, strict=True)]
    if not ratios:
        raise UsageError("a constant is fitted to at least one size.")
    logs = [math.log(ratio) for ratio in ratios]
    spread = stdev(logs) if len(logs) > 1 else 0.0
    return Fit(math.exp(fmean(logs)), spread, min(ratios), max(ratios), len(ratios))


def measured_form(nonzeros: float, p: int) -> float:
    """sqrt(N ln(p^2/N))."""
    return math.sqrt(nonzeros * math.log(p * p / nonzeros))


def printed_form(j: int, p: int) -> float:
    """sqrt(j p) ln p: that of the theorem, for a square matrix."""
    return math.sqrt(j * p) * math.log(p)


class _Measurements(NamedTuple):
    """Rows of everything measured, and the constants of both forms for each decoder."""

    counts: list[Row]
    thresholds: list[Row]
    measured: dict[str, Fit]
    printed: dict[str, Fit]
    ensembles: list[Row]
    noise: list[Row]


@item("sketch:phase", quick="2 to 3 minutes on one core", full="an hour on a GPU")
def guha_sketch_phase(settings: Settings) -> Reproduction:
    """Size of the sketch that recovers a sparse matrix (Guha et al. 2023, theorem 5.1)

    The theorem says that a p x p matrix with at most j non-zeros in every line can be recovered from a
    sketch of side m = O(sqrt(jp) log p). It gives no constants and no experiment, so there is no number to
    compare with; what can be measured is where recovery begins: over p, j and m, how many of some random
    matrices are recovered, m resolved to 3.5 %.
    """
    sized = _SIZES[settings.size]
    draws = Draws(seed=settings.seed, device=settings.device, number=sized.draws, iterations=sized.iterations)
    descents = {
        f"{decoder}, p={p}, j={j}": partial(_descent, draws, decoder, p, j, sized.factors)
        for p in sized.sides
        for j in sized.lines
        for decoder in (L1, HYBRID)
    }
    side = sized.sides[-2]
    noises = {f"noise {level:g}": partial(_noise, draws, side, level) for level in sized.noise}
    (ensembles,) = _compute_rows({"ensembles": partial(_ensembles, draws, side)}, draws, settings)
    noise = [row for rows in _compute_rows(noises, draws, settings) for row in rows]
    counts = [row for rows in _compute_rows(descents, draws, settings) for row in rows]
    thresholds = list(_thresholds(counts))
    measured, printed = (
        {decoder: _fit_of(thresholds, decoder, constant) for decoder in (L1, HYBRID)}
        for constant in ("c", "C")
    )
    noise.sort(key=lambda row: (row["m"], row["noise"]))
    found = _Measurements(counts, thresholds, measured, printed, ensembles, noise)
    constants = [
        {"decoder": decoder, "form": form, **asdict(fit)}
        for form, fits in (("c sqrt(N ln(p^2/N))", found.measured), ("C sqrt(jp) ln p", found.printed))
        for decoder, fit in fits.items()
    ]
    return Reproduction(
        tables={
            "Smallest side m of a sketch at which at least 75 % of the draws are recovered": thresholds,
            "Constants of two forms of m": constants,
            "Ones placed column by column, and row by row as printed": found.ensembles,
            "Relative noise on the sketch, and relative error of what is recovered": found.noise,
        },
        sentences=_sentences(found),
        deviations=(
            "The theorem has neither constants nor an experiment: there is no published number.",
            f"A and B have {_ONES} ones in every column (3 to 5 with peeling), no two columns alike.",
            "Matrices are a diagonal and j - 1 random permutations with Gaussian values.",
        ),
        points={"draws recovered": counts},
        figures={"sketch-phase": _figure(found)},
    )


def _compute_rows(
    parts: Mapping[str, Callable[[], list[Row]]], draws: Draws, settings: Settings
) -> list[list[Row]]:
    """The rows of each part, which several processes compute together; of some, when time is out."""
    key = content_key({"item": "sketch:phase", **asdict(draws), "device": "", "codebound": __version__})
    place = cache_folder().parent / "phase" / key[:16]

    def compute(name: str, part: Callable[[], list[Row]]) -> Row:
        make_folder(place)
        path = place / f"{re.sub('[^a-z0-9]+', '-', name)}{JOURNAL}"
        return compute_once(path, name, lambda: {"rows": part()})

    found = settings.cells.get_some({name: partial(compute, name, part) for name, part in parts.items()})
    return [list(row["rows"]) for row in found]


def _descent(draws: Draws, decoder: str, p: int, j: int, factors: Sequence[float]) -> list[Row]:
    nonzeros, rows = draws.nonzeros(p, j), list[Row]()
    for m in dict.fromkeys(round(factor * measured_form(nonzeros, p)) for factor in factors):
        ones = _ONES if decoder == L1 else column_degree(round(nonzeros), m=m)
        count = draws.count(Design(p=p, j=j, m=m, ones=ones), decoder)
        rows.append({"decoder": decoder, "p": p, "j": j, "nonzeros": nonzeros, "m": m, "ones": ones, **count})
        if count["recovered"] == 0:
            break
    return rows


def _thresholds(counts: Sequence[Row]) -> Iterator[Row]:
    enough = [row for row in counts if row["recovered"] >= _ENOUGH * row["draws"]]
    smallest = {(row["decoder"], row["p"], row["j"]): row for row in enough}  # m descends: the last one stays
    for (decoder, p, j), row in smallest.items():
        m, nonzeros = row["m"], row["nonzeros"]
        constants = {"c": m / measured_form(nonzeros, p), "C": m / printed_form(j, p)}
        size = {"nonzeros": nonzeros, "m": m, "numbers_per_nonzero": m * m / nonzeros}
        yield {"decoder": decoder, "p": p, "j": j, **size, **constants}


def _fit_of(thresholds: Sequence[Row], decoder: str, constant: str) -> Fit:
    rows = [row for row in thresholds if row["decoder"] == decoder]
    return fit_constant([row["m"] for row in rows], [row["m"] / row[constant] for row in rows])


def _side(draws: Draws, p: int, factor: float) -> int:
    return round(factor * measured_form(draws.nonzeros(p, _LINE), p))


def _ensembles(draws: Draws, p: int) -> list[Row]:
    """The same sketch, well above the threshold, with its ones placed in several ways."""
    m, rows = _side(draws, p, _FACTORS[0]), list[Row]()
    as_many = round(_ONES * p / m)  # ones in a row for as many in all
    placements: list[tuple[Line, int]] = [("column", _ONES), ("row", _ONES), ("row", as_many)]
    for line, ones in [*placements, ("row", 2 * as_many), ("row", 4 * as_many)]:
        design = Design(p=p, j=_LINE, m=m, line=line, ones=ones)
        counted = draws.coverage(design) | draws.count(design, L1)
        rows.append({"ones_by": line, "ones": ones, "p": p, "j": _LINE, "m": m, **counted})
    return rows


def _noise(draws: Draws, p: int, level: float) -> list[Row]:
    rows: list[Row] = []
    for m in (_side(draws, p, 1.4), _side(draws, p, 2.0)):
        errors = draws.errors(Design(p=p, j=_LINE, m=m), level)
        l1, peeling = median(errors["l1"]), median(errors["peeling"])
        found = {"l1_error": l1, "l1_error_per_noise": l1 / level, "peeling_error": peeling}
        rows.append({"p": p, "j": _LINE, "m": m, "noise": level, **found})
    return rows


def _sentences(found: _Measurements) -> Iterator[str]:
    c, printed = found.measured[L1], found.printed[L1]
    l1 = sorted((row for row in found.thresholds if row["decoder"] == L1), key=lambda row: row["C"])
    yield f"""l1 recovers from m = {c.constant:.2f} sqrt(N ln(p^2/N)) on, N being the number of non-zeros:
        over {c.sizes} sizes the constant is {c.smallest:.2f} to {c.largest:.2f}, a spread of
        {100 * c.spread:.0f} %."""
    yield f"""The theorem leaves the constant of m = C sqrt(jp) ln p open (G-E20). As an upper bound that form
        agrees, as a law it does not: C runs from {printed.largest:.2f} (p = {l1[-1]["p"]}, j = {l1[-1]["j"]})
        to {printed.smallest:.2f} (p = {l1[0]["p"]}, j = {l1[0]["j"]}), a spread of {100 * printed.spread:.0f}
        %: the root of a logarithm fits better than a logarithm."""
    yield f"""No sketch has fewer numbers than the matrix has non-zeros (G-E18): recovery takes
        {_numbers(found, L1)} for each by l1, {_numbers(found, HYBRID)} with peeling first."""
    columns, rows, as_many, *_ = found.ensembles
    yield f"""At most {rows["ones"]} ones in every row, as the definition is printed, recover
        {rows["recovered"]} of {rows["draws"]} draws; {columns["ones"]} in every column recover
        {columns["recovered"]} (G-E19): in the former {100 * rows["empty_columns"]:.0f} % of the columns are
        empty, and {100 * rows["lost_nonzeros"]:.0f} % of the non-zeros leave no trace. As many ones as in the
        latter, placed row by row, recover {as_many["recovered"]}."""
    factors = [row["l1_error_per_noise"] for row in found.noise if row["noise"] >= _LOUD]
    yield f"""l1 is stable: noise of {_LOUD:g} of the sketch or more becomes an error {min(factors):.1f} to
        {max(factors):.1f} times as large, relative to the matrix. Peeling alone is not: its error is at least
        {min(row["peeling_error"] for row in found.noise):.2f} at every level of noise."""
    proven, wrong = (sum(row[key] for row in found.counts) for key in ("proven", "wrong"))
    by_rows = [row for row in found.ensembles if row["ones_by"] == "row"]
    yield f"""With ones in every column the decoder called {proven} draws recovered, and {wrong} of these were
        not. Placed row by row it was {sum(row["proven"] for row in by_rows)} and
        {sum(row["wrong"] for row in by_rows)}."""


def _numbers(found: _Measurements, decoder: str) -> str:
    numbers = [row["numbers_per_nonzero"] for row in found.thresholds if row["decoder"] == decoder]
    return f"{min(numbers):.1f} to {max(numbers):.1f}"


def _figure(found: _Measurements) -> Figure:
    counts, thresholds, constant = found.counts, found.thresholds, found.measured[L1].constant
    maps = [
        _map(p, _where(counts, {"p": p, "decoder": L1}), _where(thresholds, {"p": p}), constant)
        for p in dict.fromkeys(row["p"] for row in counts)
    ]
    by_l1, labels = (
        _where(thresholds, {"decoder": L1}),
        {"c": "c of c sqrt(N ln(p²/N))", "C": "C of C sqrt(jp) ln p"},
    )
    points, ticks = curves(by_l1, "j", labels, "points"), sorted(set(_of(by_l1, "j")))
    constants = Plot("constants of m, all p", _LINES, "constant", points, x_scale="log", x_ticks=ticks)
    plots = [*maps, constants, _placements(found.ensembles), _stability(found.noise)]
    return Figure(plots, columns=max(len(maps), 3))


def _map(p: int, counts: Sequence[Row], thresholds: Sequence[Row], constant: float) -> Plot:
    unit = {row["j"]: row["m"] / row["c"] for row in thresholds}
    tried = [row for row in counts if row["j"] in unit]
    peeling = _where(thresholds, {"decoder": HYBRID})
    lines = sorted(unit)
    sides = [row["m"] / unit[row["j"]] for row in tried]
    series = [
        Series("", _of(tried, "j"), sides, "shades", _shares(tried)),
        Series(f"fitted to all p: {constant:.2f}", lines, [constant for _ in lines]),
        *curves(peeling, "j", {"c": "enough with peeling first"}, "dashed"),
    ]
    names = f"recovered by l1, p = {p} (white: none)", _LINES, "m / sqrt(N ln(p²/N))"
    return Plot(*names, series, x_scale="log", x_ticks=lines, headroom=0.35)


def _placements(ensembles: Sequence[Row]) -> Plot:
    placed = {line: _where(ensembles, {"ones_by": line}) for line in ("row", "column")}
    series = [
        Series(f"{line} by {line}", _of(rows, "ones_per_column"), _shares(rows), "points")
        for line, rows in placed.items()
    ]
    title = f"recovered by l1, p = {ensembles[0]['p']}, j = {ensembles[0]['j']}"
    return Plot(title, "mean number of ones in a column", "share of draws", series)


def _stability(noise: Sequence[Row]) -> Plot:
    l1 = curves_by(noise, "m", "noise", "l1_error", label="l1, m = {}")
    largest = _where(noise, {"m": max(row["m"] for row in noise)})
    peeling = curves(largest, "noise", {"peeling_error": "peeling"}, "dashed")
    title = f"noise, p = {noise[0]['p']}, j = {noise[0]['j']}"
    names = title, "relative noise on the sketch", "relative error"
    return Plot(*names, [*l1, *peeling], x_scale="log", y_scale="log")


def _of(rows: Sequence[Row], column: str) -> list[float]:
    return [row[column] for row in rows]


def _shares(rows: Sequence[Row]) -> list[float]:
    return [row["recovered"] / row["draws"] for row in rows]


def _where(rows: Sequence[Row], wanted: Row) -> list[Row]:
    return [row for row in rows if wanted.items() <= row.items()]
