"""Everything that is fixed before a message is chosen: the network f, the claim, the base."""

from __future__ import annotations

import hashlib
from dataclasses import InitVar, dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.bits.setting import Setting, codable
from codebound.certificate.claims import AboutG
from codebound.certificate.decoding import message_state
from codebound.certificate.file import Base, Factory, Helper
from codebound.run.errors import DataError, ModelError, UnsupportedLayerError
from codebound.run.tensor_files import float32_sha256
from codebound.sample.losses import possible_examples
from codebound.sample.rows import require_fixed_scaling, rows_of
from codebound.sample.scores import require_logits
from codebound_networks.about_f.tracing import sources_of, traced_sha256
from codebound_networks.chains.from_module import blank, chain_of
from codebound_networks.reading.callables import output_shape
from codebound_networks.reading.walk import readable, wrap
from codebound_networks.views.fold import folding_words, without_batch_norms
from codebound_networks.views.graphs import Traced
from codebound_networks.views.rebuild import WHOLE, with_weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor, fx, nn

    from codebound.bits.options import Options
    from codebound.certificate.claims import AbstractClaim
    from codebound.learn.rule_message import PickedMessage
    from codebound.sample.dataset import Dataset, DeviceData
    from codebound.sample.rows import RepeatedRows
    from codebound_networks.chains.chain import Chain
    from codebound_networks.chains.message import Message
    from codebound_networks.reading.walk import Network

Tensors = dict[str, "NDArray[np.float32]"]

_FIRST_EXAMPLES = 500
NO_NETWORK = "there is no network to start from. Give a model."


@dataclass(frozen=True, eq=False)
class Original:
    """A chain with its tensors, or a factory's module with those that a message carries.

    Attributes:
        chain: The architecture, where the message describes it.
        tensors: With the names of the message.
        module: What computes it, where it is no chain.
        architecture: Its name and hash, which are then a helper.
        source: The Python file that makes the module, where codebound has written it.
        whole: Tensors whose entries are integers, which no message rounds.
        notes: What was done to read the module, in sentences.
        unchained: Why it is no chain; empty where it is one, or nobody asked.
    """

    chain: Chain | None
    tensors: Mapping[str, Tensor]
    module: nn.Module | None = None
    architecture: Factory | None = None
    source: str = ""
    whole: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    unchained: str = ""

    @staticmethod
    def read(
        model: nn.Module | Traced,
        input_shape: tuple[int, ...],
        *,
        classes: int | None = None,
        factory: str = "",
        trust_code: bool = False,
        as_chain: bool = True,
    ) -> Original:
        """The network of a module: a chain of known layers, or the operations that torch finds in it.

        Where it cannot be read, its factory can be trusted. Without ``as_chain`` it is never a chain.
        """
        traced = model if isinstance(model, Traced) else Traced(model)
        example = blank(traced.model, input_shape)
        try:
            read, notes = readable(traced, example, classes=classes)
            inside = read.model
            if classes is not None:
                require_logits(output_shape(inside, example), classes)
            notes += folding_words(inside)
            unchained = ""

            @cache  # it takes seconds, and is needed twice where it is no chain either
            def plain() -> fx.GraphModule:
                from codebound_networks.reading.layered import plain_layers

                return plain_layers(inside, example)

            try:
                if as_chain:
                    return Original(*chain_of(read, input_shape, plain=plain), notes=notes)
            except (ModelError, UnsupportedLayerError) as reason:
                unchained = str(reason)
            return replace(Original._of_plain(plain(), input_shape, notes), unchained=unchained)
        except ModelError:
            if not trust_code or not factory:
                raise
            return Original.of_factory(traced.model, factory, input_shape, trust_code=True)

    @staticmethod
    def _of_plain(plain: fx.GraphModule, input_shape: tuple[int, ...], notes: tuple[str, ...]) -> Original:
        """A network whose architecture is a helper: a file that says of which operations it consists."""
        from codebound_networks.reading.source_file import FACTORY, name_of, network_of, source_of

        folded = without_batch_norms(plain).float()
        state = message_state(folded)
        source = source_of(folded)
        sha256 = traced_sha256(network_of(source), input_shape, state)  # what others will have
        name = name_of(source)
        sources = ((name, hashlib.sha256(source.encode()).hexdigest()),)
        named = Factory(f"{name}:{FACTORY}", sha256, sources)
        return Original(None, state, folded, named, source, plain.meta[WHOLE], notes)

    @staticmethod
    def of_factory(
        module: nn.Module, factory: str, input_shape: tuple[int, ...], *, trust_code: bool = False
    ) -> Original:
        """A module whose own code is the helper."""
        state, sources = message_state(module), sources_of(module)
        try:
            named = Factory(factory, traced_sha256(module, input_shape, state), sources)
        except ModelError:
            if not trust_code or not sources:  # code without a file has no name
                raise
            named = Factory(factory, None, sources)
        return Original(None, state, module, named)

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

    def differences(self, base: Tensors | None) -> Tensors:
        """The tensors, or what they differ by from those of a base."""
        if base is None:
            return self.arrays
        return {name: (value - base[name]).astype(np.float32) for name, value in self.arrays.items()}


@dataclass(eq=False, kw_only=True)
class Task:
    """What messages are made for; all that follows from it is prepared once.

    Attributes:
        sample: The sample, with the constants of its scaling as a message can say them.
        delta: Failure probability.
        claim: What is to be certified.
        original: The network f to start from; None where messages are made without one.
        base: Name and tensors of the base, where differences are coded.
        rest: The examples that errors are counted on, where the claim has split the sample already.
        allow_copies: Whether more than one example in a hundred may be a copy of an earlier one.
        n_rest: Examples that are left after the claim has split the sample.
        counted: The examples that errors are counted on: those of the rest that the fault can happen on.
        counted_data: The same, where errors are counted.
        first_data: The first of them, for choosing among messages.
        module: What the factory made, where f is no chain.
        base_tensors: The tensors of the base, if there is one.
        coded: What a message codes: the tensors of f, or their differences to the base.
        options: The options that every message has.
        rows: Rows of the sample that occur more than once.
    """

    sample: Dataset
    delta: float
    claim: AbstractClaim = field(default_factory=AboutG)
    original: Original | None = None
    base: tuple[str, Tensors] | None = None
    rest: InitVar[Dataset | None] = None
    allow_copies: bool = False
    n_rest: int = field(init=False)
    counted: Dataset = field(init=False)
    counted_data: DeviceData = field(init=False)
    first_data: DeviceData = field(init=False)
    module: nn.Module | None = field(init=False)
    base_tensors: Tensors | None = field(init=False)
    coded: Tensors = field(init=False)
    options: Options = field(init=False)
    rows: RepeatedRows = field(init=False)

    def __post_init__(self, rest: Dataset | None) -> None:
        if self.sample.classes < 2:
            raise DataError(
                f"{self.sample.name}: every label is 0, so there is nothing to tell apart. Give examples of "
                "two classes, or the number of classes where one of them does not occur."
            )
        scaling = codable(self.sample.scaling, self.sample.input_shape)
        self.sample = replace(self.sample, scaling=scaling)
        require_fixed_scaling(self.sample)
        self.rows = rows_of(self.sample, allow_copies=self.allow_copies)
        self.claim.check(self)
        counted = self.claim.split(self.sample)[1] if rest is None else rest
        self.n_rest, fault = counted.n, self.claim.fault
        fault.check(self.sample.classes)
        self.counted = replace(possible_examples(fault, counted), scaling=scaling)
        self.counted_data = self.counted.on("cpu")
        self.first_data = self.counted_data.part(0, _FIRST_EXAMPLES)
        self.module = None if self.original is None else self.original.module
        self.base_tensors = None if self.base is None else self.base[1]
        self.coded = {} if self.original is None else self.original.differences(self.base_tensors)
        self.options = replace(
            self.claim.options(has_base=self.base is not None),
            setting=Setting(self.sample.classes, self.sample.scaling, fault),
        )

    @property
    def f(self) -> Original:
        """The network f, where there is one."""
        if self.original is None:
            raise ModelError(NO_NETWORK)
        return self.original

    @cached_property
    def network(self) -> Network:
        """f with its layers in view; its weights have the names of the message."""
        return wrap(self.f.build(), example=torch.zeros(2, *self.sample.input_shape))

    @cached_property
    def base_network(self) -> Network | None:
        """The same of the base, if there is one."""
        if self.base_tensors is None:
            return None
        tensors = {name: torch.from_numpy(array) for name, array in self.base_tensors.items()}
        return self.network.with_model(self.f.build(tensors))

    def helper(self, message: Message | PickedMessage) -> Helper:
        """The helper descriptor; the factory is none where the message describes a network by itself."""
        has_factory = self.original is not None and message.needs_factory
        return Helper(
            input_shape=self.sample.input_shape,
            scaling=self.sample.scaling,
            architecture=self.f.architecture if has_factory else None,
            base=None if self.base is None else Base(self.base[0], float32_sha256(self.base[1])),
        )
