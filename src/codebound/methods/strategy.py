"""The course of a certification: which attempts are made, one after the other, and which was the best."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from codebound.certificate.claims import AboutG, AfterSplit
from codebound.certificate.task import NO_NETWORK
from codebound.methods.comparison import BY_HELPER, compared_routes, is_worth_helping, route_of
from codebound.methods.inputs import ENCODES, largest_input
from codebound.methods.offers import Offer, Refusal, all_refused
from codebound.methods.search import OutOfTimeError
from codebound.run.errors import CertificateError, CodeboundError, RefusedError
from codebound.run.extensions import find_extensions, form_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codebound.certificate.claims import AbstractClaim
    from codebound.certificate.file import Certificate
    from codebound.known.encoder import Encoder
    from codebound.methods.attempt import Attempt, Attempts
    from codebound.methods.comparison import Route
    from codebound.methods.inputs import Start
    from codebound.methods.search import Effort

_CLEARLY = 0.9  # times what the second program can do by itself: less than this outweighs a declaration
_SHARES_OF_TABLES = (5, 8)  # tenths that a linear helper is learned from, where a table has no network


@dataclass(eq=False, kw_only=True)
class Course:
    """All attempts at one certificate. Whoever interrupts one of them keeps those before it.

    Attributes:
        common: What they have in common.
        start: The networks that were given.
        claims: What to certify; several where a helper may be made of several shares of the sample.
        method: Of ``certify``, as are ``effort`` and ``minutes``.
        effort: See there.
        minutes: See there.
        encoder: What was made of the first part of the sample and has encoded the rest, which is the sample.
        attempts: Those that were made.
        refusals: Offers that were refused until one was issued.
    """

    common: Attempts
    start: Start
    claims: Sequence[AbstractClaim]
    method: str
    effort: Effort
    minutes: float | None
    encoder: Encoder | None
    attempts: list[Attempt] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    _unlearned: str = ""  # why nothing was learned from features of the base
    _unscored: str = ""  # why its scores were not certified

    def run(self) -> tuple[Attempt, Certificate]:
        """Makes the attempts, and returns the best that the second program accepts, with its certificate.

        Raises:
            RefusedError: It accepts none of them.
        """
        self._make_attempts()
        for search in (each.search for each in self.attempts):
            self.refusals += search.refusals
        for each in self._ranked():
            issued = self._issued(each)
            if issued is not None:
                self._explain(issued[0])
                return issued
        raise all_refused(self.refusals)

    def routes(self, issued: Attempt) -> tuple[Route, ...]:
        """The routes to a bound that were gone, the best first."""
        if not self._goes_all_ways or self.is_interrupted:
            return ()
        return compared_routes(
            [each.search for each in self.attempts],
            route_of(issued.method, issued.best),
            [each.bound for each in self.refusals],
        )

    def _issued(self, attempt: Attempt) -> tuple[Attempt, Certificate] | None:
        """An attempt with its certificate; None where the second program refuses that."""
        try:
            return attempt.issued(self.common.engine, self.common.progress)
        except RefusedError as error:
            self.refusals.append(Refusal.of(Offer(attempt.best, attempt.method), error.reasons))
            return None

    def _ranked(self) -> list[Attempt]:
        """All offers in the order in which they are issued."""
        ranked: list[tuple[tuple[float, float], Attempt]] = []
        for attempt in self.attempts:
            first = self._rank(attempt)
            ranked.append((first, attempt))
            # faults are not counted yet where none but the best of a search had them counted
            ranked += [(max(first, self._rank(other)), other) for other in attempt.others]
        return [each for _, each in sorted(ranked, key=itemgetter(0))]

    def _rank(self, attempt: Attempt) -> tuple[float, float]:
        """Smaller is better; what the second program repeats by itself wins unless it is clearly worse."""
        bound, distance = attempt.best.rank
        is_declared = self._goes_all_ways and self.encoder is None and attempt.task.base is not None
        return bound / _CLEARLY if is_declared else bound, distance

    def _make_attempts(self) -> None:
        began = time.perf_counter()
        helps = self._goes_all_ways and self.encoder is None and is_worth_helping(self.common.sample)
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
        if self._goes_all_ways:
            until = None if self.minutes is None else began + 60.0 * self.minutes
            self._go_other_ways(until, helps=helps)

    @property
    def is_interrupted(self) -> bool:
        """Return True if somebody has interrupted an attempt."""
        return any(each.search.is_interrupted for each in self.attempts)

    @property
    def _stated(self) -> AbstractClaim:
        return self.claims[0]

    @property
    def _learns_from_base(self) -> bool:
        """Return True if picks use the features of a base."""
        return self.start.base is not None and self._stated.allows_picks and self.method in ENCODES

    @property
    def _declares_scores(self) -> bool:
        """Return True if a base without a message is certified by its scores, and by nothing else but picks.

        So each message still has one meaning: a base in it is that of the scores, and a rule learns features.
        """
        return self.start.base is not None and bool(self.start.uncoded) and self.method != "picks"

    @property
    def _goes_all_ways(self) -> bool:
        return self.method == "auto" and self._stated == AboutG() and self.start.base is None

    def _learn_from_base(self, minutes: float | None) -> None:
        from codebound.methods.base_features import features_encoder

        start, common = self.start, self.common
        assert start.original is not None  # a base is one of f
        assert start.base is not None
        assert start.base_tensors is not None
        try:
            own = features_encoder(
                start.original, start.base_tensors, start.base.says, common.sample, device=common.device
            )
            self.attempts.append(
                common.best(self._stated, "picks", self.effort, minutes=minutes, encoder=own)
            )
        except CodeboundError as reason:
            if self.method == "picks":
                raise
            self._unlearned = f"on the features of the base: {reason}"

    def _try_claims(self, minutes: float | None) -> None:
        with self._keeping():
            for claim in self.claims:
                if not self.is_interrupted:
                    self.attempts.append(self._best_of(claim, minutes))

    def _best_of(self, claim: AbstractClaim, minutes: float | None) -> Attempt:
        start = self.start
        try:
            return self.common.best(
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

    def _score_by_base(self) -> None:
        from codebound.methods.base_features import scores_encoder

        start = self.start
        assert start.original is not None  # a base is one of f
        assert start.base is not None
        assert start.base_tensors is not None
        scores = scores_encoder(
            start.original, start.base_tensors, start.base.name, device=self.common.device
        )
        with self._keeping():
            try:
                self._take_largest_score(scores)
            except CodeboundError as reason:
                if not self.attempts:
                    raise
                self._unscored = f"on the scores of the base: {reason}"

    def _take_largest_score(self, encoder: Encoder | None = None) -> None:
        """Certify the largest score, as it is and with biases: of the sample, or of an encoder."""
        classes = self.common.sample.classes
        largest = largest_input(classes)
        scored = form_of("network")(largest.network, (classes,), classes=classes)
        scores = largest.name, scored.arrays
        found = self.common.best(
            self._stated, "biases", "quick", original=scored, base=scores, encoder=encoder
        )
        self.attempts.append(found)

    def _go_other_ways(self, until: float | None, *, helps: bool) -> None:
        """Linear helpers of a table, and the helper of a large share."""
        common, sample = self.common, self.common.sample
        if "message" not in find_extensions()["FORMS"]:
            self.attempts[0].search.skipped[BY_HELPER] = (
                "a helper is a network, and the extension for networks is not installed."
            )
            return
        is_table = self.start.original is None and len(sample.input_shape) == 1
        with self._keeping():
            for tenths in _SHARES_OF_TABLES if is_table else ():
                if not self.is_interrupted:
                    self.attempts.append(common.best(AfterSplit(tenths), "prune", "quick"))
            if helps and not self.is_interrupted:
                from codebound.methods.share import helped_attempts

                left = None if until is None else until - time.perf_counter()
                self.attempts += helped_attempts(
                    common, self.attempts, self._stated, effort=self.effort, seconds=left
                )

    def _explain(self, best: Attempt) -> None:
        """Says of methods that were skipped what the search itself could not know."""
        skipped = best.search.skipped
        if self._unlearned:
            skipped["picks"] = self._unlearned
        if self._unscored:
            skipped["biases"] = self._unscored
        if self.start.unread or self.start.uncoded:
            instead = "the network that was given is not coded, for the reason that is given."
            skipped.update({name: instead for name, why in skipped.items() if why == NO_NETWORK})

    @contextmanager
    def _keeping(self) -> Iterator[None]:
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
