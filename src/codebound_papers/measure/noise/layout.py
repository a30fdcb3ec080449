"""Where noise stability is measured in a network: its activations, and the maps from each to the next."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from codebound.errors import UsageError
from codebound.nets.kinds import SHAPE
from codebound.nets.layers import LinearView
from codebound_papers.measure.noise.jacobian import AbstractDerivative, LayerDerivative, SegmentDerivative

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor, fx

    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.steps import Steps

_ELEMENTWISE = ("activation", "dropout", "identity", "flatten")


@dataclass(frozen=True, eq=False)
class Place:
    """An activation ``x^i`` before its nonlinearity: the output of a layer or of a residual sum.

    Attributes:
        name: Name of the layer or sum; a layer that is called again gets the number of the call.
        node: The step that computes it.
        view: The layer, or None for a sum.
        input: The step whose output the layer is applied to.
        images: Steps whose outputs are ``phi(x^i)``: inputs of the layers that follow.
        cut: Position among the cuts of the network, or None where another branch runs beside it.
    """

    name: str
    node: fx.Node = field(repr=False)
    view: AbstractLayerView | None = field(repr=False)
    input: fx.Node | None = field(repr=False)
    images: tuple[fx.Node, ...] = field(repr=False)
    cut: int | None


def _places_of(steps: Steps) -> tuple[Place, ...]:
    """All activations before nonlinearities in forward order; the last one is the network's output."""
    output = steps.cuts[-1]
    found = [
        index
        for index, step in enumerate(steps.sequence[: output + 1])
        if step.view is not None or index == output or (step.kind.name == "add" and len(step.inputs) > 1)
    ]
    inputs = {index: steps.sequence[index].inputs[0] for index in found if steps.sequence[index].view}
    images = defaultdict(list)
    for used in dict.fromkeys(inputs.values()):
        source = used
        while source not in found and len(_tensors(steps, source)) == 1:
            (source,) = _tensors(steps, source)
        if source in found:
            images[source].append(used)
    calls = Counter(steps.sequence[index].name for index in found)
    seen: Counter[str] = Counter()
    places = []
    for index in found:
        step = steps.sequence[index]
        seen[step.name] += 1
        places.append(
            Place(
                name=step.name if calls[step.name] == 1 else f"{step.name} (call {seen[step.name]})",
                node=steps.nodes[index],
                view=step.view,
                input=steps.nodes[inputs[index]] if index in inputs else None,
                images=tuple(steps.nodes[used] for used in images[index]),
                cut=steps.cuts.index(index) if index in steps.cuts else None,
            )
        )
    return tuple(places)


def _tensors(steps: Steps, index: int) -> list[int]:
    """The steps whose outputs a step uses as tensors, sizes left out."""
    return [used for used in steps.sequence[index].inputs if steps.sequence[used].kind != SHAPE]


def _is_homogeneous(steps: Steps, index: int) -> bool:
    """Whether a step, not a layer with its bias, satisfies ``f(t x) = t f(x)`` for ``t >= 0``."""
    step = steps.sequence[index]
    if step.kind == SHAPE:
        return True
    # a sum with a constant tensor has only one step as its input
    return step.kind.homogeneous and (step.kind.name != "add" or len(step.inputs) > 1)


@dataclass(frozen=True, eq=False)
class Link:
    """The map from one place to the next that is a cut.

    Attributes:
        function: The map, on batches.
        is_homogeneous: Whether ``M(x) = J x`` at every x.
        elementwise: What comes before the layer where the map is ``x -> A phi(x) + b`` with an elementwise
            ``phi``; None elsewhere.
        matrix: ``A``, in that case.
    """

    function: Callable[[Tensor], Tensor] = field(repr=False)
    is_homogeneous: bool
    elementwise: Callable[[Tensor], Tensor] | None = field(repr=False)
    matrix: Tensor | None = field(repr=False)

    def at(self, x: Tensor, out_shape: tuple[int, ...]) -> AbstractDerivative:
        """The derivative at a batch of activations."""
        if self.elementwise is not None and self.matrix is not None and x.dim() == 2:
            value, pullback = torch.func.vjp(self.elementwise, x)[:2]
            if value.shape == x.shape:
                return LayerDerivative(self.matrix, pullback(torch.ones_like(x))[0])
        return SegmentDerivative(self.function, x, out_shape)


def _link(steps: Steps, start: int, stop: int) -> Link:
    """The map from cut ``start`` to cut ``stop``, where a layer or a sum is."""
    between = range(steps.cuts[start] + 1, steps.cuts[stop] + 1)
    last = steps.sequence[steps.cuts[stop]]
    is_layer = isinstance(last.view, LinearView) and last.inputs == (steps.cuts[stop - 1],)
    simple = is_layer and all(
        steps.sequence[index].kind.name in _ELEMENTWISE
        for index in between[:-1]
        if steps.sequence[index].kind != SHAPE
    )
    return Link(
        function=steps.segment(start, stop),
        is_homogeneous=all(_is_homogeneous(steps, index) for index in between),
        elementwise=steps.segment(start, stop - 1) if simple else None,
        matrix=last.view.matrix if simple and last.view is not None else None,
    )


@dataclass(frozen=True, eq=False)
class Layout:
    """The places of a network.

    Attributes:
        steps: The network's steps.
        reported: The places that are reported, in forward order.
        points: All places that are cuts, reported or not; the last one is the output.
        links: The maps from each point to the next.
        augments: Whether every activation but the output carries a constant coordinate 1, so that biases
            are part of the matrices (A-E20).
    """

    steps: Steps = field(repr=False)
    reported: tuple[Place, ...]
    points: tuple[Place, ...]
    links: tuple[Link, ...]
    augments: bool

    def constant(self, place: Place) -> float:
        """The constant coordinate that an activation carries, 0 for none."""
        return 1.0 if self.augments and place is not self.points[-1] else 0.0

    @property
    def hidden_constant(self) -> float:
        """The constant coordinate of whatever a layer is applied to."""
        return 1.0 if self.augments else 0.0


def layout_of(steps: Steps, *, layers: Sequence[str] | None, augments: bool) -> Layout:
    """The layout of a network.

    Args:
        steps: Its steps.
        layers: Names of the places to report; all when None.
        augments: Whether biases are to be part of the matrices, where the network has any.

    Example:
        >>> from torch import nn
        >>> from codebound.nets.steps import steps_of
        >>> from codebound.nets.walk import wrap
        >>> steps = steps_of(wrap(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))))
        >>> [place.name for place in layout_of(steps, layers=None, augments=True).points]
        ['0', '2']
    """
    places = _places_of(steps)
    names = [place.name for place in places]
    for name in layers or ():
        if name not in names:
            raise UsageError(f"no layer {name!r}. Layers and sums of branches: {', '.join(names)}.")
    augments = augments and any(view.bias is not None for view in steps.network.layers)
    if augments:
        _require_homogeneous(steps)
    cuts = [place.cut for place in places if place.cut is not None]
    return Layout(
        steps=steps,
        reported=tuple(place for place in places if layers is None or place.name in layers),
        points=tuple(place for place in places if place.cut is not None),
        links=tuple(_link(steps, start, stop) for start, stop in pairwise(cuts)),
        augments=augments,
    )


def _require_homogeneous(steps: Steps) -> None:
    wrong = [
        step.name
        for index, step in enumerate(steps.sequence)
        if step.view is None and not _is_homogeneous(steps, index)
    ]
    if wrong:
        raise UsageError(
            f"biases cannot be part of the matrices: {', '.join(wrong)} is not homogeneous, f(t x) = t f(x), "
            'as ReLU, max pooling and sums are. Use biases="separate", for which the theory claims less.'
        )
