"""Filters for every location of a convolution, from few numbers: K-MPC as a method."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from codebound.certificate.build import OnDomain
from codebound.chains.chain import Conv
from codebound.chains.message import MAX_ELEMENTS, Message
from codebound.coding.arithmetic import Writer
from codebound.coding.modes import encode_tensors
from codebound.errors import UnsupportedLayerError, UsageError
from codebound.search.codes import tensor_code
from codebound.search.search import Search, UnsuitedError
from codebound_papers.arora18.conv import conv_project

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codebound.chains.chain import Chain
    from codebound.coding.tensors import AbstractTensorCode

_NUMBERS = (16, 64, 256)
_MIXES = 4  # times the numbers: the noise of a location is then half its signal
_OTHERS = ((0.1, 7), (0.5, 7), (1.0, 15))  # density and levels of all other layers


def propose_conv(search: Search) -> None:
    """Convolutions by A-Alg4, the other layers pruned and quantised."""
    chain = search.subject.chain
    if chain is None or not any(isinstance(operation, Conv) for operation in chain.operations):
        raise UnsuitedError("conv needs a chain with convolutions outside residual blocks.")
    if search.setting.base is not None or isinstance(search.setting.statement, OnDomain):
        raise UnsuitedError("conv changes the architecture, so there is no difference to a base or to f.")
    search.consider(
        [
            partial(_message, search, numbers, density=density, levels=levels)
            for numbers in _NUMBERS
            for density, levels in _OTHERS
        ]
    )


def _message(search: Search, numbers: int, *, density: float, levels: int) -> Message | None:
    chain, tensors = search.subject.chain, search.subject.tensors
    assert chain is not None  # conv_method has looked
    codes: dict[str, AbstractTensorCode] = {}
    for position, operation in enumerate(chain.operations):
        if isinstance(operation, Conv):
            try:
                local, found = conv_project(
                    chain, tensors, [position], numbers=numbers, mixes=_MIXES * numbers
                )
            except UnsupportedLayerError:
                continue  # too large for a message: the layer is pruned like the others
            if _fits(local, codes | found):
                chain, codes = local, codes | found
    if not codes:
        return None
    for name in tensors:
        if name not in codes:
            codes[name] = tensor_code(name, search, density=density, levels=levels)
    if search.best is not None and encode_tensors(list(codes.values())).length > search.most_bits:
        return None
    return Message(search.setting.options, chain, {name: codes[name] for name in chain.tensor_shapes()})


def _fits(chain: Chain, codes: Mapping[str, AbstractTensorCode]) -> bool:
    """Whether one message can hold all these layers: each alone may be small enough, and all of them not."""
    writer = Writer()
    try:
        for code in codes.values():
            code.code(writer)
    except UsageError:
        return False
    return sum(map(math.prod, chain.tensor_shapes().values())) <= MAX_ELEMENTS
