"""The parts that all messages share: setting, loss, options, ledger, end (docs/format.md, section 5).

Between them, a message describes a network (``networks``), or the rule that learns one (``learn``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .arithmetic import Decoder, Witness, grid
from .header import CLASSES_LIMIT, CONSTANTS_LIMIT, Header, Scaling
from .losses import WRONG, Loss, decode_loss, decode_new_loss
from .refusal import Refused

if TYPE_CHECKING:
    from .container import Certificate

DIVISORS = (1.0, 255.0, 16.0)  # with mean 0 and std 1; the word behind them announces literal constants
LOSS, NEW_LOSS = 4, 6  # in front of the scheme: a loss follows
SHORT = "form"  # the first part of the ledger of a short message
HEAD, HEAD_AFTER_SPLIT, RULE = "a head", "a head after a split", "a rule"


class Message:
    """A message as it is read, with its decoder and the ledger of what was read.

    It begins with what the header repeats. ``scheme`` is 3 for a rule; ``form`` is that of a short message
    (docs/format-3.md, section 5.7), None for others.
    """

    def __init__(self, certificate: Certificate) -> None:
        self.certificate, self.header = certificate, certificate.header
        header = self.header
        witness = Witness(certificate.witness) if header.version.is_second else None
        self.decoder = Decoder(certificate.message, header.code_bits, witness=witness)
        self.ledger: list[tuple[str, int]] = []
        self._counted = 0
        self.form: str | None = None
        self.split: int | None = None  # tenths of the sample that shaped the helper (C-10)
        self.theta: float | None = None  # the margin of C-12a
        self.has_base = False
        if header.version.is_third and header.ledger[0][0] == SHORT:  # the decoder finds out if it lies
            self._read_form()
        else:
            self._read_scheme()
            self._read_options()

    def add(self, part: str, bits: int) -> None:
        """Note a part of so many bits."""
        self.ledger.append((part, bits))

    def close(self, part: str) -> None:
        """Note what the decoder has read since the part before."""
        self.add(part, self.decoder.shifts - self._counted)
        self._counted = self.decoder.shifts

    def finish_word(self) -> int:
        """Note the end of the code word, and return its length."""
        end = self.decoder.finish()
        self.add("end", end - self.decoder.shifts)
        return end

    def finish(self) -> None:
        """Refuse bits and proofs that are left over."""
        if self.decoder.witness is not None:
            self.decoder.witness.finish()
        if (used := sum(bits for _, bits in self.ledger)) != self.header.code_bits:
            raise Refused(
                f"Message: decoding it takes {used} bits, but facts.code_bits is {self.header.code_bits}."
            )

    def _read_form(self) -> None:
        header, decoder = self.header, self.decoder
        self.form = read_form(decoder)
        has_other_loss = read_flag_of_loss(decoder)
        self.close(SHORT)
        loss = read_loss(decoder, header.classes) if has_other_loss else WRONG
        if has_other_loss:
            self.close("fault")
        _agree_on_loss(loss, header)
        is_rule = self.form == RULE
        agree("a rule", is_rule, "the statement is C-15", header.statement == "C-15")
        agree("differences to a base", not is_rule, "the header names a base", header.base is not None)

    def _read_scheme(self) -> None:
        header, decoder = self.header, self.decoder
        if header.version.is_second:
            classes = decoder.size("classes - 1", CLASSES_LIMIT - 1) + 1
            if classes != header.classes:
                raise Refused(f"Message: it is about {classes} classes; facts.classes is {header.classes}.")
            read_scaling(decoder, header)
            self.close("setting")
        scheme, loss = decoder.gamma(), WRONG
        if (scheme == LOSS and header.version.is_second) or (scheme == NEW_LOSS and header.version.is_third):
            loss = (decode_loss if scheme == LOSS else decode_new_loss)(decoder, header.classes)
            self.close("fault")
            scheme = decoder.gamma()
        _agree_on_loss(loss, header)
        if scheme > (schemes := 3 if header.version.is_second else 2):
            raise Refused(f"Message: scheme {scheme} is unknown; those up to {schemes} are known.")
        self.close("method")  # what files call the scheme
        self.scheme = scheme

    def _read_options(self) -> None:
        header, decoder = self.header, self.decoder
        self.split = decoder.uniform(9) + 1 if decoder.bit() else None
        if decoder.bit():
            if abs(j := decoder.signed()) > 8000:
                raise Refused(f"Message: theta has exponent {j}; -8000 to 8000 is allowed.")
            self.theta = grid(j)
        self.has_base = bool(decoder.bit())
        statement = header.statement
        agree("a split fraction", self.split is not None, "the statement is C-10", statement == "C-10")
        agree("a margin theta", self.theta is not None, "the statement is C-12a", statement == "C-12a")
        agree("differences to a base", self.has_base, "the header names a base", header.base is not None)
        self.close("options")
        agree("a rule", self.scheme == 3, "the statement is C-15", statement == "C-15")


def agree(what: str, is_coded: bool, why: str, is_expected: bool) -> None:
    """Refuse a part that is coded or left out contrary to the header."""
    if is_coded != is_expected:
        raise Refused(
            f"Message: it has {'' if is_coded else 'not '}{what}, which is right exactly when {why}; "
            f"here that is {'true' if is_expected else 'false'}."
        )


def _agree_on_loss(loss: Loss, header: Header) -> None:
    """Check that the loss of the message is that of the header."""
    if loss != header.loss:
        raise Refused(f"Message: it counts the loss {loss.text}; claim.fault is {header.loss.text}.")


def read_scaling(decoder: Decoder, header: Header, *, literal: bool = True) -> None:
    """Read the scaling, which must be that of the header; constants are refused unless ``literal``."""
    word = decoder.uniform(len(DIVISORS) + 1)
    if word == len(DIVISORS) and not literal:
        raise Refused("Message: a rule that picks nothing has one of the listed scalings.")
    if word < len(DIVISORS):
        scaling = Scaling(DIVISORS[word], (0.0,), (1.0,))
    else:
        count = decoder.uniform(CONSTANTS_LIMIT) + 1
        divisor, *rest = (decoder.float32() for _ in range(2 * count + 1))
        scaling = Scaling(divisor, tuple(rest[:count]), tuple(rest[count:]))
    if scaling != header.scaling:
        raise Refused(f"Message: its scaling is {scaling}; helper.scaling is {header.scaling}.")


def read_form(decoder: Decoder) -> str:
    """Read the kind of a short message."""
    if not decoder.bit():
        raise Refused("Message: a short message begins with a one.")
    if decoder.bit():
        return HEAD
    return HEAD_AFTER_SPLIT if decoder.bit() else RULE


def read_flag_of_loss(decoder: Decoder) -> bool:
    """Read the flag of a loss: True if one follows."""
    return bool(decoder.choose(7, 8))


def read_loss(decoder: Decoder, classes: int) -> Loss:
    """The loss that follows in a short message."""
    word = decoder.gamma()
    if word not in (LOSS, NEW_LOSS):
        raise Refused(f"Message: a loss is announced by 4 or 6; {word} is coded.")
    return (decode_loss if word == LOSS else decode_new_loss)(decoder, classes)
