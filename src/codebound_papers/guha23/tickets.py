"""Lottery tickets (G, section 6): a network of random weights of which only a mask is coded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from codebound.coding.choose import best_tensor_code
from codebound.coding.quantization import nearest_step
from codebound.coding.tensors import Dense
from codebound.coding.with_streams import Ticket
from codebound.errors import UnsupportedLayerError, UsageError
from codebound.numerics import log2_choose
from codebound.progress import Progress, silent
from codebound.refs import implements
from codebound.rng import torch_stream
from codebound_papers.compress.compressors import CompressedLayer, CompressedNetwork, weight_name
from codebound_papers.compress.rounding import weight_of
from codebound_papers.guha23.descent import descend
from codebound_papers.guha23.largest import kept_count, largest_mask

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.data.dataset import DeviceData
    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network

Kind = Literal["signs", "gaussian", "uniform"]
KINDS: tuple[Kind, ...] = ("signs", "gaussian", "uniform")
_RMS = {"signs": 1.0, "gaussian": 4.0, "uniform": math.sqrt((2**32 - 1) / 3)}


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


@implements("G-Thm6.1:search", "I-16", kind="algorithm")
def lottery(
    network: Network,
    sample: DeviceData,
    *,
    density: float = 0.3,
    epochs: int = 10,
    kind: Kind = "signs",
    learning_rate: float = 0.1,
    batch_size: int = 256,
    seed: int = 0,
    progress: Progress = silent,
) -> CompressedNetwork:
    """A subnetwork of a random network with the shapes of this one; only the masks are coded (K-LT).

    The search starts from the masks that bring every layer closest to the given one, in Frobenius norm,
    and trains a score for every random weight: the largest are in the mask, and the gradient goes straight
    through. Random weights have the norm of the layer they replace, up to the coded step, so that biases and
    batch norms, which stay as they are, meet inputs of about the size they know.

    Differs.    G-Thm6.1 promises that a subnetwork close to a given network exists if the random one is wide
                enough; it does not find it. Here the widths stay, and the data decide.

    Args:
        network: The wrapped network; never changed.
        sample: Examples to find the masks on, on the device to work on.
        density: Share of the random weights of a layer to keep.
        epochs: Passes over the sample.
        kind: Random weights: signs, coded Gaussians, or uniform ones as in the theorem.
        learning_rate: Of the scores, which start with root mean square 1.
        batch_size: Examples per step.
        seed: Layer i has random weights from ``seed + i``, coded and paid; the order of examples is free.
        progress: Told the steps done.
    """
    if kind not in KINDS:
        raise UsageError(f"random weights are {', '.join(KINDS)}. Got {kind!r}.")
    if seed < 0:
        raise UsageError(f"a coded seed is not negative. Got {seed}.")
    drafts: list[_Draft] = []
    carried: dict[str, str] = {}
    for position, layer in enumerate(network.layers):
        own_seed = seed + position
        try:
            drafts.append(_draft(layer, density=density, kind=kind, seed=own_seed, device=sample.x.device))
        except UnsupportedLayerError as refusal:
            carried[layer.name] = str(refusal)
    descend(
        network.predictor,
        [draft.scores for draft in drafts],
        lambda: {weight_name(draft.name): draft.weight() for draft in drafts},
        sample,
        epochs=epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        order=torch_stream(seed, "lottery"),
        progress=progress,
    )
    layers = tuple(CompressedLayer(draft.name, _ticket(draft, kind)) for draft in drafts)
    return CompressedNetwork(network, layers, carried)


def _draft(
    layer: AbstractLayerView, *, density: float, kind: Kind, seed: int, device: torch.device
) -> _Draft:
    weight = weight_of(layer).double()
    kept = kept_count(weight.numel(), density)
    norm = float(weight.norm())
    if norm == 0.0:
        raise UnsupportedLayerError(f"layer {layer.name}: all its weights are zero, so no mask resembles it.")
    step = nearest_step(norm / (_RMS[kind] * math.sqrt(kept)))
    everything = Dense(np.ones(weight.shape, dtype=np.int32), step, 1)
    helper = torch.from_numpy(Ticket(everything, kind=KINDS.index(kind), seed=seed).values())
    # keeping random weight h for w adds h^2 - 2 w h to the squared distance
    scores = helper * (2.0 * weight - helper)
    scores = (scores - scores.mean()) / scores.std(correction=0).clamp(min=1e-300)
    return _Draft(
        layer.name,
        helper.float().to(device),
        scores.float().to(device).requires_grad_(),
        kept=kept,
        step=step,
        seed=seed,
    )


def _ticket(draft: _Draft, kind: Kind) -> Ticket:
    mask = draft.mask().cpu().numpy().astype(np.int32)
    inner = best_tensor_code(mask, step=draft.step)
    return Ticket(inner, kind=KINDS.index(kind), seed=draft.seed)


@implements("G-E21", kind="numerics")
def ticket_bits(entries: int, *, kept: int) -> float:
    """Bits of one mask, K-LT: how many random weights are kept, and which.

    Example:
        >>> round(ticket_bits(10**8, kept=900) / 1000, 1)  # 16.4 for the subset, the rest for its size
        16.4
    """
    if not 0 <= kept <= entries:
        raise UsageError(f"{kept} of {entries} weights cannot be kept.")
    return math.log2(entries + 1) + log2_choose(entries, kept)
