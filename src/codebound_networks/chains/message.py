"""The message: a network as a prefix-free bit string (docs/format.md, section 5).

One description serves both directions: a writer codes what it is given, a reader returns what it reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.bits.arithmetic import Reader, Writer
from codebound.bits.bitstring import join
from codebound.bits.messages import PICKED, SUBSPACE, TENSORS, AbstractMessage, Ledger, Options, code_options
from codebound.bits.numbers import bit, gamma, uniform
from codebound.bits.setting import (
    FORM,
    HEAD,
    LOSS,
    NEW_LOSS,
    RULE,
    SPLIT_HEAD,
    Setting,
    code_form,
    code_loss,
    code_scaling,
    has_other_loss,
    read_loss,
    write_loss,
)
from codebound.run.errors import FormatError, ModelError
from codebound.run.references import implements
from codebound.sample.losses import WRONG
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.grid import BLANK_POINT, grid_point_of
from codebound_networks.chains.operations import OPERATIONS, Linear
from codebound_networks.codes.modes import read_blocks, read_tensor, write_tensor
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.codes.tensors import AbstractGridCode, Dense, Witness, Zero

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

    from numpy.typing import NDArray
    from torch import nn

    from codebound.bits.arithmetic import AbstractCoder
    from codebound.bits.bitstring import Bits
    from codebound_networks.chains.operations import AbstractOperation
    from codebound_networks.codes.tensors import AbstractTensorCode

CHAIN, FACTORY, GRID = 1, 2, 3
"""The ways to name an architecture."""
MAX_OPERATIONS = 256
MAX_ELEMENTS = 1 << 26
MAX_RESULT = 1 << 22
MAX_PATCHES = 1 << 25
MAX_WORK = 1 << 30
OCTAVES = range(-12, 4)
"""The units that a short message adds to biases, as powers of 2."""
_STEPS_OF_OCTAVE = 8

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Message(AbstractMessage):
    """A network as it is coded."""

    options: Options  # choices in front of the architecture
    chain: Chain  # the architecture
    # tensors by name, in message order; or the subspace that they all come from
    codes: Mapping[str, AbstractTensorCode] | Subspace
    # whether it is written in the few bits of a base with biases (docs/format-3.md, 5.7)
    is_short: bool = False

    @property
    def shapes(self) -> Shapes:
        """Names and shapes of the tensors, in message order."""
        if not isinstance(self.codes, Subspace):
            return {name: code.shape for name, code in self.codes.items()}
        return self.chain.tensor_shapes()

    @property
    def version(self) -> int:
        """The oldest version of the format, from the second on, that can say it."""
        return 3 if self.is_short or self.setting.loss.is_new else 2

    @property
    def parts(self) -> dict[str, object]:
        """Options, operations and shapes."""
        return {
            "options": self.options,
            "chain": self.chain,
            "shapes": self.shapes,
            "is_short": self.is_short,
        }

    def with_options(self, options: Options) -> Message:
        """The same network behind other options."""
        return replace(self, options=options)

    def shorten(self) -> Message:
        """The same as a short message, if it is a base with nothing, or with small biases, added."""
        if self.is_short or not self.options.has_base or self.options.theta_index is not None:
            return self
        if isinstance(self.codes, Subspace) or not self.codes:
            return self
        *others, last = self.codes.values()
        if not all(isinstance(each, Zero) for each in others) or not _is_small(last, self.setting.classes):
            return self
        return replace(self, is_short=True)

    @property
    def setting(self) -> Setting:
        """Setting at the start of the message."""
        if self.options.setting is not None:
            return self.options.setting
        return Setting(self.chain.classes)

    @implements("I-33", kind="algorithm")
    def encode(self) -> tuple[Bits, Ledger]:
        """The bits, and how many of them each part takes."""
        return self.with_blocks(*self.word())

    def word(self) -> tuple[Bits, Ledger]:
        """The bits in front of the blocks, and how many of them each part takes."""
        writer = Writer()
        ledger: list[tuple[str, int]] = []
        spent = 0

        def enter(part: str) -> None:
            nonlocal spent
            ledger.append((part, writer.shifts - spent))
            spent = writer.shifts

        if self.is_short:
            self._write_head(writer, enter)
            word = writer.finish()
            return word, (*ledger, ("end", word.length - writer.shifts))
        self.setting.code(writer)
        enter("setting")
        write_loss(writer, self.setting, enter)
        gamma(writer, SUBSPACE if isinstance(self.codes, Subspace) else TENSORS)
        enter("method")  # what files call the scheme
        code_options(writer, self.options)
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
        return word, (*ledger, ("end", word.length - writer.shifts))

    def with_blocks(self, word: Bits, ledger: Ledger) -> tuple[Bits, Ledger]:
        """The whole message, from its word."""
        if self.is_short:
            return word, ledger
        codes = {"integers": self.codes} if isinstance(self.codes, Subspace) else self.codes
        behind = [(name, block) for name, code in codes.items() for block in code.blocks()]
        entries = tuple((f"block {name}", block.length) for name, block in behind)
        return join(word, *(block for _, block in behind)), (*ledger, *entries)

    def length_limits(self, word: Bits) -> tuple[int, int]:
        """Bits that the whole message has at least and at most, from its word: blocks are long to make."""
        if self.is_short:
            return word.length, word.length
        limits = [code.block_limits() for code in self._tensor_codes]
        return word.length + sum(least for least, _ in limits), word.length + sum(most for _, most in limits)

    def block_keys(self) -> list[Hashable]:
        """Equal for messages whose blocks are known to be equal."""
        return [] if self.is_short else [code.block_key() for code in self._tensor_codes]

    @property
    def _tensor_codes(self) -> Collection[AbstractTensorCode]:
        return [self.codes.inner] if isinstance(self.codes, Subspace) else self.codes.values()

    def _write_architecture(self, writer: Writer) -> None:
        point = grid_point_of(self.chain.operations)
        gamma(writer, CHAIN if point is None else GRID)
        if point is None:
            _code_chain(writer, self.chain.operations, classes=self.chain.classes)
        else:
            point.code(writer)
        _require_modest(writer, self.chain)
        _require_few(writer, self.shapes.values())

    def _write_head(self, writer: Writer, enter: Callable[[str], None]) -> None:
        """All of a short message."""
        setting, tenths = self.setting, self.options.tenths
        code_form(writer, HEAD if tenths is None else SPLIT_HEAD)
        has_other_loss(writer, setting.loss)
        enter(FORM)
        write_loss(writer, setting, enter)
        if tenths is not None:
            uniform(writer, tenths - 1, 9)
        code_scaling(writer, setting.scaling)
        enter("setting")
        is_linear = self.chain.operations == (Linear(setting.classes, True),)
        if not bit(writer, is_linear):
            self._write_architecture(writer)
        enter("architecture")
        assert not isinstance(self.codes, Subspace)  # it is short
        _code_biases(writer, list(self.codes.values())[-1], setting.classes)
        enter("biases")

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

    def build(self, base: Mapping[str, NDArray[np.float32]] | None) -> nn.Module:
        """The network that it describes, in evaluation mode."""
        tensors = {name: torch.from_numpy(value) for name, value in self.weights(base).items()}
        return self.chain.build(tensors)


def decode(
    bits: Bits,
    *,
    input_shape: tuple[int, ...],
    known: Setting | None = None,
    short_classes: int | None = None,
    witness: bytes | None = None,
) -> Message:
    """The message that these bits are; refuses bits that are none, or more than one.

    Args:
        bits: The whole message.
        input_shape: Shape of one input.
        known: Classes and scaling of a message of version 1, which does not say them.
        short_classes: Classes of a short message, which does not say them; None where it is not short.
        witness: What proves what tensors stand for; without it that is searched for.
    """
    reader = Reader(bits)
    proofs = None if witness is None else Witness(witness)
    if short_classes is not None:
        message = _read_head(reader, input_shape, short_classes)
        _require_end(reader.finish(), bits)
        if proofs is not None:
            proofs.require_end()
        return message
    setting = Setting(2).code(reader, input_shape) if known is None else known
    scheme = gamma(reader, 0)
    if scheme in (LOSS, NEW_LOSS) and known is None:
        setting = replace(setting, loss=code_loss(reader, scheme, WRONG, setting.classes))
        scheme = gamma(reader, 0)
    if scheme == PICKED:
        raise FormatError(
            "the message names a rule, by which the network was learned from the sample: give the tensors of "
            "the network, which were saved beside the certificate."
        )
    if scheme not in (TENSORS, SUBSPACE):
        raise FormatError(f"scheme {scheme} is unknown to this version; it knows {TENSORS} and {SUBSPACE}.")
    options = code_options(reader, Options(setting=setting))
    chain = _read_architecture(reader, input_shape, setting.classes)
    shapes = chain.tensor_shapes()
    codes: Mapping[str, AbstractTensorCode] | Subspace
    if scheme == SUBSPACE:
        choices = Subspace.blank().code_choices(reader, shapes.values())
        codes, end = choices.code_integers(reader).with_blocks(bits, reader.finish())
    else:
        tensors = [read_tensor(reader, shape) for shape in shapes.values()]
        complete, end = read_blocks(bits, reader.finish(), tensors)
        codes = dict(zip(shapes, complete, strict=True))
    _require_end(end, bits)
    if not isinstance(codes, Subspace):
        codes = {name: code.solve(proofs) for name, code in codes.items()}
    if proofs is not None:
        proofs.require_end()
    return Message(options, chain, codes)


def _read_architecture(reader: Reader, input_shape: tuple[int, ...], classes: int) -> Chain:
    """The chain that a message describes."""
    kind = gamma(reader, 0)
    if kind == FACTORY:
        raise FormatError("its architecture is code of others (a factory), which this program does not run.")
    if kind not in (CHAIN, GRID):
        raise FormatError(f"architecture {kind} is unknown.")
    try:
        chain = Chain(
            input_shape,
            _code_chain(reader, (), classes=classes)
            if kind == CHAIN
            else BLANK_POINT.code(reader).operations(classes),
        )
    except ModelError as error:
        raise FormatError(f"the message describes no network: {error}") from error
    _require_modest(reader, chain)
    _require_few(reader, chain.tensor_shapes().values())
    return chain


def _read_head(reader: Reader, input_shape: tuple[int, ...], classes: int) -> Message:
    """A short message, but for the check of its end."""
    form = code_form(reader, HEAD)
    if form == RULE:
        raise FormatError("the message names a rule: give the tensors of the network that it learned.")
    loss = read_loss(reader, classes) if has_other_loss(reader, WRONG) else WRONG
    tenths = uniform(reader, 0, 9) + 1 if form == SPLIT_HEAD else None
    setting = Setting(classes, code_scaling(reader, Setting(2).scaling, input_shape), loss)
    if bit(reader, 0):
        chain = Chain(input_shape, (Linear(classes, True),))
        _require_modest(reader, chain)
        _require_few(reader, chain.tensor_shapes().values())
    else:
        chain = _read_architecture(reader, input_shape, classes)
    shapes = chain.tensor_shapes()
    codes: dict[str, AbstractTensorCode] = {name: Zero(shape) for name, shape in shapes.items()}
    name = list(shapes)[-1]
    codes[name] = _code_biases(reader, codes[name], classes)
    return Message(Options(tenths, None, True, setting), chain, codes, is_short=True)


def _is_small(code: AbstractTensorCode, classes: int) -> bool:
    """Return True if a tensor is zero, or has biases that a short message can say."""
    if isinstance(code, Zero):
        return True
    if not isinstance(code, AbstractGridCode) or code.shape != (classes,):
        return False
    octave, rest = divmod(code.step, _STEPS_OF_OCTAVE)
    return rest == 0 and octave in OCTAVES and int(np.abs(code.levels).max()) <= 1


def _code_biases(coder: AbstractCoder, given: AbstractTensorCode, classes: int) -> AbstractTensorCode:
    """Code or read what is added to the last tensor of a base.

    That is nothing, or -1, 0 or 1 of a unit for each class.
    """
    if not bit(coder, isinstance(given, AbstractGridCode)):
        return Zero(given.shape)
    coder.require(given.shape == (classes,), "the last tensor of the base has no element for each class.")
    levels, step = [0] * classes, 0
    if isinstance(given, AbstractGridCode):
        levels, step = given.levels.tolist(), given.step
    octave = OCTAVES[uniform(coder, step // _STEPS_OF_OCTAVE - OCTAVES[0], len(OCTAVES))]
    found = []
    for level in levels:
        slot = coder.locate((0, 1, 3)[level + 1], 4)
        cum, freq = ((0, 1), (1, 2), (1, 2), (3, 1))[slot]
        coder.narrow(cum, freq, 4)
        found.append(-1 if cum == 0 else 1 if cum == 3 else 0)
    return Dense(np.array(found, dtype=np.int32), octave * _STEPS_OF_OCTAVE, 1)


def _require_end(end: int, bits: Bits) -> None:
    if end != bits.length:
        raise FormatError(f"the message ends after {end} bits, the file has {bits.length}.")


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
