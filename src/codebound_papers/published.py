"""All published expressions: what they are evaluated on, and how one is evaluated or refused."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType

from codebound.run.errors import CodeboundError, ModelError, UsageError
from codebound_papers import baselines, framework
from codebound_papers.arora18 import noise_stability, truncation
from codebound_papers.arora18.noise_stability import OUTLIERS
from codebound_papers.facts import NetworkFacts
from codebound_papers.guha23 import kappa, lottery, pruning, sketching
from codebound_papers.guha23.kappa import PruningChoice, prune_for_margin, released_needed_margin
from codebound_papers.guha23.pruning import PruningFacts
from codebound_papers.measure.proximity import Closeness
from codebound_papers.measure.record import Measured, with_stability
from codebound_papers.shin21 import heavy_tails
from codebound_papers.shin21.heavy_tails import replacement_thresholds
from codebound_papers.value import EXPRESSIONS, Expression, FactsKind, PublishedValue, Refused

_ARORA, _GUHA, _SHIN = (truncation, noise_stability), (pruning, kappa, sketching, lottery), (heavy_tails,)
_MODULES: tuple[tuple[ModuleType, ...], ...] = ((baselines, framework), _ARORA, _GUHA, _SHIN)
"""Modules of the expressions, paper by paper, in the order of the table."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Inputs of the expressions. What is expensive is computed when it is first asked for."""

    measured: Measured  # the network and its sample
    # length of the message of a compressed network g, and how close it is to f; None without g
    message: tuple[int, Closeness] | None = None
    seed: int = 0  # of the drawn prunings
    choice: PruningChoice | None = None  # of the numbers that theorem 5.2 leaves open
    lost: str = ""  # why a network g that was made is no evidence

    @cached_property
    def pruning(self) -> PruningFacts:
        """Pruning as published, as strong as gamma allows or as was chosen."""
        network, facts = self.measured.network, self.facts("chain")
        return prune_for_margin(network, facts, keep_diagonal=True, choice=self.choice, seed=self.seed)

    @cached_property
    def released_pruning(self) -> PruningFacts:
        """Pruning as in the released code, as strong as the smallest margin allows."""
        network, facts = self.measured.network, self.facts("least margin")
        return prune_for_margin(network, facts, keep_diagonal=False, seed=self.seed)

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
            missing = (
                "it is about a network g that a message compresses this one to, and there is none (one that "
                "was learned from examples is no such g): give the certificate of one, or let one be made."
            )
            raise UsageError(self.lost or missing)
        return self.message

    def facts(self, kind: FactsKind) -> NetworkFacts:
        """The facts of that kind; refused where they do not apply to this network, or were not measured."""
        measured = self.measured
        if kind != "all" and measured.obstacle:
            raise ModelError(measured.obstacle)
        facts = measured.facts
        if kind.endswith("convolutions"):
            if not any(layer.patch is not None for layer in facts.layers):
                raise ModelError("it is about convolutions, and there is none: theorem 4.1 is its form here.")
            return self.facts("without outliers" if kind.startswith("best") else "stability")
        if kind in ("all", "chain"):
            return facts
        if kind == "least margin":
            least = measured.margins.minimum
            return replace(facts, margin=least, margin_loss=measured.margins.loss(least))
        found = measured.require_stability()
        if kind == "distance":
            cushions = {row.layer: row.distance_cushion for row in found.layers}
            if any(cushions.get(layer.name) is None for layer in facts.layers):
                raise ModelError("it needs the network before training: give its initial weights.")
            layers = tuple(replace(layer, cushion=cushions[layer.name]) for layer in facts.layers)
            return replace(facts, layers=layers)
        if kind == "without outliers":
            found = replace(found, outliers=OUTLIERS)
            return replace(facts, layers=with_stability(facts.layers, found))
        return facts

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


def evaluate(evidence: Evidence, *, only: str | None = None) -> list[PublishedValue | Refused]:
    """The values of all expressions, or of one by its ID, and the refusals among them, paper by paper."""
    found: list[PublishedValue | Refused] = []
    for modules in _MODULES:
        names = [module.__name__ for module in modules]
        known = [each for each in EXPRESSIONS if each.function.__module__ in names]
        known = [each for each in known if only in (None, each.ref)]
        known.sort(key=lambda each: names.index(each.function.__module__))
        found += [value for each in known for value in _values(each, evidence)]
    return found


def _values(expression: Expression, evidence: Evidence) -> list[PublishedValue | Refused]:
    try:
        needs = {name: getattr(evidence, source) for name, source in expression.needs.items()}
        found = expression.function(facts=evidence.facts(expression.facts), **needs)
    except CodeboundError as refusal:
        ref = expression.refused or expression.ref
        return [Refused(ref, expression.name, expression.unit, expression.subject, str(refusal))]
    values = [found] if isinstance(found, PublishedValue) else found
    return [replace(value, name=f"{value.name}{expression.form}") for value in values]
