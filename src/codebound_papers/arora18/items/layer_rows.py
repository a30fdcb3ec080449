"""A measured network as rows of an item: noises, histograms and quantiles by layer, and facts out of them."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from codebound.run.files import finite
from codebound_networks.reading.walk import Network
from codebound_networks.train.rng import torch_stream
from codebound_papers.facts import LayerFacts, NetworkFacts
from codebound_papers.measure.noise.quantities import Perturb
from codebound_papers.measure.noise.result import Distribution, Quantity, Stability
from codebound_papers.reproduce.items import Row

QUANTITIES: dict[Quantity, str] = {
    "cushion": "layer cushion",
    "interlayer": "interlayer cushion (not clipped)",
    "contraction": "activation contraction",
    "smoothness": "interlayer smoothness",
    "spread": "Jacobian spread beta",
    "noise": "length of the noise, relative",
}
"""Quantities with a value for every example and layer, and their names in figures."""

_BINS = 20
_LEVELS = (0.0, 0.05, 0.5, 0.95, 1.0)


def gaussian(size: float) -> str:
    """The name of a Gaussian noise."""
    return f"Gaussian, {size:g} of the activation"


def projection(numbers: float) -> str:
    """The name of a noise of Matrix-Project."""
    return f"Algorithm 1, {numbers:,.0f} number{'s' * (numbers > 1.0)} a weight"


def projection_noise(numbers: float) -> Perturb:
    """Return the noise of Matrix-Project without signs, at so many numbers a weight.

    ``(1/k) sum <A, M> M`` is a mean of k independent matrices: for k in the thousands a Gaussian one, with
    mean A and covariance ``(||A||_F^2 I + a a^T - 2 diag(a^2)) / k``, of which the last part is left out.
    """

    def perturb(matrix: torch.Tensor, seed: int) -> torch.Tensor:
        generator, k = torch_stream(seed, "projection noise"), numbers * matrix.numel()
        noise = torch.randn(matrix.shape, generator=generator, dtype=matrix.dtype)
        along = torch.randn((), generator=generator, dtype=matrix.dtype)
        moved: torch.Tensor = matrix + (matrix.norm() * noise + along * matrix) / math.sqrt(k)
        return moved

    return perturb


def describe_layers(found: Stability, network: Network) -> Row:
    """Every layer that was measured, and on how many examples."""
    return {
        "examples": found.n,
        "undefined": found.undefined,
        "layers": [_layer(found, index, network) for index in range(len(found.sites))],
    }


def _layer(found: Stability, index: int, network: Network) -> dict[str, Any]:
    site, worst, names = found.sites[index], found.layers[index], [view.name for view in network.layers]
    described: dict[str, Row] = {}
    for quantity in QUANTITIES:
        if found.has(quantity, site.name):
            # the spread of the paper is that of the map to the output
            values = found.distribution(quantity, site.name, target=names[-1] if quantity == "spread" else "")
            is_log = quantity in ("smoothness", "noise")
            described[quantity] = as_histogram(values, scale="log" if is_log else "linear")
    return {
        "layer": site.name,
        "number": names.index(site.name) + 1,
        "width": site.width,
        "clip": site.self_cushion,
        "frobenius": site.frobenius,
        "distance": site.distance,
        "minimal_interlayer": worst.minimal_interlayer,
        **described,
    }


def as_histogram(values: Distribution, *, scale: Literal["linear", "log"]) -> Row:
    """A histogram and quantiles; the bins are equal on the scale."""
    is_log = scale == "log"
    counts, edges = values.histogram(_BINS, is_log=is_log)
    return {
        "n": values.n,
        "scale": scale,
        "counts": counts.tolist(),
        "edges": (np.exp(edges) if is_log else edges).tolist(),
        "quantiles": {f"{level:g}": finite(value) for level, value in values.quantiles(_LEVELS).items()},
    }


def with_stability(facts: LayerFacts, row: Row, *, level: float = 0.0) -> LayerFacts:
    """The facts of a layer with its cushions at a quantile, and what should be small at the opposite one."""

    def at(quantity: str, level: float) -> float | None:
        return row[quantity]["quantiles"][f"{level:g}"] if quantity in row else None

    interlayer = at("interlayer", level)
    return replace(
        facts,
        cushion=at("cushion", level),
        interlayer_cushion=row["clip"] if interlayer is None else min(row["clip"], interlayer),
        contraction=at("contraction", 1.0 - level),
        spread=at("spread", 1.0 - level),
    )


def facts_of(record: Mapping[str, Any]) -> NetworkFacts:
    """The facts of a measured network."""
    facts = dict(record["facts"])
    layers = tuple(LayerFacts(**layer) for layer in facts.pop("layers"))
    return NetworkFacts(layers=layers, **facts)


def facts_at(record: Mapping[str, Any], level: float) -> NetworkFacts:
    """The same with every quantity of noise stability at a quantile of its own: the worst, at 0."""
    facts, rows = facts_of(record), {row["layer"]: row for row in record["layers"]}
    layers = tuple(with_stability(layer, rows[layer.name], level=level) for layer in facts.layers)
    return replace(facts, layers=layers)
