"""What the theorems are told about a network: terms, margins, noise stability and the plan behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from codebound.errors import ModelError, UsageError
from codebound.nets.fold import fold_batch_norms
from codebound.nets.layers import AbstractConvView
from codebound.nets.steps import steps_of
from codebound.nets.walk import Network, wrap
from codebound.progress import Progress, silent
from codebound.scores import MarginReport, logit_chunks, margins
from codebound_papers.arora18.projection_plan import (
    LayerStability,
    PlanSetting,
    ProjectionPlan,
    epsilon_for_margin,
    plan_projection,
)
from codebound_papers.measure.noise.meter import StabilityPlan, stability
from codebound_papers.measure.noise.smoothness import Smoothness

if TYPE_CHECKING:
    from codebound.data.dataset import DeviceData
    from codebound.nets.layers import AbstractLayerView
    from codebound_papers.measure.noise.result import Stability

_NO_CHAIN = (
    "The network is no chain of layers, and the theorem is about chains: its numbers are for the record."
)
_FILTERS = (
    "For a convolution all norms are those of its matrix of filters, not of the map between images: the "
    "theorem is about fully connected layers."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Under what terms a theorem is to hold.

    Attributes:
        examples: Size of the whole sample, of which the measured one may be a part.
        delta: Failure probability of all random choices of the compression.
        margin_share: Share of the examples that may have less than the margin; it sets the margin.
        stability: How noise stability is measured.
        seed: Names the draws of pruning, and the weights that a tail is fitted to.
        chunk_size: Examples at a time; bounds the memory.
    """

    examples: int
    delta: float = 0.05
    margin_share: float = 0.1
    stability: StabilityPlan = field(
        default_factory=lambda: StabilityPlan(smoothness=Smoothness(0.1, draws=5))
    )
    seed: int = 0
    chunk_size: int = 64

    def __post_init__(self) -> None:
        if not (0.0 < self.delta < 1.0 and 0.0 < self.margin_share < 1.0) or self.examples < 1:
            raise UsageError(
                "delta and the share of examples below the margin lie in (0, 1), and there is at least one "
                f"example. Got {self.delta}, {self.margin_share} and {self.examples}."
            )


@dataclass(frozen=True, slots=True)
class Margin:
    """The margin that a theorem is told, and what it is compared with.

    Attributes:
        gamma: The margin.
        share: Share of the examples that do not exceed it.
        error: Share of the examples that are wrong.
        largest_output: ``max ||f(x)||``.
        largest_input: ``max ||x||``.
        measured: Examples that were measured.
    """

    gamma: float
    share: float
    error: float
    largest_output: float
    largest_input: float
    measured: int

    @property
    def epsilon(self) -> float:
        """By how much of their norm the outputs may move (A-Lem10)."""
        return epsilon_for_margin(self.gamma, largest_output=self.largest_output)


@dataclass(frozen=True, eq=False)
class PlannedStability:
    """Measured noise stability, and the plan of A-Lem3, A-Lem10 and A-Lem14 that follows from it.

    Attributes:
        stability: What was measured.
        margin: Margins, outputs and inputs.
        layers: What the plan is told, in forward order.
        setting: The rest of what it is told.
        plan: Accuracy and counts of every layer.
        notes: What a reader should know, in sentences.
    """

    stability: Stability
    margin: Margin
    layers: tuple[LayerStability, ...]
    setting: PlanSetting
    plan: ProjectionPlan
    notes: tuple[str, ...]


def planned_stability(
    network: Network, sample: DeviceData, terms: Terms, *, progress: Progress = silent
) -> PlannedStability:
    """Measures a network without batch norms and plans its projection."""
    margin = measured_margin(network, sample, terms)
    measured = stability(network, sample, terms.stability, chunk_size=terms.chunk_size, progress=progress)
    views = {view.name: view for view in network.layers}
    layers = []
    for row in measured.layers:
        if row.cushion is None or row.layer not in views:
            continue  # a sum of branches
        if min(row.cushion, row.minimal_interlayer) == 0.0:
            raise ModelError(
                f"layer {row.layer} or those behind it map some example to zero, so a cushion is 0 and the "
                "theorem asks for infinitely many numbers. Check the weights, and how the data is scaled."
            )
        layers.append(
            LayerStability(
                name=row.layer,
                weights=views[row.layer].weight.numel(),
                cushion=row.cushion,
                interlayer_cushion=row.minimal_interlayer,
                patch=_patch(views[row.layer]),
            )
        )
    setting = PlanSetting(
        contraction=max(1.0, measured.contraction or 1.0),
        epsilon=margin.epsilon,
        delta=terms.delta,
        examples=terms.examples,
        width=max(row.width for row in measured.layers),
    )
    plan = plan_projection(layers, setting, spread=max(1.0, measured.spread or 1.0))
    return PlannedStability(measured, margin, tuple(layers), setting, plan, chain_notes(network))


def _patch(view: AbstractLayerView) -> int | None:
    """``ceil(kappa / s)`` of a convolution."""
    if not isinstance(view, AbstractConvView):
        return None
    return max(-(-kernel // stride) for kernel, stride in zip(view.kernel, view.stride, strict=True))


def folded(network: Network) -> Network:
    """A copy without batch norms, in which every layer is called once."""
    if network.shared:
        raise ModelError(
            f"layer {network.shared[0]} is called more than once, and the theorems have one matrix per step."
        )
    return wrap(fold_batch_norms(network.model, strict=True).model)


@torch.no_grad()
def measured_margin(network: Network, sample: DeviceData, terms: Terms) -> Margin:
    """The margin that the terms allow; refused where it is not positive."""
    found, largest = [], 0.0
    for logits, labels in logit_chunks(network.model, sample, chunk_size=terms.chunk_size):
        found.append(margins(logits, labels).cpu())
        largest = max(largest, float(torch.linalg.vector_norm(logits, dim=1).max()))
    report = MarginReport(torch.cat(found).numpy())
    gamma = report.quantile(terms.margin_share)
    if not gamma > 0.0:
        raise UsageError(
            f"the margin that {terms.margin_share:.1%} of the examples do not exceed is {gamma:.3g}, and a "
            f"theorem needs a positive one. The network is wrong on {report.loss():.1%}: let a larger share "
            "of the examples miss the margin, or train it further."
        )
    longest = max(
        float(torch.linalg.vector_norm(x.flatten(1), dim=1).max())
        for x, _ in sample.chunks(terms.chunk_size, torch.float64)
    )
    return Margin(gamma, report.loss(gamma), report.loss(), largest, longest, report.n)


def chain_notes(network: Network) -> tuple[str, ...]:
    """A sentence where the network is not what the theorems are about."""
    return () if steps_of(network).is_chain else (_NO_CHAIN,)


def filter_notes(network: Network) -> tuple[str, ...]:
    """A sentence where a theorem on fully connected layers is told the filters of convolutions."""
    return (_FILTERS,) if any(isinstance(view, AbstractConvView) for view in network.layers) else ()


def has_biases(network: Network) -> bool:
    """Whether some layer has a bias."""
    return any(view.bias is not None for view in network.layers)
