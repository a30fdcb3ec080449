"""The network that a message describes, from its setting to its tensors (docs/format.md, 8.1 and 8.8)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..container import Container
from ..header import Header
from ..message import Bits
from ..refusal import Lacking, Refused, quote
from ..sample import Data, parts
from ..stream import Stream
from ..weights import same_tensors
from .arithmetic import Decoder, Witness, grid
from .chain import Chain, Layout, read_chain, read_stack
from .draws import quarters
from .scaling import Scaling, check_constants, read_scaling
from .tensors import (
    TENSOR_LIMIT,
    TILE,
    Blocks,
    Content,
    Doubles,
    Floats,
    Recipe,
    Static,
    as_matrix,
    read_inner,
    read_tensor,
    to_float32,
)

CLASSES_LIMIT = 1 << 16
THETA_LIMIT = 8000
ELEMENTS_LIMIT = 1 << 26
COUNTING_LIMIT = 1 << 46  # rows times the multiplications of one

SUBSPACE_LIMIT = 1 << 20
START_WORK = 16  # what drawing the start of an element counts as
Complete: TypeAlias = Callable[[str, Content | Static], Content]  # reads what stands in a block
Making: TypeAlias = Callable[[Complete], Iterator[Doubles]]  # the numbers of each tensor in turn


@dataclass(frozen=True)
class Network:
    """Content of a message: g as a chain with its tensors, and the stored inputs of the sample."""

    chain: Chain
    tensors: Mapping[str, Floats]
    scaling: Scaling
    theta: float = 0.0  # the margin of a claim on a bounded domain
    x: NDArray[Any] = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def classes(self) -> NDArray[np.int64]:
        """Label of each logit."""
        return np.arange(self.chain.operations[-1].out, dtype=np.int64)

    def check_weights(self, given: Mapping[str, NDArray[Any]]) -> None:
        """Check that weights that were handed over are the decoded tensors."""
        if missing := sorted(self.tensors.keys() ^ given.keys()):
            raise Refused(
                f"Weights: {quote(missing[0])} is a tensor of g, or of these weights, but not of both."
            )
        wrong = [name for name in sorted(given) if not np.array_equal(given[name], self.tensors[name])]
        if wrong:
            raise Refused(f"Weights: {quote(wrong[0])} is not the tensor of the network that was certified.")


def read_network(
    bits: Bits, container: Container, data: Data, base: Mapping[str, NDArray[Any]] | None
) -> Network:
    """Read the rest of a message behind the word of a network, and note its ledger.

    The decoded tensors are differences to those of ``base`` if the header names one.
    """
    header = container.header
    _check_known(header)
    if data.is_cells:
        raise Refused("Network: it reads numbers, and the sample has cells.")
    starts = _check_base(header, base)
    witness = Witness(container.witness)
    decoder = Decoder(bits, witness)
    shape = header.sample.input_shape
    classes = decoder.size("classes - 1", CLASSES_LIMIT - 1) + 1
    if classes != header.sample.classes:
        raise Refused(f"Message: it is about {classes} classes; sample.classes is {header.sample.classes}.")
    scaling = read_scaling(decoder, shape)
    decoder.note("setting")
    is_subspace, theta = decoder.bit(), _read_theta(decoder, header)
    _agree(decoder.bit(), "tensors are differences to a base", starts is not None, "known.base is one")
    decoder.note("options")
    chain = (read_stack if decoder.bit() else read_chain)(decoder, shape, classes)
    decoder.note("architecture")
    layout = chain.layout()
    _check_sizes(chain, layout, header.sample.rows)
    if starts is not None:
        _check_layout(layout, starts)
    if is_subspace:
        making = _read_subspace(decoder, layout, has_base=starts is not None)
    else:
        making = _read_tensors(decoder, layout)
    decoder.finish()
    tensors = _complete(making, Blocks(bits), layout, starts or {})
    witness.finish()
    check_constants(scaling, data.x)
    return Network(chain, tensors, scaling, theta, data.x)


def _check_known(header: Header) -> None:
    """Check that what is known are the rows that base and features learned from (4.1)."""
    known = header.known
    expected = max((made.rows for made in (known.base, known.features) if made is not None), default=0)
    if known.rows != expected:
        raise Refused(
            f"Known: known.rows is {known.rows}; for this network it is {expected}, the rows that its base "
            "or features learned from."
        )


def _check_base(header: Header, base: Mapping[str, NDArray[Any]] | None) -> Mapping[str, NDArray[Any]] | None:
    """The tensors of the base that the header names, or None if it names none."""
    if (made := header.known.base) is None:
        return None
    if base is None:
        raise Lacking("its base (--base)")
    return same_tensors(base, made.sha256, "Base")


def _read_theta(decoder: Decoder, header: Header) -> float:
    """The margin of 9.2, which is there exactly where it is used."""
    has_theta = decoder.bit()
    is_used = header.original is not None and header.original.domain is not None
    _agree(has_theta, "it has a margin theta", is_used, "original.domain is one")
    return grid(decoder.signed("the exponent of theta", THETA_LIMIT)) if has_theta else 0.0


def _agree(is_coded: int, what: str, is_expected: bool, why: str) -> None:
    """Refuse a part that is coded or left out contrary to the header."""
    if bool(is_coded) != is_expected:
        raise Refused(
            f"Message: that {what} is {'true' if is_coded else 'false'}, that {why} is "
            f"{'true' if is_expected else 'false'}; they have to agree."
        )


def _check_sizes(chain: Chain, layout: Layout, rows: int) -> None:
    """Check the tensors, one by one and together, and the work of counting."""
    sizes = [math.prod(shape) for _, shape in layout]
    if (total := sum(sizes)) > ELEMENTS_LIMIT:
        raise Refused(f"Message: the network has {total} elements; at most {ELEMENTS_LIMIT} are allowed.")
    if (largest := max(sizes)) > TENSOR_LIMIT:
        raise Refused(f"Message: a tensor has {largest} elements; at most {TENSOR_LIMIT} are allowed.")
    if (work := rows * chain.work) > COUNTING_LIMIT:
        raise Refused(f"Message: all rows take {work} multiplications; at most {COUNTING_LIMIT} are allowed.")


def _check_layout(layout: Layout, base: Mapping[str, NDArray[Any]]) -> None:
    """Check that the base has every tensor of the network."""
    for name, shape in layout:
        if name not in base:
            raise Refused(f"Base: it has no tensor {name}; every tensor of the network must be in it.")
        if base[name].shape != shape:
            raise Refused(f"Base: tensor {name} has shape {base[name].shape}; the network needs {shape}.")


def _read_tensors(decoder: Decoder, layout: Layout) -> Making:
    """Tensors that are coded one by one (8.4)."""
    recipes: list[tuple[str, Recipe]] = []
    for name, shape in layout:
        recipes.append((name, read_tensor(decoder, shape)))
        decoder.note(name)

    def values(complete: Complete) -> Iterator[Doubles]:
        while recipes:  # what a tensor was made of is let go with it
            name, recipe = recipes.pop(0)
            yield recipe.make(*[complete(name, part) for part in recipe.parts])

    return values


def _read_subspace(decoder: Decoder, layout: Layout, *, has_base: bool) -> Making:
    """Tensors that are all made of the same integers (8.8). With a base they have no start."""
    size = decoder.size("the size d of a subspace", SUBSPACE_LIMIT)
    entries = 1 << decoder.uniform(3)
    decoder.work.spend((START_WORK + entries) * sum(math.prod(shape) for _, shape in layout))
    step, has_zero_head, seed = grid(decoder.exponent()), decoder.bit(), decoder.seed()
    decoder.note("subspace")
    integers = read_inner(decoder, (size,))
    if integers.exponent != 0:
        raise Refused(f"Message: the integers of a subspace have step {integers.exponent}; it must be 0.")
    decoder.note("integers")
    hashes, starts = Stream(seed, "hash"), Stream(seed, "start")
    head = [name for name, shape in layout if len(shape) > 1][-1:] if has_zero_head else []

    def values(complete: Complete) -> Iterator[Doubles]:
        q, first, half = complete("integers", integers).data, 0, np.uint64(32)
        for name, shape in layout:
            has_start = len(shape) > 1 and name not in head and not has_base
            scale = 0.5 ** ((as_matrix(shape)[1].bit_length() - 1) // 2) if len(shape) > 1 else 1.0
            found = np.empty(math.prod(shape))
            for part in parts(found.size, TILE):
                begin, count = first + part.start, part.stop - part.start
                words = hashes.words(begin * entries, count * entries)
                terms = q[(words >> half) * np.uint64(size) >> half] * np.where(words & np.uint64(1), -1, 1)
                found[part] = terms.reshape(count, entries).sum(axis=1) * step
                if has_start:
                    found[part] += quarters(starts.words(begin, count)) / 4
            first += found.size
            yield found * scale

    return values


def _complete(
    making: Making, blocks: Blocks, layout: Layout, starts: Mapping[str, NDArray[Any]]
) -> Mapping[str, Floats]:
    """The tensors, with the blocks behind the code word and with the base."""

    def complete(name: str, part: Content | Static) -> Content:
        return part if isinstance(part, Content) else blocks.read(part, name)

    return {
        name: to_float32(numbers, shape, starts.get(name))
        for (name, shape), numbers in zip(layout, making(complete), strict=True)
    }
