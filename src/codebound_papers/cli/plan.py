"""``codebound plan``: what a compression theorem would ask of a network, and what measurement reaches."""

from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, listener
from codebound.cli.options import option
from codebound.report.templates import Table
from codebound_papers.cli import options as own

_METHOD = "project (Arora et al. 2018), mbp (Guha et al. 2023) or heavytail (Shin 2021)."
_TOLERANCE = "By how much the error on the examples may rise in the measured part."
_NO_GUARANTEE = (
    "None of these numbers is a guarantee: a theorem has conditions, and errors were counted on the examples "
    "that chose the setting. `codebound certify` may choose so too, because it pays for the message."
)


class Theorem(str, Enum):
    """The theorems, by the compressor that they are about."""

    project = "project"
    mbp = "mbp"
    heavytail = "heavytail"


def command(
    model: opt.Model,
    data: opt.Data,
    method: Annotated[Theorem, option(_METHOD)],
    weights: opt.Weights = None,
    data_folder: opt.DataFolder = None,
    delta: Annotated[float, option("How likely the random choices may fail.")] = 0.05,
    margin_share: Annotated[float, option(own.MARGIN_SHARE)] = 0.1,
    tolerance: Annotated[float, option(_TOLERANCE)] = 0.01,
    examples: own.Examples = None,
    biases: own.Biases = "augmented",
    device: opt.Device = "auto",
    seed: own.NaturalSeed = 0,
    out: opt.SomeFolder = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Compare the requirements of a compression theorem with what measurement reaches.

    Example: codebound plan --model mlp --network runs/w/model.safetensors --data digits --method mbp
    """
    options = dict(locals()) | {"method": method.value}
    from codebound_papers.plan.network_plan import plan_from_options

    hear = listener(quiet=quiet)
    record = plan_from_options(options, out=out, listener=hear)
    emit(record, output, _format(record), rows=record["layers"])
    if out is not None:
        hear.note(f"Written to {out / 'plan.json'}.")


_WEIGHTS = "weights", "how many the layer has, biases aside."
_ACCURACY = "accuracy", "by how much, relative to its Frobenius norm, the layer may be off in any direction."
_PUBLISHED = "numbers for the layer by lemma 3; for a convolution by algorithm 4, with Q = 1."
# of a row, by method: the title of each value, and what it says
_COLUMNS = {
    "project": {
        "weights": _WEIGHTS,
        "inputs": ("inputs", "how many numbers the layer reads."),
        "cushion": ("cushion", "how well the worst example gets through the layer, compared with noise."),
        "interlayer_cushion": ("interlayer", "the same for the layers behind it, 1/sqrt(outputs) at best."),
        "epsilon": _ACCURACY,
        "published": ("as published", _PUBLISHED),
        "count": ("corrected", "numbers with which the proof goes through; none is known for convolutions."),
        "least_inputs": ("inputs needed", "fewer than that, and no cushions let lemma 3 compress it."),
    },
    "mbp": {
        "weights": _WEIGHTS,
        "norm": ("norm", "spectral norm of the layer's matrix; pruning may change it by norm / depth."),
        "kept_exact": ("kept", "least share of weights to keep, if the change is measured."),
        "strength_exact": ("strength", "the strength of pruning, d, that goes with it."),
        "kept_markov": ("kept by lemma", "least share of weights to keep by lemma 4.2 and Markov."),
        "strength_markov": ("strength by lemma", "the strength of pruning that goes with that."),
        "change_norm": ("Gamma", "the norm of the change that lemma 4.2 then expects, with C = 1."),
    },
    "heavytail": {
        "weights": _WEIGHTS,
        "epsilon": _ACCURACY,
        "rms": ("rms", "root mean square of the weights."),
        "published_threshold": ("threshold", "weights up to this may be replaced, as published."),
        "published_share": ("below", "share of weights up to it."),
        "scale_free_threshold": ("scale-free", "the threshold that is right at every scale of the weights."),
        "scale_free_share": ("below that", "share of weights up to that one."),
        "p_value": ("p", "how often a true power law would fit worse; below 0.1 it is ruled out."),
        "tail": ("tail", "whether the weights can carry the power law that the theorem assumes."),
    },
}
_NUMBERS = {
    "the theorem asks for": "numbers that have to stand for the layer, by the conditions as corrected where "
    "they can be.",
    "measurement reaches": "numbers at the smallest setting whose decoded network keeps its error; - where "
    "none does.",
}


def _format(record: dict[str, Any]) -> Iterator[Table | str]:
    from codebound.bounds.risk import rate

    def rows(titles: dict[str, str]) -> list[dict[str, str]]:
        return [
            {"layer": row["name"]} | {title: _cell(row[key]) for key, title in titles.items()}
            for row in record["layers"]
        ]

    columns, margin = _COLUMNS[record["method"]], record["margin"]
    gamma, share = f"{margin['gamma']:.3g}", rate(margin["share"], 1)
    title = f"What the theorem would require at a margin of {gamma}, which {share} of the examples miss"
    yield Table(title, rows({key: title for key, (title, _) in columns.items()}), dict(columns.values()))
    kept = dict(zip(("weights", "asked", "reached"), ("weights", *_NUMBERS), strict=True))
    yield Table("Numbers to keep", rows(kept), _NUMBERS)
    yield from (record["verdict"], record["measured"]["verdict"], *record["notes"], _NO_GUARANTEE)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if not isinstance(value, int | float):
        return str(value)
    if value >= 1e9:
        return f"{value:.2e}"
    return f"{value:,.0f}" if isinstance(value, int) or value >= 1000.0 else f"{value:.3g}"
