"""The network of Guha et al. 2023 on MNIST, and prunings of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.compare.facts import MeasurePlan, measure_facts
from codebound.compress.mbp import prune_randomly
from codebound.nets.rebuild import with_weights
from codebound.reproduce.guha_trained import CODE, parts_of, plan_for
from codebound.reproduce.trained import Trained, trained
from codebound.rng import torch_stream

if TYPE_CHECKING:
    from torch import Tensor, nn

    from codebound.bounds.published.facts import NetworkFacts
    from codebound.reproduce.item import Settings, Size
    from codebound.reproduce.samples import Samples
    from codebound.train.config import TrainConfig

_PUBLISHED = plan_for("mnist", "full")
_RELEASED = _PUBLISHED.trainings[CODE]
_PLANS: dict[Size, tuple[str, TrainConfig]] = {
    "tiny": ("mlp:depth=3,width=12", replace(_RELEASED, learning_rate=0.1, epochs=2, batch_size=20)),
    "quick": ("mlp:depth=5,width=100", replace(_RELEASED, epochs=10)),
    "full": ("mlp:depth=5,width=784", _RELEASED),
}
_STRENGTHS: dict[Size, int] = {"tiny": 3, "quick": 21, "full": 100}
_QUICK = "The network has width 100 and at most 10 epochs; theirs has width 784 and 300 epochs."
_CODE = (
    "Settings are those of the released code: SGD with momentum 0.9, weight decay 1e-4, biases that are not "
    "pruned, the diagonal pruned like the rest, Psi the variance of each layer. The text has Adam (G-E29)."
)


def guha_samples(size: Size) -> Samples:
    """MNIST in [-1, 1]: 48,000 examples to train on, as the released code leaves, and the test set."""
    return parts_of(_PUBLISHED, size=size).samples


def deviations(size: Size) -> tuple[str, ...]:
    """Where a study differs from the repository's, or from the text."""
    return (_CODE,) if size == "full" else (_QUICK, _CODE)


def strengths(size: Size) -> list[float]:
    """The values of d that a study looks at, from 0 to 10."""
    return [float(d) for d in np.linspace(0.0, 10.0, _STRENGTHS[size])]


@dataclass(frozen=True)
class Study:
    """The trained network, loaded when a part of a study first needs it."""

    settings: Settings

    @cached_property
    def samples(self) -> Samples:
        """What it was trained on."""
        return guha_samples(self.settings.size)

    @cached_property
    def subject(self) -> Trained:
        """The network."""
        spec, config = _PLANS[self.settings.size]
        return trained(spec, self.samples, replace(config, seed=self.settings.seed), self.settings)

    @cached_property
    def facts(self) -> NetworkFacts:
        """What published expressions are told about it."""
        plan = MeasurePlan(examples=1, device=self.settings.device)
        return measure_facts(self.subject.network, self.samples.train, plan).facts

    def pruned(self, strength: float, *, keep_diagonal: bool = False) -> dict[str, Tensor]:
        """One draw of every layer's matrix, by name; it depends on the strength, not on the diagonal."""
        return {
            view.name: prune_randomly(
                matrix := view.matrix.detach().cpu(),
                strength=strength,
                variance=float(matrix.double().var(correction=0)),
                generator=torch_stream(self.settings.seed, f"prune {strength:.6g} {view.name}"),
                keep_diagonal=keep_diagonal,
            )
            for view in self.subject.network.layers
        }

    def with_matrices(self, matrices: dict[str, Tensor]) -> nn.Module:
        """The network with other matrices, biases as they are."""
        model = self.subject.network.model
        state = {name: value.detach() for name, value in model.state_dict().items()}
        for name, matrix in matrices.items():
            state[f"{name}.weight"] = matrix.to(state[f"{name}.weight"].device)
        return with_weights(model, state)


def largest_change(before: nn.Module, after: nn.Module, data: Samples, *, device: str) -> float:
    """Largest Euclidean distance of two networks' outputs over the training set."""
    largest = torch.zeros((), dtype=torch.float32, device=device)
    with torch.no_grad():
        for x, _ in data.train.on(device).chunks(4096):
            change = torch.linalg.vector_norm(after(x) - before(x), dim=1).max()
            largest = torch.maximum(largest, change)
    return float(largest)
