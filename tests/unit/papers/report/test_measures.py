"""Tables, flat rows and the page of ``codebound measure``, from rows alone."""

import re
import sys

import pytest
from worlds.commands import Page

from codebound_papers.report.measures import flat_rows, measure_page, measure_tables

QUANTITIES = (
    "layer_cushion",
    "interlayer_cushion",
    "activation_contraction",
    "jacobian_spread",
    "interlayer_smoothness",
)
EMPTY = (
    "shape", "frobenius_norm", "spectral_norm", "matrix_spectral_norm", "stable_rank", "alpha", *QUANTITIES,
    "minimal_interlayer_cushion", "noise_sensitivity", "distance_from_initial", "distance_cushion",
)  # fmt: skip
DRAWN = [name for name in QUANTITIES if name != "jacobian_spread"]
HOSTILE = "<script>alert(1)</script>"


def values(low: float, middle: float | None, high: float | None) -> dict:
    levels = ("0.01", "0.05", "0.25", "0.5", "0.75", "0.95", "0.99")
    return {"min": low, "max": high, "quantiles": dict.fromkeys(levels, middle)}


def layer(name: str, **found: object) -> dict:
    return {"name": name, "kind": "linear", **dict.fromkeys(EMPTY), **found}


def tail(status: str, reason: str) -> dict:
    return {
        "of": "eigenvalues", "status": status, "reason": f"{status}: {reason}", "density_exponent": 3.25,
        "tail_exponent": 2.25, "interval": [3.0, 3.5], "p_value": 0.4, "xmin": 1.0, "tail_points": 60,
        "values": 99,
    }  # fmt: skip


@pytest.fixture
def record() -> dict:
    histogram = {"counts": [1, 5, 2], "edges": [0.1, 0.2, 0.3, 0.4], "scale": "linear"}
    decades = {"counts": [1, 5, 2], "edges": [0.1, 1.0, 10.0, 100.0], "scale": "log"}
    curve = {"of": "eigenvalues", "x": [9.0, 3.0, 1.0], "share": [1 / 3, 2 / 3, 1.0]}
    names = ("first", HOSTILE, "last")
    norm = {"value": 2.0, "upper": 2.00001, "exact": True, "method": "x"}
    return {
        "layers": [
            layer(
                "first",
                shape=[4, 3],
                frobenius_norm=2.5,
                spectral_norm=norm,
                matrix_spectral_norm=2.0,
                stable_rank=1.5625,
                alpha=tail("power law", "p = 0.40"),
                layer_cushion=values(0.125, 0.25, 0.5),
                interlayer_cushion=values(0.0625, 0.25, 0.5),
                activation_contraction=values(1.0, 1.5, 4.5),
                interlayer_smoothness={"rho": 7.5, **values(3.0, None, None)},
                noise_sensitivity=64.0,
            ),
            layer(HOSTILE, kind="sum", layer_cushion=values(0.75, 0.8, 0.9)),
            layer(
                "last",
                shape=[2, 4],
                frobenius_norm=1.0,
                stable_rank=1.0,
                alpha=tail("no power law", "p = 0.00, 10 of 99 values in the tail"),
            ),
        ],
        "network": {"n": 10, "left_out": 3, "undefined": 2},
        "margins": {
            "n": 10, "errors": 1, "ties": 0, "non_finite": 0, **values(-0.5, 2.0, 3.0),
        },
        "not_measured": [
            {"layer": name, "quantity": "spectral norm", "reason": "too large"} for name in ("last", "other")
        ],
        "notes": ["3 batch norms are folded."],
        "settings": {"model": HOSTILE, "weights": None, "seed": 0},
        "curves": {
            "layers": {
                name: {
                    **dict.fromkeys(DRAWN, histogram),
                    "interlayer_smoothness": decades,
                    "survival": {**curve, "tail": None},
                }
                if name == "first"
                else {"survival": {**curve, "tail": {"x": [1.0, 9.0], "share": [1.0, 0.1]}}}
                for name in names
            },
            "margins": histogram,
        },
    }  # fmt: skip


def test_tables_show_the_worst_value_and_every_column_has_a_sentence(record):
    spectra, tails, stability, margins, missing = measure_tables(record)
    assert spectra.rows[0]["spectral norm"] == "2"
    assert spectra.rows[0]["at most"] == "2.001"  # rounded up, as it is a bound
    assert spectra.rows[1]["spectral norm"] == "-"
    assert tails.rows[0]["density exponent"] == "3.25"
    assert tails.rows[1]["density exponent"] == "(3.25)"
    assert tails.rows[1]["verdict"].startswith("no power law: p = 0.00, 10 of 99")
    first = stability.rows[0]
    assert first["layer cushion"] == "0.125 (0.25)"
    assert first["contraction"] == "4.5 (1.5)"
    assert first["smoothness"] == "7.5 (infinite)"
    assert "spread" not in first
    assert "7 of 10 examples, 2 of them" in stability.title
    assert [row["value"] for row in margins.rows][:3] == ["10", "1", "-0.5"]
    assert missing.rows == [{"what": "spectral norm", "where": "last, other", "why": "too large"}]
    for table in (spectra, tails, stability):
        assert list(table.rows[0])[1:] == [column for column in table.legend if column != "layer"]
        assert all(sentence.endswith(".") for sentence in table.legend.values())


def test_flat_rows_are_numbers_by_layer(record):
    first, middle, last = flat_rows(record)
    assert list(first) == list(middle) == list(last)
    assert (first["layer_cushion"], first["layer_cushion_median"]) == (0.125, 0.25)
    assert (first["activation_contraction"], first["interlayer_smoothness"]) == (4.5, 7.5)
    assert (last["tail_status"], last["density_exponent"]) == ("no power law", 3.25)
    assert middle["stable_rank"] == ""


def test_flat_rows_of_margins_alone(record):
    record["layers"] = [layer("first", shape=[4, 3])]
    (row,) = flat_rows(record)
    assert (row["n"], row["min"], row["quantile_0.5"]) == (10, -0.5, 2.0)


@pytest.mark.thorough
def test_the_page_has_every_layer_and_figure_and_needs_nothing_else(record):
    source = measure_page(record, title=HOSTILE, subtitle="x")
    page = Page(source)
    for text in (
        "first",
        "last",
        HOSTILE,
        "Layer cushion",
        "Interlayer smoothness",
        "Spectra and",
        "Margins",
    ):
        assert text in page.text
    assert "no power law" in page.text
    assert "3 batch norms are folded." in page.text
    assert page.tags.count("svg") == len(DRAWN) + 2
    assert all(link.startswith("#") for link in page.links)
    assert not {"script", "link", "iframe", "img"} & set(page.tags)
    assert not re.search(r"https?://|@import|url\((?!#)", source)
    assert "<script" not in source


@pytest.mark.thorough
def test_the_page_is_the_same_every_time(record):
    pages = {measure_page(record, title="t", subtitle="s") for _ in range(2)}
    assert len(pages) == 1


@pytest.mark.thorough
def test_figures_leave_the_settings_of_matplotlib_alone(record, monkeypatch):
    import matplotlib

    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)  # another test may need it

    def settings():
        # reading the backend would choose one
        return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}

    before = settings()
    measure_page(record, title="t", subtitle="s")
    assert settings() == before
    assert "matplotlib.pyplot" not in sys.modules


def test_a_page_without_data_has_no_figures(record):
    record["curves"] = {"layers": {"first": {"survival": {"of": "eigenvalues", "x": []}}}, "margins": None}
    assert "svg" not in Page(measure_page(record, title="t", subtitle="s")).tags


@pytest.mark.thorough
def test_one_value_in_a_spectrum_and_equal_values_can_be_drawn(record):
    single = {"of": "eigenvalues", "x": [2.0], "share": [1.0], "tail": None}
    same = {"counts": [0, 4, 0], "edges": [0.5, 1.0, 1.5, 2.0], "scale": "linear"}
    record["curves"]["layers"]["first"] |= {"survival": single, "layer_cushion": same}
    assert "svg" in Page(measure_page(record, title="t", subtitle="s")).tags
