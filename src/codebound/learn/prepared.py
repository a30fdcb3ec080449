"""Features of all rows of a sample, which are computed once, from its known share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.learn.features import FeatureMap, fit_features
from codebound.learn.spread import Spread
from codebound.learn.vectors import FEATURES as FEATURES
from codebound.learn.vectors import vectors_of
from codebound.run.device import exact_products
from codebound.run.errors import ModelError
from codebound.run.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.learn.rule import Rule
    from codebound.run.job import Engine
    from codebound.sample.dataset import Dataset
    from codebound.sample.order import Arranged


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Features of a sample, as the learner takes them.

    Attributes:
        features: The feature map, which knows the known rows alone.
        vectors: Of every row, in 16 bits, or where they are.
    """

    features: FeatureMap
    vectors: Tensor | Spread


def prepare(
    rule: Rule,
    arranged: Arranged,
    first: int,
    *,
    device: str | torch.device = "cpu",
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Prepared:
    """The features that a known share of ``first`` rows or clusters makes; on the nodes of an engine, if any.

    Raises:
        ModelError: The inputs have no such features.
        RoomError: Two machines might make others.
    """
    sample = arranged.sample
    features = features_of(rule, sample, arranged.split(first)[0], device=device)
    if engine is not None:
        size = math.ceil(sample.n / min(engine.slots, sample.n))
        return Prepared(features, Spread.of(sample, features, engine, size))
    stored = torch.from_numpy(np.ascontiguousarray(sample.x))
    return Prepared(features, vectors_of(features, stored, device=device, progress=progress))


@torch.no_grad()
def features_of(
    rule: Rule, sample: Dataset, known: NDArray[np.int64], *, device: str | torch.device = "cpu"
) -> FeatureMap:
    """The feature map of a rule that is made of known rows, in their order."""
    if len(known) == 0:
        raise ModelError("features are made of known rows. There are none.")
    if getattr(rule.features, "is_normalised", False) and sample.is_cells:
        raise ModelError("rows of cells have no length.")
    first, labels = (torch.from_numpy(each[known]).to(device) for each in (sample.x, sample.y))
    with exact_products():
        return fit_features(rule.features, first, labels, weights=rule.weights, is_mirrored=rule.is_mirrored)
