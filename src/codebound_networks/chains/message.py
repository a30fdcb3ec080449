"""The message: a network as a prefix-free bit string (docs/format.md, section 8).

One description serves both directions: a writer codes what it is given, a reader returns what it reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from codebound.bits.plain_code import NETWORK, PlainReader, PlainWriter, code_form, join
from codebound.bounds.original import grid_theta
from codebound.known.messages import AbstractMessage, Options, Setting
from codebound.run.errors import FormatError, ModelError
from codebound.run.references import implements
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.grid import BLANK_POINT, grid_point_of
from codebound_networks.chains.operations import OPERATIONS
from codebound_networks.chains.setting import code_setting, code_theta
from codebound_networks.codes.arithmetic import Reader, Writer
from codebound_networks.codes.modes import read_blocks, read_tensor, write_tensor
from codebound_networks.codes.numbers import bit, gamma
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.codes.tensors import Witness

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from codebound.bits.plain_code import Bits, Ledger
    from codebound_networks.chains.operations import AbstractOperation
    from codebound_networks.codes.arithmetic import AbstractCoder
    from codebound_networks.codes.tensors import AbstractTensorCode

MAX_OPERATIONS = 256
MAX_ELEMENTS = 1 << 26
MAX_RESULT = 1 << 22
MAX_PATCHES = 1 << 25
MAX_WORK = 1 << 30

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Message(AbstractMessage):
    """A network as it is coded."""

    options: Options  # choices in front of the architecture
    chain: Chain  # the architecture
    # tensors by name, in message order; or the subspace that they all come from
    codes: Mapping[str, AbstractTensorCode] | Subspace

    @property
    def shapes(self) -> Shapes:
        """Names and shapes of the tensors, in message order."""
        if not isinstance(self.codes, Subspace):
            return {name: code.shape for name, code in self.codes.items()}
        return self.chain.tensor_shapes()

    @property
    def parts(self) -> dict[str, object]:
        """Options, operations and shapes."""
        return {"options": self.options, "chain": self.chain, "shapes": self.shapes}

    def with_options(self, options: Options) -> Message:
        """The same network behind other options."""
        return replace(self, options=options)

    @property
    def theta(self) -> float:
        """The margin that differences have to exceed; 0.0 without one."""
        index = self.options.theta_index
        return 0.0 if index is None else grid_theta(index).value

    @implements("I-33", kind="algorithm")
    def encode(self) -> tuple[Bits, Ledger]:
        """The bits, and how many of them each part takes."""
        front, writer = PlainWriter(), Writer()
        code_form(front, NETWORK)
        ledger, spent = list(front.ledger), 0

        def enter(part: str) -> None:
            nonlocal spent
            ledger.append((part, writer.shifts - spent))
            spent = writer.shifts

        code_setting(writer, self.options.setting, self.chain.input_shape)
        enter("setting")
        bit(writer, isinstance(self.codes, Subspace))
        code_theta(writer, self.options.theta_index)
        bit(writer, self.options.has_base)
        enter("options")
        self._write_architecture(writer)
        enter("architecture")
        if isinstance(self.codes, Subspace):
            self.codes.code_choices(writer, self.shapes.values())
            enter("subspace")
            self.codes.code_integers(writer)
            enter("integers")
        else:
            for name, code in self.codes.items():
                write_tensor(writer, code)
                enter(name)
        word = writer.finish()
        ledger.append(("end", word.length - writer.shifts))
        codes = {"integers": self.codes} if isinstance(self.codes, Subspace) else self.codes
        behind = [(name, block) for name, code in codes.items() for block in code.blocks()]
        ledger += [(f"block {name}", block.length) for name, block in behind]
        return join(front.finish(), word, *(block for _, block in behind)), tuple(ledger)

    def _write_architecture(self, writer: Writer) -> None:
        point = grid_point_of(self.chain.operations)
        if not bit(writer, point is not None):
            _code_chain(writer, self.chain.operations, classes=self.chain.classes)
        elif point is not None:
            point.code(writer)
        _require_modest(writer, self.chain)
        _require_few(writer, self.shapes.values())

    def witness(self) -> bytes:
        """The proofs that a decoder would have to search for (docs/format.md, 8.9)."""
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

    def build(self, base: Mapping[str, NDArray[np.float32]] | None) -> nn.Module:
        """The network that it describes, in evaluation mode."""
        tensors = {name: torch.from_numpy(value) for name, value in self.weights(base).items()}
        return self.chain.build(tensors)


def decode(
    bits: Bits, *, input_shape: tuple[int, ...], witness: bytes | None = None, start: int = 0
) -> Message:
    """The message that these bits are. Refuses bits that are none, or more than one.

    Args:
        bits: The whole message.
        input_shape: Shape of one input.
        witness: What proves what tensors stand for; without it that is searched for.
        start: Bit at which the word of its form begins, where another loss stands in front.
    """
    front = PlainReader(bits, start)
    front.require(code_form(front) == NETWORK, "the message is not that of a network.")
    reader, proofs = Reader(bits, front.place), None if witness is None else Witness(witness)
    setting = code_setting(reader, Setting(2), input_shape)
    is_subspace, theta_index = bit(reader, 0), code_theta(reader, None)
    options = Options(setting, theta_index, bool(bit(reader, 0)))
    chain = _read_architecture(reader, input_shape, setting.classes)
    shapes = chain.tensor_shapes()
    codes: Mapping[str, AbstractTensorCode] | Subspace
    if is_subspace:
        choices = Subspace.blank().code_choices(reader, shapes.values())
        codes, end = choices.code_integers(reader).with_blocks(bits, reader.finish())
    else:
        tensors = [read_tensor(reader, shape) for shape in shapes.values()]
        complete, end = read_blocks(bits, reader.finish(), tensors)
        codes = dict(zip(shapes, complete, strict=True))
    if end != bits.length:
        raise FormatError(f"the message ends after {end} bits, the file has {bits.length}.")
    if not isinstance(codes, Subspace):
        codes = {name: code.solve(proofs) for name, code in codes.items()}
    if proofs is not None:
        proofs.require_end()
    return Message(options, chain, codes)


def _read_architecture(reader: Reader, input_shape: tuple[int, ...], classes: int) -> Chain:
    """The chain that a message describes."""
    try:
        is_stack = bit(reader, 0)
        operations = (
            BLANK_POINT.code(reader).operations(classes)
            if is_stack
            else _code_chain(reader, (), classes=classes)
        )
        chain = Chain(input_shape, operations)
    except ModelError as error:
        raise FormatError(f"the message describes no network: {error}") from error
    _require_modest(reader, chain)
    _require_few(reader, chain.tensor_shapes().values())
    return chain


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
    """One operation. Of the last one the width is not coded, since it is the number of classes."""
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
    """A tiny file must not ask for huge work: the limits of docs/format.md, section 8.6."""
    work = chain.work()
    for what, found, most in (
        ("numbers in a result", work.largest, MAX_RESULT),
        ("numbers in the patches of a convolution", work.patches, MAX_PATCHES),
        ("multiplications", work.products, MAX_WORK),
    ):
        coder.require(found <= most, f"one example takes {found:,} {what}; at most {most:,} are allowed.")
