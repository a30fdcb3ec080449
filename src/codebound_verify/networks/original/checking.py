"""Checks that carry a claim from g to f, by a margin or by disagreements (docs/format.md, section 7)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...checks import too_many
from ...refusal import Refused
from ...rows import count_repeats, count_shared
from ...sample import Inputs, Progress, canonical_inputs, sample_sha256
from ...weights import same_tensors
from ..chain import Layout, described_chain
from ..evaluate import Evaluator, chain_evaluator, count_disagreements
from ..rounding import NO_NORM
from .domain import deviation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...header import Disagreement, Domain, Header
    from ...weights import Floats
    from ..message import Network


def check_domain(header: Header, domain: Domain, network: Network, subject: Mapping[str, Floats]) -> None:
    """Check that theta covers the distance of f and g on the whole domain (section 7.1)."""
    if network.chain is None or network.theta is None:
        raise Refused("C-12a: g must be a chain of the message, with a margin theta.")
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
    chain = described_chain(extra.subject_chain, header.input_shape, header.classes)
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
    if (count := count_disagreements(*networks, x, header.fault)) > extra.disagreements:
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
