"""Guha, Dubey and Huo 2023 as one call: one g, pruned, rounded, sketched and recovered, and its bounds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from codebound.bounds.risk import rate
from codebound.report.tables import Table
from codebound.run.errors import UsageError
from codebound.run.files import finite
from codebound.run.progress import Progress, silent, watched
from codebound.run.rng import torch_stream
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.modes import encode_tensors, integers
from codebound_networks.codes.quantization import nearest_step, quantize, step_for_levels, step_size
from codebound_networks.codes.tensors import AbstractTensorCode, matrix_shape
from codebound_papers.baselines import literature, parameter_counting
from codebound_papers.compress.compressors import Job, weight_of
from codebound_papers.facts import NetworkFacts
from codebound_papers.guha23 import lottery, magnitude, pruning, sketching
from codebound_papers.guha23.kappa import SLACK, PruningChoice
from codebound_papers.guha23.masks import IterativePruning
from codebound_papers.guha23.pruning import GAUSSIAN, PruningFacts, kept_share, strength_for
from codebound_papers.guha23.sketch.codec import Attempt, l1_solution, plain_bits, smallest_sketch
from codebound_papers.measure.proximity import closeness
from codebound_papers.measure.record import Measured
from codebound_papers.measure.shape import weight_shape
from codebound_papers.measure.spectral import matrix_spectral_norm
from codebound_papers.report.figures import Plot, Series, curves
from codebound_papers.report.measures import Drawing
from codebound_papers.study.page import StudyResult, drawn, listed
from codebound_papers.study.subjects import Subject, subject
from codebound_papers.value import Hypothesis, PublishedValue, Refused

Pruning = Literal["algorithm1", "magnitude", "iterative"]
_ROUNDS, _STEPS = 3, 600  # of iterative pruning, and at least so many steps of each of its trainings
_BATCH = 128
_FINE = 4095  # levels of what is rounded again
_KEPT = (0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02)  # of Gaussian weights, at the strengths of the range
_KEPT_TRAINED = (0.5, 0.2, 0.1, 0.05)  # where every strength is a training
_TICKETS = {
    "random_width": "random width|,", "active": "weights in the ticket|,", "distance": "distance|.3g",
    "largest_score": "largest score|.3g", "agreement": "same labels|%"}  # fmt: skip
_COST = 0.01  # of the accuracy, where d is chosen here
_CLAIM = (
    "Guha, Dubey and Huo (2023) claim that a pruned network can be squeezed into small sketches, that these "
    "give back its weights exactly, and that so few numbers bound its error on new data."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Settings(PruningChoice):
    """Options of the study; rho is rounded to the nearest step that can be coded."""

    prune: Pruning  # by algorithm 1, by magnitude, or in rounds with rewinding
    levels: int  # values that a weight can take, odd, where there is no rho
    constant: float  # C of lemma 4.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prune not in get_args(Pruning):
            raise UsageError(f"pruning is by {', '.join(get_args(Pruning))}. Got {self.prune!r}.")
        pruning.expected_change_norm(1, 1, strength=1.0, variance=1.0, constant=self.constant)


@dataclass(frozen=True, eq=False)
class _Layer:
    """A layer of g."""

    name: str  # the layer
    original: Tensor = field(repr=False)  # its matrix in f
    pruned: Tensor = field(repr=False)  # its matrix before rounding
    code: AbstractTensorCode = field(repr=False)  # its weight on a grid, the shortest code
    attempt: Attempt = field(repr=False)  # its sketch
    decoded: Tensor = field(repr=False)  # the weight that the sketch gives back; the weight without a sketch
    error: float  # distance of the two, relative to the weight

    @property
    def exact(self) -> bool:
        """Return True if the sketch is proven to give the weight back."""
        return self.attempt.code is not None

    @property
    def status(self) -> str:
        """Return exact, not exact with the reason, or not sketched with the reason."""
        if self.exact:
            return "exact, with proof"
        if self.attempt.draft is None:
            return f"not sketched: {self.attempt.reason}"
        if self.error == 0.0:
            return f"the same, but {self.attempt.reason}"
        return f"NOT recovered (a relative error of {self.error:.2g}): {self.attempt.reason}"

    def record(self) -> dict[str, Any]:
        """Sizes and recovery, for JSON."""
        grid, sketch = integers(self.code), self.attempt.code or self.attempt.draft
        rows, columns = matrix_shape(grid.shape)
        plain, code = plain_bits(grid.levels, step=grid.step), self.attempt.code
        return {
            "layer": self.name,
            "rows": rows,
            "columns": columns,
            "nonzeros": int((grid.levels != 0).sum()),
            "rho": step_size(grid.step),
            "sketch": "-" if sketch is None else f"{self.attempt.m1} x {self.attempt.m2}",
            "degree": None if sketch is None else sketch.degree,
            "seed": None if sketch is None else sketch.seed,
            "exact": self.exact,
            "relative_error": self.error,
            "status": self.status,
            "bits_float32": 32 * rows * columns,
            "bits_sketch": None if code is None else encode_tensors([code]).length,
            "bits_positions_and_values": plain.sparse,
            "bits_coded": encode_tensors([self.code]).length,
        }


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
    >>> print(*(row["layer"] for row in found.record()["layers"]))
    linear1
    """
    about = subject() if about is None else about
    chosen = _Settings(prune=prune, levels=levels, rho=rho, eps=eps, lambda_=lambda_, constant=constant)
    wider = {width: about.widened(width) for width in widths}
    strengths = [strength_for(kept) for kept in (_KEPT_TRAINED if prune == "iterative" else _KEPT)]
    strengths = sorted({*strengths, *(() if d is None else (d,))})
    layers_at: dict[float, list[_Layer]] = {}
    points = []
    for done, strength in enumerate(strengths):
        progress(done, len(strengths) + 1, f"d = {strength:.3g}")
        layers_at[strength] = _layers(about, chosen, strength)
        points.append(_point(about, strength, layers_at[strength]))
    most = about.errors(about.f)[0] + _COST
    if d is None:
        d = max((point["d"] for point in points if point["error"] <= most), default=strengths[0])
    layers = layers_at[d]
    progress(len(strengths), len(strengths) + 1, "bounds")
    g = about.build({layer.name: torch.from_numpy(layer.code.weights()) for layer in layers})
    measured = about.measured("margins", "norms")
    gaussian = _assumption(about, strengths)
    tickets = lottery.ticket_distances(about.network, about.first(200), seed=about.seed)
    found = _pruning_facts(measured.facts, layers, d, chosen)
    certified = {"g": about.certified({layer.name: layer.code for layer in layers})}
    if any(layer.exact for layer in layers):
        certified["g as sketches"] = about.certified({x.name: x.attempt.code or x.code for x in layers})
    over_epochs = [{"epoch": n, **_bounds(about, f, d, chosen)} for n, f in about.by_epoch.items()]
    over_widths = [{"width": w, **_bounds(about, about.like(spec=x), d, chosen)} for w, x in wider.items()]
    rows, exact = [layer.record() for layer in layers], sum(layer.exact for layer in layers)
    constants = {"d": d, "chi(d)": kept_share(d), "eps": found.slack, "lambda": found.sparsity_slack}
    constants |= {"rho": max(row["rho"] for row in rows), "C": constant}
    kept = sum(row["nonzeros"] for row in rows) / sum(row["rows"] * row["columns"] for row in rows)
    theorems = _theorems(about, measured, found, g, layers, gaussian)
    return StudyResult(
        paper="guha23",
        claim=_CLAIM,
        finding=f"Pruned at d = {d:.3g}, which keeps {rate(kept)} of the weights, {exact} of {len(layers)} "
        "layers come back exactly from their sketches.",
        about=about,
        settings={"prune": prune, "levels": levels, "rho asked for": rho, **constants},
        tables=_tables(rows, constants, points),
        more=(_assumption_table(gaussian), listed("Theorem 6.1, measured", tickets, _TICKETS)),
        theorems=theorems,
        networks={"g": g, "g recovered": about.build({layer.name: layer.decoded for layer in layers})},
        certified=certified,
        quantities={
            "layers": rows,
            "working_range": points,
            "assumption_3_1": gaussian,
            "tickets": tickets,
            "over_epochs": over_epochs,
            "over_widths": over_widths,
        },
        drawings=tuple(_drawings(theorems[0].name, points, over_epochs, over_widths, d)),
        tensors=_sketches(layers),
        parts=_parts(prune, d, levels),
        notes=tuple(_notes(about, widths)),
    )


def _pruned(about: Subject, chosen: _Settings, d: float) -> dict[str, Tensor]:
    """The weights of every layer after pruning, by layer; draws are those of ``compress --method mbp``."""
    kept, seed = kept_share(d), about.seed
    if chosen.prune == "iterative":
        has_biases = any(view.bias is not None for view in about.network.layers)
        start = about.by_epoch.get(0)  # biases stay as they are, and those of f belong to its weights
        network = about.network if start is None or has_biases else about.network.with_model(start)
        algorithm = IterativePruning(
            density=kept,
            rounds=_ROUNDS,
            epochs=math.ceil(_STEPS * _BATCH / about.sample.n),
            levels=chosen.levels if chosen.rho is None else _FINE,
            batch_size=_BATCH,
        )
        job = Job(network=network, sample=about.sample.on("cpu"), seed=seed)
        return {layer.name: layer.weight for layer in algorithm.run(job).layers}
    found = {}
    for place, view in enumerate(about.network.layers):
        weight = weight_of(view)
        if chosen.prune == "magnitude":
            found[view.name] = magnitude.keep_largest(weight, magnitude.kept_count(weight.numel(), kept))
            continue
        matrix = weight.flatten(1)
        variance, stream = float(matrix.double().var(correction=0)), torch_stream(seed + place, "mbp")
        pruned = magnitude.prune_randomly(matrix, strength=d, variance=variance, generator=stream)
        found[view.name] = pruned.view(weight.shape)
    return found


def _layers(about: Subject, chosen: _Settings, d: float, *, sketched: bool = True) -> list[_Layer]:
    """Every layer pruned and rounded; sketched and recovered, too, unless that is not wanted."""
    found = []
    for place, (name, weight) in enumerate(_pruned(about, chosen, d).items()):
        code = _rounded(weight, chosen)
        grid, exact = integers(code), torch.from_numpy(code.weights())
        attempt = Attempt(0, 0, None)
        if sketched:
            attempt = smallest_sketch(grid.levels, step=grid.step, seed=100 * (about.seed + place))
        decoded, error = exact, 0.0
        if attempt.code is None and attempt.draft is not None:
            matrix = l1_solution(attempt.draft).value.double() * step_size(grid.step)
            decoded = matrix.to(exact.dtype).view(exact.shape)
            error = float((decoded - exact).double().norm() / exact.double().norm())
        original = about.network.layer(name).weight.detach().cpu().flatten(1)
        found.append(_Layer(name, original, weight.flatten(1), code, attempt, decoded, error))
    return found


def _rounded(weight: Tensor, chosen: _Settings) -> AbstractTensorCode:
    """A weight on a grid of so many levels, or with the step rho."""
    values = weight.detach().numpy()
    step = step_for_levels(values, chosen.levels) if chosen.rho is None else nearest_step(chosen.rho)
    return best_tensor_code(quantize(values, step), step=step)


def _point(about: Subject, d: float, layers: Sequence[_Layer]) -> dict[str, Any]:
    """The working range at one strength."""
    g = about.build({layer.name: torch.from_numpy(layer.code.weights()) for layer in layers})
    numbers = sum(x.attempt.m1 * x.attempt.m2 if x.exact else x.pruned.numel() for x in layers)
    weights = sum(layer.pruned.numel() for layer in layers)
    return {
        "d": d,
        "kept": sum(int(layer.pruned.count_nonzero()) for layer in layers) / weights,
        **dict(zip(("error", "test_error"), about.errors(g), strict=True)),
        "recovered": sum(layer.exact for layer in layers),
        "layers": len(layers),
        "numbers": numbers / weights,
    }


def _pruning_facts(
    facts: NetworkFacts, layers: Sequence[_Layer], d: float, chosen: _Settings
) -> PruningFacts:
    """Facts of g for the theorems: those of Gaussian weights, and what was measured in their place."""
    slack = SLACK * facts.depth
    eps, sparsity, constant = chosen.eps or slack, chosen.lambda_ or slack, chosen.constant
    predicted = pruning.gaussian_pruning(
        facts, strength=d, step=1.0, slack=eps, sparsity_slack=sparsity, constant=constant
    )
    measured = (
        replace(
            each,
            step=step_size(integers(own.code).step),
            nonzeros=int(own.pruned.count_nonzero()),
            change=matrix_spectral_norm(own.original - own.pruned).value,
        )
        for each, own in zip(predicted.layers, layers, strict=True)
    )
    return replace(predicted, layers=tuple(measured))


def _theorems(
    about: Subject,
    measured: Measured,
    found: PruningFacts,
    g: nn.Module,
    layers: Sequence[_Layer],
    gaussian: Sequence[Mapping[str, Any]],
) -> list[PublishedValue | Refused]:
    """Theorem 5.2 in its forms, theorem 6.2, and the five older bounds; of a chain of layers alone."""
    if measured.obstacle:
        return [Refused("G-Thm5.2", "Guha 5.2: sketching", "risk", "g", measured.obstacle)]
    facts = measured.facts
    shares = (x.nonzeros / layer.weights for x, layer in zip(found.layers, facts.layers, strict=True))
    kept = tuple(replace(x, kept_share=share) for x, share in zip(found.layers, shares, strict=True))
    distance = closeness(about.f, g, about.sample.on("cpu")).largest
    missing = [layer.name for layer in layers if not layer.exact]
    tested = [
        Hypothesis(
            "every layer comes back from its sketch, as theorem 5.1 says",
            not missing,
            f"not {', '.join(missing)}" if missing else "with proof",
        ),
        _tested(gaussian),
    ]

    def said(value: PublishedValue) -> PublishedValue:
        others = [each for each in value.hypotheses if each.statement != GAUSSIAN]
        return replace(value, hypotheses=(*others, *tested))

    at_kept = sketching.sketching_risk(facts, pruning=replace(found, layers=kept))
    step = max(layer.step for layer in found.layers)
    return [
        said(sketching.sketching_risk(facts, pruning=found)),
        replace(said(at_kept), name=f"{at_kept.name}, at the share that was kept"),
        sketching.naive_risk(facts, pruning=found),
        sketching.sparsity_failure(facts, pruning=found),
        lottery.ticket_risk(facts, step=step, distance=distance),
        *literature(facts),
        parameter_counting(facts),
    ]


def _assumption(about: Subject, strengths: Sequence[float]) -> list[dict[str, Any]]:
    """Assumption 3.1 on every layer: distance from a Gaussian law, kurtosis, kept share against chi."""
    rows, chi = [], {f"{d:.4g}": kept_share(d) for d in strengths}
    for view in about.network.layers:
        shape, weights = weight_shape(view.matrix), view.matrix.detach().double()
        squares = weights.square() / weights.var(correction=0)
        kept = {f"{d:.4g}": float(-torch.expm1(-squares / d).mean()) for d in strengths}
        row = {"layer": view.name, "distance": shape.distance, "usual_distance": shape.usual_distance}
        rows.append({**row, "excess_kurtosis": shape.excess_kurtosis, "kept": kept, "chi": chi})
    return rows


def _tested(gaussian: Sequence[Mapping[str, Any]]) -> Hypothesis:
    """Assumption 3.1, refuted by a distance that Gaussian weights hardly ever have; never proven."""
    far = [row["layer"] for row in gaussian if row["distance"] > row["usual_distance"]]
    found = f"not {', '.join(far)}, by the test of Kolmogorov and Smirnov" if far else "not refuted"
    return Hypothesis(GAUSSIAN, False if far else None, found)


def _bounds(about: Subject, f: nn.Module, d: float, chosen: _Settings) -> dict[str, Any]:
    """Decimal logarithms of theorem 5.2 and of the older bounds on another network, with its errors.

    It is pruned as g is; without training, which would be one for every point.
    """
    other = replace(about, f=f, by_epoch={})
    if chosen.prune == "iterative":
        chosen = replace(chosen, prune="magnitude")
    measured = other.measured("margins", "norms")
    facts, layers = measured.facts, _layers(other, chosen, d, sketched=False)
    found = _pruning_facts(facts, layers, d, chosen)
    values = [] if measured.obstacle else [sketching.sketching_risk(facts, pruning=found), *literature(facts)]
    return {
        "log10": {each.name: finite(each.log10) for each in values},
        **dict(zip(("error", "test_error"), about.errors(f), strict=True)),
        "smallest_margin": measured.margins.minimum,
    }


def _sketches(layers: Sequence[_Layer]) -> dict[str, Tensor]:
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
    layers = [{**row, "bits_sketch": row["bits_sketch"] or "-"} for row in rows]
    values = [{"constant": name, "value": value} for name, value in constants.items()]
    return (
        listed("g, layer by layer, in bits", layers, sizes, **told),
        listed("Constants of theorem 5.2", values, {"constant": "constant", "value": "value|.4g"}),
        listed("Working range: does g still work where its sketches do?", points, working, **numbers),
    )


def _assumption_table(gaussian: Sequence[dict[str, Any]]) -> Table:
    columns = {
        "layer": "layer", "distance": "distance|.4f", "usual_distance": "of Gaussian weights|.4f",
        "excess_kurtosis": "excess kurtosis|.2f", "shares": "kept at d (chi)",
    }  # fmt: skip
    texts = (
        ", ".join(f"{d}: {x:.3f} ({row['chi'][d]:.3f})" for d, x in row["kept"].items()) for row in gaussian
    )
    shown = [{**row, "shares": text} for row, text in zip(gaussian, texts, strict=True)]
    legend = {
        "distance": "of Kolmogorov and Smirnov, from the Gaussian law of the same variance.",
        "of Gaussian weights": "that they exceed one time in a hundred.",
        "excess kurtosis": "0 for a Gaussian law, more for heavier tails.",
        "kept at d (chi)": "share that algorithm 1 keeps on average, and of Gaussian weights.",
    }
    return listed("Assumption 3.1: are the weights Gaussian?", shown, columns, **legend)


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
