"""Networks that were made of the known share of a sample: their scores, or what enters their last layers.

Given the known share, the rest is as independent as before. So whatever was learned from that share, by any
means, is fixed for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from codebound.known.encoder import Encoder, digest
from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.sample.dataset import Dataset

_TRIED = 2  # examples that show what a network returns


class NetworkRows(nn.Module):
    """Rows of one network, or of several side by side, each with a root mean square of 1.

    Args:
        networks: Classifiers, of which what enters the last linear layer is taken; of others their outputs.
        ends: The last linear layer of each, or None where its outputs are taken.
    """

    def __init__(self, networks: list[nn.Module], ends: list[nn.Linear | None]) -> None:
        super().__init__()
        self.networks, self.ends = nn.ModuleList(networks), ends

    @staticmethod
    def of(networks: list[nn.Module], example: Tensor, *, classes: int) -> NetworkRows:
        """The rows of networks, as far as an example shows what they are."""
        return NetworkRows(networks, [_end(network, example, classes) for network in networks])

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        rows = []
        for network, end in zip(self.networks, self.ends, strict=True):
            found = _record_inputs(network, end, x.to(_place(network, x))).flatten(1).double().cpu()
            rows.append(found / found.square().mean(1, keepdim=True).sqrt().clamp(min=1e-30))
        return torch.cat(rows, 1)


class Scores(nn.Module):
    """Scores of one classifier as it gives them, or of several: the mean of their logarithmic probabilities.

    Args:
        networks: The classifiers.
    """

    def __init__(self, networks: list[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        found = [_record_inputs(each, None, x.to(_place(each, x))).double().cpu() for each in self.networks]
        if len(found) == 1:
            return found[0]
        return torch.stack([each.log_softmax(1) for each in found]).mean(0)


def _place(network: nn.Module, x: Tensor) -> torch.device:
    return next((each.device for each in network.parameters()), x.device)


def _record_inputs(network: nn.Module, end: nn.Linear | None, x: Tensor) -> Tensor:
    """Inputs of a layer when a network is run. Without a layer, its outputs."""
    seen: list[Tensor] = []
    if end is None:
        outputs: Tensor = network(x)
        return outputs
    hook = end.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    try:
        network(x)
    finally:
        hook.remove()
    return seen[0]


def _end(network: nn.Module, example: Tensor, classes: int) -> nn.Linear | None:
    """The last linear layer, if its outputs are those of a classifier and something is computed before it."""
    linear = [each for each in network.modules() if isinstance(each, nn.Linear)]
    example = example.to(_place(network, example))
    with torch.no_grad():
        if _width(network, example) != classes or not linear or linear[-1].out_features != classes:
            return None
        entering = _record_inputs(network, linear[-1], example)
    is_hidden = entering.ndim == 2 and entering.shape[1] > 1 and len(linear) + _others(network) > 1
    return linear[-1] if is_hidden else None


@torch.no_grad()
def _width(network: nn.Module, example: Tensor) -> int:
    """Number of outputs of a network for an example."""
    try:
        outputs = network(example.to(_place(network, example)))
    except Exception as error:  # of somebody else's network
        raise UsageError(
            f"the helper failed on {len(example)} examples of shape {tuple(example.shape[1:])} with "
            f"{type(error).__name__}: {error}."
        ) from error
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2 or len(outputs) != len(example):
        raise UsageError("a helper returns a row of numbers for each example of a batch.")
    return outputs.shape[1]


def _others(network: nn.Module) -> int:
    """Layers with weights that are not linear."""
    own = (each for each in network.modules() if not isinstance(each, nn.Linear))
    return sum(any(True for _ in each.parameters(recurse=False)) for each in own)


def joined_scores(networks: list[nn.Module], first: Dataset) -> nn.Module:
    """Scores of one classifier, or of several together.

    Raises:
        UsageError: One of them is no classifier of the sample's classes.
    """
    example = first.scaling.apply(torch.from_numpy(first.x[:_TRIED]))
    if any(_width(each, example) != first.classes for each in networks):
        raise UsageError(
            f"this helper is no classifier of {first.classes} classes. Give the method picks: then it may "
            "return any row of numbers for an example."
        )
    return Scores(networks)


def helper_encoder(networks: list[nn.Module], first: Dataset, *, rows: int, says: str) -> Encoder:
    """Encoder made of the known share.

    Args:
        networks: What was made, whose rows stand side by side. ``origin`` and ``licence`` may be attributes
            of the first: what else went into it.
        first: The examples that it was made of.
        rows: How many units of the sample they are.
        says: How it was made, in words.
    """
    example = first.scaling.apply(torch.from_numpy(first.x[:_TRIED]))
    made = NetworkRows.of(networks, example, classes=first.classes)
    licence = str(getattr(networks[0], "licence", "yours"))
    origin = str(getattr(networks[0], "origin", "nothing else went into it"))
    return Encoder(says, made, digest(says.encode(), made), licence=licence, origin=origin, made_from=rows)
