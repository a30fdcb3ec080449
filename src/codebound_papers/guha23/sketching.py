"""Generalisation of pruned networks by counting and by sketching (Guha et al. 2023, section 5, appendix D).

Behind them stand the probabilities that a pruned matrix is sparse in every line, printed and exact.
A logarithm of a number of levels, ``ln(1/rho)``, counts as zero for a step of 1 or more (G-E10).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from codebound.bounds.numerics import kl_inverse_upper, log2_choose, log_binomial_cdf
from codebound.bounds.risk import check_counts, check_delta
from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_papers.facts import LayerFacts, NetworkFacts, separates
from codebound_papers.framework import big_o_risk
from codebound_papers.guha23 import pruning as lemmas
from codebound_papers.guha23.pruning import PruningFacts
from codebound_papers.logs import risk_of, safe_exp, safe_log
from codebound_papers.value import BIG_O, Constant, Hypothesis, PublishedValue, expression

_ERRATA = ("G-E2", "G-E5", "G-E6", "G-E9", "G-E10", "G-E26")


@implements("G-LemD.1:count", kind="published-form")
def published_count_nats(entries: int, *, nonzeros: int, size: float) -> float:
    """Log of the number of parameterisations of a layer, as published: ``ln C(N, alpha) + alpha ln(1/rho)``.

    No guarantee: it counts matrices with exactly ``nonzeros`` non-zeros (G-E13), and 1/rho levels (G-E10).
    """
    return log2_choose(entries, nonzeros) * math.log(2.0) + nonzeros * math.log(1.0 / size)


@expression("G-LemD.1", name="Guha D.1: naive count")
def naive_risk(facts: NetworkFacts, *, pruning: PruningFacts) -> PublishedValue:
    """``margin loss + sqrt(sum_l [ln C(N_l, J_l) + J_l ln(1/rho_l)] / n)``: positions and values.

    Below ``sketching_risk`` for all but tiny layers, although the paper says the contrary (G-E18).
    """
    nats = math.fsum(
        published_count_nats(layer.weights, nonzeros=pruned.nonzeros, size=min(pruned.step, 1.0))
        for layer, pruned in pruning.beside(facts)
    )
    return PublishedValue(
        log_value=big_o_risk(facts, log_nats=safe_log(nats)),
        sentence="""Margin loss of f plus the root of the nats that name the non-zero weights and their
        values, over n.""",
        margin_loss=facts.margin_loss,
        failure_published=facts.depth / pruning.slack,
        failure_corrected=facts.depth / pruning.slack + facts.delta,
        hypotheses=_conditions(facts, pruning),
        constants=(BIG_O, lemmas.latala(pruning)),
        errata=(*_ERRATA, "G-E13"),
    )


@expression("G-Lem5.1:network", name="Guha 5.1: sparsity fails", unit="probability")
def sparsity_failure(facts: NetworkFacts, *, pruning: PruningFacts) -> PublishedValue:
    """By lemma 5.1, probability of a line with over ``3 lambda_l chi max(d1, d2)`` non-zeros in some layer.

    ``failure_corrected`` is that of the exact binomial law of every line.
    """
    pairs = pruning.beside(facts)
    published = math.fsum(_sparsity_failure(layer, pruning) for layer, _ in pairs)
    exact = 0.0
    for layer, pruned in pairs:
        d1, d2, chi = layer.rows, layer.columns, pruned.kept_share
        limit = math.floor(3.0 * pruning.sparsity_slack * chi * max(d1, d2))
        exact += 1.0 - sparsity_probability(limit, limit, d1=d1, d2=d2, chi=chi)
    return PublishedValue(
        log_value=math.log(published),
        sentence="Probability, by Markov and balls in bins, that some row or column keeps too many weights.",
        failure_published=published,
        failure_corrected=exact,
        hypotheses=(*_are_lines_sparse(facts, pruning), lemmas.HAS_GAUSSIAN_WEIGHTS),
        errata=("G-E4", "G-E15", "G-E26", "G-E27"),
    )


@expression("G-Thm5.2", name="Guha 5.2: sketching")
def sketching_risk(facts: NetworkFacts, *, pruning: PruningFacts, exponent: float = 2.0) -> PublishedValue:
    """``margin loss + sqrt(sum_l 3 lambda_l chi d1 d2 ln^2(p_l) ln(1/rho_l) / n)``, the main theorem.

    The formula is the one that the sketching theorem supports with rows and columns kept apart;
    ``sketching_risk_by_proof`` has what the printed proof arrives at (G-E17).
    """
    pairs = pruning.beside(facts)
    nats = _sketch_nats(facts, pruning)[1]
    recovery = math.fsum(max(layer.rows, layer.columns) ** -exponent for layer, _ in pairs)
    changes = facts.depth / pruning.slack
    sparsity = math.fsum(_sparsity_failure(layer, pruning) for layer, _ in pairs)
    not_recovered = Constant("c", exponent, "exponent of the probability that a sketch is not recovered")
    side = Constant("m", 1.0, "factor in the side of a sketch, which theorem 5.1 leaves open")
    loaded, has_slack = _are_lines_sparse(facts, pruning)
    return PublishedValue(
        log_value=big_o_risk(facts, log_nats=safe_log(nats)),
        sentence="""Margin loss of f plus the root of the numbers in all sketches, times the logarithm of
        their levels, over n.""",
        margin_loss=facts.margin_loss,
        failure_published=facts.depth / pruning.sparsity_slack + changes + recovery,
        failure_corrected=sparsity + changes + recovery + facts.delta,
        hypotheses=(*_conditions(facts, pruning), has_slack, loaded),
        constants=(BIG_O, lemmas.latala(pruning), not_recovered, side),
        errata=(*_ERRATA, "G-E4", "G-E15", "G-E16", "G-E17", "G-E18", "G-E20", "G-E27"),
    )


@expression("G-Thm5.2:proof", name="Guha 5.2: sketching, by its proof")
def sketching_risk_by_proof(facts: NetworkFacts, *, pruning: PruningFacts) -> PublishedValue:
    """The same with ``max(d1, d2)^2`` in place of ``d1 d2``: what the printed proof arrives at (G-E17)."""
    log_nats = safe_log(_sketch_nats(facts, pruning)[0])
    risk = sketching_risk(facts, pruning=pruning)
    return replace(risk, log_value=big_o_risk(facts, log_nats=log_nats))


_NEEDS = {"pruning": "released_pruning"}


@expression("G-Thm5.2:released", name="Guha's code: sketching", facts="least margin", needs=_NEEDS)
def released_sketching(facts: NetworkFacts, *, pruning: PruningFacts, needed_loss: float) -> PublishedValue:
    """Evaluate the so-called bound of the code: ``margin loss + sqrt(sum_l d1 d2 chi ln^2(p_l) / n)``.

    No factor 3 lambda_l, no levels, no sketch. The strength of pruning is the one at which the smallest
    margin is ``released_needed_margin``, or 0 without a positive one; ``needed_loss`` is the loss at that.
    """
    if not 0.0 <= needed_loss <= 1.0:
        raise UsageError(f"`needed_loss` is a share of the sample between 0 and 1. Got {needed_loss}.")
    pairs = pruning.beside(facts)
    numbers = math.fsum(_released_numbers(layer, pruned.kept_share) for layer, pruned in pairs)
    stops = facts.margin > 0.0 or all(layer.strength == 0.0 for layer in pruning.layers)
    found = f"margin {facts.margin:.4g}"
    return PublishedValue(
        log_value=risk_of(needed_loss, 0.5 * (safe_log(numbers) - math.log(facts.examples))),
        sentence="""Margin loss of f plus the root of expected non-zeros times squared logarithms of the
        widths, over n; no sketch is built, and a number has no levels.""",
        margin_loss=needed_loss,
        hypotheses=(Hypothesis("pruning stops where f has no positive margin", stops, found),),
        constants=(BIG_O,),
        errata=("G-E16", "G-E18", "G-E22", "G-E26"),
    )


@implements("G-E22:kept", kind="numerics")
def implied_kept_share(facts: NetworkFacts, *, log_value: float) -> float:
    """The share of kept weights at which ``released_sketching`` has a given logarithm, without margin loss.

    Differs.    Read off the tables, 75 to 85 per cent of the weights were kept.
    """
    numbers = math.fsum(_released_numbers(layer, 1.0) for layer in facts.layers)
    return safe_exp(2.0 * log_value + math.log(facts.examples) - safe_log(numbers))


def _released_numbers(layer: LayerFacts, chi: float) -> float:
    """``chi d1 d2 ln^2 p``: the printed count without its factor ``3 lambda``."""
    return sketch_numbers(layer.rows, layer.columns, chi=chi, slack=1.0 / 3.0)[1]


def _sketch_nats(facts: NetworkFacts, pruning: PruningFacts) -> tuple[float, float]:
    """Numbers in all sketches times the logarithms of their levels, by the proof and by the theorem."""
    by_proof, by_theorem, slack = [], [], pruning.sparsity_slack
    for layer, pruned in pruning.beside(facts):
        level_nats = max(0.0, -math.log(pruned.step))
        numbers = sketch_numbers(layer.rows, layer.columns, chi=pruned.kept_share, slack=slack)
        by_proof.append(numbers[0] * level_nats)
        by_theorem.append(numbers[1] * level_nats)
    return math.fsum(by_proof), math.fsum(by_theorem)


def _sparsity_failure(layer: LayerFacts, pruning: PruningFacts) -> float:
    return 1.0 - published_sparsity_probability(pruning.sparsity_slack, d1=layer.rows, d2=layer.columns)


def _conditions(facts: NetworkFacts, pruning: PruningFacts) -> tuple[Hypothesis, ...]:
    """The margin condition as printed and as the proof needs it, and what it rests on."""
    printed = lemmas.rounded_deviation(facts, pruning=pruning)
    proved = lemmas.rounded_deviation_corrected(facts, pruning=pruning)
    log_margin = math.log(facts.margin) if facts.margin > 0.0 else -math.inf
    largest = max(layer.step for layer in pruning.layers)
    return (
        separates(facts),
        Hypothesis(
            "gamma is at least the printed deviation of lemma 4.4",
            log_margin >= printed.log_value,
            f"{facts.margin:.4g} against {printed.value:.4g}",
        ),
        Hypothesis(
            "gamma is at least sqrt(2) times the corrected deviation of lemma 4.4",
            log_margin >= proved.log_value + 0.5 * math.log(2.0),
            f"{facts.margin:.4g} against {math.sqrt(2.0) * proved.value:.4g}",
        ),
        *printed.hypotheses,
        Hypothesis("all steps rho_l are below 1", largest < 1.0, f"up to {largest:.4g}"),
    )


def _are_lines_sparse(facts: NetworkFacts, pruning: PruningFacts) -> tuple[Hypothesis, Hypothesis]:
    """Lemma E.1 is false for few balls per bin: non-zeros per row or column here (G-E15)."""
    slack = pruning.sparsity_slack
    short = [
        f"{layer.name} has {pruned.nonzeros / lines:.3g} of {least_mean_load(lines):.3g}"
        for layer, pruned in pruning.beside(facts)
        for lines in (layer.rows, layer.columns)
        if pruned.nonzeros < least_mean_load(lines) * lines
    ]
    loaded = "every layer keeps enough weights per row and column for lemma E.1"
    has_slack = Hypothesis("lambda_l is above 1, for Markov's inequality", slack > 1.0, f"{slack:g}")
    return Hypothesis(loaded, not short, "; ".join(short)), has_slack


@implements("G-LemE.1", kind="published-form")
def published_max_load_probability(bins: int) -> float:
    """The probability claimed for "no bin gets more than three times the mean"; false for few balls per bin.

    >>> round(published_max_load_probability(784), 2)
    0.89
    """
    return 1.0 - _inverse_cube_root(bins)


@implements("G-E15", kind="numerics")
def max_load_probability(balls: int, bins: int) -> float:
    """A true lower bound for the same event: 1 - bins (e^2/27)^(balls/bins), at least 0.

    Chernoff for each bin and a union over bins, with or without replacement.
    """
    if balls < 0 or bins < 1:
        raise UsageError(f"balls are at least 0 and bins at least 1. Got {balls} and {bins}.")
    return max(0.0, 1.0 - bins * math.exp(-_CHERNOFF_RATE * balls / bins))


def least_mean_load(bins: int) -> float:
    """Balls per bin from which the published probability is proven."""
    return 4.0 / 3.0 * math.log(bins) / _CHERNOFF_RATE


@implements("G-Lem5.1", kind="published-form")
def published_sparsity_probability(slack: float, *, d1: int, d2: int) -> float:
    """The probability claimed for ``max(j_r, j_c) <= 3 slack max(d1, d2) chi``; 0 or less says nothing."""
    return 1.0 - 1.0 / slack - _inverse_cube_root(d1) - _inverse_cube_root(d2)


@implements("I-15", "G-E15:exact", kind="numerics")
def sparsity_probability(j_r: int, j_c: int, *, d1: int, d2: int, chi: float) -> float:
    """A true lower bound for "no column has more than j_r non-zeros and no row more than j_c".

    Diagonal entries are kept and the others independently with probability chi, so a line that meets the
    diagonal has 1 + Binomial of them: exact for each line, a union over lines, no Markov inequality.

    >>> round(sparsity_probability(20, 20, d1=784, d2=784, chi=0.01), 2)
    0.72
    """
    if not 0.0 <= chi <= 1.0 or min(d1, d2) < 1:
        raise UsageError(f"chi is a probability and sides are at least 1. Got chi {chi}, {d1} x {d2}.")
    failure = _any_line_exceeds(j_c, lines=d1, length=d2, chi=chi)
    failure += _any_line_exceeds(j_r, lines=d2, length=d1, chi=chi)
    return max(0.0, 1.0 - failure)


@implements("G-E16", kind="numerics")
def dropped_failure_probability(sides: Sequence[int]) -> float:
    """Return the failure probability that the main theorem leaves out: d1^(-1/3) + d2^(-1/3) over all layers.

    >>> round(dropped_failure_probability([784, 784, 784, 784, 784, 10]), 2)
    1.44
    """
    return sum(_inverse_cube_root(d1) + _inverse_cube_root(d2) for d1, d2 in pairwise(sides))


@implements("G-E17", kind="numerics")
def sketch_numbers(d1: int, d2: int, *, chi: float, slack: float) -> tuple[float, float]:
    """Numbers in a sketch by the published proof, and by the theorem with rows and columns kept apart.

    The proof bounds max(j_r, j_c) max(d1, d2); the theorem needs max(j_c d1, j_r d2): the printed formula.
    """
    log_square = math.log(max(d1, d2)) ** 2
    return 3 * slack * chi * max(d1, d2) ** 2 * log_square, 3 * slack * chi * d1 * d2 * log_square


@dataclass(frozen=True, slots=True)
class CodeCosts:
    """Nats to describe one sparse layer in three ways."""

    sketch: float
    naive: float
    dense: float


@implements("G-E18", kind="numerics")
def code_costs(nonzeros: int, *, d1: int, d2: int, levels: int, constant: float = 1.0) -> CodeCosts:
    """Costs of a layer with values of some levels: sketched, position by position, and dense.

    ``sketch`` is a lower bound of the theorem's count: m^2 >= constant x nonzeros x ln^2 max(d1, d2)
    numbers, because max(j_c d1, j_r d2) is at least the number of non-zeros, of at least as many levels.
    """
    if not 0 <= nonzeros <= d1 * d2 or levels < 2:
        raise UsageError(f"{nonzeros} non-zeros of {levels} levels do not fit a {d1} x {d2} matrix.")
    value = math.log(levels)
    return CodeCosts(
        sketch=constant * nonzeros * math.log(max(d1, d2)) ** 2 * value,
        naive=log2_choose(d1 * d2, nonzeros) * math.log(2.0) + nonzeros * value,
        dense=d1 * d2 * value,
    )


def _inverse_cube_root(side: int) -> float:
    return math.exp(-math.log(side) / 3.0)


def _any_line_exceeds(limit: int, *, lines: int, length: int, chi: float) -> float:
    on_diagonal = min(lines, length)
    others = (lines - on_diagonal) * _exceeds(limit, length, chi)
    return on_diagonal * _exceeds(limit - 1, length - 1, chi) + others


def _exceeds(k: int, n: int, p: float) -> float:
    """P(Bin(n, p) > k), from the upper tail: the lower one would lose its digits."""
    return math.exp(log_binomial_cdf(n - k - 1, n, 1.0 - p))


_CHERNOFF_RATE = math.log(27.0) - 2.0


_LEAST_SAMPLE = 8  # of Maurer's inequality


@implements("K-SK:posterior", kind="numerics")
def drawn_sketch_risk(
    errors: Sequence[int], *, code_bits: Sequence[float], n: int, delta: float = 0.05
) -> float:
    r"""Mean error of networks that are drawn with equal chances from N sketches: a PAC-Bayes bound.

    Statement.  Let a prefix-free code of sketches be fixed before n i.i.d. examples. With probability at
                least ``1 - delta``, for all N different code words at once, the mean risk p of their networks
                has ``kl(mean(errors)/n || p) <= (mean(bits) ln 2 - ln N + ln(2 sqrt(n)/delta)) / n``.
    Proof.      Seeger's inequality with Maurer's constant, n >= 8. The prior of a word is ``2^-bits``, and
                the uniform posterior has the divergence ``mean(bits) ln 2 - ln N`` from it.
    Direction.  Upper bound on a mean over draws: no single network is certified.
    Checked by. simulation (teeth: no bits charged), hand.

    >>> round(drawn_sketch_risk([8000] * 1024, code_bits=[16_026] * 1024, n=60_000), 4)
    0.4115
    """
    check_delta(delta)
    if not errors or len(errors) != len(code_bits) or n < _LEAST_SAMPLE or min(code_bits, default=0.0) < 0.0:
        raise UsageError(f"each of N sketches has errors and bits, and a sample {_LEAST_SAMPLE} examples.")
    for count in errors:
        check_counts(count, n)
    bits, rate = math.fsum(code_bits) / len(errors), math.fsum(errors) / (len(errors) * n)
    nats = bits * math.log(2.0) - math.log(len(errors)) + math.log(2.0 * math.sqrt(n) / delta)
    return kl_inverse_upper(min(1.0, rate * (1.0 + 1e-12)), max(0.0, nats / n * (1.0 + 1e-12)))
