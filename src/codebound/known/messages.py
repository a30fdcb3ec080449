"""Networks, and the messages that describe them, as far as the product asks (docs/format.md, section 8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from codebound.sample.dataset import Scaling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from codebound.bits.plain_code import Bits, Ledger
    from codebound.sample.dataset import Made

Tensors = dict[str, "NDArray[np.float32]"]


class AbstractMessage(Protocol):
    """A message that a network is decoded from."""

    __slots__ = ()
    options: Options

    @property
    def theta(self) -> float:
        """The margin that differences have to exceed; 0.0 without one."""

    @property
    def parts(self) -> dict[str, object]:
        """Everything but the numbers, by name: equal in a message and in what its bits are read as."""

    def with_options(self, options: Options) -> Self:
        """The same network behind other options."""

    def encode(self) -> tuple[Bits, Ledger]:
        """The bits from the word of the form on, and how many of them each part takes."""

    def witness(self) -> bytes:
        """The proofs that a decoder would have to search for (docs/format.md, 8.9)."""

    def build(self, base: Mapping[str, NDArray[np.float32]] | None) -> nn.Module:
        """The network that it describes, in evaluation mode."""


CATALOGUE = (Scaling(1.0), Scaling(255.0), Scaling(16.0))
"""Scalings that cost two bits; all others are literal, at 32 bits a constant."""
MAX_CONSTANTS = 4
"""Means, and deviations, of a literal scaling."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The number of classes, and how stored values become inputs."""

    classes: int
    scaling: Scaling = CATALOGUE[0]


@dataclass(frozen=True, slots=True)
class Options:
    """Choices in front of the architecture."""

    setting: Setting
    theta_index: int | None = None  # of the margin of C-12a
    has_base: bool = False  # tensors are differences to the base


def count_channels(input_shape: tuple[int, ...]) -> int:
    """Constants that a scaling may have beside one for all."""
    return input_shape[0] if len(input_shape) == 3 else 1


class AbstractOriginal(ABC):
    """A network with its tensors, as the package of networks reads it."""

    chain: Any  # the architecture, where a message can describe it
    tensors: Mapping[str, Tensor]  # with the names of the message
    notes: tuple[str, ...]  # what was done to read the module, in sentences
    unchained: str  # why it is no chain; empty where it is one

    @abstractmethod
    def build(self, tensors: Mapping[str, Tensor] | None = None) -> nn.Module:
        """A new network of this architecture, in evaluation mode: f, or one with other tensors."""

    def build_with(self, arrays: Tensors) -> nn.Module:
        """The same with the tensors of arrays."""
        import torch

        return self.build({name: torch.from_numpy(each) for name, each in arrays.items()})

    @property
    @abstractmethod
    def computes(self) -> str:
        """The operations in words: equal for networks that differ by their tensors alone."""

    @abstractmethod
    def view(self, input_shape: tuple[int, ...]) -> Any:
        """The network with its layers in view; its weights have the names of the message."""

    @cached_property
    def arrays(self) -> Tensors:
        """The tensors as the second program takes them."""
        return {name: tensor.detach().cpu().float().numpy() for name, tensor in self.tensors.items()}

    @property
    def sha256(self) -> str:
        """Hash of the tensors (docs/format.md)."""
        from codebound.run.tensor_files import float32_sha256

        return float32_sha256(self.arrays)


@dataclass(frozen=True, slots=True, eq=False)
class KnownTensors:
    """The base: tensors that a message codes differences to."""

    made: Made
    tensors: Tensors
