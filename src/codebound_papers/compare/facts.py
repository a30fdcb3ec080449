"""Measures what the published bounds need to know about a network and its sample.

Batch norms are folded into the layers before them. What does not apply to a network is kept as a reason, in
words: a residual network is no chain, so a product over its layers bounds nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from codebound.errors import CodeboundError, ModelError, UsageError
from codebound.facts import check_delta
from codebound.nets.fold import fold_batch_norms
from codebound.nets.walk import Network, wrap
from codebound.progress import Progress, silent
from codebound_papers.compare.layer_facts import layer_facts, with_stability
from codebound_papers.compare.noise import described, noise_stability
from codebound_papers.compare.outputs import outputs
from codebound_papers.compare.products import expansions, obstacle
from codebound_papers.facts import NetworkFacts
from codebound_papers.measure.summary import workload

if TYPE_CHECKING:
    from torch import Tensor, nn

    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine
    from codebound.scores import MarginReport
    from codebound_papers.measure.noise.result import Stability


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
                f"the share of low margins, margin_share, lies in [0, 1). Got {self.margin_share}."
            )
        if self.examples < 1:
            raise UsageError(f"examples is at least 1. Got {self.examples}.")
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
        stability: Noise stability of a chain on a part of the sample; None where it was not measured.
        unstable: Why that of a chain was not; empty where it was.
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
        facts = self.chain
        if self.unstable:
            raise ModelError(f"noise stability was not measured: {self.unstable}")
        return facts

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
            raise ModelError("it needs the network before training: give its initial weights.")
        layers = tuple(replace(layer, cushion=cushions[layer.name]) for layer in facts.layers)
        return replace(facts, layers=layers)

    def without_outliers(self, share: float) -> NetworkFacts:
        """The same, measured on the best examples alone: a share of them is left out (A-Imp-ii)."""
        facts = self.stable
        assert self.stability is not None
        found = replace(self.stability, outliers=share)
        layers = tuple(with_stability(layer, found) for layer in facts.layers)
        return replace(facts, layers=layers)


def measure_facts(
    model: nn.Module | Network,
    sample: Dataset,
    plan: MeasurePlan | None = None,
    *,
    initial: nn.Module | None = None,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Measured:
    """Measures a network on a sample.

    Margins, input norms and output norms are those of the whole sample, in the arithmetic of the network;
    noise stability is that of a random part of it, and of chains alone.

    Args:
        model: The network f, wrapped or not; never changed.
        sample: The sample it was trained on.
        plan: What to measure.
        initial: The network before training, for cushions relative to the distance from it.
        engine: Where to work, one part of the sample on each of its workers; None: here. Parts are whole
            chunks, so the result is the same.
        progress: Told what is done; its note says of what.

    Example:
        >>> from codebound.data.load import load_dataset
        >>> from codebound.nets.loading import load_model
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

    def told(done: int, total: int | None, note: str = "") -> None:
        progress(done, total, "margins")

    seen = outputs(
        folded,
        sample.on(plan.device),
        classes=sample.classes,
        chunk_size=plan.chunk_size,
        engine=engine,
        progress=told,
    )
    report = seen.margins
    if report.non_finite:
        raise ModelError(
            f"the network's outputs are not finite on {report.non_finite} of {report.n} examples, so margins "
            "and bounds mean nothing. Check the weights, and that the data is scaled as in training."
        )
    gamma = report.quantile(plan.margin_share)
    no_chain = obstacle(network)
    found, rho, unstable = None, None, ""
    if not no_chain:  # all that would use noise stability is about chains
        try:
            found, rho = noise_stability(
                folded,
                sample,
                plan,
                initial=initial,
                work=workload(folded, example),
                engine=engine,
                progress=progress,
            )
        except CodeboundError as refusal:
            unstable = str(refusal)
    facts = NetworkFacts(
        layers=layer_facts(network, example, found, progress=progress),
        examples=sample.n,
        classes=sample.classes,
        margin=gamma,
        margin_loss=report.loss(gamma),
        input_norm=seen.input_norm,
        input_size=math.prod(sample.input_shape),
        largest_output=seen.output_norm,
        delta=plan.delta,
        parameters=sum(parameter.numel() for parameter in folded.parameters()),
        smoothness=rho,
    )
    return Measured(
        network=network,
        facts=facts,
        margins=report,
        errors=seen.errors,
        obstacle=no_chain,
        stability=found,
        unstable=unstable,
        notes=(
            *kept,
            *([] if no_chain else _expansion_notes(network)),
            _margin_note(report, gamma),
            *([] if found is None else [described(found)]),
        ),
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


def _margin_note(report: MarginReport, gamma: float) -> str:
    return (
        f"gamma, the margin in the bounds, is {gamma:.4g}: {report.count(gamma):,} of {report.n:,} examples "
        "have no larger one."
    )


def _expansion_notes(network: Network) -> list[str]:
    steps = expansions(network)
    if not steps:
        return []
    return [f"Products over layers leave out steps that can lengthen a difference: {', '.join(steps)}."]
