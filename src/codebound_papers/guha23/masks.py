"""Masks that are trained on the sample: lottery tickets (G, section 6) and iterative magnitude pruning."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from codebound.bounds.numerics import log2_choose
from codebound.methods.search import Search, UnsuitedError
from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.dataset import DeviceData
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.quantization import nearest_step
from codebound_networks.codes.tensors import Dense
from codebound_networks.methods.subspace_networks import require_training
from codebound_networks.train.passes import Passes, adam
from codebound_networks.train.rng import torch_stream
from codebound_networks.views.layers import AbstractLayerView
from codebound_papers.compress import compressors
from codebound_papers.compress.codes import Ticket
from codebound_papers.guha23.magnitude import count_bits, kept_count, largest_mask

Kind = Literal["signs", "gaussian", "uniform"]
KINDS: tuple[Kind, ...] = ("signs", "gaussian", "uniform")
_RMS = {"signs": 1.0, "gaussian": 4.0, "uniform": math.sqrt((2**32 - 1) / 3)}
_STEPS = {"standard": 1500, "max": 6000}  # of training that certify pays for
_BATCH = 128


class AbstractMaskTraining(compressors.AbstractNetworkCompressor):
    """An algorithm that trains on the sample which weights of a layer are kept."""

    trains: ClassVar[bool] = True

    @abstractmethod
    def train(self, job: compressors.Job, sample: DeviceData) -> compressors.CompressedNetwork:
        """The compressed network, trained on the sample, on the device of the sample."""

    @classmethod
    @abstractmethod
    def trials(cls, epochs: int) -> "tuple[AbstractMaskTraining, ...]":
        """The options that ``certify`` tries, with so many passes over the sample in all."""

    @abstractmethod
    def shortest(self, entries: int) -> float:
        """Bits that a layer of so many weights costs at least."""

    def run(self, job: compressors.Job) -> compressors.CompressedNetwork:  # noqa: D102
        if job.layers is not None:
            raise UsageError("this method trains all layers together, so it cannot be given some of them.")
        if job.sample is None:
            raise UsageError("this method trains on a sample: give one.")
        return self.train(job, job.sample)

    @classmethod
    def propose(cls, search: Search) -> None:
        """Trains a network of its own for every option that can pay: training takes time."""
        require_training(search, starts_from_f=True)
        if search.task.base is not None:
            raise UnsuitedError("what is trained anew is near no base.")
        seed = 0 if cls.is_seed_coded else search.seed
        job = compressors.Job(
            network=search.task.network, sample=search.sample, seed=seed, progress=search.progress
        )
        epochs = max(1, math.ceil(_STEPS[search.effort] * _BATCH / search.sample.n))
        for algorithm in cls.trials(epochs):
            bits = sum(algorithm.shortest(view.weight.numel()) for view in job.network.layers)
            if bits < search.most_bits:
                codes = {layer.tensor: layer.code for layer in algorithm.run(job).layers}
                search.propose(compressors.message_with(search, codes))


@dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """A layer in the search: its random weights and their scores; the mask is where scores are largest."""

    name: str
    helper: Tensor
    scores: Tensor
    kept: int
    step: int
    seed: int

    def mask(self) -> Tensor:
        return largest_mask(self.scores.detach(), self.kept)

    def weight(self) -> Tensor:
        """The ticket; its gradient with respect to a score is that of having the random weight."""
        return self.helper * (self.mask() + self.scores - self.scores.detach())

    def ticket(self, kind: Kind) -> Ticket:
        mask = self.mask().cpu().numpy().astype(np.int32)
        inner = best_tensor_code(mask, step=self.step)
        return Ticket(inner, kind=KINDS.index(kind), seed=self.seed)


@implements("G-Thm6.1:search", "I-16", kind="algorithm")
@dataclass(frozen=True, kw_only=True)
class LotteryTicket(AbstractMaskTraining):
    """A subnetwork of a random network with the shapes of this one; only the masks are coded (K-LT).

    The search starts from the masks that bring every layer closest to the given one, in Frobenius norm,
    and trains a score for every random weight: the largest are in the mask, and the gradient goes straight
    through. Random weights have the norm of the layer they replace, up to the coded step. Layer i has random
    weights from the seed plus i, coded and paid; the order of examples is free.

    Differs.    G-Thm6.1 promises that a subnetwork close to a given network exists if the random one is wide
                enough; it does not find it. Here the widths stay, and the data decide.
    """

    density: float = 0.3  # share of the random weights of a layer to keep
    epochs: int = 10  # passes over the sample
    kind: Kind = "signs"  # random weights: signs, coded Gaussians, or uniform ones as in the theorem
    learning_rate: float = 0.1  # of the scores, which start with root mean square 1
    batch_size: int = 256  # examples per step
    is_seed_coded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"random weights are {', '.join(KINDS)}. Got {self.kind!r}.")

    def train(self, job: compressors.Job, sample: DeviceData) -> compressors.CompressedNetwork:  # noqa: D102
        if job.seed < 0:
            raise UsageError(f"a coded seed is not negative. Got {job.seed}.")
        drafts: list[_Draft] = []
        carried = compressors.find_sharing(job.network)
        for position, layer in enumerate(job.network.layers):
            if layer.name in carried:
                continue
            own_seed = job.seed + position
            try:
                drafts.append(self._draft(layer, seed=own_seed, device=sample.x.device))
            except UnsupportedLayerError as refusal:
                carried[layer.name] = str(refusal)

        def weights() -> dict[str, Tensor]:
            return {compressors.weight_name(draft.name): draft.weight() for draft in drafts}

        scores, order = [draft.scores for draft in drafts], torch_stream(job.seed, "lottery")
        run = Training(self.epochs, self.learning_rate, self.batch_size, order)
        descend(job.network.predictor, scores, weights, sample, run, progress=job.progress)
        layers = tuple(compressors.CompressedLayer(draft.name, draft.ticket(self.kind)) for draft in drafts)
        return compressors.CompressedNetwork(job.network, layers, carried)

    @classmethod
    def trials(cls, epochs: int) -> "tuple[LotteryTicket, ...]":  # noqa: D102
        return tuple(cls(density=density, epochs=epochs, batch_size=_BATCH) for density in (0.3, 0.1))

    def shortest(self, entries: int) -> float:  # noqa: D102
        return ticket_bits(entries, kept=kept_count(entries, self.density))

    def _draft(self, layer: AbstractLayerView, *, seed: int, device: torch.device) -> _Draft:
        weight = compressors.weight_of(layer).double()
        kept = kept_count(weight.numel(), self.density)
        norm = float(weight.norm())
        if norm == 0.0:
            raise UnsupportedLayerError(
                f"layer {layer.name}: all its weights are zero, so no mask resembles it."
            )
        step = nearest_step(norm / (_RMS[self.kind] * math.sqrt(kept)))
        everything = Dense(np.ones(weight.shape, dtype=np.int32), step, 1)
        helper = torch.from_numpy(Ticket(everything, kind=KINDS.index(self.kind), seed=seed).values())
        # keeping random weight h for w adds h^2 - 2 w h to the squared distance
        scores = helper * (2.0 * weight - helper)
        scores = (scores - scores.mean()) / scores.std(correction=0).clamp(min=1e-300)
        first, learned = helper.float().to(device), scores.float().to(device).requires_grad_()
        return _Draft(layer.name, first, learned, kept=kept, step=step, seed=seed)


@implements("G-E21", kind="numerics")
def ticket_bits(entries: int, *, kept: int) -> float:
    """Bits of one mask, K-LT: how many random weights are kept, and which.

    >>> round(ticket_bits(10**8, kept=900) / 1000, 1)  # 16.4 for the subset, the rest for its size
    16.4
    """
    if not 0 <= kept <= entries:
        raise UsageError(f"{kept} of {entries} weights cannot be kept.")
    return math.log2(entries + 1) + log2_choose(entries, kept)


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
@dataclass(frozen=True, kw_only=True)
class IterativePruning(AbstractMaskTraining):
    """Prunes a network in rounds; the given weights are the point to which every round rewinds.

    Give the network at its initialisation or after a few epochs. Each round trains the weights that are left
    and keeps the largest of each layer, the same share in every round; after the last one they are trained
    once more and rounded. Biases and batch norms stay as they are. The seed is free.
    """

    density: float = 0.1  # share of the weights of a layer to keep in the end
    rounds: int = 4  # times that weights are dropped
    epochs: int = 5  # passes over the sample in each training, of which there are rounds + 1
    levels: int = 31  # values a weight can take, odd
    learning_rate: float = 1e-3  # of Adam, at the start of each training
    batch_size: int = 256  # examples per step

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise UsageError(f"there is at least one round. Got {self.rounds}.")

    def train(self, job: compressors.Job, sample: DeviceData) -> compressors.CompressedNetwork:  # noqa: D102
        found, carried = compressors.weights_of(job.network)
        layers: list[_Layer] = []
        for name, weight in found.items():
            start = weight.to(sample.x.device)
            kept_count(start.numel(), self.density)  # refuses a density before the first training
            layers.append(_Layer(name, start, start.clone().requires_grad_(), torch.ones_like(start)))
        trainings = self.rounds + 1

        def weights() -> dict[str, Tensor]:
            return {compressors.weight_name(layer.name): layer.used() for layer in layers}

        for number in range(trainings):
            job.progress(number, trainings)
            if number:
                for layer in layers:
                    layer.rewind(kept_count(layer.start.numel(), self.density ** (number / self.rounds)))
            order = torch_stream(job.seed, f"imp {number}")
            run = Training(self.epochs, self.learning_rate, self.batch_size, order)
            descend(job.network.predictor, [layer.weight for layer in layers], weights, sample, run)
        job.progress(trainings, trainings)
        codes = (
            compressors.CompressedLayer(layer.name, compressors.round_weight(layer.used(), self.levels).code)
            for layer in layers
        )
        return compressors.CompressedNetwork(job.network, tuple(codes), carried)

    @classmethod
    def trials(cls, epochs: int) -> "tuple[IterativePruning, ...]":  # noqa: D102
        rounds = 3
        each = math.ceil(epochs / (rounds + 1))
        like = cls(rounds=rounds, epochs=each, levels=7, batch_size=_BATCH)
        return tuple(replace(like, density=density) for density in (0.1, 0.03))

    def shortest(self, entries: int) -> float:  # noqa: D102
        return count_bits(entries, nonzeros=kept_count(entries, self.density), levels=3)


class Training(NamedTuple):
    """Settings of the training. The generator names the order of the examples."""

    epochs: int
    learning_rate: float
    batch_size: int
    order: torch.Generator


def descend(
    module: nn.Module,
    parameters: Sequence[Tensor],
    weights: Callable[[], Mapping[str, Tensor]],
    sample: DeviceData,
    training: Training,
    *,
    progress: Progress = silent,
) -> None:
    """Trains ``parameters`` in place, with Adam on the cross-entropy and a cosine schedule.

    ``weights`` computes tensors of the network, by name, from the parameters at every step.
    """
    epochs, learning_rate, batch_size, order = training
    if min(epochs, batch_size) < 1 or not 0.0 < learning_rate < math.inf:
        raise UsageError(
            "epochs and batch_size are at least 1 and the learning rate is positive. "
            f"Got {epochs}, {batch_size} and {learning_rate}."
        )
    if not parameters:
        return
    device = sample.x.device
    first = compressors.first_names(module)
    state = {first[name]: tensor.detach().to(device) for name, tensor in module.state_dict().items()}
    descend = adam(parameters)
    passes = Passes(n=sample.n, epochs=epochs, batch_size=batch_size, order=order)

    def step(done: int, indices: Tensor) -> Tensor:
        x, y = sample.batch(indices)
        now = {**state, **{first[name]: tensor for name, tensor in weights().items()}}
        loss = functional.cross_entropy(functional_call(module, now, (x,)), y)
        torch.autograd.backward(loss, inputs=list(parameters))
        descend(0.5 * learning_rate * (1.0 + math.cos(math.pi * done / passes.steps)))
        return loss

    passes.run(step, device=device, activity="in training", progress=progress)
