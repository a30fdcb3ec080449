"""``codebound plan`` as a function: what a theorem would ask of a network, and what measurement reaches."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from codebound import __version__
from codebound.cli.actions import record_options
from codebound.run.device import resolve_device
from codebound.run.files import finite, write_json
from codebound.run.progress import NOBODY, Listener
from codebound.run.store import optional_folder
from codebound.sample.load import load_dataset
from codebound_networks.about_f.given import load_network
from codebound_papers.arora18.requirements import ProjectRequirements, project_requirements
from codebound_papers.guha23.requirements import MbpRequirements, mbp_requirements
from codebound_papers.measure.noise.quantities import StabilitySettings
from codebound_papers.measure.record import MeasureSettings, measure_facts
from codebound_papers.measure.steps import draw_examples, fold_and_wrap, fold_strictly
from codebound_papers.measure.summary import choose_noise
from codebound_papers.plan.minimum import measured_minimum
from codebound_papers.shin21.requirements import HeavytailRequirements, heavytail_requirements

Requirements = ProjectRequirements | MbpRequirements | HeavytailRequirements

_THEOREMS: dict[str, Callable[..., Requirements]] = {
    "project": project_requirements, "mbp": mbp_requirements, "heavytail": heavytail_requirements
}  # fmt: skip
_CHUNK = 64  # examples at a time


def plan_from_options(
    options: Mapping[str, Any], *, out: Path | None = None, listener: Listener = NOBODY
) -> dict[str, Any]:
    """Both results as they are printed; what is not finite is null. A new folder gets the record."""
    method, seed, place = options["method"], options["seed"], resolve_device(options["device"])
    noise, words = choose_noise("gaussian", seed)
    whole = load_dataset(options["data"], folder=options["data_folder"])
    folded = fold_and_wrap(load_network(options["model"], whole, options["weights"]).to(place), whole)
    work, network = folded.workload, fold_strictly(folded.network)
    count = work.examples if options["examples"] is None else options["examples"]
    sample = draw_examples(whole, count, seed=seed)
    probes, biases = work.probes("output"), options["biases"]
    asked = MeasureSettings(
        families=("margins", "norms") if method == "mbp" else ("margins", "norms", "stability"),
        sample_size=whole.n,
        delta=options["delta"],
        margin_share=options["margin_share"],
        stability=StabilitySettings(probes=probes, smoothness=noise, biases=biases, seed=seed),
        dtype=torch.float64,
        chunk_size=_CHUNK,
        device=str(place),
        seed=seed,
    )
    with optional_folder(out) as folder:
        with listener.bar("requirements") as progress:
            measured = measure_facts(folded, sample, asked, progress=progress)
            required = _THEOREMS[method](measured, progress=progress)
        with listener.bar("measurement") as progress:
            data, tolerance = sample.on(place), options["tolerance"]
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
    }
    of_the_run = {"smoothness": words, "device": str(place), "codebound": __version__}
    record = {
        "method": method,
        "guarantee": "none",
        **finite(results),
        "sample": {"data": options["data"], "n": whole.n, "measured": sample.n, "sha256": sample.sha256},
        "settings": record_options(options) | of_the_run,
    }
    if folder is not None:
        write_json(folder / "plan.json", record)
    listener.note(
        f"Measured on {sample.n:,} of {whole.n:,} examples; a theorem takes the worst of all of them."
    )
    return record
