"""Chains of a common pattern, named as a point of a grid (docs/format.md, section 5.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .chain import Chain, fit
from .operations import Operation

if TYPE_CHECKING:
    from ..arithmetic import Decoder
    from .tensors import Shape

WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128)  # of the first stage
KERNELS = (1, 3, 5)
POOLS = ((), (Operation("max pool", kernel=2),), (Operation("average pool", kernel=2),))  # after a stage
ENDS = (
    (),
    (Operation("average pool", kernel=2),),
    (Operation("average pool", kernel=4),),
    (Operation("global average pool"),),
)


def read_stack(decoder: Decoder, input_shape: Shape, classes: int) -> Chain:
    """The chain that the message names."""
    operations: list[Operation] = []
    if views := decoder.uniform(16):
        operations.append(Operation("views", views=views))
    if table := decoder.uniform(8):
        operations.append(Operation("dictionary", table=table, pool=decoder.uniform(4) + 1))
    stages = decoder.uniform(4) + 1
    width = WIDTHS[decoder.uniform(len(WIDTHS))]
    for stage in range(stages):
        if stage > 0:
            width = (width << decoder.uniform(3)) // 2
        count, kernel = decoder.uniform(3) + 1, KERNELS[decoder.uniform(len(KERNELS))]
        operations += [Operation("normalised conv", out=width, kernel=kernel)] * count
        operations += POOLS[decoder.uniform(len(POOLS))]
    operations += ENDS[decoder.uniform(len(ENDS))]
    operations.append(Operation("linear", out=classes))
    return fit(operations, input_shape, classes)
