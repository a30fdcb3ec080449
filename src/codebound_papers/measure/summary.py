"""All measures of a network on a sample as plain rows, for JSON, tables and pages.

Batch norms are folded into the layers before them, so that every number is about the map which a layer
applies to new data. What cannot be measured is listed with the reason; nothing is left out in silence.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from codebound.errors import CodeboundError, ModelError, UsageError
from codebound.nets.fold import fold_batch_norms
from codebound.nets.layers import LinearView
from codebound.nets.walk import Network, activations, wrap
from codebound.progress import Progress, silent
from codebound.scores import margin_report
from codebound_papers.measure.noise.meter import StabilityPlan, stability
from codebound_papers.measure.noise.smoothness import Smoothness
from codebound_papers.measure.spectra import TailValues, layer_spectrum, tail_values
from codebound_papers.measure.spectral import spectral_norm
from codebound_papers.measure.summary_rows import (
    Row,
    empty_row,
    histogram,
    histograms,
    margin_row,
    network_row,
    norm_row,
    stability_row,
    survival,
    tail_row,
)
from codebound_papers.shin21.tails import fit_power_law

if TYPE_CHECKING:
    from torch import Tensor, nn

    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine
    from codebound_papers.measure.noise.result import Stability

Family = Literal["spectra", "tails", "stability", "margins"]

FAMILIES: tuple[Family, ...] = ("spectra", "tails", "stability", "margins")

_BESIDE = (
    "it runs beside another branch, so its output alone does not determine what follows; "
    "the sum at the end of the branches takes its place"
)


@dataclass(frozen=True, slots=True)
class SummaryPlan:
    """What is measured, and how.

    Attributes:
        families: Which groups of measures.
        tails_of: The numbers whose tails are fitted.
        resamples: Synthetic samples behind the verdict on a tail.
        stability: The settings of noise stability.
        seed: Seed of the resamples.
    """

    families: tuple[Family, ...] = FAMILIES
    tails_of: TailValues = "eigenvalues"
    resamples: int = 200
    stability: StabilityPlan = field(
        default_factory=lambda: StabilityPlan(smoothness=Smoothness(0.1, draws=5))
    )
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.families if name not in FAMILIES]
        if unknown or not self.families:
            raise UsageError(
                f"families of measures are {', '.join(FAMILIES)}. Got {', '.join(unknown) or 'none'}."
            )
        if self.tails_of not in ("absolute", "positive", "eigenvalues"):
            raise UsageError(f"tails are those of absolute, positive or eigenvalues. Got {self.tails_of!r}.")


@dataclass(frozen=True, eq=False)
class Summary:
    """Everything that was measured.

    Attributes:
        layers: One row per layer and per sum of branches, in forward order; None where a quantity was not
            asked for or does not exist. A quantity with one value per example has its smallest and largest
            value and quantiles, in which None is infinite.
        network: Noise stability of the network as a whole; None if it was not measured.
        margins: Output margins; None if they were not measured.
        not_measured: What is missing, where, and why.
        notes: What a reader should know, in sentences.
        curves: Histograms of the margins and, per layer, histograms and the survival function.
    """

    layers: tuple[Row, ...]
    network: Row | None
    margins: Row | None
    not_measured: tuple[Row, ...]
    notes: tuple[str, ...]
    curves: Row = field(repr=False)

    def record(self) -> Row:
        """The rows, ready for JSON; without the curves."""
        return {
            "layers": list(self.layers),
            "network": self.network,
            "margins": self.margins,
            "not_measured": list(self.not_measured),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Workload:
    """How heavy a network is, and what can be measured of it in about a minute on two cores.

    Attributes:
        multiplications: By weights, in the forward pass of one example.
        widest: Entries of the largest output of a layer.
        outputs: Entries of the last layer's output.
    """

    multiplications: int
    widest: int
    outputs: int

    @property
    def examples(self) -> int:
        """How many examples to measure: 1,000, and fewer from ten million multiplications on."""
        return max(10, min(1000, 10**10 // max(1, self.multiplications)))

    def probes(self, interlayer: str) -> int | None:
        """How many probes per Jacobian norm: None, which is exact, where the Jacobians are small; else 64.

        Those to the output are small up to 64 outputs, the others up to 1,024 entries.
        """
        is_small = self.outputs <= 64 if interlayer == "output" else self.widest <= 1024
        return None if is_small else 64


def workload(model: nn.Module, example: Tensor) -> Workload:
    """Counts the work of a forward pass, by running it.

    Args:
        model: The network.
        example: A batch of one input.

    Example:
        >>> workload(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)), torch.zeros(1, 4))
        Workload(multiplications=18, widest=3, outputs=2)
    """
    network = wrap(model, example=example)
    seen = [(call.output.numel(), network.layer(call.name).weight) for call in activations(network, example)]
    return Workload(
        multiplications=sum(weight.numel() * (entries // len(weight)) for entries, weight in seen),
        widest=max((entries for entries, _ in seen), default=0),
        outputs=seen[-1][0] if seen else 0,
    )


def summarise(
    model: nn.Module,
    data: Dataset,
    plan: SummaryPlan | None = None,
    *,
    initial: nn.Module | None = None,
    chunk_size: int = 256,
    device: torch.device | str = "cpu",
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Summary:
    """Measures a network on a sample.

    If noise stability is not defined for this network, that is listed with the reason and the rest is
    measured; it is an error only where nothing else was asked for.

    Args:
        model: A classifier; never changed.
        data: The examples to measure on: all of them are used.
        plan: What to measure; everything when None.
        initial: The network before training, for cushions relative to the distance from it (A-Imp-i).
        chunk_size: Examples at a time; bounds the memory.
        device: Where the network runs; spectra and tails are computed where the weights of ``model`` are.
        engine: Where margins and noise stability are measured, one part of the sample on each of its workers;
            None: here. Parts are whole chunks, so the result is the same.
        progress: Told what is done of each family, whose name is the note.

    Example:
        >>> from codebound.data.load import load_dataset
        >>> digits = load_dataset("digits").select(range(20), role="train")
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
        >>> found = summarise(net, digits, SummaryPlan(families=("spectra", "margins")))
        >>> found.layers[0]["name"], found.layers[0]["shape"], found.margins["n"]
        ('1', [10, 64], 20)
    """
    plan = plan or SummaryPlan()
    folded, notes = _folded(model)
    weight = next(folded.parameters())
    example = data.on(weight.device).batch(torch.arange(1), weight.dtype)[0]
    builder = _Builder(wrap(folded, example=example), progress)
    margins = None
    if "margins" in plan.families:
        report = margin_report(
            model,
            data.on(device),
            chunk_size=chunk_size,
            engine=engine,
            progress=builder.told("margins"),
        )
        margins = margin_row(report)
        if report.non_finite < report.n:
            builder.margins = histogram(report)
    if "spectra" in plan.families:
        builder.add_spectra(example)
    if "tails" in plan.families:
        builder.add_tails(plan)
    whole = None
    if "stability" in plan.families:
        try:
            result = stability(
                folded,
                data,
                plan.stability,
                initial=initial,
                chunk_size=chunk_size,
                device=device,
                engine=engine,
                progress=builder.told("noise stability"),
            )
        except CodeboundError as refusal:
            if plan.families == ("stability",):
                raise
            builder.miss("all", "noise stability", str(refusal))
        else:
            builder.add_stability(result, plan.stability)
            whole = network_row(result)
    return Summary(
        layers=tuple(builder.rows.values()),
        network=whole,
        margins=margins,
        not_measured=tuple(builder.missing),
        notes=(*notes, "None of these numbers bounds the error on new data; a certificate does."),
        curves={"layers": dict(builder.curves), "margins": builder.margins},
    )


def _folded(model: nn.Module) -> tuple[nn.Module, list[str]]:
    if not any(True for _ in model.parameters()):
        raise ModelError(f"{type(model).__name__} has no weights, so nothing to measure.")
    try:
        folding = fold_batch_norms(model)
    except ModelError as cause:
        return model, [f"Batch norms stay as they are: {cause}"]
    if not folding.folded:
        return folding.model, []
    count = len(folding.folded)
    norms = "1 batch norm is" if count == 1 else f"{count} batch norms are"
    return folding.model, [
        f"{norms} folded into the layer before; all numbers are about the layers after that."
    ]


class _Builder:
    """Rows that are filled in family by family."""

    def __init__(self, network: Network, progress: Progress) -> None:
        self.network, self.progress = network, progress
        self.rows: dict[str, Row] = {}
        self.missing: list[Row] = []
        self.curves: dict[str, Row] = defaultdict(dict)
        self.margins: Row | None = None
        for view in network.layers:
            kind = "linear" if isinstance(view, LinearView) else "convolution"
            self.rows[view.name] = empty_row(view.name, kind) | {"shape": list(view.weight.shape)}
        if not self.rows:
            raise ModelError(
                f"{type(network.model).__name__} has no linear or convolutional layer, so nothing to measure."
            )
        for tensor in network.coverage.tensors:
            if tensor.status != "seen":
                no_matrix = f"a {tensor.module_type} has no weight matrix"
                reason = no_matrix if tensor.status == "carried" else tensor.reason
                self.miss(tensor.name, "all", reason)

    def miss(self, layer: str, quantity: str, reason: str) -> None:
        self.missing.append({"layer": layer, "quantity": quantity, "reason": reason})

    def told(self, family: str) -> Progress:
        """Progress within a family."""

        def advance(done: int, total: int | None, note: str = "") -> None:
            self.progress(done, total, family)

        return advance

    def add_spectra(self, example: Tensor) -> None:
        shapes = {call.name: tuple(call.input.shape[1:]) for call in activations(self.network, example)}
        for done, view in enumerate(self.network.layers, start=1):
            spectrum = layer_spectrum(view)
            self.rows[view.name] |= {
                "frobenius_norm": spectrum.frobenius_norm,
                "matrix_spectral_norm": spectrum.spectral_norm,
                "stable_rank": spectrum.stable_rank,
            }
            self.curves[view.name]["survival"] = survival(spectrum.eigenvalues, of="eigenvalues")
            try:
                self.rows[view.name]["spectral_norm"] = norm_row(spectral_norm(view, shapes[view.name]))
            except CodeboundError as refusal:
                self.miss(view.name, "spectral norm", str(refusal))
            self.progress(done, len(self.network.layers), "spectra")

    def add_tails(self, plan: SummaryPlan) -> None:
        for done, view in enumerate(self.network.layers, start=1):
            values = tail_values(view, of=plan.tails_of)
            if values.size:
                fit = fit_power_law(
                    values,
                    resamples=plan.resamples,
                    seed=plan.seed,
                    progress=self.told(f"tail of {view.name}"),
                )
                self.rows[view.name]["alpha"] = tail_row(fit, of=plan.tails_of, values=values.size)
                self.curves[view.name]["survival"] = survival(values, of=plan.tails_of, fit=fit)
            else:
                self.miss(view.name, "tail", "none of its values is positive")
            self.progress(done, len(self.network.layers), "tails")

    def add_stability(self, result: Stability, plan: StabilityPlan) -> None:
        ordered: dict[str, Row] = {}
        for site in result.sites:
            layer = site.name.rpartition(" (call ")[0] or site.name
            if layer in self.rows:  # a layer that is called again has one more row for each call
                ordered.setdefault(layer, self.rows[layer])
            row = ordered.setdefault(
                site.name, empty_row(site.name, "sum" if site.frobenius is None else "call")
            )
            row |= stability_row(result, site)
            self.curves[site.name] |= histograms(result, site.name)
        self.rows = ordered | {name: row for name, row in self.rows.items() if name not in ordered}
        if plan.interlayer != "none":
            for site in result.sites[:-1]:
                if not result.has("interlayer", site.name):
                    self.miss(site.name, "interlayer cushion, smoothness", _BESIDE)
