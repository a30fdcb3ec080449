"""What a published expression may be told: numbers measured on a network and its sample."""

import math
from dataclasses import dataclass

from codebound.errors import UsageError
from codebound.facts import check_delta


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFacts:
    """Measured numbers of one layer ``A``, with ``A`` of shape ``(rows, columns)``: outputs by inputs.

    A convolution is its filter matrix ``(channels out, channels in * kappa * kappa)``, as in the papers'
    figures; only ``operator_norm`` is that of the map on images.

    Attributes:
        name: The layer.
        rows: Units or output channels.
        columns: Inputs of one unit (fan-in).
        frobenius: Frobenius norm.
        spectral: Spectral norm of the matrix.
        operator_norm: Spectral norm of the linear map that the layer computes; equals ``spectral`` for a
            fully connected layer, and is None for a convolution where it was not measured.
        l2_1: Sum of the row l2 norms.
        l1_inf: Largest row l1 norm.
        variance: Variance of the entries.
        patch: ``ceil(kappa / s)`` of a convolution; None for a fully connected layer.
        cushion: Layer cushion mu_i; None if not measured.
        interlayer_cushion: Minimal interlayer cushion mu_{i->}; None if not measured.
        contraction: Activation contraction c_i at this layer; None if not measured, or for the last layer.
        spread: beta_i, how evenly Jacobians spread over pixels; None if not measured or fully connected.
    """

    name: str
    rows: int
    columns: int
    frobenius: float
    spectral: float
    operator_norm: float | None
    l2_1: float
    l1_inf: float
    variance: float
    patch: int | None = None
    cushion: float | None = None
    interlayer_cushion: float | None = None
    contraction: float | None = None
    spread: float | None = None

    def __post_init__(self) -> None:
        norms = (
            self.frobenius,
            self.spectral,
            self.operator_norm or 0.0,
            self.l2_1,
            self.l1_inf,
            self.variance,
        )
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
    """Measured numbers of a network f on its sample.

    Attributes:
        layers: In forward order.
        examples: Size n of the sample.
        classes: Number of classes.
        margin: The margin gamma at which the expressions are evaluated; not positive if f does not separate
            the sample, and then every expression that divides by it is infinite.
        margin_loss: Share of the sample with a margin of at most ``margin``.
        input_norm: Largest Euclidean norm of an input of the sample.
        input_size: Number of coordinates of an input.
        largest_output: Largest Euclidean norm of an output on the sample.
        delta: Failure probability asked for.
        parameters: All parameters, biases included.
        smoothness: Interlayer smoothness rho_delta; None if not measured.
    """

    layers: tuple[LayerFacts, ...]
    examples: int
    classes: int
    margin: float
    margin_loss: float
    input_norm: float
    input_size: int
    largest_output: float
    delta: float
    parameters: int
    smoothness: float | None = None

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
