"""Noise stability as the theorems use it (Arora et al. 2018): read off the facts, and as a plan per layer.

The plan (lemmas 3, 10 and 14) is arithmetic on measured numbers: how many of them a random projection keeps
by algorithms 1 and 4. ``projection.induction`` measures what its proof claims.
"""

import math
from dataclasses import dataclass

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_papers.facts import LayerFacts, NetworkFacts
from codebound_papers.logs import safe_log
from codebound_papers.value import Hypothesis

_LEAST_ACCURACY = 1e-100  # its square is still a double; zero cushions and infinite contractions are below


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLayer:
    """Requirements of the lemmas on one layer."""

    name: str  # the layer
    weights: int  # its number of weights
    inputs: int  # its number of inputs; of one patch for a convolution
    cushion: float  # layer cushion mu_i
    interlayer_cushion: float  # minimal interlayer cushion mu_{i->}
    epsilon: float  # accuracy of its projection, eps_i
    published: float  # the count of lemma 3, with its 72; of a convolution that of algorithm 4, Q = 1
    count: int | None  # with which the proof goes through; None for a convolution, where none does (A-E17)
    # inputs below which lemma 3 never compresses the layer (A-E26); None if unknown, as for a convolution
    least_inputs: float | None = None

    @property
    def asked(self) -> int:
        """Numbers that the layer would be replaced by."""
        return math.ceil(self.published) if self.count is None else self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionPlan:
    """A plan for a whole network."""

    layers: tuple[PlannedLayer, ...]  # one entry per layer
    eta: float  # failure probability of one projection, delta / (2 d^2 h m)


def cushion(layer: LayerFacts) -> float:
    """mu_i."""
    return _require(layer.cushion, layer, "layer cushion")


def interlayer_cushion(layer: LayerFacts) -> float:
    """mu_{i->}."""
    return _require(layer.interlayer_cushion, layer, "interlayer cushion")


def contractions(facts: NetworkFacts) -> tuple[float, ...]:
    """c_i of every layer; 1 for the last, which has no activation."""
    measured = [_require(each.contraction, each, "activation contraction") for each in facts.layers[:-1]]
    return (*measured, 1.0)


def spreads(facts: NetworkFacts) -> tuple[float, ...]:
    """beta_i of every layer; 1 for a fully connected layer and for the last."""
    measured = [
        1.0 if layer.patch is None else _require(layer.spread, layer, "Jacobian spread")
        for layer in facts.layers[:-1]
    ]
    return (*measured, 1.0)


def log_demand(layer: LayerFacts) -> float:
    """Log of ``ceil(kappa/s)^2 / (mu_i^2 mu_{i->}^2)``; infinite where a cushion is zero."""
    return 2.0 * (math.log(layer.patch or 1) - safe_log(cushion(layer)) - safe_log(interlayer_cushion(layer)))


def is_smooth(facts: NetworkFacts) -> Hypothesis:
    """Smoothness of at least three times the depth."""
    statement = "interlayer smoothness rho_delta >= 3d"
    if facts.smoothness is None:
        return Hypothesis(statement, None)
    least = 3 * facts.depth
    return Hypothesis(statement, facts.smoothness >= least, f"{facts.smoothness:.4g} against {least}")


def fits_the_outputs(facts: NetworkFacts) -> Hypothesis:
    """A larger margin than the outputs allow makes every example an error, and the theorem trivial."""
    is_met = abs(facts.margin) <= math.sqrt(2.0) * facts.largest_output
    found = f"gamma {facts.margin:.4g}, max||f(x)|| {facts.largest_output:.4g}"
    return Hypothesis("gamma^2 <= 2 max||f(x)||^2", is_met, found)


def _require(value: float | None, layer: LayerFacts, what: str) -> float:
    if value is None:
        raise UsageError(
            f"layer {layer.name} has no {what}: it was not measured, and the expression needs it. "
            "Measure noise stability on the sample first (codebound_papers.measure.record)."
        )
    return value


@implements("A-Lem10", "S-Lem2.3", kind="algorithm")
def epsilon_for_margin(margin: float, *, largest_output: float) -> float:
    """Relative accuracy of the outputs that a margin allows: ``gamma / (sqrt(2) max ||f(x)||)``.

    Outputs that move by at most ``gamma / sqrt(2)`` in l2 keep every classification of margin gamma.

    >>> round(epsilon_for_margin(1.0, largest_output=10.0), 6)
    0.070711
    """
    if not (margin > 0.0 and 0.0 < largest_output < math.inf):
        raise UsageError(f"the margin and the largest output are positive. Got {margin}, {largest_output}.")
    if margin > math.sqrt(2.0) * largest_output:
        raise UsageError(
            f"no output of norm {largest_output} has a margin of {margin}: every example counts as an error "
            "and the lemma says nothing. Choose a smaller margin."
        )
    return margin / (math.sqrt(2.0) * largest_output)


@implements("A-Lem3", kind="published-form")
def published_total(facts: NetworkFacts, *, epsilon: float) -> float:
    """Numbers by lemma 3: ``72 c^2 d^2 log(mdh/delta) / eps^2 * sum_i 1 / (mu_i^2 mu_{i->}^2)``."""
    c = max(contractions(facts))
    return sum(_published_count(layer, facts, contraction=c, epsilon=epsilon) for layer in facts.layers)


def _published_count(layer: LayerFacts, facts: NetworkFacts, *, contraction: float, epsilon: float) -> float:
    cushions = cushion(layer) * interlayer_cushion(layer)
    return compression_threshold(facts) * (contraction / (epsilon * cushions)) ** 2


@implements("A-E26", kind="numerics")
def compression_threshold(facts: NetworkFacts) -> float:
    """``72 d^2 ln(mdh/delta)``: lemma 3 compresses a layer of more inputs than this times its stable rank.

    For the cushions are at most ``1/sqrt(srank)`` and ``1/sqrt(h)``, c is at least 1 and eps at most 1.
    """
    depth = facts.depth
    return 72.0 * depth**2 * math.log(facts.examples * depth * facts.width / facts.delta)


@implements("A-X4.1", "A-Lem14", "I-22", kind="algorithm")
def plan_projection(
    facts: NetworkFacts, *, contraction: float | None = None, spread: float | None = None
) -> ProjectionPlan | None:
    """Return the lemmas' requirements on every layer for the margin; None where these are infinite.

    ``eps_i = eps mu_i mu_{i->} / (6 c d)``, also over beta for a convolution, and for a fully connected layer
    ``k_i = sign_count(eps_i, delta / (2 d^2 h m))``. The lemmas also need a smoothness of at least 3d.

    Differs.    The proofs print 4cd, with which the induction adds up to 7/6 (A-E6). Choosing k by the
                training error of the decoded network needs none of this and is free, because k is coded.

    Contraction and spread are the largest c_i and beta_i where sums of branches have these.
    """
    cushions = [(cushion(layer), interlayer_cushion(layer)) for layer in facts.layers]
    c = max(contractions(facts)) if contraction is None else contraction
    beta = max(spreads(facts)) if spread is None else spread
    if min(facts.margin, facts.largest_output) <= 0.0:
        return None
    epsilon = 1.0
    if fits_the_outputs(facts).holds:
        epsilon = epsilon_for_margin(facts.margin, largest_output=facts.largest_output)
    if epsilon * min(own * later for own, later in cushions) < _LEAST_ACCURACY * c * beta:
        return None
    eta = facts.delta / (2.0 * facts.depth**2 * facts.width * facts.examples)
    planned = []
    for layer, (own, later) in zip(facts.layers, cushions, strict=True):
        accuracy = epsilon * own * later / (6 * c * facts.depth)
        count = None
        if layer.patch is None:
            published = _published_count(layer, facts, contraction=c, epsilon=epsilon)
            count = sign_count(min(accuracy, 1.0), eta)
        else:
            accuracy /= beta
            published = published_conv_count(accuracy, eta, patch=layer.patch).numbers
        planned.append(
            PlannedLayer(
                name=layer.name,
                weights=layer.weights,
                inputs=layer.columns,
                cushion=own,
                interlayer_cushion=later,
                epsilon=accuracy,
                published=published,
                count=count,
            )
        )
    return ProjectionPlan(layers=tuple(planned), eta=eta)


@implements("A-Alg1:count", kind="published-form")
def published_count(epsilon: float, eta: float) -> int:
    """The number of sign matrices that algorithm 1 prints: ``log(1/eta) / epsilon^2``, too few by A-E4.

    >>> published_count(0.1, 1e-6)
    1382
    """
    _check_accuracy(epsilon, eta)
    return max(1, math.ceil(math.log(1.0 / eta) / epsilon**2))


@implements("A-E4", kind="algorithm")
def sign_count(epsilon: float, eta: float) -> int:
    r"""The number of sign matrices with which algorithm 1 keeps its promise.

    Statement.  For fixed unit u, v and ``k = ceil(4 ln(4/eta) / (eps^2 - 2 eps^3/3))``,
                :math:`P(|u^T (\hat A - A) v| \ge \epsilon \|A\|_F) \le \eta`.
    Proof.      Polarise: ``<a,M><b,M> = (<a+b,M>^2 - <a-b,M>^2) / 4`` with
                ``||a+b||^2 + ||a-b||^2 = 4`` for unit a and b, and bound either mean of squares by
                Achlioptas' inequality for signs.
    Differs.    The paper has ``log(1/eta) / eps^2``: neither the two sides nor the variance ``1 + rho^2``
                of the product are in it.
    Checked by. simulation (teeth: the published count fails up to four times too often).

    >>> sign_count(0.1, 1e-6)
    6516
    """
    _check_accuracy(epsilon, eta)
    return math.ceil(4.0 * math.log(4.0 / eta) / (epsilon**2 - 2.0 * epsilon**3 / 3.0))


@implements("A-E4:gaussian", kind="algorithm")
def gaussian_count(epsilon: float, eta: float) -> int:
    r"""The number of Gaussian matrices, or vectors, with which the same promise holds.

    ``k = ceil(2 ln(2/eta) / (eps - ln(1 + eps)))``: the Cramer rate of a product of two Gaussians of
    correlation rho is smallest at ``rho = 1``, where it is ``(eps - ln(1 + eps)) / 2``.

    >>> gaussian_count(0.1, 1e-6)
    6188
    """
    _check_accuracy(epsilon, eta)
    return math.ceil(2.0 * math.log(2.0 / eta) / (epsilon - math.log1p(epsilon)))


@implements("A-Lem2", "S-Lem2.1", kind="algorithm")
def eta_for_pairs(delta: float, *, pairs: int, rows: int) -> float:
    r"""The failure probability to ask of algorithm 1 for many directions at once: ``delta / (m n)``.

    Statement.  With it, :math:`\|U (\hat A - A) x\| \le \epsilon \|A\|_F \|U\|_F \|x\|` holds with
                probability ``1 - delta`` for m fixed pairs of a matrix U with n rows and a vector x.
    Differs.    The paper's last line prints the inequality the other way round (A-E5).

    >>> eta_for_pairs(0.05, pairs=1000, rows=10)
    5e-06
    """
    if not 0.0 < delta < 1.0 or min(pairs, rows) < 1:
        raise UsageError(f"delta is in (0, 1), pairs and rows at least 1. Got {delta}, {pairs}, {rows}.")
    return delta / (pairs * rows)


@dataclass(frozen=True, slots=True)
class ConvCount:
    """Numbers that algorithm 4 asks for."""

    mixes: int  # k, Gaussian tensors per location
    order: int  # p, the even number of locations that were to be independent

    @property
    def numbers(self) -> int:
        """k p, the dimension of the subspace and the numbers that are kept."""
        return self.mixes * self.order


@implements("A-Alg4:count", kind="published-form")
def published_conv_count(epsilon: float, eta: float, *, patch: int, constant: float = 1.0) -> ConvCount:
    """``k = Q ceil(kappa/s)^2 log^2(1/eta) / eps^2`` and ``p = log_2(1/eta)``, rounded up to an even number.

    >>> published_conv_count(1.0, 0.1, patch=3)
    ConvCount(mixes=48, order=4)
    """
    if not (epsilon > 0.0 and 0.0 < eta < 1.0 and patch >= 1 and constant > 0.0):
        raise UsageError("epsilon and the constant are positive, eta is in (0, 1), patch at least 1.")
    mixes = math.ceil(constant * (patch * math.log(1.0 / eta) / epsilon) ** 2)
    return ConvCount(mixes, 2 * math.ceil(math.log2(1.0 / eta) / 2.0))


def _check_accuracy(epsilon: float, eta: float) -> None:
    if not (0.0 < epsilon <= 1.0 and 0.0 < eta < 1.0):
        raise UsageError(f"epsilon is in (0, 1] and eta in (0, 1). Got {epsilon} and {eta}.")
