"""The message (docs/format.md, section 5): options, architecture, tensors, blocks, and its own ledger."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ..arithmetic import Decoder, Witness
from ..faults import WRONG, Fault, decode_fault, decode_new_fault
from ..refusal import Refused
from .chain import Chain, Layout, read_chain
from .codes import read_tensor
from .setting import read_setting
from .tensors import TENSOR_LIMIT, Blocks, Content, Recipe, Shape, Static, Values, grid, to_float32

if TYPE_CHECKING:
    from ..container import Certificate
    from ..header import Header
    from ..learn.rule import Rule
    from ..weights import Floats

ELEMENTS_LIMIT = 1 << 26
FAULT, NEW_FAULT = 4, 6  # in front of the scheme: a fault follows
SHORT = "form"  # the first part of the ledger of a short message

Complete: TypeAlias = Callable[[str, Content | Static], Content]  # reads what stands in a block
Making: TypeAlias = Callable[[Complete], Iterator[Values]]  # the numbers of each tensor in turn


@dataclass(frozen=True)
class Network:
    """Content of a message: g as a chain with its tensors, or the rule that it is learned by."""

    chain: Chain | None
    tensors: Mapping[str, Floats]
    split: int | None  # tenths of the sample that shaped the helper (C-10)
    theta: float | None  # the margin of C-12a
    ledger: tuple[tuple[str, int], ...]
    rule: Rule | None = None  # how g is learned from the sample, in place of tensors (C-15)


def decode(
    certificate: Certificate,
    *,
    base: Mapping[str, Floats] | None = None,
) -> Network:
    """Decode the whole message and check that it ends where the header says.

    Args:
        certificate: A well-formed file.
        base: Tensors that the decoded ones are differences to, if the header names a base.
    """
    header = certificate.header
    if header.base is not None and base is None:
        raise Refused(f"The base {header.base.name} is outside the file: give it with --base.")
    witness = Witness(certificate.witness) if header.version.has_witness else None
    decoder = Decoder(certificate.message, header.code_bits, witness=witness)
    ledger = Ledger(decoder)
    if is_short(header):
        from .short import read_short

        return read_short(decoder, header, ledger, base or {})
    scheme = _read_scheme(decoder, header, ledger)
    split, theta, has_base = _read_options(decoder, header)
    ledger.close("options")
    agree("a rule", scheme == 3, "the statement is C-15", header.statement == "C-15")
    if scheme == 3:
        return _read_rule(decoder, header, ledger)
    chain = read_architecture(decoder, header)
    ledger.close("architecture")

    layout = chain.layout()
    starts = starting_from(layout, base) if has_base and base is not None else {}
    check_sizes(layout)
    if scheme == 1:
        values = _read_tensors(decoder, layout, ledger)
    else:
        values = _read_subspace(decoder, layout, ledger, has_base=has_base)
    tensors = _complete(certificate, decoder, ledger, values, layout, starts)
    return Network(chain, tensors, split, theta, tuple(ledger.entries))


def _complete(
    certificate: Certificate,
    decoder: Decoder,
    ledger: Ledger,
    values: Making,
    layout: Layout,
    starts: Mapping[str, Floats],
) -> Mapping[str, Floats]:
    """The tensors, with the blocks behind the code word and with the base; nothing may be left over."""
    header = certificate.header
    start = decoder.finish()
    ledger.add("end", start - decoder.shifts)
    blocks = Blocks(certificate.message, start, header.code_bits)

    def complete(name: str, part: Content | Static) -> Content:
        if isinstance(part, Content):
            return part
        content, bits = blocks.read(part)
        ledger.add(f"block {name}", bits)
        return content

    tensors = {
        name: rounded(name, numbers, shape, starts.get(name))
        for (name, shape), numbers in zip(layout, values(complete), strict=True)
    }
    if decoder.witness is not None:
        decoder.witness.finish()
    if (used := sum(bits for _, bits in ledger.entries)) != header.code_bits:
        raise Refused(f"Message: decoding it takes {used} bits, but facts.code_bits is {header.code_bits}.")
    return tensors


def is_short(header: Header) -> bool:
    """Return True if the ledger says that the message is short; the decoder finds out if it lies."""
    return header.version.has_short and header.ledger[0][0] == SHORT


class Ledger:
    """The parts of a message and their bits, in order."""

    def __init__(self, decoder: Decoder) -> None:
        self.entries: list[tuple[str, int]] = []
        self._decoder = decoder
        self._counted = 0

    def add(self, part: str, bits: int) -> None:
        """Note a part of so many bits."""
        self.entries.append((part, bits))

    def close(self, part: str) -> None:
        """Note what the decoder has read since the part before."""
        self.add(part, self._decoder.shifts - self._counted)
        self._counted = self._decoder.shifts


def _read_scheme(decoder: Decoder, header: Header, ledger: Ledger) -> int:
    """Setting and fault, which are those of the header, and the number of the scheme."""
    if header.version.codes_setting:
        read_setting(decoder, header)
        ledger.close("setting")
    scheme, fault = decoder.gamma(), WRONG
    if scheme == FAULT and header.version.codes_setting:
        fault = decode_fault(decoder, header.classes)
        ledger.close("fault")
        scheme = decoder.gamma()
    elif scheme == NEW_FAULT and header.version.has_tally:
        fault = decode_new_fault(decoder, header.classes)
        ledger.close("fault")
        scheme = decoder.gamma()
    agree_on_fault(fault, header)
    if scheme > header.version.schemes:
        raise Refused(f"Message: scheme {scheme} is unknown; those up to {header.version.schemes} are known.")
    ledger.close("method")  # what files call the scheme
    return scheme


def _read_options(decoder: Decoder, header: Header) -> tuple[int | None, float | None, bool]:
    """The split of C-10, the margin of C-12a, and whether there is a base: all as the header has them."""
    split = decoder.uniform(9) + 1 if decoder.bit() else None
    theta = None
    if decoder.bit():
        if abs(j := decoder.signed()) > 8000:
            raise Refused(f"Message: theta has exponent {j}; -8000 to 8000 is allowed.")
        theta = grid(j)
    has_base = bool(decoder.bit())
    agree("a split fraction", split is not None, "the statement is C-10", header.statement == "C-10")
    agree("a margin theta", theta is not None, "the statement is C-12a", header.statement == "C-12a")
    agree("differences to a base", has_base, "the header names a base", header.base is not None)
    return split, theta, has_base


def read_architecture(decoder: Decoder, header: Header) -> Chain:
    """The chain of the message."""
    if (architecture := decoder.gamma()) > 3:
        raise Refused(f"Message: architecture {architecture} is unknown; 1 is a chain, 3 a stack.")
    if architecture == 2:
        raise Refused(
            "Message: the architecture is code of others (a factory), which this program does not run."
        )
    if architecture == 3:
        from .stack import read_stack

        return read_stack(decoder, header.input_shape, header.classes)
    return read_chain(decoder, header.input_shape, header.classes)


def _read_rule(decoder: Decoder, header: Header, ledger: Ledger) -> Network:
    """Scheme 3: the rule that learns g from the sample (section 10)."""
    from ..learn.rule import read_rule

    rule = read_rule(decoder, header.input_shape, has_layers=header.version.has_layers)
    ledger.close("rule")
    finish_word(decoder, header, ledger)
    return Network(None, {}, None, None, tuple(ledger.entries), rule)


def finish_word(decoder: Decoder, header: Header, ledger: Ledger) -> None:
    """The end of a message without blocks and without a witness."""
    end = decoder.finish()
    ledger.add("end", end - decoder.shifts)
    if decoder.witness is not None:
        decoder.witness.finish()
    if end != header.code_bits:
        raise Refused(f"Message: decoding it takes {end} bits, but facts.code_bits is {header.code_bits}.")


def agree_on_fault(fault: Fault, header: Header) -> None:
    """Check that the fault of the message is that of the header."""
    if fault != header.fault:
        raise Refused(f"Message: it counts the fault {fault.text}; claim.fault is {header.fault.text}.")


def check_sizes(layout: Layout) -> None:
    """Check that the tensors are within the limits, one by one and together."""
    sizes = [math.prod(shape) for _, shape in layout]
    if (total := sum(sizes)) > ELEMENTS_LIMIT:
        raise Refused(f"Message: the network has {total} elements; at most {ELEMENTS_LIMIT} are allowed.")
    if (largest := max(sizes, default=0)) > TENSOR_LIMIT:
        raise Refused(f"Message: a tensor has {largest} elements; at most {TENSOR_LIMIT} are allowed.")


def _read_tensors(decoder: Decoder, layout: Layout, ledger: Ledger) -> Making:
    """Scheme 1: tensors that are coded one by one (4.3)."""
    recipes: list[tuple[str, Recipe]] = []
    for name, shape in layout:
        recipes.append((name, read_tensor(decoder, shape)))
        ledger.close(name)

    def values(complete: Complete) -> Iterator[Values]:
        while recipes:
            name, recipe = recipes.pop(0)
            yield recipe.make(*[complete(name, part) for part in recipe.parts])

    return values


def _read_subspace(decoder: Decoder, layout: Layout, ledger: Ledger, *, has_base: bool) -> Making:
    """Scheme 2: tensors that are all made of the same integers (5.4)."""
    from .subspace import read_integers, read_subspace

    subspace = read_subspace(decoder, sum(math.prod(shape) for _, shape in layout))
    ledger.close("subspace")
    integers = read_integers(decoder, subspace)
    ledger.close("integers")
    return lambda complete: subspace.values(complete("integers", integers), layout, has_base=has_base)


def rounded(name: str, numbers: Values, shape: Shape, base: Floats | None) -> Floats:
    """The float32 tensor of a name that numbers, added to its base, make."""
    try:
        return to_float32(numbers, shape, base)
    except Refused as refused:
        raise Refused(f"{refused} The tensor is {name}.") from None


def agree(what: str, is_coded: bool, why: str, is_expected: bool) -> None:
    """Refuse a part that is coded or left out contrary to the header."""
    if is_coded != is_expected:
        raise Refused(
            f"Message: it has {'' if is_coded else 'not '}{what}, which is right exactly when {why}; "
            f"here that is {'true' if is_expected else 'false'}."
        )


def starting_from(layout: Layout, base: Mapping[str, Floats]) -> Mapping[str, Floats]:
    """The base, if it has every tensor of the network."""
    for name, shape in layout:
        if name not in base:
            raise Refused(f"Base: it has no tensor {name}; every tensor of the network must be in it.")
        if base[name].shape != shape:
            raise Refused(f"Base: tensor {name} has shape {base[name].shape}; the network needs {shape}.")
    return base
