"""Claims about the original network f, by way of g: distance on a domain, or disagreements (section 7).

Reached when the statement is C-12a (f and g are near each other on a whole domain) or C-12b (they seldom
disagree on fresh unlabelled inputs), and the weights of f are given.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..checks import too_many
from ..refusal import Refused
from ..sample import Inputs, Progress, canonical_inputs, count_repeats, count_shared, sample_sha256
from ..weights import same_tensors
from .chain import Chain, Layout, parse_chain
from .evaluation import Evaluator, chain_evaluator, count_disagreements
from .operations import KINDS
from .rounding import NO_NORM, SPECTRAL_ROUNDING, filter_norm, matrix_norm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..header import Disagreement, Domain, Header, Scaling
    from ..weights import Floats
    from .network import Network
    from .tensors import Doubles, Shape

POOLS = ("max pool", "average pool", "global average pool")  # of norm at most 1


def check_domain(header: Header, domain: Domain, network: Network, subject: Mapping[str, Floats]) -> None:
    """Check that theta covers the distance of f and g on the whole domain (section 7.1)."""
    assert network.theta is not None  # the statement is C-12a
    same_tensors(subject, domain.subject_sha256, "Subject")
    _require_layout(subject, network.chain.layout())
    try:
        distance = deviation(network.chain, subject, network.tensors, scaling=header.scaling, domain=domain)
    except NO_NORM as error:
        raise Refused(f"C-12a: a spectral norm cannot be computed ({error}).") from None
    needed = math.sqrt(2) * distance
    if not network.theta >= needed:
        raise Refused(
            f"C-12a: the margin theta is {network.theta:.6g}; "
            f"the margins of f and g can differ by {needed:.6g}."
        )


def subject_evaluator(
    header: Header, extra: Disagreement, subject: Mapping[str, Floats], progress: Progress | None
) -> Evaluator:
    """The original network f of C-12b, if its tensors are those that the header names."""
    same_tensors(subject, extra.subject_sha256, "Subject")
    chain = parse_chain(extra.subject_chain, header.input_shape, header.classes)
    _require_layout(subject, chain.layout())
    return chain_evaluator(chain, subject, header=header, progress=progress)


def check_disagreements(
    header: Header,
    extra: Disagreement,
    networks: tuple[Evaluator, Evaluator],
    *,
    unlabelled: Inputs,
    sample: Inputs,
    allow_copies: bool,
) -> None:
    """Check that the networks disagree on no more unlabelled inputs than stated (section 7).

    The inputs must be fresh: none of them occurs in the sample, and few occur twice.
    """
    x = canonical_inputs(unlabelled)
    if len(x) != extra.n_unlabelled or x.shape[1:] != header.input_shape:
        raise Refused(
            f"Unlabelled: found {len(x)} inputs of shape {x.shape[1:]}; the certificate is about "
            f"{extra.n_unlabelled} of shape {header.input_shape}."
        )
    if (found := sample_sha256(x, np.zeros(len(x), np.int64))) != extra.unlabelled_sha256:
        raise Refused(
            f"Unlabelled: the inputs have SHA-256 {found}; "
            f"the certificate is about {extra.unlabelled_sha256}."
        )
    if shared := count_shared(sample, x):
        raise Refused(
            f"Unlabelled: {shared} of the {len(x)} inputs occur in the sample; they have to be a fresh draw."
        )
    repeats = count_repeats(x, np.zeros(len(x), np.int64))
    if reasons := too_many(repeats, "unlabelled inputs", allow_copies=allow_copies):
        raise Refused(*reasons)
    if (count := count_disagreements(*networks, x, header.loss)) > extra.disagreements:
        raise Refused(
            f"Facts: f and g disagree on {count} of {len(x)} unlabelled inputs; "
            f"the certificate states {extra.disagreements}."
        )


def _require_layout(subject: Mapping[str, Floats], layout: Layout) -> None:
    found = {name: values.shape for name, values in subject.items()}
    if found != dict(layout):
        differing = sorted({*found.items(), *layout} - (found.items() & {*layout}))
        raise Refused(
            "Subject: the tensors of f are not those of its chain; they differ in "
            + ", ".join(f"{name} {shape}" for name, shape in differing[:6])
            + "."
        )


def deviation(
    chain: Chain, f: Mapping[str, Floats], g: Mapping[str, Floats], *, scaling: Scaling, domain: Domain
) -> float:
    """An upper bound of the Euclidean distance of the outputs of f and g over all inputs of the domain."""
    e, m = 0.0, _input_norm(chain.inputs[0], scaling, domain)
    for position, (operation, seen) in enumerate(zip(chain.operations, chain.inputs, strict=True)):
        if operation.kind in POOLS:
            continue
        if operation.kind not in ("linear", "conv"):
            raise Refused(
                f"C-12a: the chain has a {operation.kind} operation, which this statement does not allow."
            )
        norm, weight = matrix_norm, f"{position}.weight"
        if operation.kind == "conv":
            height, width = (side + 2 * operation.padding for side in seen[1:])
            norm = partial(filter_norm, grid=(height, width))
        a = norm(f[weight].astype(np.float64))
        u = norm(g[weight].astype(np.float64) - f[weight].astype(np.float64))
        bias = change = 0.0
        if operation.bias:
            name = f"{position}.bias"
            repeats = math.sqrt(math.prod(KINDS[operation.kind].output(operation, seen)[1:]))  # pixels
            bias = repeats * _length(f[name].astype(np.float64))
            change = repeats * _length(g[name].astype(np.float64) - f[name].astype(np.float64))
        e, m = (a + u) * e + u * m + change, a * m + bias
    return e


def _input_norm(shape: Shape, scaling: Scaling, domain: Domain) -> float:
    channels = shape[0] if len(shape) == 3 else 1
    mean, std = (np.broadcast_to(np.array(values), channels) for values in (scaling.mean, scaling.std))
    per_channel = math.prod(shape) // channels
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite norm is more than any theta covers
        low, high = (
            np.abs((value / scaling.divisor - mean) / std) for value in (domain.input_low, domain.input_high)
        )
        return math.sqrt(per_channel * float((np.maximum(low, high) ** 2).sum()))


def _length(vector: Doubles) -> float:
    return float(np.linalg.norm(vector)) * (1 + SPECTRAL_ROUNDING)
