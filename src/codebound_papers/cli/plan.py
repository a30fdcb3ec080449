"""``codebound plan``: what a compression theorem would ask of a network, and what measurement reaches."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli.console import Format, note, print_csv, print_json, print_table, progress_bar
from codebound.cli.loading import new_folder
from codebound.files import finite
from codebound_papers.cli.measure import drawn, first_example

if TYPE_CHECKING:
    from collections.abc import Callable

    from codebound_papers.arora18.requirements import ProjectRequirements
    from codebound_papers.compress.minimum import MeasuredMinimum
    from codebound_papers.guha23.requirements import MbpRequirements
    from codebound_papers.shin21.requirements import HeavytailRequirements

    Requirements = ProjectRequirements | MbpRequirements | HeavytailRequirements

_NOISE, _DRAWS = 0.1, 5  # of the smoothness: length relative to the activation, and draws
_NO_GUARANTEE = (
    "None of these numbers is a guarantee: a theorem has conditions, and errors were counted on the examples "
    "that chose the setting. `codebound certify` may choose so too, because it pays for the message."
)


class Method(str, Enum):
    """The theorems, by the compressor that they are about."""

    project = "project"
    mbp = "mbp"
    heavytail = "heavytail"


def plan(
    model: Annotated[
        str, typer.Option(help="Zoo name such as mlp:depth=5,width=784, or package.module:factory.")
    ],
    data: Annotated[
        str, typer.Option(help="The sample: name, .npz file, image folder, or package.module:factory.")
    ],
    method: Annotated[
        Method,
        typer.Option(help="project (Arora et al. 2018), mbp (Guha et al. 2023) or heavytail (Shin 2021)."),
    ],
    weights: Annotated[
        Path | None, typer.Option(help="Trained weights: safetensors, or a checkpoint (default: untrained).")
    ] = None,
    data_folder: Annotated[Path | None, typer.Option(help="Folder that holds the named dataset.")] = None,
    delta: Annotated[float, typer.Option(help="How likely the random choices may fail.")] = 0.05,
    margin_share: Annotated[
        float,
        typer.Option(
            help="Share of the examples that may miss the margin: it is the largest that the others exceed."
        ),
    ] = 0.1,
    tolerance: Annotated[
        float, typer.Option(help="By how much the error on the examples may rise in the measured part.")
    ] = 0.01,
    examples: Annotated[
        int | None,
        typer.Option(
            help="Examples to measure on, drawn at random (default: 1000, fewer for large networks)."
        ),
    ] = None,
    biases: Annotated[
        str,
        typer.Option(
            help="augmented: part of the weights, as the theory needs; separate: left out, as published."
        ),
    ] = "augmented",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of examples, noise and compressors.")] = 0,
    out: Annotated[Path | None, typer.Option(help="New folder for plan.json.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print the result.")] = Format.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing but the result.")] = False,
) -> None:
    """What a compression theorem would ask of a network, and what measurement reaches instead.

    Example: codebound plan --model mlp --weights runs/w/model.safetensors --data digits --method mbp
    """
    from codebound import __version__
    from codebound.data.load import load_dataset
    from codebound.device import resolve_device
    from codebound.nets.loading import load_model
    from codebound.nets.walk import wrap
    from codebound_papers.arora18.requirements import project_requirements
    from codebound_papers.compress.minimum import measured_minimum
    from codebound_papers.compress.terms import Terms
    from codebound_papers.guha23.requirements import mbp_requirements
    from codebound_papers.measure.noise.meter import StabilityPlan
    from codebound_papers.measure.noise.smoothness import Smoothness
    from codebound_papers.measure.summary import workload
    from codebound_papers.shin21.requirements import heavytail_requirements

    place = resolve_device(device)
    whole = load_dataset(data, folder=data_folder)
    loaded = load_model(model, input_shape=whole.input_shape, classes=whole.classes, weights=weights)
    first = first_example(whole, loaded)
    work = workload(loaded, first)
    sample = drawn(whole, work.examples if examples is None else examples, seed)
    terms = Terms(
        examples=whole.n,
        delta=delta,
        margin_share=margin_share,
        stability=StabilityPlan(
            biases=biases,  # type: ignore[arg-type]  # checked there
            probes=work.probes("output"),
            smoothness=Smoothness(_NOISE, draws=_DRAWS, seed=seed),
            seed=seed,
        ),
        seed=seed,
    )
    network = wrap(loaded.to(place), example=first.to(place))
    theorems: dict[Method, Callable[..., Requirements]] = {
        Method.project: project_requirements,
        Method.mbp: mbp_requirements,
        Method.heavytail: heavytail_requirements,
    }
    with nullcontext() if out is None else new_folder(out) as folder:
        with progress_bar("requirements", quiet=quiet) as progress:
            required = theorems[method](network, sample.on(place), terms, progress=progress)
        with progress_bar("measurement", quiet=quiet) as progress:
            reached = measured_minimum(
                network, sample.on(place), method.value, tolerance=tolerance, seed=seed, progress=progress
            )
    record = {
        "method": method.value,
        "guarantee": "none",
        **_record(required, reached),
        "sample": {"data": data, "n": whole.n, "measured": sample.n, "sha256": sample.sha256},
        "settings": {
            "model": model,
            "weights": None if weights is None else str(weights),
            "data": data,
            "delta": delta,
            "margin_share": margin_share,
            "tolerance": tolerance,
            "biases": biases,
            "smoothness": f"{_DRAWS} draws of Gaussian noise, {_NOISE} as long as the activation",
            "device": str(place),
            "seed": seed,
            "codebound": __version__,
        },
    }
    if folder is not None:
        from codebound.files import write_atomically

        write_atomically(
            folder / "plan.json", (json.dumps(record, indent=2, allow_nan=False) + "\n").encode()
        )
    if not quiet:
        note(f"Measured on {sample.n:,} of {whole.n:,} examples; a theorem takes the worst of all of them.")
    _print(record, output)
    if folder is not None and not quiet:
        note(f"Written to {folder / 'plan.json'}.")


def _record(required: Requirements, reached: MeasuredMinimum) -> dict[str, Any]:
    """Both results as they are printed; what is not finite is null."""
    stored = {} if reached.reached is None else reached.reached.stored
    network = {
        key: value for key, value in asdict(required).items() if key not in ("layers", "margin", "notes")
    }
    found = {
        "verdict": required.verdict,
        "layers": [
            asdict(layer) | {"asked": layer.asked, "reached": stored.get(layer.name)}
            for layer in required.layers
        ],
        "network": network,
        "margin": asdict(required.margin),
        "measured": asdict(reached) | {"verdict": reached.verdict},
        "notes": list(required.notes),
    }
    record: dict[str, Any] = finite(found)
    return record


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a table: its key in a row, its title, and what it says."""

    key: str
    title: str
    sentence: str


_WEIGHTS = _Column("weights", "weights", "how many the layer has, biases aside.")
_ACCURACY = _Column(
    "epsilon",
    "accuracy",
    "by how much, relative to its Frobenius norm, the layer may be off in any direction.",
)
_COLUMNS = {
    "project": (
        _WEIGHTS,
        _Column("inputs", "inputs", "how many numbers the layer reads."),
        _Column(
            "cushion", "cushion", "how well the worst example gets through the layer, compared with noise."
        ),
        _Column(
            "interlayer_cushion", "interlayer", "the same for the layers behind it, 1/sqrt(outputs) at best."
        ),
        _ACCURACY,
        _Column(
            "published",
            "as published",
            "numbers for the layer by lemma 3; for a convolution by algorithm 4, with Q = 1.",
        ),
        _Column(
            "count", "corrected", "numbers with which the proof goes through; none is known for convolutions."
        ),
        _Column("least_inputs", "inputs needed", "fewer than that, and no cushions let lemma 3 compress it."),
    ),
    "mbp": (
        _WEIGHTS,
        _Column(
            "norm", "norm", "spectral norm of the layer's matrix; pruning may change it by norm / depth."
        ),
        _Column("kept_exact", "kept", "least share of weights to keep, if the change is measured."),
        _Column("strength_exact", "strength", "the strength of pruning, d, that goes with it."),
        _Column("kept_markov", "kept by lemma", "least share of weights to keep by lemma 4.2 and Markov."),
        _Column("strength_markov", "strength by lemma", "the strength of pruning that goes with that."),
        _Column("change_norm", "Gamma", "the norm of the change that lemma 4.2 then expects, with C = 1."),
    ),
    "heavytail": (
        _WEIGHTS,
        _ACCURACY,
        _Column("rms", "rms", "root mean square of the weights."),
        _Column("published_threshold", "threshold", "weights up to this may be replaced, as published."),
        _Column("published_share", "below", "share of weights up to it."),
        _Column(
            "scale_free_threshold", "scale-free", "the threshold that is right at every scale of the weights."
        ),
        _Column("scale_free_share", "below that", "share of weights up to that one."),
        _Column("p_value", "p", "how often a true power law would fit worse; below 0.1 it is ruled out."),
        _Column("tail", "tail", "whether the weights can carry the power law that the theorem assumes."),
    ),
}


def _print(record: dict[str, Any], output: Format) -> None:
    if output is Format.json:
        print_json(record)
        return
    if output is Format.csv:
        print_csv(record["layers"])
        return
    columns, margin = _COLUMNS[record["method"]], record["margin"]
    print_table(
        [
            {"layer": row["name"]} | {each.title: _cell(row[each.key]) for each in columns}
            for row in record["layers"]
        ],
        title=f"What the theorem would require at a margin of {margin['gamma']:.3g}, which "
        f"{margin['share']:.1%} of the examples miss",
    )
    for each in columns:
        typer.echo(f"  {each.title}: {each.sentence}")
    typer.echo("")
    print_table(
        [
            {
                "layer": row["name"],
                "weights": _cell(row["weights"]),
                "the theorem asks for": _cell(row["asked"]),
                "measurement reaches": _cell(row["reached"]),
            }
            for row in record["layers"]
        ],
        title="Numbers to keep",
    )
    typer.echo(
        "  the theorem asks for: numbers that have to stand for the layer, by the conditions as corrected "
        "where they can be."
    )
    typer.echo(
        "  measurement reaches: numbers at the smallest setting whose decoded network keeps its error; "
        "- where none does."
    )
    typer.echo("")
    for text in (record["verdict"], record["measured"]["verdict"], *record["notes"]):
        typer.echo(text)
    typer.echo(_NO_GUARANTEE)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if not isinstance(value, int | float):
        return str(value)
    if value >= 1e9:
        return f"{value:.2e}"
    return f"{value:,.0f}" if isinstance(value, int) or value >= 1000.0 else f"{value:.3g}"
