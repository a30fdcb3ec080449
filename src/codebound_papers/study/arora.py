"""Arora, Ge, Neyshabur and Zhang 2018 as one call: noise stability, compression and what follows."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

import torch
from torch import Tensor, nn

from codebound.bounds.risk import rate
from codebound.certificate.file import Certificate
from codebound.report.templates import Table
from codebound.run.errors import CodeboundError
from codebound.run.files import finite
from codebound.run.progress import Progress, show_progress, silent
from codebound_networks.reading.walk import Network
from codebound_networks.train.rng import torch_stream
from codebound_networks.train.updates import shuffle_labels as shuffle_labels_of
from codebound_papers.arora18.conv import LocalFilters
from codebound_papers.arora18.noise_stability import table_rows
from codebound_papers.arora18.projection import induction
from codebound_papers.compress.compressors import Job, compress
from codebound_papers.measure.record import Measured
from codebound_papers.measure.steps import activations, draw_examples, steps_of
from codebound_papers.measure.summary import summary_of
from codebound_papers.plan.minimum import ShareProject
from codebound_papers.published import Evidence, evaluate
from codebound_papers.report.figures import Plot, Series
from codebound_papers.report.measures import Drawing, measure_figures, measure_tables
from codebound_papers.study.result_page import Row, StudyResult, make_figure, make_table
from codebound_papers.study.settings import check_options
from codebound_papers.study.subjects import Subject, subject

Compression = tuple[nn.Module, Certificate | str, list[Row]]

_NOISE = 0.1  # size of the injected noise relative to the input of a layer, as in figure 1
_LONGER = 5  # times as many epochs for labels that have to be learned by heart
_QUANTITIES = ("layer_cushion", "interlayer_cushion", "activation_contraction")
_SMOOTH = {"layer": "from", "worst": "worst|.3g", "median": "median|.3g", "rho": "rho_delta|.3g"}
_SIZES = {"layer": "layer", "effective": "effective parameters|.4g", "weights": "weights|,",
          "percent": "per cent|.4g"}  # fmt: skip
_MOVED = {"name": "layers up to", "deviation": "largest relative error|.3g", "worst": "at",
          "allowed": "lemma 3 allows|.3g", "holds": "holds"}  # fmt: skip
_REFS = {  # of the theorems, by whether the network has convolutions; the first is the main one
    False: ("A-Thm4.1", "A-Imp-ii", "A-Lem10:count", "A-X4.1:total", "A-Fig2M:ours", "I-17"),
    True: ("A-Thm5.1", "A-CorC.1", "A-Lem14:count", "A-Fig2M:ours", "I-17"),
}
_CLAIM = (
    "Arora, Ge, Neyshabur and Zhang (2018) claim that trained networks damp noise from layer to layer, that "
    "they can therefore be compressed to few numbers, and that these bound the error on new data."
)
_NO_CONTROL = ("The control with corrupted labels was not asked for: --shuffle-labels 1 trains it.",)


@show_progress
def arora18(
    about: Subject | None = None,
    *,
    share: float = 0.25,
    examples: int = 1000,
    shuffle_labels: float | None = None,
    progress: Progress = silent,
) -> StudyResult:
    """Measures noise stability, compresses by algorithm 1 or 4, and evaluates theorem 4.1 or 5.1.

    Algorithm 1 keeps ``share`` numbers for every weight of a layer; algorithm 4 is for convolutions. With
    ``shuffle_labels`` a control is trained on a sample with that share of the labels redrawn.

    >>> found = arora18(subject("mlp:widths=16", epochs=2), examples=20)
    >>> print(*(row["layer"] for row in found.record()["effective_parameters"]))
    linear1 linear2
    """
    check_options(share=share, examples=examples, shuffle_labels=shuffle_labels)
    about = subject() if about is None else about
    measured = about.measure("margins", "norms", "maps", "stability", examples=examples)
    has_convolution = any(layer.patch is not None for layer in measured.facts.layers)
    seen = draw_examples(about.sample, examples, seed=about.seed).on("cpu")
    inputs = next(seen.chunks(seen.n, next(about.f.parameters()).dtype))[0]
    progress(1, 4, "noise")
    curves = attenuation(about.network, inputs, seed=about.seed)
    progress(2, 4, "compression")
    g, certified, steps = (_local if has_convolution else _project)(about, measured, share, inputs)
    progress(3, 4, "bounds")
    evidence = Evidence(measured, seed=about.seed)
    theorems = [each for ref in _REFS[has_convolution] for each in evaluate(evidence, only=ref)]
    effective, smoothness = _effective(measured), _smoothness(measured)
    control = [] if shuffle_labels is None else _control(about, measured, shuffle_labels, examples)
    record = {**(summary := summary_of(measured)).record(), "curves": summary.curves}
    method = "algorithm 4" if has_convolution else f"algorithm 1, with {share:g} numbers for each weight"
    return StudyResult(
        paper="arora18",
        claim=_CLAIM,
        finding=f"{_describe_noise(curves)} For g the layers are compressed by {method}.",
        about=about,
        settings={"share": share, "examples": seen.n, "shuffled labels": shuffle_labels},
        tables=(*measure_tables(record), *_tables(effective, smoothness, steps, control)),
        theorems=theorems,
        networks={"g": g},
        certified={"g": certified},
        quantities={
            "stability": summary.record(),
            "smoothness": smoothness,
            "attenuation": curves,
            "effective_parameters": effective,
            "induction": steps,
            "control": control,
        },
        drawings=(*_drawings(curves), *measure_figures(record)),
        parts=(
            ("measure", "--families stability,margins"),
            ("compress", f"--method {'conv' if has_convolution else 'project'}"),
            ("compare", ""),
            ("plan", "--method project"),
        ),
        notes=() if shuffle_labels is not None else _NO_CONTROL,
    )


@torch.no_grad()
def attenuation(network: Network, inputs: Tensor, *, noise: float = _NOISE, seed: int = 0) -> list[Row]:
    """Noise that is injected into the input of one layer, at the output of that layer and of all later ones.

    It is ``noise`` times as long as that input; the errors are means of ``||xhat^j - x^j|| / ||x^j||``.
    """
    steps = steps_of(network)
    places = {steps.sequence[index].name: place for place, index in enumerate(steps.cuts)}
    calls = [call for call in activations(network, inputs) if places.get(call.name, 0) > 0]
    stream = torch_stream(seed, "attenuation")
    rows = []
    for position, first in enumerate(calls):
        drawn_noise = torch.randn(first.input.shape, generator=stream, dtype=first.input.dtype)
        length = first.input.flatten(1).norm(dim=1) / drawn_noise.flatten(1).norm(dim=1)
        moved = first.input + noise * length.view(-1, *[1] * (first.input.dim() - 1)) * drawn_noise
        place, errors = places[first.name] - 1, {}
        for call in calls[position:]:
            moved = steps.segment(place, places[call.name])(moved)
            place, clean = places[call.name], call.output.flatten(1)
            errors[call.name] = float(((moved.flatten(1) - clean).norm(dim=1) / clean.norm(dim=1)).mean())
        rows.append({"injected": first.name, "errors": errors})
    return rows


def _project(about: Subject, measured: Measured, share: float, inputs: Tensor) -> Compression:
    compressed = compress(about.network, ShareProject(share), seed=about.seed)
    g = about.build({layer.name: layer.weight for layer in compressed.layers})
    facts, epsilon = measured.facts, math.inf
    if facts.margin > 0.0 and facts.largest_output > 0.0:
        epsilon = facts.margin / (math.sqrt(2.0) * facts.largest_output)
    steps = [{**asdict(step), "holds": step.holds} for step in induction(compressed, inputs, epsilon=epsilon)]
    return g, about.certify({x.name: x.code for x in compressed.layers}), steps


def _local(about: Subject, measured: Measured, share: float, inputs: Tensor) -> Compression:
    """Algorithm 4 on every convolution; what it changes at the output when layers are replaced in turn."""
    job = Job(network=about.network, input_shape=about.sample.input_shape, seed=about.seed)
    steps = []
    found = LocalFilters().run(job)
    names = [layer.name for layer in found.layers]
    with torch.no_grad():
        before = about.network.model(inputs)
        for count in range(1, len(names) + 1):
            part = LocalFilters().run(replace(job, layers=tuple(names[:count])))
            moved = (part.module()(inputs) - before).norm(dim=1) / before.norm(dim=1)
            step = {"name": names[count - 1], "deviation": float(moved.max()), "worst": "output"}
            steps.append({**step, "allowed": None, "holds": None})
    return found.module(), about.certify(found.codes, found.chain), steps


def _effective(measured: Measured) -> list[Row]:
    """Table 1; empty where noise stability is not defined, which the theorem says."""
    try:
        found = table_rows(measured.facts)
    except CodeboundError:
        return []
    return [
        {"layer": x.name, "effective": x.value, "weights": x.weights, "percent": x.percent} for x in found
    ]


def _smoothness(measured: Measured) -> list[Row]:
    """Interlayer smoothness behind every layer; all draws of noise count together."""
    if measured.stability is None:
        return []
    noisy, rows = measured.stability.noisy or measured.stability, []
    for each in noisy.layers:
        if noisy.has("smoothness", each.layer):
            values = noisy.distribution("smoothness", each.layer)
            numbers = {"worst": values.minimum, "median": values.quantile(0.5), "rho": each.smoothness}
            rows.append(finite({"layer": each.layer, **numbers}))
    return rows


def _control(about: Subject, measured: Measured, share: float, examples: int) -> list[Row]:
    """The medians of f beside those of a network that was trained on corrupted labels."""
    other = about.like(label_shuffle=share, epochs=_LONGER * about.epochs)
    sample = shuffle_labels_of(about.sample, share, seed=about.seed)
    corrupted = replace(about, f=other, sample=sample, by_epoch={})
    again = corrupted.measure("margins", "norms", "maps", "stability", examples=examples)
    rows = []
    for own, its in zip(summary_of(measured).layers, summary_of(again).layers, strict=True):
        rows.append({"layer": own["name"]})
        for quantity in _QUANTITIES:
            for row, words in ((own[quantity], quantity), (its[quantity], f"{quantity}, corrupted")):
                rows[-1][words] = None if row is None else row["quantiles"]["0.5"]  # type: ignore[index]
    errors = {"layer": "(training error)", "layer_cushion": about.errors(about.f)[0]}
    errors |= {"layer_cushion, corrupted": corrupted.errors(other)[0]}
    return [*rows, {**dict.fromkeys(rows[0]), **errors}]


def _describe_noise(curves: Sequence[Row]) -> str:
    if not curves:
        return "Noise was not followed: the network is no chain of layers."
    first, *_ = curves
    *_, last = first["errors"].values()
    return (
        f"Noise a tenth as long as the input of {first['injected']} moves the output by {rate(last)} of its "
        f"length, so that the layers {'damp' if last < _NOISE else 'amplify'} it."
    )


def _tables(
    effective: Sequence[Row], smoothness: Sequence[Row], steps: Sequence[Row], control: Sequence[Row]
) -> Iterator[Table]:
    legend = {"effective parameters": "c^2 beta^2 ceil(kappa/s)^2 / (mu^2 mu_to^2): depth, logarithms, "
              "constants and the margin are left out, so that it is no compression ratio."}  # fmt: skip
    yield make_table("Interlayer smoothness", smoothness, _SMOOTH)
    yield make_table("Effective parameters (Table 1)", effective, _SIZES, **legend)
    yield make_table("Error of the compression, layer by layer", steps, _MOVED)
    if control:
        titles = {key: f"{key.replace('_', ' ')}|.3g" for key in control[0]}
        shown = [{key: "-" if value is None else value for key, value in row.items()} for row in control]
        yield make_table("Control: medians with true and with corrupted labels", shown, titles)


def _drawings(curves: Sequence[Row]) -> Iterator[Drawing]:
    layers = list(curves[0]["errors"]) if curves else []
    series = []
    for row in curves:
        places, errors = [layers.index(name) for name in row["errors"]], list(row["errors"].values())
        series.append(Series(row["injected"], places, errors, "line" if len(places) > 1 else "points"))
    yield from make_figure(
        "Attenuation of noise (figure 1)",
        "Each curve begins at the layer into whose input noise a tenth as long was injected: the relative "
        "error at that layer and behind it. A curve that falls is a network that damps noise.",
        Plot("", "output of", "relative error", series, x_names=layers),
    )
