"""Everything that is fixed before a message is chosen: the network f, the claim, the base."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from codebound.certificate.claims import AboutG
from codebound.certificate.decoding import graph_sha256, message_state
from codebound.certificate.file import Base, Factory, Helper
from codebound.chains.reading import chain_of
from codebound.errors import CertificateError, UnsupportedLayerError
from codebound.nets.rebuild import with_weights
from codebound.tensors import float32_sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from codebound.certificate.claims import AbstractClaim
    from codebound.chains.chain import Chain
    from codebound.chains.message import Message, Options
    from codebound.data.dataset import Dataset, DeviceData

Tensors = dict[str, "NDArray[np.float32]"]

_FIRST_EXAMPLES = 500


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """What messages are made for.

    Attributes:
        sample: The sample.
        delta: Failure probability.
        claim: What is to be certified.
        original: The network f to start from; None where messages are made without one.
        base: Name and tensors of the base, where differences are coded.
    """

    sample: Dataset
    delta: float
    claim: AbstractClaim = field(default_factory=AboutG)
    original: Original | None = None
    base: tuple[str, Tensors] | None = None

    def __post_init__(self) -> None:
        self.claim.check(self)

    @property
    def f(self) -> Original:
        """The network f, where there is one."""
        assert self.original is not None  # whoever asks was given one
        return self.original

    @property
    def module(self) -> nn.Module | None:
        """What the factory made, where f is no chain."""
        return None if self.original is None else self.original.module

    @property
    def base_tensors(self) -> Tensors | None:
        """The tensors of the base, if there is one."""
        return None if self.base is None else self.base[1]

    @cached_property
    def coded(self) -> Tensors:
        """What a message codes: the tensors of f, or their differences to the base."""
        if self.base is None:
            return self.f.arrays
        base = self.base[1]
        return {name: (value - base[name]).astype(np.float32) for name, value in self.f.arrays.items()}

    @property
    def options(self) -> Options:
        """The options that every message has."""
        return self.claim.options(has_base=self.base is not None)

    @cached_property
    def counted(self) -> Dataset:
        """The examples that errors are counted on."""
        return self.claim.split(self.sample)[1]

    @cached_property
    def counted_data(self) -> DeviceData:
        """The same, where errors are counted."""
        return self.counted.on("cpu")

    @cached_property
    def first_data(self) -> DeviceData:
        """The first of them, for choosing among messages."""
        return self.counted_data.part(0, _FIRST_EXAMPLES)

    def helper(self, message: Message) -> Helper:
        """The helper descriptor; the factory is none where the message describes a network by itself."""
        has_factory = message.chain is None and self.original is not None
        return Helper(
            input_shape=self.sample.input_shape,
            scaling=self.sample.scaling,
            architecture=self.f.architecture if has_factory else None,
            base=None if self.base is None else Base(self.base[0], float32_sha256(self.base[1])),
        )
