"""The usual kernel and ridge, chosen by leaving out (docs/format.md, section 7.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..refusal import Refused
from ..sample import parts
from .choices import Columns, Rule
from .kernel import squared_distances, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..sample import Data
    from .exact import Doubles, Integers, Vectors
    from .maps import FeatureMap

MOST = 1000  # rows
GAMMAS_OF_PICTURES = (0.25, 0.5, 1.0)
GAMMAS_OF_COLUMNS = (0.5, 1.0, 2.0, 4.0)
RIDGES = (2.0**-6, 2.0**-4, 2.0**-2)
ONE_MORE = 1.0  # ridge, for columns
ROOM = 0.5e-9  # relative; half of the writer's
TOGETHER = 128  # rows whose vectors are made at a time


def choose_widths(
    rule: Rule, features: FeatureMap, data: Data, first: Integers, *, inputs: Integers, targets: Doubles
) -> tuple[float, float]:
    """gamma and lambda of the smallest score; ``inputs`` has a number for each different input stored."""
    rows = first[:MOST]
    vectors = np.concatenate(
        [features.vectors(features.prepare(data.x[rows[part]])) for part in parts(len(rows), TOGETHER)]
    )
    scores = score_widths(
        vectors,
        inputs[rows],
        targets[: len(rows)],
        squared_scale=features.squared_scale,
        has_columns=isinstance(rule.features, Columns),
    )
    (best, widths), (second, others) = sorted((score, pair) for pair, score in scores.items())[:2]
    if not second - best > ROOM * best:
        raise Refused(
            f"Rule: kernel and ridge {widths} and {others} do equally well on the known rows; "
            "form 1110 has to name one pair."
        )
    return widths


def score_widths(
    vectors: Vectors, inputs: Integers, targets: Doubles, *, squared_scale: float, has_columns: bool
) -> dict[tuple[float, float], float]:
    """The score of each pair: the mean of the squares of the errors of rows that are left out."""
    distances, groups = squared_distances(vectors), list(_groups_of(inputs))
    gammas = GAMMAS_OF_COLUMNS if has_columns else GAMMAS_OF_PICTURES
    ridges = (*RIDGES, ONE_MORE) if has_columns else RIDGES
    found, right = {}, torch.from_numpy(targets)
    for gamma in gammas:
        kernel = values_of(distances.clone(), squared_scale, gamma)
        for ridge in ridges:
            found[gamma, ridge] = _score(kernel, ridge, right, groups)
    return found


def _score(kernel: Tensor, ridge: float, targets: Tensor, groups: list[Integers]) -> float:
    """The mean of the squares of (H[G, G])^-1 (H Y)[G], over all groups G."""
    shifted = kernel.clone()
    shifted.diagonal().add_(ridge)
    factor, failed = torch.linalg.cholesky_ex(shifted)
    if failed:
        raise Refused("Rule: the kernel of the known rows cannot be factored.")
    inverse = torch.cholesky_inverse(factor)
    errors = inverse @ targets
    alone = errors / inverse.diagonal()[:, None]
    for group in groups:
        own = torch.from_numpy(group)
        alone[own] = torch.linalg.solve(inverse[own][:, own], errors[own])
    return float(alone.square().mean())


def _groups_of(inputs: Integers) -> Iterator[Integers]:
    """The places of inputs that are equal; those of inputs that are alone are left out."""
    order = np.argsort(inputs, kind="stable")
    starts = np.flatnonzero(np.diff(inputs[order], prepend=-1))
    return (group for group in np.split(order, starts[1:]) if len(group) > 1)
