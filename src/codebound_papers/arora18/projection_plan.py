"""How many numbers a random projection keeps (Arora et al. 2018, algorithms 1 and 4), and a plan per layer.

The plan (lemmas 3, 10 and 14) is arithmetic on measured noise stability; ``projection.induction`` measures
what its proof claims.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from codebound.errors import UsageError
from codebound.refs import implements


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCushions:
    """What was measured on one layer.

    Attributes:
        name: The layer.
        weights: Its number of weights.
        cushion: Layer cushion mu_i.
        interlayer_cushion: Minimal interlayer cushion mu_{i->}.
        patch: ``ceil(kappa / s)`` of a convolution; None for a fully connected layer.
    """

    name: str
    weights: int
    cushion: float
    interlayer_cushion: float
    patch: int | None = None

    def __post_init__(self) -> None:
        if min(self.cushion, self.interlayer_cushion) <= 0.0 or self.weights < 1 or self.patch == 0:
            raise UsageError(f"cushions are positive, weights and patch at least 1. Got {self}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """What a plan is made for.

    Attributes:
        contraction: Activation contraction c, at least 1.
        epsilon: Relative accuracy of the outputs, in (0, 1]; see ``epsilon_for_margin``.
        delta: Failure probability of the whole plan.
        examples: Size m of the sample.
        width: Largest number h of units of a layer.
    """

    contraction: float
    epsilon: float
    delta: float
    examples: int
    width: int

    def __post_init__(self) -> None:
        is_probability = 0.0 < self.epsilon <= 1.0 and 0.0 < self.delta < 1.0
        if not is_probability or self.contraction < 1.0 or min(self.examples, self.width) < 1:
            raise UsageError(
                "epsilon is in (0, 1], delta in (0, 1), and contraction, examples and width are at least 1. "
                f"Got {self}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLayer:
    """What the lemmas ask for in one layer.

    Attributes:
        name: The layer.
        weights: Its number of weights.
        epsilon: Accuracy eps_i of its projection.
        published: The count of lemma 3, with its constant 72; for a convolution that of algorithm 4, with Q.
        count: The count with which the proof goes through; None for a convolution, where none does (A-E17).
    """

    name: str
    weights: int
    epsilon: float
    published: float
    count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionPlan:
    """A plan for a whole network.

    Attributes:
        layers: One entry per layer.
        eta: Failure probability of one projection, ``delta / (2 d^2 h m)``.
    """

    layers: tuple[PlannedLayer, ...]
    eta: float


@implements("A-Lem10", "S-Lem2.3", kind="algorithm")
def epsilon_for_margin(margin: float, *, largest_output: float) -> float:
    """Relative accuracy of the outputs that a margin allows: ``gamma / (sqrt(2) max ||f(x)||)``.

    Outputs that move by at most ``gamma / sqrt(2)`` in l2 keep every classification of margin gamma.

    Example:
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
def published_total(layers: Sequence[LayerCushions], setting: PlanSettings) -> float:
    """Numbers by lemma 3: ``72 c^2 d^2 log(mdh/delta) / eps^2 * sum_i 1 / (mu_i^2 mu_{i->}^2)``.

    Example:
        >>> layer = LayerCushions(name="fc", weights=100, cushion=0.5, interlayer_cushion=0.5)
        >>> setting = PlanSettings(contraction=1.0, epsilon=1.0, delta=0.05, examples=1000, width=10)
        >>> round(published_total([layer], setting))
        14061
    """
    return sum(_published_count(layer, setting, depth=len(layers)) for layer in layers)


@implements("A-E26", kind="numerics")
def compression_threshold(*, depth: int, width: int, examples: int, delta: float) -> float:
    """``72 d^2 ln(mdh/delta)``: lemma 3 compresses a layer only if its inputs outnumber this times its stable
    rank.

    For the cushions are at most ``1/sqrt(srank)`` and ``1/sqrt(h)``, c is at least 1 and eps at most 1.

    Example:
        >>> round(compression_threshold(depth=2, width=500, examples=50_000, delta=0.05))
        5968
    """
    if min(depth, width, examples) < 1 or not 0.0 < delta < 1.0:
        raise UsageError("depth, width and examples are at least 1, and delta is in (0, 1).")
    return 72.0 * depth**2 * math.log(examples * depth * width / delta)


@implements("A-X4.1", "A-Lem14", "I-22", kind="algorithm")
def plan_projection(
    layers: Sequence[LayerCushions],
    setting: PlanSettings,
    *,
    spread: float = 1.0,
    constant: float = 1.0,
) -> ProjectionPlan:
    """The accuracy and the counts of every layer, for outputs that move by at most ``epsilon`` of their norm.

    ``eps_i = eps mu_i mu_{i->} / (6 c d)``, also over beta for a convolution, and for a fully connected layer
    ``k_i = sign_count(eps_i, delta / (2 d^2 h m))``. The lemmas also need a smoothness of at least 3d.

    Differs.    The proofs print 4cd, with which the induction adds up to 7/6 (A-E6). Choosing k by the
                training error of the decoded network needs none of this and is free, because k is coded.

    Args:
        layers: Measured stability, in forward order.
        setting: Accuracy, failure probability and sizes.
        spread: beta, how evenly Jacobians spread over pixels; for convolutions.
        constant: Q of algorithm 4, which the paper leaves open.
    """
    depth = len(layers)
    if depth == 0 or spread <= 0.0 or constant <= 0.0:
        raise UsageError("a plan needs at least one layer, a positive spread and a positive constant.")
    eta = setting.delta / (2.0 * depth**2 * setting.width * setting.examples)
    planned = []
    for layer in layers:
        accuracy = (
            setting.epsilon * layer.cushion * layer.interlayer_cushion / (6 * setting.contraction * depth)
        )
        count = None
        if layer.patch is None:
            published = _published_count(layer, setting, depth=depth)
            count = sign_count(min(accuracy, 1.0), eta)
        else:
            accuracy /= spread
            published = published_conv_count(accuracy, eta, patch=layer.patch, constant=constant).numbers
        planned.append(
            PlannedLayer(
                name=layer.name, weights=layer.weights, epsilon=accuracy, published=published, count=count
            )
        )
    return ProjectionPlan(layers=tuple(planned), eta=eta)


def _published_count(layer: LayerCushions, setting: PlanSettings, *, depth: int) -> float:
    factor = compression_threshold(
        depth=depth, width=setting.width, examples=setting.examples, delta=setting.delta
    )
    cushions = layer.cushion * layer.interlayer_cushion
    return factor * (setting.contraction / (setting.epsilon * cushions)) ** 2


@implements("A-Alg1:count", kind="published-form")
def published_count(epsilon: float, eta: float) -> int:
    """The number of sign matrices that algorithm 1 prints: ``log(1/eta) / epsilon^2``, too few by A-E4.

    Example:
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

    Example:
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

    Example:
        >>> gaussian_count(0.1, 1e-6)
        6188
    """
    _check_accuracy(epsilon, eta)
    return math.ceil(2.0 * math.log(2.0 / eta) / (epsilon - math.log1p(epsilon)))


@implements("A-Lem2", "S-Lem2.1", kind="algorithm")
def eta_for_pairs(delta: float, *, pairs: int, rows: int) -> float:
    r"""The failure probability to ask of algorithm 1 for many directions at once: ``delta / (m n)``.

    Statement.  With it, :math:`\|U (\hat A - A) x\| \le \epsilon \|A\|_F \|U\|_F \|x\|` holds with
                probability ``1 - delta`` for all m pairs of a matrix U with n rows and a vector x, fixed
                beforehand.
    Differs.    The paper's last line prints the inequality the other way round (A-E5).

    Example:
        >>> eta_for_pairs(0.05, pairs=1000, rows=10)
        5e-06
    """
    if not 0.0 < delta < 1.0 or min(pairs, rows) < 1:
        raise UsageError(f"delta is in (0, 1), pairs and rows at least 1. Got {delta}, {pairs}, {rows}.")
    return delta / (pairs * rows)


@dataclass(frozen=True, slots=True)
class ConvCount:
    """What algorithm 4 asks for.

    Attributes:
        mixes: k, Gaussian tensors per location.
        order: p, the even number of locations that were to be independent.
    """

    mixes: int
    order: int

    @property
    def numbers(self) -> int:
        """k p, the dimension of the subspace and the numbers that are kept."""
        return self.mixes * self.order


@implements("A-Alg4:count", kind="published-form")
def published_conv_count(epsilon: float, eta: float, *, patch: int, constant: float = 1.0) -> ConvCount:
    """``k = Q ceil(kappa/s)^2 log^2(1/eta) / eps^2`` and ``p = log_2(1/eta)``, rounded up to an even number.

    Args:
        epsilon: Accuracy, positive.
        eta: Failure probability.
        patch: ``ceil(kappa / s)``.
        constant: Q, which the paper leaves open.

    Example:
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
