"""The search for the best certificate: methods offer outcomes, all are assessed, the best of each is kept.

A method is a function of a ``Search``. It calls ``offer`` with outcomes, or ``propose`` with messages of
networks. What it chose is inside the message, so looking further costs nothing but time. ``METHODS`` has ours
in the order of ``auto``; ``package.module:function`` is the name of any other.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, get_args

from codebound.bounds.risk import count_of, percent
from codebound.run.errors import (
    CertificateError,
    FormatError,
    ModelError,
    RefusedError,
    UsageError,
    did_you_mean,
)
from codebound.run.extensions import Method, find_extensions, form_of, import_named, resolve
from codebound.run.progress import Progress, silent
from codebound.sample.counting import Term

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from codebound.bits.plain_code import Bits, Ledger
    from codebound.certificate.offers import Offer, Outcome
    from codebound.known.messages import AbstractMessage
    from codebound.request import Effort, Task
    from codebound.run.job import Engine
    from codebound.sample.dataset import DeviceData

HOLD_OUT = "hold-out"
_FIRST_ANSWER = ("split", "picks")  # the quickest methods that say more than guessing
_SHOWN_BYTES = 64  # of a message, which can be as large as a network


METHODS = {
    "split": Method(
        "The usual learner on the usual share of the sample, counted on the rest: quick, and one bit.",
        "codebound.methods.split:propose_split",
        is_own=True,
    ),
    "picks": Method(
        "A classifier learned in closed form from few picked examples; all others count.",
        "codebound.methods.picks:propose_picks",
        is_own=True,
        is_spare=True,
    ),
    "scores": Method(
        "Scores that were made without the counted examples, and are declared: two bits.",
        "codebound.methods.scores:propose_scores",
        is_own=True,
    ),
}
"""Our own; the later ones end early where they have no chance. Spare ones come last of all."""


def list_methods() -> dict[str, Method]:
    """All methods, in the order in which ``auto`` tries them: our own, those of extensions, and spare ones.

    Example:
        >>> list(list_methods())[:2]
        ['split', 'scores']
    """
    known = {**METHODS, **find_extensions()["METHODS"], **METHODS}
    return dict(sorted(known.items(), key=lambda item: item[1].is_spare))


def find_method(name: str) -> Method:
    """The method of this name, or one of yours as ``package.module:function``.

    Raises:
        UsageError: There is none.
    """
    known = list_methods()
    if name in known:
        return known[name]
    if ":" in str(name):
        try:
            return Method(name, import_named(name), is_own=True)
        except (ImportError, AttributeError, ValueError) as error:
            raise UsageError(f"no method {name}: {error}. Give package.module:function.") from error
    meant = did_you_mean(str(name), ("auto", *known))
    raise UsageError(
        f"unknown method {name!r}.{meant} Known: auto, {', '.join(known)}.{find_extensions().advice}"
    )


class UnsuitedError(CertificateError):
    """A method can do nothing for this network or this claim; the message says why."""


class OutOfTimeError(KeyboardInterrupt):
    """The time of a search is up: it ends as if it had been interrupted."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An offer that was not issued, with the first bytes of its message in hexadecimal digits."""

    method: str
    bound: float
    reasons: tuple[str, ...]
    says: str
    code_bits: int = 0
    message: str = ""

    def __str__(self) -> str:
        return f"{self.method}, {percent(self.bound)}: {'; '.join(self.reasons)}"


@dataclass(eq=False)
class Search:
    """Keeps the best of what is offered.

    Attributes:
        seed: Of random choices that no decoder needs.
        device: Where networks are trained.
        engine: Where errors are counted; None: here.
        offers: The best so far, the best first: one of each method, unless one was asked for.
        refusals: What does not decode to what it was made for, or was refused by the second program.
        tried: Outcomes that were assessed.
        skipped: Methods that do not suit this network or claim, with the reason.
        is_asked: Whether the running method was asked for by name: then it is carried out to its end.
        until: When its time is up, by ``time.monotonic()``.
        is_out_of_time: Whether it ended for that.
        held: The message that is best by an estimate: it is assessed if its method is interrupted.
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
    held: tuple[float, AbstractMessage] | None = field(default=None, init=False)

    @property
    def best(self) -> Offer | None:
        """The best offer so far."""
        return self.offers[0] if self.offers else None

    @property
    def note(self) -> str:
        """The best bound so far, for a progress bar."""
        return "" if self.best is None else f"best {percent(self.best.bound)} by {self.best.method}"

    @cached_property
    def sample(self) -> DeviceData:
        """The examples that networks are counted on, where they are trained; they go there once."""
        return self.task.rest.on(self.device)

    def offer(self, outcome: Outcome) -> Offer:
        """Assess an outcome, and keep it if it is among the best."""
        from codebound.certificate.offers import assess  # loads torch, which lists of methods do not need

        self.tried += 1
        found = assess(outcome, self.task, method=self.running)
        kept: dict[object, Offer] = {}
        for each in sorted([*self.offers, found], key=lambda each: each.rank):
            kept.setdefault(each if self.is_asked else each.method, each)
        self.offers = list(kept.values())
        return found

    def propose(self, message: AbstractMessage, encoded: tuple[Bits, Ledger] | None = None) -> Offer | None:
        """Offer the network of a message; None where its bits are not read as what they were made for."""
        from codebound.certificate.offers import network_outcome

        if self.task.input_range is not None:
            index = form_of("theta")(
                message,
                self.task.f.arrays,
                self.task.sample,
                *self.task.input_range,
                base=self.task.base_tensors,
            )
            message, encoded = message.with_options(replace(message.options, theta_index=index)), None
        try:
            outcome = network_outcome(
                message, self.task, encoded=encoded, engine=self.engine, progress=self.progress
            )
        except FormatError as reason:
            self.tried += 1
            self.refusals.append(Refusal(self.running, 1.0, (str(reason),), repr(message.parts)))
            return None
        return self.offer(outcome)

    def hold(self, message: AbstractMessage, bound: float) -> None:
        """Hold a message in case of an interruption, if it is the best by an estimate."""
        if self.held is None or bound < self.held[0]:
            self.held = bound, message

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
        """End the search if its time is up; picks not before something says more than guessing.

        Args:
            is_kept: Whether something is left of what is running.
        """
        is_owed = self.running in _FIRST_ANSWER and (self.best is None or self.best.is_vacuous)
        if time.monotonic() > self.until and (is_kept or not is_owed):
            raise OutOfTimeError

    def require_promise(self, *, errors: int = 0, code_bits: float) -> None:
        """End a method that was not asked for by name where at best it is no better than the best so far.

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

    def refuse(self, offer: Offer, reasons: Sequence[str]) -> None:
        """Note that the second program refused an offer."""
        says = f"{offer.outcome.form}, {offer.outcome.says}; {offer.ledger}"
        shown = offer.bits.data[:_SHOWN_BYTES].hex()
        self.refusals.append(
            Refusal(offer.method, offer.bound, tuple(reasons), says, offer.bits.length, shown)
        )


def run(search: Search, name: str, *, minutes: float | None = None) -> Offer:
    """Run a method, or all of them for ``auto``; an interrupted search keeps its best offer.

    Args:
        search: What is searched for; its effort says how far each method goes, unless there is a time.
        name: The method.
        minutes: Time for all of it: every effort in turn, until the time is up. Picks may take longer until
            they have an answer; at least one outcome is assessed.

    Raises:
        UnsuitedError: The one method that was asked for does not suit.
        CertificateError: Nothing was offered.
    """
    search.is_asked = name != "auto"
    search.until = math.inf if minutes is None else time.monotonic() + 60.0 * minutes
    try:
        if minutes is None:
            _try(search, name)
        else:
            _try_within(search, name)
    except KeyboardInterrupt as end:
        search.is_out_of_time = isinstance(end, OutOfTimeError)
        search.is_interrupted, search.until = not search.is_out_of_time, math.inf
        if search.held is not None:
            search.propose(search.held[1])
        if search.best is None:
            raise
    if search.best is not None:
        return search.best
    if search.refusals:
        raise refusal_error(search.refusals)
    names: dict[str, list[str]] = {}
    for each, reason in search.skipped.items():
        names.setdefault(reason, []).append(each)
    reasons = "".join(f"\n  {', '.join(each)}: {reason}" for reason, each in names.items())
    raise CertificateError(f"no message could be made of this network.{reasons}")


def _try(search: Search, name: str) -> None:
    """Run a method, or all of them, at the effort of the search."""
    from codebound.request import NO_NETWORK

    for each, method in (list_methods() if name == "auto" else {name: find_method(name)}).items():
        search.running, search.held = each, None
        if name == "auto" and method.needs_network and search.task.original is None:
            search.skipped[each] = NO_NETWORK
            continue
        is_answered = search.best is not None and not search.best.is_vacuous and search.effort != "max"
        if name == "auto" and method.is_spare and is_answered:
            search.skipped[each] = "a method before it says more than guessing."
            continue
        function = resolve(method.function) if isinstance(method.function, str) else method.function
        try:
            function(search)
        except (UnsuitedError, ModelError, FormatError) as reason:
            # a training that diverges, or a message that cannot be read, costs no other method
            if search.is_asked:
                raise
            search.skipped[each] = str(reason)
        else:
            search.skipped.pop(each, None)


def _try_within(search: Search, name: str) -> None:
    """The same at every effort in turn, until the time is up."""
    from codebound.request import Effort

    search.progress = partial(_watch, search, search.progress)
    *_, most = efforts = get_args(Effort)
    for effort in efforts:
        search.effort = effort
        try:
            _try(search, name)
        except (UnsuitedError, ModelError, FormatError):
            if effort == most and search.best is None:
                raise


def _watch(search: Search, progress: Progress, done: int, total: int | None, note: str = "") -> None:
    """Report, and end the search when its time is up and something would be left of it."""
    progress(done, total, note)
    if search.best is not None or search.held is not None:
        search.require_time()


def refusal_error(refusals: Sequence[Refusal]) -> RefusedError:
    """The error of a search none of whose offers can be issued."""
    return RefusedError(
        "the independent verifier refuses every certificate that was made, so none was issued. That is a "
        "defect of codebound: please report it with these lines.\n  "
        + "\n  ".join(f"{each}\n    {each.says}" for each in refusals),
        reasons=[reason for each in refusals for reason in each.reasons],
    )


def list_offers(offers: Sequence[Offer], issued: Offer, *, delta: float) -> list[dict[str, Any]]:
    """Rows of the best offer of every method, best first, and of a hold-out set with the errors of a split.

    The hold-out set is a comparison: no certificate says it, and it has no assurance.
    """
    best = {issued.method: issued}
    for offer in offers:
        best.setdefault(offer.method, offer)
    rows = []
    for offer in best.values():
        wrong = f"{count_of(offer.tally.errors, 'error')} of {offer.tally.n}"
        bits = count_of(offer.bits.length, "bit", form="g")
        rows.append(
            {
                "name": offer.method,
                "bound": offer.bound,
                "price": "; ".join(filter(None, (wrong, offer.outcome.says, bits))),
                "assurance": "recounted" if offer.outcome.is_recounted else "replayed",
                "is_issued": offer is issued,
            }
        )
    held_out = [each for each in best.values() if each.is_held_out]
    if held_out:
        tally = min(held_out, key=lambda each: each.rank).tally
        price = f"{count_of(tally.errors, 'error')} of {tally.n}, had learner and share been fixed beforehand"
        value = Term("binomial", tally.errors, tally.n).limit(delta)
        rows.append({"name": HOLD_OUT, "bound": value, "price": price, "assurance": "", "is_issued": False})
    return sorted(rows, key=lambda each: each["bound"])


def compare_offers(rows: Sequence[dict[str, Any]]) -> str:
    """Explain a certificate that is not the smallest bound. Empty where it is."""
    issued = next(each for each in rows if each["is_issued"])
    best = next(each for each in rows if each["assurance"])
    if best["bound"] >= issued["bound"]:
        return ""
    return (
        f"The method {best['name']} came to {percent(best['bound'])}, but what it counts is declared. The "
        f"method {issued['name']} was issued, which the second program repeats by itself: less than a tenth "
        "is between them."
    )
