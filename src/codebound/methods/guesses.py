"""Guesses of bounds from the first examples: which messages of networks are worth an assessment."""

from __future__ import annotations

import math
from operator import itemgetter
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
_NEAR = 1.2  # times the best bound: guesses are looser than bounds, and on a part of the sample


def consider(search: Search, makers: Sequence[Callable[[], AbstractMessage | None]]) -> None:
    """Make messages, guess their bounds on a part of the sample, and assess the most promising ones.

    A message that promises clearly less than the best one so far is not assessed. Where g must stay near f,
    every message is: a guess knows nothing of the distance.

    Args:
        search: The search that is offered the messages.
        makers: One function per message; None for a message that cannot be the best.
    """
    to_beat = math.inf if search.best is None else _NEAR * search.best.value
    finalists: list[tuple[float, AbstractMessage, tuple[Bits, Ledger]]] = []
    for done, make in enumerate(makers):
        search.progress(done, len(makers) + _FINALISTS, search.note)
        message = make()
        if message is None:
            continue
        if search.task.stays_near_f:
            search.propose(message)
            continue
        encoded = message.encode()
        guess = _guess(message, encoded[0].length, search.task)
        if guess < to_beat:  # no more are kept, for messages can be as large as f
            finalists = sorted([*finalists, (guess, message, encoded)], key=itemgetter(0))[:_FINALISTS]
    for done, (_, message, encoded) in enumerate(finalists, start=len(makers)):
        search.progress(done, len(makers) + _FINALISTS, search.note)
        search.propose(message, encoded)


def _guess(message: AbstractMessage, code_bits: int, task: Task) -> float:
    """Guess the bound of a message from its errors on the first examples; of vacuous ones, an order."""
    first, n = task.rest_data.part(0, _FIRST_EXAMPLES), task.rest.n
    rate = estimate_error_rate(message.build(task.base_tensors), first)
    value = occam_kl(OccamFacts(errors=int(rate * n), n=n, code_bits=code_bits, delta=task.delta)).value
    return value + 1e-9 * rate if value < 1.0 else 1.0 + rate + 1e-12 * code_bits
