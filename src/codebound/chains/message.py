"""The message: a network as a prefix-free bit string (docs/format.md, section 5).

One description serves both directions: a writer codes what it is given, a reader returns what it reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codebound.chains.chain import Chain
from codebound.chains.grid import BLANK_POINT, grid_point_of
from codebound.chains.operations import OPERATIONS
from codebound.chains.setting import FAULT, NEW_FAULT, Setting, code_fault, write_fault
from codebound.coding.arithmetic import Reader, Writer
from codebound.coding.bits import join
from codebound.coding.modes import read_blocks, read_tensor, write_tensor
from codebound.coding.numbers import bit, gamma, signed, uniform
from codebound.coding.subspace import Subspace
from codebound.errors import FormatError, ModelError, UsageError
from codebound.faults import WRONG
from codebound.refs import implements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from codebound.chains.operations import AbstractOperation
    from codebound.coding.arithmetic import AbstractCoder
    from codebound.coding.bits import Bits
    from codebound.coding.tensors import AbstractTensorCode, Witness

TENSORS, SUBSPACE, PICKED = 1, 2, 3
"""The schemes of the format: every tensor by itself, all of them from one subspace, or a rule by which a
network is learned from the sample (``codebound.picks``)."""
CHAIN, FACTORY, GRID = 1, 2, 3
"""The ways to name an architecture."""
MAX_OPERATIONS = 256
MAX_THETA_INDEX = 8000
MAX_ELEMENTS = 1 << 26
MAX_RESULT = 1 << 22
MAX_PATCHES = 1 << 25
MAX_WORK = 1 << 30

Ledger = tuple[tuple[str, int], ...]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Options:
    """Decoder-side choices in front of the architecture.

    Attributes:
        tenths: Tenths of the sample that shaped the helper (C-10), or None.
        theta_index: Index of the margin of C-12a, or None.
        has_base: Whether tensors are differences to the base of the helper.
        setting: Classes and scaling; None: those of the task it is assessed for, or the classes of the chain
            and inputs as they are stored.
    """

    tenths: int | None = None
    theta_index: int | None = None
    has_base: bool = False
    setting: Setting | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A network as it is coded.

    Attributes:
        options: Choices in front of the architecture.
        chain: The architecture, or None when it is the factory of the helper.
        codes: Tensors by name, in message order; or the subspace that they all come from.
        factory: Names and shapes of the factory's tensors, which a subspace does not know by itself.
    """

    options: Options
    chain: Chain | None
    codes: Mapping[str, AbstractTensorCode] | Subspace
    factory: Shapes | None = None

    @property
    def shapes(self) -> Shapes:
        """Names and shapes of the tensors, in message order."""
        if not isinstance(self.codes, Subspace):
            return {name: code.shape for name, code in self.codes.items()}
        if self.chain is not None:
            return self.chain.tensor_shapes()
        if self.factory is None:
            raise UsageError(
                "a subspace without a chain needs the names and shapes of the factory's tensors."
            )
        return self.factory

    @property
    def version(self) -> int:
        """The oldest version of the format, from the second on, that can say it."""
        return 3 if self.setting.fault.is_new else 2

    @property
    def needs_factory(self) -> bool:
        """Whether the architecture is that of a factory."""
        return self.chain is None

    @property
    def setting(self) -> Setting:
        """What it says first."""
        if self.options.setting is not None:
            return self.options.setting
        if self.chain is None:
            raise UsageError("a message without a chain needs a setting, which has the number of classes.")
        return Setting(self.chain.classes)

    @implements("I-33", kind="algorithm")
    def encode(self) -> tuple[Bits, Ledger]:
        """The bits, and how many of them each part takes."""
        writer = Writer()
        ledger: list[tuple[str, int]] = []
        spent = 0

        def enter(part: str) -> None:
            nonlocal spent
            ledger.append((part, writer.shifts - spent))
            spent = writer.shifts

        self.setting.code(writer)
        enter("setting")
        if self.setting.fault != WRONG:
            write_fault(writer, self.setting.fault, self.setting.classes)
            enter("fault")
        gamma(writer, SUBSPACE if isinstance(self.codes, Subspace) else TENSORS)
        enter("method")  # what files call the scheme
        code_options(writer, self.options)
        enter("options")
        if self.chain is None:
            gamma(writer, FACTORY)
        else:
            point = grid_point_of(self.chain.operations)
            gamma(writer, CHAIN if point is None else GRID)
            if point is None:
                _code_chain(writer, self.chain.operations, classes=self.chain.classes)
            else:
                point.code(writer)
            _require_modest(writer, self.chain)
        enter("architecture")
        _require_few(writer, self.shapes.values())
        if isinstance(self.codes, Subspace):
            self.codes.code_choices(writer, self.shapes.values())
            enter("subspace")
            self.codes.code_integers(writer)
            enter("integers")
            behind = [("integers", block) for block in self.codes.blocks()]
        else:
            for name, code in self.codes.items():
                write_tensor(writer, code)
                enter(name)
            behind = [(name, block) for name, code in self.codes.items() for block in code.blocks()]
        word = writer.finish()
        ledger.append(("end", word.length - writer.shifts))
        ledger.extend((f"block {name}", block.length) for name, block in behind)
        return join(word, *(block for _, block in behind)), tuple(ledger)

    def witness(self) -> bytes:
        """The proofs that a decoder would have to search for (docs/format.md, section 1)."""
        if isinstance(self.codes, Subspace):
            return b""
        return b"".join(code.witness() for code in self.codes.values())

    def weights(
        self, base: Mapping[str, NDArray[np.float32]] | None = None
    ) -> dict[str, NDArray[np.float32]]:
        """The decoded tensors, the same bits on every machine.

        Args:
            base: What they are differences to, exactly where the options say so; others of it are ignored.
        """
        shapes = self.shapes
        if self.options.has_base != (base is not None):
            raise FormatError(
                "the message codes differences to a base: give it."
                if self.options.has_base
                else "the message codes a whole network and no differences: leave out the base."
            )
        if base is not None:
            _require_base(base, shapes)
        if isinstance(self.codes, Subspace):
            head = [name for name, shape in shapes.items() if len(shape) > 1][-1:]
            return self.codes.weights(shapes, head, base=base)
        return {
            name: code.weights(base=None if base is None else base[name]) for name, code in self.codes.items()
        }


def decode(
    bits: Bits,
    *,
    input_shape: tuple[int, ...],
    factory: Shapes | None = None,
    known: Setting | None = None,
    witness: Witness | None = None,
) -> Message:
    """The message that these bits are; refuses bits that are none, or more than one.

    Args:
        bits: The whole message.
        input_shape: Shape of one input.
        factory: Names and shapes of the tensors where the architecture is a helper.
        known: Classes and scaling of a message of version 1, which does not say them.
        witness: What proves what tensors stand for; without it that is searched for.
    """
    reader = Reader(bits)
    setting = Setting(2).code(reader, input_shape) if known is None else known
    scheme = gamma(reader, 0)
    if scheme in (FAULT, NEW_FAULT) and known is None:
        setting = replace(setting, fault=code_fault(reader, scheme, WRONG, setting.classes))
        scheme = gamma(reader, 0)
    if scheme == PICKED:
        raise FormatError(
            "the message names a rule, by which the network was learned from the sample: give the tensors of "
            "the network, which were saved beside the certificate."
        )
    if scheme not in (TENSORS, SUBSPACE):
        raise FormatError(f"scheme {scheme} is unknown to this version; it knows {TENSORS} and {SUBSPACE}.")
    options = code_options(reader, Options(setting=setting))
    kind = gamma(reader, 0)
    if kind in (CHAIN, GRID):
        try:
            chain = Chain(
                input_shape,
                _code_chain(reader, (), classes=setting.classes)
                if kind == CHAIN
                else BLANK_POINT.code(reader).operations(setting.classes),
            )
        except ModelError as error:
            raise FormatError(f"the message describes no network: {error}") from error
        _require_modest(reader, chain)
        shapes = chain.tensor_shapes()
    elif kind == FACTORY and factory is not None:
        chain, shapes = None, factory
    else:
        raise FormatError(
            "the architecture is a factory: give its model."
            if kind == FACTORY
            else f"architecture {kind} is unknown."
        )
    _require_few(reader, shapes.values())
    codes: Mapping[str, AbstractTensorCode] | Subspace
    if scheme == SUBSPACE:
        choices = Subspace.blank().code_choices(reader, shapes.values())
        codes, end = choices.code_integers(reader).with_blocks(bits, reader.finish())
    else:
        tensors = [read_tensor(reader, shape) for shape in shapes.values()]
        complete, end = read_blocks(bits, reader.finish(), tensors)
        codes = dict(zip(shapes, complete, strict=True))
    if end != bits.length:
        raise FormatError(f"the message ends after {end} bits, the file has {bits.length}.")
    if not isinstance(codes, Subspace):
        codes = {name: code.solved(witness) for name, code in codes.items()}
    if witness is not None:
        witness.require_end()
    return Message(options, chain, codes, factory)


def code_options(coder: AbstractCoder, options: Options) -> Options:
    """The options without the setting, which stands in front."""
    tenths, theta = options.tenths, options.theta_index
    if bit(coder, tenths is not None):
        tenths = uniform(coder, (tenths or 1) - 1, 9) + 1
    if bit(coder, theta is not None):
        theta = signed(coder, theta or 0)
        coder.require(
            abs(theta) <= MAX_THETA_INDEX, f"theta has an index within {MAX_THETA_INDEX}. Got {theta}."
        )
    return Options(tenths, theta, bool(bit(coder, options.has_base)), options.setting)


def _code_chain(
    coder: AbstractCoder, operations: tuple[AbstractOperation, ...], *, classes: int
) -> tuple[AbstractOperation, ...]:
    count = gamma(coder, len(operations))
    coder.require(count <= MAX_OPERATIONS, f"a chain has at most {MAX_OPERATIONS} operations. Got {count}.")
    given = operations or (None,) * count
    return tuple(
        _code_operation(coder, operation, classes=classes if position == count - 1 else 0)
        for position, operation in enumerate(given)
    )


def _code_operation(
    coder: AbstractCoder, given: AbstractOperation | None, *, classes: int
) -> AbstractOperation:
    """One operation; of the last one the width is not coded, since it is the number of classes."""
    number = gamma(coder, 1 if given is None else given.number)
    coder.require(number in OPERATIONS, f"operation {number} is unknown.")
    operation = OPERATIONS[number]
    coder.require(operation.ends_chain or not classes, "the last operation of a chain is linear.")
    return operation.code(coder, given, classes=classes)


def _require_few(coder: AbstractCoder, shapes: Iterable[tuple[int, ...]]) -> None:
    elements = sum(map(math.prod, shapes))
    coder.require(
        elements <= MAX_ELEMENTS, f"a network has at most {MAX_ELEMENTS:,} elements. Got {elements:,}."
    )


def _require_base(base: Mapping[str, NDArray[np.float32]], shapes: Shapes) -> None:
    """Arrays of other shapes would be stretched, and wider ones added before their rounding."""
    for name, shape in shapes.items():
        if name not in base:
            raise FormatError(f"the base has no tensor {name}; every tensor of the network must be in it.")
        if base[name].shape != shape or base[name].dtype != "float32":
            raise FormatError(
                f"the base has a tensor {name} of shape {base[name].shape} and type {base[name].dtype}; the "
                f"network needs {shape}, float32."
            )


def _require_modest(coder: AbstractCoder, chain: Chain) -> None:
    """A tiny file must not ask for huge work: the limits of docs/format.md, section 5.1."""
    work = chain.work()
    for what, found, most in (
        ("numbers in a result", work.largest, MAX_RESULT),
        ("numbers in the patches of a convolution", work.patches, MAX_PATCHES),
        ("multiplications", work.products, MAX_WORK),
    ):
        coder.require(found <= most, f"one example takes {found:,} {what}; at most {most:,} are allowed.")
