"""docs/reproduction.md says what the committed results say."""

import json
from pathlib import Path

import pytest

import codebound.reproduce  # noqa: F401  registers the items
from codebound.errors import FormatError
from codebound.reproduce.gallery import PAGE, RESULTS, cost, page, read_results

ROOT = Path(__file__).parents[3]
RECORD = {
    "item": "X-Tab1",
    "title": "A table",
    "about": "What it is.",
    "command": "codebound reproduce X-Tab1 --quick --seed 0",
    "cpu_seconds": 12.3,
    "machines": [{"device": "cpu", "cells": 2}],
    "sentences": ["We agree."],
    "deviations": ["Fewer epochs."],
    "figures": ["X-Tab1.svg"],
    "tables": {
        "Numbers": [{"a|b": 0.123456, "published": None}, {"a|b": 7, "published": "x|y"}],
        "Long": [{"n": n} for n in range(100)],
        "Empty": [],
    },
}


def test_the_page_is_up_to_date():
    written = (ROOT / PAGE).read_text(encoding="utf-8")
    assert written == page(read_results(ROOT / RESULTS)), "run: python -m codebound.reproduce.gallery"


def test_every_figure_of_the_page_is_there():
    for record in read_results(ROOT / RESULTS).values():
        for figure in record["figures"]:
            assert (ROOT / RESULTS / figure).stat().st_size < 400_000


def test_a_section_has_figure_numbers_sentence_and_command():
    text = page({"X-Tab1": RECORD})
    for part in (
        "| [X-Tab1](#x-tab1) | A table | `codebound reproduce X-Tab1 --quick --seed 0` | 12 s of one core |",
        "![A table](../results/reproduce/X-Tab1.svg)",
        "| 0.1235 | - |",
        "| 7 | x\\|y |",
        "- We agree.",
        "- Fewer epochs.",
        "[X-Tab1.json](../results/reproduce/X-Tab1.json)",
    ):
        assert part in text
    assert "Long" not in text
    assert "Empty" not in text


def test_the_cost_names_a_gpu_and_long_runs_in_minutes():
    machines = [{"device": "cuda:0 (a GPU)"}, {"device": "cuda:0 (a GPU)"}, {"device": "cpu"}]
    record = {"seconds": 3600.0, "cpu_seconds": 7200.0, "machines": machines}
    assert cost(record) == "60 min on cuda:0 (a GPU), cpu"


@pytest.mark.parametrize("text", ["", "[]", "{}", "3"])
def test_a_file_that_holds_no_results_is_named(tmp_path, text):
    (tmp_path / "S-Fig1.json").write_text(text)
    with pytest.raises(FormatError, match=r"S-Fig1\.json does not hold"):
        read_results(tmp_path)


def test_results_come_in_the_order_of_the_items(tmp_path):
    for id in ("X-Tab1", "sketch:phase"):
        (tmp_path / f"{id.replace(':', '-')}.json").write_text(json.dumps(RECORD | {"item": id}))
    (tmp_path / "S-Fig1.cells.json").write_text("{}")
    assert list(read_results(tmp_path)) == ["sketch:phase", "X-Tab1"]
    assert read_results(tmp_path / "nowhere") == {}
