"""Iterative magnitude pruning with rewinding: train, drop the smallest weights, start again without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from codebound.errors import UnsupportedLayerError, UsageError
from codebound.progress import Progress, silent
from codebound.refs import implements
from codebound.rng import torch_stream
from codebound_papers.compress.compressors import CompressedLayer, CompressedNetwork, weight_name
from codebound_papers.compress.rounding import rounded, weight_of
from codebound_papers.guha23.descent import descend
from codebound_papers.guha23.largest import kept_count, largest_mask

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.data.dataset import DeviceData
    from codebound.nets.walk import Network


@dataclass(slots=True, eq=False)
class _Layer:
    """A layer between rounds: where it starts from, where training took it, what is left of it."""

    name: str
    start: Tensor
    weight: Tensor
    mask: Tensor

    def used(self) -> Tensor:
        return self.weight * self.mask

    def rewind(self, kept: int) -> None:
        """Keeps the largest of the weights that are left, and puts them back to where they started."""
        trained = self.used().detach()
        self.mask = largest_mask(trained.abs(), kept).to(trained.dtype)
        self.weight = self.start.clone().requires_grad_()


@implements("G-Thm6.2:imp", kind="algorithm")
def imp(
    network: Network,
    sample: DeviceData,
    *,
    density: float = 0.1,
    rounds: int = 4,
    epochs: int = 5,
    levels: int = 31,
    learning_rate: float = 1e-3,
    batch_size: int = 256,
    seed: int = 0,
    progress: Progress = silent,
) -> CompressedNetwork:
    """Prunes a network in rounds; the given weights are the point to which every round rewinds.

    Give the network at its initialisation or after a few epochs, not at the end of its training. Each round
    trains the weights that are left and keeps the largest of each layer, the same share in every round; after
    the last one they are trained once more and rounded. Biases and batch norms stay as they are.

    Args:
        network: The wrapped network; never changed.
        sample: Examples to train on, on the device to work on.
        density: Share of the weights of a layer to keep in the end.
        rounds: Times that weights are dropped.
        epochs: Passes over the sample in each training, of which there are ``rounds + 1``.
        levels: Values a weight can take, odd.
        learning_rate: Of Adam, at the start of each training.
        batch_size: Examples per step.
        seed: Of the order of examples; free.
        progress: Told the trainings done.
    """
    if rounds < 1:
        raise UsageError(f"there is at least one round. Got {rounds}.")
    layers: list[_Layer] = []
    carried: dict[str, str] = {}
    for view in network.layers:
        try:
            start = weight_of(view).to(sample.x.device)
        except UnsupportedLayerError as refusal:
            carried[view.name] = str(refusal)
            continue
        kept_count(start.numel(), density)  # refuses a density before the first training
        layers.append(_Layer(view.name, start, start.clone().requires_grad_(), torch.ones_like(start)))
    for number in range(rounds + 1):
        progress(number, rounds + 1)
        if number:
            for layer in layers:
                layer.rewind(kept_count(layer.start.numel(), density ** (number / rounds)))
        descend(
            network.predictor,
            [layer.weight for layer in layers],
            lambda: {weight_name(layer.name): layer.used() for layer in layers},
            sample,
            epochs=epochs,
            learning_rate=learning_rate,
            batch_size=batch_size,
            order=torch_stream(seed, f"imp {number}"),
        )
    progress(rounds + 1, rounds + 1)
    codes = tuple(CompressedLayer(layer.name, rounded(layer.used(), levels).code) for layer in layers)
    return CompressedNetwork(network, codes, carried)
