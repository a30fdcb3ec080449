"""Compression of heavy-tailed matrices (Shin 2021): large entries stay, noise replaces the bulk.

``HeavyTail`` is algorithm 1: entries below a threshold tau become Gaussian noise of variance t. The published
constants are too small (S-E2), and the claim itself is false for weights of one sign (S-E1); the corrected
one holds for independent entries of mean zero. Appendix E draws the small entries of the last layer again:
``replacement_trials`` is the experiment, ``GaussianFill`` the same as a code.
"""

import math
import statistics
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from codebound.bounds.numerics import log_chernoff_tail
from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound.run.references import implements
from codebound.sample.dataset import DeviceData
from codebound.sample.outputs import margins
from codebound_networks.codes.quantization import nearest_step, step_size
from codebound_networks.codes.tensors import AbstractTensorCode
from codebound_networks.reading.walk import Network
from codebound_networks.train.rng import torch_stream
from codebound_networks.views.layers import AbstractLayerView, LinearView
from codebound_papers.compress.codes import Filled, Filling
from codebound_papers.compress.compressors import (
    AbstractCompressor,
    AbstractRule,
    CompressedLayer,
    round_weight,
    weight_of,
)
from codebound_papers.measure.steps import steps_of

Mask = Literal["absolute", "signed", "centred"]
PlainMask = Literal["absolute", "signed"]

_DEVIATION = 64.0  # of the filling in steps: 16 times a popcount of 64 bits, which has deviation 4
_MOST_MEAN = 1 << 20
_PREDICTED = "proposition 1.1 of Shin 2021 is about fixed directions, not about a spectral norm"


class AbstractThreshold(AbstractRule):
    """A rule that gives every matrix its threshold."""

    form = "a number, std, or one of published, corrected and scale-free with :EPSILON:ETA behind it"

    @abstractmethod
    def of(self, matrix: Tensor, *, variance: float) -> float:
        """The threshold tau of a matrix whose bulk is replaced by noise of that variance, t."""


@dataclass(frozen=True, slots=True)
class StandardDeviation(AbstractThreshold):
    """The standard deviation of all entries, as in S-AppE."""

    word: ClassVar[str] = "std"

    def of(self, matrix: Tensor, *, variance: float) -> float:  # noqa: D102
        return float(matrix.double().std(correction=0))


@dataclass(frozen=True, slots=True)
class AbstractAccuracy(AbstractThreshold):
    """A rule that keeps an accuracy epsilon but for a probability eta."""

    epsilon: float
    eta: float


@dataclass(frozen=True, slots=True)
class Published(AbstractAccuracy):
    """From (epsilon, eta) with the constant of S-Alg1: a threshold that is too high (S-E2)."""

    word: ClassVar[str] = "published"

    def of(self, matrix: Tensor, *, variance: float) -> float:  # noqa: D102
        return _threshold(published_spread(self.epsilon, self.eta), variance)


@dataclass(frozen=True, slots=True)
class Corrected(AbstractAccuracy):
    """From (epsilon, eta) with the constant of S-Prop1.1x."""

    word: ClassVar[str] = "corrected"

    def of(self, matrix: Tensor, *, variance: float) -> float:  # noqa: D102
        return _threshold(spread(self.epsilon, self.eta), variance)


@dataclass(frozen=True, slots=True)
class ScaleFree(AbstractAccuracy):
    """The same relative to the Frobenius norm of the matrix: what S-Thm2 needs (S-E8)."""

    word: ClassVar[str] = "scale-free"

    @implements("S-Thm2:threshold", "S-E8", kind="numerics")
    def of(self, matrix: Tensor, *, variance: float) -> float:
        """``tau^2 + t = eps^2 ||W||_F^2 / (2 ln(2/eta))``."""
        norm = float(matrix.double().norm())
        return _threshold(spread(self.epsilon, self.eta) * norm**2, variance)


AbstractThreshold.known = {each.word: each for each in (StandardDeviation, Published, Corrected, ScaleFree)}


def _threshold(total: float, variance: float) -> float:
    if variance > total:
        raise UsageError(
            f"noise of variance {variance:g} alone exceeds the {total:g} that threshold and noise may have "
            "together. Take less noise, or a larger epsilon."
        )
    return math.sqrt(total - variance)


@implements("S-Prop1.1", kind="published-form")
def published_product_tail(size: float, *, threshold: float, variance: float) -> float:
    """``3 exp(-s^2 / (2 (tau^2 + t)))``, published for ``P(|u^T (W - W(t)) v| >= s)`` at unit vectors.

    No guarantee: false for weights with a mean (S-E1).
    """
    return _sides(3.0, size, threshold**2 + variance)


@implements("S-Prop1.1x", "S-E1", kind="numerics")
def product_tail(size: float, *, threshold: float, variance: float) -> float:
    r"""Probability that replacing the bulk moves ``u^T W v`` by more than ``size``, at unit vectors u and v.

    Statement.  Let the entries of A be independent, of mean zero and at most ``threshold`` in magnitude, G
                Gaussian, all independent of u and v. Then
                :math:`P(|u^T (A - \sqrt t G) v| > s) \le 2 \exp(-s^2 / (2 (\tau^2 + t)))`.
    Proof.      Hoeffding's lemma for every entry, the moment generating function of G, two tails.
    Needs.      A random A. For trained weights it is a model; measure instead (S-E6).

    >>> round(product_tail(3.0, threshold=1.0, variance=0.5), 4)
    0.0996
    """
    return _sides(2.0, size, threshold**2 + variance)


@implements("S-Prop1.2", "I-28", kind="numerics")
def count_tail_bound(count: int, *, entries: int, probability: float) -> float:
    """Chernoff bound on the probability that ``count`` or more of ``entries`` exceed the threshold.

    ``exp(-n kl(k/n, p))`` for ``k > n p``, else 1; p is the probability of one: ``(w_m / tau)^alpha``.
    With the entries of one row it is Eq. (11). The exact value is ``binomial_tail``.

    >>> round(count_tail_bound(300, entries=1000, probability=0.25), 6)
    0.001659
    """
    if not 0 <= count <= entries or not 0.0 <= probability <= 1.0:
        raise UsageError(f"no count among {entries} of probability {probability}: {count}.")
    return math.exp(log_chernoff_tail(count, entries, probability))


@implements("S-E2", kind="published-form")
def published_spread(epsilon: float, eta: float) -> float:
    """``tau^2 + t`` as S-Prop1.1 states it for failure ``eta``: ``eps^2 / ln(3/eta)``, too large.

    The appendix has ``2 eps^2 / ln(3/eta)``; the tail bound that both cite needs ``eps^2 / (2 ln(3/eta))``.
    """
    _check(epsilon, eta)
    return epsilon**2 / math.log(3.0 / eta)


@implements("S-Prop1.1x:spread", kind="numerics")
def spread(epsilon: float, eta: float) -> float:
    """``eps^2 / (2 ln(2/eta))``: the largest ``tau^2 + t`` with ``product_tail(epsilon)`` at most ``eta``."""
    _check(epsilon, eta)
    return epsilon**2 / (2.0 * math.log(2.0 / eta))


def _sides(factor: float, size: float, total: float) -> float:
    """``factor exp(-s^2 / (2 total))``, at most 1; 0 where nothing is replaced."""
    return min(1.0, factor * math.exp(-(size**2) / (2.0 * total))) if total > 0.0 else 0.0


def _check(epsilon: float, eta: float) -> None:
    if not (epsilon > 0.0 and 0.0 < eta < 1.0):
        raise UsageError(f"epsilon is positive and eta a probability. Got {epsilon} and {eta}.")


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """A matrix as the sum of its bulk A and its tail B, zero where the other one is not."""

    bulk: Tensor = field(repr=False)  # entries up to the threshold
    tail: Tensor = field(repr=False)  # entries above it


@implements("S-Split", kind="algorithm")
def split(matrix: Tensor, threshold: float) -> Split:
    """Bulk and tail by magnitude.

    >>> split(torch.tensor([[1.0, -3.0]]), 2.0).tail
    tensor([[ 0., -3.]])
    """
    return _split(matrix, matrix.abs() > threshold)


@implements("S-Split:literal", kind="algorithm")
def split_signed(matrix: Tensor, threshold: float) -> Split:
    """Bulk and tail as printed, for weights that are all positive: every negative entry is bulk (S-E18)."""
    return _split(matrix, matrix > threshold)


def _split(matrix: Tensor, is_tail: Tensor) -> Split:
    return Split(torch.where(is_tail, 0.0, matrix), torch.where(is_tail, matrix, 0.0))


@implements("S-Alg1", "I-27", kind="algorithm")
def replace_bulk(parts: Split, *, variance: float, mean: float = 0.0, generator: torch.Generator) -> Tensor:
    """``W(t)``: the tail plus Gaussian noise of variance t, everywhere.

    A variance of 0 is plain magnitude pruning, and no t > 0 is better (S-E13).
    """
    _check_variance(variance)
    tail = parts.tail
    noise = torch.randn(tail.shape, generator=generator, dtype=tail.dtype)
    return tail + mean + math.sqrt(variance) * noise


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyTail(AbstractCompressor):
    """S-Alg1 as a code: the tail on a grid; the noise comes from a coded seed."""

    threshold: float | AbstractThreshold = StandardDeviation()  # tau, or a rule that gives each layer its own
    variance: float = 0.0  # t of the noise; 0 for none
    # "signed" is the literal rule; "centred" compares magnitudes and adds the mean of the bulk everywhere
    mask: Mask = "absolute"
    levels: int = 31  # values that an entry of the tail can take, odd
    is_seed_coded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_mask(self.mask, Mask)
        _check_variance(self.variance)
        if not isinstance(self.threshold, AbstractThreshold) and not self.threshold >= 0.0:
            raise UsageError(f"a threshold is at least 0. Got {self.threshold}.")

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:
        """The compressed layer, without a prediction: the paper has none for a spectral norm."""
        weight = weight_of(layer)
        threshold = self.threshold
        if isinstance(threshold, AbstractThreshold):
            threshold = threshold.of(weight, variance=self.variance)
        parts = (split_signed if self.mask == "signed" else split)(weight, threshold)
        mean = float(parts.bulk.double().mean()) if self.mask == "centred" else 0.0
        noise = math.sqrt(self.variance)
        code = fill(parts.tail, levels=self.levels, deviation=noise, mean=mean, everywhere=True, seed=seed)
        return CompressedLayer(layer.name, code, predicted_by=_PREDICTED)

    @classmethod
    def grid(cls) -> "tuple[HeavyTail, ...]":  # noqa: D102
        rules = (StandardDeviation(), *(ScaleFree(epsilon, 0.05) for epsilon in (0.1, 0.2, 0.4)))
        return tuple(cls(threshold=rule, levels=levels) for rule in rules for levels in (7, 15))


def fill(
    tail: Tensor, *, levels: int, deviation: float, mean: float, everywhere: bool, seed: int
) -> AbstractTensorCode:
    """The code of a tail on a grid plus Gaussian noise on a coded step.

    The deviation becomes the nearest of the steps 2^(j/8). Without noise but with a mean, it is what the
    format cannot do without: 2^-14 of the mean. It is added ``everywhere``, or only where the tail is zero.
    """
    inner = round_weight(tail, levels).code
    if deviation == 0.0 and mean == 0.0:
        return inner
    step = nearest_step(max(deviation / _DEVIATION, abs(mean) / _MOST_MEAN))
    while abs(round(mean / step_size(step))) > _MOST_MEAN:
        step += 1
    filling = Filling(everywhere=everywhere, step=step, mean=round(mean / step_size(step)), seed=seed)
    return Filled(inner, filling)


def _check_variance(variance: float) -> None:
    if not 0.0 <= variance < math.inf:
        raise UsageError(f"the variance of the noise is a finite number >= 0. Got {variance}.")


@implements("S-AppE:draw", "S-E18", kind="algorithm")
def replace_small(matrix: Tensor, *, mask: PlainMask = "absolute", generator: torch.Generator) -> Tensor:
    """Entries up to the standard deviation of all entries, redrawn with the mean and deviation of all.

    The mask ``"absolute"`` compares magnitudes, as the released code does; ``"signed"`` is that of the text.
    """
    mean, deviation = _moments(matrix)
    tail = _tail(matrix, deviation, mask)
    draws = mean + deviation * torch.randn(matrix.shape, generator=generator, dtype=matrix.dtype)
    return torch.where(tail == 0.0, draws, tail)


@dataclass(frozen=True, slots=True)
class ReplacementTrials:
    """Accuracies before and after."""

    layer: str  # the layer whose entries were redrawn
    entries: int  # how many it has
    kept: int  # how many were kept
    original: float  # accuracy of the network as it is
    accuracies: tuple[float, ...]  # one for each trial

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return statistics.fmean(self.accuracies)

    @property
    def deviation(self) -> float:
        """Population standard deviation of the accuracy, as the released code has it."""
        return statistics.pstdev(self.accuracies)


@implements("S-AppE", "I-32", kind="algorithm")
def replacement_trials(
    network: Network,
    sample: DeviceData,
    *,
    trials: int = 10,
    mask: PlainMask = "absolute",
    seed: int = 0,
    chunk_size: int = 512,
) -> ReplacementTrials:
    """Accuracy with the small entries of the last dense layer redrawn ``trials`` times; others run once."""
    if trials < 1:
        raise UsageError(f"there is at least one trial. Got {trials}.")
    head, features_of = _last_layer(network)
    weight = head.weight.detach().cpu()
    drawn = [
        replace_small(weight, mask=mask, generator=torch_stream(seed, f"trial {trial}"))
        for trial in range(trials)
    ]
    heads = torch.stack([weight, *drawn]).to(head.weight.device)
    hits = torch.zeros(trials + 1, dtype=torch.int64)
    for x, labels in sample.chunks(chunk_size, weight.dtype):
        with torch.no_grad():
            features = features_of(x.to(heads.device))
            logits = torch.einsum("nf,tcf->tnc", features, heads)
            logits = logits if head.bias is None else logits + head.bias
        hits += torch.stack([(margins(each, labels.to(heads.device)) > 0.0).sum() for each in logits]).cpu()
    original, *accuracies = (int(count) / sample.n for count in hits)
    kept = int(_tail(weight, _moments(weight)[1], mask).count_nonzero())
    return ReplacementTrials(head.name, weight.numel(), kept, original, tuple(accuracies))


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianFill(AbstractCompressor):
    """S-AppE as a code: entries above the standard deviation on a grid, coded Gaussians elsewhere."""

    mask: PlainMask = "absolute"  # see replace_small
    levels: int = 31  # values that a kept entry can take, odd
    is_seed_coded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_mask(self.mask)

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:
        """The compressed layer; a kept entry that rounds to zero is filled too."""
        weight, levels = weight_of(layer), self.levels
        mean, deviation = _moments(weight)
        tail = _tail(weight, deviation, self.mask)
        code = fill(tail, levels=levels, deviation=deviation, mean=mean, everywhere=False, seed=seed)
        return CompressedLayer(layer.name, code)

    @classmethod
    def grid(cls) -> "tuple[GaussianFill, ...]":  # noqa: D102
        return tuple(cls(levels=levels) for levels in (3, 7, 15))


def _moments(matrix: Tensor) -> tuple[float, float]:
    deviation, mean = torch.std_mean(matrix.double(), correction=0)
    return float(mean), float(deviation)


def _check_mask(mask: str, masks: object = PlainMask) -> None:
    if mask not in get_args(masks):
        raise UsageError(f"a mask is {', '.join(get_args(masks))}. Got {mask!r}.")


def _tail(matrix: Tensor, threshold: float, mask: PlainMask) -> Tensor:
    _check_mask(mask)
    return (split_signed if mask == "signed" else split)(matrix, threshold).tail


def _last_layer(network: Network) -> tuple[LinearView, Callable[[Tensor], Tensor]]:
    """The last layer, and the map from inputs to what it is applied to."""
    steps = steps_of(network)
    last = steps.sequence[steps.cuts[-1]]
    if not isinstance(last.view, LinearView) or last.inputs != steps.cuts[-2:-1]:
        raise UnsupportedLayerError(
            f"the last step of {type(network.model).__name__} is {last.name} ({last.kind.name}). "
            "Shin's experiment redraws a linear layer that gives the network's output."
        )
    return last.view, steps.segment(0, len(steps.cuts) - 2)
