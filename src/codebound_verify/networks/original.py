"""The network f that was given: its distance from g, its predictions (docs/format.md, section 9)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..refusal import Refused
from ..weights import same_tensors
from .chain import Chain, make_chain
from .operations import KINDS
from .rounding import NO_NORM, SPECTRAL_ROUNDING, filter_norm, matrix_norm, spectral_cost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ..header import Header
    from .network import Network
    from .scaling import Scaling
    from .tensors import Doubles, Floats, Shape

    Tensors = Mapping[str, Floats]

POOLS = ("max pool", "average pool", "global average pool")  # of norm at most 1
COST_LIMIT = 1 << 38  # of all spectral norms: some minutes


def original_network(header: Header, network: Network, subject: Mapping[str, NDArray[Any]]) -> Network:
    """The network f, from its weights and the chain of the header; inputs are scaled as for g (9.1)."""
    original = header.original
    assert original is not None  # else nobody asks
    assert original.chain is not None
    chain = make_chain(original.chain, header.sample.input_shape, header.sample.classes)
    tensors = same_tensors(subject, original.sha256, "Subject")
    _require_layout(tensors, chain)
    return replace(network, chain=chain, tensors=tensors)


def check_domain(f: Network, g: Network, domain: tuple[float, float]) -> None:
    """Check that the sample is in the domain, and that theta covers the distance of f and g on it (9.2)."""
    low, high = domain
    if not (low <= g.x.min() and g.x.max() <= high):
        raise Refused(
            f"Original: stored values go from {g.x.min():.6g} to {g.x.max():.6g}; the domain is "
            f"[{low:.6g}, {high:.6g}]."
        )
    if f.chain.operations != g.chain.operations:
        raise Refused("Original: its chain is not that of g; on a domain both have one.")
    try:
        distance = deviation(g.chain, f.tensors, g.tensors, scaling=g.scaling, domain=domain)
    except NO_NORM as error:
        raise Refused(f"Original: a spectral norm cannot be computed ({error}).") from None
    needed = math.sqrt(2) * distance
    if not g.theta >= needed:
        raise Refused(
            f"Original: the margin theta is {g.theta:.6g}; the margins of f and g can differ by {needed:.6g}."
        )


def _require_layout(subject: Mapping[str, Floats], chain: Chain) -> None:
    found, layout = {name: values.shape for name, values in subject.items()}, chain.layout()
    if found != dict(layout):
        differing = sorted({*found.items(), *layout} - (found.items() & {*layout}))
        told = ", ".join(f"{name} {shape}" for name, shape in differing[:6])
        raise Refused(f"Subject: the tensors of f are not those of its chain; they differ in {told}.")


def deviation(
    chain: Chain, f: Tensors, g: Tensors, *, scaling: Scaling, domain: tuple[float, float]
) -> float:
    """An upper bound of the Euclidean distance of the outputs of f and g over all inputs of the domain."""
    e, m, cost = 0.0, _input_norm(chain.inputs[0], scaling, domain), 0
    for position, (operation, seen) in enumerate(zip(chain.operations, chain.inputs, strict=True)):
        if operation.kind in POOLS:
            continue
        if operation.kind not in ("linear", "conv"):
            raise Refused(f"Original: on a domain its chain may have no {operation.kind}.")
        weight, frequencies, norm = f"{position}.weight", 1, matrix_norm
        if operation.kind == "conv":
            height, width = (side + 2 * operation.padding for side in seen[1:])
            frequencies, norm = height * width, partial(filter_norm, grid=(height, width))
        cost += 2 * spectral_cost(f[weight].shape[:2], frequencies)
        if cost > COST_LIMIT:
            raise Refused(f"Original: its spectral norms take more than {COST_LIMIT} multiplications.")
        a = norm(f[weight])
        u = norm(g[weight].astype(np.float64) - f[weight])
        bias = change = 0.0
        if operation.bias:
            name = f"{position}.bias"
            repeats = math.sqrt(math.prod(KINDS[operation.kind].output(operation, seen)[1:]))  # pixels
            bias = repeats * _length(f[name].astype(np.float64))
            change = repeats * _length(g[name].astype(np.float64) - f[name])
        e, m = (a + u) * e + u * m + change, a * m + bias
    return e


def _input_norm(shape: Shape, scaling: Scaling, domain: tuple[float, float]) -> float:
    """The norm of the largest scaled inputs."""
    mean, std = scaling.constants(shape)
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite norm is more than any theta covers
        ends = [np.abs((value / scaling.divisor - mean) / std) for value in domain]
        return _length(np.broadcast_to(np.maximum(*ends), shape).ravel())


def _length(vector: Doubles) -> float:
    return float(np.linalg.norm(vector)) * (1 + SPECTRAL_ROUNDING)
