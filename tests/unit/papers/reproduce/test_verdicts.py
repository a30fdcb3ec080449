"""One rule for all papers, and no item that goes round it."""

import re
from pathlib import Path

import pytest

import codebound_papers
from codebound_papers.reproduce.items import Settings, verdict

FULL = Settings(size="full")


@pytest.mark.parametrize(
    ("agreed", "of", "word"),
    [(2, 2, "We agree"), (1, 2, "We agree in part"), (2, 5, "We do not agree"), (0, 1, "We do not agree")],
)
def test_the_rule_at_the_published_length(agreed, of, word):
    assert verdict(agreed, of=of, settings=FULL) == word


@pytest.mark.parametrize(
    ("settings", "differs", "why"),
    [
        (Settings(size="quick"), "", "smaller than"),
        (Settings(size="full", epochs=60), "", "shorter than"),
        (Settings(size="quick", epochs=6), "", "smaller and shorter than"),
        (FULL, "other networks", "other networks"),
    ],
)
def test_below_it_nothing_is_disagreed_with(settings, differs, why):
    told = verdict(0, of=1, settings=settings, differs=differs)
    assert told.startswith("Open (")
    assert why in told
    assert verdict(1, of=1, settings=settings, differs=differs) == "We agree"


def test_no_item_with_trained_networks_disagrees_by_itself():
    """Only figures that are computed, not trained, may: those of ``shin21/items/spectrum_figures.py``."""
    root = Path(codebound_papers.__file__).parent
    for path in root.glob("*/items/*.py"):
        if path.name != "spectrum_figures.py":
            assert not re.search("[Ww]e do not agree", path.read_text()), path
