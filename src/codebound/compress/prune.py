"""Magnitude pruning with quantisation, fine-tuned on the sample: from a chain to few, small integers.

Nothing here is known to a decoder: schedules, saliencies and learning rates shape the integers, and the
integers are what the message pays for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from codebound.errors import UsageError
from codebound.nets.chain import Chain, Conv, Linear, Residual
from codebound.progress import Progress, silent
from codebound.rng import torch_stream

if TYPE_CHECKING:
    from codebound.data.dataset import DeviceData

_DENSE_UNTIL, _PRUNED_AT, _QUANTISED_FROM = 0.1, 0.65, 0.5  # as fractions of the training steps
_STEPS_BETWEEN_MASKS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePlan:
    """How far to prune, how coarsely to quantise, how long to train.

    Attributes:
        keep: Non-zero weights that are left at the end, over all layers.
        levels: Largest absolute integer; 1 gives weights in {-1, 0, 1}.
        epochs: Passes over the sample.
        learning_rate: Peak rate of Adam.
        batch_size: Examples per step.
        seed: Seed of the batch order; free, because no decoder needs it.
    """

    keep: int
    levels: int = 2
    epochs: int = 20
    learning_rate: float = 3e-3
    batch_size: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        if self.keep < 1 or self.levels < 1 or self.epochs < 1 or self.batch_size < 1:
            raise UsageError(f"keep, levels, epochs and batch_size are at least 1. Got {self}.")


@dataclass(frozen=True, slots=True)
class IntegerNet:
    """A chain without biases whose weights are small integers; a ReLU chain needs no scales to classify."""

    chain: Chain
    weights: dict[str, Tensor]

    @property
    def nonzeros(self) -> int:
        """Number of weights that are not zero."""
        return sum(int(weight.count_nonzero()) for weight in self.weights.values())


def without_biases(chain: Chain) -> Chain:
    """The same operations, none of them with a bias."""
    operations = tuple(
        replace(operation, bias=False) if isinstance(operation, Linear | Conv | Residual) else operation
        for operation in chain.operations
    )
    return Chain(chain.input_shape, operations)


def prune(
    chain: Chain, tensors: dict[str, Tensor], sample: DeviceData, plan: PrunePlan, progress: Progress = silent
) -> IntegerNet:
    """Trains the weights of a chain into ``plan.keep`` small integers.

    Weights are removed in order of saliency ``w^2 E[g^2]``, the loss increase of a diagonal quadratic
    model, on a cubic schedule; from the middle on, the forward pass uses the integers and the gradient goes
    straight through. Biases are dropped.
    """
    chain = without_biases(chain)
    weights = {name: tensors[name].detach().clone().requires_grad_() for name in chain.tensor_shapes()}
    module = chain.build({name: weight.detach().clone() for name, weight in weights.items()}).to(
        sample.x.device
    )
    masks = {name: torch.ones_like(weight) for name, weight in weights.items()}
    energy = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    gain = torch.zeros((), device=sample.x.device, requires_grad=True)
    optimizer = torch.optim.Adam([*weights.values(), gain], lr=plan.learning_rate)
    order = torch_stream(plan.seed, "prune")
    size = sum(weight.numel() for weight in weights.values())
    total = plan.epochs * math.ceil(sample.n / plan.batch_size)
    step = 0
    for _ in range(plan.epochs):
        shuffled = torch.randperm(sample.n, generator=order).to(sample.x.device)
        for indices in torch.split(shuffled, plan.batch_size):
            part = step / total
            optimizer.param_groups[0]["lr"] = plan.learning_rate * 0.5 * (1.0 + math.cos(math.pi * part))
            if step % _STEPS_BETWEEN_MASKS == 0 and part > _DENSE_UNTIL:
                left = max(0.0, 1.0 - (part - _DENSE_UNTIL) / (_PRUNED_AT - _DENSE_UNTIL)) ** 3
                _shrink_masks(masks, weights, energy, keep=plan.keep + round((size - plan.keep) * left))
            x, y = sample.batch(indices)
            used = {
                name: _straight_through(weight, masks[name], plan.levels if part >= _QUANTISED_FROM else 0)
                for name, weight in weights.items()
            }
            logits = functional_call(module, used, (x,))
            scale = 4.0 * gain.exp() / (logits.detach().square().mean().sqrt() + 1e-12)
            loss = functional.cross_entropy(logits * scale, y)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            for name, weight in weights.items():
                if weight.grad is not None:
                    energy[name].mul_(0.98).addcmul_(weight.grad, weight.grad, value=0.02)
            optimizer.step()
            step += 1
        progress(step, total, f"loss {float(loss.detach()):.3f}")
    integers = {
        name: _integers(weight.detach(), masks[name], plan.levels) for name, weight in weights.items()
    }
    return _without_dead_units(chain, {name: value.cpu() for name, value in integers.items()})


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
    """The masked weight; with levels, its quantised value with the gradient of the masked weight."""
    kept = weight * mask
    if not levels:
        return kept
    with torch.no_grad():
        unit = _unit(weight, mask, levels)
        quantised = _integers(weight, mask, levels) * unit
    return kept + (quantised - kept).detach()


def _unit(weight: Tensor, mask: Tensor, levels: int) -> Tensor:
    """The step: the mean magnitude falls in the middle of the levels."""
    return (weight * mask).abs().sum() / mask.sum().clamp(min=1.0) * (2.0 / (levels + 1))


def _integers(weight: Tensor, mask: Tensor, levels: int) -> Tensor:
    """Kept weights as non-zero integers in [-levels, levels], zero elsewhere."""
    unit = _unit(weight, mask, levels).clamp(min=torch.finfo(weight.dtype).tiny)
    return (weight / unit).abs().round().clamp(1, levels) * weight.sign() * mask


def _without_dead_units(chain: Chain, weights: dict[str, Tensor]) -> IntegerNet:
    """Removes hidden units that nothing enters or nothing leaves: the function stays the same."""
    while True:
        for position, later in _joints(chain):
            rows, columns = weights[f"{position}.weight"], weights[f"{later}.weight"]
            group = columns.shape[1] // len(rows) if columns.dim() == 2 else 1
            leaving = columns.reshape(len(columns), len(rows), -1)
            alive = rows.flatten(1).any(1) & leaving.any(2).any(0)
            if alive.all() or not alive.any():
                continue
            weights[f"{position}.weight"] = rows[alive]
            kept = alive.repeat_interleave(group)
            weights[f"{later}.weight"] = columns[:, kept]
            chain = _with_width(chain, position, int(alive.sum()))
            break
        else:
            return IntegerNet(chain, weights)


def _joints(chain: Chain) -> list[tuple[int, int]]:
    """Pairs of a layer and the layer that alone reads its units."""
    layers = [
        i for i, operation in enumerate(chain.operations) if isinstance(operation, Linear | Conv | Residual)
    ]
    return [
        (first, second)
        for first, second in pairwise(layers)
        if not isinstance(chain.operations[first], Residual)
        and not isinstance(chain.operations[second], Residual)
    ]


def _with_width(chain: Chain, position: int, width: int) -> Chain:
    operations = list(chain.operations)
    operation = operations[position]
    assert isinstance(operation, Linear | Conv)
    operations[position] = replace(operation, out=width)
    return Chain(chain.input_shape, tuple(operations))


def narrowed(chain: Chain, tensors: dict[str, Tensor], width: int) -> tuple[Chain, dict[str, Tensor]]:
    """Keeps at most ``width`` units of every hidden layer: those whose weights, in and out, are largest."""
    tensors = dict(tensors)
    for position, later in _joints(chain):
        rows, columns = tensors[f"{position}.weight"], tensors[f"{later}.weight"]
        if len(rows) <= width:
            continue
        entering = rows.flatten(1).norm(dim=1)
        leaving = columns.reshape(len(columns), len(rows), -1).norm(dim=(0, 2))
        best = (entering * leaving).topk(width).indices.sort().values
        group = columns.shape[1] // len(rows) if columns.dim() == 2 else 1
        spread = (best[:, None] * group + torch.arange(group)).flatten()
        tensors[f"{position}.weight"], tensors[f"{later}.weight"] = rows[best], columns[:, spread]
        if f"{position}.bias" in tensors:
            tensors[f"{position}.bias"] = tensors[f"{position}.bias"][best]
        chain = _with_width(chain, position, width)
    return chain, tensors
