"""Shin 2021 as one call: tails of entries and eigenvalues, redrawn weights, and theorem 2."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from codebound.bounds.risk import rate
from codebound.certificate.file import Certificate
from codebound.report.templates import Table
from codebound.run.errors import CodeboundError
from codebound.run.progress import Progress, show_progress, silent
from codebound_networks.codes.tensors import AbstractTensorCode
from codebound_networks.train.rng import numpy_stream
from codebound_papers.compress.compressors import round_weight, weight_of
from codebound_papers.measure.norms import TailValues
from codebound_papers.measure.record import Family, Measured
from codebound_papers.measure.summary import summary_of
from codebound_papers.published import Evidence, evaluate
from codebound_papers.report.figures import Plot, Series
from codebound_papers.report.measures import Drawing, measure_figures, measure_tables
from codebound_papers.shin21.alternatives import EntryLaws, fit_entry_laws
from codebound_papers.shin21.compressor import GaussianFill, PlainMask, replacement_trials
from codebound_papers.shin21.heavy_tails import RANDOM_WEIGHTS
from codebound_papers.study.result_page import Row, StudyResult, make_figure, make_table
from codebound_papers.study.settings import check_options
from codebound_papers.study.subjects import Subject, subject
from codebound_papers.value import Hypothesis, PublishedValue, Refused

_TAILS: dict[TailValues, tuple[Family, ...]] = {"absolute": ("tails",), "eigenvalues": ("spectra", "tails")}
_OVER = {"epoch": "epoch", "layer": "layer", "law": "law of the entries", "alpha": "stable index|.3g"}
_SHUFFLES, _RARE = 99, 0.01  # of the entries; the p-value from which on they are not independent
_MOST_WORK = 10**10  # multiplications of one product of a matrix with itself, for which it is shuffled
_FINE = 31  # levels of the layers that stay
_MASKS: tuple[PlainMask, ...] = ("absolute", "signed")  # of the released code, and of the text
_REFS = ("S-Thm2", "S-Thm2:dudley", "S-Prop1.1:network", "S-Prop1.1x:network", "I-17")
_CLAIM = (
    "Shin (2021) claims that the weights of trained networks have heavy tails, so that a few large ones "
    "stand for a layer and noise may replace the others, and that this gives a bound that says something."
)


@show_progress
def shin21(
    about: Subject | None = None,
    *,
    trials: int = 10,
    resamples: int = 50,
    examples: int = 1000,
    progress: Progress = silent,
) -> StudyResult:
    """Fits tails and laws to every layer, redraws small weights, and evaluates theorem 2.

    The last layer is redrawn in ``trials``, as in table 1; a verdict on a power law rests on ``resamples``.

    >>> found = shin21(subject("linear", epochs=1), trials=2, resamples=20)
    >>> print(*(row["layer"] for row in found.record()["layers"]))
    linear1
    """
    check_options(trials=trials, resamples=resamples, examples=examples)
    about = subject() if about is None else about
    of_tails, records = dict[str, Measured](), list[Row]()
    for done, (of, families) in enumerate(_TAILS.items()):
        progress(done, len(_TAILS) + 2, f"tails, {of}")
        of_tails[of] = about.measure(*families, tails_of=of, resamples=resamples)
        records.append({**(summary := summary_of(of_tails[of])).record(), "curves": summary.curves})
    rows = []
    for view, entries, eigenvalues in zip(about.network.layers, *(x["layers"] for x in records), strict=True):
        laws, tails = _laws(view.matrix), eigenvalues["alpha"]
        row = {"layer": view.name, "stable_rank": eigenvalues["stable_rank"], **_law_row(laws)}
        row |= {"entries": entries["alpha"], "eigenvalues": tails, "exponent": tails["tail_exponent"]}
        spectrum = of_tails["eigenvalues"].spectra[view.name].eigenvalues
        row["shuffled"] = shuffle_p_value(view.matrix.detach().double().cpu().numpy(), seed=about.seed)
        rows.append(row | _nearest_law(laws, view.matrix.shape, spectrum, seed=about.seed))
    progress(len(_TAILS), len(_TAILS) + 2, "redraws")
    redrawn, refusal = _redraw(about, trials)
    over_epochs = [
        {"epoch": n, "layer": view.name, **_law_row(_laws(view.matrix))}
        for n in sorted(about.by_epoch)[:: max(1, len(about.by_epoch) // 2)]
        for view in replace(about, f=about.by_epoch[n], by_epoch={}).network.layers
    ]
    stability = about.measure("margins", "norms", "maps", "stability", examples=examples)
    evidence = Evidence(stability, seed=about.seed)
    theorems = [_test(each, rows) for ref in _REFS for each in evaluate(evidence, only=ref)]
    g, certified = _fill(about)
    can = sum(row["entries"]["status"] == "power law" for row in rows)
    said = f"No weights were redrawn: {refusal}" if refusal else _describe(redrawn[0])
    return StudyResult(
        paper="shin21",
        claim=_CLAIM,
        finding=f"The weights of {can} of {len(rows)} layers pass for a power law. {said}",
        about=about,
        settings={"trials": trials, "resamples": resamples, "examples": examples},
        tables=(
            *_tables(rows, redrawn),
            *measure_tables(records[0]),
            *(replace(each, legend={}) for each in measure_tables(records[1])),  # it is the same
            make_table("Laws of the entries over the training", over_epochs, _OVER),
        ),
        theorems=theorems,
        networks={"g": g},
        certified={"g": certified},
        quantities={"layers": rows, "redrawn": redrawn, "over_epochs": over_epochs},
        drawings=(*(each for record in records for each in measure_figures(record)), *_drawings(rows)),
        parts=(
            ("measure", "--families tails,spectra --tails-of absolute"),
            ("compress", "--method heavytail"),
            ("compress", "--method gaussian-fill"),
            ("compare", ""),
            ("plan", "--method heavytail"),
        ),
    )


def _laws(matrix: Tensor) -> EntryLaws:
    return fit_entry_laws(matrix.detach().double().cpu().numpy())


def _law_row(laws: EntryLaws) -> Row:
    alpha = next(fit.alpha for fit in laws.fits if fit.law == "stable")
    fits = [asdict(fit) for fit in laws.fits]
    return {"law": laws.verdict, "alpha": alpha, "laws": fits, "usual_distance": laws.usual_distance}


def shuffle_p_value(matrix: NDArray[np.float64], *, seed: int = 0) -> float | None:
    """P-value of independent entries of one law: ``||A A^T||_F`` beside those of the same entries, shuffled.

    None where the matrix is too large.
    """
    a = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    if a.size * len(a) > _MOST_WORK:
        return None
    stream, own = numpy_stream(seed, "shuffled"), np.linalg.norm(a @ a.T)
    shuffled = (stream.permutation(a.ravel()).reshape(a.shape) for _ in range(_SHUFFLES))
    return float(1 + sum(np.linalg.norm(each @ each.T) >= own for each in shuffled)) / (1 + _SHUFFLES)


def _nearest_law(
    laws: EntryLaws, shape: Sequence[int], eigenvalues: NDArray[np.float64], *, seed: int
) -> Row:
    """The law of which one matrix of this shape has eigenvalues nearest, by Kolmogorov and Smirnov."""
    distances, own = {}, np.sort(eigenvalues)
    for fit in (each for each in laws.fits if each.alpha != 2.0):  # which is the Gaussian law again
        values = np.linalg.svd(fit.sample((shape[0], shape[1]), seed=seed), compute_uv=False) ** 2
        other = np.sort(values[values > 0.0])
        places = np.concatenate([own, other])
        shares = [np.searchsorted(each, places, side="right") / each.size for each in (own, other)]
        distances[fit.law] = float(np.abs(shares[0] - shares[1]).max())
    nearest = min(distances, key=lambda law: distances[law])
    return {"eigenvalue_distances": distances, "eigenvalue_law": f"{nearest} ({distances[nearest]:.2f} off)"}


def _redraw(about: Subject, trials: int) -> tuple[list[Row], str]:
    """The last layer with its small weights redrawn, as in table 1; or the reason why that cannot be."""
    data, network, rows = about.test_set or about.sample, about.network, list[Row]()
    on = "the sample" if about.test_set is None else "test examples"
    try:
        for mask in _MASKS:
            found = replacement_trials(network, data.on("cpu"), trials=trials, mask=mask, seed=about.seed)
            row = {key: getattr(found, key) for key in ("layer", "entries", "original", "mean", "deviation")}
            accuracies, kept = list(found.accuracies), found.kept / found.entries
            rows.append({"mask": mask, **row, "kept": kept, "accuracies": accuracies, "on": on})
    except CodeboundError as reason:
        return [], str(reason)
    return rows, ""


def _fill(about: Subject) -> tuple[nn.Module, Certificate | str]:
    """g of appendix E: the small weights of the last layer are noise from a seed, the others are rounded."""
    *others, last = about.network.layers
    codes: dict[str, AbstractTensorCode] = {v.name: round_weight(weight_of(v), _FINE).code for v in others}
    codes[last.name] = GaussianFill().compress(last, seed=about.seed).code
    g = about.build({name: torch.from_numpy(code.weights()) for name, code in codes.items()})
    return g, about.certify(codes)


def _test(value: PublishedValue | Refused, rows: Sequence[Row]) -> PublishedValue | Refused:
    """A theorem with its law of the weights tested: what is ruled out in some layer is not met."""
    if isinstance(value, Refused):
        return value
    lawless = [row["layer"] for row in rows if row["entries"]["status"] == "no power law"]
    dependent = [row["layer"] for row in rows if row["shuffled"] is not None and row["shuffled"] <= _RARE]
    reasons = (("no power law in", lawless), ("dependent entries in", dependent))
    found = "; ".join(f"{words} {', '.join(layers)}" for words, layers in reasons if layers)
    law = Hypothesis(RANDOM_WEIGHTS, False if found else None, found or "not ruled out")
    conditions = (law if each.statement == RANDOM_WEIGHTS else each for each in value.hypotheses)
    return replace(value, hypotheses=tuple(conditions))


def _describe(row: Row) -> str:
    return (
        f"With all but {rate(row['kept'])} of the last layer redrawn as noise, the accuracy on {row['on']} "
        f"is {rate(row['mean'])} +- {100.0 * row['deviation']:.2f} in place of {rate(row['original'])}."
    )


def _tables(rows: Sequence[Row], redrawn: Sequence[Row]) -> Iterator[Table]:
    laws = {"layer": "layer", "law": "law of the entries", "shuffled": "p, shuffled|.2g"}
    laws |= {"eigenvalue_law": "nearest random matrix"}
    legend = {
        "law of the entries": "Gaussian, Laplace or stable, by the likelihood of all entries.",
        "p, shuffled": "how often the same entries in random places are as correlated, by the Frobenius norm "
        "of A A^T; at 0.01 they are not independent draws of one law.",
        "nearest random matrix": "the fitted law from which a matrix of this size has the most similar "
        "eigenvalues.",
    }
    yield make_table("Laws of the entries", rows, laws, **legend)
    table = {
        "mask": "compared by", "layer": "layer", "entries": "entries|,", "kept": "kept|%",
        "original": "accuracy|%", "mean": "redrawn|%", "deviation": "+-|%", "on": "on",
    }  # fmt: skip
    by = {"compared by": "magnitude, as the released code does, or with the sign, as the text says."}
    yield make_table("Small weights of the last layer redrawn (Table 1)", redrawn, table, **by)


def _drawings(rows: Sequence[Row]) -> Iterator[Drawing]:
    known = [row for row in rows if row["exponent"] is not None]
    exponents, ranks = ([row[key] for row in known] for key in ("exponent", "stable_rank"))
    plot = Plot("", "exponent of eigenvalues", "stable rank", [Series("", exponents, ranks, "points")])
    yield from make_figure("Stable rank (figure 3)", "A layer each.", plot)
