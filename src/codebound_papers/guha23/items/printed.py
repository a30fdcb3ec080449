"""The tables that Guha et al. 2023 print, and what can be deduced from their numbers alone (G-E22)."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from codebound_papers.baselines import parameter_counting
from codebound_papers.facts import LayerFacts, NetworkFacts
from codebound_papers.guha23.sketching import dropped_failure_probability, implied_kept_share
from codebound_papers.reproduce.items import Row

BARS = {
    "neyshabur15": "Neyshabur 2015",
    "neyshabur17": "Neyshabur 2017",
    "bartlett17": "Bartlett 2017",
    "guha": "Guha 2023",
}
"""The bounds that are compared, in the order of the tables; the last one is the paper's own."""

_COLUMNS = (*BARS, "test_error")
MNIST: Mapping[int, Mapping[str, float]] = {
    width: dict(zip(_COLUMNS, logs, strict=True))
    for width, logs in {
        500: (22.29, 17.91, 11.51, 3.36, -3.76),
        784: (23.56, 18.34, 11.68, 3.77, -3.84),
        1000: (24.42, 18.70, 11.87, 4.00, -3.80),
        1500: (25.12, 18.81, 11.70, 4.40, -3.85),
        2000: (27.03, 21.50, 13.96, 4.73, -3.86),
        2500: (27.72, 21.57, 13.81, 4.96, -3.87),
    }.items()
}
"""Table 1: natural logarithms by width of the hidden layers."""
CIFAR10: Mapping[int, Mapping[str, float]] = {
    2000: dict(zip(_COLUMNS, (33.19, 30.10, 22.40, 4.68, -2.41), strict=True))
}
"""Table 2; the text says width 784, the numbers and the code 2000 (G-E22)."""

CHANGES: Mapping[float, tuple[float, float]] = {
    0.51: (1288.0, 9.3),
    1.01: (1943.0, 18.3),
    2.02: (2801.0, 31.9),
    4.95: (4220.0, 39.0),
    10.0: (5286.0, 40.0),
}
"""Read off the repository's plot for MNIST: by strength, the margin asked for and the change of a score."""
FULLEST_ROWS: Mapping[float, float] = {0.51: 532.0, 2.02: 326.0, 5.05: 183.0, 10.0: 116.0}
"""Read off the other plot: by strength, non-zeros in the fullest row of the layer with the most inputs."""

EXAMPLES = {"mnist": 48_000, "cifar10": 40_000}
"""Training examples of the released code: four fifths of the training set."""
EPOCHS = 300
"""Epochs, by text and code."""
INPUTS = {"mnist": 784, "cifar10": 3072}
_DEPTH, _CLASSES = 5, 10
_NORMS = dict.fromkeys(("frobenius", "spectral", "operator_norm", "l2_1", "l1_inf", "variance"), 0.0)
_UNKNOWN = LayerFacts(name="", rows=1, columns=1, **_NORMS)  # type: ignore[arg-type]  # norms alone


def like_for_like(bars: Mapping[str, float | None], n: int) -> dict[str, float | None]:
    """The bars as excess risks: the older ones divided by n and square-rooted, as the paper's own one is.

    >>> {name: round(log, 2) for name, log in like_for_like(MNIST[784], 48_000).items()}
    {'neyshabur15': 6.39, 'neyshabur17': 3.78, 'bartlett17': 0.45, 'guha': 3.77}
    """
    logs = {name: bars[name] for name in BARS}
    return {
        name: log if log is None or name == "guha" else 0.5 * (log - math.log(n))
        for name, log in logs.items()
    }


def fair(row: Row) -> dict[str, float | None]:
    """The bars of a measured network, like for like."""
    return like_for_like(row["released"], row["n"])


def printed_network(data: str, width: int) -> NetworkFacts:
    """The sizes of a network of the tables, which separates its sample; its norms are unknown, zero here."""
    sides = [INPUTS[data], *[width] * (_DEPTH - 1), _CLASSES]
    layers = tuple(
        replace(_UNKNOWN, name=f"linear{place}", rows=rows, columns=columns)
        for place, (columns, rows) in enumerate(pairwise(sides), start=1)
    )
    unknown = {"margin": 1.0, "margin_loss": 0.0, "input_norm": 0.0, "largest_output": 0.0, "delta": 0.05}
    return NetworkFacts(
        layers=layers,
        examples=EXAMPLES[data],
        classes=_CLASSES,
        input_size=sides[0],
        parameters=sum(layer.weights for layer in layers),
        **unknown,
    )


def deductions(data: str, table: Mapping[int, Mapping[str, float]]) -> list[Row]:
    """Deduce networks and comparisons from the printed numbers of a table, width by width."""
    return [_deduce(printed_network(data, width), width, bars) for width, bars in table.items()]


def _deduce(facts: NetworkFacts, width: int, bars: Mapping[str, float]) -> Row:
    fairly = like_for_like(bars, facts.examples)
    assert fairly["bartlett17"] is not None
    return {
        "width": width,
        "n": facts.examples,
        "Neyshabur 2017 - Bartlett 2017": bars["neyshabur17"] - bars["bartlett17"],
        "ln mean fan-in": math.log(fmean(layer.columns for layer in facts.layers)),
        "kept share by Guha 2023": implied_kept_share(facts, log_value=bars["guha"]),
        **{f"{BARS[name]}, like for like": log for name, log in fairly.items()},
        "Guha / Bartlett, like for like": math.exp(bars["guha"] - fairly["bartlett17"]),
        "parameter counting": parameter_counting(facts).log_value,
        "failure probability left out": dropped_failure_probability(
            [facts.input_size, *(layer.rows for layer in facts.layers)]
        ),
    }
