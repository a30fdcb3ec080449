"""The network f, read as a chain of known layers or as the operations that torch finds in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch

from codebound.known.messages import AbstractOriginal
from codebound.run.errors import ModelError
from codebound.sample.outputs import require_logits
from codebound_networks.chains.from_module import blank, chain_of
from codebound_networks.reading.callables import output_shape
from codebound_networks.reading.walk import readable, wrap
from codebound_networks.views.fold import describe_folding
from codebound_networks.views.graphs import Traced
from codebound_networks.views.rebuild import with_weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, fx, nn

    from codebound_networks.chains.chain import Chain
    from codebound_networks.reading.walk import Network


@dataclass(frozen=True, eq=False)
class Original(AbstractOriginal):
    """A network with its tensors: a chain of known layers, or operations that no message describes."""

    chain: Chain | None  # the architecture, where a message can describe it
    tensors: Mapping[str, Tensor]  # with the names of the message
    module: nn.Module | None = None  # the operations, where it is no chain
    notes: tuple[str, ...] = ()  # what was done to read the module, in sentences
    unchained: str = ""  # why it is no chain; empty where it is one

    @staticmethod
    def read(
        model: nn.Module | Traced,
        input_shape: tuple[int, ...],
        *,
        classes: int | None = None,
        unchained: str = "",
    ) -> Original:
        """Read a module as a chain of known layers, or as the operations that torch finds in it.

        With a reason why it is ``unchained`` it is never a chain.
        """
        traced = model if isinstance(model, Traced) else Traced(model)
        example = blank(traced.model, input_shape)
        read, notes = readable(traced, example, classes=classes)
        inside = read.model
        if classes is not None:
            require_logits(output_shape(inside, example), classes)

        @cache  # it takes seconds, and is needed twice where it is no chain either
        def plain() -> fx.GraphModule:
            from codebound_networks.reading.layer_modules import plain_layers

            return plain_layers(inside, example)

        if not unchained:
            try:
                chain, tensors = chain_of(read, input_shape, plain=plain)
                return Original(chain, tensors, notes=notes + describe_folding(inside))
            except ModelError as reason:
                unchained = str(reason)
        module = with_weights(plain(), plain().state_dict()).float()
        real = {name: each for name, each in module.state_dict().items() if each.is_floating_point()}
        return Original(None, real, module, notes, unchained)

    def build(self, tensors: Mapping[str, Tensor] | None = None) -> nn.Module:
        """A new network of this architecture, in evaluation mode: f, or one with other tensors."""
        values = self.tensors if tensors is None else tensors
        if self.chain is not None:
            return self.chain.build({name: tensor.clone() for name, tensor in values.items()})
        assert self.module is not None  # it is a chain or a module
        return with_weights(self.module, {**self.module.state_dict(), **values})

    @property
    def computes(self) -> str:
        """The operations in words: equal for networks that differ by their tensors alone."""
        return str(self.chain if self.module is None else self.module)

    def view(self, input_shape: tuple[int, ...]) -> Network:  # noqa: D102
        return wrap(self.build(), example=torch.zeros(2, *input_shape))
