"""The message: its bits, its words, and what every form shares (docs/format.md, section 5)."""

from __future__ import annotations

from dataclasses import dataclass

from .container import Container
from .header import Header
from .losses import ALL, EACH_GROUP, OF_CLUSTERS, ONE_ROW, Question, read_question
from .refusal import Refused

GAMMA_LIMIT = 40  # zeros in front of a number
FORMS = ("usual split", "first table", "another table", "another split", "picks", "network")
OTHER_LOSS, RESERVED = 6, 7  # ones in front of a zero


class Bits:
    """Plain numbers of a message, highest bit first, and the ledger of what was read (section 5.2).

    Example:
        >>> bits = Bits(bytes([0b01011100]), 6)
        >>> bits.gamma(), bits.bits(3)
        (2, 7)
    """

    def __init__(self, data: bytes, count: int) -> None:
        if count > 8 * len(data):
            raise Refused(f"Message: {count} bits do not fit into {len(data)} bytes.")
        self.data, self.count, self.place = data, count, 0
        self.ledger: list[tuple[str, int]] = []
        self._noted = 0

    def bits(self, width: int) -> int:
        """A number in so many bits."""
        if width > self.count - self.place:
            raise Refused(f"Message: it ends after {self.count} bits, and more is needed.")
        end = self.place + width
        last = (end + 7) // 8
        value = int.from_bytes(self.data[self.place // 8 : last], "big") >> (8 * last - end)
        self.place = end
        return value & ((1 << width) - 1)

    def gamma(self) -> int:
        """A number from 1 on, in Elias's gamma code."""
        zeros = 0
        while not self.bits(1):
            zeros += 1
            if zeros > GAMMA_LIMIT:
                raise Refused(f"Message: a number has more than {GAMMA_LIMIT + 1} bits.")
        return 1 << zeros | self.bits(zeros)

    def note(self, part: str) -> None:
        """Note in the ledger what was read since the note before."""
        self.ledger.append((part, self.place - self._noted))
        self._noted = self.place

    def finish(self) -> None:
        """Refuse bits that are left over."""
        if self.place != self.count:
            raise Refused(f"Message: it has {self.count} bits, but ends after {self.place}.")


@dataclass(frozen=True)
class Message:
    """A message that was read up to the word of its form. ``bits`` stand behind that word."""

    form: str
    question: Question
    bits: Bits


def read_message(container: Container) -> Message:
    """Read the words of a message, and the question if it is another one (sections 5.1 and 5.6)."""
    header = container.header
    has_clusters = header.sample.order == "clusters"
    bits = Bits(container.message, header.message.bits)
    question = Question("wrong", ONE_ROW if has_clusters else ALL)
    ones = _word(bits)
    if ones == OTHER_LOSS:
        question = read_question(bits, header.sample.classes)
        bits.note("loss")
        _check_rows(question, header)
        ones = _word(bits)
        if ones == OTHER_LOSS:
            raise Refused("Message: another loss comes once, and then one of the words for a form.")
    return Message(FORMS[ones], question, bits)


def finish_message(message: Message, header: Header) -> None:
    """Refuse bits that are left over, and a header that says anything else about the message."""
    message.bits.finish()
    if (found := tuple(message.bits.ledger)) != header.message.ledger:
        raise Refused(f"Message: its ledger is {found}; message.ledger is {header.message.ledger}.")
    question, claim = message.question, header.claim
    if (question.loss, question.on) != (claim.loss, claim.on):
        raise Refused(
            f"Message: it counts {question.loss} on {question.on}; the claim says {claim.loss} on {claim.on}."
        )


def _word(bits: Bits) -> int:
    """The number of ones of a word, noted as the form."""
    ones = 0
    while ones < RESERVED and bits.bits(1):
        ones += 1
    if ones == RESERVED:
        raise Refused("Message: the word 1111111 is reserved for later pages.")
    bits.note("form")
    return ones


def _check_rows(question: Question, header: Header) -> None:
    """Refuse rows that count by clusters or groups that are not there (section 6.1)."""
    has_clusters = header.sample.order == "clusters"
    if (question.on in OF_CLUSTERS) != has_clusters:
        raise Refused(
            f"Message: it counts {question.on}, and the sample has {'' if has_clusters else 'no '}clusters."
        )
    if question.on == EACH_GROUP and header.sample.groups is None:
        raise Refused("Message: it counts each group, and the sample has no groups.")
