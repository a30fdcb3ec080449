"""Small mixed tables as people have them, drawn from seeds."""

from __future__ import annotations

import numpy as np
import pandas as pd

SIZES = (3, 8, 12, 15, 20, 30, 40, 60, 80, 120, 160, 240, 300)
CLASSES = (2, 2, 2, 3, 4, 7, 12, 40)


def mixed_table(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, words, days, missing values and constants, and labels that they tell, or do not."""
    rng = np.random.default_rng(seed)
    n, classes = int(rng.choice(SIZES)), int(rng.choice(CLASSES))
    y = rng.choice(classes, n, p=rng.dirichlet(np.full(classes, rng.choice([0.5, 5.0, 50.0]))))
    if len(np.unique(y)) < 2:
        y[0] = (y[0] + 1) % classes
    signal = rng.choice([0.0, 1.0, 4.0])
    columns: dict[str, object] = {}
    for at in range(int(rng.integers(1, 5))):
        columns[f"x{at}"] = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4) + signal * np.cos((at + 1) * y)
    if rng.random() < 0.6:
        for at in range(int(rng.integers(1, 3))):
            words = np.array(list("abcdefgh"))[rng.integers(0, int(rng.integers(1, 8)), n)]
            is_true = rng.random(n) < 0.5 * (signal > 0.0)
            columns[f"w{at}"] = np.where(is_true, np.array(list("stuvwxyz"))[y % 8], words)
    if rng.random() < 0.3:
        days = pd.to_timedelta(rng.integers(0, 900, n), "D")
        columns["day"] = pd.Timestamp("2020-01-01") + days
    if rng.random() < 0.3:
        columns["same"] = np.full(n, 3.5)
    if rng.random() < 0.4:
        columns["x0"] = np.where(rng.random(n) < 0.15, np.nan, np.asarray(columns["x0"]))
    return pd.DataFrame(columns), y
