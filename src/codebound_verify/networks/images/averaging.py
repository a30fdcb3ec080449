"""Logits that are averaged over the views of an input (docs/format.md, section 5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..evaluate import Logits, logits_of
from ..operations import NormalisedConv, relu
from ..rounding import gamma
from .batches import views
from .dictionary import features, features_of_views, mirrored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..operations import Layers, Operation
    from ..rounding import Rounded


def averaged(steps: Sequence[tuple[Operation, Layers]], x: Rounded, dtype: torch.dtype) -> Logits:
    """The logits of a chain that begins with views, which are taken before anything becomes ``dtype``."""
    kind, (second, _) = steps[0][0].views, steps[1]
    order = mirrored(second.table, second.pool, x.values.shape) if kind == 1 and second.table else None
    if order is not None and steps[2][0].kind == "normalised conv":
        found = _logits_of_both(steps[1:], x.to(dtype), order)
    elif second.kind == "dictionary":
        seen = features_of_views(second.table, second.pool, kind, x, dtype)
        found = [logits_of(steps[2:], view) for view in seen]
    else:
        found = [logits_of(steps[1:], view.to(dtype)) for view in views(kind, x)]
    largest = torch.stack([view.values.abs().amax(1) for view in found]).mean(dim=0)
    error = torch.stack([view.error for view in found]).mean(dim=0)
    values = torch.stack([view.values for view in found]).mean(dim=0)
    return Logits(values, error + gamma(len(found) + 1, torch.float64) * largest)


def _logits_of_both(
    steps: Sequence[tuple[Operation, Layers]], x: Rounded, order: Sequence[int]
) -> list[Logits]:
    """Logits of images and of their mirror images; features are computed for the former alone."""
    (dictionary, _), (convolution, own), *rest = steps
    (seen,) = features(dictionary.table, dictionary.pool, x)
    found = logits_of(rest, relu(NormalisedConv().of_both(convolution, own, seen, order)))
    return [Logits(*view) for view in zip(*(part.tensor_split(2) for part in found), strict=True)]
