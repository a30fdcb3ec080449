"""Figures as SVG text for a page: the same bytes for the same rows, and nothing to fetch."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Curve = Mapping[str, Any]
LineStyle = Literal["line", "dashed", "points"]
_INK = "#010203"  # a colour that nothing else has; the page replaces it with that of its text
_BLUE, _ORANGE = "#3b82d6", "#d9730d"
_PALETTE = (_ORANGE, "#2e8b57", _BLUE, "#8a4fbf", "#b5446e", "#6b7280")
_COLUMNS = 4
_SHOWN = 0.9  # of a spectrum: the values next to zero would take most of a logarithmic axis
_STYLE: Any = {  # newer versions of matplotlib know the type of every key
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "codebound",  # the same ids every time
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "text.color": _INK,
    "axes.linewidth": 0.6,
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One small plot."""

    title: str  # usually the layer
    curve: Curve  # a histogram (counts, edges, scale) or a survival function (x, share, tail)
    mark: float | None = None  # a value to point out
    is_claimed: bool = True  # whether a fitted tail is one that the values can carry


def histogram_figure(panels: Sequence[Panel], *, label: str) -> str:
    """Histograms side by side on one scale, so that layers can be compared.

    The scale ends where one in a hundred examples of each layer lies beyond, and not before the marks.
    """
    marks = [panel.mark for panel in panels if panel.mark is not None]
    low = min([panel.curve["edges"][0] for panel in panels] + marks)
    high = max([_most_are_below(panel.curve) for panel in panels] + marks)
    margin = 0.02 * (high - low) or 0.5

    def draw(axes: Axes, panel: Panel) -> None:
        axes.stairs(panel.curve["counts"], panel.curve["edges"], fill=True, color=_BLUE)
        if panel.mark is not None:
            axes.axvline(panel.mark, color=_ORANGE, linewidth=1.2)
        if panel.curve["scale"] == "log":
            axes.set_xscale("log")
            axes.set_xlim(0.9 * low, 1.1 * high)
            _label_few(axes, decades=math.log10(high / low))
        else:
            axes.set_xlim(low - margin, high + margin)
        axes.set_yticks([])

    return _draw_panels(panels, draw, x_label=label, y_label="examples")


def survival_figure(panels: Sequence[Panel], *, label: str) -> str:
    """Shares of values above x on logarithmic axes, with the fitted tails; the smallest tenth is left out."""

    def draw(axes: Axes, panel: Panel) -> None:
        x, share, tail = (panel.curve[key] for key in ("x", "share", "tail"))
        axes.loglog(x, share, ".", color=_BLUE, markersize=2.5)
        if tail is not None:
            style = "-" if panel.is_claimed else "--"
            axes.loglog(tail["x"], tail["share"], style, color=_ORANGE, linewidth=1.2)
        shown = [value for value, above in zip(x, share, strict=True) if above <= _SHOWN]
        if shown:
            axes.set_xlim(left=0.8 * min(shown))

    return _draw_panels(panels, draw, x_label=label, y_label="share above")


@dataclass(frozen=True, slots=True)
class Mark:
    """One number on a line of its own."""

    name: str  # beside the line
    log10: float  # where it is, on a decimal logarithmic scale
    group: str  # what it has in common with others; groups have colours and a legend


def standalone(svg: str) -> str:
    """A drawing made for a page as a document of its own, dark on white."""
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return svg.replace("<svg", f'<svg {spaces} style="background:white;color:#1f2328"', 1) + "\n"


@dataclass(frozen=True, slots=True)
class Series:
    """Points or a curve."""

    label: str  # for the legend; empty for none
    x: Sequence[float]  # places
    y: Sequence[float]  # values
    # how they are drawn; shades are squares from white to blue, bars of several series stand side by side
    style: Literal["line", "dashed", "points", "shades", "bars"] = "line"
    shade: Sequence[float] = ()  # for shades: how blue, from 0 to 1
    deviations: Sequence[float] = ()  # for points: half the length of the bar through each; empty for none
    colour: int | None = None  # place of its colour in the palette, to have that of another; None: the next


def curves(
    rows: Sequence[Curve],
    x: str,
    columns: Mapping[str, str],
    style: LineStyle = "line",
    *,
    colour: int | None = None,
) -> list[Series]:
    """One series for each of some columns of a table, in colours from the given one on, without the None.

    >>> curves([{"n": 1, "a": 2.0}, {"n": 2, "a": None}], "n", {"a": "values"})[0].y
    [2.0]
    """
    found = []
    for place, (column, label) in enumerate(columns.items()):
        points = [(row[x], row[column]) for row in rows if row[column] is not None]
        across, up = [point[0] for point in points], [point[1] for point in points]
        own = None if colour is None else colour + place
        found.append(Series(label, across, up, style, colour=own))
    return found


def curves_by(
    rows: Sequence[Curve], key: str, x: str, column: str, style: LineStyle = "line", *, label: str = "{}"
) -> list[Series]:
    """One series of a column for each value of another one, which the label names."""
    found = []
    for value in dict.fromkeys(row[key] for row in rows):
        part = [row for row in rows if row[key] == value]
        found += curves(part, x, {column: label.format(value)}, style)
    return found


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope of a line through points, by least squares; None through fewer than two."""
    if len(points) < 2:
        return None
    x, y = (math.fsum(values) / len(points) for values in zip(*points, strict=True))
    return math.fsum((a - x) * (b - y) for a, b in points) / math.fsum((a - x) ** 2 for a, _ in points)


@dataclass(frozen=True, slots=True)
class Contours:
    """Values over a grid, as areas between levels, from white to blue."""

    x: Sequence[float]  # columns of the grid, ascending
    y: Sequence[float]  # rows of the grid, ascending
    values: Sequence[Sequence[float]]  # one row for each y, with one value for each x
    levels: Sequence[float]  # where a line is drawn and labelled, ascending


@dataclass(frozen=True, slots=True)
class Plot:
    """Series on common axes."""

    title: str  # what it shows
    x_label: str  # under the horizontal axis
    y_label: str  # beside the vertical axis
    series: Sequence[Series | Contours]  # what is drawn, later ones on top
    x_scale: Literal["linear", "log"] = "linear"  # of the horizontal axis
    y_scale: Literal["linear", "log"] = "linear"  # of the vertical axis
    x_ticks: Sequence[float] = ()  # where the horizontal axis has numbers; empty for anywhere
    x_names: Sequence[str] = ()  # of the places 0, 1, 2 and so on, in place of numbers; empty for none
    headroom: float = 0.0  # empty space for the legend above the series, as a share of their height


@dataclass(frozen=True, slots=True)
class Figure:
    """Plots side by side, still to be drawn: matplotlib is needed for that and not before."""

    plots: Sequence[Plot]  # row by row
    columns: int = 3  # plots in a row

    def svg(self) -> str:
        """The drawing."""
        return plots_figure(self.plots, columns=min(self.columns, len(self.plots)))

    def inline(self) -> str:
        """The drawing for a page."""
        return _inline(_plotted(self.plots, columns=min(self.columns, len(self.plots))))


@dataclass(frozen=True, slots=True)
class Marks:
    """Numbers below each other on one axis of exponents, as some are larger than any double."""

    marks: Sequence[Mark]  # the numbers
    label: str  # name of the axis
    line: tuple[float, str]  # where a vertical line is drawn, as a decimal logarithm, and what it says
    # for a phone: names stand above their lines, and the axis shows error rates in per cent
    is_narrow: bool = False

    def svg(self) -> str:
        """The drawing."""
        return standalone(self.inline())

    def inline(self) -> str:
        """The drawing for a page."""
        size = (4.0, 1.2 + 0.3 * len(self.marks)) if self.is_narrow else (8.4, 0.9 + 0.19 * len(self.marks))
        return _inline(_render(self._draw, size))

    def _draw(self, figure: Canvas) -> None:
        from matplotlib.ticker import MaxNLocator

        marks, (start, text) = self.marks, self.line
        groups = list(dict.fromkeys(mark.group for mark in marks))
        axes = figure.add_subplot()
        every = range(len(marks))
        if self.is_narrow:  # names stand between the pieces
            pieces = [place - 0.15 for place in every], [place + 0.25 for place in every]
            axes.vlines([start] * len(marks), *pieces, color=_INK, linewidth=0.8, label=text)
        else:
            axes.axvline(start, color=_INK, linewidth=0.8, linestyle="--", label=text)
        for group, colour in zip(groups, _PALETTE * len(groups), strict=False):
            places = [place for place, mark in enumerate(marks) if mark.group == group]
            values = [marks[place].log10 for place in places]
            axes.hlines(places, [start] * len(places), values, color=colour, linewidth=1.0)
            axes.plot(values, places, "o", color=colour, markersize=4.5, label=group)
        if self.is_narrow:
            axes.set_yticks([])
            axes.xaxis.set_major_formatter(lambda place, _: exponent_text(place))
            for place, mark in enumerate(marks):
                at = (0.01, place - 0.2)
                axes.text(*at, mark.name, transform=axes.get_yaxis_transform(), parse_math=False)
        else:
            axes.set_yticks(range(len(marks)), [mark.name for mark in marks], parse_math=False)
        axes.set_ylim(len(marks) - 0.5, -0.7)
        axes.set_xlabel(self.label)
        axes.xaxis.set_major_locator(MaxNLocator(4 if self.is_narrow else "auto", integer=True))
        axes.tick_params(width=0.5, length=2)
        columns = 2 if self.is_narrow else len(groups) + 1
        figure.legend(loc="outside upper center", ncols=columns, frameon=False, fontsize=8)


def exponent_text(exponent: float) -> str:
    """An error rate that is a power of ten, in per cent.

    >>> exponent_text(-2.0), exponent_text(0.0), exponent_text(12.0)
    ('1 %', '100 %', '10^14 %')
    """
    return f"{10.0 ** (exponent + 2):g} %" if -6.0 <= exponent <= 1.0 else f"10^{exponent + 2:g} %"


def plots_figure(plots: Sequence[Plot], *, columns: int = 3) -> str:
    """Plots side by side as a document of its own, dark on white."""
    return _plotted(plots, columns=columns, background="white").replace(_INK, "#1f2328")


def _plotted(plots: Sequence[Plot], *, columns: int, background: str | None = None) -> str:
    rows = -(-len(plots) // columns)

    def draw(figure: Canvas) -> None:
        for place, plot in enumerate(plots, start=1):
            _draw(figure.add_subplot(rows, columns, place), plot)

    is_alone = background is None and len(plots) == 1  # and then as wide as two of them
    size = (4.6, 2.9) if is_alone else (2.9 * columns, 2.4 * rows)
    return _render(draw, size, background=background)


def _draw(axes: Axes, plot: Plot) -> None:
    palette = _PALETTE * len(plot.series)
    colours = iter(palette)
    sides = [series for series in plot.series if isinstance(series, Series) and series.style == "bars"]
    for series in plot.series:
        if isinstance(series, Contours):
            grid = series.x, series.y, series.values
            axes.contourf(*grid, levels=series.levels, cmap="Blues", extend="both")
            lines = axes.contour(*grid, levels=series.levels, colors=_INK, linewidths=0.4)
            axes.clabel(lines, fontsize=6, fmt="%g")
        elif series.style == "shades":
            axes.scatter(
                series.x, series.y, c=series.shade, cmap="Blues", vmin=0.0, vmax=1.0,
                marker="s", s=16, edgecolors=_BLUE, linewidths=0.4,
            )  # fmt: skip
        elif series.style == "bars":
            width = 0.8 / len(sides)
            shift = (sides.index(series) - (len(sides) - 1) / 2) * width
            places = [place + shift for place in series.x]
            axes.bar(places, series.y, width, color=next(colours), label=series.label or None)
            axes.axhline(0.0, color=_INK, linewidth=0.6)
        else:
            style = {"line": "-", "dashed": "--", "points": "o"}[series.style]
            colour = next(colours) if series.colour is None else palette[series.colour]
            axes.plot(
                series.x, series.y, style, color=colour, label=series.label or None,
                linewidth=1.2, markersize=3.5,
            )  # fmt: skip
            if series.deviations:
                bars: Any = {"fmt": "none", "ecolor": colour, "elinewidth": 0.8, "capsize": 1.5}
                axes.errorbar(series.x, series.y, series.deviations, **bars)
    axes.set(xscale=plot.x_scale, yscale=plot.y_scale, xlabel=plot.x_label, ylabel=plot.y_label)
    axes.set_title(plot.title, parse_math=False)
    axes.tick_params(width=0.5, length=2)
    axes.minorticks_off()
    if plot.x_ticks:
        axes.set_xticks(plot.x_ticks, [f"{tick:g}" for tick in plot.x_ticks])
    if plot.headroom:
        low, high = axes.get_ylim()
        is_log = plot.y_scale == "log"
        top = high * (high / low) ** plot.headroom if is_log else high + plot.headroom * (high - low)
        axes.set_ylim(low, top)
    if plot.x_names:
        axes.set_xticks(
            range(len(plot.x_names)), plot.x_names, rotation=35, ha="right", rotation_mode="anchor"
        )
    if any(isinstance(series, Series) and series.label for series in plot.series):
        axes.legend(frameon=False, fontsize=7)


def _label_few(axes: Axes, *, decades: float) -> None:
    """Plain numbers along a logarithmic axis, at powers of ten, and at thrice them where these are few."""
    from matplotlib.ticker import LogLocator

    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2.5 else (1.0, 3.0), numticks=4))
    axes.xaxis.set_major_formatter("{x:g}")


def _most_are_below(histogram: Curve) -> float:
    """The first edge that at most a hundredth of the examples lies above."""
    total, upper_edges = sum(histogram["counts"]), histogram["edges"][1:]
    below = zip(accumulate(histogram["counts"]), upper_edges, strict=True)
    return next(float(edge) for count, edge in below if 100 * (total - count) <= total)


def _draw_panels(
    panels: Sequence[Panel], draw: Callable[[Axes, Panel], None], *, x_label: str, y_label: str
) -> str:
    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)

    def draw_all(figure: Canvas) -> None:
        for place, panel in enumerate(panels):
            axes = figure.add_subplot(rows, columns, place + 1)
            draw(axes, panel)
            axes.set_title(panel.title, parse_math=False)
            axes.tick_params(width=0.5, length=2)
            axes.minorticks_off()
            if place + columns >= len(panels):
                axes.set_xlabel(x_label)
            if place % columns == 0:
                axes.set_ylabel(y_label)

    return _inline(_render(draw_all, (2.1 * max(2, columns), 1.5 * rows)))


def _render(
    draw: Callable[[Canvas], None], size: tuple[float, float], *, background: str | None = None
) -> str:
    """The drawing without prologue, metadata and group names; transparent without a background."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with rc_context(_STYLE):
        figure = Canvas(figsize=size, layout="constrained", facecolor=background)
        FigureCanvasSVG(figure)
        draw(figure)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=background is None, metadata={"Date": None})
    svg = file.getvalue()
    body = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return re.sub(r'<g id="[^"]*"', "<g", body)


def _inline(svg: str) -> str:
    """The drawing as part of a page, in the colour of its text."""
    return re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace(_INK, "currentColor").strip()
