"""Hidden units of a chain: dropping the small ones, and the dead ones at no cost."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from codebound_networks.chains.chain import Chain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor


def without_biases(chain: Chain) -> Chain:
    """The same operations, none of them with a bias."""
    operations = (operation.with_field("bias", False) for operation in chain.operations)
    return Chain(chain.input_shape, tuple(operations))


def rescaled(weight: Tensor) -> Tensor:
    """The weight at the scale of a fresh ReLU layer: a chain without biases classifies alike at every scale,
    and learning rates suit that one."""
    rms = weight.square().mean().sqrt().clamp(min=1e-12)
    return weight * (math.sqrt(2.0 / weight[0].numel()) / rms)


def narrowed(chain: Chain, tensors: Mapping[str, Tensor], width: int) -> tuple[Chain, dict[str, Tensor]]:
    """Keeps at most ``width`` units of every hidden layer: those whose weights, in and out, are largest."""
    narrow = dict(tensors)
    for position, later in _joints(chain):
        rows, columns = narrow[f"{position}.weight"], narrow[f"{later}.weight"]
        if len(rows) <= width:
            continue
        entering = rows.flatten(1).norm(dim=1)
        leaving = columns.reshape(len(columns), len(rows), -1).norm(dim=(0, 2))
        is_kept = torch.zeros(len(rows), dtype=torch.bool)
        is_kept[(entering * leaving).topk(width).indices] = True
        chain = _keep_units(chain, narrow, position, later, is_kept)
    return chain, narrow


def without_dead_units(chain: Chain, tensors: Mapping[str, Tensor]) -> tuple[Chain, dict[str, Tensor]]:
    """Removes hidden units that nothing enters or nothing leaves from a chain without biases.

    Such a unit is always zero, or never read, so the function stays the same.
    """
    alive = dict(tensors)
    changed = True
    while changed:
        changed = False
        for position, later in _joints(chain):
            rows, columns = alive[f"{position}.weight"], alive[f"{later}.weight"]
            is_read = columns.reshape(len(columns), len(rows), -1).any(dim=2).any(dim=0)
            is_alive = rows.flatten(1).any(dim=1) & is_read
            if is_alive.any() and not is_alive.all():
                chain = _keep_units(chain, alive, position, later, is_alive)
                changed = True
    return chain, alive


def _joints(chain: Chain) -> list[tuple[int, int]]:
    """Pairs of a layer and the layer that alone reads its units."""
    layers = sorted({int(name.split(".")[0]) for name in chain.tensor_shapes()})
    return [
        (first, second)
        for first, second in pairwise(layers)
        if chain.operations[first].drops_units and chain.operations[second].reads_units
    ]


def _keep_units(
    chain: Chain, tensors: dict[str, Tensor], position: int, later: int, is_kept: Tensor
) -> Chain:
    """Drops units of a layer and what reads them, in place. Returns the narrower chain."""
    rows, columns = tensors[f"{position}.weight"], tensors[f"{later}.weight"]
    group = columns.shape[1] // len(rows)  # a linear layer reads every pixel of a channel
    tensors[f"{position}.weight"] = rows[is_kept]
    tensors[f"{later}.weight"] = columns[:, is_kept.repeat_interleave(group)]
    if f"{position}.bias" in tensors:
        tensors[f"{position}.bias"] = tensors[f"{position}.bias"][is_kept]
    operations = list(chain.operations)
    operations[position] = operations[position].with_field("out", int(is_kept.sum()))
    return Chain(chain.input_shape, tuple(operations))
