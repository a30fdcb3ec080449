"""Short messages: what is usual, in few bits (docs/format-3.md, section 5.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..faults import WRONG, Fault, decode_fault, decode_new_fault
from ..header import Picked
from ..learn.rule import Columns, read_rule_without_picks
from ..refusal import Refused
from .chain import fit
from .message import (
    SHORT,
    Ledger,
    Network,
    agree,
    agree_on_fault,
    check_sizes,
    finish_word,
    read_architecture,
    rounded,
    starting_from,
)
from .operations import Operation
from .setting import read_scaling
from .tensors import Content, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..arithmetic import Decoder
    from ..header import Header
    from ..weights import Floats

HEAD, HEAD_AFTER_SPLIT, RULE = "a head", "a head after a split", "a rule"
UNITS = range(-12, 4)  # powers of 2 that biases are multiples of
ENDS = ((1, -1), (3, 0), (4, 1))  # of four slots, those below belong to that integer


def read_short(
    decoder: Decoder,
    header: Header,
    ledger: Ledger,
    base: Mapping[str, Floats],
) -> Network:
    """A short message (docs/format-3.md, sections 5.7 and 10.9)."""
    form = read_form(decoder)
    has_fault = read_flag_of_fault(decoder)
    ledger.close(SHORT)
    fault = read_fault(decoder, header.classes) if has_fault else WRONG
    if has_fault:
        ledger.close("fault")
    agree_on_fault(fault, header)
    agree("a rule", form == RULE, "the statement is C-15", header.statement == "C-15")
    agree("differences to a base", form != RULE, "the header names a base", header.base is not None)
    if isinstance(header.extra, Picked):
        rule = read_rule_without_picks(decoder, header.input_shape, header.extra.first)
        if not isinstance(rule.features, Columns):
            read_scaling(decoder, header, literal=False)
        ledger.close("rule")
        finish_word(decoder, header, ledger)
        return Network(None, {}, None, None, tuple(ledger.entries), rule)

    is_split = form == HEAD_AFTER_SPLIT
    agree("a split", is_split, "the statement is C-10", header.statement == "C-10")
    agree("no margin theta", True, "the statement is not C-12a", header.statement != "C-12a")
    split = decoder.uniform(9) + 1 if is_split else None
    read_scaling(decoder, header)
    ledger.close("setting")
    if decoder.bit():
        linear = Operation("linear", out=header.classes, bias=1)
        chain = fit([linear], header.input_shape, header.classes)
    else:
        chain = read_architecture(decoder, header)
    ledger.close("architecture")
    layout = chain.layout()
    starts = starting_from(layout, base)
    check_sizes(layout)
    added = read_biases(decoder, layout[-1][1], header.classes)
    ledger.close("biases")
    finish_word(decoder, header, ledger)
    tensors = {name: starts[name] for name, _ in layout}
    if added is not None:
        name, shape = layout[-1]
        tensors[name] = rounded(name, added.values(), shape, starts[name])
    return Network(chain, tensors, split, None, tuple(ledger.entries))


def read_form(decoder: Decoder) -> str:
    """Read the kind of a short message."""
    if not decoder.bit():
        raise Refused("Message: a short message begins with a one.")
    if decoder.bit():
        return HEAD
    return HEAD_AFTER_SPLIT if decoder.bit() else RULE


def read_flag_of_fault(decoder: Decoder) -> bool:
    """Read the flag of a fault: True if one follows."""
    return bool(decoder.choose(7, 8))


def read_fault(decoder: Decoder, classes: int) -> Fault:
    """The fault that follows."""
    word = decoder.gamma()
    if word not in (4, 6):
        raise Refused(f"Message: a fault is announced by 4 or 6; {word} is coded.")
    found = decode_fault(decoder, classes) if word == 4 else decode_new_fault(decoder, classes)
    assert found != WRONG  # which has no code
    return found


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
