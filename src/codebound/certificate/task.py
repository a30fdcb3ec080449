"""Everything that is fixed before a message is chosen: sample, question, what is known, the network f.

Messages of networks are described as far as the product asks (docs/format.md, section 8).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from codebound.known.score_tables import require_tables
from codebound.run.errors import CertificateError, DataError, ModelError, UsageError
from codebound.run.tensor_files import float32_sha256
from codebound.sample.caveats import require_fixed_scaling
from codebound.sample.dataset import Scaling, require_disjoint
from codebound.sample.order import Arranged, Design, arrange
from codebound.sample.questions import ONE_ROW, Question

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import Self

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from codebound.bits.plain_code import Bits, Ledger
    from codebound.known.score_tables import ScoreTable
    from codebound.sample.dataset import DeviceData, Made, Sample


@dataclass(frozen=True, slots=True)
class Options:
    """Choices in front of the architecture.

    Without a setting it is that of the task, or the classes of the chain and inputs as they are stored.
    """

    theta_index: int | None = None  # of the margin of C-12a
    has_base: bool = False  # tensors are differences to the base
    setting: Setting | None = None


class AbstractMessage(Protocol):
    """A message that a network is decoded from."""

    __slots__ = ()
    options: Options

    @property
    def setting(self) -> Setting:
        """Setting at the start of the message."""

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

    def word(self) -> tuple[Bits, Ledger]:
        """The bits in front of the blocks, and how many of them each part takes."""

    def with_blocks(self, word: Bits, ledger: Ledger) -> tuple[Bits, Ledger]:
        """The whole message, from its word."""

    def length_limits(self, word: Bits) -> tuple[int, int]:
        """Bits that the whole message has at least and at most, from its word."""

    def block_keys(self) -> list[Hashable]:
        """Equal for messages whose blocks are known to be equal."""

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


def round_scaling(scaling: Scaling, input_shape: tuple[int, ...]) -> Scaling:
    """The scaling as a message can say it: its constants are rounded to float32."""
    if not any(scaling.mean) and all(value == 1.0 for value in scaling.std):
        scaling = Scaling(scaling.divisor)
    count = max(len(scaling.mean), len(scaling.std))
    if scaling in CATALOGUE:
        return scaling
    if count > MAX_CONSTANTS or count not in (1, count_channels(input_shape)):
        raise DataError(
            f"a certificate pays for the constants of a scaling: at most {MAX_CONSTANTS} means and stds, one "
            f"for all or one for each channel of an image. Got {count} for inputs of shape {input_shape}. "
            "Let the first layer of the network scale its inputs, or store them scaled by constants that "
            "were fixed before the sample was seen."
        )
    means, deviations = (values * (count // len(values)) for values in (scaling.mean, scaling.std))
    with np.errstate(over="ignore"):  # an infinite constant is refused
        divisor, *others = np.array([scaling.divisor, *means, *deviations], np.float32).tolist()
    return Scaling(divisor, tuple(others[:count]), tuple(others[count:]))


def count_channels(input_shape: tuple[int, ...]) -> int:
    """Constants that a scaling may have beside one for all."""
    return input_shape[0] if len(input_shape) == 3 else 1


Tensors = dict[str, "NDArray[np.float32]"]

_FIRST_EXAMPLES = 500
NO_NETWORK = "there is no network to start from. Give a model."


class AbstractOriginal(ABC):
    """A network with its tensors, as the package of networks reads it."""

    chain: Any  # the architecture, where a message can describe it
    tensors: Mapping[str, Tensor]  # with the names of the message
    notes: tuple[str, ...]  # what was done to read the module, in sentences
    unchained: str  # why it is no chain; empty where it is one

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


@dataclass(frozen=True, slots=True, eq=False)
class KnownTensors:
    """The base: tensors that a message codes differences to."""

    made: Made
    tensors: Tensors


@dataclass(frozen=True, slots=True, eq=False)
class AboutF:
    """A claim about the network f itself, in one of two ways."""

    unlabelled: Sample | None = None  # fresh inputs on which f and g are compared (C-12b)
    domain: tuple[float, float] | None = None  # of all stored values of an input (C-12a)

    def check(self, task: Task) -> None:
        """Refuses what does not fit a task."""
        if (self.unlabelled is None) == (self.domain is None):
            raise UsageError(
                "a claim about f needs unlabelled inputs, or a range of the inputs: one of both."
            )
        if task.original is None or task.original.chain is None:
            raise CertificateError("a claim about f needs a network that a message can describe: a chain.")
        if self.unlabelled is not None:
            if not task.question.is_plain:
                raise UsageError(
                    "unlabelled inputs tell how often two networks differ: only every error counts."
                )
            require_shape("unlabelled", self.unlabelled, task.sample)
            require_disjoint(self.unlabelled, task.sample)
        if self.domain is not None:
            low, high = self.domain
            least, most = float(task.sample.x.min()), float(task.sample.x.max())
            if not low <= least <= most <= high:
                raise DataError(
                    f"the range of the inputs must hold every stored value; the sample has values from "
                    f"{least:g} to {most:g}. Got {low:g} and {high:g}."
                )


@dataclass(eq=False, kw_only=True)
class Task:
    """Sample, question and networks that messages are made for, prepared once.

    Attributes:
        rest: The examples that a network is counted on: those that neither base nor features were made of.
        rest_data: The same, where errors are counted.
        first_data: The first of them, for choosing among messages.
        coded: What a message codes: the tensors of f, or their differences to the base.
        options: The options that every message of a network has.
    """

    sample: Sample  # with the constants of its scaling as a message can say them
    delta: float
    design: Design = field(default_factory=Design)
    question: Question = field(default_factory=Question)
    tables: tuple[ScoreTable, ...] = ()
    original: AbstractOriginal | None = None  # the network f to start from
    base: KnownTensors | None = None
    about_f: AboutF | None = None
    options: Options = field(init=False)

    def __post_init__(self) -> None:
        if self.sample.classes < 2:
            raise DataError(
                f"{self.sample.name}: every label is 0, so there is nothing to tell apart. Give examples of "
                "two classes, or the number of classes where one of them does not occur."
            )
        scaling = round_scaling(self.sample.scaling, self.sample.input_shape)
        if scaling != self.sample.scaling:
            self.sample = replace(self.sample, scaling=scaling)
        require_fixed_scaling(self.sample)
        if self.design.clusters is not None and self.question.on == "all":
            self.question = replace(self.question, on=ONE_ROW)
        require_tables(self.tables, self.sample, self.sample.n)
        if self.about_f is not None:
            self.about_f.check(self)
        self.options = Options(
            has_base=self.base is not None, setting=Setting(self.sample.classes, self.sample.scaling)
        )

    @cached_property
    def arranged(self) -> Arranged:
        """The sample in its order."""
        return arrange(self.sample, self.design)

    @property
    def known_rows(self) -> int:
        """Units of the sample that base and features were made of, which no network is counted on."""
        return max(self.made_of, 0 if self.base is None else self.base.made.rows)

    @property
    def made_of(self) -> int:
        """Rows of the sample that its features were made of: no rule knows fewer."""
        return 0 if self.sample.features is None else self.sample.features.rows

    @cached_property
    def rest(self) -> Sample:  # noqa: D102
        if not self.known_rows:
            return self.sample
        return self.sample.select(self.arranged.split(self.known_rows)[1], role="certify")

    @cached_property
    def rest_data(self) -> DeviceData:  # noqa: D102
        return self.rest.on("cpu")

    @cached_property
    def first_data(self) -> DeviceData:  # noqa: D102
        return self.rest_data.part(0, _FIRST_EXAMPLES)

    @property
    def base_tensors(self) -> Tensors | None:
        """The tensors of the base, if there is one."""
        return None if self.base is None else self.base.tensors

    @cached_property
    def coded(self) -> Tensors:  # noqa: D102
        base, own = self.base_tensors, {} if self.original is None else self.original.arrays
        if base is None:
            return own
        return {name: (value - base[name]).astype(np.float32) for name, value in own.items()}

    @property
    def is_about_f(self) -> bool:
        """Return True if the claim is about the network f itself."""
        return self.about_f is not None

    @property
    def stays_near_f(self) -> bool:
        """Return True if a claim on a domain needs a g that is near f."""
        return self.about_f is not None and self.about_f.domain is not None

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
        if self.base is None:
            return None
        tensors = {name: torch.from_numpy(array) for name, array in self.base.tensors.items()}
        return self.network.with_model(self.f.build(tensors))


def require_shape(name: str, other: Sample, sample: Sample) -> None:
    """Refuses inputs that no classifier for the sample takes."""
    if other.input_shape != sample.input_shape:
        raise DataError(
            f"the {name} inputs have the shape {other.input_shape}; those of the sample have "
            f"{sample.input_shape}."
        )


def require_test_set(test_set: Sample, sample: Sample) -> None:
    """Refuses test examples of another shape, or of a class that the sample has not."""
    require_shape("test", test_set, sample)
    if test_set.y.max() >= sample.classes:
        raise DataError(
            f"the test sample has a label {test_set.y.max()}; the sample has {sample.classes} classes."
        )
