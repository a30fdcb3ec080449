"""Shin 2021 as one call: tails of entries and eigenvalues, redrawn weights, and theorem 2."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from codebound.bounds.risk import rate
from codebound.certificate.file import Certificate
from codebound.report.tables import Table
from codebound.run.errors import CodeboundError, UsageError
from codebound.run.progress import Progress, silent, watched
from codebound_networks.codes.tensors import AbstractTensorCode
from codebound_papers.compress.compressors import rounded, weight_of
from codebound_papers.measure.norms import layer_spectrum, tail_values
from codebound_papers.measure.summary import survival
from codebound_papers.measure.tails import PowerLawFit, fit_power_law
from codebound_papers.published import Evidence, evaluate
from codebound_papers.report.figures import Panel, Plot, Series, survival_figure
from codebound_papers.report.measures import Drawing
from codebound_papers.shin21.alternatives import EntryLaws, fit_entry_laws
from codebound_papers.shin21.compressor import GaussianFill, PlainMask, replacement_trials
from codebound_papers.shin21.heavy_tails import RANDOM_WEIGHTS
from codebound_papers.study.page import StudyResult, drawn, listed
from codebound_papers.study.subjects import Subject, subject
from codebound_papers.value import Hypothesis, PublishedValue, Refused

Row = dict[str, Any]

_OVER = {"epoch": "epoch", "layer": "layer", "law": "law of the entries", "alpha": "stable index|.3g"}
_FINE = 31  # levels of the layers that stay
_MASKS: tuple[PlainMask, ...] = ("absolute", "signed")  # of the released code, and of the text
_REFS = ("S-Thm2", "S-Thm2:dudley", "S-Prop1.1:network", "S-Prop1.1x:network", "I-17")
_CLAIM = (
    "Shin (2021) claims that the weights of trained networks have heavy tails, so that a few large ones "
    "stand for a layer and noise may replace the others, and that this gives a bound that says something."
)


@watched
def shin21(
    about: Subject | None = None,
    *,
    trials: int = 10,
    resamples: int = 50,
    examples: int = 1000,
    progress: Progress = silent,
) -> StudyResult:
    """Fits tails and laws to every layer, redraws small weights, and evaluates theorem 2.

    The small weights of the last layer are redrawn so many ``trials`` times, as in the paper's table 1; a
    verdict on a power law rests on so many ``resamples``, noise stability on so many ``examples``.

    >>> found = shin21(subject("linear", epochs=1), trials=2, resamples=20)
    >>> print(*(row["layer"] for row in found.record()["layers"]))
    linear1
    """
    about = subject() if about is None else about
    if trials < 1:
        raise UsageError(f"there is at least one trial. Got {trials}.")
    views, rows, panels = about.network.layers, list[Row](), dict[str, list[Panel]]()
    for done, view in enumerate(views):
        progress(done, len(views) + 2, f"tails of {view.name}")
        spectrum, entries = layer_spectrum(view), view.matrix.detach().double().cpu().numpy()
        values = {"entries": tail_values(view), "eigenvalues": spectrum.eigenvalues}
        fits = {of: _fit(each, resamples, about.seed) for of, each in values.items()}
        laws = fit_entry_laws(entries)
        row = {"layer": view.name, "stable_rank": spectrum.stable_rank, **_law_row(laws)}
        row |= {f"{of}_{key}": value for of, fit in fits.items() for key, value in _tail_row(fit).items()}
        rows.append(row | _nearest(laws, entries.shape, spectrum.eigenvalues, seed=about.seed))
        for of, each in values.items():
            curve = survival(each, of=of, fit=fits[of])
            claimed = fits[of].status == "power law"
            panels.setdefault(of, []).append(Panel(view.name, curve, is_claimed=claimed))
    progress(len(views), len(views) + 2, "redraws")
    redrawn, refusal = _redrawn(about, trials)
    over_epochs = [
        {"epoch": n, "layer": view.name, **_law_row(fit_entry_laws(view.matrix.detach().numpy()))}
        for n in sorted(about.by_epoch)[:: max(1, len(about.by_epoch) // 2)]
        for view in replace(about, f=about.by_epoch[n], by_epoch={}).network.layers
    ]
    measured = about.measured("margins", "norms", "maps", "stability", examples=examples)
    evidence = Evidence(measured, seed=about.seed)
    theorems = [_tested(each, rows) for ref in _REFS for each in evaluate(evidence, only=ref)]
    g, certified = _filled(about)
    can = sum(row["entries_status"] == "power law" for row in rows)
    said = f"No weights were redrawn: {refusal}" if refusal else _said(redrawn[0])
    return StudyResult(
        paper="shin21",
        claim=_CLAIM,
        finding=f"The entries of {can} of {len(rows)} layers can be called a power law. {said}",
        about=about,
        settings={"trials": trials, "resamples": resamples, "examples": examples},
        tables=tuple(_tables(rows, redrawn)),
        more=(listed("Laws of the entries over the training", over_epochs, _OVER),),
        theorems=theorems,
        networks={"g": g},
        certified={"g": certified},
        quantities={"layers": rows, "redrawn": redrawn, "over_epochs": over_epochs},
        drawings=tuple(_drawings(panels, rows, redrawn)),
        parts=(
            ("measure", "--families tails,spectra --tails-of absolute"),
            ("compress", "--method heavytail"),
            ("compress", "--method gaussian-fill"),
            ("compare", ""),
            ("plan", "--method heavytail"),
        ),
    )


def _fit(values: NDArray[np.float64], resamples: int, seed: int) -> PowerLawFit:
    return fit_power_law(values[values > 0.0], resamples=resamples, seed=seed)


def _tail_row(fit: PowerLawFit) -> Row:
    """The verdict on a tail; the likelihood ratios are against other tails, negative where these win."""
    estimate = fit.estimate
    return {
        "status": fit.status,
        "verdict": fit.reason,
        "exponent": None if estimate is None else estimate.tail_exponent,
        "p_value": fit.p_value,
        "ratios": {each.alternative: each.ratio for each in fit.comparisons},
    }


def _law_row(laws: EntryLaws) -> Row:
    fits = {
        fit.law: {"likelihood": fit.likelihood, "distance": fit.distance, "scale": fit.scale}
        for fit in laws.fits
    }
    alpha = next(fit.alpha for fit in laws.fits if fit.law == "stable")
    return {"laws": fits, "alpha": alpha, "law": laws.verdict, "usual_distance": laws.usual_distance}


def _nearest(laws: EntryLaws, shape: tuple[int, ...], eigenvalues: NDArray[np.float64], *, seed: int) -> Row:
    """The law whose random matrices have eigenvalues nearest to those of the layer.

    A matrix of this shape is drawn from each fitted law: the distance of the two distributions is that of
    Kolmogorov and Smirnov.
    """
    distances = {}
    own = np.sort(eigenvalues)
    for fit in (each for each in laws.fits if each.alpha != 2.0):  # which is the Gaussian law again
        drawn_values = np.linalg.svd(fit.sample((shape[0], shape[1]), seed=seed), compute_uv=False) ** 2
        other = np.sort(drawn_values[drawn_values > 0.0])
        places = np.concatenate([own, other])
        shares = [np.searchsorted(each, places, side="right") / each.size for each in (own, other)]
        distances[fit.law] = float(np.abs(shares[0] - shares[1]).max())
    nearest = min(distances, key=lambda law: distances[law])
    return {"eigenvalue_distances": distances, "eigenvalue_law": f"{nearest} ({distances[nearest]:.2f} off)"}


def _redrawn(about: Subject, trials: int) -> tuple[list[Row], str]:
    """The last layer with its small weights redrawn, as in table 1; or the reason why that cannot be."""
    data = about.test_set or about.sample
    rows = []
    try:
        for mask in _MASKS:
            found = replacement_trials(
                about.network, data.on("cpu"), trials=trials, mask=mask, seed=about.seed
            )
            rows.append(
                {
                    "mask": mask,
                    "layer": found.layer,
                    "entries": found.entries,
                    "kept": found.kept / found.entries,
                    "original": found.original,
                    "mean": found.mean,
                    "deviation": found.deviation,
                    "accuracies": list(found.accuracies),
                    "on": "the sample" if about.test_set is None else "test examples",
                }
            )
    except CodeboundError as reason:
        return [], str(reason)
    return rows, ""


def _filled(about: Subject) -> tuple[nn.Module, Certificate | str]:
    """g of appendix E: the small weights of the last layer are noise from a seed, the others are rounded."""
    *others, last = about.network.layers
    codes: dict[str, AbstractTensorCode] = {v.name: rounded(weight_of(v), _FINE).code for v in others}
    codes[last.name] = GaussianFill().compress(last, seed=about.seed).code
    g = about.build({name: torch.from_numpy(code.weights()) for name, code in codes.items()})
    return g, about.certified(codes)


def _tested(value: PublishedValue | Refused, rows: Sequence[Row]) -> PublishedValue | Refused:
    """A theorem with its power law tested: one that is ruled out in some layer is not met."""
    if isinstance(value, Refused):
        return value
    ruled_out = [row["layer"] for row in rows if row["entries_status"] == "no power law"]
    found = f"no power law in {', '.join(ruled_out)}" if ruled_out else "not ruled out"
    law = Hypothesis(RANDOM_WEIGHTS, False if ruled_out else None, found)
    conditions = (law if each.statement == RANDOM_WEIGHTS else each for each in value.hypotheses)
    return replace(value, hypotheses=tuple(conditions))


def _said(row: Row) -> str:
    return (
        f"With all but {rate(row['kept'])} of the last layer redrawn as noise, the accuracy on {row['on']} "
        f"is {rate(row['mean'])} +- {100.0 * row['deviation']:.2f} in place of {rate(row['original'])}."
    )


def _tables(rows: Sequence[Row], redrawn: Sequence[Row]) -> Iterator[Table]:
    tails = {
        "layer": "layer", "entries_exponent": "exponent|.3g", "entries_verdict": "entries: a power law?",
        "law": "law of the entries", "alpha": "stable index|.3g",
        "eigenvalues_exponent": "exponent of eigenvalues|.3g", "eigenvalues_verdict": "a power law?",
        "eigenvalue_law": "random matrix that is nearest", "stable_rank": "stable rank|.4g",
    }  # fmt: skip
    legend = {
        "exponent": "of the nearest power law P(X > x) for the largest entries, whatever the verdict is.",
        "law of the entries": "Gaussian, Laplace or stable, by the likelihood of all entries.",
        "random matrix that is nearest": "the fitted law from which a matrix of this size has the most "
        "similar eigenvalues.",
    }
    yield listed("Tails, layer by layer", rows, tails, **legend)
    table = {
        "mask": "compared by", "layer": "layer", "entries": "entries|,", "kept": "kept|%",
        "original": "accuracy|%", "mean": "redrawn|%", "deviation": "+-|%", "on": "on",
    }  # fmt: skip
    by = {"compared by": "magnitude, as the released code does, or with the sign, as the text says."}
    yield listed("Small weights of the last layer redrawn (Table 1)", redrawn, table, **by)


def _drawings(
    panels: Mapping[str, Sequence[Panel]], rows: Sequence[Row], redrawn: Sequence[Row]
) -> Iterator[Drawing]:
    for of, each in panels.items():
        caption = (
            "Share of values that are at least x, on logarithmic axes, where a power law is a straight line. "
            "Orange: the nearest power law; dashed where the values cannot carry that claim."
        )
        yield Drawing(f"Tails of the {of}", survival_figure(each, label=f"size of {of}"), caption)
    known = [row for row in rows if row["eigenvalues_exponent"] is not None]
    exponents, ranks = ([row[key] for row in known] for key in ("eigenvalues_exponent", "stable_rank"))
    scores = [
        Series(f"by {row['mask']} size", list(range(len(row["accuracies"]))), row["accuracies"], "points")
        for row in redrawn
    ]
    yield from drawn(
        "Stable rank and redrawn weights (figure 3, table 1)",
        "Left: a layer each. Right: accuracy with the small weights of the last layer redrawn.",
        Plot(
            "Stable rank", "exponent of eigenvalues", "stable rank", [Series("", exponents, ranks, "points")]
        ),
        Plot("Redrawn weights", "trial", "accuracy", scores, headroom=0.5),
    )
