"""Plots as documents of their own."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from codebound_papers.report.figures import Contours, Figure, Plot, Series, curves, plots_figure

SVG = "{http://www.w3.org/2000/svg}"
PLOTS = [
    Plot(
        "first <b>",
        "noise & more",
        "error",
        (
            Series("", [1, 2], [1, 2], "shades", [0.0, 1.0]),
            Series("law", [1, 2], [1.5, 2.5]),
            Series("dots", [1, 2], [2, 3], "points"),
            Series("other", [1, 2], [3, 4], "dashed"),
        ),
        x_scale="log",
        x_ticks=[1, 2],
    ),
    Plot("second", "x", "y", (Series("", [0, 1], [0, 1]),)),
]


def test_a_document_with_every_text():
    root = ET.fromstring(plots_figure(PLOTS))
    assert root.tag == f"{SVG}svg"
    texts = {element.text for element in root.iter(f"{SVG}text")}
    assert {"first <b>", "noise & more", "error", "law", "dots", "other", "second", "1", "2"} <= texts


def test_the_same_rows_give_the_same_bytes():
    assert plots_figure(PLOTS) == plots_figure(PLOTS)


def test_nothing_is_fetched():
    svg = plots_figure(PLOTS)
    assert "<metadata" not in svg
    assert "<!DOCTYPE" not in svg
    assert svg.count("http") == 2  # the two namespaces


def test_plots_fill_rows_of_the_figure():
    def size(figure):
        return ET.fromstring(figure).get("viewBox").split()[2:]

    wide, high = (size(plots_figure(PLOTS, columns=columns)) for columns in (2, 1))
    assert float(wide[0]) == 2 * float(high[0])
    assert float(high[1]) == 2 * float(wide[1])


def texts(figure):
    return {element.text for element in ET.fromstring(figure).iter(f"{SVG}text")}


def strokes(*series):
    """Colours of the lines, in the order of the series; legends repeat them."""
    drawn = plots_figure([Plot("", "", "", series)])
    return re.findall(r"stroke: (#[0-9a-f]{6}); stroke-width: 1\.2", drawn)


def test_six_lines_have_six_colours_and_one_may_have_that_of_another():
    rows = [{"x": 0, **{f"y{k}": k for k in range(6)}}, {"x": 1, **{f"y{k}": k + 1 for k in range(6)}}]
    lines = curves(rows, "x", {f"y{k}": "" for k in range(6)})
    assert len(set(strokes(*lines))) == 6
    again = curves(rows, "x", {"y1": "", "y2": ""}, colour=1)
    assert strokes(*lines, *again)[6:] == strokes(*lines)[1:3]


def test_contours_are_labelled_with_their_levels():
    grid = [0.0, 1.0, 2.0]
    ramp = Contours(grid, grid, [grid] * 3, levels=[0.5, 1.5])
    assert {"0.5", "1.5"} <= texts(plots_figure([Plot("ramp", "x", "y", [ramp])]))


def test_deviations_are_drawn_in_the_colour_of_their_points():
    plain, barred = (
        plots_figure([Plot("", "x", "y", [Series("a", [1, 2], [1, 2], "points", deviations=bars)])])
        for bars in ((), (0.5, 0.5))
    )
    assert len(barred) > len(plain)
    assert barred.count("stroke: #d9730d") > plain.count("stroke: #d9730d")


@pytest.mark.thorough
def test_a_figure_is_drawn_in_no_more_columns_than_it_has_plots():
    assert Figure(PLOTS).svg() == plots_figure(PLOTS, columns=2)
    assert Figure(PLOTS, columns=1).svg() == plots_figure(PLOTS, columns=1)


def test_bars_stand_side_by_side_over_their_names():
    left, right = Series("here", [0, 1], [2, -1], "bars"), Series("there", [0, 1], [3, -2], "bars")
    figure = plots_figure([Plot("bars", "", "y", [left, right], x_names=["first", "second"])])
    assert {"here", "there", "first", "second"} <= texts(figure)
    filled = re.findall(r'd="M ([\d.]+) [\d.]+ \nL ([\d.]+) [^"]*" clip-path="[^"]*" style="fill: #', figure)
    starts_and_ends = sorted((float(start), float(end)) for start, end in filled)
    assert len(starts_and_ends) == 4
    assert all(end <= start + 1e-3 for (_, end), (start, _) in pairwise(starts_and_ends))
