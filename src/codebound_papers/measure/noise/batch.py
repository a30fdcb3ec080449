"""Places of noise stability in a network, and its quantities for one batch."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, fx, nn

from codebound.run.errors import ModelError, UsageError
from codebound_networks.train.rng import numpy_stream, stream_seed
from codebound_networks.views.kinds import SHAPE
from codebound_networks.views.layers import AbstractLayerView, LinearView
from codebound_papers.measure.noise import jacobian, quantities
from codebound_papers.measure.noise.result import Key, Site
from codebound_papers.measure.norms import frobenius_norm
from codebound_papers.measure.steps import Step, Steps

_ELEMENTWISE = ("activation", "dropout", "identity", "flatten")


@dataclass(frozen=True, eq=False)
class Place:
    """An activation ``x^i`` before its nonlinearity: the output of a layer or of a residual sum."""

    name: str  # name of the layer or sum; a layer that is called again gets the number of the call
    node: fx.Node = field(repr=False)  # the step that computes it
    view: AbstractLayerView | None = field(repr=False)  # the layer, or None for a sum
    input: fx.Node | None = field(repr=False)  # the step whose output the layer is applied to
    # steps whose outputs are phi(x^i): inputs of the layers that follow
    images: tuple[fx.Node, ...] = field(repr=False)
    cut: int | None  # position among the cuts of the network, or None where another branch runs beside it


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


def _is_homogeneous(step: Step) -> bool:
    """Return True if a step, not a layer with its bias, satisfies ``f(t x) = t f(x)`` for ``t >= 0``."""
    # a sum with a constant tensor has only one step as its input
    is_plain = step.kind.name != "add" or len(step.inputs) > 1
    return step.kind == SHAPE or (step.kind.homogeneous and is_plain)


@dataclass(frozen=True, eq=False)
class Link:
    """The map from one place to the next that is a cut."""

    function: Callable[[Tensor], Tensor] = field(repr=False)  # the map, on batches
    is_homogeneous: bool  # whether M(x) = J x at every x
    # what comes before the layer where the map is x -> A phi(x) + b with an elementwise phi; None elsewhere
    elementwise: Callable[[Tensor], Tensor] | None = field(repr=False)
    matrix: Tensor | None = field(repr=False)  # A, in that case

    def at(self, x: Tensor, out_shape: tuple[int, ...]) -> jacobian.AbstractDerivative:
        """The derivative at a batch of activations."""
        if self.elementwise is not None and self.matrix is not None and x.dim() == 2:
            with torch.enable_grad():  # torch.func would import the compiler of PyTorch, which takes a second
                given = x.detach().requires_grad_()
                value = self.elementwise(given)
            if value.shape == x.shape:
                slopes = torch.zeros_like(x)  # of what does not depend on x
                if value.requires_grad:
                    (slopes,) = torch.autograd.grad(value, given, torch.ones_like(x), materialize_grads=True)
                return jacobian.LayerDerivative(self.matrix, slopes)
        return jacobian.SegmentDerivative(self.function, x, out_shape)


def _link(steps: Steps, start: int, stop: int) -> Link:
    """The map from cut ``start`` to cut ``stop``, where a layer or a sum is."""
    between = range(steps.cuts[start] + 1, steps.cuts[stop] + 1)
    last = steps.sequence[steps.cuts[stop]]
    is_layer = isinstance(last.view, LinearView) and last.inputs == (steps.cuts[stop - 1],)
    kinds = (steps.sequence[index].kind for index in between[:-1])
    simple = is_layer and all(kind.name in _ELEMENTWISE for kind in kinds if kind != SHAPE)
    return Link(
        function=steps.segment(start, stop),
        is_homogeneous=all(_is_homogeneous(steps.sequence[index]) for index in between),
        elementwise=steps.segment(start, stop - 1) if simple else None,
        matrix=last.view.matrix if simple and last.view is not None else None,
    )


@dataclass(frozen=True, eq=False)
class Layout:
    """The places of a network."""

    steps: Steps = field(repr=False)  # the network's steps
    reported: tuple[Place, ...]  # the places that are reported, in forward order
    points: tuple[Place, ...]  # all places that are cuts, reported or not; the last one is the output
    links: tuple[Link, ...]  # the maps from each point to the next
    # whether all activations but the output carry a constant 1, so that biases are in matrices (A-E20)
    augments: bool

    def constant(self, place: Place) -> float:
        """The constant coordinate that an activation carries, 0 for none."""
        return 1.0 if self.augments and place is not self.points[-1] else 0.0

    @property
    def hidden_constant(self) -> float:
        """The constant coordinate of whatever a layer is applied to."""
        return 1.0 if self.augments else 0.0


def layout_of(steps: Steps, *, layers: Sequence[str] | None, augments: bool) -> Layout:
    """The layout of a network: places to report by name, or all; biases part of the matrices or not.

    >>> from codebound_papers.measure.steps import steps_of
    >>> from codebound_networks.reading.walk import wrap
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
    wrong = [step.name for step in steps.sequence if step.view is None and not _is_homogeneous(step)]
    if augments and wrong:
        raise UsageError(
            f"biases cannot be part of the matrices: {', '.join(wrong)} is not known to be homogeneous, "
            'f(t x) = t f(x), as ReLU, pooling and sums are. Use biases="separate", for which the theory '
            "claims less."
        )
    cuts = [place.cut for place in places if place.cut is not None]
    return Layout(
        steps=steps,
        reported=tuple(place for place in places if layers is None or place.name in layers),
        points=tuple(place for place in places if place.cut is not None),
        links=tuple(_link(steps, start, stop) for start, stop in pairwise(cuts)),
        augments=augments,
    )


class Observation(fx.Interpreter):
    """One forward pass, of the predictor or of another network with its graph, and what it has seen."""

    def __init__(
        self,
        steps: Steps,
        *,
        watch: Collection[fx.Node] = (),
        biases: Mapping[fx.Node, Tensor] | None = None,
        keep: Collection[fx.Node] = (),
        model: nn.Module | None = None,
    ) -> None:
        super().__init__(model or steps.network.predictor, graph=steps.network.graph)
        self._watch, self._biases, self._keep = frozenset(watch), biases or {}, frozenset(keep)
        self.norms: dict[fx.Node, Tensor] = {}  # of the output of each watched step, per example
        self.linear_norms: dict[fx.Node, Tensor] = {}  # of the output of each watched layer without its bias
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}  # of one output of each watched step
        self.kept: dict[fx.Node, Tensor] = {}  # outputs that were kept

    def of(self, x: Tensor) -> "Observation":
        """Runs a batch, which is left alone, and takes norms before a later step can work in place."""
        try:
            with torch.no_grad():
                self.run(x.clone())
        except Exception as error:
            raise ModelError(
                f"{type(self.module).__name__} fails on inputs of shape {tuple(x.shape)} {x.dtype} on "
                f"{x.device}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            ) from error
        return self

    def run_node(self, n: fx.Node) -> Any:
        """Runs a step; takes what is wanted of its output."""
        result = super().run_node(n)
        if n in self._watch:
            self.norms[n] = quantities.norms(result)
            self.shapes[n] = tuple(result.shape[1:])
        if n in self._biases:
            self.linear_norms[n] = quantities.norms(result - self._biases[n])
        if n in self._keep:
            self.kept[n] = result.clone()
        return result


def site_of(
    place: Place, layout: Layout, seen: Observation, initial: Mapping[str, AbstractLayerView] | None
) -> Site:
    """Return the facts of a place apart from its values. A batch has to have shown its shapes."""
    shape, constant = seen.shapes[place.node], layout.constant(place)
    width = shape[_channel_axis(place)]
    positions = math.prod(shape) // width
    own = math.sqrt(positions / (math.prod(shape) + constant))
    if place.view is None or place.input is None:
        return Site(place.name, width, positions, self_cushion=own)
    view, matrix = place.view, place.view.matrix
    of_map = quantities.map_frobenius_norm(view, seen.shapes[place.input])
    if layout.augments:
        matrix = quantities.augmented_matrix(view, last=constant == 0.0)
        bias_norm = 0.0 if view.bias is None else float(view.bias.double().norm())
        of_map = math.hypot(of_map, math.sqrt(positions) * bias_norm, constant)
    distance = None
    if initial is not None:
        first = initial[view.name]
        before = quantities.augmented_matrix(first, last=constant == 0.0) if layout.augments else first.matrix
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
            values[Key("cushion", site.name)] = quantities.layer_cushion(
                _with_constant(seen.norms[place.input], layout.hidden_constant),
                seen.linear_norms.get(place.node, size),
                frobenius=site.frobenius,
            )
        if place.images:
            after = torch.stack([seen.norms[node] for node in place.images]).amin(dim=0)
            values[Key("contraction", site.name)] = quantities.activation_contraction(
                size, _with_constant(after, layout.hidden_constant)
            )
    return values


def interlayer_values(
    layout: Layout,
    points: Sequence[Tensor],
    derivatives: Sequence[jacobian.AbstractDerivative],
    seen: Observation,
    *,
    targets: Mapping[int, Sequence[int]],
    settings: quantities.StabilitySettings,
) -> dict[Key, Tensor]:
    """Interlayer cushions, and spreads of the Jacobians of layers with pixels.

    ``targets`` has the numbers of the points to measure from, and for each of them those to measure to.
    """
    pairs = [(i, j) for i, wanted in targets.items() for j in wanted]
    probes, seed = settings.probes, settings.seed
    squares = jacobian.column_squares(derivatives, pairs, probes=probes, seed=seed) if pairs else {}
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
            image_norm = quantities.norms(image[0])
            if positions > 1:
                stream = numpy_stream(settings.seed, f"pixels/{source.name}")  # the same in every batch
                picked = sorted(stream.permutation(positions)[: settings.pixels].tolist())
                values[Key("spread", source.name, target.name)] = quantities.jacobian_spread(
                    by_pixel[:, picked], total / positions
                )
            if layout.augments:
                # the constant is one more column, x^j - J x^i, and in hidden layers one more row
                total = total + quantities.norms(points[j] - image[0]) ** 2 + layout.constant(target)
                image_norm = _norm(layout, target, seen)
            values[Key("interlayer", source.name, target.name)] = quantities.interlayer_cushion(
                _norm(layout, source, seen), image_norm, jacobian_norm=total.sqrt(), positions=positions
            )
    return values


def smoothness_values(
    layout: Layout,
    x: Tensor,
    points: Sequence[Tensor],
    derivatives: Sequence[jacobian.AbstractDerivative],
    seen: Observation,
    *,
    settings: quantities.Smoothness,
    noisy: Sequence[nn.Module],
) -> dict[Key, Tensor]:
    """Smoothness of the maps that start at each reported point, and the relative length of the noise there.

    There is a column per draw; ``noisy`` has the network of each where a compressor makes the noise.
    """
    sources = [i for i, place in enumerate(layout.points[:-1]) if place in layout.reported]
    sizes = [_norm(layout, place, seen) for place in layout.points]
    functions = [link.function for link in layout.links]
    nodes = [place.node for place in layout.points]
    draws: dict[int, list[Tensor]] = {i: [] for i in sources}
    lengths: dict[int, list[Tensor]] = {i: [] for i in sources}
    for draw in range(settings.draws):
        moved = Observation(layout.steps, keep=nodes, model=noisy[draw]).of(x).kept if noisy else {}
        for i in sources:
            if callable(settings.noise):
                noises = [moved[nodes[i]] - points[i]]  # layer i itself is replaced too
                if i > 0:
                    noises.append(functions[i - 1](moved[nodes[i - 1]]) - points[i])
            else:
                seed = stream_seed(settings.seed, f"noise/{draw}/{layout.points[i].name}")
                noises = [quantities.gaussian_noise(points[i], settings.noise, seed=seed)]
            lengths[i].append(quantities.norms(noises[0]) / sizes[i])
            draws[i].append(
                quantities.smoothness_ratios(
                    points[i:], functions[i:], derivatives[i:], torch.stack(noises), point_norms=sizes[i:]
                )
            )
    return {
        Key(quantity, layout.points[i].name): torch.stack(columns, 1)
        for quantity, found in (("smoothness", draws), ("noise", lengths))
        for i, columns in found.items()
    }


def _norm(layout: Layout, place: Place, seen: Observation) -> Tensor:
    return _with_constant(seen.norms[place.node], layout.constant(place))


def _with_constant(norm: Tensor, constant: float) -> Tensor:
    """The norm of ``[x; constant]``."""
    return torch.hypot(norm, torch.full_like(norm, constant)) if constant else norm


def _channel_axis(place: Place, *, batched: bool = False) -> int:
    """Linear layers act on the last axis; images have their channels first."""
    return -1 if isinstance(place.view, LinearView) else int(batched)
