"""Everything that is fixed before a message is chosen: the network f, the claim, the base."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.bits.setting import Setting, round_scaling
from codebound.certificate.claims import AboutG
from codebound.certificate.file import Base, Helper
from codebound.run.errors import DataError, ModelError
from codebound.run.tensor_files import float32_sha256
from codebound.sample.caveats import count_copies, require_fixed_scaling
from codebound.sample.losses import possible_examples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from codebound.bits.messages import AbstractMessage, Options
    from codebound.certificate.claims import AbstractClaim
    from codebound.sample.caveats import RepeatedRows
    from codebound.sample.dataset import Dataset, DeviceData

Tensors = dict[str, "NDArray[np.float32]"]

_FIRST_EXAMPLES = 500
NO_NETWORK = "there is no network to start from. Give a model."


class AbstractOriginal(ABC):
    """A network with its tensors, as the package of networks reads it.

    Attributes:
        chain: The architecture, where a message can describe it, or None; that package knows more of it.
        tensors: With the names of the message.
        notes: What was done to read the module, in sentences.
        unchained: Why it is no chain; empty where it is one.
    """

    chain: Any
    tensors: Mapping[str, Tensor]
    notes: tuple[str, ...]
    unchained: str

    @abstractmethod
    def build(self, tensors: Mapping[str, Tensor] | None = None) -> nn.Module:
        """A new network of this architecture, in evaluation mode: f, or one with other tensors."""

    @property
    @abstractmethod
    def computes(self) -> str:
        """The operations in words: equal for networks that differ by their tensors alone."""

    @abstractmethod
    def unchanged_message(self, options: Options) -> AbstractMessage:
        """The message that a base of this architecture is taken as it is."""

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
        return float32_sha256(self.arrays)

    def differences(self, base: Tensors | None) -> Tensors:
        """The tensors, or what they differ by from those of a base."""
        if base is None:
            return self.arrays
        return {name: (value - base[name]).astype(np.float32) for name, value in self.arrays.items()}


@dataclass(eq=False, kw_only=True)
class Task:
    """Sample, claim and networks that messages are made for, prepared once.

    Attributes:
        sample: The sample, with the constants of its scaling as a message can say them.
        delta: Failure probability.
        claim: What is to be certified.
        original: The network f to start from, a chain; None where messages are made without one.
        base: Name and tensors of the base, where differences are coded.
        allow_copies: Whether more than one example in a hundred may be a copy of an earlier one.
        rest: The examples that are left after the claim has split the sample.
        counted: The examples that errors are counted on: those of the rest that the loss is about.
        counted_data: The same, where errors are counted.
        first_data: The first of them, for choosing among messages.
        base_tensors: The tensors of the base, if there is one.
        coded: What a message codes: the tensors of f, or their differences to the base.
        options: The options that every message has.
        rows: Rows of the sample that occur more than once.
    """

    sample: Dataset
    delta: float
    claim: AbstractClaim = field(default_factory=AboutG)
    original: AbstractOriginal | None = None
    base: tuple[str, Tensors] | None = None
    allow_copies: bool = False
    rest: Dataset = field(init=False)
    counted: Dataset = field(init=False)
    counted_data: DeviceData = field(init=False)
    first_data: DeviceData = field(init=False)
    base_tensors: Tensors | None = field(init=False)
    coded: Tensors = field(init=False)
    options: Options = field(init=False)
    rows: RepeatedRows = field(init=False)

    def __post_init__(self) -> None:
        if self.sample.classes < 2:
            raise DataError(
                f"{self.sample.name}: every label is 0, so there is nothing to tell apart. Give examples of "
                "two classes, or the number of classes where one of them does not occur."
            )
        scaling = round_scaling(self.sample.scaling, self.sample.input_shape)
        self.sample = replace(self.sample, scaling=scaling)
        require_fixed_scaling(self.sample)
        self.rows = count_copies(self.sample, allow_copies=self.allow_copies)
        self.claim.check(self)
        self.rest, loss = self.claim.split(self.sample)[1], self.claim.loss
        loss.check(self.sample.classes)
        self.counted = possible_examples(loss, self.rest)
        self.counted_data = self.counted.on("cpu")
        self.first_data = self.counted_data.part(0, _FIRST_EXAMPLES)
        self.base_tensors = None if self.base is None else self.base[1]
        self.coded = {} if self.original is None else self.original.differences(self.base_tensors)
        self.options = replace(
            self.claim.options(has_base=self.base is not None),
            setting=Setting(self.sample.classes, self.sample.scaling, loss),
        )

    @property
    def f(self) -> AbstractOriginal:
        """The network f, where there is one."""
        if self.original is None:
            raise ModelError(NO_NETWORK)
        return self.original

    @property
    def chain(self) -> Any:
        """The operations of f, which a message describes."""
        chain = self.f.chain
        assert chain is not None  # of others no message is made
        return chain

    @cached_property
    def network(self) -> Any:
        """f with its layers in view; its weights have the names of the message."""
        return self.f.view(self.sample.input_shape)

    @cached_property
    def base_network(self) -> Any:
        """The same of the base, if there is one."""
        if self.base_tensors is None:
            return None
        tensors = {name: torch.from_numpy(array) for name, array in self.base_tensors.items()}
        return self.network.with_model(self.f.build(tensors))

    @property
    def helper(self) -> Helper:
        """The helper descriptor."""
        return Helper(
            input_shape=self.sample.input_shape,
            scaling=self.sample.scaling,
            base=None if self.base is None else Base(self.base[0], float32_sha256(self.base[1])),
        )
