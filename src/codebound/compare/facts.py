"""Measures what the published bounds need to know about a network and its sample.

Batch norms are folded into the layers before them. What does not apply to a network is kept as a reason, in
words: a residual network is no chain, so a product over its layers bounds nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.bounds.published import LayerFacts, NetworkFacts
from codebound.certificate.evaluate import TOLERANCE
from codebound.errors import CodeboundError, ModelError, UsageError
from codebound.facts import check_delta
from codebound.measure import (
    MarginReport,
    Smoothness,
    StabilityPlan,
    Workload,
    ambiguous_errors,
    frobenius_norm,
    l1_inf_norm,
    l2_1_norm,
    logit_chunks,
    margins,
    matrix_spectral_norm,
    spectral_norm,
    stability,
    workload,
)
from codebound.nets.fold import fold_batch_norms
from codebound.nets.kinds import SHAPE
from codebound.nets.layers import AbstractConvView
from codebound.nets.stages import stages
from codebound.nets.walk import Network, activations, wrap
from codebound.progress import Progress, silent
from codebound.rng import numpy_stream

if TYPE_CHECKING:
    from torch import Tensor, nn

    from codebound.data.dataset import Dataset, DeviceData
    from codebound.measure import Stability
    from codebound.nets.layers import AbstractLayerView

_LIGHT = 10**7  # multiplications of a forward pass up to which Jacobians between all pairs are measured
_PROBES = 64
_PIXELS = 16  # of every layer of a heavy network, as in the papers' figures
_NOISE, _DRAWS, _NOISY_EXAMPLES = 0.1, 5, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePlan:
    """What is measured of a network.

    Attributes:
        margin_share: Share of the sample whose margin may be at most gamma; 0 takes the smallest margin.
        examples: Examples for cushions, Jacobians and smoothness, drawn at random; all where there are fewer.
        delta: Failure probability that the bounds are asked for.
        chunk_size: Examples at a time; bounds the memory.
        device: Where the network runs.
        seed: Seed of the drawn examples, of probes, noise and pruning.
    """

    margin_share: float = 0.05
    examples: int = 1000
    delta: float = 0.05
    chunk_size: int = 256
    device: str = "cpu"
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.margin_share < 1.0:
            raise UsageError(
                f"the share of low margins, --margin-share, lies in [0, 1). Got {self.margin_share}."
            )
        if self.examples < 1:
            raise UsageError(f"--examples is at least 1. Got {self.examples}.")
        if self.chunk_size < 1:
            raise UsageError(f"chunk_size is at least 1. Got {self.chunk_size}.")
        check_delta(self.delta)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Measured:
    """What was measured of f.

    Attributes:
        network: f with its batch norms folded.
        facts: For the published expressions; cushions are None where they were not measured.
        margins: Of the whole sample.
        errors: Examples that are wrong, or too close to call in the arithmetic of the network.
        obstacle: Why expressions with a product over layers do not apply; empty where they do.
        stability: Noise stability on a part of the sample; None where it was not measured.
        unstable: Why it was not; empty where it was.
        notes: What a reader should know, in sentences.
    """

    network: Network
    facts: NetworkFacts
    margins: MarginReport
    errors: int
    obstacle: str
    stability: Stability | None
    unstable: str
    notes: tuple[str, ...]

    @property
    def chain(self) -> NetworkFacts:
        """The facts, for expressions with a product over layers.

        Raises:
            ModelError: The network is no chain of layers to which they apply.
        """
        if self.obstacle:
            raise ModelError(self.obstacle)
        return self.facts

    @property
    def least_margin(self) -> NetworkFacts:
        """The same with the smallest margin of the sample as gamma."""
        least = self.margins.minimum
        return replace(self.chain, margin=least, margin_loss=self.margins.loss(least))

    @property
    def stable(self) -> NetworkFacts:
        """The facts with all measures of noise stability.

        Raises:
            ModelError: They were not measured, or the network is no chain.
        """
        if self.unstable and not self.obstacle:
            raise ModelError(f"noise stability was not measured: {self.unstable}")
        return self.chain

    @property
    def from_initial(self) -> NetworkFacts:
        """The same with cushions relative to the distance from the initial weights (A-Imp-i).

        Raises:
            ModelError: The network before training is not known, or noise stability was not measured.
        """
        facts = self.stable
        assert self.stability is not None
        cushions = {row.layer: row.distance_cushion for row in self.stability.layers}
        if any(cushions.get(layer.name) is None for layer in facts.layers):
            raise ModelError("it needs the network before training: give its weights, --initial.")
        layers = tuple(replace(layer, cushion=cushions[layer.name]) for layer in facts.layers)
        return replace(facts, layers=layers)

    def without_outliers(self, share: float) -> NetworkFacts:
        """The same, measured on the best examples alone: a share of them is left out (A-Imp-ii)."""
        facts = self.stable
        assert self.stability is not None
        found = replace(self.stability, outliers=share)
        layers = tuple(_with_stability(layer, found) for layer in facts.layers)
        return replace(facts, layers=layers)


def measure_facts(
    model: nn.Module | Network,
    sample: Dataset,
    plan: MeasurePlan | None = None,
    *,
    initial: nn.Module | None = None,
    progress: Progress = silent,
) -> Measured:
    """Measures a network on a sample.

    Margins, input norms and output norms are those of the whole sample, in the arithmetic of the network;
    noise stability is that of a random part of it.

    Args:
        model: The network f, wrapped or not; never changed.
        sample: The sample it was trained on.
        plan: What to measure.
        initial: The network before training, for cushions relative to the distance from it.
        progress: Told what is done; its note says of what.

    Example:
        >>> from codebound.data import load_dataset
        >>> from codebound.nets import load_model
        >>> net = load_model("mlp:widths=16", input_shape=(1, 8, 8), classes=10)
        >>> measured = measure_facts(net, load_dataset("digits"), MeasurePlan(examples=20))
        >>> [(layer.rows, layer.columns) for layer in measured.facts.layers], measured.facts.examples
        ([(16, 64), (10, 16)], 1797)
    """
    plan = plan or MeasurePlan()
    module = model.model if isinstance(model, Network) else model
    folded, kept = _folded(module)
    example = _example(folded, sample)
    network = wrap(folded, example=example)
    if not network.layers:
        raise ModelError(f"{type(module).__name__} has no linear or convolutional layer: nothing to compare.")
    data = sample.on(plan.device)
    report, errors, largest_output = _outputs(folded, data, plan, classes=sample.classes, progress=progress)
    if report.non_finite:
        raise ModelError(
            f"the network's outputs are not finite on {report.non_finite} of {report.n} examples, so margins "
            "and bounds mean nothing. Check the weights, and that the data is scaled as in training."
        )
    gamma = report.quantile(plan.margin_share)
    found, rho, unstable = _stability(
        folded, sample, plan, initial=initial, work=workload(folded, example), progress=progress
    )
    facts = NetworkFacts(
        layers=_layers(network, example, found, progress),
        examples=sample.n,
        classes=sample.classes,
        margin=gamma,
        margin_loss=report.loss(gamma),
        input_norm=_input_norm(data, plan.chunk_size),
        input_size=math.prod(sample.input_shape),
        largest_output=largest_output,
        delta=plan.delta,
        parameters=sum(parameter.numel() for parameter in folded.parameters()),
        smoothness=rho,
    )
    return Measured(
        network=network,
        facts=facts,
        margins=report,
        errors=errors,
        obstacle=_obstacle(network),
        stability=found,
        unstable=unstable,
        notes=(*kept, *([] if found is None else [_how(found, plan)])),
    )


def _folded(model: nn.Module) -> tuple[nn.Module, list[str]]:
    """The network without batch norms, as far as they fold, and a sentence about it."""
    if not any(True for _ in model.parameters()):
        raise ModelError(f"{type(model).__name__} has no weights, so nothing to compare.")
    try:
        folding = fold_batch_norms(model)
    except ModelError as cause:
        return model, [f"Batch norms stay as they are: {cause}"]
    if not folding.folded:
        return folding.model, []
    count = len(folding.folded)
    return folding.model, [
        f"Batch norms are folded into the layer before ({count}); norms are of the result."
    ]


def _example(model: nn.Module, sample: Dataset) -> Tensor:
    """One input, in the arithmetic of the network."""
    weight = next(model.parameters())
    return sample.on(weight.device).batch(torch.arange(1), weight.dtype)[0]


def _outputs(
    model: nn.Module, data: DeviceData, plan: MeasurePlan, *, classes: int, progress: Progress
) -> tuple[MarginReport, int, float]:
    """The margins of the sample, its certified number of errors, and the largest norm of an output."""

    def told(done: int, total: int | None, note: str = "") -> None:
        progress(done, total, "margins")

    values, errors, largest = [], 0, 0.0
    dtype = next(model.parameters()).dtype
    for logits, labels in logit_chunks(model, data, chunk_size=plan.chunk_size, dtype=dtype, progress=told):
        if logits.shape[1] != classes:
            raise ModelError(f"the network has {logits.shape[1]} outputs, the sample {classes} classes.")
        values.append(margins(logits, labels).cpu().numpy())
        errors += int(ambiguous_errors(logits, labels, TOLERANCE).sum())
        largest = max(largest, float(torch.linalg.vector_norm(logits.double(), dim=1).max()))
    return MarginReport(np.concatenate(values)), errors, largest


def _input_norm(data: DeviceData, chunk_size: int) -> float:
    chunks = data.chunks(chunk_size, torch.float64)
    return max(float(torch.linalg.vector_norm(x.flatten(1), dim=1).max()) for x, _ in chunks)


def _stability(
    model: nn.Module,
    sample: Dataset,
    plan: MeasurePlan,
    *,
    initial: nn.Module | None,
    work: Workload,
    progress: Progress,
) -> tuple[Stability | None, float | None, str]:
    """Noise stability on a random part of the sample, smoothness on a smaller one, or why there is none."""

    def measured(count: int, settings: StabilityPlan, what: str) -> Stability:
        def told(done: int, total: int | None, note: str = "") -> None:
            progress(done, total, what)

        picked = numpy_stream(plan.seed, "compared examples").permutation(sample.n)[:count]
        part = sample.select(sorted(picked.tolist()), role=sample.role)
        chunk = min(64, plan.chunk_size)  # Jacobians take far more memory than outputs
        return stability(
            model, part, settings, initial=initial, chunk_size=chunk, device=plan.device, progress=told
        )

    is_light = work.multiplications <= _LIGHT
    jacobians = StabilityPlan(
        interlayer="all" if is_light else "output",
        probes=_PROBES if is_light else work.probes("output"),
        pixels=None if is_light else _PIXELS,
        seed=plan.seed,
    )
    noise = Smoothness(_NOISE, draws=_DRAWS, delta=plan.delta, seed=plan.seed)
    noisy = StabilityPlan(interlayer="none", smoothness=noise, seed=plan.seed)
    try:
        found = measured(plan.examples, jacobians, "noise stability")
        rho = measured(min(plan.examples, _NOISY_EXAMPLES), noisy, "smoothness").smoothness
    except CodeboundError as refusal:
        return None, None, str(refusal)
    return found, rho, ""


def _how(found: Stability, plan: MeasurePlan) -> str:
    """How noise stability was measured, in a sentence."""
    targets = {key.target for key in found.columns if key.quantity == "interlayer"}
    goal = "the output" if len(targets) < 2 else "all later layers"
    norms = "exact norms" if found.probes is None else f"norms by {found.probes} probes where they are large"
    noisy = min(found.n, _NOISY_EXAMPLES)
    return (
        f"Noise stability is that of {found.n:,} random examples, with Jacobians to {goal} and {norms}; "
        f"smoothness that of {noisy}, under {_DRAWS} draws of Gaussian noise {_NOISE} as long as an "
        f"activation. gamma leaves {plan.margin_share:.4g} of the sample below."
    )


def _layers(
    network: Network, example: Tensor, found: Stability | None, progress: Progress
) -> tuple[LayerFacts, ...]:
    shapes: dict[str, tuple[int, ...]] = {}
    for call in activations(network, example):
        shapes.setdefault(call.name, tuple(call.input.shape[1:]))
    rows = []
    for done, view in enumerate(network.layers, start=1):
        layer = _layer(view, shapes[view.name])
        rows.append(layer if found is None else _with_stability(layer, found))
        progress(done, len(network.layers), "norms")
    return tuple(rows)


def _layer(view: AbstractLayerView, shape: tuple[int, ...]) -> LayerFacts:
    """The norms of a layer."""
    matrix = view.matrix
    spectral = matrix_spectral_norm(matrix).value
    is_conv = isinstance(view, AbstractConvView)
    rows, columns = matrix.shape
    return LayerFacts(
        name=view.name,
        rows=rows,
        columns=columns,
        frobenius=frobenius_norm(matrix),
        spectral=spectral,
        operator_norm=spectral_norm(view, shape).value if is_conv else spectral,
        l2_1=l2_1_norm(matrix),
        l1_inf=l1_inf_norm(matrix),
        variance=float(matrix.detach().double().var(correction=0)),
        patch=_patch(view) if isinstance(view, AbstractConvView) else None,
    )


def _with_stability(layer: LayerFacts, found: Stability) -> LayerFacts:
    """The layer with its measures of noise stability, if it has any."""
    for row in found.layers:
        if row.layer == layer.name:
            return replace(
                layer,
                cushion=row.cushion,
                interlayer_cushion=row.minimal_interlayer,
                contraction=row.contraction,
                spread=row.spread,
            )
    return layer


def _patch(view: AbstractConvView) -> int:
    """``ceil(kappa / s)``, the largest over the axes."""
    return max(-(-kappa // s) for kappa, s in zip(view.kernel, view.stride, strict=True))


def _obstacle(network: Network) -> str:
    """Why a product of norms over the layers does not bound this network; empty where it does."""
    name = type(network.model).__name__
    if network.graph is None:
        return f"it is unknown whether {name} is a chain of layers: {network.untraceable}."
    if network.shared:
        shared = ", ".join(network.shared)
        return f"{name} calls {shared} more than once; the bounds have one matrix per layer."
    try:
        steps = stages(network)
    except ModelError as refusal:
        return str(refusal)
    if not steps.is_chain:
        return (
            f"{name} is no chain: a step uses an earlier output again, as residual blocks do, so a product "
            "over the layers does not describe it."
        )
    for stage in steps.stages:
        known = stage.kind.lipschitz is not None and stage.kind.homogeneous
        if stage.view is None and stage.kind != SHAPE and not known:
            return (
                f"step {stage.name} ({stage.kind.name}) is not known to be Lipschitz and homogeneous, as "
                "ReLU and max pooling are, and the bounds are about such networks."
            )
    return ""
