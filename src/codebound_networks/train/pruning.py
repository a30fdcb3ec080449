"""Pruning with quantisation, fine-tuned on the sample: from weights to few, small integers.

Nothing here is known to a decoder: schedules, saliencies and learning rates shape the integers, and the
integers are what the message pays for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from codebound.run.errors import UsageError
from codebound.run.progress import Progress, silent
from codebound_networks.train.passes import Passes, adam, half_cosine
from codebound_networks.train.rng import torch_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from codebound.sample.dataset import DeviceData

_DENSE_UNTIL, _PRUNED_AT, _QUANTISED_FROM = 0.1, 0.65, 0.5  # as fractions of the training steps
_STEPS_BETWEEN_MASKS = 10
_STEPS_PER_OCTAVE = 8  # steps of the format are powers of 2**(1/8)


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneSettings:
    """Settings of pruning, quantisation and training."""

    keep: int  # non-zero weights that are left at the end, over all pruned tensors
    levels: int = 2  # largest absolute integer; 1 gives weights in {-1, 0, 1}
    epochs: int = 20  # passes over the sample
    learning_rate: float = 3e-3  # peak rate of Adam
    batch_size: int = 256  # examples per step
    seed: int = 0  # seed of the batch order; free, because no decoder needs it

    def __post_init__(self) -> None:
        if min(self.keep, self.levels, self.epochs, self.batch_size) < 1:
            raise UsageError(f"keep, levels, epochs and batch_size are at least 1. Got {self}.")
        if not 0.0 < self.learning_rate < math.inf:
            raise UsageError(f"the learning rate is positive. Got {self.learning_rate}.")


PrunePlan = PruneSettings  # its public name in cb.compress


@dataclass(frozen=True, slots=True, eq=False)
class PrunedTensor:
    """A tensor as integers times ``2**(step/8)``."""

    integers: Tensor
    step: int


def prune(
    module: nn.Module,
    names: Sequence[str],
    sample: DeviceData,
    settings: PruneSettings,
    progress: Progress = silent,
) -> dict[str, PrunedTensor]:
    """Trains some tensors of a network into ``settings.keep`` small integers. The others stay as they are.

    Weights are removed in order of saliency ``w^2 E[g^2]``, the loss increase in a diagonal quadratic
    model, on a cubic schedule; from the middle on, the forward pass uses the integers and the gradient goes
    straight through. The same arguments give the same integers on a CPU.

    Args:
        module: The network, in evaluation mode; it is not changed.
        names: Parameters to prune and quantise.
        sample: Examples to train on, on the device to train on.
        settings: How far, how coarse, how long.
        progress: Told the steps done.
    """
    device = sample.x.device
    state = {name: tensor.detach().to(device) for name, tensor in module.state_dict().items()}
    weights = {name: state[name].clone().requires_grad_() for name in names}
    masks = {name: torch.ones_like(weight) for name, weight in weights.items()}
    energy = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    gain = torch.zeros((), device=device, requires_grad=True)
    descend = adam([*weights.values(), gain])
    size = sum(weight.numel() for weight in weights.values())
    passes = Passes(
        n=sample.n,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        order=torch_stream(settings.seed, "prune"),
    )

    def step(done: int, indices: Tensor) -> Tensor:
        part = done / passes.steps
        if done % _STEPS_BETWEEN_MASKS == 0 and part > _DENSE_UNTIL:
            left = max(0.0, 1.0 - (part - _DENSE_UNTIL) / (_PRUNED_AT - _DENSE_UNTIL)) ** 3
            _shrink_masks(masks, weights, energy, keep=settings.keep + round((size - settings.keep) * left))
        levels = settings.levels if part >= _QUANTISED_FROM else 0
        used = {name: _straight_through(weight, masks[name], levels) for name, weight in weights.items()}
        x, y = sample.batch(indices)
        logits = functional_call(module, {**state, **used}, (x,))
        # a classifier does not depend on the scale of its outputs: train on normalised ones
        scale = 4.0 * gain.exp() / (logits.detach().square().mean().sqrt() + 1e-12)
        loss = functional.cross_entropy(logits * scale, y)
        torch.autograd.backward(loss)
        for name, weight in weights.items():
            if weight.grad is not None:
                energy[name].mul_(0.98).addcmul_(weight.grad, weight.grad, value=0.02)
        descend(settings.learning_rate * half_cosine(part))
        return loss

    passes.run(step, device=device, activity="while pruning", progress=progress)
    _shrink_masks(masks, weights, energy, keep=settings.keep)  # a short training may not have come that far
    return {name: _convert(weight.detach(), masks[name], settings.levels) for name, weight in weights.items()}


@torch.no_grad()
def _shrink_masks(
    masks: dict[str, Tensor], weights: dict[str, Tensor], energy: dict[str, Tensor], *, keep: int
) -> None:
    saliency = {name: masks[name] * weight.square() * energy[name] for name, weight in weights.items()}
    everything = torch.cat([value.flatten() for value in saliency.values()])
    threshold = everything.kthvalue(len(everything) - keep + 1).values if keep < len(everything) else 0.0
    for name, value in saliency.items():
        mask = ((value >= threshold) & (masks[name] > 0)).to(value.dtype)
        if mask.any():  # a layer without weights would cut the network
            masks[name] = mask


def _straight_through(weight: Tensor, mask: Tensor, levels: int) -> Tensor:
    """The masked weight. With levels, its quantised value with the gradient of the masked weight."""
    kept = weight * mask
    if not levels:
        return kept
    with torch.no_grad():
        unit = torch.exp2(_step(kept, mask, levels) / _STEPS_PER_OCTAVE)
        change = _integers(kept, mask, unit, levels) * unit - kept
    return kept + change


def _step(kept: Tensor, mask: Tensor, levels: int) -> Tensor:
    """Index of the step that puts the mean magnitude in the middle of the levels."""
    mean = kept.abs().sum() / mask.sum().clamp(min=1.0)
    unit = (mean * (2.0 / (levels + 1))).clamp(min=1e-30)
    return torch.round(_STEPS_PER_OCTAVE * torch.log2(unit))


def _integers(kept: Tensor, mask: Tensor, unit: Tensor, levels: int) -> Tensor:
    """Kept weights as non-zero integers in [-levels, levels], zero elsewhere."""
    return (kept / unit).abs().round().clamp(1, levels) * kept.sign() * mask


def _convert(weight: Tensor, mask: Tensor, levels: int) -> PrunedTensor:
    kept = weight * mask
    step = _step(kept, mask, levels)
    integers = _integers(kept, mask, torch.exp2(step / _STEPS_PER_OCTAVE), levels)
    return PrunedTensor(integers.to(torch.int32).cpu(), int(step))
