"""The facts of a network on a sample, measured once: whatever was asked for, in one record.

Batch norms are folded into the layers before them, and what is folded is wrapped and traced once for all
measures. What does not apply to a network is kept as a reason, in words.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from codebound.bounds.risk import check_delta, rate
from codebound.run.errors import CodeboundError, ModelError, UsageError
from codebound.run.job import Engine
from codebound.run.progress import Progress, silent
from codebound.sample.dataset import Sample
from codebound_networks.reading.walk import Network
from codebound_networks.views.layers import AbstractConvView, AbstractLayerView, LinearView
from codebound_papers.facts import LayerFacts, NetworkFacts
from codebound_papers.measure import norms as matrices
from codebound_papers.measure import steps
from codebound_papers.measure.noise.meter import stability
from codebound_papers.measure.noise.quantities import Smoothness, StabilitySettings
from codebound_papers.measure.noise.result import Stability
from codebound_papers.measure.outputs import MarginReport, Outputs, evaluate_sample
from codebound_papers.measure.spectral import EXACT_SIDE, SpectralNorm, matrix_spectral_norm, spectral_norm
from codebound_papers.measure.tails import PowerLawFit, fit_power_law

Family = Literal["margins", "norms", "maps", "spectra", "tails", "stability"]
"""Groups of measures; ``norms`` are those of matrices, ``maps`` those of what convolutions do to images."""

_ALL = ("margins", "norms", "maps", "spectra", "tails", "stability")
_LIGHT = 10**7  # multiplications of a forward pass up to which Jacobians between all pairs are measured
_PIXELS = 16  # of every layer of a heavy network, as in the papers' figures
_NOISY_EXAMPLES = 50
NOISE, DRAWS = 0.1, 5
"""Size of Gaussian noise relative to the activation that it is added to, and draws of any noise."""

_NO_CHAIN = (
    "The network is no chain of layers, and the theorem is about chains: its numbers are for the record."
)
_FILTERS = (
    "For a convolution all norms are those of its matrix of filters, not of the map between images: the "
    "theorem is about fully connected layers."
)
_JACOBIAN_CHUNK = 64  # Jacobians take far more memory than outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSettings:
    """Settings for measuring a network."""

    # which groups of measures: what the published bounds are told when left alone
    families: tuple[Family, ...] = ("margins", "norms", "maps", "stability")
    margin_share: float = 0.05  # share of the sample whose margin may be at most gamma; 0 takes the smallest
    delta: float = 0.05  # failure probability that bounds and theorems are asked for
    # size of the sample that they are told; None: that of the measured one, which is a part of it
    sample_size: int | None = None
    # how noise stability is measured, on the whole sample. When None the size of a network decides, a random
    # part of the sample is taken, and only chains are measured: no bound asks for that of another network
    stability: StabilitySettings | None = None
    examples: int = 1000  # the size of that part; all where there are fewer
    tails_of: matrices.TailValues = "eigenvalues"  # the numbers whose tails are fitted
    resamples: int = 200  # synthetic samples behind the verdict on a tail
    dtype: torch.dtype | None = None  # arithmetic of outputs and margins; that of the network when None
    chunk_size: int = 256  # examples at a time; bounds the memory
    device: str = "cpu"  # where the network runs on examples; spectra, tails and norms stay where it is
    seed: int = 0  # of everything that is drawn

    def __post_init__(self) -> None:
        unknown = [name for name in self.families if name not in _ALL]
        if unknown or not self.families:
            found = ", ".join(unknown) or "none"
            raise UsageError(f"families of measures are {', '.join(_ALL)}. Got {found}.")
        if self.tails_of not in ("absolute", "positive", "eigenvalues"):
            raise UsageError(f"tails are those of absolute, positive or eigenvalues. Got {self.tails_of!r}.")
        share = self.margin_share
        if not 0.0 <= share < 1.0:
            raise UsageError(f"the share of low margins, margin_share, lies in [0, 1). Got {share}.")
        for name in ("examples", "chunk_size", "sample_size"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise UsageError(f"{name} is at least 1. Got {count}.")
        check_delta(self.delta)


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """The tail of a layer: its values and the fitted power law."""

    values: NDArray[np.float64] = field(repr=False)
    fit: PowerLawFit


@dataclass(frozen=True, slots=True)
class Missing:
    """Missing measurement, with its layer and reason."""

    layer: str
    quantity: str
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured:
    """Measurements of a network f. They are empty or None where they were not asked for."""

    network: Network = field(repr=False)  # f with its batch norms folded
    sample: Sample = field(repr=False)  # the sample
    settings: MeasureSettings  # what was asked for
    folding: tuple[str, ...]  # what became of the batch norms, in sentences
    obstacle: str  # why expressions with a product over layers do not apply; empty where they do
    outputs: Outputs | None = None  # margins, errors and the longest outputs and inputs of the whole sample
    norms: tuple[LayerFacts, ...] = ()  # of the matrices, in forward order, without noise stability
    maps: Mapping[str, SpectralNorm]  # norms of the maps that layers compute, by name
    spectra: Mapping[str, matrices.LayerSpectrum]  # of the matrices, by layer
    tails: Mapping[str, Tail]  # by layer
    stability: Stability | None = None  # noise stability
    unstable: str = ""  # why that is missing although it was asked for
    missing: tuple[Missing, ...]  # what else was asked for and is missing

    @property
    def margins(self) -> MarginReport:
        """The margins of the whole sample."""
        return self._outputs.margins

    @property
    def errors(self) -> int:
        """Examples that are wrong, or too close to call in the arithmetic of the network."""
        return self._outputs.errors

    @property
    def _outputs(self) -> Outputs:
        if self.outputs is None:
            raise UsageError("margins were not measured: ask for that family.")
        return self.outputs

    @cached_property
    def facts(self) -> NetworkFacts:
        """For published expressions and theorems; what belongs to noise stability is None without it."""
        if not self.norms:
            raise UsageError("norms were not measured: ask for that family.")
        seen, found = self._outputs, self.stability
        gamma = seen.margins.quantile(self.settings.margin_share)
        margin_loss = seen.margins.loss(gamma)
        return NetworkFacts(
            layers=self.norms if found is None else with_stability(self.norms, found),
            examples=self.settings.sample_size or self.sample.n,
            classes=self.sample.classes,
            margin=gamma,
            margin_loss=margin_loss,
            input_norm=seen.input_norm,
            input_size=math.prod(self.sample.input_shape),
            largest_output=seen.output_norm,
            delta=self.settings.delta,
            parameters=sum(parameter.numel() for parameter in self.network.model.parameters()),
            smoothness=None if found is None else found.smoothness,
        )

    @property
    def theorem_facts(self) -> NetworkFacts:
        """The facts, chain or not; refused for a layer called twice, a batch norm, or no positive margin."""
        steps.fold_strictly(self.network)
        facts = self.facts
        if not facts.margin > 0.0:
            raise UsageError(
                f"the margin that {rate(self.settings.margin_share, 1)} of the examples do not exceed is "
                f"{facts.margin:.3g}, and a theorem needs a positive one. The network is wrong on "
                f"{rate(self.margins.loss(), 1)}: let a larger share of the examples miss the margin, or "
                "train it further."
            )
        return facts

    @property
    def chain_notes(self) -> tuple[str, ...]:
        """A sentence where the network is not what the theorems are about."""
        return () if steps.steps_of(self.network).is_chain else (_NO_CHAIN,)

    @property
    def filter_notes(self) -> tuple[str, ...]:
        """A sentence where a theorem on fully connected layers is told the filters of convolutions."""
        return (_FILTERS,) if any(layer.patch is not None for layer in self.norms) else ()

    @property
    def has_biases(self) -> bool:
        """Return True if some layer has a bias."""
        return any(view.bias is not None for view in self.network.layers)

    def require_stability(self) -> Stability:
        """Noise stability, or the reason why there is none."""
        if self.stability is None:
            raise ModelError(f"noise stability was not measured: {self.unstable or 'nobody asked for it.'}")
        return self.stability

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for a reader of bounds."""
        report, gamma = self.margins, self.facts.margin
        notes = list(self.folding)
        if not self.obstacle and (longer := steps.expansions(self.network)):
            notes.append(
                f"Products over layers leave out steps that can lengthen a difference: {', '.join(longer)}."
            )
        notes.append(
            f"gamma, the margin in the bounds, is {gamma:.4g}: {report.count(gamma):,} of {report.n:,} "
            "examples have no larger one."
        )
        if self.stability is not None:
            notes.append(_describe(self.stability))
        return tuple(notes)


def measure_facts(
    model: nn.Module | Network | steps.FoldedNetwork,
    sample: Sample,
    settings: MeasureSettings | None = None,
    *,
    initial: nn.Module | None = None,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Measured:
    """Measures a network on a sample, as much as the settings ask for: by default what published bounds need.

    Margins and the norms of inputs and outputs are those of the whole sample. If noise stability is not
    defined, the record has the reason and the rest; it is an error only where nothing else was asked. The
    network f, wrapped and folded or not, is never changed; ``initial`` is the one before training (A-Imp-i).

    >>> from codebound.sample.load import load_sample
    >>> from codebound_networks.reading.loading import load_model
    >>> net = load_model("mlp:widths=16", input_shape=(1, 8, 8), classes=10)
    >>> measured = measure_facts(net, load_sample("digits"), MeasureSettings(examples=20))
    >>> [(layer.rows, layer.columns) for layer in measured.facts.layers], measured.facts.examples
    ([(16, 64), (10, 16)], 1797)
    """
    settings = settings or MeasureSettings()
    folded = model if isinstance(model, steps.FoldedNetwork) else steps.fold_and_wrap(model, sample)
    network, asked = folded.network, settings.families
    network.require_layers("measure")

    def tell(family: str) -> Progress:
        return lambda done, total, note="": progress(done, total, note or family)

    seen = None
    if "margins" in asked:
        data, chunk, dtype = sample.on(settings.device), settings.chunk_size, settings.dtype
        run = partial(evaluate_sample, classes=sample.classes, engine=engine, progress=tell("margins"))
        seen = run(network.model, data, chunk_size=chunk, dtype=dtype)
        if "norms" in asked and (bad := seen.margins.non_finite):
            raise ModelError(
                f"the network's outputs are not finite on {bad} of {sample.n} examples, so margins and "
                "bounds mean nothing. Check the weights, and that the data is scaled as in training."
            )
    missing: list[Missing] = []
    obstacle = steps.chain_obstacle(network)
    found, unstable = None, ""
    if "stability" in asked and (settings.stability is not None or not obstacle):
        try:
            found = _noise_stability(
                folded, sample, settings, initial=initial, engine=engine, progress=tell("noise stability")
            )
        except CodeboundError as refusal:
            if asked == ("stability",):
                raise
            unstable = str(refusal)
    spectra, maps, tails = {}, {}, {}
    norms = []
    for done, view in enumerate(network.layers, start=1):
        if "spectra" in asked:
            spectra[view.name] = matrices.layer_spectrum(view)
        if "spectra" in asked or ("maps" in asked and isinstance(view, AbstractConvView)):
            try:
                maps[view.name] = _map_norm(view, folded, spectra.get(view.name))
            except CodeboundError as refusal:
                missing.append(Missing(view.name, "spectral norm", str(refusal)))
            progress(done, len(network.layers), "spectra")
        if "norms" in asked:
            norms.append(_norms(view, maps.get(view.name)))
            progress(done, len(network.layers), "norms")
    for done, view in enumerate(network.layers if "tails" in asked else (), start=1):
        values = (
            spectra[view.name].eigenvalues
            if settings.tails_of == "eigenvalues" and view.name in spectra
            else matrices.tail_values(view, of=settings.tails_of)
        )
        if values.size:
            told = tell(f"tail of {view.name}")
            fit = fit_power_law(values, resamples=settings.resamples, seed=settings.seed, progress=told)
            tails[view.name] = Tail(values, fit)
        else:
            missing.append(Missing(view.name, "tail", "none of its values is positive"))
        progress(done, len(network.layers), "tails")
    return Measured(
        network=network, sample=sample, settings=settings, folding=folded.notes, obstacle=obstacle,
        outputs=seen, norms=tuple(norms), maps=maps, spectra=spectra, tails=tails,
        stability=found, unstable=unstable, missing=tuple(missing),
    )  # fmt: skip


def _map_norm(
    view: AbstractLayerView, folded: steps.FoldedNetwork, known: matrices.LayerSpectrum | None
) -> SpectralNorm:
    """The norm of what a layer does to its inputs; the spectrum of a linear layer has it already."""
    if isinstance(view, LinearView) and known is not None and min(known.rows, known.columns) <= EXACT_SIDE:
        return known.map_norm
    return spectral_norm(view, folded.input_shape(view.name))


def _noise_stability(
    folded: steps.FoldedNetwork,
    sample: Sample,
    settings: MeasureSettings,
    *,
    initial: nn.Module | None,
    engine: Engine | None,
    progress: Progress,
) -> Stability:
    """As the settings say, or on a random part of the sample that the network's size allows."""
    chosen, noisy, chunk = settings.stability, None, settings.chunk_size
    if chosen is None:
        work = folded.workload
        is_light = work.multiplications <= _LIGHT
        chosen = StabilitySettings(
            interlayer="all" if is_light else "output",
            probes=steps.PROBES if is_light else work.probes("output"),
            pixels=None if is_light else _PIXELS,
            smoothness=Smoothness(NOISE, draws=DRAWS, delta=settings.delta, seed=settings.seed),
            seed=settings.seed,
        )
        sample, noisy = (
            steps.draw_examples(sample, count, seed=settings.seed, purpose="compared examples")
            for count in (settings.examples, min(settings.examples, _NOISY_EXAMPLES))
        )
        chunk = min(_JACOBIAN_CHUNK, chunk)
    measured = partial(stability, initial=initial, device=settings.device, engine=engine, progress=progress)
    return measured(folded.network, sample, chosen, noisy=noisy, chunk_size=chunk)


def _describe(found: Stability) -> str:
    targets = {key.target for key in found.columns if key.quantity == "interlayer"}
    goal = "the output" if len(targets) < 2 else "all later layers"
    norms = "exact norms" if found.probes is None else f"norms by {found.probes} probes where they are large"
    noisy = found.n if found.noisy is None else found.noisy.n
    return (
        f"Noise stability is that of {found.n:,} random examples, with Jacobians to {goal} and {norms}; "
        f"smoothness that of {noisy} of them, under {DRAWS} draws of Gaussian noise {NOISE} times as long "
        "as an activation."
    )


def _norms(view: AbstractLayerView, of_map: SpectralNorm | None) -> LayerFacts:
    matrix, patch = view.matrix, None
    spectral = matrix_spectral_norm(matrix).value
    operator_norm: float | None = spectral
    if isinstance(view, AbstractConvView):
        operator_norm = None if of_map is None else of_map.value
        patch = max(-(-kappa // s) for kappa, s in zip(view.kernel, view.stride, strict=True))
    return LayerFacts(
        name=view.name,
        rows=matrix.shape[0],
        columns=matrix.shape[1],
        frobenius=matrices.frobenius_norm(matrix),
        spectral=spectral,
        operator_norm=operator_norm,
        l2_1=matrices.l2_1_norm(matrix),
        l1_inf=matrices.l1_inf_norm(matrix),
        variance=float(matrix.detach().double().var(correction=0)),
        patch=patch,
    )


def with_stability(layers: tuple[LayerFacts, ...], found: Stability) -> tuple[LayerFacts, ...]:
    """The layers with their measures of noise stability, if they have any."""
    rows, stable = {row.layer: row for row in found.layers}, []
    for layer in layers:
        if (row := rows.get(layer.name)) is not None:
            layer = replace(layer, cushion=row.cushion, interlayer_cushion=row.minimal_interlayer)
            layer = replace(layer, contraction=row.contraction, spread=row.spread)
        stable.append(layer)
    return tuple(stable)
