"""Short messages: what is usual, in few bits (docs/format-3.md, section 5.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .faults import WRONG, Fault, decode_fault, decode_new_fault
from .refusal import Refused
from .tensors import Content, Shape

if TYPE_CHECKING:
    from .arithmetic import Decoder
    from .header import Header

NAME = "form"  # the first part of the ledger of a short message
HEAD, HEAD_AFTER_SPLIT, RULE = "a head", "a head after a split", "a rule"
UNITS = range(-12, 4)  # powers of 2 that biases are multiples of
ENDS = ((1, -1), (3, 0), (4, 1))  # of four slots, those below belong to that integer


def is_short(header: Header) -> bool:
    """Whether the message is a short one: its ledger says so, and the decoder finds out if it lies."""
    return header.version.has_short and header.ledger[0][0] == NAME


def read_form(decoder: Decoder) -> str:
    """What kind of short message it is."""
    if not decoder.bit():
        raise Refused("Message: a short message begins with a one.")
    if decoder.bit():
        return HEAD
    return HEAD_AFTER_SPLIT if decoder.bit() else RULE


def read_flag_of_fault(decoder: Decoder) -> bool:
    """Whether a fault follows."""
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
    """What is added to the last tensor of the base; None for nothing."""
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
