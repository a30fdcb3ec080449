"""Smallest setting of a compressor whose result still classifies.

A certificate pays for the message, so the setting may be chosen by looking at the sample: no theorem needed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from codebound.run.errors import UsageError
from codebound.run.progress import Progress, silent
from codebound.sample.dataset import DeviceData
from codebound_networks.reading.walk import Network
from codebound_networks.views.layers import AbstractLayerView
from codebound_papers.arora18.projection import MatrixProject
from codebound_papers.compress import compressors
from codebound_papers.compress.compression_summary import summarise
from codebound_papers.guha23.magnitude import MagnitudePruning
from codebound_papers.guha23.pruning import strength_for
from codebound_papers.measure.outputs import margin_report
from codebound_papers.measure.steps import fold_strictly
from codebound_papers.shin21.compressor import AbstractThreshold, HeavyTail

_CHUNK = 512
_MOST_PRODUCTS = 1 << 35  # of random projection in all layers together: a minute on one core


@dataclass(frozen=True, slots=True)
class RootMeanSquares(AbstractThreshold):
    """A multiple of the root mean square of all entries."""

    times: float

    def of(self, matrix: Tensor, *, variance: float) -> float:  # noqa: D102
        return self.times * float(matrix.double().square().mean().sqrt())


@dataclass(frozen=True, slots=True)
class ShareProject(compressors.AbstractCompressor):
    """Matrix-Project with a number of products that is a share of the weights of a layer."""

    share: float

    def compress(self, layer: AbstractLayerView, *, seed: int) -> compressors.CompressedLayer:  # noqa: D102
        return MatrixProject(count=self.numbers(layer)).compress(layer, seed=seed)

    def numbers(self, layer: AbstractLayerView) -> int:
        """Count the numbers that stand for a layer."""
        return max(1, math.ceil(self.share * layer.weight.numel()))


@dataclass(frozen=True, slots=True)
class Knob:
    """Setting of a compressor that can be turned."""

    meaning: str  # what a setting says
    settings: tuple[float, ...]  # what is tried, from the least that is stored to the most
    algorithm: Callable[[float], compressors.AbstractCompressor]  # the compressor of a setting


KNOBS = {
    "project": Knob(
        "numbers kept per weight of a layer", (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2), ShareProject
    ),
    "mbp": Knob(
        "share of the weights kept, if they were Gaussian",
        (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        lambda kept: MagnitudePruning(strength=strength_for(kept)),
    ),
    "heavytail": Knob(
        "threshold in root mean squares of a layer",
        (3.0, 2.5, 2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25, 0.1),
        lambda times: HeavyTail(threshold=RootMeanSquares(times)),
    ),
}
"""The grid of every method."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting."""

    setting: float  # of the knob
    error: float | None  # share of the sample that the decoded network gets wrong; None where there is none
    refusal: str = ""  # why not; empty otherwise


@dataclass(frozen=True, slots=True)
class Reached:
    """The smallest setting that will do."""

    setting: float  # of the knob
    error: float  # share of the sample that the decoded network gets wrong
    stored: dict[str, int]  # by layer, the numbers that stand for it: products, or weights that are not zero
    coded_bits: int  # length of the message of the whole network


@dataclass(frozen=True, slots=True)
class MeasuredMinimum:
    """Result of the search for the smallest setting."""

    method: str  # the compressor
    knob: str  # what its settings say
    tolerance: float  # by how much the error was allowed to rise
    error: float  # share of the sample that the original gets wrong
    raw_bits: int  # 32 per parameter, for comparison
    trials: tuple[Trial, ...]  # what was tried, the last one being the first that would do
    reached: Reached | None  # that one; None if no setting would do

    @property
    def verdict(self) -> str:
        """In plain words."""
        if self.reached is None:
            tried = [trial for trial in self.trials if trial.error is not None]
            text = f"No setting that was tried keeps the error within {self.tolerance:g} of {self.error:.4f}"
            if tried:
                best = min(tried, key=lambda trial: trial.error or 0.0)
                text += f"; the best was {best.error:.4f}, at {best.setting:g} ({self.knob})"
            if left := len(self.trials) - len(tried):
                text += f". {left} settings were not tried: {self.trials[-1].refusal}"
            return text.rstrip(".") + "."
        found = self.reached
        return (
            f"Measurement reaches {found.setting:g} ({self.knob}): the decoded network errs on "
            f"{found.error:.4f} of the sample, the original on {self.error:.4f}, and its message has "
            f"{found.coded_bits:,} bits instead of {self.raw_bits:,}."
        )


def measured_minimum(
    network: Network,
    sample: DeviceData,
    method: str,
    *,
    tolerance: float = 0.01,
    seed: int = 0,
    progress: Progress = silent,
) -> MeasuredMinimum:
    """The smallest setting of a compressor at which the decoded network keeps its error on a sample.

    Settings of the ``KNOBS`` are tried from the smallest on, all layers at the same one, and the first that
    will do is it. The tolerance is a share of the sample; batch norms are folded in a copy.

    >>> from codebound.sample.load import load_sample
    >>> from codebound_networks.reading.walk import wrap
    >>> digits = load_sample("digits").select(range(50), role="train").on("cpu")
    >>> net = wrap(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)))
    >>> found = measured_minimum(net, digits, "heavytail", tolerance=1.0)
    >>> found.reached.setting, len(found.trials)
    (3.0, 1)
    """
    if method not in KNOBS:
        raise UsageError(f"measurement knows {', '.join(KNOBS)}. Got {method!r}.")
    if not 0.0 <= tolerance <= 1.0:
        raise UsageError(f"the tolerance is a share of the sample, in [0, 1]. Got {tolerance}.")
    network, knob = fold_strictly(network), KNOBS[method]
    before = _error(network.model, sample)
    trials: list[Trial] = []
    reached = None
    for position, setting in enumerate(knob.settings):
        progress(position, len(knob.settings), f"{setting:g}")
        algorithm = knob.algorithm(setting)
        refusal = _explain_limit(network, algorithm)
        if not refusal:
            compressed = compressors.compress(network, algorithm, seed=seed)
            refusal = next(iter(compressed.carried.values()), "")
        if refusal:
            trials.append(Trial(setting, None, refusal))
            continue
        error = _error(compressed.module(), sample)
        trials.append(Trial(setting, error))
        if error <= before + tolerance:
            bits = summarise(compressed).coded_bits
            reached = Reached(setting, error, _count_stored(compressed, algorithm), bits)
            break
    progress(len(knob.settings), len(knob.settings), "")
    raw_bits = 32 * sum(tensor.numel() for tensor in network.model.parameters())
    return MeasuredMinimum(method, knob.meaning, tolerance, before, raw_bits, tuple(trials), reached)


def _error(model: nn.Module, sample: DeviceData) -> float:
    return margin_report(model, sample, chunk_size=_CHUNK, dtype=torch.float32).loss()


def _explain_limit(network: Network, algorithm: compressors.AbstractCompressor) -> str:
    if not isinstance(algorithm, ShareProject):
        return ""
    products = sum(algorithm.numbers(layer) * layer.weight.numel() for layer in network.layers)
    said = f"{products:,} products with signs are more than the {_MOST_PRODUCTS:,} that a search may take"
    return said if products > _MOST_PRODUCTS else ""


def _count_stored(
    compressed: compressors.CompressedNetwork, algorithm: compressors.AbstractCompressor
) -> dict[str, int]:
    if isinstance(algorithm, ShareProject):
        names = [layer.name for layer in compressed.layers]
        return {name: algorithm.numbers(compressed.network.layer(name)) for name in names}
    return {layer.name: int(layer.weight.count_nonzero()) for layer in compressed.layers}
