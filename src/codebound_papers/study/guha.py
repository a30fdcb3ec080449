"""Guha, Dubey and Huo 2023 as one call: one g, pruned, rounded, sketched and recovered, and its bounds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from codebound.bounds.risk import rate
from codebound.report.templates import Table
from codebound.run.files import finite
from codebound.run.progress import Progress, show_progress, silent
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.modes import encode_tensors, integers
from codebound_networks.codes.quantization import nearest_step, quantize, step_for_levels, step_size
from codebound_networks.codes.tensors import AbstractTensorCode, matrix_shape
from codebound_networks.methods.pruned import VECTOR_LEVELS
from codebound_networks.train.rng import torch_stream
from codebound_papers.baselines import literature, parameter_counting
from codebound_papers.compress.compressors import Job, weight_of
from codebound_papers.facts import NetworkFacts
from codebound_papers.guha23 import lottery, magnitude, pruning, sketching
from codebound_papers.guha23.balanced import BalancedPruning
from codebound_papers.guha23.kappa import SLACK
from codebound_papers.guha23.masks import IterativePruning
from codebound_papers.guha23.pruning import GAUSSIAN, PruningFacts, kept_share, strength_for
from codebound_papers.guha23.sketch.codec import Attempt, l1_solution, plain_bits, smallest_sketch
from codebound_papers.measure.proximity import closeness
from codebound_papers.measure.record import Measured
from codebound_papers.measure.shape import weight_shape
from codebound_papers.measure.spectral import matrix_spectral_norm
from codebound_papers.report.figures import Plot, Series, curves
from codebound_papers.report.measures import Drawing
from codebound_papers.study.result_page import Row, StudyResult, make_figure, make_table
from codebound_papers.study.settings import Pruning, check_options
from codebound_papers.study.subjects import Subject, bias_name, subject
from codebound_papers.value import Hypothesis, PublishedValue, Refused

_TRAINED = ("iterative", "balanced")  # ways that train under the mask
_ROUNDS, _STEPS = 3, 600  # of iterative pruning, and at least so many steps of each of its trainings
_BATCH = 128
_FINE = 4095  # levels of what is rounded again
_KEPT = (0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02)  # of Gaussian weights, at the strengths of the range
_KEPT_TRAINED = (0.5, 0.2, 0.1, 0.05)  # where every strength is a training
_TICKETS = {
    "random_width": "random width|,", "active": "weights in the ticket|,", "distance": "distance|.3g",
    "largest_score": "largest score|.3g", "agreement": "same labels|%"}  # fmt: skip
_TICKETS_SAID = {
    "random width": "of a random network of twice the depth; the ticket is the part of it nearest to f.",
    "distance": "largest difference of a score of f, scaled to norms of 1, and of the ticket.",
}
_COST = 0.01  # of the accuracy, where d is chosen here
# names of ``compress``
_VERBS = {"algorithm1": "mbp", "magnitude": "naive", "iterative": "imp", "balanced": "balanced"}
_CLAIM = (
    "Guha, Dubey and Huo (2023) claim that a pruned network can be squeezed into small sketches, that these "
    "give back its weights exactly, and that so few numbers bound its error on new data."
)
_NO_EPOCHS = (
    "Nothing is known of the training, so there is no figure over epochs: give the folder of codebound train "
    "--keep-epochs 1 as the network."
)
_NO_WIDTHS = "The bound against width was not asked for: --widths 64,256 trains networks like this one."
_SIZES = {
    "layer": "layer", "rows": "rows", "columns": "columns", "nonzeros": "non-zeros|,", "rho": "rho|.3g",
    "sketch": "m", "bits_float32": "float32|,", "bits_sketch": "sketch|,",
    "bits_positions_and_values": "positions, values|,", "bits_coded": "coded|,", "status": "recovered",
}  # fmt: skip
_WORKING = {
    "d": "d|.3g", "kept": "kept|%", "error": "error on the sample|%", "test_error": "test error|%",
    "recovered": "layers recovered", "layers": "of", "numbers": "numbers / weights|.3f",
}  # fmt: skip
_SHAPE = {
    "layer": "layer", "distance": "distance|.4f", "usual_distance": "of Gaussian weights|.4f",
    "excess_kurtosis": "excess kurtosis|.2f", "share": "kept|%", "expected": "chi|%",
}  # fmt: skip


class _Settings(NamedTuple):
    """Options of the study."""

    prune: Pruning  # by algorithm 1, by magnitude, or in rounds with rewinding
    levels: int  # values that a weight can take, odd
    rho: float | None  # the step of rounding in place of levels, to the nearest that can be coded
    eps: float | None  # eps_l of all layers; None: four times their number
    lambda_: float | None  # lambda_l of all layers; likewise


@dataclass(frozen=True, eq=False)
class _Layer:
    """A layer of g."""

    name: str
    pruned: Tensor  # its matrix before rounding
    code: AbstractTensorCode  # its weight on a grid, the shortest code
    attempt: Attempt  # its sketch
    decoded: Tensor  # the weight that the sketch gives back; the weight without a sketch
    bias: AbstractTensorCode | None  # where it was trained, too; None: that of f

    @property
    def weight(self) -> Tensor:
        return torch.from_numpy(self.code.weights())

    def record(self) -> Row:
        grid, code, draft = integers(self.code), self.attempt.code, self.attempt.draft
        rows, columns = matrix_shape(grid.shape)
        error = float((self.decoded - self.weight).double().norm() / self.weight.double().norm())
        if code is not None:
            status = "exact, with proof"
        elif draft is None:
            status = f"not sketched: {self.attempt.reason}"
        elif error == 0.0:
            status = f"the same, but {self.attempt.reason}"
        else:
            status = f"NOT recovered (a relative error of {error:.2g}): {self.attempt.reason}"
        return {
            "layer": self.name,
            "rows": rows,
            "columns": columns,
            "nonzeros": int((grid.levels != 0).sum()),
            "rho": step_size(grid.step),
            "sketch": "-" if draft is None else f"{self.attempt.m1} x {self.attempt.m2}",
            "degree": None if draft is None else draft.degree,
            "seed": None if draft is None else draft.seed,
            "exact": code is not None,
            "relative_error": error,
            "status": status,
            "bits_float32": 32 * rows * columns,
            "bits_sketch": None if code is None else encode_tensors([code]).length,
            "bits_positions_and_values": plain_bits(grid.levels, step=grid.step).sparse,
            "bits_coded": encode_tensors([self.code]).length,
        }


@show_progress
def guha23(
    about: Subject | None = None,
    *,
    prune: Pruning = "balanced",
    d: float | None = None,
    levels: int = 15,
    rho: float | None = None,
    eps: float | None = None,
    lambda_: float | None = None,
    widths: Sequence[int] = (),
    progress: Progress = silent,
) -> StudyResult:
    """Prunes, sketches and recovers one network g, and evaluates what the paper says of it.

    ``d`` is the strength of pruning: the other ways of pruning keep the share chi(d) of every layer. It is by
    default the strongest of a grid that costs at most 1 % of the accuracy on the sample. ``widths`` are those
    of other networks.

    >>> found = guha23(subject("linear", epochs=2), prune="magnitude", d=1.0)
    >>> print(*(row["layer"] for row in found.record()["layers"]))
    linear1
    """
    check_options(prune=prune, d=d, levels=levels, rho=rho, eps=eps, lambda_=lambda_)
    about = subject() if about is None else about
    chosen = _Settings(prune, levels, rho, eps, lambda_)
    wider = {width: about.widen(width) for width in widths}
    strengths = {strength_for(kept) for kept in (_KEPT_TRAINED if prune in _TRAINED else _KEPT)}
    strengths |= set() if d is None else {d}
    layers_at, points = dict[float, list[_Layer]](), list[Row]()
    for done, strength in enumerate(sorted(strengths)):
        progress(done, len(strengths) + 1, f"d = {strength:.3g}")
        layers_at[strength] = _layers(about, chosen, strength)
        points.append(_point(about, strength, layers_at[strength]))
    progress(len(strengths), len(strengths) + 1, "bounds")
    if d is None:
        most = about.errors(about.f)[0] + _COST
        d = max((point["d"] for point in points if point["error"] <= most), default=min(strengths))
    layers, measured = layers_at[d], about.measure("margins", "norms")
    rows, exact = [layer.record() for layer in layers], [x for x in layers if x.attempt.code is not None]
    g = about.build(_tensors(layers))
    gaussian = [_gaussian_row(view.name, view.matrix, sorted(strengths)) for view in about.network.layers]
    tickets = lottery.ticket_distances(about.network, about.first(200), seed=about.seed)
    facts = _pruning_facts(about, measured.facts, layers, d, chosen)
    theorems = _theorems(about, measured, facts, g, rows, gaussian)
    codes = {layer.name: layer.code for layer in layers}
    codes |= {bias_name(layer.name): layer.bias for layer in layers if layer.bias is not None}
    certified = {"g": about.certify(codes)}
    if exact:
        sketches = {layer.name: layer.attempt.code for layer in exact if layer.attempt.code is not None}
        certified["g as sketches"] = about.certify(codes | sketches)
    over_epochs = [{"epoch": n, **_bounds(about, f, d, chosen)} for n, f in about.by_epoch.items()]
    over_widths = [{"width": w, **_bounds(about, about.like(spec=x), d, chosen)} for w, x in wider.items()]
    constants = {"d": d, "chi(d)": kept_share(d), "eps": facts.slack, "lambda": facts.sparsity_slack}
    constants |= {"rho": max(row["rho"] for row in rows), "C": facts.constant}
    kept = sum(row["nonzeros"] for row in rows) / sum(row["rows"] * row["columns"] for row in rows)
    return StudyResult(
        paper="guha23",
        claim=_CLAIM,
        finding=f"Pruning at strength d = {d:.3g} keeps {rate(kept)} of the weights; {len(exact)} of "
        f"{len(layers)} layers come back exactly from their sketches.",
        about=about,
        settings={"prune": prune, "levels": levels, "rho asked for": rho, **constants},
        tables=(
            *_tables(rows, constants, points, gaussian),
            make_table("Theorem 6.1, measured", tickets, _TICKETS, **_TICKETS_SAID),
        ),
        theorems=theorems,
        networks={"g": g, "g recovered": about.build(_tensors(layers, is_decoded=True))},
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
        tensors={
            layer.name: torch.from_numpy(integers(layer.attempt.draft.inner).levels.copy())
            for layer in layers
            if layer.attempt.draft is not None
        },
        parts=_parts(prune, d, levels),
        notes=(*(() if about.by_epoch else (_NO_EPOCHS,)), *(() if widths else (_NO_WIDTHS,))),
    )


def _prune(about: Subject, chosen: _Settings, d: float) -> dict[str, Tensor]:
    """Pruned weights by layer, and biases by name; draws are those of ``compress --method mbp``."""
    kept, views = kept_share(d), about.network.layers
    if chosen.prune == "magnitude":
        count = {view.name: magnitude.kept_count(view.weight.numel(), kept) for view in views}
        return {view.name: magnitude.keep_largest(weight_of(view), count[view.name]) for view in views}
    levels = chosen.levels if chosen.rho is None else _FINE
    epochs = math.ceil(_STEPS * _BATCH / about.sample.n)
    if chosen.prune in _TRAINED:
        # iterative pruning keeps biases as they are, and those of f belong to its weights
        is_rewound = chosen.prune == "iterative" and all(view.bias is None for view in views)
        start = about.by_epoch.get(0) if is_rewound else None
        network = about.network if start is None else about.network.with_model(start)
        job = Job(network=network, sample=about.sample.on("cpu"), seed=about.seed)
        if chosen.prune == "balanced":
            balanced = BalancedPruning(density=kept, output_density=kept, levels=levels, epochs=2 * epochs)
            found = balanced.run(job)
            biases = {bias_name(view.name): found.trained.get(bias_name(view.name)) for view in views}
            weights = {layer.name: layer.weight for layer in found.layers}
            return weights | {name: bias for name, bias in biases.items() if bias is not None}
        rounds = IterativePruning(
            density=kept, rounds=_ROUNDS, epochs=epochs, levels=levels, batch_size=_BATCH
        )
        return {layer.name: layer.weight for layer in rounds.run(job).layers}
    drawn = {}
    for place, view in enumerate(views):
        weight, stream = weight_of(view), torch_stream(about.seed + place, "mbp")
        matrix, variance = weight.flatten(1), float(weight.double().var(correction=0))
        pruned = magnitude.prune_randomly(matrix, strength=d, variance=variance, generator=stream)
        drawn[view.name] = pruned.view(weight.shape)
    return drawn


def _layers(about: Subject, chosen: _Settings, d: float, *, is_sketched: bool = True) -> list[_Layer]:
    """Every layer pruned and rounded; sketched and recovered, too, unless that is not wanted."""
    found, tensors = [], _prune(about, chosen, d)
    for place, name in enumerate(view.name for view in about.network.layers if view.name in tensors):
        weight, bias = tensors[name], tensors.get(bias_name(name))
        step = nearest_step(chosen.rho) if chosen.rho is not None else None
        code = _on_grid(weight, step, chosen.levels)
        grid, attempt, decoded = integers(code), Attempt(0, 0, None), torch.from_numpy(code.weights())
        if is_sketched:
            attempt = smallest_sketch(grid.levels, step=grid.step, seed=100 * (about.seed + place))
        if attempt.code is None and attempt.draft is not None:
            matrix = l1_solution(attempt.draft).value.double() * step_size(grid.step)
            decoded = matrix.to(decoded.dtype).view(decoded.shape)
        rounded = None if bias is None else _on_grid(bias, None, VECTOR_LEVELS)
        found.append(_Layer(name, weight.flatten(1), code, attempt, decoded, rounded))
    return found


def _on_grid(tensor: Tensor, step: int | None, levels: int) -> AbstractTensorCode:
    values = tensor.numpy()
    step = step_for_levels(values, levels) if step is None else step
    return best_tensor_code(quantize(values, step), step=step)


def _tensors(layers: Sequence[_Layer], *, is_decoded: bool = False) -> dict[str, Tensor]:
    """The weights of g by layer, coded or from their sketches, and its own biases by name."""
    weights = {layer.name: layer.decoded if is_decoded else layer.weight for layer in layers}
    biases = {bias_name(layer.name): layer.bias for layer in layers}
    return weights | {name: torch.from_numpy(b.weights()) for name, b in biases.items() if b is not None}


def _point(about: Subject, d: float, layers: Sequence[_Layer]) -> Row:
    g = about.build(_tensors(layers))
    exact = [layer.attempt for layer in layers if layer.attempt.code is not None]
    plain = sum(layer.pruned.numel() for layer in layers if layer.attempt.code is None)
    weights = sum(layer.pruned.numel() for layer in layers)
    return {
        "d": d,
        "kept": sum(int(layer.pruned.count_nonzero()) for layer in layers) / weights,
        **dict(zip(("error", "test_error"), about.errors(g), strict=True)),
        "recovered": len(exact),
        "layers": len(layers),
        "numbers": (plain + sum(each.m1 * each.m2 for each in exact)) / weights,
    }


def _pruning_facts(
    about: Subject, facts: NetworkFacts, layers: Sequence[_Layer], d: float, chosen: _Settings
) -> PruningFacts:
    """Facts of g for the theorems: those of Gaussian weights, and what was measured in their place."""
    slack = SLACK * facts.depth
    eps, sparsity = chosen.eps or slack, chosen.lambda_ or slack
    predicted = pruning.gaussian_pruning(facts, strength=d, step=1.0, slack=eps, sparsity_slack=sparsity)
    measured = []
    for each, own in zip(predicted.layers, layers, strict=True):
        change = about.network.layer(own.name).weight.detach().cpu().flatten(1) - own.pruned
        step, kept = step_size(integers(own.code).step), int(own.pruned.count_nonzero())
        norm = matrix_spectral_norm(change).value
        measured.append(replace(each, step=step, nonzeros=kept, change=norm))
    return replace(predicted, layers=tuple(measured))


def _theorems(
    about: Subject,
    measured: Measured,
    found: PruningFacts,
    g: nn.Module,
    rows: Sequence[Row],
    gaussian: Sequence[Row],
) -> list[PublishedValue | Refused]:
    """Theorem 5.2 in its forms, theorem 6.2, and the five older bounds; of a chain of layers alone."""
    if measured.obstacle:
        return [Refused("G-Thm5.2", "Guha 5.2: sketching", "risk", "g", measured.obstacle)]
    facts, missing = measured.facts, [row["layer"] for row in rows if not row["exact"]]
    # Gaussian weights exceed the distance one time in a hundred: that refutes them, and nothing proves them
    far = [row["layer"] for row in gaussian if row["distance"] > row["usual_distance"]]
    words = f"not {', '.join(far)}, by the test of Kolmogorov and Smirnov" if far else "not refuted"
    recovery = "every layer comes back from its sketch, as theorem 5.1 says"
    tested = (
        Hypothesis(recovery, not missing, f"not {', '.join(missing)}" if missing else "with proof"),
        Hypothesis(GAUSSIAN, False if far else None, words),
    )

    def risk(layers: PruningFacts) -> PublishedValue:
        value = sketching.sketching_risk(facts, pruning=layers)
        others = [each for each in value.hypotheses if each.statement != GAUSSIAN]
        return replace(value, hypotheses=(*others, *tested))

    pairs = found.beside(facts)
    kept = tuple(replace(own, kept_share=own.nonzeros / layer.weights) for layer, own in pairs)
    at_kept = risk(replace(found, layers=kept))
    distance = closeness(about.f, g, about.sample.on("cpu")).largest
    return [
        risk(found),
        replace(at_kept, name=f"{at_kept.name}, at the share that was kept"),
        sketching.naive_risk(facts, pruning=found),
        sketching.sparsity_failure(facts, pruning=found),
        lottery.ticket_risk(facts, step=max(layer.step for layer in found.layers), distance=distance),
        *literature(facts),
        parameter_counting(facts),
    ]


def _gaussian_row(name: str, matrix: Tensor, strengths: Sequence[float]) -> Row:
    """Assumption 3.1: distance from a Gaussian law, kurtosis, kept share against chi."""
    shape = weight_shape(matrix)
    return {
        "layer": name,
        "distance": shape.distance,
        "usual_distance": shape.usual_distance,
        "excess_kurtosis": shape.excess_kurtosis,
        "kept": {f"{d:.4g}": magnitude.mean_kept_share(matrix, strength=d) for d in strengths},
        "chi": {f"{d:.4g}": kept_share(d) for d in strengths},
    }


def _bounds(about: Subject, f: nn.Module, d: float, chosen: _Settings) -> Row:
    """Decimal logarithms of the bounds on another network, pruned as g is but not trained, and its errors."""
    other = replace(about, f=f, by_epoch={})
    if chosen.prune in _TRAINED:
        chosen = chosen._replace(prune="magnitude")
    measured, values = other.measure("margins", "norms"), list[PublishedValue]()
    if not measured.obstacle:
        layers = _layers(other, chosen, d, is_sketched=False)
        found = _pruning_facts(other, measured.facts, layers, d, chosen)
        values = [sketching.sketching_risk(measured.facts, pruning=found), *literature(measured.facts)]
    return {
        "log10": {each.name: finite(each.log10) for each in values},
        **dict(zip(("error", "test_error"), about.errors(f), strict=True)),
        "smallest_margin": measured.margins.minimum,
    }


def _tables(
    rows: Sequence[Row], constants: Mapping[str, float], points: Sequence[Row], gaussian: Sequence[Row]
) -> Iterator[Table]:
    numbers = {"numbers / weights": "where every recovered layer is its sketch, any other its weights."}
    yield make_table("Working range: does g still work where its sketches do?", points, _WORKING, **numbers)
    legend = {
        "m": "of the sketch A X B^T; the columns of A and B, whose seeds are in result.json, have few ones.",
        "sketch": "bits of a sketch from which the layer comes back, with proof that it is the only one.",
        "coded": "bits of the shortest code of the layer, which the certificate pays for.",
    }
    layers = [{**row, "bits_sketch": row["bits_sketch"] or "-"} for row in rows]
    yield make_table("g, layer by layer, in bits", layers, _SIZES, **legend)
    values = [{"constant": name, "value": value} for name, value in constants.items()]
    yield make_table("Constants of theorem 5.2", values, {"constant": "constant", "value": "value|.4g"})
    here = f"{constants['d']:.4g}"
    shares = [{**row, "share": row["kept"][here], "expected": row["chi"][here]} for row in gaussian]
    legend = {
        "distance": "of Kolmogorov and Smirnov, from the Gaussian law of the same variance.",
        "of Gaussian weights": "that they exceed one time in a hundred.",
        "excess kurtosis": "0 for a Gaussian law, more for heavier tails.",
        "kept": "by algorithm 1 at the d of g, on average; chi of Gaussian weights.",
    }
    yield make_table("Assumption 3.1: are the weights Gaussian?", shares, _SHAPE, **legend)


def _drawings(
    name: str, points: Sequence[Row], over_epochs: Sequence[Row], over_widths: Sequence[Row], d: float
) -> Iterator[Drawing]:
    shares = [
        {
            "d": point["d"],
            "accuracy, sample": 1.0 - point["error"],
            "accuracy, test": None if point["test_error"] is None else 1.0 - point["test_error"],
            "layers recovered": point["recovered"] / point["layers"],
        }
        for point in points
    ]
    lines = curves(shares, "d", {each: each for each in shares[0] if each != "d"})
    yield from make_figure(
        "Working range",
        "Accuracy of g and the share of its layers that come back from their sketches. The scheme works "
        "where both are high.",
        Plot("", "strength of pruning, d", "share", [*lines, Series("d of g", [d, d], [0.0, 1.0], "dashed")],
             x_scale="log"),
    )  # fmt: skip
    (true,) = curves(over_epochs, "epoch", {"test_error": "test error"})
    bounds = [{"epoch": row["epoch"], "log10": row["log10"].get(name)} for row in over_epochs]
    (bound,) = curves(bounds, "epoch", {"log10": name})
    values = [10.0**each for each in bound.y]
    if true.y and len(values) > 1:
        low, high, least, most = min(true.y), max(true.y), min(values), max(values)
        scaled = [low + (v - least) / (most - least or 1.0) * (high - low) for v in values]
        yield from make_figure(
            "Figure 2: over the training",
            f"Theorem 5.2 and the test error of f. The bound, {least:.3g} to {most:.3g}, is stretched "
            "to the range of the error, as in the paper; where f has no margin it is infinite and not drawn.",
            Plot("", "epoch", "error rate", [true, replace(bound, y=scaled)]),
        )
    flat = [{"width": row["width"], **row["log10"]} for row in over_widths]
    names = {each: each for each in flat[0] if each != "width"} if flat else {}
    yield from make_figure(
        "Figure 1 (c): against width",
        "Decimal logarithms of the bounds on networks of other widths, trained alike.",
        Plot("", "width", "decimal logarithm", curves(flat, "width", names, "line"), headroom=0.5),
    )


def _parts(prune: Pruning, d: float, levels: int) -> tuple[tuple[str, str], ...]:
    is_random, density = prune == "algorithm1", f"{kept_share(d):.6g}"
    setting = f"strength={d:.6g}" if is_random else f"density={density}"
    sketch = f"--strength {d:.6g}" if is_random else f"--keep {density}"
    return (
        ("compress", f"--method {_VERBS[prune]} --set {setting} --set levels={levels}"),
        ("sketch", f"{sketch} --levels {levels}"),
        ("compare", ""),
        ("plan", "--method mbp"),
    )
