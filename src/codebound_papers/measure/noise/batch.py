"""One batch: a forward pass that takes norms on its way, and the quantities of noise stability from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from codebound.errors import ModelError
from codebound.nets.layers import LinearView
from codebound.rng import numpy_stream, stream_seed
from codebound_papers.measure.augmented import augmented_matrix
from codebound_papers.measure.noise.cushions import (
    activation_contraction,
    interlayer_cushion,
    jacobian_spread,
    layer_cushion,
    map_frobenius_norm,
    norms,
)
from codebound_papers.measure.noise.jacobian import column_squares
from codebound_papers.measure.noise.result import Key, Site
from codebound_papers.measure.noise.smoothness import gaussian_noise, smoothness_ratios
from codebound_papers.measure.norms import frobenius_norm

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from torch import Tensor, nn

    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.steps import Steps
    from codebound_papers.measure.noise.jacobian import AbstractDerivative
    from codebound_papers.measure.noise.layout import Layout, Place
    from codebound_papers.measure.noise.smoothness import Smoothness


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


def site_of(
    place: Place, layout: Layout, seen: Observation, initial: Mapping[str, AbstractLayerView] | None
) -> Site:
    """What is known about a place apart from its values, once a batch has shown its shapes."""
    shape, constant = seen.shapes[place.node], layout.constant(place)
    width = shape[_channel_axis(place)]
    positions = math.prod(shape) // width
    own = math.sqrt(positions / (math.prod(shape) + constant))
    if place.view is None or place.input is None:
        return Site(place.name, width, positions, self_cushion=own)
    view, matrix = place.view, place.view.matrix
    of_map = map_frobenius_norm(view, seen.shapes[place.input])
    if layout.augments:
        matrix = augmented_matrix(view, last=constant == 0.0)
        bias_norm = 0.0 if view.bias is None else float(view.bias.double().norm())
        of_map = math.hypot(of_map, math.sqrt(positions) * bias_norm, constant)
    distance = None
    if initial is not None:
        first = initial[view.name]
        before = augmented_matrix(first, last=constant == 0.0) if layout.augments else first.matrix
        distance = frobenius_norm(matrix.double() - before.to(matrix.device).double())
    return Site(
        name=place.name,
        width=width,
        positions=positions,
        self_cushion=own,
        frobenius=frobenius_norm(matrix),
        map_frobenius=of_map,
        distance=distance,
    )


def layer_values(layout: Layout, sites: Sequence[Site], seen: Observation) -> dict[Key, Tensor]:
    """Layer cushions and activation contractions."""
    values = {}
    for site, place in zip(sites, layout.reported, strict=True):
        size = _norm(layout, place, seen)
        if place.input is not None and site.frobenius is not None:
            values[Key("cushion", site.name)] = layer_cushion(
                _with_constant(seen.norms[place.input], layout.hidden_constant),
                seen.linear_norms.get(place.node, size),
                frobenius=site.frobenius,
            )
        if place.images:
            after = torch.stack([seen.norms[node] for node in place.images]).amin(dim=0)
            values[Key("contraction", site.name)] = activation_contraction(
                size, _with_constant(after, layout.hidden_constant)
            )
    return values


def interlayer_values(
    layout: Layout,
    points: Sequence[Tensor],
    derivatives: Sequence[AbstractDerivative],
    seen: Observation,
    *,
    targets: Mapping[int, Sequence[int]],
    probes: int | None,
    pixels: int | None,
    seed: int,
) -> dict[Key, Tensor]:
    """Interlayer cushions, and spreads of the Jacobians of layers with pixels.

    ``targets`` has the numbers of the points to measure from, and for each of them those to measure to.
    """
    pairs = [(i, j) for i, wanted in targets.items() for j in wanted]
    squares = column_squares(derivatives, pairs, probes=probes, seed=seed) if pairs else {}
    values = {}
    for i, wanted in targets.items():
        source, image = layout.points[i], points[i].unsqueeze(0)
        is_straight = True  # J x^i = x^j so far
        for j in range(i + 1, max(wanted, default=i) + 1):
            is_straight = is_straight and layout.links[j - 1].is_homogeneous
            image = points[j].unsqueeze(0) if is_straight else derivatives[j - 1].push(image)
            if j not in wanted:
                continue
            target = layout.points[j]
            by_pixel = squares[i, j].sum(dim=_channel_axis(source, batched=True)).view(len(points[i]), -1)
            total, positions = by_pixel.sum(dim=1), by_pixel.shape[1]
            image_norm = norms(image[0])
            if positions > 1:
                picked = by_pixel if pixels is None else by_pixel[:, _sample(positions, pixels, seed, source)]
                values[Key("spread", source.name, target.name)] = jacobian_spread(picked, total / positions)
            if layout.augments:
                # the constant is one more column, x^j - J x^i, and in hidden layers one more row
                total = total + norms(points[j] - image[0]) ** 2 + layout.constant(target)
                image_norm = _norm(layout, target, seen)
            values[Key("interlayer", source.name, target.name)] = interlayer_cushion(
                _norm(layout, source, seen), image_norm, jacobian_norm=total.sqrt(), positions=positions
            )
    return values


def smoothness_values(
    layout: Layout,
    x: Tensor,
    points: Sequence[Tensor],
    derivatives: Sequence[AbstractDerivative],
    seen: Observation,
    *,
    settings: Smoothness,
    noisy: Sequence[nn.Module],
) -> dict[Key, Tensor]:
    """Smoothness of the maps that start at each reported point, with one column per noise draw.

    ``noisy`` has the perturbed network of each draw where the noise is a compressor's.
    """
    sources = [i for i, place in enumerate(layout.points[:-1]) if place in layout.reported]
    sizes = [_norm(layout, place, seen) for place in layout.points]
    functions = [link.function for link in layout.links]
    nodes = [place.node for place in layout.points]
    draws: dict[int, list[Tensor]] = {i: [] for i in sources}
    for draw in range(settings.draws):
        moved = observe(layout.steps, x, keep=nodes, model=noisy[draw]).kept if noisy else {}
        for i in sources:
            if callable(settings.noise):
                noises = [moved[nodes[i]] - points[i]]  # layer i itself is replaced too
                if i > 0:
                    noises.append(functions[i - 1](moved[nodes[i - 1]]) - points[i])
            else:
                seed = stream_seed(settings.seed, f"noise/{draw}/{layout.points[i].name}")
                noises = [gaussian_noise(points[i], settings.noise, seed=seed)]
            draws[i].append(
                smoothness_ratios(
                    points[i:], functions[i:], derivatives[i:], torch.stack(noises), point_norms=sizes[i:]
                )
            )
    return {Key("smoothness", layout.points[i].name): torch.stack(found, 1) for i, found in draws.items()}


def _norm(layout: Layout, place: Place, seen: Observation) -> Tensor:
    return _with_constant(seen.norms[place.node], layout.constant(place))


def _with_constant(norm: Tensor, constant: float) -> Tensor:
    """The norm of ``[x; constant]``."""
    return torch.hypot(norm, torch.full_like(norm, constant)) if constant else norm


def _channel_axis(place: Place, *, batched: bool = False) -> int:
    """Linear layers act on the last axis; images have their channels first."""
    return -1 if isinstance(place.view, LinearView) else int(batched)


def _sample(positions: int, pixels: int, seed: int, place: Place) -> list[int]:
    """The pixels that are looked at: the same in every batch."""
    chosen = numpy_stream(seed, f"pixels/{place.name}").permutation(positions)[:pixels]
    return [int(pixel) for pixel in sorted(chosen)]
