"""Classes and scaling, which begin every message (docs/format.md, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..header import CLASSES_LIMIT, CONSTANTS_LIMIT, Scaling
from ..refusal import Refused

if TYPE_CHECKING:
    from ..arithmetic import Decoder
    from ..header import Header

DIVISORS = (1.0, 255.0, 16.0)  # with mean 0 and std 1; the word behind them announces literal constants


def read_setting(decoder: Decoder, header: Header) -> None:
    """Read the number of classes and the scaling; they must be those that the header repeats."""
    classes = decoder.size("classes - 1", CLASSES_LIMIT - 1) + 1
    if classes != header.classes:
        raise Refused(f"Message: it is about {classes} classes; facts.classes is {header.classes}.")
    read_scaling(decoder, header)


def read_scaling(decoder: Decoder, header: Header, *, literal: bool = True) -> None:
    """Read the scaling, which must be that of the header; constants are refused unless ``literal``."""
    word = decoder.uniform(len(DIVISORS) + 1)
    if word == len(DIVISORS) and not literal:
        raise Refused("Message: a rule that picks nothing has one of the listed scalings.")
    scaling = Scaling(DIVISORS[word], (0.0,), (1.0,)) if word < len(DIVISORS) else _literal(decoder)
    if scaling != header.scaling:
        raise Refused(f"Message: its scaling is {scaling}; helper.scaling is {header.scaling}.")


def _literal(decoder: Decoder) -> Scaling:
    count = decoder.uniform(CONSTANTS_LIMIT) + 1
    divisor, *rest = (decoder.float32() for _ in range(2 * count + 1))
    return Scaling(divisor, tuple(rest[:count]), tuple(rest[count:]))
