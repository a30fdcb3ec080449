"""Small image networks that train well to few bits: fixed filters, then convolutions without scale or bias.

Nothing in them depends on the scale of a weight or on other examples, so coarse integers suffice and any
decoder computes the same function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from codebound.run.errors import ModelError
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import (
    AveragePool,
    Dictionary,
    Linear,
    MaxPool,
    NormalisedConv,
    Shifts,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from codebound_networks.chains.operations import AbstractOperation

LEAST_SIDE = 4
"""Least side of an image that these networks take."""
DICTIONARY_SIDE = 12
"""Least side of an image that the fixed filters make sense of."""


def image_chain(input_shape: tuple[int, ...], classes: int) -> Chain:
    """The architecture for images of this shape.

    >>> image_chain((1, 8, 8), 10).operations[:2]
    (NormalisedConv(out=16, kernel=3), MaxPool(kernel=2))
    """
    if len(input_shape) != 3 or min(input_shape[1:]) < LEAST_SIDE:
        raise ModelError(
            f"this network takes images of at least {LEAST_SIDE} x {LEAST_SIDE} pixels. "
            f"Got inputs of shape {input_shape}."
        )
    return Chain(tuple(input_shape), (*_operations(input_shape), Linear(classes, bias=False)))


def image_chains(
    input_shape: tuple[int, ...], classes: int, *, kinds: Sequence[int | None]
) -> tuple[Chain, ...]:
    """The architectures to compare on these images: for grey ones, with each kind of shifts, None for none.

    Grey images that are small are best seen whole through the fixed filters.

    >>> [chain.operations[0] for chain in image_chains((1, 28, 28), 10, kinds=(3, None))]
    [Shifts(kind=3), Dictionary(table=3, pool=2)]
    """
    chain = image_chain(input_shape, classes)
    if input_shape[0] != 1:
        return (chain,)
    *body, last = chain.operations
    if min(input_shape[1:]) < DICTIONARY_SIDE:
        body = [Dictionary(3, 2), NormalisedConv(24, 1)]
    shifts = ([] if kind is None else [Shifts(kind)] for kind in kinds)
    return tuple(Chain(chain.input_shape, (*front, *body, last)) for front in shifts)


def image_network(*, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """The same with random weights: the model ``few-bits``.

    >>> image_network(input_shape=(1, 28, 28), classes=10)(torch.rand(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    chain = image_chain(input_shape, classes)
    return chain.build(
        {
            name: torch.randn(shape) / torch.Size(shape[1:]).numel() ** 0.5
            for name, shape in chain.tensor_shapes().items()
        }
    )


def _operations(shape: tuple[int, ...]) -> tuple[AbstractOperation, ...]:
    if min(shape[1:]) < DICTIONARY_SIDE:
        return NormalisedConv(16, 3), MaxPool(2), NormalisedConv(32, 3), MaxPool(2)
    if shape[0] == 1:
        return Dictionary(3, 2), NormalisedConv(32, 3), MaxPool(2), NormalisedConv(64, 3), MaxPool(2)
    convolutions = (NormalisedConv(32, 3),) * 2 + (MaxPool(2),) + (NormalisedConv(64, 3),) * 2 + (MaxPool(2),)
    end = (AveragePool(2),) if min(shape[1:]) >= 16 else ()  # smaller images are one pixel by then
    return Shifts(1), Dictionary(3, 2), *convolutions, *end
