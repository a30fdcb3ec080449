"""Comparison of weights that were handed over with the network that a message decodes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..refusal import Refused, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ..message import Network


def check_decoded(network: Network, given: Mapping[str, NDArray[Any]]) -> None:
    """Weights that were handed over are the decoded tensors."""
    expected = network.tensors
    if missing := sorted(expected.keys() ^ given.keys()):
        raise Refused(f"Weights: {shown(missing[0])} is a tensor of g, or of these weights, but not of both.")
    wrong = [name for name in sorted(given) if not np.array_equal(given[name], expected[name])]
    if wrong:
        raise Refused(f"Weights: {shown(wrong[0])} is not the tensor of the network that was certified.")
