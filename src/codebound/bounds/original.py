"""Bounds that compare g with the original network f, which no code describes.

Without a bound for f, or a hold-out test, no statement about g says anything about f.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from codebound.bounds.held_out import holdout
from codebound.bounds.occam import elias_gamma_bits, occam_binomial
from codebound.bounds.risk import (
    HoldoutFacts,
    OccamFacts,
    RiskBound,
)
from codebound.run.errors import UsageError
from codebound.run.references import implements

# 2**23 * 2**(i/8) for i = 0..7, rounded to integers: the grid must be the same doubles on every machine
_EIGHTHS = (8388608, 9147842, 9975792, 10878679, 11863283, 12937002, 14107901, 15384775)
_OUTWARD = 1.0 + 4e-16  # covers the rounding of one product or sum of non-negative numbers

Norm = Literal["sup", "l2"]


@implements("C-Lem-margin", kind="certificate")
def margin_for_deviation(deviation: float, *, norm: Norm) -> float:
    r"""Largest change of a margin when the scores move by ``deviation``.

    Statement.  ``max_j |f[j]-g[j]| <= e`` implies ``|mar(f)-mar(g)| <= 2 e``;
                ``||f-g||_2 <= e`` implies ``|mar(f)-mar(g)| <= sqrt(2) e``. Both constants are attained.
    Differs.    The papers use 1 in place of 2 and sqrt(2), which is false (G-E2, A-E1).
    Direction.  Rounded up.
    Checked by. property (random scores), teeth (the papers' counterexample).

    Example:
        >>> margin_for_deviation(0.5, norm="sup")
        1.0
    """
    if not 0.0 <= deviation < math.inf:
        raise UsageError(f"`deviation` is a finite distance >= 0. Got {deviation}.")
    if norm == "sup":
        return 2.0 * deviation
    return math.sqrt(2.0) * deviation * (1.0 + 4e-16)


@implements("C-7", "C-8", kind="certificate")
def occam_margin(facts: OccamFacts) -> RiskBound:
    r"""Occam bound through the margin of the original network. For g.

    Statement.  If g is within ``theta/2`` (sup norm) or ``theta/sqrt(2)`` (l2) of f on S except on the
                outliers, then g errs at most on the examples that are outliers or where f has a margin of at
                most theta; C-2 applies with their number as errors.
    Reference.  C-7 with the outliers of C-8. theta and the outliers may be chosen after seeing S at no
                cost: they only bound a count from above. Never tighter than counting the errors of g.
    Checked by. property, validity (teeth: slack theta instead of theta/2).

    Example:
        >>> round(occam_margin(OccamFacts(errors=300, n=60_000, code_bits=5000, delta=0.05)).value, 4)
        0.0737
    """
    return replace(occam_binomial(facts), ref="C-7")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBounds:
    """Upper bounds on one layer of f and on what compression changed in it.

    Attributes:
        weight: Spectral norm of the layer's linear map, bounded from above.
        weight_change: Spectral norm of the change of that map, bounded from above.
        bias: Euclidean norm of the layer's constant, bounded from above.
        bias_change: Euclidean norm of its change, bounded from above.
        lipschitz: Lipschitz constant of the activation in front of the layer, which maps 0 to 0; 1 for the
            first layer and for ReLU.
    """

    weight: float
    weight_change: float
    bias: float = 0.0
    bias_change: float = 0.0
    lipschitz: float = 1.0

    def __post_init__(self) -> None:
        numbers = (self.weight, self.weight_change, self.bias, self.bias_change, self.lipschitz)
        if any(not 0.0 <= number < math.inf for number in numbers):
            raise UsageError(f"layer bounds must be finite and >= 0. Got {self}.")


@implements("G-LemB.2x", kind="certificate")
def output_deviation(layers: Sequence[LayerBounds], *, input_norm: float) -> float:
    r"""Bound the output distance of f and g on inputs of bounded norm.

    Statement.  With ``e_0 = 0`` and ``m_0 = input_norm``,
                ``e_l = (|A|+|U|) L e_{l-1} + |U| L m_{l-1} + |change of b|`` and
                ``m_l = |A| L m_{l-1} + |b|``; then ``||f(x)-g(x)||_2 <= e_last``.
    Reference.  G-LemB.2x, with biases added. No condition on the size of the change, unlike G-LemB.2.
    Needs.      A chain of linear maps and Lipschitz activations that map 0 to 0; norms bounded from above.
    Direction.  Rounded up at every step.
    Checked by. property (actual deviation of random nets stays below).

    Example:
        >>> layer = LayerBounds(weight=2.0, weight_change=0.5)
        >>> round(output_deviation([layer, layer], input_norm=1.0), 9)
        2.25
    """
    if not 0.0 <= input_norm < math.inf:
        raise UsageError(f"`input_norm` is a finite norm >= 0. Got {input_norm}.")
    deviation, magnitude = 0.0, input_norm
    for layer in layers:
        reach = layer.lipschitz * ((layer.weight + layer.weight_change) * deviation)
        deviation = (
            reach + layer.lipschitz * layer.weight_change * magnitude + layer.bias_change
        ) * _OUTWARD**5
        magnitude = (layer.lipschitz * layer.weight * magnitude + layer.bias) * _OUTWARD**3
    return deviation


@dataclass(frozen=True, slots=True)
class GridTheta:
    """A margin on the published grid and what naming it costs."""

    index: int
    value: float
    code_bits: int


def grid_theta(index: int) -> GridTheta:
    """The margin ``2**(index/8)`` (24-bit mantissa); its code is Elias gamma of the zigzag index plus one.

    Example:
        >>> grid_theta(-8).value
        0.5
    """
    if abs(index) > 8000:
        raise UsageError(f"`index` of a margin must lie in [-8000, 8000]. Got {index}.")
    octave, eighth = divmod(index, 8)
    zigzag = 2 * index if index >= 0 else -2 * index - 1
    return GridTheta(index, math.ldexp(_EIGHTHS[eighth], octave - 23), elias_gamma_bits(zigzag + 1))


def theta_on_grid(deviation: float) -> GridTheta:
    """Smallest margin on the grid that absorbs an l2 deviation of the outputs.

    Example:
        >>> theta_on_grid(0.5).value >= 2**0.5 / 2
        True
    """
    theta = margin_for_deviation(deviation, norm="l2")
    if not math.ldexp(1.0, -900) < theta < math.ldexp(1.0, 900):
        raise UsageError(f"the deviation must lie between 2^-900 and 2^900. Got {deviation}.")
    index = math.floor(8.0 * math.log2(theta)) - 1
    while grid_theta(index).value < theta:
        index += 1
    return grid_theta(index)


@implements("C-12a", kind="certificate")
def occam_domain(facts: OccamFacts, *, theta_index: int) -> RiskBound:
    r"""Occam bound for f on a bounded domain.

    Statement.  If f and g differ by at most ``theta/sqrt(2)`` (l2) on every input of the domain, then
                ``R(f) <= P(mar_g <= theta)``, and C-2 bounds the latter with the examples of S where
                ``mar_g <= theta`` as errors and the code of theta, a margin on the published grid
                ``2**(theta_index/8)``, added to the message.
    Needs.      ``theta_on_grid(output_deviation(...))`` with norms bounded from above and an input range
                that is declared, never read off S. theta depends on S through f, hence its code.
    Checked by. property, validity (teeth: margin 0 in place of theta).

    Example:
        >>> at_theta = OccamFacts(errors=300, n=60_000, code_bits=4991, delta=0.05)
        >>> round(occam_domain(at_theta, theta_index=8).value, 4)
        0.0737
    """
    message_bits = facts.code_bits + grid_theta(theta_index).code_bits
    tail = occam_binomial(replace(facts, code_bits=message_bits))
    return replace(tail, ref="C-12a", subject="f")


@implements("C-12b", kind="certificate")
def through_disagreement(risk: float, disagreement: HoldoutFacts) -> float:
    r"""Bound for f through its disagreement with g on fresh unlabelled inputs.

    Statement.  ``R(f) <= R(g) + P(pred_f != pred_g)``: the first by any bound on the risk of g, by a message,
                after a split or by picks; the second by C-11 on unlabelled inputs. Ambiguous predictions
                count as disagreement.
    Direction.  Upper bound; the failure probabilities of the two add up.
    Checked by. validity (teeth: disagreement rate without its limit).

    Example:
        >>> round(through_disagreement(0.01, HoldoutFacts(errors=30, n=10_000, delta=0.025)), 4)
        0.0143
    """
    return min(1.0, (risk + holdout(disagreement).value) * _OUTWARD)
