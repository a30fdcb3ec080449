"""Noise stability of a network on a sample: cushions, contraction, spread of Jacobians, smoothness.

Batch norms are folded first, and all work is done on a copy. A layer that runs beside another branch has a
cushion but no interlayer cushion; the sums at the end of residual blocks take its place.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, fx, nn

from codebound.run.errors import DataError, ModelError, UsageError
from codebound.run.job import Engine, over_shards
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.dataset import DeviceData, Sample
from codebound_networks.reading.walk import Network, wrap
from codebound_networks.train.rng import stream_seed
from codebound_networks.views.fold import fold_batch_norms, has_batch_norms
from codebound_networks.views.graphs import Traced
from codebound_networks.views.layers import AbstractLayerView, LinearView
from codebound_papers.measure.noise import batch
from codebound_papers.measure.noise.jacobian import is_probed
from codebound_papers.measure.noise.quantities import StabilitySettings, perturb
from codebound_papers.measure.noise.result import Examples, Site, Stability
from codebound_papers.measure.steps import steps_of

_HALF = (torch.float16, torch.bfloat16)

Data = Sample | DeviceData | Tensor | Iterable[Tensor | Sequence[Tensor]]


class Part(NamedTuple):
    """Result of a meter on the examples it has seen. See ``Stability``, and the values of every example."""

    sites: tuple[Site, ...]
    probed: frozenset[tuple[str, str]]
    examples: Examples


class StabilityMeter:
    """Measures noise stability batch by batch.

    The network is never changed; ``initial`` is the one before training, for cushions relative to the
    distance from it (A-Imp-i). All is computed on the device, by default where the network is.

    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    >>> with torch.no_grad(): _ = [weight.fill_(1.0) for weight in net.parameters()]
    >>> meter = StabilityMeter(net)
    >>> meter.update(torch.tensor([[1.0, 0.0]]))
    >>> meter.update(torch.tensor([[1.0, -0.5]]))
    >>> [round(row.cushion, 4) for row in meter.compute().layers]
    [0.3162, 1.0]
    """

    def __init__(
        self,
        net: Network | nn.Module,
        settings: StabilitySettings | None = None,
        *,
        initial: Network | nn.Module | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.settings = settings or StabilitySettings()
        network = _prepare(net, device)
        self.device, self.dtype = network.layers[0].weight.device, network.layers[0].weight.dtype
        self._layout = batch.layout_of(
            steps_of(network), layers=self.settings.layers, augments=self.settings.biases == "augmented"
        )
        self._initial = None if initial is None else _views(_prepare(initial, device), like=network)
        noise = self.settings.smoothness
        self._noisy: list[nn.Module] = []
        if noise is not None and callable(noise.noise):
            seeds = [stream_seed(noise.seed, f"noise/{draw}") for draw in range(noise.draws)]
            self._noisy = [perturb(network, noise.noise, seed=seed) for seed in seeds]
        self._sites: tuple[Site, ...] = ()
        self._probed: frozenset[tuple[str, str]] = frozenset()
        self._shapes: dict[fx.Node, tuple[int, ...]] = {}
        self._examples = Examples()

    @property
    def network(self) -> Network:
        """Network that is measured, without batch norms, on the device."""
        return self._layout.steps.network

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Measures a batch of inputs of shape ``(examples, ...)``."""
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() < 2 or len(x) == 0:
            found = f"{tuple(x.shape)} {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
            raise UsageError(f"a batch is a floating-point tensor of shape (examples, ...). Got {found}.")
        settings, layout = self.settings, self._layout
        x = x.to(self.device, self.dtype)
        has_points = settings.interlayer != "none" or settings.smoothness is not None
        kept = [place.node for place in layout.points] if has_points else []
        nodes = ((place.node, place.input, *place.images) for place in layout.reported)
        watch = [node for each in nodes for node in each if node]
        seen = batch.Observation(layout.steps, watch=[*watch, *kept], biases=self._biases(), keep=kept).of(x)
        if not self._sites:
            sites = (batch.site_of(place, layout, seen, self._initial) for place in layout.reported)
            self._sites = tuple(sites)
            self._shapes = dict(seen.shapes)
            self._probed = self._probed_pairs() if settings.interlayer != "none" else frozenset()
        elif self._shapes and seen.shapes != self._shapes:
            raise UsageError(
                f"inputs of shape {tuple(x.shape[1:])} give activations of other shapes than the batches "
                "before. Measure inputs of one size at a time."
            )
        values = batch.layer_values(layout, self._sites, seen)
        if kept:
            points = [seen.kept[node] for node in kept]
            derivatives = [
                link.at(start, tuple(stop.shape[1:]))
                for link, (start, stop) in zip(layout.links, pairwise(points), strict=True)
            ]
            values |= batch.interlayer_values(
                layout, points, derivatives, seen, targets=self._targets(), settings=settings
            )
            if settings.smoothness is not None:
                values |= batch.smoothness_values(
                    layout, x, points, derivatives, seen, settings=settings.smoothness, noisy=self._noisy
                )
        self._examples.update(values)

    @property
    def part(self) -> Part:
        """Return the result so far. It can be sent to another process."""
        return Part(self._sites, self._probed, self._examples)

    def include(self, part: Part) -> None:
        """Appends what another meter, of the same network and settings, has measured."""
        self._examples.merge(part.examples)
        self._sites, self._probed = self._sites or part.sites, self._probed or part.probed

    def compute(self) -> Stability:
        """The result for all examples so far."""
        if self._examples.n == 0:
            raise DataError("noise stability needs at least one example. Got none.")
        return Stability(
            sites=self._sites,
            columns=self._examples.compute(),
            outliers=self.settings.outliers,
            delta=0.0 if self.settings.smoothness is None else self.settings.smoothness.delta,
            probes=self.settings.probes if self._probed else None,
            probed=self._probed,
        )

    def _biases(self) -> dict[fx.Node, Tensor]:
        """Biases that the published cushions leave out, in shapes that broadcast over a batch."""
        if self._layout.augments:
            return {}
        return {
            place.node: bias
            if isinstance(view, LinearView)
            else bias.view(-1, *[1] * (view.weight.dim() - 2))
            for place in self._layout.reported
            if (view := place.view) is not None and (bias := view.bias) is not None
        }

    def _targets(self) -> dict[int, list[int]]:
        points, wanted = self._layout.points, self.settings.interlayer
        if wanted == "none":
            return {}
        last = len(points) - 1
        sources = [i for i, place in enumerate(points[:-1]) if place in self._layout.reported]
        return {i: list(range(i + 1 if wanted == "all" else last, last + 1)) for i in sources}

    def _probed_pairs(self) -> frozenset[tuple[str, str]]:
        points = self._layout.points
        sizes = [math.prod(self._shapes[place.node]) for place in points]
        return frozenset(
            (points[i].name, points[j].name)
            for i, targets in self._targets().items()
            for j in targets
            if is_probed(sizes[j], sizes[i], self.settings.probes)
        )


@implements("A-CondB.1", "I-21", "I-25", kind="measure")
def stability(
    net: Network | nn.Module,
    data: Data,
    settings: StabilitySettings | None = None,
    *,
    noisy: Data | None = None,
    initial: Network | nn.Module | None = None,
    chunk_size: int = 256,
    device: torch.device | str | None = None,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Stability:
    """The noise stability of a network on a sample: all quantities of A-CondB.1, layer by layer.

    Network, ``initial`` and device are those of the meter. The data are a dataset, inputs as one tensor, or
    batches of inputs (or of inputs and labels, which are not used), such as those of a data loader. ``noisy``
    are examples for smoothness, where the others would take too long; the result has it under that name.

    >>> net = nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 2, bias=False))
    >>> with torch.no_grad(): _ = [weight.fill_(1.0) for weight in net.parameters()]
    >>> found = stability(net, torch.ones(5, 4))
    >>> [(row.layer, round(row.cushion, 3), round(row.minimal_interlayer, 3)) for row in found.layers]
    [('0', 1.0, 0.577), ('2', 1.0, 0.707)]
    """
    if chunk_size < 1:
        raise UsageError(f"chunk_size must be at least 1. Got {chunk_size}.")
    settings = settings or StabilitySettings()
    quiet = settings if noisy is None else replace(settings, smoothness=None)
    meter = StabilityMeter(net, quiet, initial=initial, device=device)

    def conclude(data: Data, meter: StabilityMeter, tell: Progress) -> Stability:
        if engine is None:
            _measure(data, meter, chunk_size, tell)
            return meter.compute()
        if not isinstance(data, Sample | DeviceData):
            raise UsageError(f"an engine measures on a Sample, which it can cut. Got {type(data).__name__}.")
        arguments = {
            "net": _module(net),
            "data": data.on(meter.device) if isinstance(data, Sample) else data,
            "settings": meter.settings,
            "initial": None if initial is None else _module(initial),
            "chunk_size": chunk_size,
        }
        parts = over_shards(f"{__name__}:measure_part", arguments, of="data", engine=engine, progress=tell)
        for part in parts:
            meter.include(part)
        return meter.compute()

    found = conclude(data, meter, progress)
    if noisy is None:
        return found
    quiet = replace(settings, interlayer="none")
    smoothness = conclude(
        noisy,
        StabilityMeter(meter.network, quiet, device=device),
        lambda done, total, _="": progress(done, total, "smoothness"),
    )
    return replace(found, noisy=smoothness)


def measure_part(
    *,
    net: nn.Module,
    data: DeviceData,
    settings: StabilitySettings,
    initial: nn.Module | None,
    chunk_size: int,
) -> Part:
    """One part of a sample, on a worker: all values, nothing concluded from them."""
    meter = StabilityMeter(net, settings, initial=initial)
    _measure(data, meter, chunk_size, silent)
    return meter.part


def _measure(data: Data, meter: StabilityMeter, chunk_size: int, progress: Progress) -> None:
    total = (
        data.n if isinstance(data, Sample | DeviceData) else len(data) if isinstance(data, Tensor) else None
    )
    done = 0
    for inputs in _batches(data, chunk_size, meter):
        meter.update(inputs)
        done += len(inputs)
        progress(done, total)


def _batches(data: Data, chunk_size: int, meter: StabilityMeter) -> Iterator[Tensor]:
    if isinstance(data, Sample):
        data = data.on(meter.device)
    if isinstance(data, DeviceData):
        yield from (x for x, _ in data.chunks(chunk_size, meter.dtype))
        return
    for item in (data,) if isinstance(data, Tensor) else data:
        inputs = item[0] if isinstance(item, tuple | list) and item else item
        if not isinstance(inputs, Tensor):
            raise UsageError(
                "data must be a Sample, a tensor of inputs, or an iterable of batches, each a tensor or a "
                f"tuple that begins with one. Got a batch of type {type(item).__name__}."
            )
        yield from torch.split(inputs, chunk_size)


def _prepare(net: Network | nn.Module, device: torch.device | str | None) -> Network:
    """The network without batch norms, on the device: itself where it is wrapped so, else a copy."""
    model = _module(net)
    if isinstance(net, Network) and _is_prepared(net, device):
        return net
    traced = net.traced if isinstance(net, Network) else Traced(model)
    folded = fold_batch_norms(traced, strict=True).model.requires_grad_(False)
    if any(tensor.dtype in _HALF for tensor in folded.parameters()):
        folded = folded.float()  # squares of activations leave the range of half precision
    if device is not None:
        try:
            folded = folded.to(device)
        except (RuntimeError, AssertionError) as cause:
            raise UsageError(
                f"device {str(device)!r} cannot be used: {str(cause).splitlines()[0]}"
            ) from cause
    traced = traced.with_model(folded)
    if traced.graph is None:
        raise ModelError(
            f"the maps from layer to layer are unknown: torch.fx cannot trace {type(model).__name__} "
            f"({traced.untraceable}). Spectra, tails and margins need no trace; noise stability needs a "
            "forward pass that takes the same steps for every input."
        )
    network = wrap(traced)
    network.require_layers("measure")
    return network


def _is_prepared(network: Network, device: torch.device | str | None) -> bool:
    weights = list(network.model.parameters())
    is_there = device is None or all(weight.device == torch.device(device) for weight in weights)
    is_wide = all(weight.dtype not in _HALF for weight in weights)
    is_plain = network.graph is not None and bool(network.layers)
    return is_there and is_wide and is_plain and not has_batch_norms(network.model)


def _module(net: Network | nn.Module) -> nn.Module:
    model = net.model if isinstance(net, Network) else net
    if not isinstance(model, nn.Module):
        raise UsageError(
            f"net must be an nn.Module or what codebound_networks.wrap returns. Got {type(net).__name__}."
        )
    return model


def _views(network: Network, *, like: Network) -> dict[str, AbstractLayerView]:
    """The layers of the initial network by name; refuses another architecture."""
    views = {view.name: view for view in network.layers}
    for view in like.layers:
        if view.name not in views or views[view.name].weight.shape != view.weight.shape:
            found = tuple(views[view.name].weight.shape) if view.name in views else "no such layer"
            raise UsageError(
                f"the initial network does not fit: layer {view.name} has shape {tuple(view.weight.shape)}, "
                f"in the initial network: {found}."
            )
    return views
