"""How large a sketch must be: success over sizes, the law of the threshold, the printed ensemble, noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from codebound.coding import Stream
from codebound.errors import UsageError
from codebound.reproduce.item import Reproduction, Row, Settings, Size, item
from codebound.rng import numpy_stream
from codebound.sketch import (
    Bipartite,
    Recovery,
    column_degree,
    column_ensemble,
    peel,
    recover,
    recover_l1_batch,
    row_ensemble,
    sketch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    Ensemble = Callable[[Stream, int, int], Bipartite]

_DEGREE = 5
_SHARE = 0.75  # of the draws, from which a size counts as enough
_RECOVERED = 1e-4  # relative Frobenius error that counts as recovery
_L1, _HYBRID = "l1", "peeling, then l1"
_TOP, _STEP = 1.75, 0.965  # sizes tried: from this multiple of sqrt(N ln(p^2/N)) down, in these steps
_COARSE = 4  # steps at a time above 1.4, where nothing happens
_LITERAL = f"at most {_DEGREE} in a row, as printed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a size of the study covers; ``p`` ascending."""

    p: tuple[int, ...]
    j: tuple[int, ...]
    draws: int
    iterations: int
    noise: tuple[float, ...]


_PLANS: dict[Size, _Plan] = {
    "tiny": _Plan(p=(24, 32), j=(1, 2), draws=2, iterations=200, noise=(1e-2, 1e-1)),
    "quick": _Plan(
        p=(50, 100, 200), j=(1, 2, 4, 8), draws=4, iterations=500, noise=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    ),
    "full": _Plan(
        p=(100, 200, 400, 784),
        j=(1, 2, 4, 8, 16),
        draws=8,
        iterations=1000,
        noise=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
    ),
}


@item(
    "sketch:phase",
    title="How large a sketch of a sparse matrix must be (Guha et al. 2023, theorem 5.1)",
    quick="about 2 minutes on one core",
    full="some hours on one core",
)
def sketch_phase(settings: Settings) -> Reproduction:
    """Counts recoveries over matrix size p, non-zeros in a line j and side of the sketch m."""
    from codebound.report.phase import phase_figure

    plan = _PLANS[settings.size]
    study = _Study(settings, plan)
    map_rows = [
        row for decoder in (_L1, _HYBRID) for p in plan.p for j in plan.j for row in study.descent(decoder, p, j)
    ]
    thresholds = list(_thresholds(map_rows))
    ...
