"""results/reproduction.md says what the committed results say."""

import json
from pathlib import Path

import pytest
from worlds.commands import script

from codebound.run.errors import FormatError
from codebound_papers.reproduce.items import OUTCOMES

WRITER = script(Path(__file__).parents[2] / "results/reproduction.py")
cost, outcome, outcomes, page = WRITER.cost, WRITER.outcome, WRITER.outcomes, WRITER.page
read_results, RESULTS, SIZES = WRITER.read_results, WRITER.RESULTS, WRITER.SIZES
RECORD = {
    "item": "S-Fig1",
    "title": "A figure",
    "command": "codebound reproduce S-Fig1 --quick --seed 0",
    "cpu_seconds": 12.3,
    "machines": [{"device": "cpu", "cells": 2}],
    "not_run": [],
    "size": "quick",
    "sentences": ["It was said before.", "We agree: it holds."],
    "deviations": ["Fewer epochs."],
    "figures": ["S-Fig1.svg"],
    "tables": {
        "Numbers": [{"a|b": 0.123456, "published": None}, {"a|b": 7, "published": "x|y"}],
        "Long": [{"n": n} for n in range(100)],
        "Empty": [],
    },
}


def test_the_page_is_up_to_date():
    written = WRITER.PAGE.read_text(encoding="utf-8")
    assert written == page(read_results()), "run: python results/reproduction.py"


def test_the_outcomes_that_are_installed_are_those_of_the_results():
    assert json.loads(OUTCOMES.read_text()) == outcomes(read_results())
    full = RECORD | {"sentences": ["We agree in part: at times."]}
    found = outcomes({"quick": {"S-Fig1": RECORD}, "full": {"S-Fig1": full}})
    assert found["S-Fig1"] == {
        "verdict": "We agree in part",
        "quick results": "12 s of one core",
        "full results": "12 s of one core",
    }
    assert found["S-Fig2"] == {"verdict": "-", "quick results": "not run", "full results": "not run"}


def test_every_figure_of_the_page_is_there():
    for size, records in read_results().items():
        for record in records.values():
            assert record["size"] == size
            for figure in record["figures"]:
                assert (RESULTS / SIZES[size] / figure).stat().st_size < 400_000


def test_a_section_has_figure_numbers_sentence_and_command():
    text = page({"quick": {"S-Fig1": RECORD}, "full": {}})
    for part in (
        "| quick | `codebound reproduce S-Fig1 --quick --seed 0` | 12 s of one core |",
        "| full | `codebound reproduce S-Fig1 --full` | not run |",
        "![A figure](reproduce/S-Fig1.svg)",
        "| 0.1235 | - |",
        "| 7 | x\\|y |",
        "**We agree: it holds.**",
        "- It was said before.",
        "- Deviation: Fewer epochs.",
        "[S-Fig1.json](reproduce/S-Fig1.json)",
        "*full:* not run. `codebound reproduce S-Fig1 --full` costs",
    ):
        assert part in text
    assert "Long" not in text
    assert "Empty" not in text
    section = text[text.index("## S-Fig1") :]
    order = ["![A figure]", "**We agree: it holds.**", "| 0.1235 |", "--quick --seed 0`, 12 s", "<details>"]
    assert [section.index(part) for part in order] == sorted(section.index(part) for part in order)


def test_a_full_run_comes_first_and_says_what_it_lacks():
    full = RECORD | {"not_run": ["width 7", "width 8"], "size": "full"}
    text = page({"quick": {"S-Fig1": RECORD}, "full": {"S-Fig1": full}})
    assert text.index("*full:* `codebound") < text.index("*quick:* We agree: it holds. `codebound")
    assert "![A figure](reproduce/full/S-Fig1.svg)" in text
    assert "![A figure](reproduce/S-Fig1.svg)" not in text
    assert text.count("Not run, for want of time: width 7; width 8.") == 1
    assert "| 12 s of one core; 2 parts not run |" in text


def test_what_was_not_run_is_said():
    assert outcome(None) == "not run"
    assert outcome(RECORD) == "12 s of one core"
    assert outcome(RECORD | {"not_run": ["width 7"]}) == "12 s of one core; 1 part not run"


def test_the_cost_names_a_gpu_and_long_runs_in_minutes():
    machines = [{"device": "cuda:0 (a GPU)", "seconds": 3600.0}, {"device": "cpu", "seconds": 0.2}]
    assert cost({"cpu_seconds": 7200.0, "machines": machines}) == "60 min on cuda:0 (a GPU), 1 s on cpu"


@pytest.mark.parametrize("text", ["", "[]", "{}", "3"])
def test_a_file_that_holds_no_results_is_named(tmp_path, text):
    (tmp_path / "S-Fig1.json").write_text(text)
    with pytest.raises(FormatError, match=r"S-Fig1\.json .*Make the item again"):
        read_results(tmp_path)


def test_results_are_found_by_size_and_item(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/sketch-phase.json").write_text(json.dumps(RECORD | {"item": "sketch:phase"}))
    (tmp_path / "S-Fig1.json").write_text(json.dumps(RECORD))
    (tmp_path / "S-Fig1.cells.json").write_text("{}")
    assert {size: list(found) for size, found in read_results(tmp_path).items()} == {
        "quick": ["S-Fig1"],
        "full": ["sketch:phase"],
    }
    assert read_results(tmp_path / "nowhere") == {"quick": {}, "full": {}}
