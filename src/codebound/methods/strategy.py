"""Attempts at one certificate: which are made, one after the other, and which is issued."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from codebound.certificate.assessment import issue
from codebound.certificate.claims import AboutG, AfterSplit
from codebound.certificate.task import NO_NETWORK, Task
from codebound.methods.inputs import ENCODES, base_encoder, largest_input, require_known_classes
from codebound.methods.offers import BY_HELPER, Attempt, Refusal, compare_routes, refusal_error, route_of
from codebound.methods.search import OutOfTimeError, Search, run
from codebound.run.errors import CertificateError, CodeboundError, RefusedError
from codebound.run.extensions import find_extensions, form_of
from codebound.sample.losses import WRONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

    from codebound.certificate.claims import AbstractClaim
    from codebound.certificate.file import Certificate
    from codebound.certificate.task import AbstractOriginal, Tensors
    from codebound.known.base import Pretrained
    from codebound.known.encoder import Encoder
    from codebound.methods.inputs import Networks
    from codebound.methods.offers import Route
    from codebound.methods.search import Effort
    from codebound.run.job import Engine
    from codebound.run.progress import Progress
    from codebound.sample.dataset import Dataset

_CLEARLY = 0.9  # times what the second program can do by itself: less than this outweighs a declaration
_FEW = 2000  # examples up to which other routes end near to a hold-out set
_SHARES_OF_TABLES = (5, 8)  # tenths that a linear helper is learned from, where a table has no network


@dataclass(eq=False, kw_only=True)
class Strategy:
    """All attempts at one certificate. Whoever interrupts one of them keeps those before it.

    What is not named here is an argument of ``certify``.

    Attributes:
        start: The networks that were given.
        claims: What to certify; several where a helper may be made of several shares of the sample.
        encoder: What was made of the first part of the sample and has encoded the rest, which is the sample.
        attempts: Those that were made.
        refusals: Offers that were refused until one was issued.
    """

    sample: Dataset
    start: Networks
    claims: Sequence[AbstractClaim]
    encoder: Encoder | None
    method: str
    effort: Effort
    minutes: float | None
    delta: float
    helper: Callable[[Dataset], Any] | Pretrained | None
    allow_copies: bool
    seed: int
    device: torch.device
    engine: Engine | None
    progress: Progress
    attempts: list[Attempt] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    _unmade: dict[str, str] = field(default_factory=dict)  # methods that the base was no use to, and why

    def run(self) -> tuple[Attempt, Certificate]:
        """Makes the attempts, and returns the best that the second program accepts, with its certificate.

        Raises:
            RefusedError: It accepts none of them.
        """
        self._make_attempts()
        for search in (each.search for each in self.attempts):
            self.refusals += search.refusals
        for each in self._rank_offers():
            issued = self._issue(each)
            if issued is not None:
                self._explain(issued[0])
                return issued
        raise refusal_error(self.refusals)

    def routes(self, issued: Attempt) -> tuple[Route, ...]:
        """The routes to a bound that were gone, the best first."""
        if not self._tries_all_methods or self.is_interrupted:
            return ()
        return compare_routes(
            [each.search for each in self.attempts],
            route_of(issued.method, issued.best),
            [each.bound for each in self.refusals],
        )

    def _issue(self, attempt: Attempt) -> tuple[Attempt, Certificate] | None:
        """An attempt with its certificate; None where the second program refuses that.

        The loss that is stated is counted now, where none but the best of a search had it counted.
        """
        task, best = attempt.task, attempt.best
        try:
            if best.message.setting.loss != task.claim.loss:
                best = best.recount(task, engine=self.engine)
            return attempt._replace(best=best), issue(best, task, progress=self.progress)
        except RefusedError as error:
            self.refusals.append(Refusal.of(attempt.best, attempt.method, error.reasons))
            return None

    def _rank_offers(self) -> list[Attempt]:
        """All offers in the order in which they are issued."""
        ranked: list[tuple[tuple[float, float], Attempt]] = []
        for attempt in self.attempts:
            first = self._rank(attempt)
            ranked.append((first, attempt))
            # losses are not counted yet where none but the best of a search had them counted
            ranked += [(max(first, self._rank(other)), other) for other in attempt.others]
        return [each for _, each in sorted(ranked, key=itemgetter(0))]

    def _rank(self, attempt: Attempt) -> tuple[float, float]:
        """Smaller is better; what the second program repeats by itself wins unless it is clearly worse."""
        bound, distance = attempt.best.rank
        is_declared = self._tries_all_methods and self.encoder is None and attempt.task.base is not None
        return bound / _CLEARLY if is_declared else bound, distance

    def _make_attempts(self) -> None:
        began = time.perf_counter()
        helps = self._tries_all_methods and self.encoder is None and self.sample.n > _FEW
        parts = len(self.claims) + (self._learns_from_base and self.method == "auto") + helps
        each_minutes = None if self.minutes is None else self.minutes / parts
        if self._learns_from_base:
            self._learn_from_base(each_minutes)
        if self._declares_scores:
            self._score_by_base()
        elif not (self._learns_from_base and self.method == "picks"):
            self._try_claims(each_minutes)
        if self.encoder is not None and self.encoder.has_scores:
            self._take_largest_score()
        if self._tries_all_methods:
            until = None if self.minutes is None else began + 60.0 * self.minutes
            self._try_other_methods(until, helps=helps)

    @property
    def is_interrupted(self) -> bool:
        """Return True if somebody has interrupted an attempt."""
        return any(each.search.is_interrupted for each in self.attempts)

    @property
    def _claim(self) -> AbstractClaim:
        return self.claims[0]

    @property
    def _learns_from_base(self) -> bool:
        """Return True if picks use the features of a base."""
        return self.start.base is not None and self._claim.allows_picks and self.method in ENCODES

    @property
    def _declares_scores(self) -> bool:
        """Return True if a base without a message is certified by its scores, and by nothing else but picks.

        So each message still has one meaning: a base in it is that of the scores, and a rule learns features.
        """
        return self.start.base is not None and bool(self.start.uncoded) and self.method != "picks"

    @property
    def _tries_all_methods(self) -> bool:
        return self.method == "auto" and self._claim == AboutG() and self.start.base is None

    def _learn_from_base(self, minutes: float | None) -> None:
        try:
            own = base_encoder(self.start, self.sample, device=self.device, has_scores=False)
            self.attempts.append(self.best(self._claim, "picks", self.effort, minutes=minutes, encoder=own))
        except CodeboundError as reason:
            if self.method == "picks":
                raise
            self._unmade["picks"] = f"on the features of the base: {reason}"

    def _try_claims(self, minutes: float | None) -> None:
        start = self.start
        with self._keep_attempt():
            for claim in self.claims:
                if self.is_interrupted:
                    break
                try:
                    found = self.best(
                        claim,
                        self.method,
                        self.effort,
                        minutes=minutes,
                        original=start.coded,
                        base=start.known,
                    )
                except CodeboundError as reason:
                    if str(reason) != NO_NETWORK or not (start.unread or start.uncoded):
                        raise
                    raise CertificateError(start.unread or start.uncoded) from reason
                self.attempts.append(found)

    def _score_by_base(self) -> None:
        scores = base_encoder(self.start, self.sample, device=self.device, has_scores=True)
        with self._keep_attempt():
            try:
                self._take_largest_score(scores)
            except CodeboundError as reason:
                if not self.attempts:
                    raise
                self._unmade["biases"] = f"on the scores of the base: {reason}"

    def _take_largest_score(self, encoder: Encoder | None = None) -> None:
        """Certify the largest score, as it is and with biases: of the sample, or of an encoder."""
        classes = self.sample.classes
        largest = largest_input(classes)
        scored = form_of("network")(largest.network, (classes,), classes=classes)
        scores = largest.name, scored.arrays
        self.attempts.append(
            self.best(self._claim, "biases", "quick", original=scored, base=scores, encoder=encoder)
        )

    def _try_other_methods(self, until: float | None, *, helps: bool) -> None:
        """Linear helpers of a table, and the helper of a large share."""
        if "message" not in find_extensions()["FORMS"]:
            self.attempts[0].search.skipped[BY_HELPER] = (
                "a helper is a network, and the extension for networks is not installed."
            )
            return
        is_table = self.start.original is None and len(self.sample.input_shape) == 1
        with self._keep_attempt():
            for tenths in _SHARES_OF_TABLES if is_table else ():
                if not self.is_interrupted:
                    self.attempts.append(self.best(AfterSplit(tenths), "prune", "quick"))
            if helps and not self.is_interrupted:
                from codebound.methods.share import attempt_shares

                self.attempts += attempt_shares(self, None if until is None else until - time.perf_counter())

    def _explain(self, best: Attempt) -> None:
        """Says of methods that were skipped what the search itself could not know."""
        skipped = best.search.skipped
        skipped.update(self._unmade)
        if self.start.unread or self.start.uncoded:
            instead = "the network that was given is not coded, for the reason that is given."
            skipped.update({name: instead for name, why in skipped.items() if why == NO_NETWORK})

    @contextmanager
    def _keep_attempt(self) -> Iterator[None]:
        """Whoever interrupts what comes after an attempt keeps that one."""
        try:
            yield
        except KeyboardInterrupt as end:
            if not self.attempts:
                raise
            first = self.attempts[0].search
            is_late = isinstance(end, OutOfTimeError)
            first.is_out_of_time |= is_late
            first.is_interrupted |= not is_late

    def table(self, encoder: Encoder | None, sample: Dataset) -> Dataset:
        """The sample, or what an encoder makes of it."""
        if encoder is None:
            return sample
        from codebound.known.encoder import encode_sample

        return encode_sample(encoder, sample, device=self.device, progress=self.progress)

    def best(
        self,
        stated: AbstractClaim,
        method: str,
        effort: Effort,
        *,
        minutes: float | None = None,
        original: AbstractOriginal | None = None,
        base: tuple[str, Tensors] | None = None,
        encoder: Encoder | None = None,
    ) -> Attempt:
        """The best message for one claim, from a network, a base by its words and tensors, or an encoder."""
        # networks are chosen by plain errors, whatever is counted in the end
        claim = stated if stated.loss == WRONG else replace(stated, loss=WRONG)  # type: ignore[type-var]
        whole = self.table(encoder, self.sample)
        prior, rest = claim.split(whole)
        if prior is not None:
            says, original = form_of("helper")(
                self.helper,
                original,
                prior,
                unseen=(whole, rest),
                progress=self.progress,
            )
            base = says, original.arrays
            whole = require_known_classes(whole, prior)
        task_of = partial(
            Task,
            sample=whole,
            delta=self.delta,
            original=original,
            base=base,
            allow_copies=self.allow_copies,
        )
        task = task_of(claim=claim)
        search = Search(
            task, effort, seed=self.seed, device=self.device, engine=self.engine, progress=self.progress
        )
        best = run(search, method, minutes=minutes)
        if stated is not claim:
            task = task_of(claim=stated)
            best = best.recount(task, engine=self.engine)
        return Attempt(task, search, best, search.method, whole, encoder)
