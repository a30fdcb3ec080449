"""The search for the best certificate: methods propose messages, all are assessed, the best one is kept.

What a search chose is inside the message, so looking further costs nothing but time. To add a method: write a
function that calls ``Search.offer``, ``propose`` or ``consider``; ``package.module:function`` is its name, or
one in ``methods/registry.py``.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, get_args

from codebound.bits.plain_code import RULES
from codebound.bounds.occam import occam_kl
from codebound.bounds.risk import OccamFacts, count_of, percent
from codebound.certificate.assessment import assess
from codebound.certificate.evaluate import estimate_error_rate
from codebound.certificate.outcome import NetworkOutcome
from codebound.certificate.task import NO_NETWORK
from codebound.methods.registry import find_method, list_methods
from codebound.request import Effort
from codebound.run.errors import CertificateError, FormatError, ModelError, RefusedError
from codebound.run.extensions import form_of
from codebound.run.progress import Progress, silent
from codebound.sample.counting import Term

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import torch

    from codebound.bits.plain_code import Bits, Ledger
    from codebound.certificate.assessment import Offer
    from codebound.certificate.outcome import AbstractOutcome
    from codebound.certificate.task import AbstractMessage, Task
    from codebound.run.job import Engine
    from codebound.sample.dataset import DeviceData

    Encoded = tuple[Bits, Ledger]

HOLD_OUT = "hold-out"
_SHOWN_BYTES = 64  # of a message, which can be as large as a network


@dataclass(frozen=True, slots=True)
class Refusal:
    """An offer that was not issued, with the first bytes of its message in hexadecimal digits."""

    method: str
    bound: float
    reasons: tuple[str, ...]
    says: str
    code_bits: int
    message: str

    @staticmethod
    def of(offer: Offer, reasons: Sequence[str]) -> Refusal:
        """The refusal of an offer."""
        return Refusal(
            method=offer.method,
            bound=offer.bound,
            reasons=tuple(reasons),
            says=f"{offer.outcome.form}, {offer.outcome.says}; {offer.ledger}",
            code_bits=offer.bits.length,
            message=offer.bits.data[:_SHOWN_BYTES].hex(),
        )

    def __str__(self) -> str:
        return f"{self.method}, {percent(self.bound)}: {'; '.join(self.reasons)}"


def refusal_error(refusals: Sequence[Refusal]) -> RefusedError:
    """The error of a search none of whose offers can be issued."""
    return RefusedError(
        "the independent verifier refuses every certificate that was made, so none was issued. That is a "
        "defect of codebound: please report it with these lines.\n  "
        + "\n  ".join(f"{each}\n    {each.says}" for each in refusals),
        reasons=[reason for each in refusals for reason in each.reasons],
    )


@dataclass(frozen=True, slots=True)
class Route:
    """The smallest bound of a method, with what was counted and paid; without assurance a comparison."""

    name: str
    bound: float
    price: str
    assurance: str = ""
    is_issued: bool = False

    @property
    def has_certificate(self) -> bool:
        """Return True if a certificate would say it; a hold-out set is a comparison."""
        return bool(self.assurance)


def list_routes(offers: Sequence[Offer], issued: Offer | None, *, delta: float) -> tuple[Route, ...]:
    """The best of every method, best first, and what a hold-out set would say with the errors of a split."""
    best: dict[str, Offer] = {} if issued is None else {issued.method: issued}
    for offer in offers:
        best.setdefault(offer.method, offer)
    routes = [_describe(offer, is_issued=offer is issued) for offer in best.values()]
    held_out = [each for each in best.values() if _is_held_out(each)]
    if held_out:
        tally = min(held_out, key=lambda each: each.rank).tally
        value = Term("binomial", tally.errors, tally.n).limit(delta)
        price = f"{count_of(tally.errors, 'error')} of {tally.n}, had learner and share been fixed beforehand"
        routes.append(Route(HOLD_OUT, value, price))
    return tuple(sorted(routes, key=lambda each: each.bound))


def _is_held_out(offer: Offer) -> bool:
    """Return True if its errors are those of a hold-out set."""
    outcome = offer.outcome
    is_learned = outcome.form in RULES or outcome.is_recounted
    return is_learned and outcome.picked is None and offer.question.is_plain


def _describe(offer: Offer, *, is_issued: bool) -> Route:
    tally, bits = offer.tally, count_of(offer.bits.length, "bit", form="g")
    wrong = f"{count_of(tally.errors, 'error')} of {tally.n}"
    price = "; ".join(filter(None, (wrong, offer.outcome.says, bits)))
    assurance = "recounted" if offer.outcome.is_recounted else "replayed"
    return Route(offer.method, offer.bound, price, assurance, is_issued)


def advice(routes: Sequence[Route]) -> str:
    """Explain a certificate that is not the smallest bound. Empty where it is."""
    issued = next((each for each in routes if each.is_issued), None)
    best = next((each for each in routes if each.has_certificate), None)
    if issued is None or best is None or best.bound >= issued.bound:
        return ""
    return (
        f"The method {best.name} came to {percent(best.bound)}, but what it counts is declared. The method "
        f"{issued.name} was issued, which the second program repeats by itself: less than a tenth is between "
        "them."
    )


EFFORTS: tuple[Effort, ...] = get_args(Effort)
FIRST_ANSWER = ("split", "picks")  # the quickest methods that say more than guessing
_FINALISTS = 2
_SAFELY = 1.0 - 1e-9  # of a guess: less than it by more than rounding
_NEAR = 1.2  # times the best bound: guesses are looser than bounds, and on a part of the sample


@dataclass(eq=False)
class Search:
    """Keeps the best of the messages that were proposed.

    Attributes:
        seed: Of random choices that no decoder needs.
        device: Where networks are trained.
        engine: Where errors are counted; None: here.
        offers: The best so far, the best first: one of each method, unless one was asked for.
        refusals: Messages that do not decode to what they were made for; no offer is among them.
        tried: Messages that were assessed.
        skipped: Methods that do not suit this network or claim, with the reason.
        is_asked: Whether the running method was asked for by name: then it is carried out to its end.
        until: When its time is up, by ``time.monotonic()``.
        is_out_of_time: Whether it ended for that.
    """

    task: Task
    effort: Effort
    seed: int = 0
    device: str | torch.device = "cpu"
    engine: Engine | None = None
    progress: Progress = silent
    offers: list[Offer] = field(default_factory=list, init=False)
    refusals: list[Refusal] = field(default_factory=list, init=False)
    tried: int = field(default=0, init=False)
    skipped: dict[str, str] = field(default_factory=dict, init=False)
    is_interrupted: bool = field(default=False, init=False)
    is_asked: bool = field(default=False, init=False)
    until: float = field(default=math.inf, init=False)
    is_out_of_time: bool = field(default=False, init=False)
    running: str = field(default="", init=False)
    _held: tuple[float, AbstractMessage] | None = field(default=None, init=False)

    @property
    def best(self) -> Offer | None:
        """The best outcome so far."""
        return self.offers[0] if self.offers else None

    @property
    def says_enough(self) -> bool:
        """Return True if the best says more than guessing, and the effort is not to try everything."""
        return self.best is not None and not self.best.is_vacuous and self.effort != "max"

    @cached_property
    def sample(self) -> DeviceData:
        """The examples that networks are counted on, where they are trained; they go there once."""
        return self.task.rest.on(self.device)

    def propose(self, message: AbstractMessage, encoded: Encoded | None = None) -> Offer | None:
        """Assess the message of a network, and remember it if it is the best; None where it is refused."""
        if message.options.setting is None:
            message, encoded = with_setting(message, self.task), None
        domain = None if self.task.about_f is None else self.task.about_f.domain
        if domain is not None:
            index = form_of("theta")(
                message, self.task.f.arrays, self.task.sample, *domain, base=self.task.base_tensors
            )
            message, encoded = message.with_options(replace(message.options, theta_index=index)), None
        try:
            outcome = NetworkOutcome.of(
                message, self.task, encoded=encoded, engine=self.engine, progress=self.progress
            )
        except FormatError as reason:
            self.tried += 1
            self.refusals.append(Refusal(self.running, 1.0, (str(reason),), repr(message.parts), 0, ""))
            return None
        return self.offer(outcome)

    def offer(self, outcome: AbstractOutcome) -> Offer:
        """Assess an outcome, and remember it if it is among the best."""
        self.tried += 1
        found = assess(outcome, self.task, method=self.running)
        kept: dict[object, Offer] = {}
        for each in sorted([*self.offers, found], key=lambda each: each.rank):
            kept.setdefault(each if self.is_asked else each.method, each)
        self.offers = list(kept.values())
        return found

    def hold(self, message: AbstractMessage, bound: float) -> None:
        """Keeps the message that is best by an estimate: it is assessed if the method is interrupted."""
        if self._held is None or bound < self._held[0]:
            self._held = bound, message

    def consider(self, makers: Sequence[Callable[[], AbstractMessage | None]]) -> None:
        """Makes messages, guesses their bounds on a part of the sample, and assesses the most promising ones.

        A message that promises clearly less than the best one so far is not assessed. Where g must stay
        near f, every message is: a guess knows nothing of the distance.

        Args:
            makers: One function per message; None for a message that cannot be the best.
        """
        to_beat = math.inf if self.best is None else self.best.value
        finalists: list[Guess] = []
        for done, make in enumerate(makers):
            self.progress(done, len(makers) + _FINALISTS, self.note)
            message = make()
            if message is None:
                continue
            if self.task.stays_near_f:
                self.propose(message)
                continue
            _enter(finalists, guess(message, self.task), to_beat=_NEAR * to_beat)
        for done, each in enumerate(finalists, start=len(makers)):
            message = each.message  # the last one that was made is let go
            self.progress(done, len(makers) + _FINALISTS, self.note)
            self.propose(message, each.encoded)

    @property
    def most_bits(self) -> float:
        """Length beyond which no message is worth its making: even without errors it would be vacuous, or
        worse than the best one so far."""
        if self.best is None:
            return math.inf
        n, delta = self.task.rest.n, self.task.delta
        risk = min(self.best.bound, 1.0 - 1.0 / self.task.sample.classes)
        return (-n * math.log1p(-risk) + math.log(delta)) / math.log(2.0)

    def require_time(self, *, is_kept: bool = False) -> None:
        """Ends the search if its time is up; picks not before something says more than guessing.

        Args:
            is_kept: Whether something is left of what is running.
        """
        is_owed = self.running in FIRST_ANSWER and (self.best is None or self.best.is_vacuous)
        if time.monotonic() > self.until and (is_kept or not is_owed):
            raise OutOfTimeError

    def require_promise(self, *, errors: int = 0, code_bits: float) -> None:
        """Ends a method that was not asked for by name where what it may come to is no better than the best.

        A choice of where to spend time, no bound: a method that was skipped may be asked for by its name.

        Args:
            errors: As few as it can hope for.
            code_bits: The same.
        """
        if self.is_asked or self.best is None:
            return
        hoped = Term("binomial", errors, self.task.rest.n, code_bits).limit(self.task.delta)
        if hoped >= self.best.bound:
            raise UnsuitedError(
                f"it can hardly come below the {percent(self.best.bound)} of {self.best.method}. To run it "
                "all the same, choose it by its name."
            )

    @property
    def note(self) -> str:
        """The best bound so far, for a progress bar."""
        return "" if self.best is None else f"best {percent(self.best.bound)} by {self.best.method}"


@dataclass(eq=False)
class Guess:
    """Estimate of a bound from the first examples, to compare messages.

    Attributes:
        message: The message.
        least: The value is no less, and
        most: no more: known without the blocks, which are long to make.
    """

    message: AbstractMessage
    least: float
    most: float
    _word: Encoded
    _rate: float
    _task: Task

    @cached_property
    def encoded(self) -> Encoded:
        """The whole message."""
        return self.message.with_blocks(*self._word)

    @cached_property
    def value(self) -> float:
        """The guess."""
        return _estimate(self._rate, self._word[0].length + self._block_bits, self._task)

    def is_below(self, other: Guess) -> bool:
        """Return True if its value is smaller. Blocks are made only where the limits do not decide."""
        if self.most < _SAFELY * other.least:
            return True
        if other.most < _SAFELY * self.least:
            return False
        if self._block_keys == other._block_keys:  # as of weights at the largest level alone
            self._block_bits = other._block_bits
        return self.value < other.value

    @cached_property
    def _block_bits(self) -> int:
        return self.encoded[0].length - self._word[0].length

    @cached_property
    def _block_keys(self) -> list[Hashable]:
        return self.message.block_keys()


def guess(message: AbstractMessage, task: Task) -> Guess:
    """Guesses the bound of a message from its errors on the first examples."""
    message = with_setting(message, task)
    word = message.word()
    network = message.build(task.base_tensors)
    rate = estimate_error_rate(network, task.first_data)
    least, most = (_estimate(rate, bits, task) for bits in message.length_limits(word[0]))
    return Guess(message, least, most, word, rate, task)


def _estimate(rate: float, code_bits: int, task: Task) -> float:
    n = task.rest.n
    value = occam_kl(OccamFacts(errors=int(rate * n), n=n, code_bits=code_bits, delta=task.delta)).value
    return value + 1e-9 * rate if value < 1.0 else 1.0 + rate + 1e-12 * code_bits


def with_setting(message: AbstractMessage, task: Task) -> AbstractMessage:
    """The message with classes and scaling of the task, unless it says others."""
    if message.options.setting is not None:
        return message
    return message.with_options(replace(message.options, setting=task.options.setting))


class UnsuitedError(CertificateError):
    """A method can do nothing for this network or this claim; the message says why."""


class OutOfTimeError(KeyboardInterrupt):
    """The time of a search is up: it ends as if it had been interrupted."""


def run(search: Search, name: str, *, minutes: float | None = None) -> Offer:
    """Runs a method, or all of them for ``auto``; an interrupted search keeps its best message.

    Args:
        search: What is searched for; its effort says how far each method goes, unless there is a time.
        name: The method.
        minutes: Time for all of it: every effort in turn, until the time is up. Picks may take longer until
            they have an answer; at least one message is made.

    Raises:
        UnsuitedError: The one method that was asked for does not suit.
        CertificateError: No message could be made.
    """
    search.is_asked = name != "auto"
    try:
        if minutes is None:
            _try(search, name)
        else:
            _try_within(search, name, minutes)
    except KeyboardInterrupt as end:
        search.is_out_of_time = isinstance(end, OutOfTimeError)
        search.is_interrupted, search.until = not search.is_out_of_time, math.inf
        if search._held is not None:
            search.propose(search._held[1])
        if search.best is None:
            raise
    if search.best is None:
        if search.refusals:
            raise refusal_error(search.refusals)
        names: dict[str, list[str]] = {}
        for each, reason in search.skipped.items():
            names.setdefault(reason, []).append(each)
        reasons = "".join(f"\n  {', '.join(each)}: {reason}" for reason, each in names.items())
        raise CertificateError(f"no message could be made of this network.{reasons}")
    return search.best


def _try(search: Search, name: str) -> None:
    """Runs a method, or all of them, at the effort of the search."""
    for each in list_methods() if name == "auto" else (name,):
        search.running, search._held, method = each, None, find_method(each)
        if name == "auto" and method.needs_network and search.task.original is None:
            search.skipped[each] = NO_NETWORK
            continue
        if name == "auto" and method.is_spare and search.says_enough:
            search.skipped[each] = "a method before it says more than guessing."
            continue
        try:
            method.propose(search)
        except (UnsuitedError, ModelError, FormatError) as reason:
            # a training that diverges, or a message that cannot be read, costs no other method
            if search.is_asked:
                raise
            search.skipped[each] = str(reason)
        else:
            search.skipped.pop(each, None)


def _try_within(search: Search, name: str, minutes: float) -> None:
    """The same at every effort in turn, until the time is up."""
    search.until = time.monotonic() + 60.0 * minutes
    search.progress = partial(_watch, search, search.progress)
    for effort in EFFORTS:
        search.effort = effort
        try:
            _try(search, name)
        except (UnsuitedError, ModelError, FormatError):
            if effort == EFFORTS[-1] and search.best is None:
                raise


def _watch(search: Search, progress: Progress, done: int, total: int | None, note: str = "") -> None:
    """Reports, and ends the search when its time is up and something would be left of it."""
    progress(done, total, note)
    if search.best is not None or search._held is not None:
        search.require_time()


def _enter(finalists: list[Guess], found: Guess, *, to_beat: float) -> None:
    """Puts a guess in its place among the best ones; no other is kept, for messages can be as large as f."""
    if found.least >= to_beat:
        return
    place = len(finalists)
    while place and found.is_below(finalists[place - 1]):
        place -= 1
    finalists.insert(place, found)
    del finalists[_FINALISTS:]
