"""``codebound plan`` as a function: what a theorem would ask of a network, and what measurement reaches."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from codebound import __version__
from codebound.cli.actions import record_options
from codebound.run.device import resolve_device
from codebound.run.errors import UsageError
from codebound.run.files import finite, optional_folder, write_json
from codebound.run.progress import NOBODY, Listener, Progress, silent
from codebound.sample.dataset import Sample
from codebound.sample.load import load_sample
from codebound_networks.about_f.models import load_network
from codebound_papers.arora18.arora_requirements import ProjectRequirements, project_requirements
from codebound_papers.guha23.guha_requirements import MbpRequirements, mbp_requirements
from codebound_papers.measure.noise.quantities import StabilitySettings
from codebound_papers.measure.record import MeasureSettings, measure_facts
from codebound_papers.measure.steps import draw_examples, fold_and_wrap, fold_strictly
from codebound_papers.measure.summary import choose_noise
from codebound_papers.plan.minimum import measured_minimum
from codebound_papers.shin21.shin_requirements import HeavytailRequirements, heavytail_requirements

Requirements = ProjectRequirements | MbpRequirements | HeavytailRequirements

_THEOREMS: dict[str, Callable[..., Requirements]] = {
    "project": project_requirements, "mbp": mbp_requirements, "heavytail": heavytail_requirements
}  # fmt: skip
_CHUNK = 64  # examples at a time


def plan_from_options(
    options: Mapping[str, Any], *, out: Path | None = None, listener: Listener = NOBODY
) -> dict[str, Any]:
    """Both results as they are printed; what is not finite is null. A new folder gets the record."""
    whole = load_sample(options["data"], folder=options["data_folder"])
    network, place = (
        load_network(options["model"], whole, options["weights"]),
        resolve_device(options["device"]),
    )
    names = ("examples", "delta", "margin_share", "tolerance", "biases", "seed")
    chosen = {name: options[name] for name in names} | {"device": str(place)}
    with optional_folder(out) as folder:
        with listener.bar("plan") as progress:
            results = plan(network, whole, options["method"], **chosen, progress=progress)
        words = choose_noise("gaussian", options["seed"])[1]
        of_the_run = {"smoothness": words, "device": str(place), "codebound": __version__}
        record = {
            "method": options["method"],
            "guarantee": "none",
            **results,
            "sample": {"data": options["data"], **results["sample"]},
            "settings": record_options(options) | of_the_run,
        }
        if folder is not None:
            write_json(folder / "plan.json", record)
    listener.note(
        f"Measured on {record['sample']['measured']:,} of {whole.n:,} examples; a theorem takes the worst of "
        "all of them."
    )
    return record


def plan(
    model: nn.Module,
    sample: Sample,
    method: str = "mbp",
    *,
    examples: int | None = None,
    delta: float = 0.05,
    margin_share: float = 0.1,
    tolerance: float = 0.01,
    biases: Literal["augmented", "separate"] = "augmented",
    device: str = "cpu",
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Requirements of a compression theorem on a network, and what measurement reaches, as JSON values.

    Nothing in it is a guarantee. As many ``examples`` are measured as the size of the network allows.

    >>> from codebound.sample.load import load_sample
    >>> digits = load_sample("digits").select(range(40), role="train")
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))
    >>> [layer["name"] for layer in plan(network, digits, "mbp", margin_share=0.98)["layers"]]
    ['1']
    """
    if method not in _THEOREMS:
        raise UsageError(f"a plan is for {', '.join(_THEOREMS)}. Got {method!r}.")
    noise, _ = choose_noise("gaussian", seed)
    folded = fold_and_wrap(copy.deepcopy(model).to(device), sample)
    work, network = folded.workload, fold_strictly(folded.network)
    part = draw_examples(sample, work.examples if examples is None else examples, seed=seed)
    probes = work.probes("output")
    asked = MeasureSettings(
        families=("margins", "norms") if method == "mbp" else ("margins", "norms", "stability"),
        sample_size=sample.n,
        delta=delta,
        margin_share=margin_share,
        stability=StabilitySettings(probes=probes, smoothness=noise, biases=biases, seed=seed),
        dtype=torch.float64,
        chunk_size=_CHUNK,
        device=device,
        seed=seed,
    )
    measured = measure_facts(folded, part, asked, progress=progress)
    required = _THEOREMS[method](measured, progress=progress)
    data = part.on(device)
    found = measured_minimum(network, data, method, tolerance=tolerance, seed=seed, progress=progress)
    facts, margins, stored = measured.facts, measured.margins, found.reached.stored if found.reached else {}
    results = {
        "verdict": required.verdict,
        "layers": [
            asdict(each) | {"asked": each.asked, "reached": stored.get(each.name)} for each in required.layers
        ],
        "network": {key: each for key, each in asdict(required).items() if key not in ("layers", "notes")},
        "margin": {
            "gamma": facts.margin,
            "share": facts.margin_loss,
            "error": margins.loss(),
            "largest_output": facts.largest_output,
            "largest_input": facts.input_norm,
            "measured": margins.n,
        },
        "measured": asdict(found) | {"verdict": found.verdict},
        "notes": list(required.notes),
        "sample": {"n": sample.n, "measured": part.n, "sha256": sample.sha256},
    }
    return dict(finite(results))
