"""Distance to initialisation (Arora et al. 2018, section 4): code what training changed, not what it left."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from codebound.compress.base import AbstractCompressor, CompressedLayer
from codebound.errors import UnsupportedLayerError
from codebound.refs import implements

if TYPE_CHECKING:
    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network


@implements("A-Imp-i:code", kind="algorithm")
@dataclass(frozen=True)
class FromInitial(AbstractCompressor):
    """Any compressor, applied to ``A - A_0``: the code is of the difference, and the decoder adds ``A_0``.

    The initial network is a helper: it must have been fixed before the sample was seen. A layer that training
    moved less than its own size then costs less, or is met more closely.

    Attributes:
        algorithm: The compressor of the differences.
        initial: The network at initialisation, or any other base with the same layers.

    Example:
        >>> import torch
        >>> from codebound.compress.base import compress
        >>> from codebound.compress.project import MatrixProject
        >>> from codebound.nets import wrap
        >>> net = torch.nn.Sequential(torch.nn.Linear(32, 8))
        >>> g = compress(wrap(net), FromInitial(MatrixProject(count=9), wrap(net))).module()
        >>> bool((g[0].weight == net[0].weight).all())
        True
    """

    algorithm: AbstractCompressor
    initial: Network = field(repr=False)

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:  # noqa: D102
        base = next((view.weight for view in self.initial.layers if view.name == layer.name), None)
        if base is None or base.shape != layer.weight.shape or base.dtype != layer.weight.dtype:
            raise UnsupportedLayerError(
                f"layer {layer.name}: the initial network has no such layer of shape "
                f"{tuple(layer.weight.shape)} {layer.weight.dtype}."
            )
        change = layer.weight.detach() - base.to(layer.weight.device)
        found = self.algorithm.compress(replace(layer, weight=change), seed=seed)
        return replace(found, base=base.detach().cpu().numpy())
