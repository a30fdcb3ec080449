"""Attempts at a certificate: the best message for a claim, on the sample or on the table of an encoder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from codebound.certificate.assessment import issue
from codebound.certificate.task import Task
from codebound.methods.inputs import with_known_classes
from codebound.methods.search import Search, run
from codebound.run.extensions import form_of
from codebound.sample.losses import WRONG

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from codebound.certificate.assessment import AbstractAssessed
    from codebound.certificate.claims import AbstractClaim
    from codebound.certificate.file import Certificate
    from codebound.certificate.task import AbstractOriginal, Tensors
    from codebound.known.base import Pretrained
    from codebound.known.encoder import Encoder
    from codebound.methods.search import Effort
    from codebound.run.job import Engine
    from codebound.run.progress import Progress
    from codebound.sample.dataset import Dataset


class Attempt(NamedTuple):
    """Outcome of a search for one claim, with its samples."""

    task: Task
    search: Search
    best: AbstractAssessed
    method: str
    sample: Dataset
    rest: Dataset
    encoder: Encoder | None

    @property
    def others(self) -> list[Attempt]:
        """The same search with what it offers next, in its order."""
        return [self._replace(best=each.assessed, method=each.method) for each in self.search.offers[1:]]

    def issued(self, engine: Engine | None, progress: Progress) -> tuple[Attempt, Certificate]:
        """Its certificate, and the attempt with the fault counted that is stated.

        Raises:
            RefusedError: The second program refuses it.
        """
        found = self
        if self.best.message.setting.fault != self.task.claim.fault:
            found = self._replace(best=self.best.recounted(self.task, engine=engine))
        return found, issue(found.best, found.task, progress=progress)


def plain(stated: AbstractClaim) -> AbstractClaim:
    """The claim about plain errors, by which networks are chosen whatever is counted in the end."""
    return stated if stated.fault == WRONG else replace(stated, fault=WRONG)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """Arguments of ``certify`` that all attempts share."""

    sample: Dataset
    delta: float
    helper: Callable[[Dataset], Any] | Pretrained | None
    allow_copies: bool
    seed: int
    device: torch.device
    engine: Engine | None
    progress: Progress

    def table(self, encoder: Encoder | None, sample: Dataset) -> Dataset:
        """The sample, or what an encoder makes of it."""
        if encoder is None:
            return sample
        if encoder.has_scores:  # of which no table is kept
            return encoder.table(sample, device=self.device, progress=self.progress)
        from codebound.known.encoded_tables import encoded

        return encoded(encoder, sample, device=self.device, progress=self.progress)

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
        """The best message for one claim.

        Args:
            stated: The claim, about any fault.
            method: Of ``certify``, as are ``effort`` and ``minutes``.
            effort: See there.
            minutes: See there.
            original: The network that the search starts from.
            base: What is known of a base, in words, and its tensors.
            encoder: What makes a table of the sample.
        """
        claim, whole = plain(stated), self.table(encoder, self.sample)
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
            whole = with_known_classes(whole, prior)
        task_of = partial(
            Task,
            sample=whole,
            delta=self.delta,
            original=original,
            base=base,
            rest=rest,
            allow_copies=self.allow_copies,
        )
        task = task_of(claim=claim)
        search = Search(
            task, effort, seed=self.seed, device=self.device, engine=self.engine, progress=self.progress
        )
        best = run(search, method, minutes=minutes)
        if stated is not claim:
            task = task_of(claim=stated)
            best = best.recounted(task, engine=self.engine)
        return Attempt(task, search, best, search.method, whole, rest, encoder)
