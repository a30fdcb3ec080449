"""Tables, picture and page of ``codebound compare``, from rows alone."""

import re

import pytest

from codebound_papers.compare.page import (
    compare_figure,
    compare_page,
    compare_table,
    epochs_figure,
    format_value,
    without_number,
)
from codebound_papers.compare.rows import BAR, NO_MARGIN
from codebound_papers.report.figures import standalone

HOSTILE = "<script>alert(1)</script> $x_1$"


def row(name: str, value: float | None, log10: float | None, **other: object) -> dict:
    plain = {"kind": "published", "subject": "f", "guarantee": False, "vacuous": True, "note": "A note."}
    plain |= {"conditions": "1 met, 2 NOT met"}
    return {"name": name, "reference": "I-17", "value": value, "log10": log10} | plain | other


def record() -> dict:
    condition = {"statement": "the sun shines", "holds": False, "found": "rain"}
    return {
        "rows": [
            row("mine", 0.123449, -0.9, kind="certified", guarantee=True, vacuous=False, subject="g"),
            row("fresh", 0.05, -1.3, kind="holdout", guarantee=True, vacuous=False),
            row("counted", 0.0, None, kind="test", vacuous=False, reference=""),
            row(HOSTILE, 12.0, 1.08),
            row("beyond doubles", None, 400.25),
            row("endless", None, None, note=f"A note. {NO_MARGIN}"),
            row("bar of a figure", 650.0, 2.8, note=f"A note. {BAR}"),
            row("no chain 1", None, None, vacuous=None, note="Does not apply: it is no chain."),
            row("no chain 2", None, None, vacuous=None, note="Does not apply: it is no chain."),
        ],
        "details": [
            {
                "name": HOSTILE, "reference": "I-17", "hypotheses": [condition], "errata": ["G-E1"],
                "constants": [{"symbol": "C", "value": 1.0, "meaning": "open"}],
                "failure_published": 0.05, "failure_corrected": None,
            }
        ],
        "lemmas": [
            {"name": "count", "reference": "A-Lem10:count", "value": 3.0, "log10": 0.5, "unit": "numbers",
             "sentence": "Numbers."},
            {"name": "other", "reference": "G-Lem4.3", "reason": "it is no chain."},
        ],
        "complexities": [{"layer": "fc", "value": 10.0, "weights": 1000, "percent": 1.0}],
        "facts": {"classes": 10, "margin": -0.3},
        "like_for_like": False,
        "notes": ["One sentence."],
        "settings": {"model": "mlp", "data": "digits", "codebound": "1.0", "margin_share": 0.05},
        "sample": {"n": 1797, "classes": 10},
    }  # fmt: skip


def test_guarantees_are_rounded_up_and_the_rest_is_not():
    table = {line["bound"]: line for line in compare_table(record()).rows}
    assert table["mine"]["value"] == "12.35 %"
    assert table["counted"]["value"] == "0.00 %"
    assert table[HOSTILE]["value"] == "1200.00 %"
    assert table["bar of a figure"]["value"] == "650"
    assert (table["mine"]["kind"], table["fresh"]["kind"]) == ("certified", "hold-out bound")
    assert table["beyond doubles"]["kind"] == "published, no guarantee, vacuous"
    assert table["beyond doubles"]["value"] == "10^402.2 %"
    assert table["counted"]["reference"] == "-"
    assert table[HOSTILE]["conditions"] == "1 met, 2 NOT met"
    assert "no chain 1" not in table


def test_what_has_no_number_is_grouped_by_reason():
    folded, refused = without_number(record()).rows
    assert refused == {
        "count": 2,
        "bounds": "no chain 1; no chain 2",
        "why": "Does not apply: it is no chain.",
    }
    assert (folded["count"], folded["bounds"]) == (1, "endless")
    assert "gamma is -0.3: 5.00 % of the sample have no larger one." in folded["why"]
    assert without_number(record() | {"rows": record()["rows"][:2]}) is None


def test_a_smallest_margin_is_another_reason():
    facts = {"facts": {"classes": 10, "margin": 0.4}}
    assert "They take the smallest margin of the sample" in without_number(record() | facts).rows[0]["why"]


@pytest.mark.parametrize(("value", "log10", "text"), [(0.5, -0.3, "0.5"), (None, 9.0, "10^9.0")])
def test_values_are_shown_as_numbers_or_powers(value, log10, text):
    assert format_value(value, log10) == text


@pytest.mark.thorough
def test_the_picture_has_every_finite_row_and_the_line_of_guessing():
    svg = compare_figure(record())
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    for name in ("mine", "fresh", "beyond doubles", "guessing", "certified", "hold-out bound"):
        assert name in texts
    assert "endless" not in texts
    assert "<script>" not in svg
    assert svg == compare_figure(record())
    assert standalone(svg).startswith('<svg xmlns="http://www.w3.org/2000/svg"')


def test_the_page_escapes_and_says_what_is_not_drawn():
    page = compare_page(record())
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "Not drawn, because infinite, zero or a capacity: 3." in page
    assert "the sun shines" in page
    assert "The smallest guarantee is 5.01 %, by fresh, about f. The 4 published expressions" in page
    assert "it is no chain." in page
    assert "Table 1 of Arora et al." in page


def test_a_page_without_guarantees_says_so():
    rows = [each for each in record()["rows"] if not each["guarantee"]]
    assert "Nothing is guaranteed here: there are 4 published expressions" in compare_page(
        record() | {"rows": rows}
    )


def test_epochs_are_drawn_even_where_bounds_are_infinite():
    points = [
        {"epoch": 1, "train_error": 0.5, "test_error": None, "gamma": -1.0, "least_margin": -2.0,
         "log10": {"a": None, "b": 2.0}},
        {"epoch": 2, "train_error": 0.1, "test_error": None, "gamma": 0.5, "least_margin": -1.0,
         "log10": {"a": 3.0, "b": 1.0}},
    ]  # fmt: skip
    svg = epochs_figure(points)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert {"training", "gamma", "a", "b"} <= set(texts)
    assert "test" not in texts
