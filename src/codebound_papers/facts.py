"""Inputs of published expressions, measured on a network and its sample, and the conditions on them."""

import math
from dataclasses import dataclass

from codebound.bounds.risk import check_delta
from codebound.run.errors import UsageError
from codebound_papers.value import Hypothesis

POSITIVE_MARGIN = "f separates the sample with a positive margin"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFacts:
    """Measured numbers of one layer ``A``, with ``A`` of shape ``(rows, columns)``: outputs by inputs.

    A convolution is its filter matrix ``(channels out, channels in * kappa * kappa)``, as in the papers'
    figures; only ``operator_norm`` is that of the map on images.
    """

    name: str  # the layer
    rows: int  # units or output channels
    columns: int  # inputs of one unit (fan-in)
    frobenius: float  # Frobenius norm
    spectral: float  # spectral norm of the matrix
    # spectral norm of the map that the layer computes; None for a convolution where it was not measured
    operator_norm: float | None
    l2_1: float  # sum of the row l2 norms
    l1_inf: float  # largest row l1 norm
    variance: float  # variance of the entries
    patch: int | None = None  # ceil(kappa / s) of a convolution; None for a fully connected layer
    cushion: float | None = None  # layer cushion mu_i; None if not measured
    interlayer_cushion: float | None = None  # minimal interlayer cushion mu_{i->}; None if not measured
    # activation contraction c_i at this layer; None if not measured, or for the last layer
    contraction: float | None = None
    # beta_i, how evenly Jacobians spread over pixels; None if not measured or fully connected
    spread: float | None = None

    def __post_init__(self) -> None:
        inner = self.frobenius, self.spectral, self.operator_norm or 0.0
        norms = *inner, self.l2_1, self.l1_inf, self.variance
        if min(self.rows, self.columns) < 1 or any(not 0.0 <= norm < math.inf for norm in norms):
            raise UsageError(
                f"layer {self.name}: sizes are at least 1 and norms are finite and >= 0. Got {self}."
            )

    @property
    def weights(self) -> int:
        """Number of entries of the matrix."""
        return self.rows * self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFacts:
    """Measured numbers of a network f on its sample."""

    layers: tuple[LayerFacts, ...]  # in forward order
    examples: int  # size n of the sample
    classes: int  # number of classes
    # gamma; not positive if f does not separate the sample: then what divides by it is infinite
    margin: float
    margin_loss: float  # share of the sample with a margin of at most margin
    input_norm: float  # largest Euclidean norm of an input of the sample
    input_size: int  # number of coordinates of an input
    largest_output: float  # largest Euclidean norm of an output on the sample
    delta: float  # failure probability asked for
    parameters: int  # all parameters, biases included
    smoothness: float | None = None  # interlayer smoothness rho_delta; None if not measured

    def __post_init__(self) -> None:
        check_delta(self.delta)
        if not self.layers or min(self.examples, self.input_size, self.parameters) < 1 or self.classes < 2:
            raise UsageError("a network has a layer, an example, an input, a parameter and two classes.")
        if not 0.0 <= self.margin_loss <= 1.0 or not math.isfinite(self.margin):
            raise UsageError("`margin` is finite, and `margin_loss` is a share between 0 and 1.")

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def width(self) -> int:
        """Largest number of units of a layer."""
        return max(layer.rows for layer in self.layers)


def separates(facts: NetworkFacts) -> Hypothesis:
    """The margin at which an expression is evaluated is positive."""
    return Hypothesis(POSITIVE_MARGIN, facts.margin > 0.0, f"margin {facts.margin:.4g}")


def has_no_biases(facts: NetworkFacts) -> Hypothesis:
    """All parameters are entries of the layers' matrices, as the theory assumes."""
    others = facts.parameters - sum(layer.weights for layer in facts.layers)
    found = f"{others:,} parameters besides the layers' matrices"
    return Hypothesis("the network has no biases", others == 0, found)


def is_fully_connected(facts: NetworkFacts) -> Hypothesis:
    """The matrices are the linear maps themselves; of a convolution they are only its filters."""
    convolutions = [layer for layer in facts.layers if layer.patch is not None]
    found = ""
    if convolutions:
        known = (each for each in convolutions if each.operator_norm is not None and each.spectral > 0.0)
        ratio = max(((each.operator_norm or 0.0) / each.spectral for each in known), default=1.0)
        names = ", ".join(each.name for each in convolutions)
        found = f"taken as its filter matrix: {names}; the map on images has up to {ratio:.3g} times its norm"
    return Hypothesis("every layer is fully connected", not convolutions, found)
