"""Histograms of noise stability as plots, rows and sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from codebound_papers.arora18.items.measures import QUANTITIES
from codebound_papers.report.figures import Plot, Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codebound_papers.measure.noise.result import Quantity
    from codebound_papers.reproduce.items import Row

_FEW_TICKS = 3


def layers_with(quantity: Quantity, network: Row) -> list[Row]:
    """The layers of a measured network that have the quantity, in forward order."""
    return [layer for layer in network["layers"] if quantity in layer]


def overlaid(title: str, quantity: Quantity, layers: Mapping[str, Row]) -> Plot:
    """Histograms of one quantity on common axes, by the label of each."""
    found = {label: layer[quantity] for label, layer in layers.items() if quantity in layer}
    is_log = any(histogram["scale"] == "log" for histogram in found.values())
    edges = [edge for histogram in found.values() for edge in histogram["edges"]]
    return Plot(
        title,
        QUANTITIES[quantity],
        "share of examples",
        [Series(label, *_outline(histogram)) for label, histogram in found.items()],
        x_scale="log" if is_log else "linear",
        x_ticks=_log_ticks(min(edges), max(edges)) if is_log else (),
        headroom=0.35 if len(found) > 1 else 0.0,
    )


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten in a range; where they are few, some multiples of them too.

    Example:
        >>> _log_ticks(1.5, 30.0), _log_ticks(22.0, 47.0)
        ([2.0, 5.0, 10.0, 20.0], [30.0, 40.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for digits in ((1,), (1, 2, 5), (1, 2, 3, 4, 6, 8)):
        ticks = (float(f"{digit}e{power}") for power in powers for digit in digits)
        found = [tick for tick in ticks if low <= tick <= high]
        if len(found) >= _FEW_TICKS:
            break
    return found


def _outline(histogram: Row) -> tuple[list[float], list[float]]:
    """The upper edge of the bars, from the axis and back to it."""
    edges, counts = histogram["edges"], histogram["counts"]
    shares = [count / histogram["n"] for count in counts]
    return [edge for edge in edges for _ in (0, 1)], [0.0, *(share for share in shares for _ in (0, 1)), 0.0]


def bins(quantity: Quantity, networks: Mapping[str, Sequence[Row]]) -> Iterator[dict[str, Any]]:
    """What is drawn, bar by bar; empty bars are left out."""
    for network, layers in networks.items():
        for layer in layers:
            histogram = layer[quantity]
            ends = zip(histogram["edges"], histogram["edges"][1:], histogram["counts"], strict=False)
            for low, high, count in ends:
                if count:
                    yield {
                        "network": network,
                        "layer": layer["layer"],
                        "quantity": quantity,
                        "from": float(f"{low:.6g}"),
                        "to": float(f"{high:.6g}"),
                        "examples": count,
                    }


def quantiles(layer: Row, quantity: Quantity) -> dict[str, float | None]:
    """The columns of a table: smallest, middle and largest values; None is infinite."""
    found = layer[quantity]["quantiles"]
    names = {"0": "smallest", "0.05": "5 %", "0.5": "median", "0.95": "95 %", "1": "largest"}
    return {name: found[level] for level, name in names.items()}


def median(layer: Row, quantity: Quantity) -> float:
    """The value in the middle, infinite where the map is linear for most examples."""
    value = layer[quantity]["quantiles"]["0.5"]
    return float("inf") if value is None else float(value)


def verdict(agreed: int, of: int) -> str:
    """Whether we agree, by the number of cases in which a statement holds.

    Example:
        >>> verdict(2, of=3), verdict(1, of=3)
        ('We agree in part', 'We do not agree')
    """
    return "We agree" if agreed == of else "We agree in part" if 2 * agreed >= of else "We do not agree"


def clipping(network: Row) -> str:
    """Where ``mu_{i->}`` is ``1/sqrt(h)``, which then is not above any interlayer cushion, in a sentence."""
    inner = network["layers"][1:-1]
    below = [layer["layer"] for layer in inner if layer["minimal_interlayer"] < layer["clip"]]
    agreed = len(inner) - len(below)
    return (
        f"{verdict(agreed, of=len(inner))} that clipping leaves 1/sqrt(h) as interlayer cushion of every "
        f"layer but the first: it does in {agreed} of the {len(inner)} layers between the first and the last"
        + (f"; some example is below it in {', '.join(below)}." if below else ".")
    )
