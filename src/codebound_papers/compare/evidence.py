"""What published expressions are evaluated on, and how one is evaluated or refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from codebound.errors import CodeboundError, UsageError
from codebound_papers.guha23.pruning_for_margin import prune_for_margin
from codebound_papers.shin21.heavy_tails import replacement_thresholds

if TYPE_CHECKING:
    from collections.abc import Callable

    from codebound.facts import Subject
    from codebound_papers.compare.facts import Measured
    from codebound_papers.compare.proximity import Closeness
    from codebound_papers.guha23.pruning import PruningFacts
    from codebound_papers.value import PublishedValue


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the expressions are evaluated on; what is expensive is computed when it is first asked for.

    Attributes:
        measured: The network and its sample.
        code_bits: Length of the message of a compressed network g; None where there is none.
        closeness: How close that g is to f.
        seed: Of the drawn prunings.
    """

    measured: Measured
    code_bits: int | None = None
    closeness: Closeness | None = None
    seed: int = 0

    @cached_property
    def pruning(self) -> PruningFacts:
        """Pruning as published, as strong as gamma allows."""
        return prune_for_margin(
            self.measured.network, self.measured.chain, keep_diagonal=True, seed=self.seed
        )

    @cached_property
    def released_pruning(self) -> PruningFacts:
        """Pruning as in the released code, as strong as the smallest margin allows."""
        return prune_for_margin(
            self.measured.network, self.measured.least_margin, keep_diagonal=False, seed=self.seed
        )

    @property
    def message(self) -> tuple[int, Closeness]:
        """Length of the message of g and its closeness to f."""
        if self.code_bits is None or self.closeness is None:
            raise UsageError(
                "it is about a compressed network g: give a certificate, or let one be made (without "
                "--no-certify)."
            )
        return self.code_bits, self.closeness

    @cached_property
    def thresholds(self) -> tuple[float, ...]:
        """Below which size S-Thm2 lets the weights of a layer be replaced; 0 where it lets none."""
        found = replacement_thresholds(self.measured.stable)
        return tuple(each.published for each in found) or (0.0,) * self.measured.facts.depth

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """Weights of each layer above its threshold."""
        pairs = zip(self.measured.network.layers, self.thresholds, strict=True)
        return tuple(int((view.weight.detach().abs() > threshold).sum()) for view, threshold in pairs)


@dataclass(frozen=True, slots=True)
class Expression:
    """A published statement.

    Attributes:
        ref: ID of docs/references.md.
        name: For the row that says why it has no value.
        subject: Whose risk it is about.
        evaluate: Its values, or a refusal.
        form: Appended to the names of its values, where several forms of a bound share them.
    """

    ref: str
    name: str
    subject: Subject
    evaluate: Callable[[Evidence], tuple[PublishedValue, ...]]
    form: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A statement that says nothing about this network, and why."""

    ref: str
    name: str
    subject: Subject
    reason: str


def evaluate(expressions: tuple[Expression, ...], evidence: Evidence) -> list[PublishedValue | Refused]:
    """All values, and the refusals among them."""
    return [value for each in expressions for value in _values(each, evidence)]


def _values(expression: Expression, evidence: Evidence) -> list[PublishedValue | Refused]:
    try:
        values = expression.evaluate(evidence)
    except CodeboundError as refusal:
        return [Refused(expression.ref, expression.name, expression.subject, str(refusal))]
    return [replace(value, name=f"{value.name}{expression.form}") for value in values]
