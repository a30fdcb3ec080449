"""What random projection would require (Arora et al. 2018, lemmas 3, 10 and 14)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.nets.layers import LinearView
from codebound.progress import Progress, silent
from codebound_papers.arora18.projection_plan import compression_threshold
from codebound_papers.compress.terms import Margin, Terms, folded, has_biases, planned_stability
from codebound_papers.measure.augmented import augmented_matrix
from codebound_papers.measure.norms import stable_rank

if TYPE_CHECKING:
    from codebound.data.dataset import DeviceData
    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedLayer:
    """What random projection would need in one layer.

    Attributes:
        name: The layer.
        weights: Its number of weights.
        inputs: Its number of inputs; of one patch for a convolution.
        cushion: Layer cushion ``mu_i``.
        interlayer_cushion: Minimal interlayer cushion ``mu_{i->}``.
        epsilon: Accuracy of its projection, ``eps_i``.
        published: Numbers by lemma 3, or by algorithm 4 for a convolution.
        count: Numbers with which the proof goes through; None for a convolution, where none does.
        least_inputs: Inputs below which no cushions let lemma 3 compress the layer (A-E26); None for a
            convolution.
    """

    name: str
    weights: int
    inputs: int
    cushion: float
    interlayer_cushion: float
    epsilon: float
    published: float
    count: int | None
    least_inputs: float | None

    @property
    def asked(self) -> int:
        """Numbers that the layer would be replaced by."""
        return math.ceil(self.published) if self.count is None else self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRequirements:
    """What A-Lem3, A-Lem10 and A-Lem14 require.

    Attributes:
        layers: In forward order.
        margin: The margin and the outputs.
        contraction: Largest activation contraction c.
        smoothness: Measured ``rho_delta``; None for a single layer.
        smoothness_needed: ``3 d``.
        eta: Failure probability of one projection.
        notes: What a reader should know, in sentences.
    """

    layers: tuple[ProjectedLayer, ...]
    margin: Margin
    contraction: float
    smoothness: float | None
    smoothness_needed: float
    eta: float
    notes: tuple[str, ...]

    @property
    def is_smooth(self) -> bool | None:
        """Whether the lemmas apply at all; None where a single layer needs no smoothness."""
        return None if self.smoothness is None else self.smoothness >= self.smoothness_needed

    @property
    def verdict(self) -> str:
        """In plain words."""
        small = [each.name for each in self.layers if each.count is not None and each.count < each.weights]
        if small:
            text = f"The lemma compresses {len(small)} of {len(self.layers)} layers: {', '.join(small)}."
        else:
            least = min(self.layers, key=lambda layer: layer.asked / layer.weights)
            text = (
                "The lemma compresses no layer: it asks for at least "
                f"{_times(least.asked / least.weights)} as many numbers as there are weights ({least.name})."
            )
        nearest = [(x.least_inputs / x.inputs, x) for x in self.layers if x.least_inputs is not None]
        if nearest:
            ratio, first = min(nearest, key=lambda each: each[0])
            if ratio >= 1.0:
                text += (
                    f" Whatever the cushions, even layer {first.name} would need more than "
                    f"{first.least_inputs:,.0f} inputs; it has {first.inputs:,}."
                )
        if self.smoothness is not None:
            words = "holds" if self.is_smooth else "fails, so the lemma does not apply"
            text += (
                f" Smoothness is {self.smoothness:.3g} and has to be at least {self.smoothness_needed:g}: "
                f"that {words}."
            )
        return text


def project_requirements(
    network: Network, sample: DeviceData, terms: Terms, *, progress: Progress = silent
) -> ProjectRequirements:
    """How many numbers random projection would need per layer, by measured noise stability.

    Cushions, margins and outputs are those of the sample. The theorem takes the worst over the whole sample,
    so a part of it errs in favour of the theorem.

    Args:
        network: The wrapped network; batch norms are folded in a copy.
        sample: Examples to measure on.
        terms: Under what terms the lemmas are to hold.
        progress: Told the examples done.

    Raises:
        UsageError: The margin is not positive.
        ModelError: A layer is called twice, or noise stability is not defined.
    """
    network = folded(network)
    found = planned_stability(network, sample, terms, progress=progress)
    setting = found.setting
    factor = compression_threshold(
        depth=len(found.plan.layers), width=setting.width, examples=terms.examples, delta=terms.delta
    )
    augments = terms.stability.biases == "augmented" and has_biases(network)

    def least_inputs(view: AbstractLayerView) -> float | None:
        if not isinstance(view, LinearView):
            return None
        is_last = view.name == network.layers[-1].name
        return factor * stable_rank(augmented_matrix(view, last=is_last) if augments else view.matrix)

    layers = []
    for measured, planned in zip(found.layers, found.plan.layers, strict=True):
        view = network.layer(measured.name)
        layers.append(
            ProjectedLayer(
                name=measured.name,
                weights=measured.weights,
                inputs=view.matrix.shape[1],
                cushion=measured.cushion,
                interlayer_cushion=measured.interlayer_cushion,
                epsilon=planned.epsilon,
                published=planned.published,
                count=planned.count,
                least_inputs=least_inputs(view),
            )
        )
    return ProjectRequirements(
        layers=tuple(layers),
        margin=found.margin,
        contraction=setting.contraction,
        smoothness=found.stability.smoothness,
        smoothness_needed=3.0 * len(layers),
        eta=found.plan.eta,
        notes=found.notes,
    )


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if 10.0 <= ratio < 1e6 else f"{ratio:.2g} times"
