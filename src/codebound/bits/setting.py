"""Setting of a message: classes, scaling and loss (docs/format.md, section 5).

All of it could be chosen after a look at the sample: so it is paid for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from codebound.bits.numbers import SymbolContext, bit, float32, gamma, uniform
from codebound.run.errors import DataError
from codebound.sample.dataset import Scaling
from codebound.sample.losses import DISTANCE, LOSSES, MOST_CLASSES, MOST_COST, WRONG, Loss, cost_matrix

if TYPE_CHECKING:
    from collections.abc import Callable

    from codebound.bits.arithmetic import AbstractCoder

CATALOGUE = (Scaling(1.0), Scaling(255.0), Scaling(16.0))
"""Scalings that cost two bits; all others are literal, at 32 bits a constant."""
MAX_CLASSES = 1 << 16
LOSS, NEW_LOSS = 4, 6
"""Words that announce a loss other than plain errors; 6 for those new in version 3."""
HEAD, SPLIT_HEAD, RULE = 0, 1, 2
"""Forms of a short message: base with biases, the same after a split, rule without picks."""
FORM = "form"
"""The first part of the ledger of a short message."""
MAX_CONSTANTS = 4
"""Means, and deviations, of a literal scaling."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The number of classes, how stored values become inputs, and the loss that is counted."""

    classes: int
    scaling: Scaling = CATALOGUE[0]
    loss: Loss = WRONG

    def code(self, coder: AbstractCoder, input_shape: tuple[int, ...] | None = None) -> Setting:
        """Classes and scaling, coded or read, without the loss.

        Where the shape of an input is known, the constants have to fit it.
        """
        classes = gamma(coder, self.classes - 1) + 1
        coder.require(classes <= MAX_CLASSES, f"at most {MAX_CLASSES} classes are allowed. Got {classes}.")
        return Setting(classes, code_scaling(coder, self.scaling, input_shape))


def code_scaling(
    coder: AbstractCoder,
    given: Scaling,
    input_shape: tuple[int, ...] | None = None,
    *,
    is_listed: bool = False,
) -> Scaling:
    """Code or read the scaling of inputs. Some messages have no literal constants."""
    at = CATALOGUE.index(given) if given in CATALOGUE else len(CATALOGUE)
    word = uniform(coder, at, len(CATALOGUE) + 1)
    coder.require(not is_listed or word < len(CATALOGUE), "this message has no literal scaling.")
    scaling = CATALOGUE[word] if word < len(CATALOGUE) else _code_constants(coder, given)
    coder.require(
        input_shape is None or len(scaling.mean) in (1, _channels(input_shape)),
        f"scaling has {len(scaling.mean)} constants for inputs of shape {input_shape}.",
    )
    return scaling


def code_form(coder: AbstractCoder, form: int) -> int:
    """Code or read the form of a short message. The first bit pays for being one (docs/format-3.md, 5.7)."""
    coder.require(bool(bit(coder, 1)), "a short message begins with a one.")
    if bit(coder, form == HEAD):
        return HEAD
    return SPLIT_HEAD if bit(coder, form == SPLIT_HEAD) else RULE


def has_other_loss(coder: AbstractCoder, loss: Loss) -> bool:
    """Code or read the flag of another loss than plain errors. It is seldom set."""
    return bool(coder.split(loss != WRONG, 7, 8))


def read_loss(coder: AbstractCoder, classes: int) -> Loss:
    """The loss of a short message, behind the flag that there is one."""
    word = gamma(coder, 0)
    coder.require(word in (LOSS, NEW_LOSS), f"a loss is announced by {LOSS} or {NEW_LOSS}. Got {word}.")
    return code_loss(coder, word, WRONG, classes)


def write_loss(coder: AbstractCoder, setting: Setting, enter: Callable[[str], None]) -> None:
    """A loss other than plain errors, with the word that announces it, and its part of the ledger."""
    loss = setting.loss
    if loss != WRONG:
        code_loss(coder, gamma(coder, NEW_LOSS if loss.is_new else LOSS), loss, setting.classes)
        enter("fault")  # the word of docs/format.md


def code_loss(coder: AbstractCoder, word: int, given: Loss, classes: int) -> Loss:
    """A loss other than plain errors, coded or read behind its word; a reader gives WRONG."""
    kinds = {each.number: each for each in LOSSES.values() if each.is_new == (word == NEW_LOSS)}
    number = uniform(coder, given.number or 0, 4)
    coder.require(number in kinds, f"loss of kind {number} is reserved.")
    costs = partial(_code_costs, coder, given, classes)
    return kinds[number].code(partial(uniform, coder), given, classes, costs)


def _code_costs(coder: AbstractCoder, given: Loss, classes: int) -> str:
    table: str = getattr(given, "table", DISTANCE)  # a reader has none yet
    if not bit(coder, table != DISTANCE):
        coder.require(classes <= MOST_COST + 1, f"costs by distance fit {MOST_COST + 1} classes at most.")
        return DISTANCE
    coder.require(classes <= MOST_CLASSES, f"costs fit {MOST_CLASSES} classes at most. Got {classes}.")
    rows = ((0,) * classes,) * classes if table == DISTANCE else cost_matrix(table, classes)
    largest = uniform(coder, max(0, max(map(max, rows)) - 1), MOST_COST) + 1
    context = SymbolContext(largest + 1)
    coded = [
        "".join(f"{0 if j == y else context.code(coder, cost):x}" for j, cost in enumerate(row))
        for y, row in enumerate(rows)
    ]
    coder.require(f"{largest:x}" in "".join(coded), f"costs do not attain their largest, {largest}.")
    return ",".join(coded)


def round_scaling(scaling: Scaling, input_shape: tuple[int, ...]) -> Scaling:
    """The scaling as a message can say it: its constants are rounded to float32.

    Raises:
        DataError: It has more constants than a message may have.
    """
    if not any(scaling.mean) and all(value == 1.0 for value in scaling.std):
        scaling = Scaling(scaling.divisor)
    count = max(len(scaling.mean), len(scaling.std))
    if scaling in CATALOGUE:
        return scaling
    if count > MAX_CONSTANTS or count not in (1, _channels(input_shape)):
        raise DataError(
            f"a certificate pays for the constants of a scaling: at most {MAX_CONSTANTS} means and stds, one "
            f"for all or one for each channel of an image. Got {count} for inputs of shape {input_shape}. "
            "Let the first layer of the network scale its inputs, or store them scaled by constants that "
            "were fixed before the sample was seen."
        )
    means, deviations = (values * (count // len(values)) for values in (scaling.mean, scaling.std))
    return Scaling(_round(scaling.divisor), tuple(map(_round, means)), tuple(map(_round, deviations)))


def _channels(input_shape: tuple[int, ...]) -> int:
    return input_shape[0] if len(input_shape) == 3 else 1


def _code_constants(coder: AbstractCoder, given: Scaling) -> Scaling:
    count = uniform(coder, len(given.mean) - 1, MAX_CONSTANTS) + 1
    values = given.divisor, *given.mean, *given.std
    coder.require(
        all(_round(value) == value for value in values), f"scaling needs constants in float32. Got {given}."
    )
    numbers = values if len(values) == 2 * count + 1 else (0.0,) * (2 * count + 1)  # a reader has none yet
    divisor, *rest = (_number(float32(coder, _pattern(value))) for value in numbers)
    coder.require(min(divisor, *rest[count:]) > 0.0, "scaling needs a positive divisor and positive std.")
    return Scaling(divisor, tuple(rest[:count]), tuple(rest[count:]))


def _pattern(value: float) -> int:
    return int.from_bytes(struct.pack(">f", value), "big")


def _number(pattern: int) -> float:
    value: float = struct.unpack(">f", pattern.to_bytes(4, "big"))[0]
    return value


def _round(value: float) -> float:
    return _number(_pattern(value))
