"""Losses of single rows by plain loops (docs/format.md, 6.1)."""

import math
from typing import Any


def difference_of(question: Any, z: list[float], label: int, classes: list[int]) -> float:
    """The table of 6.1, for one row."""
    if label not in classes:
        return -math.inf
    y, numbers = classes.index(label), question.numbers
    if question.kind in ("wrong", "class"):
        return z[y] - max(score for j, score in enumerate(z) if j != y)
    if question.kind in ("confused", "false-alarm"):
        away = classes.index(numbers[-1])
        return max(score for j, score in enumerate(z) if j != away) - z[away]
    if question.kind == "top":
        return z[y] - sorted((score for j, score in enumerate(z) if j != y), reverse=True)[numbers[0] - 1]
    cheap = [z[j] for j, cost in enumerate(question.costs[y]) if cost <= numbers[0]]
    dear = [z[j] for j, cost in enumerate(question.costs[y]) if cost > numbers[0]]
    return max(cheap) - max(dear) if dear else math.inf
