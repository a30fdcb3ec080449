"""How far a compressed network is from the original: measured on a sample, and bounded through its layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from codebound.bounds.original import LayerBounds, output_deviation
from codebound.errors import ModelError, UsageError
from codebound.nets.kinds import SHAPE
from codebound.progress import Progress, silent
from codebound.refs import implements
from codebound.scores import logit_chunks
from codebound_papers.measure.spectral import spectral_norm
from codebound_papers.measure.steps import activations, steps_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codebound.data.dataset import DeviceData
    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network
    from codebound_papers.compress.compressors import CompressedNetwork

_OUTWARD = 1.0 + 1e-12


@implements("G-LemB.2", "G-E5", "A-Lem9", "S-Lem2.4", "I-10", kind="certificate")
def exponential_deviation(layers: Sequence[LayerBounds], *, input_norm: float) -> float:
    r"""The e-form of the deviation: :math:`e \|x\| \prod_l L_l \|A^l\| \sum_l \|U^l\| / \|A^l\|`.

    Differs.    G prints the input dimension where the proof has the norm of x (G-E5).
    Needs.      No biases, and :math:`\|U^l\| \le \|A^l\| / L` in every layer. ``output_deviation`` is never
                larger and needs neither.
    Checked by. property (actual <= recursion <= e-form).

    Raises:
        UsageError: A condition fails; names the first layer where it does.

    Example:
        >>> layer = LayerBounds(weight=2.0, weight_change=0.5)
        >>> round(exponential_deviation([layer, layer], input_norm=1.0), 3)
        5.437
    """
    for number, layer in enumerate(layers, start=1):
        if layer.bias > 0.0 or layer.bias_change > 0.0:
            raise UsageError(f"layer {number} has a bias, and the e-form is proved without.")
        if layer.weight_change * len(layers) > layer.weight:
            raise UsageError(
                f"layer {number} changes by {layer.weight_change:.3g}, more than its norm {layer.weight:.3g} "
                f"over the number of layers, {len(layers)}."
            )
    product = math.prod(layer.lipschitz * layer.weight for layer in layers)
    changes = sum(layer.weight_change / layer.weight for layer in layers if layer.weight > 0.0)
    return math.e * input_norm * product * changes * _OUTWARD


@dataclass(frozen=True, slots=True)
class LayerChange:
    """Spectral norms of one call of a layer, as the linear map that it applies.

    Attributes:
        name: The layer.
        weight: Norm of the original map, bounded from above.
        change: Norm of the change, bounded from above.
        predicted: What the compressor's theorem predicts for the change of the *matrix*, if it does.
    """

    name: str
    weight: float
    change: float
    predicted: float | None


@dataclass(frozen=True, slots=True)
class NetworkDeviation:
    """How far g is from f.

    Attributes:
        layers: The calls of layers, in forward order.
        largest: Largest ``||f(x) - g(x)||_2`` over the sample.
        mean: Its mean.
        recursion: Bound on it through the norms of the layers (G-LemB.2x), for inputs as long as the longest
            one of the sample; None where the network is no chain of known steps.
        e_form: The weaker bound G-LemB.2; None where it does not apply.
        reason: Why a bound is missing; empty when none is.
    """

    layers: tuple[LayerChange, ...]
    largest: float
    mean: float
    recursion: float | None
    e_form: float | None
    reason: str


def deviation(
    compressed: CompressedNetwork, sample: DeviceData, *, chunk_size: int = 512, progress: Progress = silent
) -> NetworkDeviation:
    """Measures the deviation of g from f on a sample and bounds it through the changes of the layers.

    Args:
        compressed: f and the codes that make g.
        sample: Inputs; labels are not used.
        chunk_size: Inputs at a time.
        progress: Told the inputs done.
    """
    network = compressed.network
    pairs = zip(
        logit_chunks(network.model, sample, chunk_size=chunk_size, progress=progress),
        logit_chunks(compressed.module(), sample, chunk_size=chunk_size),
        strict=True,
    )
    lengths = torch.cat([torch.linalg.vector_norm(f - g, dim=1) for (f, _), (g, _) in pairs])
    x_norm = max(
        float(torch.linalg.vector_norm(x.flatten(1), dim=1).max())
        for x, _ in sample.chunks(chunk_size, torch.float64)
    )
    bounds = _layer_bounds(compressed, sample)
    recursion = e_form = None
    reason = ""
    try:
        chain, after = _chain(network, [bound for _, bound in bounds])
        recursion = output_deviation(chain, input_norm=x_norm * _OUTWARD) * after * _OUTWARD
        e_form = exponential_deviation(chain, input_norm=x_norm * _OUTWARD) * after * _OUTWARD
    except (ModelError, UsageError) as refusal:
        reason = str(refusal)
    predicted = {layer.name: layer.predicted_error for layer in compressed.layers}
    return NetworkDeviation(
        layers=tuple(
            LayerChange(name, bound.weight, bound.weight_change, predicted.get(name))
            for name, bound in bounds
        ),
        largest=float(lengths.max()),
        mean=float(lengths.mean()),
        recursion=recursion,
        e_form=e_form,
        reason=reason,
    )


def _layer_bounds(compressed: CompressedNetwork, sample: DeviceData) -> list[tuple[str, LayerBounds]]:
    """Norms of every call of a layer, in the order of the calls."""
    network = compressed.network
    weights = {layer.name: layer.weight for layer in compressed.layers}
    like = network.layers[0].weight
    x, _ = next(sample.chunks(1, like.dtype))
    bounds = []
    for call in activations(network, x.to(like.device)):
        view = network.layer(call.name)
        shape = tuple(call.input.shape[1:])
        change = 0.0
        if view.name in weights:
            difference = weights[view.name].to(like.device).double() - view.weight.double()
            change = _norm(replace(view, weight=difference), shape)
        bias = 0.0
        if view.bias is not None:  # it is added at every pixel
            copies = call.output[0].numel() / view.bias.numel()
            bias = float(view.bias.double().norm()) * math.sqrt(copies) * _OUTWARD
        weight = _norm(view, shape)
        bounds.append((view.name, LayerBounds(weight=weight, weight_change=change, bias=bias)))
    return bounds


def _norm(view: AbstractLayerView, shape: tuple[int, ...]) -> float:
    return spectral_norm(replace(view, weight=view.weight.double(), bias=None), shape).upper


def _chain(network: Network, bounds: list[LayerBounds]) -> tuple[list[LayerBounds], float]:
    """The layers with the Lipschitz constants in front of them, and the constant behind the last one."""
    steps = steps_of(network)
    if not steps.is_chain:
        raise ModelError(
            f"{type(network.model).__name__} is no chain: some step uses an earlier output again."
        )
    factors = [1.0]
    for step in steps.sequence:
        if step.view is not None:
            factors.append(1.0)
        elif step.kind != SHAPE:
            if step.kind.lipschitz is None or not step.kind.homogeneous:
                raise ModelError(
                    f"step {step.name} ({step.kind.name}) is not known to be Lipschitz with value 0 at 0. "
                    "Fold batch norms first, with codebound.nets.fold.fold_batch_norms."
                )
            factors[-1] *= step.kind.lipschitz
    return [
        replace(bound, lipschitz=factor) for bound, factor in zip(bounds, factors[:-1], strict=True)
    ], factors[-1]
