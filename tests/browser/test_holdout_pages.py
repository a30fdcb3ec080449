"""The pages of ledgers and watches in Chromium: they fit a phone, and axe finds nothing."""

import pytest
from worlds.ledgers import every_page

from codebound.report.holdout_page import lines_page

pytestmark = pytest.mark.browser
NAMES = tuple(every_page())


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    root = tmp_path_factory.mktemp("holdout")
    for name, lines in every_page().items():
        page = lines_page(lines, name=f"{name}.ledger.jsonl", head="12" * 32)
        (root / f"{name}.html").write_text(page, encoding="utf-8")
    return root


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("size", "scheme"), [("phone", "dark"), ("phone", "light"), ("desktop", "dark")])
def test_a_page_is_quiet_accessible_and_fits(name, size, scheme, pages, browser):
    browser.open(pages / f"{name}.html", size=size, scheme=scheme)
    browser.expect_a_good_page(f"holdout-{name}-{size}-{scheme}", scheme=scheme)


@pytest.mark.parametrize("name", ["alarm", "quiet", "few"])
def test_marks_of_a_plot_stay_inside(name, pages, browser):
    browser.open(pages / f"{name}.html", size="phone")
    outside = browser.js(
        "return [...document.querySelectorAll('.plot .ticks span')].filter(mark => "
        "mark.getBoundingClientRect().right > "
        "mark.closest('figure').getBoundingClientRect().right + 1).length"
    )
    assert outside == 0


def test_the_widest_gain_bar_begins_at_its_limit(pages, browser):
    browser.open(pages / "better.html")
    left, zero = browser.js(
        "return ['.axis-line .span', '.axis-line .zero'].map("
        "each => document.querySelector(each).getBoundingClientRect().left)"
    )
    assert left > zero
