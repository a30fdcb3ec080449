"""Guesses of bounds from the first examples: which messages of networks are worth an assessment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codebound.bounds.occam import occam_kl
from codebound.bounds.risk import OccamFacts
from codebound.certificate.evaluate import estimate_error_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codebound.bits.plain_code import Bits, Ledger
    from codebound.known.messages import AbstractMessage
    from codebound.methods.search import Search
    from codebound.request import Task

_FINALISTS = 2
_FIRST_EXAMPLES = 500
_SAFELY = 1.0 - 1e-9  # of a guess: less than it by more than rounding
_NEAR = 1.2  # times the best bound: guesses are looser than bounds, and on a part of the sample


def consider(search: Search, makers: Sequence[Callable[[], AbstractMessage | None]]) -> None:
    """Make messages, guess their bounds on a part of the sample, and assess the most promising ones.

    A message that promises clearly less than the best one so far is not assessed. Where g must stay near f,
    every message is: a guess knows nothing of the distance.

    Args:
        search: The search that is offered the messages.
        makers: One function per message; None for a message that cannot be the best.
    """
    to_beat = math.inf if search.best is None else search.best.value
    finalists: list[_Guess] = []
    for done, make in enumerate(makers):
        search.progress(done, len(makers) + _FINALISTS, search.note)
        message = make()
        if message is None:
            continue
        if search.task.stays_near_f:
            search.propose(message)
            continue
        _enter(finalists, _guess(message, search.task), to_beat=_NEAR * to_beat)
    for done, each in enumerate(finalists, start=len(makers)):
        message = each.message  # the last one that was made is let go
        search.progress(done, len(makers) + _FINALISTS, search.note)
        search.propose(message, each.encoded)


@dataclass(eq=False)
class _Guess:
    """Estimate of a bound from the first examples, to compare messages.

    Attributes:
        message: The message.
        least: The value is no less, and
        most: no more: known without the blocks, which are long to make.
    """

    message: AbstractMessage
    least: float
    most: float
    _word: tuple[Bits, Ledger]
    _rate: float
    _task: Task

    @cached_property
    def encoded(self) -> tuple[Bits, Ledger]:
        """The whole message."""
        return self.message.with_blocks(*self._word)

    @cached_property
    def value(self) -> float:
        """The guess."""
        return _estimate(self._rate, self.encoded[0].length, self._task)

    def is_below(self, other: _Guess) -> bool:
        """Return True if its value is smaller. Blocks are made only where the limits do not decide."""
        if self.most < _SAFELY * other.least:
            return True
        if other.most < _SAFELY * self.least:
            return False
        return self.value < other.value


def _guess(message: AbstractMessage, task: Task) -> _Guess:
    """Guesses the bound of a message from its errors on the first examples."""
    word = message.word()
    network = message.build(task.base_tensors)
    rate = estimate_error_rate(network, task.rest_data.part(0, _FIRST_EXAMPLES))
    least, most = (_estimate(rate, bits, task) for bits in message.length_limits(word[0]))
    return _Guess(message, least, most, word, rate, task)


def _estimate(rate: float, code_bits: int, task: Task) -> float:
    n = task.rest.n
    value = occam_kl(OccamFacts(errors=int(rate * n), n=n, code_bits=code_bits, delta=task.delta)).value
    return value + 1e-9 * rate if value < 1.0 else 1.0 + rate + 1e-12 * code_bits


def _enter(finalists: list[_Guess], found: _Guess, *, to_beat: float) -> None:
    """Puts a guess in its place among the best ones; no other is kept, for messages can be as large as f."""
    if found.least >= to_beat:
        return
    place = len(finalists)
    while place and found.is_below(finalists[place - 1]):
        place -= 1
    finalists.insert(place, found)
    del finalists[_FINALISTS:]
