"""Offers of a search, and the certificate of the first one that the second program accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.bounds.risk import percent
from codebound.run.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codebound.certificate.assessment import AbstractAssessed

_SHOWN_BYTES = 64  # of a message, which can be as large as a network


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """An assessed message, and the method that proposed it."""

    assessed: AbstractAssessed
    method: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An offer that was not issued, with what a report of the defect needs.

    Attributes:
        method: The method that proposed it.
        bound: The bound that it would have had.
        reasons: Why it was refused.
        says: The rule of its message, or options and architecture.
        code_bits: Length of the message.
        message: The first bytes of the message, in hexadecimal digits.
    """

    method: str
    bound: float
    reasons: tuple[str, ...]
    says: str
    code_bits: int
    message: str

    @staticmethod
    def of(offer: Offer, reasons: Sequence[str]) -> Refusal:
        """The refusal of an offer."""
        assessed = offer.assessed
        says = assessed.rules or (assessed.message.setting, getattr(assessed.message, "chain", None))
        return Refusal(
            method=offer.method,
            bound=assessed.bound.value,
            reasons=tuple(reasons),
            says=", ".join(map(repr, says)),
            code_bits=assessed.bits.length,
            message=assessed.bits.data[:_SHOWN_BYTES].hex(),
        )

    def __str__(self) -> str:
        return f"{self.method}, {percent(self.bound)}: {'; '.join(self.reasons)}"


def all_refused(refusals: Sequence[Refusal]) -> RefusedError:
    """The error of a search none of whose offers can be issued."""
    return RefusedError(
        "the independent verifier refuses every certificate that was made, so none was issued. That is a "
        "defect of codebound: please report it with these lines.\n  "
        + "\n  ".join(f"{each}\n    {each.says}" for each in refusals),
        reasons=[reason for each in refusals for reason in each.reasons],
    )
