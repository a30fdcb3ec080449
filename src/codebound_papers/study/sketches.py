"""A network g as Guha, Dubey and Huo make it: pruned, rounded, sketched and recovered; and its bounds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from codebound.run.errors import UsageError
from codebound.run.files import finite
from codebound.run.rng import torch_stream
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.modes import encode_tensors, integers
from codebound_networks.codes.quantization import nearest_step, quantize, step_for_levels, step_size
from codebound_networks.codes.tensors import AbstractTensorCode, matrix_shape
from codebound_papers.baselines import literature, parameter_counting
from codebound_papers.compress.compressors import Job, weight_of
from codebound_papers.facts import NetworkFacts
from codebound_papers.guha23 import lottery, magnitude, pruning, sketching
from codebound_papers.guha23.kappa import SLACK
from codebound_papers.guha23.masks import IterativePruning
from codebound_papers.guha23.pruning import GAUSSIAN, PruningFacts, kept_share
from codebound_papers.guha23.sketch.codec import Attempt, l1_solution, plain_bits, smallest_sketch
from codebound_papers.measure.proximity import closeness
from codebound_papers.measure.record import Measured
from codebound_papers.measure.shape import weight_shape
from codebound_papers.measure.spectral import matrix_spectral_norm
from codebound_papers.study.subjects import Subject
from codebound_papers.value import Hypothesis, PublishedValue, Refused

Pruning = Literal["algorithm1", "magnitude", "iterative"]
_ROUNDS, _STEPS = 3, 600  # of iterative pruning, and at least so many steps of each of its trainings
_BATCH = 128
_FINE = 4095  # levels of what is rounded again


@dataclass(frozen=True, eq=False)
class SketchSettings:
    """Options of the study."""

    prune: Pruning  # by algorithm 1, by magnitude, or in rounds with rewinding
    levels: int  # values that a weight can take, odd
    rho: float | None  # the step of rounding in place of levels, to the nearest that can be coded
    eps: float | None  # eps_l of all layers; None: four times their number
    lambda_: float | None  # lambda_l of all layers; likewise
    constant: float  # C of lemma 4.2

    def __post_init__(self) -> None:
        if self.prune not in get_args(Pruning):
            raise UsageError(f"pruning is by {', '.join(get_args(Pruning))}. Got {self.prune!r}.")
        for name in ("rho", "eps", "lambda_", "constant"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < math.inf:
                raise UsageError(f"{name.rstrip('_')} is a finite number above 0. Got {value}.")


@dataclass(frozen=True, eq=False)
class LayerOfG:
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


def _pruned(about: Subject, chosen: SketchSettings, d: float) -> dict[str, Tensor]:
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


def layers_of(about: Subject, chosen: SketchSettings, d: float) -> list[LayerOfG]:
    """Every layer pruned, rounded, sketched and recovered."""
    found = []
    for place, (name, weight) in enumerate(_pruned(about, chosen, d).items()):
        code = _rounded(weight, chosen)
        grid, exact = integers(code), torch.from_numpy(code.weights())
        attempt = smallest_sketch(grid.levels, step=grid.step, seed=100 * (about.seed + place))
        decoded, error = exact, 0.0
        if attempt.code is None and attempt.draft is not None:
            matrix = l1_solution(attempt.draft).value.double() * step_size(grid.step)
            decoded = matrix.to(exact.dtype).view(exact.shape)
            error = float((decoded - exact).double().norm() / exact.double().norm())
        original = about.network.layer(name).weight.detach().cpu().flatten(1)
        found.append(LayerOfG(name, original, weight.flatten(1), code, attempt, decoded, error))
    return found


def _rounded(weight: Tensor, chosen: SketchSettings) -> AbstractTensorCode:
    """A weight on a grid of so many levels, or with the step rho."""
    values = weight.detach().numpy()
    step = step_for_levels(values, chosen.levels) if chosen.rho is None else nearest_step(chosen.rho)
    return best_tensor_code(quantize(values, step), step=step)


def point_at(about: Subject, d: float, layers: Sequence[LayerOfG]) -> dict[str, Any]:
    """The working range at one strength."""
    g = about.build({layer.name: torch.from_numpy(layer.code.weights()) for layer in layers})
    numbers = sum(x.attempt.m1 * x.attempt.m2 if x.exact else x.pruned.numel() for x in layers)
    weights = sum(layer.pruned.numel() for layer in layers)
    error, test_error = about.errors(g)
    return {
        "d": d,
        "kept": sum(int(layer.pruned.count_nonzero()) for layer in layers) / weights,
        "error": error,
        "test_error": test_error,
        "recovered": sum(layer.exact for layer in layers),
        "layers": len(layers),
        "numbers": numbers / weights,
    }


def pruning_facts(
    facts: NetworkFacts, layers: Sequence[LayerOfG], d: float, chosen: SketchSettings
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


def theorems_of(
    about: Subject,
    measured: Measured,
    found: PruningFacts,
    g: nn.Module,
    layers: Sequence[LayerOfG],
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
        said(sketching.sketching_risk_by_proof(facts, pruning=found)),
        sketching.naive_risk(facts, pruning=found),
        sketching.sparsity_failure(facts, pruning=found),
        lottery.ticket_risk(facts, step=step, distance=distance),
        *literature(facts),
        parameter_counting(facts),
    ]


def assumption(about: Subject, strengths: Sequence[float]) -> list[dict[str, Any]]:
    """Assumption 3.1 on every layer: distance from a Gaussian law, kurtosis, kept share against chi."""
    rows = []
    for view in about.network.layers:
        shape, weights = weight_shape(view.matrix), view.matrix.detach().double()
        squares = weights.square() / weights.var(correction=0)
        kept = {f"{d:.4g}": float(-torch.expm1(-squares / d).mean()) for d in strengths}
        rows.append(
            {
                "layer": view.name,
                "distance": shape.distance,
                "usual_distance": shape.usual_distance,
                "excess_kurtosis": shape.excess_kurtosis,
                "kept": kept,
                "chi": {f"{d:.4g}": kept_share(d) for d in strengths},
            }
        )
    return rows


def _tested(gaussian: Sequence[Mapping[str, Any]]) -> Hypothesis:
    """Assumption 3.1, refuted by a distance that Gaussian weights hardly ever have; never proven."""
    far = [row["layer"] for row in gaussian if row["distance"] > row["usual_distance"]]
    found = f"not {', '.join(far)}, by the test of Kolmogorov and Smirnov" if far else "not refuted"
    return Hypothesis(GAUSSIAN, False if far else None, found)


def bounds_at(about: Subject, f: nn.Module, d: float, chosen: SketchSettings) -> dict[str, Any]:
    """Decimal logarithms of theorem 5.2 and of the older bounds on another network, with its errors.

    It is pruned as g is; without training, which would be one for every point.
    """
    other = replace(about, f=f, by_epoch={})
    if chosen.prune == "iterative":
        chosen = replace(chosen, prune="magnitude")
    measured = other.measured("margins", "norms")
    facts, layers = measured.facts, []
    for name, weight in _pruned(other, chosen, d).items():
        code = _rounded(weight, chosen)
        original = other.network.layer(name).weight.detach().cpu().flatten(1)
        layers.append(LayerOfG(name, original, weight.flatten(1), code, Attempt(0, 0, None), weight, 0.0))
    found = pruning_facts(facts, layers, d, chosen)
    values = [] if measured.obstacle else [sketching.sketching_risk(facts, pruning=found), *literature(facts)]
    error, test_error = about.errors(f)
    return {
        "log10": {each.name: finite(each.log10) for each in values},
        "error": error,
        "test_error": test_error,
        "smallest_margin": measured.margins.minimum,
    }
