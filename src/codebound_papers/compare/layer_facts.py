"""Norms of every layer, and its noise stability where that was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codebound.nets.layers import AbstractConvView
from codebound.nets.walk import activations
from codebound.progress import Progress, silent
from codebound_papers.facts import LayerFacts
from codebound_papers.measure.norms import frobenius_norm, l1_inf_norm, l2_1_norm
from codebound_papers.measure.spectral import matrix_spectral_norm, spectral_norm

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network
    from codebound_papers.measure.noise.result import Stability


def layer_facts(
    network: Network, example: Tensor, found: Stability | None, *, progress: Progress = silent
) -> tuple[LayerFacts, ...]:
    """The facts of every layer.

    Args:
        network: The network; batch norms that stay are no layers.
        example: An input, for the shapes.
        found: Noise stability, where it was measured.
        progress: Told the layers done.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for call in activations(network, example):
        shapes.setdefault(call.name, tuple(call.input.shape[1:]))
    rows = []
    for done, view in enumerate(network.layers, start=1):
        layer = _layer(view, shapes[view.name])
        rows.append(layer if found is None else with_stability(layer, found))
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


def with_stability(layer: LayerFacts, found: Stability) -> LayerFacts:
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
