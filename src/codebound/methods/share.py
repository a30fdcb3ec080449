"""The helper of a large share, where nothing else comes near to a hold-out set.

A split says which learner it had, which for tuned pictures takes 39 bits, and both programs carry it out, so
it learns from 16,000 examples at most. A helper is made of the first part alone by any means, and certified
as it is on the rest, by a message of 7 bits: the largest of its scores.

Going this way is paid for, whatever was seen before: all messages are one code, of which 1/4 are short ones
about a base (docs/format-3.md, 5.7). Without a base no other route has one of them, so one word of 7 bits
fits beside all others. The share is decided before a look, as every certificate declares of its sample.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import torch

from codebound.bounds.risk import count_of
from codebound.certificate.statement import Term
from codebound.certificate.task import Task
from codebound.methods.inputs import encode_rest, largest_input
from codebound.methods.kernel_share import kernel_helper, most_supports
from codebound.methods.offers import BY_HELPER, Attempt, Route
from codebound.methods.search import OutOfTimeError, Search
from codebound.run.extensions import form_of

if TYPE_CHECKING:
    from codebound.methods.search import Effort
    from codebound.methods.strategy import Strategy

NEAR_BITS = 16
"""Above the estimate for the best hold-out set: what comes as near needs no helper."""
_SECONDS = {"quick": 0.0, "standard": 900.0, "max": math.inf}
_TENTHS = 8  # of a sample, that a helper is made of where memory allows
_WIDEST = 8192  # numbers of a vector of features, as far as memory is reckoned
_SIDE = 1024  # of a product that shows how fast a machine is
_SLOWER = 2.0  # times: all else is slower than a product of large matrices
_COMPARED = 6e12  # floating-point operations that learners are compared by, on pictures


def attempt_shares(course: Strategy, seconds: float | None = None) -> list[Attempt]:
    """Attempts with a helper, if others far exceed the hold-out estimate.

    Else there are none. The others were made on the whole sample and without a base. The effort says how much
    time a helper may take, unless ``seconds`` are given: none, a quarter of an hour, or any.
    """
    n, attempts, effort = course.sample.n, course.attempts, course.effort
    best = min(attempts, key=lambda each: each.best.rank)
    rival = next((each.search.held_out for each in attempts if each.search.held_out is not None), None)
    if rival is None:
        return []
    if best.best.rank[0] <= Term("binomial", rival.errors, rival.n, NEAR_BITS).limit(course.delta):
        return []
    tenths = share_of(n)
    limit = _SECONDS[effort] if seconds is None else seconds
    needed = _estimate_seconds(tenths * n // 10, n, rival.dimension, course.device)
    if needed > limit:
        best.search.skipped[BY_HELPER] = (
            f"a helper of {tenths} tenths of the sample would take some "
            f"{count_of(math.ceil(needed / 60.0), 'minute')} here: {_advise(effort, seconds, needed)}."
        )
        return []
    until = math.inf if seconds is None else time.monotonic() + seconds
    try:
        found = _attempt(course, tenths, until)
    except OutOfTimeError:
        best.search.skipped[BY_HELPER] = f"its time was up; {_advise(effort, seconds, needed)}."
        return []
    except KeyboardInterrupt:
        best.search.is_interrupted = True
        return []
    if not found.search.offers:  # its message cannot be read
        best.search.refusals += found.search.refusals
        return []
    found.search.skipped = dict(best.search.skipped)
    return [found]


def share_of(n: int) -> int:
    """Tenths of n examples that a helper is made of: as many as memory allows, whatever the examples are.

    Example:
        >>> share_of(10_000)
        8
    """
    tenths = _TENTHS
    while tenths > 1 and tenths * n // 10 > most_supports(_WIDEST):
        tenths -= 1
    return tenths


def _advise(effort: Effort, seconds: float | None, needed: float) -> str:
    """Advice on the minutes or the effort that leave time enough."""
    if seconds is not None:
        return f"give {2 * math.ceil(1.0 + needed / 60.0)} minutes or more, of which it gets one half"
    return f"give the effort {'standard' if effort == 'quick' else 'max'}"


def _estimate_seconds(learned: int, n: int, size: int, device: torch.device) -> float:
    """Estimate the seconds of a helper from one timed matrix product."""
    products = learned**2 * (size + learned / 3.0) + 2.0 * (n - learned) * learned * size
    side = torch.ones(_SIDE, _SIDE, device=device)
    float((side @ side)[0, 0])
    start = time.perf_counter()
    float((side @ side)[0, 0])
    return _SLOWER * (products + _COMPARED) * (time.perf_counter() - start) / (2.0 * _SIDE**3)


def _attempt(course: Strategy, tenths: int, until: float) -> Attempt:
    """The helper of a share, certified on the rest by the one message that takes its largest score."""

    def progress(done: int, total: int | None, note: str = "") -> None:
        course.progress(done, total, note)
        if time.monotonic() > until:
            raise OutOfTimeError

    encoder, table, _ = encode_rest(
        kernel_helper,
        course.sample,
        None,
        tenths,
        has_scores=True,
        allow_copies=course.allow_copies,
        device=course.device,
        progress=progress,
    )
    largest = largest_input(table.classes)
    scored = form_of("f")(largest.network, table)
    task = Task(
        claim=course.claims[0],
        sample=table,
        delta=course.delta,
        original=scored,
        base=(largest.name, scored.arrays),
        allow_copies=course.allow_copies,
    )
    search = Search(task, "quick", device=course.device, engine=course.engine, progress=course.progress)
    search.running = BY_HELPER
    best = search.propose(scored.unchanged_message(task.options))
    facts = best.facts
    price = (
        f"{count_of(facts.errors, 'error')} of {facts.n}, by a helper of the other "
        f"{course.sample.n - facts.n}, which is declared; {count_of(facts.code_bits, 'bit', form='g')}"
    )
    search.routes = {BY_HELPER: Route(BY_HELPER, best.bound.value, price)}
    return Attempt(task, search, best, BY_HELPER, table, encoder)
