"""Options of the studies, refused before a network is read or trained."""

import math
from collections.abc import Callable
from typing import Any, Literal, get_args

from codebound.bounds.risk import check_delta
from codebound.run.errors import UsageError

Pruning = Literal["algorithm1", "magnitude", "iterative", "balanced"]

LIMITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "prune": (get_args(Pruning).__contains__, f"pruning is by {', '.join(get_args(Pruning))}"),
    "levels": (lambda n: n >= 3 and n % 2 == 1, "a grid around zero has an odd number of levels, at least 3"),
    **{name: (lambda x: 0.0 < x < math.inf, f"{name.strip('_')} is a finite number above 0")
       for name in ("d", "rho", "eps", "lambda_")},
    **{name: (lambda n: n >= 1, f"{name} are at least 1") for name in ("examples", "epochs", "trials")},
    "share": (lambda x: 0.0 < x < 1.0, "the numbers for each weight, share, lie in (0, 1)"),
    "shuffle_labels": (lambda x: 0.0 <= x <= 1.0, "the share of shuffled labels lies in [0, 1]"),
    "resamples": (lambda n: n >= 20, "resamples are at least 20, for a verdict on a tail"),
    "margin_share": (lambda x: 0.0 <= x < 1.0, "the share of low margins, margin_share, lies in [0, 1)"),
    "holdout": (lambda x: 0.0 < x < 1.0, "holdout is a fraction in (0, 1)"),
}  # fmt: skip
"""Test of each option, and the sentence for what fails it."""


def check_options(**options: Any) -> None:
    """Refuse values that no study takes; None leaves an option open."""
    for name, value in options.items():
        if name in LIMITS and value is not None and not LIMITS[name][0](value):
            raise UsageError(f"{LIMITS[name][1]}. Got {value!r}.")
    check_delta(options.get("delta", 0.5))
