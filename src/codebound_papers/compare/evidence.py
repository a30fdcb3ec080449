"""What published expressions are evaluated on, and how one is evaluated or refused."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from codebound.errors import CodeboundError, UsageError
from codebound_papers import framework
from codebound_papers.arora18 import noise_stability, truncation
from codebound_papers.arora18.noise_stability import OUTLIERS
from codebound_papers.baselines import bars, risks
from codebound_papers.guha23 import kappa, lottery, pruning, sketching
from codebound_papers.guha23.kappa import prune_for_margin, released_needed_margin
from codebound_papers.shin21 import heavy_tails
from codebound_papers.shin21.heavy_tails import replacement_thresholds
from codebound_papers.value import EXPRESSIONS, PublishedValue

if TYPE_CHECKING:
    from collections.abc import Collection

    from codebound.facts import Subject
    from codebound_papers.compare.proximity import Closeness
    from codebound_papers.facts import NetworkFacts
    from codebound_papers.guha23.pruning import PruningFacts
    from codebound_papers.measure.record import Measured
    from codebound_papers.value import Expression, FactsKind, Unit

_MODULES = (
    risks,
    bars,
    framework,
    truncation,
    noise_stability,
    pruning,
    kappa,
    sketching,
    lottery,
    heavy_tails,
)
"""Where the expressions are, in the order of the table."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the expressions are evaluated on; what is expensive is computed when it is first asked for.

    Attributes:
        measured: The network and its sample.
        message: Length of the message of a compressed network g, and how close it is to f; None without g.
        seed: Of the drawn prunings.
    """

    measured: Measured
    message: tuple[int, Closeness] | None = None
    seed: int = 0

    @cached_property
    def pruning(self) -> PruningFacts:
        """Pruning as published, as strong as gamma allows."""
        return prune_for_margin(
            self.measured.network, self.facts("chain"), keep_diagonal=True, seed=self.seed
        )

    @cached_property
    def released_pruning(self) -> PruningFacts:
        """Pruning as in the released code, as strong as the smallest margin allows."""
        return prune_for_margin(
            self.measured.network, self.facts("least margin"), keep_diagonal=False, seed=self.seed
        )

    @property
    def needed_loss(self) -> float:
        """Share of the sample with a margin of at most the one that the released code asks for."""
        needed = released_needed_margin(self.facts("least margin"), pruning=self.released_pruning)
        return self.measured.margins.loss(needed.value)

    @property
    def code_bits(self) -> int:
        """Length of the message of g."""
        return self._message[0]

    @property
    def code_nats(self) -> float:
        """The same in nats: the logarithm of the number of such messages."""
        return self.code_bits * math.log(2.0)

    @property
    def deviation(self) -> float | None:
        """Largest difference of a score of f and of g."""
        return self._message[1].largest

    @property
    def outliers(self) -> float:
        """Share of the sample where g is not within the margin of f."""
        return self._message[1].share_beyond(max(0.0, self.measured.facts.margin))

    @property
    def _message(self) -> tuple[int, Closeness]:
        if self.message is None:
            raise UsageError("it is about a compressed network g: give a certificate, or let one be made.")
        return self.message

    def facts(self, kind: FactsKind) -> NetworkFacts:
        """The facts of that kind, or a refusal that says why they do not apply."""
        measured = self.measured
        match kind:
            case "all":
                return measured.facts
            case "chain":
                return measured.chain_facts
            case "stability":
                return measured.stability_facts
            case "least margin":
                return measured.least_margin_facts
            case "distance":
                return measured.distance_facts
            case "without outliers":
                return measured.facts_without_outliers(OUTLIERS)

    @cached_property
    def thresholds(self) -> tuple[float, ...]:
        """Below which size S-Thm2 lets the weights of a layer be replaced; 0 where it lets none."""
        found = replacement_thresholds(self.facts("stability"))
        return tuple(each.published for each in found) or (0.0,) * self.measured.facts.depth

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """Weights of each layer above its threshold."""
        pairs = zip(self.measured.network.layers, self.thresholds, strict=True)
        return tuple(int((view.weight.detach().abs() > threshold).sum()) for view, threshold in pairs)


@dataclass(frozen=True, slots=True)
class Refused:
    """A statement that says nothing about this network, and why."""

    ref: str
    name: str
    subject: Subject
    reason: str


def evaluate(evidence: Evidence, units: Collection[Unit]) -> list[PublishedValue | Refused]:
    """The values of all expressions of these units, and the refusals among them."""
    chosen = (each for each in published_expressions() if each.unit in units)
    return [value for each in chosen for value in _values(each, evidence)]


def published_expressions() -> list[Expression]:
    """All published expressions, in the order of the table."""
    return [each for module in _MODULES for each in EXPRESSIONS if each.module == module.__name__]


def _values(expression: Expression, evidence: Evidence) -> list[PublishedValue | Refused]:
    try:
        inputs = {name: getattr(evidence, source) for name, source in expression.needs.items()}
        found = expression.function(evidence.facts(expression.facts), **inputs)
    except CodeboundError as refusal:
        return [Refused(expression.ref, expression.name, expression.subject, str(refusal))]
    values = [found] if isinstance(found, PublishedValue) else found
    return [replace(value, name=f"{value.name}{expression.form}") for value in values]
