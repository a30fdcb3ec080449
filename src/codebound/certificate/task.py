"""Everything that is fixed before a message is chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from codebound.certificate.claims import AboutG
from codebound.certificate.file import Base, Helper
from codebound.tensors import float32_sha256

if TYPE_CHECKING:
    from torch import nn

    from codebound.certificate.claims import AbstractClaim
    from codebound.certificate.original import Original, Tensors
    from codebound.chains.message import Message, Options
    from codebound.data.dataset import Dataset, DeviceData

_FIRST_EXAMPLES = 500


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
