"""Encoders that were made of the first part of a sample: the rows of the rest are a sample they never saw.

Given the first part, the rest is as independent as before. So whatever was learned from the first part, by
any means, is fixed for the rest, and its table is certified like that of any encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from codebound.known.encoder import Encoder, digest
from codebound.known.provenance import declare_share, origin_of_parts
from codebound.run.errors import UsageError
from codebound.sample.dataset import seen_rows

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.sample.dataset import Dataset

KERNEL = "codebound.methods.kernel_share:kernel_helper"
KERNELS = (KERNEL, "codebound.search.helpers:kernel_helper")  # files from before the rooms name the second
"""The helper that ``certify`` makes by itself."""
_MOST_WORDS = {"name": 50, "licence": 20, "origin": 50}  # characters: a declaration has 400 in all
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


def helper_encoder(made: object, first: Dataset, *, n: int, says: str, has_scores: bool = False) -> Encoder:
    """Encoder made of the first examples, for the others.

    Args:
        made: A network, or several whose rows stand side by side. ``origin`` and ``licence`` may be
            attributes of the first: what else went into it.
        first: The examples that it was made of.
        n: Examples of the whole sample.
        says: How it was made, in words.
        has_scores: Whether a row is its scores of the classes, in place of what enters its last layer.

    Raises:
        UsageError: It is no network, or has no scores of the classes.
    """
    networks: list[nn.Module] = []
    for each in made if isinstance(made, list | tuple) else [made]:
        if not isinstance(each, nn.Module):
            raise UsageError(f"a helper is a torch module. Got {type(each).__name__}.")
        networks.append(each.eval())
    if not networks:
        raise UsageError("a helper is a torch module, or several of them. Got none.")
    example = first.scaling.apply(torch.from_numpy(first.x[:_TRIED]))
    if has_scores and any(_width(each, example) != first.classes for each in networks):
        raise UsageError(
            f"this helper is no classifier of {first.classes} classes. Give the method picks: then it may "
            "return any row of numbers for an example."
        )
    rows = Scores(networks) if has_scores else NetworkRows.of(networks, example, classes=first.classes)
    licence = str(getattr(networks[0], "licence", "yours"))
    origin = str(getattr(networks[0], "origin", "nothing else went into it"))
    return Encoder(
        says[: _MOST_WORDS["name"]],
        rows,
        digest(says.encode(), rows),
        licence=licence[: _MOST_WORDS["licence"]],
        origin=origin[: _MOST_WORDS["origin"]],
        made_of=declare_share(first.n, n),
        seen=np.union1d(seen_rows(first), origin_of_parts(rows).rows),
        has_scores=has_scores,
    )
