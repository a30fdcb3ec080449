"""Guha, Dubey and Huo 2023 as one call."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from codebound.bounds.risk import rate
from codebound.report.tables import Table
from codebound.run.progress import Progress, silent, watched
from codebound_networks.codes.modes import integers
from codebound_papers.guha23.pruning import kept_share, strength_for
from codebound_papers.report.figures import Plot, Series, curves
from codebound_papers.report.measures import Drawing
from codebound_papers.study.page import StudyResult, drawn, listed
from codebound_papers.study.sketches import (
    LayerOfG,
    Pruning,
    SketchSettings,
    assumption,
    bounds_at,
    layers_of,
    point_at,
    pruning_facts,
    theorems_of,
)
from codebound_papers.study.subjects import Subject, subject

_KEPT = (0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02)  # of Gaussian weights, at the strengths of the range
_KEPT_TRAINED = (0.5, 0.2, 0.1, 0.05)  # where every strength is a training
_COST = 0.01  # of the accuracy, where d is chosen here
_CLAIM = (
    "Guha, Dubey and Huo (2023) claim that a pruned network can be squeezed into small sketches, that these "
    "give back its weights exactly, and that so few numbers bound its error on new data."
)


@watched
def guha23(
    about: Subject | None = None,
    *,
    prune: Pruning = "algorithm1",
    d: float | None = None,
    levels: int = 15,
    rho: float | None = None,
    eps: float | None = None,
    lambda_: float | None = None,
    constant: float = 1.0,
    widths: Sequence[int] = (),
    progress: Progress = silent,
) -> StudyResult:
    """Prunes, sketches and recovers one network g, and evaluates what the paper says of it.

    ``d`` is the strength of pruning: the other ways of pruning keep the share chi(d) of every layer. Where it
    is not given, it is the strongest of a grid that costs at most 1 % of the accuracy on the sample.
    The other arguments are rho, eps, lambda and C of the theorems; ``widths`` are those of other networks.

    >>> found = guha23(subject("linear", epochs=2), d=1.0)
    >>> [row["layer"] for row in found.record()["layers"]]
    ['linear1']
    """
    about = subject() if about is None else about
    chosen = SketchSettings(prune, levels, rho, eps, lambda_, constant)
    wider = {width: about.widened(width) for width in widths}
    strengths = [strength_for(kept) for kept in (_KEPT_TRAINED if prune == "iterative" else _KEPT)]
    strengths = sorted({*strengths, *(() if d is None else (d,))})
    layers_at: dict[float, list[LayerOfG]] = {}
    points = []
    for done, strength in enumerate(strengths):
        progress(done, len(strengths) + 1, f"d = {strength:.3g}")
        layers_at[strength] = layers_of(about, chosen, strength)
        points.append(point_at(about, strength, layers_at[strength]))
    most = about.errors(about.f)[0] + _COST
    if d is None:
        d = max((point["d"] for point in points if point["error"] <= most), default=strengths[0])
    layers = layers_at[d]
    progress(len(strengths), len(strengths) + 1, "bounds")
    g = about.build({layer.name: torch.from_numpy(layer.code.weights()) for layer in layers})
    measured = about.measured("margins", "norms")
    gaussian = assumption(about, strengths)
    found = pruning_facts(measured.facts, layers, d, chosen)
    certified = {"g": about.certified({layer.name: layer.code for layer in layers})}
    if any(layer.exact for layer in layers):
        certified["g as sketches"] = about.certified({x.name: x.attempt.code or x.code for x in layers})
    over_epochs = [{"epoch": n, **bounds_at(about, f, d, chosen)} for n, f in about.by_epoch.items()]
    over_widths = [{"width": w, **bounds_at(about, about.like(spec=x), d, chosen)} for w, x in wider.items()]
    rows, exact = [layer.record() for layer in layers], sum(layer.exact for layer in layers)
    constants = {"d": d, "chi(d)": kept_share(d), "eps": found.slack, "lambda": found.sparsity_slack}
    constants |= {"rho": max(row["rho"] for row in rows), "C": constant}
    kept = sum(row["nonzeros"] for row in rows) / sum(row["rows"] * row["columns"] for row in rows)
    theorems = theorems_of(about, measured, found, g, layers, gaussian)
    return StudyResult(
        paper="guha23",
        claim=_CLAIM,
        finding=f"Pruned at d = {d:.3g}, which keeps {rate(kept)} of the weights, {exact} of {len(layers)} "
        "layers come back exactly from their sketches.",
        about=about,
        settings={"prune": prune, "levels": levels, "rho asked for": rho, **constants},
        tables=_tables(rows, constants, points),
        more=(_assumption_table(gaussian),),
        theorems=theorems,
        networks={"g": g, "g recovered": about.build({layer.name: layer.decoded for layer in layers})},
        certified=certified,
        quantities={
            "layers": rows,
            "working_range": points,
            "assumption_3_1": gaussian,
            "over_epochs": over_epochs,
            "over_widths": over_widths,
        },
        drawings=tuple(_drawings(theorems[0].name, points, over_epochs, over_widths, d)),
        tensors=_sketches(layers),
        parts=_parts(prune, d, levels),
        notes=tuple(_notes(about, widths)),
    )


def _sketches(layers: Sequence[LayerOfG]) -> dict[str, Tensor]:
    """The sketches that were made, by layer; their seeds, sides and steps are in the record."""
    made = {layer.name: layer.attempt.code or layer.attempt.draft for layer in layers}
    return {n: torch.from_numpy(integers(x.inner).levels.copy()) for n, x in made.items() if x is not None}


def _tables(
    rows: Sequence[dict[str, Any]], constants: Mapping[str, float], points: Sequence[dict[str, Any]]
) -> tuple[Table, ...]:
    sizes = {
        "layer": "layer", "rows": "rows", "columns": "columns", "nonzeros": "non-zeros|,", "rho": "rho|.3g",
        "sketch": "m", "bits_float32": "32-bit floats|,", "bits_sketch": "sketch|,",
        "bits_positions_and_values": "positions and values|,", "bits_coded": "coded|,", "status": "recovered",
    }  # fmt: skip
    told = {
        "m": "of the sketch A X B^T; the columns of A and B, whose seeds are in result.json, have few ones.",
        "sketch": "bits of a sketch from which the layer comes back, with proof that it is the only one.",
        "coded": "bits of the shortest code of the layer, which the certificate pays for.",
    }
    working = {
        "d": "d|.3g", "kept": "kept|%", "error": "error on the sample|%", "test_error": "test error|%",
        "recovered": "layers recovered", "layers": "of", "numbers": "numbers / weights|.3f",
    }  # fmt: skip
    numbers = {"numbers / weights": "where every recovered layer is its sketch, any other its weights."}
    values = [{"constant": name, "value": value} for name, value in constants.items()]
    return (
        listed(
            "g, layer by layer, in bits",
            [{**row, "bits_sketch": row["bits_sketch"] or "-"} for row in rows],
            sizes,
            **told,
        ),
        listed("Constants of theorem 5.2", values, {"constant": "constant", "value": "value|.4g"}),
        listed("Working range: does g still work where its sketches do?", points, working, **numbers),
    )


def _assumption_table(gaussian: Sequence[dict[str, Any]]) -> Table:
    columns = {
        "layer": "layer", "distance": "distance|.4f", "usual_distance": "of Gaussian weights|.4f",
        "excess_kurtosis": "excess kurtosis|.2f", "shares": "kept at d (chi)",
    }  # fmt: skip
    for row in gaussian:
        pairs = zip(row["kept"].items(), row["chi"].values(), strict=True)
        row["shares"] = ", ".join(f"{d}: {kept:.3f} ({chi:.3f})" for (d, kept), chi in pairs)
    legend = {
        "distance": "of Kolmogorov and Smirnov, from the Gaussian law of the same variance.",
        "of Gaussian weights": "that they exceed one time in a hundred.",
        "excess kurtosis": "0 for a Gaussian law, more for heavier tails.",
        "kept at d (chi)": "share that algorithm 1 keeps on average, and of Gaussian weights.",
    }
    return listed("Assumption 3.1: are the weights Gaussian?", gaussian, columns, **legend)


def _drawings(
    name: str,
    points: Sequence[dict[str, Any]],
    over_epochs: Sequence[dict[str, Any]],
    over_widths: Sequence[dict[str, Any]],
    d: float,
) -> Iterator[Drawing]:
    accuracies = [{**p, "accuracy": 1.0 - p["error"], "share": p["recovered"] / p["layers"]} for p in points]
    for each in accuracies:
        each["test"] = None if each["test_error"] is None else 1.0 - each["test_error"]
    kinds = {"accuracy": "accuracy, sample", "test": "accuracy, test", "share": "layers recovered"}
    lines = curves(accuracies, "d", kinds)
    chosen = Series("d of g", [d, d], [0.0, 1.0], "dashed")
    yield from drawn(
        "Working range",
        "Accuracy of g and the share of its layers that come back from their sketches. The scheme works "
        "where both are high.",
        Plot("", "strength of pruning, d", "share", [*lines, chosen], x_scale="log"),
    )
    true = [(p["epoch"], p["test_error"]) for p in over_epochs if p["test_error"] is not None]
    ours = [(p["epoch"], 10.0 ** p["log10"][name]) for p in over_epochs if p["log10"].get(name) is not None]
    if true and len(ours) > 1:
        low, high = (f(value for _, value in true) for f in (min, max))
        least, most = (f(value for _, value in ours) for f in (min, max))
        scaled = [low + (v - least) / (most - least or 1.0) * (high - low) for _, v in ours]
        yield from drawn(
            "Figure 2: over the training",
            f"Theorem 5.2 and the test error of f. The bound, {least:.3g} to {most:.3g}, is stretched "
            "to the range of the error, as in the paper; where f has no margin it is infinite and not drawn.",
            Plot(
                "",
                "epoch",
                "error rate",
                [
                    Series("test error", [x for x, _ in true], [y for _, y in true]),
                    Series(name, [x for x, _ in ours], scaled),
                ],
            ),
        )
    flat = [{"width": p["width"], **p["log10"]} for p in over_widths]
    names = {each: each for each in flat[0] if each != "width"} if flat else {}
    yield from drawn(
        "Figure 1 (c): against width",
        "Decimal logarithms of the bounds on networks of other widths, trained alike.",
        Plot("", "width", "decimal logarithm", curves(flat, "width", names, "line"), headroom=0.5),
    )


def _notes(about: Subject, widths: Sequence[int]) -> Iterator[str]:
    if not about.by_epoch:
        yield (
            "Nothing is known of the training, so there is no figure over epochs: give the folder of "
            "codebound train --keep-epochs 1 as the network."
        )
    if not widths:
        yield "Other widths were not asked for: --widths trains networks like this one."
    yield (
        "A layer that is not recovered is in g-recovered.safetensors as its sketch gives it back, one that "
        "is not sketched as it is; the certificates are about g."
    )


def _parts(prune: Pruning, d: float, levels: int) -> tuple[tuple[str, str], ...]:
    method, density = {"magnitude": "naive", "iterative": "imp"}.get(prune, "mbp"), f"{kept_share(d):.6g}"
    strength = f"--set strength={d:.6g}" if method == "mbp" else f"--set density={density}"
    sketch = f"--strength {d:.6g}" if method == "mbp" else f"--keep {density}"
    return (
        ("compress", f"--method {method} {strength} --set levels={levels}"),
        ("sketch", f"{sketch} --levels {levels}"),
        ("compare", ""),
        ("plan", "--method mbp"),
    )
