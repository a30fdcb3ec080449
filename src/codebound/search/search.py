"""The search for the best certificate: methods propose messages, all are assessed, the best one is kept.

What a search chose is inside the message, so looking further costs nothing but time. To add a method: write a
function that calls ``Search.propose`` or ``Search.consider``, and name it in ``search/methods.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from codebound.certificate.assessment import Assessed, assess, guess
from codebound.errors import CertificateError, ModelError
from codebound.progress import Progress, silent
from codebound.search.methods import known_methods

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from codebound.certificate.assessment import Encoded
    from codebound.certificate.task import Task
    from codebound.chains.message import Message
    from codebound.data.dataset import DeviceData
    from codebound.engine.job import Engine

Effort = Literal["quick", "standard", "max"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
_FINALISTS = 2


@dataclass(eq=False)
class Search:
    """Keeps the best of the messages that were proposed.

    Attributes:
        task: What is fixed before a message is chosen.
        effort: How much time to spend.
        seed: Of random choices that no decoder needs.
        device: Where networks are trained.
        engine: Where errors are counted; None: here.
        progress: Told how far the method is.
        allows_picks: Whether plain errors are all that is counted, so that examples may be picked.
        best: The best message so far.
        method: The method that proposed it.
        tried: Messages that were assessed.
        skipped: Methods that do not suit this network or claim, with the reason.
        is_interrupted: Whether the search was interrupted.
        running: The method that is running.
        is_asked: Whether the running method was asked for by name, so that its time is no surprise.
    """

    task: Task
    effort: Effort
    seed: int = 0
    device: str | torch.device = "cpu"
    engine: Engine | None = None
    progress: Progress = silent
    allows_picks: bool = True
    best: Assessed | None = field(default=None, init=False)
    method: str = field(default="", init=False)
    tried: int = field(default=0, init=False)
    skipped: dict[str, str] = field(default_factory=dict, init=False)
    is_interrupted: bool = field(default=False, init=False)
    is_asked: bool = field(default=False, init=False)
    running: str = field(default="", init=False)
    _held: tuple[float, Message] | None = field(default=None, init=False)

    @cached_property
    def sample(self) -> DeviceData:
        """The examples that errors are counted on, where networks are trained; they go there once."""
        return self.task.counted.on(self.device)

    def propose(self, message: Message, encoded: Encoded | None = None) -> float:
        """Assesses a message; returns the bound it is judged by, and remembers it if it is the best."""
        found = assess(message, self.task, encoded=encoded, engine=self.engine, progress=self.progress)
        self.offer(found)
        return found.rank[0]

    def offer(self, found: Assessed) -> None:
        """Remembers what was assessed if it is the best."""
        self.tried += 1
        if self.best is None or found.rank < self.best.rank:
            self.best, self.method = found, self.running

    def hold(self, message: Message, bound: float) -> None:
        """Keeps the message that is best by an estimate: it is assessed if the method is interrupted."""
        if self._held is None or bound < self._held[0]:
            self._held = bound, message

    def consider(self, makers: Sequence[Callable[[], Message | None]]) -> None:
        """Makes messages, guesses their bounds on a part of the sample, and assesses the most promising ones.

        A message that promises less than the best one so far is not assessed. Where g must stay near f,
        every message is: a guess knows nothing of the distance.

        Args:
            makers: One function per message; None for a message that cannot be the best.
        """
        to_beat = math.inf if self.best is None else self.best.score
        guesses: list[tuple[float, int, Message, Encoded]] = []
        for done, make in enumerate(makers):
            self.progress(done, len(makers) + _FINALISTS, self.note)
            message = make()
            if message is None:
                continue
            if self.task.claim.stays_near_f:
                self.propose(message)
            else:
                estimate, encoded = guess(message, self.task)
                guesses.append((estimate, done, message, encoded))
                guesses = sorted(guesses)[:_FINALISTS]  # a message can be as large as the network
        for done, (estimate, _, message, encoded) in enumerate(guesses, start=len(makers)):
            self.progress(done, len(makers) + _FINALISTS, self.note)
            if estimate < to_beat:
                self.propose(message, encoded)

    @property
    def most_bits(self) -> float:
        """Length beyond which no message is worth its making: even without errors it would be vacuous, or
        worse than the best one so far."""
        if self.best is None:
            return math.inf
        facts = self.best.facts
        risk = min(self.best.rank[0], 1.0 - 1.0 / self.task.sample.classes)
        return (-facts.n * math.log1p(-risk) + math.log(facts.delta)) / math.log(2.0)

    @property
    def note(self) -> str:
        """The best bound so far, for a progress bar."""
        return "" if self.best is None else f"best bound {100.0 * self.best.bound.value:.2f} %"


class UnsuitedError(CertificateError):
    """A method can do nothing for this network or this claim; the message says why."""


def run(search: Search, name: str) -> Assessed:
    """Runs a method, or all of them for ``auto``; an interrupted search keeps its best message.

    Raises:
        UnsuitedError: The one method that was asked for does not suit.
        CertificateError: No message could be made.
    """
    methods = known_methods()
    search.is_asked = name != "auto"
    try:
        for each in methods if name == "auto" else (name,):
            search.running, search._held = each, None
            try:
                methods[each].propose(search)
            except (UnsuitedError, ModelError) as reason:  # a training that diverges costs no other method
                if search.is_asked:
                    raise
                search.skipped[each] = str(reason)
    except KeyboardInterrupt:
        search.is_interrupted = True
        if search._held is not None:
            search.propose(search._held[1])
        if search.best is None:
            raise
    if search.best is None:
        reasons = "".join(f"\n  {each}: {reason}" for each, reason in search.skipped.items())
        raise CertificateError(f"no message could be made of this network.{reasons}")
    return search.best
