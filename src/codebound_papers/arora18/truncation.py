"""Truncated singular values (Arora et al. 2018, lemma 1): a matrix as the product of two thin factors.

The factors ``U sqrt(S)`` and ``sqrt(S) V`` are rounded with the coarsest step that keeps the spectral norm of
the change within the allowance, as measured (A-E10). Theorem 2.2 follows: the bound from spectral norms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound.run.references import implements
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.quantization import nearest_step, quantize, step_for_levels, step_size
from codebound_networks.codes.tensors import AbstractTensorCode
from codebound_networks.views.layers import AbstractLayerView
from codebound_papers.compress.codes import LowRank
from codebound_papers.compress.compressors import AbstractCompressor, CompressedLayer, round_weight, weight_of
from codebound_papers.facts import NetworkFacts, has_no_biases, is_fully_connected, separates
from codebound_papers.framework import big_o_risk, over_squared_margin, spectral_capacity
from codebound_papers.logs import safe_exp, safe_log
from codebound_papers.measure.norms import stable_rank
from codebound_papers.measure.spectral import matrix_spectral_norm
from codebound_papers.value import BIG_O, Hypothesis, PublishedValue, expression

_MOST_LEVELS = 8193  # -4096 .. 4096: what every code of levels takes
_ALLOWANCE = (
    "delta times the spectral norm of the layer, which lemma 1 of Arora et al. 2018 allows it to lose"
)


@implements("A-Lem1", kind="algorithm")
def truncate(matrix: Tensor, delta: float) -> tuple[Tensor, Tensor]:
    r"""Drops the singular values below ``delta`` times the largest; the two factors share the others.

    Statement.  :math:`\|\hat A - A\|_2 \le \delta \|A\|_2` and rank at most
                :math:`\|A\|_F^2 / (\delta^2 \|A\|_2^2)`.

    >>> left, right = truncate(torch.diag(torch.tensor([1.0, 0.5, 0.01])), 0.1)
    >>> left.shape, right.shape
    (torch.Size([3, 2]), torch.Size([2, 3]))
    """
    _check_delta(delta)
    u, s, v = torch.linalg.svd(matrix.detach().cpu().double(), full_matrices=False)
    rank = int((s >= delta * s[0]).sum())
    root = s[:rank].sqrt()
    return u[:, :rank] * root, root[:, None] * v[:rank]


@implements("I-19", kind="algorithm")
def rank_bound(matrix: Tensor, delta: float) -> int:
    """The largest rank that ``truncate`` can leave: the stable rank over ``delta^2``.

    >>> rank_bound(torch.eye(3), 0.5)
    12
    """
    _check_delta(delta)
    return math.floor(stable_rank(matrix) / delta**2 * (1.0 + 1e-12))


@implements("A-Thm2.2:delta", kind="algorithm")
def delta_for_margin(margin: float, *, input_norm: float, spectral_norms: Sequence[float]) -> float:
    """The share of its spectral norm that each layer may lose: ``gamma / (e ||x|| d prod ||A||)``.

    At most ``1/d``. The outputs then move by at most gamma in l2; a margin allows ``gamma / sqrt(2)`` (A-E1).

    >>> round(delta_for_margin(1.0, input_norm=1.0, spectral_norms=[2.0, 2.0]), 6)
    0.045985
    """
    depth = len(spectral_norms)
    if depth == 0 or min(margin, input_norm, *spectral_norms) <= 0.0:
        raise UsageError("the margin, the norm of the inputs and those of the layers are positive.")
    return min(1.0 / depth, margin / (math.e * input_norm * depth * math.prod(spectral_norms)))


@implements("A-Thm2.2:count", kind="algorithm")
def factor_count(delta: float, *, width: int, stable_ranks: Sequence[float]) -> float:
    """Numbers in the factors of all layers at most: ``2 h sum srank_i / delta^2``.

    With ``delta_for_margin`` this is ``2 e^2 d^2 h max||x||^2 prod||A||^2 sum srank_i / gamma^2``.

    Differs.    The paper's count has ``max ||x||`` where its square belongs, and lacks ``1/gamma^2`` (A-E10).

    >>> round(factor_count(0.5, width=10, stable_ranks=[1.0, 2.0]))
    240
    """
    _check_delta(delta)
    return 2.0 * width * sum(stable_ranks) / delta**2


@implements("A-E10", kind="algorithm")
@dataclass(frozen=True, kw_only=True)
class Truncation(AbstractCompressor):
    """Low rank within a measured allowance: half of it for truncation, what is left for rounding.

    Where the factors have no fewer numbers than the matrix, the matrix is rounded within the same allowance.
    """

    # spectral norm of the change at most, as a share of that of the matrix, or matrix of filters
    delta: float = 0.25

    def __post_init__(self) -> None:
        _check_delta(self.delta)

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:  # noqa: D102
        weight = weight_of(layer)
        matrix = weight.flatten(1).double()
        if not matrix.any():
            return CompressedLayer(layer.name, round_weight(weight, 3).code, 0.0, "a zero matrix stays zero")
        allowance = self.delta * matrix_spectral_norm(matrix).value
        thin = truncate(matrix, self.delta / 2.0)
        is_smaller = sum(factor.numel() for factor in thin) < matrix.numel()
        factors = [factor.numpy() for factor in (thin if is_smaller else (matrix,))]
        step = _coarsest_step(matrix, factors, allowance)
        if step is None:
            raise UnsupportedLayerError(
                f"layer {layer.name}: no {_MOST_LEVELS:,} levels keep a change within {self.delta} of its "
                "spectral norm. Choose a larger delta."
            )
        levels = [quantize(factor, step) for factor in factors]
        code: AbstractTensorCode
        if is_smaller:
            left, right = (best_tensor_code(each, step=step) for each in levels)
            code = LowRank(tuple(weight.shape), left, right)
        else:
            code = best_tensor_code(levels[0].reshape(weight.shape), step=step)
        return CompressedLayer(layer.name, code, allowance, _ALLOWANCE)

    @classmethod
    def grid(cls) -> "tuple[Truncation, ...]":  # noqa: D102
        return tuple(cls(delta=delta) for delta in (0.9, 0.75, 0.6, 0.5, 0.35, 0.25))

    @classmethod
    def near(cls) -> "tuple[Truncation, ...]":  # noqa: D102
        return tuple(cls(delta=delta) for delta in (0.05, 0.01, 0.002))


def _coarsest_step(matrix: Tensor, factors: list[NDArray[np.float64]], allowance: float) -> int | None:
    """The coarsest step for all factors whose rounded product stays within the allowance of the matrix."""

    def fits(step: int) -> bool:
        levels = [torch.from_numpy(quantize(factor, step)).double() for factor in factors]
        product = levels[0] if len(levels) == 1 else levels[0] @ levels[1]
        decoded = (product * step_size(len(levels) * step)).float().double()
        return matrix_spectral_norm(decoded - matrix).upper <= allowance

    fine = max(step_for_levels(factor, _MOST_LEVELS) for factor in factors)
    if not fits(fine):
        return None
    coarse = max(nearest_step(float(abs(factor).max())) for factor in factors) + 16  # rounds all to zero
    while coarse - fine > 1:
        middle = (coarse + fine) // 2
        fine, coarse = (middle, coarse) if fits(middle) else (fine, middle)
    return fine


def _check_delta(delta: float) -> None:
    if not 0.0 < delta <= 1.0:
        raise UsageError(f"delta is a share of a spectral norm, in (0, 1]. Got {delta}.")


@expression("A-Thm2.2", name="Arora 2.2: spectral norms", subject="f")
def spectral_margin_risk(facts: NetworkFacts) -> PublishedValue:
    """``margin loss + sqrt(h d^2 max||x||^2 prod||A||_2^2 sum_i srank_i / (gamma^2 n))``.

    Differs.    The theorem prints ``max||x||`` without the square that its proof has (A-E10);
                ``printed_spectral_margin_risk`` leaves it so.

    >>> from codebound_papers.facts import LayerFacts, NetworkFacts
    >>> layer = LayerFacts(name="0", rows=10, columns=784, frobenius=9.0, spectral=3.0, operator_norm=3.0,
    ...                    l2_1=28.0, l1_inf=80.0, variance=0.01)
    >>> facts = NetworkFacts(layers=(layer,), examples=60_000, classes=10, margin=0.5, margin_loss=0.1,
    ...                      input_norm=28.0, input_size=784, largest_output=9.0, delta=0.05,
    ...                      parameters=7840)
    >>> round(spectral_margin_risk(facts).value, 2)  # 0.1 + sqrt(10 * 28^2 * 9^2 / (0.5^2 * 60000))
    6.61
    """
    sentence = """Margin loss plus the root of width, stable ranks and squared depth, input norm and spectral
        norms over the squared margin and n."""
    return _risk(facts, log_input=2.0 * safe_log(facts.input_norm), sentence=sentence)


@expression("A-Thm2.2:printed", name="Arora 2.2 as printed", subject="f")
def printed_spectral_margin_risk(facts: NetworkFacts) -> PublishedValue:
    """The same with ``max||x||`` in place of its square: the value depends on the unit of the inputs."""
    sentence = """Theorem 2.2 of Arora et al. with the input norm not squared: its value changes with the unit
        in which inputs are measured."""
    return _risk(facts, log_input=safe_log(facts.input_norm), sentence=sentence)


def _risk(facts: NetworkFacts, *, log_input: float, sentence: str) -> PublishedValue:
    sizes = math.log(facts.width) + 2.0 * math.log(facts.depth) + log_input
    log_numerator = sizes + spectral_capacity(facts, [layer.frobenius for layer in facts.layers])
    in_domain = Hypothesis("no input of the domain is longer than those of the sample", None)
    plain = separates(facts), is_fully_connected(facts), has_no_biases(facts)
    return PublishedValue(
        log_value=big_o_risk(facts, log_nats=over_squared_margin(log_numerator, facts)),
        sentence=sentence,
        margin_loss=facts.margin_loss,
        hypotheses=(*plain, _allowance_is_small(facts), in_domain),
        constants=(BIG_O,),
        errata=("A-E1", "A-E10", "A-E20", "A-E23"),
    )


def _allowance_is_small(facts: NetworkFacts) -> Hypothesis:
    """Condition that a layer loses at most 1/d of its norm. The perturbation lemma needs it."""
    log_limit = 1.0 + safe_log(facts.input_norm) + sum(safe_log(layer.spectral) for layer in facts.layers)
    found = f"{facts.margin:.4g} against {safe_exp(log_limit):.4g}"
    is_small = safe_log(max(facts.margin, 0.0)) <= log_limit
    return Hypothesis("gamma <= e max||x|| prod||A||_2", is_small, found)
