"""Comparison of the network that a message decodes to with the certificate, and with weights beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..checks import check_count, counted_part
from ..header import Header, Split
from ..refusal import Refused, shown
from .evaluate import Evaluator, count_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ..sample import Inputs, Labels
    from .message import Network


def check_errors(header: Header, network: Network, evaluator: Evaluator, x: Inputs, y: Labels) -> None:
    """Check that the decoded network makes no more errors than stated (section 6)."""
    if isinstance(header.extra, Split) and network.split is not None:
        prior = network.split * len(x) // 10
        if header.extra.n_prior != prior:
            raise Refused(
                f"Facts: n_prior is {header.extra.n_prior}; "
                f"{network.split}/10 of {len(x)} examples are {prior}."
            )
    part = counted_part(header, y)
    x, y = x[part], y[part]
    theta, stated = network.theta or 0.0, header.errors
    errors = count_errors(evaluator, x, y, theta=theta, fault=header.fault, stated=stated)
    check_count(header, errors, len(x), "the decoded network")


def check_decoded(network: Network, given: Mapping[str, NDArray[Any]]) -> None:
    """Weights that were handed over are the decoded tensors."""
    expected = network.tensors
    if missing := sorted(expected.keys() ^ given.keys()):
        raise Refused(f"Weights: {shown(missing[0])} is a tensor of g, or of these weights, but not of both.")
    wrong = [name for name in sorted(given) if not np.array_equal(given[name], expected[name])]
    if wrong:
        raise Refused(f"Weights: {shown(wrong[0])} is not the tensor of the network that was certified.")
