"""Errors on every class, with limits that hold at once (C-17)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mpmath
import numpy as np

from ..checks import set_apart
from ..faults import WRONG
from ..formulas import DIGITS, occam
from ..header import Header, Picked
from ..networks.evaluate import Evaluator, count_errors
from ..sample import Inputs, Labels, permutation

if TYPE_CHECKING:
    from ..learn.picking import Learned


@dataclass(frozen=True)
class ClassRow:
    """Errors on the examples of one class, picks among them, and their limit; None without examples."""

    label: int
    errors: int
    n: int
    bound: float | None
    picks: int = 0


def class_table(
    header: Header, network: Evaluator | Learned, x: Inputs, y: Labels, *, theta: float
) -> tuple[ClassRow, ...]:
    """The errors on every class; their limits, at delta over the classes, hold at once (C-17)."""
    places = permutation(len(y))[set_apart(header) :] if set_apart(header) else np.arange(len(y))
    rows = []
    with mpmath.workdps(DIGITS):
        share = mpmath.mpf(header.delta) / header.classes
    common = {"code_bits": header.code_bits, "delta": share}
    for label in range(header.classes):
        own = places[y[places] == label]
        errors, picks, exact = 0, 0, None
        if not isinstance(network, Evaluator):
            from ..learn.limits import limit_of

            picks, errors = network.counted(WRONG, y, own)
            assert isinstance(header.extra, Picked)  # it was learned
            limit = limit_of(header, header.extra)
            exact = limit(counted=picks + errors, n=len(own), **common) if len(own) else None
        elif len(own):
            errors = count_errors(network, x[own], y[own], theta=theta)
            exact = occam(errors=errors, n=len(own), **common).bound
        bound = None if exact is None else min(1.0, math.nextafter(float(exact), math.inf))
        rows.append(ClassRow(label, errors, len(own), bound, picks))
    return tuple(rows)
