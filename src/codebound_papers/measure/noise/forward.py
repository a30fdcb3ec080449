"""One forward pass of a network that takes the norms on its way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from codebound.errors import ModelError
from codebound_papers.measure.noise.cushions import norms

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from torch import Tensor, nn

    from codebound.nets.steps import Steps


@dataclass(frozen=True, eq=False)
class Observation:
    """What one forward pass has seen.

    Attributes:
        norms: Norm of the output of each watched step, per example.
        linear_norms: Norm of the output of each watched layer without its bias.
        shapes: Shape of one output of each watched step.
        kept: Outputs that were kept.
    """

    norms: Mapping[fx.Node, Tensor] = field(repr=False)
    linear_norms: Mapping[fx.Node, Tensor] = field(repr=False)
    shapes: Mapping[fx.Node, tuple[int, ...]] = field(repr=False)
    kept: Mapping[fx.Node, Tensor] = field(repr=False)


def observe(
    steps: Steps,
    x: Tensor,
    *,
    watch: Collection[fx.Node] = (),
    biases: Mapping[fx.Node, Tensor] | None = None,
    keep: Collection[fx.Node] = (),
    model: nn.Module | None = None,
) -> Observation:
    """Runs a network once and takes norms as soon as each step is done, before anything works in place.

    Args:
        steps: The network.
        x: A batch of inputs, left alone.
        watch: Steps whose norms are wanted.
        biases: Steps whose norm without bias is wanted, with the bias in a shape that broadcasts.
        keep: Steps whose outputs are wanted, as copies.
        model: Another network of the same graph that is run in place of the predictor.
    """
    watcher = _Watcher(steps, watch, biases or {}, keep, model)
    try:
        with torch.no_grad():
            watcher.run(x.clone())  # a network may work in place on its input
    except Exception as error:
        raise ModelError(
            f"{type(steps.network.model).__name__} fails on inputs of shape {tuple(x.shape)} {x.dtype} on "
            f"{x.device}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        ) from error
    return Observation(watcher.norms, watcher.linear_norms, watcher.shapes, watcher.kept)


class _Watcher(fx.Interpreter):
    def __init__(
        self,
        steps: Steps,
        watch: Collection[fx.Node],
        biases: Mapping[fx.Node, Tensor],
        keep: Collection[fx.Node],
        model: nn.Module | None,
    ) -> None:
        super().__init__(model or steps.network.predictor, graph=steps.network.graph)
        self._watch, self._biases, self._keep = frozenset(watch), biases, frozenset(keep)
        self.norms: dict[fx.Node, Tensor] = {}
        self.linear_norms: dict[fx.Node, Tensor] = {}
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}
        self.kept: dict[fx.Node, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n in self._watch:
            self.norms[n] = norms(result)
            self.shapes[n] = tuple(result.shape[1:])
        if n in self._biases:
            self.linear_norms[n] = norms(result - self._biases[n])
        if n in self._keep:
            self.kept[n] = result.clone()
        return result
