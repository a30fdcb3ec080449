"""Plots as documents of their own."""

import xml.etree.ElementTree as ET

from codebound.report.figures import Plot, Series, plots_figure

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
