"""The network f that is to be compressed, as a message can describe it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codebound.certificate.decoding import graph_sha256, message_state
from codebound.certificate.file import Factory
from codebound.chains.reading import chain_of
from codebound.errors import CertificateError, UnsupportedLayerError
from codebound.nets.rebuild import with_weights
from codebound.tensors import float32_sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from codebound.chains.chain import Chain

Tensors = dict[str, "NDArray[np.float32]"]


@dataclass(frozen=True, eq=False)
class Original:
    """A chain with its tensors, or a factory's module with those that a message carries.

    Attributes:
        chain: The architecture, where the message describes it.
        tensors: With the names of the message.
        module: What the factory made, where the network is no chain.
        architecture: Its name and hash, which are then a helper.
    """

    chain: Chain | None
    tensors: Mapping[str, Tensor]
    module: nn.Module | None = None
    architecture: Factory | None = None

    @staticmethod
    def read(module: nn.Module, input_shape: tuple[int, ...], *, factory: str = "") -> Original:
        """The network of a module.

        Args:
            module: It is not changed.
            input_shape: Shape of one input.
            factory: ``package.module:factory`` that makes it, needed where it is no chain of known layers.
        """
        try:
            return Original(*chain_of(module, input_shape))
        except UnsupportedLayerError as error:
            if not factory:
                raise CertificateError(
                    f"the message cannot describe this architecture: {error}\n"
                    "  Give the network as package.module:factory: the architecture is then a helper, named "
                    "by its hash."
                ) from error
        return Original.of_factory(module, factory)

    @staticmethod
    def of_factory(module: nn.Module, factory: str) -> Original:
        """A module whose architecture is a helper."""
        return Original(None, message_state(module), module, Factory(factory, graph_sha256(module)))

    def build(self, tensors: Mapping[str, Tensor] | None = None) -> nn.Module:
        """A new network of this architecture, in evaluation mode: f, or one with other tensors."""
        values = self.tensors if tensors is None else tensors
        if self.chain is not None:
            return self.chain.build({name: tensor.clone() for name, tensor in values.items()})
        assert self.module is not None  # it is a chain or a module
        return with_weights(self.module, {**self.module.state_dict(), **values})

    @cached_property
    def arrays(self) -> Tensors:
        """The tensors as the second program takes them."""
        return {name: tensor.detach().cpu().float().numpy() for name, tensor in self.tensors.items()}

    @property
    def sha256(self) -> str:
        """Hash of the tensors (docs/format.md)."""
        return float32_sha256(self.arrays)
