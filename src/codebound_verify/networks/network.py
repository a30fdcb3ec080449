"""The network that a message describes: architecture and tensors, or a head (docs/format.md, section 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..message import HEAD_AFTER_SPLIT, agree, read_scaling
from ..refusal import Refused, quote
from .chain import Chain, Layout, fit, read_chain, read_stack
from .operations import Operation
from .tensors import TENSOR_LIMIT, Blocks, Content, Recipe, Shape, Static, Values, read_tensor, to_float32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..arithmetic import Decoder
    from ..header import Header
    from ..message import Message
    from ..weights import Floats

ELEMENTS_LIMIT = 1 << 26
UNITS = range(-12, 4)  # powers of 2 that biases are multiples of
ENDS = ((1, -1), (3, 0), (4, 1))  # of four slots, those below belong to that integer

Complete: TypeAlias = Callable[[str, Content | Static], Content]  # reads what stands in a block
Making: TypeAlias = Callable[[Complete], Iterator[Values]]  # the numbers of each tensor in turn


@dataclass(frozen=True)
class Network:
    """Content of a message: g as a chain with its tensors."""

    chain: Chain
    tensors: Mapping[str, Floats]
    split: int | None = None  # tenths of the sample that shaped the helper (C-10)
    theta: float | None = None  # the margin of C-12a

    def check_weights(self, given: Mapping[str, NDArray[Any]]) -> None:
        """Check that weights that were handed over are the decoded tensors."""
        if missing := sorted(self.tensors.keys() ^ given.keys()):
            raise Refused(
                f"Weights: {quote(missing[0])} is a tensor of g, or of these weights, but not of both."
            )
        wrong = [name for name in sorted(given) if not np.array_equal(given[name], self.tensors[name])]
        if wrong:
            raise Refused(f"Weights: {quote(wrong[0])} is not the tensor of the network that was certified.")


def decode(message: Message, base: Mapping[str, Floats] | None = None) -> Network:
    """Decode the rest of a message, and check that it ends where the header says.

    Args:
        message: One that does not describe a rule, read up to its form or its options.
        base: Tensors that the decoded ones are differences to, if the header names a base.
    """
    if message.form is not None:
        return _decode_head(message, base or {})
    decoder, header = message.decoder, message.header
    chain = read_architecture(decoder, header)
    message.close("architecture")
    layout = chain.layout()
    starts = _require_base(layout, base) if message.has_base and base is not None else {}
    _check_sizes(layout)
    values = (_read_tensors if message.scheme == 1 else _read_subspace)(message, layout)
    return Network(chain, _complete(message, values, layout, starts), message.split, message.theta)


def _decode_head(message: Message, base: Mapping[str, Floats]) -> Network:
    """The network of a base, perhaps with other biases (docs/format-3.md, sections 5.7 and 10.9)."""
    decoder, header, is_split = message.decoder, message.header, message.form == HEAD_AFTER_SPLIT
    agree("a split", is_split, "the statement is C-10", header.statement == "C-10")
    agree("no margin theta", True, "the statement is not C-12a", header.statement != "C-12a")
    split = decoder.uniform(9) + 1 if is_split else None
    read_scaling(decoder, header)
    message.close("setting")
    if decoder.bit():
        linear = Operation("linear", out=header.classes, bias=1)
        chain = fit([linear], header.input_shape, header.classes)
    else:
        chain = read_architecture(decoder, header)
    message.close("architecture")
    layout = chain.layout()
    starts = _require_base(layout, base)
    _check_sizes(layout)
    added = read_biases(decoder, layout[-1][1], header.classes)
    message.close("biases")
    message.finish_word()
    message.finish()
    tensors = {name: starts[name] for name, _ in layout}
    if added is not None:
        name, shape = layout[-1]
        tensors[name] = _round(name, added.values(), shape, starts[name])
    return Network(chain, tensors, split)


def _complete(
    message: Message, values: Making, layout: Layout, starts: Mapping[str, Floats]
) -> Mapping[str, Floats]:
    """The tensors, with the blocks behind the code word and with the base; nothing may be left over."""
    blocks = Blocks(message.certificate.message, message.finish_word(), message.header.code_bits)

    def complete(name: str, part: Content | Static) -> Content:
        if isinstance(part, Content):
            return part
        content, bits = blocks.read(part)
        message.add(f"block {name}", bits)
        return content

    tensors = {
        name: _round(name, numbers, shape, starts.get(name))
        for (name, shape), numbers in zip(layout, values(complete), strict=True)
    }
    message.finish()
    return tensors


def read_architecture(decoder: Decoder, header: Header) -> Chain:
    """The chain of the message."""
    if (architecture := decoder.gamma()) > 3:
        raise Refused(f"Message: architecture {architecture} is unknown; 1 is a chain, 3 a stack.")
    if architecture == 2:
        raise Refused(
            "Message: the architecture is code of others (a factory), which this program does not run."
        )
    if architecture == 3:
        return read_stack(decoder, header.input_shape, header.classes)
    return read_chain(decoder, header.input_shape, header.classes)


def _check_sizes(layout: Layout) -> None:
    """Check that the tensors are within the limits, one by one and together."""
    sizes = [math.prod(shape) for _, shape in layout]
    if (total := sum(sizes)) > ELEMENTS_LIMIT:
        raise Refused(f"Message: the network has {total} elements; at most {ELEMENTS_LIMIT} are allowed.")
    if (largest := max(sizes, default=0)) > TENSOR_LIMIT:
        raise Refused(f"Message: a tensor has {largest} elements; at most {TENSOR_LIMIT} are allowed.")


def _read_tensors(message: Message, layout: Layout) -> Making:
    """Scheme 1: tensors that are coded one by one (4.3)."""
    recipes: list[tuple[str, Recipe]] = []
    for name, shape in layout:
        recipes.append((name, read_tensor(message.decoder, shape)))
        message.close(name)

    def values(complete: Complete) -> Iterator[Values]:
        while recipes:
            name, recipe = recipes.pop(0)
            yield recipe.make(*[complete(name, part) for part in recipe.parts])

    return values


def _read_subspace(message: Message, layout: Layout) -> Making:
    """Scheme 2: tensors that are all made of the same integers (5.4)."""
    from .subspace import read_integers, read_subspace

    subspace = read_subspace(message.decoder, sum(math.prod(shape) for _, shape in layout))
    message.close("subspace")
    integers = read_integers(message.decoder, subspace)
    message.close("integers")
    has_base = message.has_base
    return lambda complete: subspace.values(complete("integers", integers), layout, has_base=has_base)


def _round(name: str, numbers: Values, shape: Shape, base: Floats | None) -> Floats:
    """The float32 tensor of a name that numbers, added to its base, make."""
    try:
        return to_float32(numbers, shape, base)
    except Refused as refused:
        raise Refused(f"{refused} The tensor is {name}.") from None


def _require_base(layout: Layout, base: Mapping[str, Floats]) -> Mapping[str, Floats]:
    """The base, if it has every tensor of the network."""
    for name, shape in layout:
        if name not in base:
            raise Refused(f"Base: it has no tensor {name}; every tensor of the network must be in it.")
        if base[name].shape != shape:
            raise Refused(f"Base: tensor {name} has shape {base[name].shape}; the network needs {shape}.")
    return base


def read_biases(decoder: Decoder, shape: Shape, classes: int) -> Content | None:
    """Read the biases that the last tensor of the base gains; None for none."""
    if not decoder.bit():
        return None
    if shape != (classes,):
        raise Refused(
            f"Message: biases are added to a tensor of shape {shape}, which is not one for {classes} classes."
        )
    unit = UNITS[decoder.uniform(len(UNITS))]
    found, start = [], 0
    for _ in range(classes):
        slot, start = decoder.slot(4), 0
        for end, integer in ENDS:
            if slot < end:
                decoder.take(start, end - start, 4)
                found.append(integer)
                break
            start = end
    return Content(np.array(found, np.int32), 8 * unit)
