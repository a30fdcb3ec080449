"""Every published bound and lemma, and what of the evidence each is told."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from codebound_papers.arora18.noise_stability import (
    convolutional_numbers,
    convolutional_risk,
    fully_connected_risk,
    margin_numbers,
    noise_stability_bar,
    proven_numbers,
)
from codebound_papers.arora18.spectral_margin import printed_spectral_margin_risk, spectral_margin_risk
from codebound_papers.baselines.figure import arora_figure
from codebound_papers.baselines.released import guha_code
from codebound_papers.baselines.risks import literature, parameter_counting
from codebound_papers.compare.evidence import Evidence, Expression
from codebound_papers.framework import (
    counting_framework,
    parameter_framework,
    parameter_framework_with_outliers,
)
from codebound_papers.guha23.kappa import (
    SpreadInputs,
    released_needed_margin,
    spread_perturbation,
    spread_pruned_deviation,
    spread_rounded_deviation,
)
from codebound_papers.guha23.lottery import ticket_risk, ticket_weights
from codebound_papers.guha23.pruning import (
    pruned_deviation,
    pruned_deviation_corrected,
    rounded_deviation,
    rounded_deviation_corrected,
)
from codebound_papers.guha23.sketching import (
    naive_risk,
    released_sketching,
    sketching_risk,
    sketching_risk_by_proof,
    sparsity_failure,
)
from codebound_papers.shin21.heavy_tails import (
    heavy_tail_risk,
    heavy_tail_risk_with_logarithms,
    published_replacement_failure,
    replacement_failure,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from codebound_papers.value import PublishedValue

OUTLIERS = 0.05
"""Share of the examples that the rows with outliers leave out of the measures of noise stability."""
_OUTLIERS = f", {OUTLIERS:.0%} outliers"
_RANDOM_WIDTH = 16  # of the network that a ticket is in, over the width of the target; the paper says "poly"
_TICKET_STEP = 1.0 / 256.0


def _released(evidence: Evidence) -> PublishedValue:
    facts, pruning = evidence.measured.least_margin, evidence.released_pruning
    needed = released_needed_margin(facts, pruning=pruning).value
    return released_sketching(facts, pruning=pruning, needed_loss=evidence.measured.margins.loss(needed))


def _framework(evidence: Evidence) -> PublishedValue:
    bits, close = evidence.message
    return parameter_framework(evidence.measured.facts, parameters=bits, levels=2, deviation=close.largest)


def _framework_with_outliers(evidence: Evidence) -> PublishedValue:
    bits, close = evidence.message
    facts = evidence.measured.facts
    outliers = close.share_beyond(max(0.0, facts.margin))
    return parameter_framework_with_outliers(facts, parameters=bits, levels=2, outliers=outliers)


def _counting(evidence: Evidence) -> PublishedValue:
    bits, close = evidence.message
    return counting_framework(
        evidence.measured.facts, log_count=bits * math.log(2.0), deviation=close.largest
    )


def _ticket(evidence: Evidence) -> PublishedValue:
    facts = evidence.measured.chain
    return ticket_risk(facts, random_width=_RANDOM_WIDTH * facts.width, step=_TICKET_STEP)


def _ticket_weights(evidence: Evidence) -> PublishedValue:
    facts = evidence.measured.chain
    return ticket_weights(facts, random_width=_RANDOM_WIDTH * facts.width)


def _with_outliers(bound: Callable[..., PublishedValue], evidence: Evidence) -> PublishedValue:
    value = bound(evidence.measured.without_outliers(OUTLIERS), outliers=OUTLIERS)
    ref = "A-Imp-ii" if value.ref == "A-Thm4.1" else value.ref
    return replace(value, ref=ref, name=f"{value.name}{_OUTLIERS}")


def _from_initial(evidence: Evidence) -> PublishedValue:
    facts = evidence.measured.from_initial
    has_convolution = any(layer.patch is not None for layer in facts.layers)
    value = (convolutional_risk if has_convolution else fully_connected_risk)(facts)
    return replace(value, ref="A-Imp-i", name=f"{value.name}, from the initial weights")


def _parameters_of_no_chain(evidence: Evidence) -> tuple[PublishedValue, ...]:
    """Counting parameters needs no chain, so it is not refused along with the bounds beside it."""
    return (parameter_counting(evidence.measured.facts),) if evidence.measured.obstacle else ()


BOUNDS: tuple[Expression, ...] = (
    Expression("I-17", "Bounds of the literature", "f", lambda e: literature(e.measured.chain)),
    Expression("I-17", "Parameter counting", "f", _parameters_of_no_chain),
    Expression(
        "I-17:arora-figure",
        "Bars of Arora's figure 2",
        "f",
        lambda e: arora_figure(e.measured.chain),
        ", Arora's figure",
    ),
    Expression(
        "A-Fig2M:ours",
        "Noise stability, Arora's figure",
        "g",
        lambda e: (noise_stability_bar(e.measured.stable),),
        ", Arora's figure",
    ),
    Expression(
        "I-17:guha-code",
        "Baselines of Guha's code",
        "f",
        lambda e: guha_code(e.measured.least_margin),
        ", Guha's code",
    ),
    Expression("A-Thm2.1", "Compression framework", "g", lambda e: (_framework(e),)),
    Expression(
        "A-CorA.1", "Compression framework with outliers", "g", lambda e: (_framework_with_outliers(e),)
    ),
    Expression("G-ThmD.1", "Guha D.1: counting", "g", lambda e: (_counting(e),)),
    Expression(
        "A-Thm2.2", "Arora 2.2: spectral norms", "f", lambda e: (spectral_margin_risk(e.measured.chain),)
    ),
    Expression(
        "A-Thm2.2:printed",
        "Arora 2.2 as printed",
        "f",
        lambda e: (printed_spectral_margin_risk(e.measured.chain),),
    ),
    Expression(
        "A-Thm4.1", "Arora 4.1: noise stability", "g", lambda e: (fully_connected_risk(e.measured.stable),)
    ),
    Expression(
        "A-Imp-i", "Arora: noise stability, from the initial weights", "g", lambda e: (_from_initial(e),)
    ),
    Expression(
        "A-Imp-ii",
        f"Arora 4.1: noise stability{_OUTLIERS}",
        "g",
        lambda e: (_with_outliers(fully_connected_risk, e),),
    ),
    Expression(
        "A-Thm5.1", "Arora 5.1: noise stability", "g", lambda e: (convolutional_risk(e.measured.stable),)
    ),
    Expression(
        "A-CorC.1",
        f"Arora 5.1: noise stability{_OUTLIERS}",
        "g",
        lambda e: (_with_outliers(convolutional_risk, e),),
    ),
    Expression(
        "G-LemD.1",
        "Guha D.1: naive count",
        "g",
        lambda e: (naive_risk(e.measured.chain, pruning=e.pruning),),
    ),
    Expression(
        "G-Thm5.2",
        "Guha 5.2: sketching",
        "g",
        lambda e: (sketching_risk(e.measured.chain, pruning=e.pruning),),
    ),
    Expression(
        "G-Thm5.2:proof",
        "Guha 5.2: sketching, by its proof",
        "g",
        lambda e: (sketching_risk_by_proof(e.measured.chain, pruning=e.pruning),),
    ),
    Expression("G-Thm5.2:released", "Guha's code: sketching", "g", lambda e: (_released(e),)),
    Expression("G-Thm6.2", "Guha 6.2: ticket", "g", lambda e: (_ticket(e),)),
    Expression(
        "S-Thm2",
        "Shin 2: heavy tails",
        "g",
        lambda e: (heavy_tail_risk(e.measured.stable, kept=e.kept),),
    ),
    Expression(
        "S-Thm2:dudley",
        "Shin 2 with logarithms",
        "g",
        lambda e: (heavy_tail_risk_with_logarithms(e.measured.stable, kept=e.kept),),
    ),
)
"""What can be read against an error rate, or is drawn as if it could."""


def _spread(evidence: Evidence) -> SpreadInputs:
    return SpreadInputs(n=evidence.measured.facts.examples)


LEMMAS: tuple[Expression, ...] = (
    Expression(
        "A-Lem10:count", "Arora lemma 10: numbers", "g", lambda e: (margin_numbers(e.measured.stable),)
    ),
    Expression(
        "A-X4.1:total", "Arora lemma 10: proven numbers", "g", lambda e: (proven_numbers(e.measured.stable),)
    ),
    Expression(
        "A-Lem14:count",
        "Arora lemma 14: numbers",
        "g",
        lambda e: (convolutional_numbers(e.measured.stable),),
    ),
    Expression(
        "G-Lem4.3",
        "Guha 4.3: pruned",
        "g",
        lambda e: tuple(
            lemma(e.measured.chain, pruning=e.pruning)
            for lemma in (pruned_deviation, pruned_deviation_corrected)
        ),
    ),
    Expression(
        "G-Lem4.4:network",
        "Guha 4.4: pruned and rounded",
        "g",
        lambda e: tuple(
            lemma(e.measured.chain, pruning=e.pruning)
            for lemma in (rounded_deviation, rounded_deviation_corrected)
        ),
    ),
    Expression(
        "G-LemC.2",
        "Guha, appendix C: deviations",
        "g",
        lambda e: tuple(
            lemma(e.measured.chain, pruning=e.pruning, spread=_spread(e))
            for lemma in (spread_perturbation, spread_pruned_deviation, spread_rounded_deviation)
        ),
    ),
    Expression(
        "G-LemC.2:released",
        "Guha's code: needed margin",
        "g",
        lambda e: (released_needed_margin(e.measured.least_margin, pruning=e.released_pruning),),
    ),
    Expression(
        "G-Lem5.1:network",
        "Guha 5.1: sparsity fails",
        "g",
        lambda e: (sparsity_failure(e.measured.chain, pruning=e.pruning),),
    ),
    Expression("G-Thm6.1:network", "Guha 6.1: weights of a ticket", "g", lambda e: (_ticket_weights(e),)),
    Expression(
        "S-Prop1.1:network",
        "Shin 1.1: failure",
        "g",
        lambda e: tuple(
            lemma(e.measured.stable, thresholds=e.thresholds)
            for lemma in (published_replacement_failure, replacement_failure)
        ),
    ),
)
"""What the bounds rest on: counts, deviations and probabilities, which are no error rates."""
