"""Training inside a coded random subspace: a few integers are all that is learned (docs/format.md, 8.8).

Every tensor is a fixed random start plus signed sums of the same d integers: the message holds the integers
and nothing else. Only the integers are known to a decoder; rates, noise, gain and batches are free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from codebound.run.progress import Progress, silent
from codebound_networks.codes.quantization import step_size
from codebound_networks.codes.random_subspace import hashes, scale_exponent, start_values
from codebound_networks.train.passes import Passes, half_cosine
from codebound_networks.train.rng import torch_stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from codebound.sample.dataset import DeviceData
    from codebound_networks.chains.chain import Chain

Shape = tuple[int, ...]

_WARM_UP_STEPS = 200
_RATE_FROM = 0.2  # share of the training after which the code length has its full weight
_HARD_FROM, _HARD_AT = 0.2, 0.6  # shares between which the loss becomes hard
_SOFT = 1e-6  # an exponent of the loss that stands for zero
_CHUNK = 2048  # examples whose fixed features are computed at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class SubspaceSettings:
    """Settings of training in a subspace: size, step and schedule."""

    dimension: int  # number of integers
    # index of the step, 2^(step/8), by which one integer moves a weight whose start has deviation 1
    step: int = -8
    entries_log2: int = 2  # log2 of the number of integers that every weight takes: 0, 1 or 2
    zero_head: bool = True  # whether the last layer starts at zero
    helper_seed: int = 0  # seed of starts and hashes; the decoder needs it, so it is paid
    rate: float = 4.0  # weight of the code length in the loss, in nats per example of the sample
    gain: float = 3.0  # factor on the logits in the loss; free, because no decision depends on it
    # how far the loss goes in the course of training, from cross-entropy (0), which dwells on examples that
    # are lost, to a smooth count of errors (1)
    hardness: float = 0.0
    sharpening: float = 1.0  # factor by which the gain grows meanwhile
    price: float = 1.0  # errors that one bit is worth where errors are counted
    epochs: int = 100  # passes over the sample
    batch_size: int = 500  # examples per step
    learning_rate: float = 0.1  # peak rate of Adam, in units of the integers
    # share of the training in which uniform noise stands for rounding; then the integers are rounded and the
    # gradient goes straight through
    noise_share: float = 0.6
    seed: int = 0  # seed of batches and noise; free


class Learner:
    """A chain to train, split where its tensors begin to matter: its shifts and its dictionary are fixed."""

    def __init__(self, chain: Chain) -> None:
        self.shapes: Mapping[str, Shape] = chain.tensor_shapes()
        last = f"{len(chain.operations) - 1}."
        self.head = frozenset(name for name in self.shapes if name.startswith(last))
        self._shifts = chain.shift_count
        self._fixed, self._rest = chain.parts({name: torch.zeros(size) for name, size in self.shapes.items()})

    def features(self, x: Tensor) -> tuple[Tensor, ...]:
        """Each shift of a batch, before the first tensor is used."""
        return self._fixed(x).chunk(self._shifts)  # type: ignore[no-any-return]

    def logits(self, features: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Logits of the features of one shift, in their precision."""
        used = {name: value.to(features.dtype) for name, value in tensors.items()}
        return functional_call(self._rest, used, (features,))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """The fixed part of a network for every view of a sample: the same for all integers, so computed once."""

    learner: Learner  # the network
    # features of all examples, one tensor per shift, in half precision where it reaches so far
    shifts: tuple[Tensor, ...]
    labels: Tensor  # labels

    @classmethod
    @torch.no_grad()
    def of(cls, learner: Learner, sample: DeviceData, progress: Progress = silent) -> Features:
        """The features of a sample, on its device."""
        shifts: list[list[Tensor]] = []
        for done, (x, _) in enumerate(sample.chunks(_CHUNK)):
            progress(done * _CHUNK, sample.n, "features")
            found = learner.features(x)
            shifts = shifts or [[] for _ in found]
            for parts, part in zip(shifts, found, strict=True):
                half = part.half()
                parts.append(half if half.isfinite().all() else part)
        return cls(learner, tuple(map(torch.cat, shifts)), sample.y)

    def logits(self, tensors: Mapping[str, Tensor], examples: Tensor | slice) -> Tensor:
        """Logits of the network with these tensors, in single precision."""
        every = [self.learner.logits(shift[examples].float(), tensors) for shift in self.shifts]
        return torch.stack(every).mean(0)

    @torch.no_grad()
    def errors(self, tensors: Mapping[str, Tensor]) -> int:
        """Errors of the network with these tensors, in single precision: for choosing, not for certifying."""
        wrong = 0
        for start in range(0, len(self.labels), _CHUNK):
            part = slice(start, start + _CHUNK)
            wrong += int((self.logits(tensors, part).argmax(1) != self.labels[part]).sum())
        return wrong


class Expansion:
    """From d integers, or real numbers in their place, to all tensors of a network, differentiably.

    The tensors start from those of ``base`` where it is given, else from random ones; the head of the network
    starts at zero when the settings say so.
    """

    def __init__(
        self,
        learner: Learner,
        settings: SubspaceSettings,
        *,
        base: Mapping[str, Tensor] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        shapes, head = learner.shapes, learner.head
        self._shapes = dict(shapes)
        self._sizes = [math.prod(shape) for shape in shapes.values()]
        count = sum(self._sizes)
        indices, signs = hashes(settings.helper_seed, settings.dimension, 1 << settings.entries_log2, count)
        scales = np.repeat([2.0 ** -scale_exponent(shape) for shape in shapes.values()], self._sizes)
        moves = signs.T * (scales * step_size(settings.step))
        self._indices = torch.from_numpy(np.ascontiguousarray(indices.T)).long().to(device)
        self._moves = torch.from_numpy(moves.astype(np.float32)).to(device)
        if base is None:
            free = [
                len(shape) > 1 and not (settings.zero_head and name in head) for name, shape in shapes.items()
            ]
            first = start_values(settings.helper_seed, count) * (0.25 * scales * np.repeat(free, self._sizes))
            self._start = torch.from_numpy(first.astype(np.float32)).to(device)
        else:
            self._start = torch.cat([base[name].detach().flatten() for name in shapes]).float().to(device)

    def tensors(self, integers: Tensor) -> dict[str, Tensor]:
        """All tensors, by name."""
        flat = self._start + (integers[self._indices] * self._moves).sum(0)
        parts = torch.split(flat, self._sizes)
        return {
            name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }


def train_in_subspace(
    features: Features,
    settings: SubspaceSettings,
    *,
    base: Mapping[str, Tensor] | None = None,
    progress: Progress = silent,
) -> NDArray[np.int32]:
    """The integers of a subspace in which the network classifies the sample well and is short to describe.

    The loss is (1 - p^h) / h, p the probability of the label and h rising from 0 to the hardness, plus the
    code length of the integers under a discretised logistic law whose scale is learned.
    """
    training = _Training(features, settings, base)
    training.passes.run(
        training.advance, device=features.labels.device, activity="in the subspace", progress=progress
    )
    return training.integers()


class _Training:
    """State of one training."""

    def __init__(
        self, features: Features, settings: SubspaceSettings, base: Mapping[str, Tensor] | None
    ) -> None:
        self.settings, self.learner = settings, features.learner
        self.shifts, self.labels = features.shifts, features.labels
        n, device = len(self.labels), self.labels.device
        self.batch_size = min(settings.batch_size, n)
        self.expansion = Expansion(self.learner, settings, base=base, device=device)
        order = torch_stream(settings.seed, "subspace batches")
        self.passes = Passes(
            n=n, epochs=settings.epochs, batch_size=self.batch_size, order=order, drops_rest=True
        )
        self.noise = torch_stream(settings.seed, "subspace noise", device=device)
        begin = 0.1 * torch.randn(settings.dimension, generator=torch_stream(settings.seed, "subspace begin"))
        self.values = begin.to(device).requires_grad_()
        self.spread = torch.zeros((), device=device, requires_grad=True)
        self.learning_rate = torch.tensor(settings.learning_rate, device=device)
        self.weight = torch.zeros((), device=device)  # of the code length
        self.gain, self.hardness = torch.zeros((), device=device), torch.zeros((), device=device)
        self.batch = torch.zeros(self.batch_size, dtype=torch.long, device=device)
        self.loss = torch.zeros((), device=device)
        self.on_gpu = device.type == "cuda"
        self.optimizer = torch.optim.Adam(
            [self.values, self.spread], lr=self.learning_rate, betas=(0.9, 0.99), capturable=self.on_gpu
        )

    def advance(self, done: int, indices: Tensor) -> Tensor:
        """The step after ``done`` others."""
        settings, part = self.settings, done / self.passes.steps
        warm = min(1.0, (done + 1) / _WARM_UP_STEPS)
        self.learning_rate.fill_(settings.learning_rate * warm * half_cosine(part))
        hardened = min(1.0, max(0.0, (part - _HARD_FROM) / (_HARD_AT - _HARD_FROM)))
        hardness = settings.hardness * hardened
        self.hardness.fill_(max(_SOFT, hardness))
        self.gain.fill_(settings.gain * (1.0 + (settings.sharpening - 1.0) * hardened))
        a_bit = (1.0 - hardness) * settings.rate * math.log(2.0) + hardness * settings.price
        self.weight.fill_(a_bit * min(1.0, part / _RATE_FROM) / self.passes.n)
        self.batch.copy_(indices)
        self.compute(is_rounded=part >= settings.noise_share)
        return self.loss

    def compute(self, *, is_rounded: bool) -> None:
        if is_rounded:
            used = self.values + (self.values.round() - self.values).detach()
        else:
            noise = torch.empty_like(self.values).uniform_(-0.5, 0.5, generator=self.noise)
            used = self.values + noise
        tensors = self.expansion.tensors(used)
        inputs = torch.cat([shift[self.batch] for shift in self.shifts])
        logits = self.learner.logits(inputs.to(torch.bfloat16 if self.on_gpu else torch.float32), tensors)
        logits = logits.float().view(len(self.shifts), self.batch_size, -1).mean(0)
        chances = functional.log_softmax(self.gain * logits, dim=1)
        chance = chances.gather(1, self.labels[self.batch].unsqueeze(1))
        fit = (-torch.expm1(self.hardness * chance) / self.hardness).mean()
        self.optimizer.zero_grad(set_to_none=False)
        torch.autograd.backward(fit + self.weight * _code_bits(used, self.spread))
        self.optimizer.step()
        self.loss.copy_(fit.detach())

    def integers(self) -> NDArray[np.int32]:
        return self.values.detach().round().to(torch.int32).cpu().numpy()


def _code_bits(values: Tensor, spread: Tensor) -> Tensor:
    """Negative log2 likelihood under a discretised logistic law, which is the law of the code."""
    scale = functional.softplus(spread) + 0.05
    ends = functional.logsigmoid((0.5 - values.abs()) / scale) + functional.logsigmoid(
        (0.5 + values.abs()) / scale
    )
    nats = ends + torch.log1p(-torch.exp(-1.0 / scale))
    return -nats.sum() / math.log(2.0)
