"""What the figures of Arora et al. 2018 show of a network, as numbers: histograms by layer, and facts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from codebound.device import exact_convolutions
from codebound.files import finite
from codebound_papers.facts import LayerFacts, NetworkFacts
from codebound_papers.measure.folded import draw_examples
from codebound_papers.measure.noise.meter import StabilitySettings, stability
from codebound_papers.measure.noise.quantities import Smoothness
from codebound_papers.measure.noise.result import Distribution
from codebound_papers.measure.outputs import margin_report
from codebound_papers.measure.record import MeasureSettings, measure_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codebound.nets.walk import Network
    from codebound.progress import Progress
    from codebound_papers.measure.noise.result import Quantity, Stability
    from codebound_papers.reproduce.items import Row
    from codebound_papers.reproduce.samples import Samples

QUANTITIES: dict[Quantity, str] = {
    "cushion": "layer cushion",
    "interlayer": "interlayer cushion (not clipped)",
    "contraction": "activation contraction",
    "smoothness": "interlayer smoothness",
    "spread": "Jacobian spread beta",
}
"""What has a value for every example and layer, and its name in figures."""

GAMMA = (
    "gamma is the margin that a tenth of the training images stays below, besides those that are errors; the "
    "paper does not say."
)
"""How `measure_bound` chooses the margin, for the list of deviations."""

_BINS = 20
_LEVELS = (0.0, 0.05, 0.5, 0.95, 1.0)
_PIXELS = 16
_NOISE = 0.1  # relative to the activation it is added to
_CHUNK = {"cpu": 50, "cuda": 500}  # examples at a time: what stays near a cache, or keeps a GPU busy
_MARGIN_SHARE, _MOST = 0.1, 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How much is measured of a network.

    Attributes:
        examples: Training examples, drawn at random.
        interlayer: Pairs of layers whose Jacobians count: each with the output, or each with all later ones.
        probes: For the norms of Jacobians to hidden layers; those to no more outputs than probes are exact.
        draws: Noise draws for smoothness; none when 0.
    """

    examples: int
    interlayer: Literal["none", "output", "all"] = "all"
    probes: int = 16
    draws: int = 0


def measure_layers(
    network: Network,
    samples: Samples,
    measuring: Measuring,
    *,
    seed: int,
    device: str,
    progress: Progress,
    layers: Sequence[str] | None = None,
) -> Row:
    """Histograms, quantiles and worst values of layers; labels are not looked at.

    Args:
        network: The network.
        samples: Of which training examples are drawn.
        measuring: How much.
        seed: Of random choices.
        device: Where to compute.
        progress: Told the number of examples that are done.
        layers: Names of the layers; all when None.
    """
    with exact_convolutions():
        found = stability(
            network,
            draw_examples(samples.train, measuring.examples, seed=seed),
            StabilitySettings(
                layers=layers,
                interlayer=measuring.interlayer,
                biases="separate",
                probes=measuring.probes,
                pixels=_PIXELS,
                smoothness=Smoothness(_NOISE, draws=measuring.draws, seed=seed) if measuring.draws else None,
                seed=seed,
            ),
            chunk_size=_CHUNK[torch.device(device).type],
            device=device,
            progress=progress,
        )
    return {
        "examples": found.n,
        "undefined": found.undefined,
        "layers": [_layer(found, index, network) for index in range(len(found.sites))],
    }


def _layer(found: Stability, index: int, network: Network) -> Row:
    site, worst, names = found.sites[index], found.layers[index], [view.name for view in network.layers]
    described: dict[str, Row] = {}
    for quantity in QUANTITIES:
        if found.has(quantity, site.name):
            # the spread of the paper is that of the map to the output
            values = found.distribution(quantity, site.name, target=names[-1] if quantity == "spread" else "")
            described[quantity] = _described(values, scale="log" if quantity == "smoothness" else "linear")
    return {
        "layer": site.name,
        "number": names.index(site.name) + 1,
        "width": site.width,
        "clip": site.self_cushion,
        "minimal_interlayer": worst.minimal_interlayer,
        **described,
    }


def _described(values: Distribution, *, scale: Literal["linear", "log"]) -> Row:
    is_log = scale == "log"
    counts, edges = (Distribution(np.log(values.values)) if is_log else values).histogram(_BINS)
    return {
        "n": values.n,
        "scale": scale,
        "counts": counts.tolist(),
        "edges": (np.exp(edges) if is_log else edges).tolist(),
        "quantiles": {f"{level:g}": finite(value) for level, value in values.quantiles(_LEVELS).items()},
    }


def measure_bound(network: Network, samples: Samples, layers: Row, *, seed: int, device: str) -> Row:
    """Errors, and the facts that the published expressions are told.

    The margin gamma is the one that a tenth of the examples stays below, besides those that are errors: it is
    positive along the whole training.

    Args:
        network: The network.
        samples: With the labels it was trained on.
        layers: What `measure_layers` found.
        seed: Of random choices.
        device: Where to compute.
    """
    asked = MeasureSettings(families=("margins", "norms", "maps"), device=device, seed=seed)
    with exact_convolutions():
        measured = measure_facts(network, samples.train, asked)
    rows = {row["layer"]: row for row in layers["layers"]}
    train_error = measured.margins.loss()
    gamma = measured.margins.quantile(min(train_error + _MARGIN_SHARE, _MOST))
    facts = replace(
        measured.facts,
        layers=tuple(_with_stability(layer, rows[layer.name]) for layer in measured.facts.layers),
        margin=gamma,
        margin_loss=measured.margins.loss(gamma),
    )
    tested = None
    if samples.test is not None:
        tested = margin_report(network.model, samples.test.on(device)).loss()
    return {"train_error": train_error, "test_error": tested, "facts": asdict(facts)}


def _with_stability(facts: LayerFacts, row: Row) -> LayerFacts:
    def worst(quantity: str, level: str) -> float | None:
        return row[quantity]["quantiles"][level] if quantity in row else None

    return replace(
        facts,
        cushion=worst("cushion", "0"),
        interlayer_cushion=row["minimal_interlayer"],
        contraction=worst("contraction", "1"),
        spread=worst("spread", "1"),
    )


def facts_of(record: Mapping[str, Any]) -> NetworkFacts:
    """The facts that `measure_bound` has written down."""
    facts = dict(record["facts"])
    layers = tuple(LayerFacts(**layer) for layer in facts.pop("layers"))
    return NetworkFacts(layers=layers, **facts)
