"""Guha et al. 2023, tables 1 and 2 and figure 1: bounds for networks on MNIST and on CIFAR-10.

All numbers are natural logarithms, as in the paper; infinite bounds are left out.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codebound_papers.baselines import decimal_orders
from codebound_papers.guha23.items import printed as paper
from codebound_papers.guha23.items import verdicts
from codebound_papers.guha23.items.guha_networks import CODE, USUAL_SHARE, Networks, network_settings
from codebound_papers.report.figures import Figure, Plot, Series, curves, slope
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item

Logs = Mapping[str, float | None]

_WIDTH = 784  # of the network on MNIST in the figure, and of the one that the text compares with

_RELEASED = "As the released code computes it: the older bounds neither divided by n nor rooted"
_FAIR = "Like for like: all divided by n and rooted; beside them what counting gives, and a certificate"
_LITERATURE = "The older bounds as their papers have them"
_NETWORKS = "The networks, and how strongly they could be pruned"
_PRINTED = "What the printed numbers imply"
_TAB1, _TAB2 = (f"the networks are those of G-Tab{number}" for number in (1, 2))

_HONEST = {"parameter_counting": "parameter counting", "hold_out": "hold-out certificate"}
_WHICH = {"width": "width", "training": "training", "train error": "train_error"}
_MEASURED = (  # no logarithms, but for the bound where the change is measured
    _WHICH
    | {"n": "n", "epochs": "epochs", "test error": "test_error", "smallest margin": "smallest_margin"}
    | {"strength d": "strength", "chi(d)": "chi", "kept": "kept_share"}
    | {"chi(d) by measured change": "chi_by_change", "Guha 2023 by measured change": "guha_by_change"}
    | {f"margin asked for at chi = {USUAL_SHARE}": "needed_for_usual_share"}
)
_NORMS = (
    {"width": "width", "training": "training", "norm of a pixel (code)": "pixel_norm"}
    | {"strength d (code)": "strength", "Guha 2023 (code)": "guha", "norm of an image": "input_norm"}
    | {"strength d": "strength_by_input_norm", "Guha 2023": "guha_by_input_norm"}
)


@item("G-Tab1", quick="3 minutes on one core", full="an hour on a GPU")
def guha_table1(settings: Settings) -> Reproduction:
    """Bounds for networks of several widths on MNIST (Guha et al. 2023, table 1)

    The table has natural logarithms of three older bounds, of the paper's own, and of the true error, for
    networks with five layers. Here are four readings of it (G-E22): as the released code computes it, with
    its bisection for the strength of pruning; like for like; the older bounds as their papers have them; and
    what counting parameters and held-out examples give. A dash is a bound that is infinite, because the
    smallest margin of the sample is not positive.
    """
    wanted = network_settings("mnist", settings.size)
    rows, deduced = Networks(wanted, settings).rows(), paper.deductions("mnist", paper.MNIST)
    return Reproduction(
        tables=_readings(rows, paper.MNIST, data="mnist") | {_PRINTED: deduced},
        sentences=(
            *verdicts.on_table(rows, paper.MNIST, deduced, claimed=3, settings=settings),
            verdicts.on_probability(deduced),
        ),
        deviations=wanted.deviations,
    )


@item("G-Tab2", quick="a minute on one core", full="half an hour on a GPU")
def guha_table2(settings: Settings) -> Reproduction:
    """Bounds for a network on CIFAR-10 (Guha et al. 2023, table 2)

    The same as table 1, for one network on CIFAR-10. The printed numbers betray its width: the difference
    of two rows is the logarithm of the mean fan-in at width 2000, not at the 784 of the text. The released
    code takes the norm of a colour image over its channels only, so that the margin it asks for is too small.
    """
    wanted = network_settings("cifar10", settings.size)
    rows, deduced = Networks(wanted, settings).rows(), paper.deductions("cifar10", paper.CIFAR10)
    norms = [_pick({**row, "guha": row["released"]["guha"]}, _NORMS) for row in rows]
    return Reproduction(
        tables={
            **_readings(rows, paper.CIFAR10, data="cifar10"),
            "The norm of an input, and how strongly a network is pruned by it": norms,
            _PRINTED: deduced,
        },
        sentences=(
            *verdicts.on_table(rows, paper.CIFAR10, deduced, claimed=7, settings=settings),
            *_cifar10_sentences(rows, deduced),
        ),
        deviations=wanted.deviations,
    )


def _cifar10_sentences(rows: Sequence[Row], deduced: Sequence[Row]) -> Iterator[str]:
    (printed,), (row,) = paper.CIFAR10.values(), deduced
    yield f"""The rows of Neyshabur 2017 and Bartlett 2017 differ by
        {row["Neyshabur 2017 - Bartlett 2017"]:.2f}, the logarithm of the mean fan-in at width 2000,
        {row["ln mean fan-in"]:.2f}: that is the width of the network (G-E22)."""
    ratio = verdicts.span([each["input_norm"] / each["pixel_norm"] for each in rows], ".0f")
    yield f"""An image has {ratio} times the norm of a pixel, which the code takes in its place; lemma B.2
        needs the norm of the whole input (G-E5), and the table of norms has both."""
    mnist = paper.MNIST[_WIDTH]
    orders = [decimal_orders(printed[name] - mnist[name]) for name in paper.BARS if name != "guha"]
    yield f"""The text says that the older bounds differ by "at least 7 orders of magnitude" between MNIST and
        CIFAR-10: as printed it is {verdicts.span(orders, ".1f")} decimal orders, and a factor
        {math.exp(printed["guha"] - mnist["guha"]):.1f} for the paper's own (G-E23)."""
    errors = verdicts.span([each["test_error"] for each in rows], ".0%")
    yield f"""A true error of e^{printed["test_error"]} = {math.exp(printed["test_error"]):.0%} is implausible
        for a perceptron on CIFAR-10 (G-E22); here it is {errors}."""


def _readings(rows: Sequence[Row], printed: Mapping[int, Logs], *, data: str) -> dict[str, list[Row]]:
    """The paper's table, ours beside it; the same on one scale, with two lines that need no comparison; the
    forms of the literature; and what was measured of each network.
    """
    fairly = {width: paper.like_for_like(bars, paper.EXAMPLES[data]) for width, bars in printed.items()}
    return {
        _RELEASED: [
            _pick(row, _WHICH)
            | _beside({**row["released"], "test_error": _log_error(row)}, printed.get(row["width"], {}))
            for row in rows
        ],
        _FAIR: [
            _pick(row, _WHICH)
            | _beside(paper.fair(row), fairly.get(row["width"], {}))
            | {label: row[name] for name, label in _HONEST.items()}
            for row in rows
        ],
        _LITERATURE: [_pick(row, _WHICH) | row["literature"] for row in rows],
        _NETWORKS: [_pick(row, _MEASURED) for row in rows],
    }


def _pick(row: Row, columns: Mapping[str, str]) -> dict[str, Any]:
    return {label: row[name] for label, name in columns.items()}


def _beside(ours: Logs, printed: Logs) -> dict[str, Any]:
    """Every number with the printed one behind it."""
    return {
        column: value
        for name, number in ours.items()
        for column, value in ((name, number), (f"published_{name}", printed.get(name)))
    }


def _log_error(row: Row) -> float | None:
    """Logarithm of the test error; None for no error at all."""
    return math.log(row["test_error"]) if row["test_error"] > 0.0 else None


@item("G-Exp1a", quick="2 minutes on one core", full="10 minutes on a GPU", of="a network of G-Tab1")
def guha_figure1a(settings: Settings) -> Reproduction:
    """Bounds for one network on MNIST, as bars (Guha et al. 2023, figure 1a)

    Bars of three older bounds, of the paper's own, and of the true error, on a logarithmic scale: left as
    the released code computes them, right like for like, with parameter counting and a certificate from
    held-out examples. A bar above zero stands for a bound above 1, which says nothing on an error rate; a
    missing one for an infinite bound, because the smallest margin of the sample is not positive. The full
    run also has the network after 100 epochs, as many as the second version of the code trains for.
    """
    wanted = network_settings("mnist", settings.size)
    width = _WIDTH if _WIDTH in wanted.widths else max(wanted.widths)
    narrower = () if width == _WIDTH else (f"The bars are of width {width}, the published of {_WIDTH}.",)
    networks = Networks(wanted, settings)
    published = {_WIDTH: paper.MNIST[_WIDTH]}
    return _bars("G-Exp1a", networks, published, widths=[width], claimed=3, cut=narrower, on_the_way=True)


@item("G-Exp1b", quick="a minute on one core", full="half an hour on a GPU", of=_TAB2)
def guha_figure1b(settings: Settings) -> Reproduction:
    """Bounds for one network on CIFAR-10, as bars (Guha et al. 2023, figure 1b)

    The bars of figure 1a for a network on CIFAR-10: left as the released code computes them, right like
    for like, with parameter counting and a certificate from held-out examples. A missing bar stands for an
    infinite bound, because the smallest margin of the sample is not positive.
    """
    networks = Networks(network_settings("cifar10", settings.size), settings)
    return _bars("G-Exp1b", networks, paper.CIFAR10, widths=networks.wanted.widths, claimed=7)


def _bars(
    id: str,
    networks: Networks,
    published: Mapping[int, Mapping[str, float]],
    *,
    widths: Sequence[int],
    claimed: int,
    cut: tuple[str, ...] = (),
    on_the_way: bool = False,
) -> Reproduction:
    wanted, (printed,) = networks.wanted, published.values()
    rows = networks.rows(widths, on_the_way=on_the_way)
    deduced = paper.deductions(wanted.data, published)
    table = _bars_table(rows, printed, data=wanted.data)
    columns = [*dict.fromkeys(row["training"] for row in rows), "published"]
    compared = [row for row in table if row["bar"] not in _HONEST.values()]
    plots = [
        _bars_plot("as released", compared, {name: name for name in columns}),
        _bars_plot("like for like", table, {name: f"{name}, like for like" for name in columns}),
    ]
    return Reproduction(
        tables={"Bars, as natural logarithms": table, _NETWORKS: [_pick(row, _MEASURED) for row in rows]},
        sentences=(
            verdicts.as_released(rows, deduced, claimed=claimed, settings=networks.settings),
            verdicts.on_one_scale(rows, deduced),
            verdicts.on_training(rows),
        ),
        deviations=(*cut, *wanted.deviations),
        figures={id: Figure(plots, columns=2)},
    )


def _bars_table(rows: Sequence[Row], printed: Logs, *, data: str) -> list[Row]:
    """One row for each bar: networks of one width, trained differently, beside the printed ones."""
    names = {**paper.BARS, **_HONEST, "test_error": "test error"}
    ours, fairly = dict[str, dict[str, Any]](), dict[str, dict[str, Any]]()
    for row in rows:
        honest = {name: row[name] for name in _HONEST}
        ours[row["training"]] = bars = {**honest, **row["released"], "test_error": _log_error(row)}
        fairly[row["training"]] = {**bars, **paper.fair(row)}
    published = {**printed, **paper.like_for_like(printed, paper.EXAMPLES[data])}
    return [
        {
            "bar": label,
            **{training: bars[name] for training, bars in ours.items()},
            "published": printed.get(name),
            **{f"{training}, like for like": bars[name] for training, bars in fairly.items()},
            "published, like for like": published.get(name),
        }
        for name, label in names.items()
    ]


def _bars_plot(title: str, table: Sequence[Row], columns: Mapping[str, str]) -> Plot:
    """Above zero a bound on an error rate says nothing; missing bars are those of infinite bounds."""
    drawn = []
    for label, column in columns.items():
        places = [place for place, row in enumerate(table) if row[column] is not None]
        drawn.append(Series(label, places, [table[place][column] for place in places], "bars"))
    names = [row["bar"] for row in table]
    return Plot(title, "", "natural logarithm", drawn, x_names=names, headroom=0.15 * len(drawn))


@item("G-Exp1c", quick="3 minutes on one core", full="an hour on a GPU", of=_TAB1)
def guha_figure1c(settings: Settings) -> Reproduction:
    """Bounds against the width of the hidden layers (Guha et al. 2023, figure 1c)

    The numbers of table 1 against the width: as the released code computes them, like for like, and what
    counting parameters and held-out examples give. Lines are the networks trained here by the code's
    settings, dashed lines the printed numbers in the same colours.
    """
    wanted = network_settings("mnist", settings.size)
    rows = Networks(wanted, settings).rows()
    readings = _readings(rows, paper.MNIST, data="mnist")
    n = paper.EXAMPLES["mnist"]
    fairly = {width: paper.like_for_like(bars, n) for width, bars in paper.MNIST.items()}
    code = [row for row in rows if row["training"] == CODE]
    growth = _growth(code)
    plots = [
        _bounds("as released", {row["width"]: row["released"] for row in code}, paper.MNIST),
        _bounds("like for like", {row["width"]: paper.fair(row) for row in code}, fairly),
        _plain_lines(code),
    ]
    return Reproduction(
        tables={
            **{title: readings[title] for title in (_RELEASED, _FAIR)},
            "Growth: exponent of the width in each bound, by least squares": growth,
        },
        sentences=(*_growth_sentences(code, growth), verdicts.on_training(rows)),
        deviations=wanted.deviations,
        figures={"G-Exp1c": Figure(plots)},
    )


def _growth(rows: Sequence[Row]) -> list[Row]:
    """Slopes of logarithms over the logarithm of the width, of finite bounds; None if most are infinite."""
    return [
        {
            "bound": label,
            "as released": _slope({row["width"]: row["released"][name] for row in rows}),
            "published": _slope({width: bars[name] for width, bars in paper.MNIST.items()}),
        }
        for name, label in paper.BARS.items()
    ]


def _slope(logs: Mapping[int, float | None]) -> float | None:
    points = [(math.log(width), log) for width, log in logs.items() if log is not None]
    return None if 2 * len(points) < len(logs) else slope(points)


def _growth_sentences(rows: Sequence[Row], growth: Sequence[Row]) -> Iterator[str]:
    *older, guha = growth
    printed = [row["published"] for row in older]
    ours = [row["as released"] for row in older if row["as released"] is not None]
    here = "" if guha["as released"] is None else f", here {guha['as released']:.2f}"
    finite = len(verdicts.separating(rows))
    where = "" if finite == len(rows) else f" over the {finite} of {len(rows)} widths where they are finite"
    older_here = f", here {verdicts.span(ours, '.2f')}{where}" if ours else ""
    yield f"""In print the paper's own bound grows like the width to the power {guha["published"]:.2f}{here}:
        like the root of the number of weights, times a logarithm, because about the same share of them is
        kept at every width (G-E22)."""
    yield f"""The older bounds grow like powers {verdicts.span(printed, ".2f")} of the width in
        print{older_here}; like for like each is half of that, because they are not rooted (G-E22)."""
    below = sum(row["parameter_counting"] < row["released"]["guha"] for row in rows)
    narrow, wide = (math.exp(row["hold_out"]) for row in (rows[0], rows[-1]))
    yield f"""Parameter counting is below the paper's own bound at {below} of {len(rows)} widths here. From
        the smallest to the largest width the certificate from held-out examples goes from {narrow:.1%} to
        {wide:.1%}."""


def _bounds(title: str, ours: Mapping[int, Logs], printed: Mapping[int, Logs]) -> Plot:
    here, there = ([{"width": width, **bars} for width, bars in logs.items()] for logs in (ours, printed))
    published = dict.fromkeys(paper.BARS, "") | {"guha": "dashed: published, in the same colours"}
    lines = [*curves(here, "width", paper.BARS), *curves(there, "width", published, "dashed", colour=0)]
    return Plot(title, "width", "natural logarithm", lines, headroom=0.8)


def _plain_lines(rows: Sequence[Row]) -> Plot:
    errors = [{"width": row["width"], "log": _log_error(row)} for row in rows]
    published = [bars["test_error"] for bars in paper.MNIST.values()]
    lines = [
        *curves(rows, "width", _HONEST),
        *curves(errors, "width", {"log": "test error"}, "points"),
        Series("published error", list(paper.MNIST), published, "dashed"),
    ]
    return Plot("plain lines", "width", "natural logarithm", lines)
