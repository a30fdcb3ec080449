"""The network f that was given: and how far g is from it (docs/format.md, section 9)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checklist import Given, Mapped
from ..claim import DISAGREEMENT
from ..counting import Tally
from ..header import Header, Unlabelled
from ..losses import Array, Mask
from ..order import by_input, count_shared, number_of
from ..refusal import Lacking, Refused
from ..sample import Data, as_stored, hash_arrays
from ..tables import Source, read_answers
from ..weights import same_tensors
from .chain import Chain, make_chain
from .evaluation import Evaluator, NetworkScores
from .network import Network
from .operations import KINDS
from .rounding import NO_NORM, SPECTRAL_ROUNDING, filter_norm, matrix_norm, spectral_cost
from .scaling import Scaling
from .tensors import Doubles, Floats, Shape

Tensors = Mapping[str, Floats]

POOLS = ("max pool", "average pool", "global average pool")  # of norm at most 1
COST_LIMIT = 1 << 38  # of all spectral norms: some minutes


def carry_over(
    header: Header, g: Network, own: Evaluator, given: Given, data: Data
) -> tuple[Evaluator | None, Tally | None, list[Mapped]]:
    """Check what carries over from g, which ``own`` evaluates, to f.

    The evaluator of f, if its chain is known; the count of disagreements, unless theta covers a domain; and
    the unlabelled inputs, if they are mapped from a file.
    """
    original, other = header.original, None
    assert original is not None  # else nobody asks
    unlabelled = original.unlabelled
    if original.chain is not None:
        if given.subject_weights is None:
            raise Lacking("the weights of f (--subject-weights)")
        f = original_network(header, g, given.subject_weights)
        if original.domain is not None:
            check_domain(f, g, original.domain)
        other = NetworkScores(f).evaluator
    if unlabelled is None:
        return other, None, []
    if given.unlabelled is None:
        raise Lacking("the unlabelled inputs (--unlabelled)")
    inputs = check_unlabelled(unlabelled, given.unlabelled, data)
    mapped = list[Mapped]()
    if isinstance(inputs, np.memmap):
        mapped.append(("the unlabelled inputs", unlabelled.sha256, (inputs,), data.is_cells))
    if other is not None:
        answers, is_unclear = other.predict(inputs)
    elif given.answers is None:
        raise Lacking("the answers of f (--answers)")
    else:
        answers, is_unclear = read_labels(given.answers, original.sha256, unlabelled.rows)
    labels, is_in_doubt = own.predict(inputs)
    is_different = (labels != answers) | is_in_doubt | is_unclear
    return other, count_disagreements(is_different, inputs, header.sample.copies), mapped


def original_network(header: Header, network: Network, subject: Mapping[str, NDArray[Any]]) -> Network:
    """The network f, from its weights and the chain of the header. Inputs are scaled as for g (9.1)."""
    original = header.original
    assert original is not None  # else nobody asks
    assert original.chain is not None
    chain = make_chain(original.chain, header.sample.input_shape, header.sample.classes)
    tensors = same_tensors(subject, original.sha256, "Subject")
    _require_layout(tensors, chain)
    return replace(network, chain=chain, tensors=tensors)


def check_unlabelled(stated: Unlabelled, x: Array, data: Data) -> Array:
    """The unlabelled inputs as stored, if they are those of the header and none is in the sample."""
    x = as_stored(x, is_cells=data.is_cells)
    if (len(x), x.shape[1:]) != (stated.rows, data.x.shape[1:]):
        raise Refused(
            f"Unlabelled inputs: {len(x)} of shape {x.shape[1:]} are given; the file is about {stated.rows} "
            f"of shape {data.x.shape[1:]}."
        )
    if (found := hash_arrays(x, is_cells=data.is_cells)) != stated.sha256:
        raise Refused(f"Unlabelled inputs: their SHA-256 is {found}; the header names {stated.sha256}.")
    if shared := count_shared(data.x, x):
        raise Refused(f"Unlabelled inputs: {shared} of them are inputs of the sample too.")
    return x


def read_labels(source: Source, sha256: str, rows: int) -> tuple[NDArray[np.int64], Mask]:
    """Predictions of f by declared answers, and a mask of those where two scores are the largest."""
    scores = read_answers(source, sha256, rows)
    is_best = scores == scores.max(axis=1, keepdims=True)
    return is_best.argmax(axis=1), is_best.sum(axis=1) > 1


def count_disagreements(is_different: Mask, x: Array, copies: str) -> Tally:
    """Count the inputs on which f and g differ or either is in doubt, and copies as in 6.3."""
    inputs = number_of(by_input(x))
    wrong, right = inputs[is_different], inputs[~is_different]
    if copies != "independent":
        right = np.unique(right)
    if copies == "repeated":
        wrong = np.unique(wrong)
        right = np.setdiff1d(right, wrong)
    return Tally(DISAGREEMENT, len(wrong), len(wrong) + len(right))


def check_domain(f: Network, g: Network, domain: tuple[float, float]) -> None:
    """Check that the sample is in the domain, and that theta covers the distance of f and g on it (9.2)."""
    low, high = domain
    smallest, largest = float(g.x.min()), float(g.x.max())  # NumPy would round an end to float32
    if not (low <= smallest and largest <= high):
        raise Refused(
            f"Original: stored values go from {smallest:.6g} to {largest:.6g}; the domain is "
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
