"""Shin's experiment (S-AppE): Gaussian draws in place of the small entries of the last layer."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import torch

from codebound.errors import UnsupportedLayerError, UsageError
from codebound.nets.layers import LinearView
from codebound.nets.steps import steps_of
from codebound.progress import Progress, silent
from codebound.refs import implements
from codebound.rng import torch_stream
from codebound.scores import margins
from codebound_papers.compress.compressors import AbstractCompressor, CompressedLayer
from codebound_papers.compress.rounding import weight_of
from codebound_papers.shin21.compressor import filled, split, split_signed

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from codebound.data.dataset import DeviceData
    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network

Mask = Literal["absolute", "signed"]


@implements("S-AppE:draw", "S-E18", kind="algorithm")
def replace_small(matrix: Tensor, *, mask: Mask = "absolute", generator: torch.Generator) -> Tensor:
    """Entries up to the standard deviation of all entries, redrawn with the mean and deviation of all.

    Args:
        matrix: The entries.
        mask: ``"absolute"`` compares magnitudes, as the released code does; ``"signed"`` compares the entries
            themselves, as the text says, so that every negative one is redrawn.
        generator: Source of the draws.
    """
    mean, deviation = _moments(matrix)
    tail = _tail(matrix, deviation, mask)
    draws = mean + deviation * torch.randn(matrix.shape, generator=generator, dtype=matrix.dtype)
    return torch.where(tail == 0.0, draws, tail)


@dataclass(frozen=True, slots=True)
class ReplacementTrials:
    """Accuracies before and after.

    Attributes:
        layer: The layer whose entries were redrawn.
        entries: How many it has.
        kept: How many were kept.
        original: Accuracy of the network as it is.
        accuracies: One for each trial.
    """

    layer: str
    entries: int
    kept: int
    original: float
    accuracies: tuple[float, ...]

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
    mask: Mask = "absolute",
    seed: int = 0,
    chunk_size: int = 512,
    progress: Progress = silent,
) -> ReplacementTrials:
    """Accuracy with the small entries of the last dense layer redrawn, ``trials`` times.

    Everything before the last layer runs once, however many trials there are.

    Args:
        network: The wrapped network; its last step is a linear layer.
        sample: Examples to classify, such as a test set.
        trials: Number of draws.
        mask: See ``replace_small``.
        seed: Trial i draws from the stream ``trial i`` of this seed.
        chunk_size: Examples at a time.
        progress: Told the examples done.
    """
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
    done = 0
    for x, labels in sample.chunks(chunk_size, weight.dtype):
        with torch.no_grad():
            features = features_of(x.to(heads.device))
            logits = torch.einsum("nf,tcf->tnc", features, heads)
            logits = logits if head.bias is None else logits + head.bias
        hits += torch.stack([(margins(each, labels.to(heads.device)) > 0.0).sum() for each in logits]).cpu()
        done += len(labels)
        progress(done, sample.n)
    original, *accuracies = (int(count) / sample.n for count in hits)
    kept = int(_tail(weight, _moments(weight)[1], mask).count_nonzero())
    return ReplacementTrials(head.name, weight.numel(), kept, original, tuple(accuracies))


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianFill(AbstractCompressor):
    """S-AppE as a code: entries above the standard deviation on a grid, coded Gaussians in the other places.

    As in the paper: ``compress(network, GaussianFill(), layers=["output"])``.

    Attributes:
        mask: See ``replace_small``.
        levels: Values that a kept entry can take, odd.
    """

    mask: Mask = "absolute"
    levels: int = 31
    is_seed_coded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_mask(self.mask)

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:
        """The compressed layer; a kept entry that rounds to zero is filled too."""
        weight = weight_of(layer)
        mean, deviation = _moments(weight)
        code = filled(
            _tail(weight, deviation, self.mask),
            levels=self.levels,
            deviation=deviation,
            mean=mean,
            everywhere=False,
            seed=seed,
        )
        return CompressedLayer(layer.name, code)

    @classmethod
    def grid(cls) -> tuple[GaussianFill, ...]:  # noqa: D102
        return tuple(cls(levels=levels) for levels in (3, 7, 15))


def _moments(matrix: Tensor) -> tuple[float, float]:
    deviation, mean = torch.std_mean(matrix.double(), correction=0)
    return float(mean), float(deviation)


def _check_mask(mask: Mask) -> None:
    if mask not in get_args(Mask):
        raise UsageError(f"a mask is {', '.join(get_args(Mask))}. Got {mask!r}.")


def _tail(matrix: Tensor, threshold: float, mask: Mask) -> Tensor:
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
