"""The pages of compare, measure, sweep and report in Chromium: they fit a phone, and axe finds nothing."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner
from worlds.bright_rows import images, solved

from codebound.certification import certify
from codebound.cli.main import app
from codebound.request import Run

pytestmark = pytest.mark.browser

PLAN = """
[defaults]
data = "digits"
holdout = 0.2
model = "linear"

[grid]
seed = [0, 1]

[[jobs]]
verb = "train"
epochs = 1
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Every page, as its command writes it."""
    root = tmp_path_factory.mktemp("other")

    def run(*arguments, status=0):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == status, result.output

    (root / "plan.toml").write_text(PLAN)
    certify(images(300), network=solved().build(), method="prune", run=Run(effort="quick")).save_to(
        root / "cert"
    )
    run("sweep", root / "plan.toml", "--workers", 1, "--out", root / "s", "-q")
    [*_, row] = json.loads((root / "s" / "rows.json").read_text())["rows"]
    weights = next(Path(root / "s" / "jobs").glob(f"{row['job']}*/output/model.safetensors"))
    given = ("--model", "linear", "--network", weights, "--data", "digits", "-q")
    run("measure", *given, "--examples", 50, "--out", root / "m")
    run("compare", *given, "--holdout", 0.2, "--no-certify", "--out", root / "c")
    result = CliRunner().invoke(app, ["audit", "report", str(root / "cert")])
    assert result.exit_code != 0  # the author's words are missing
    words = root / "cert" / "dossier.toml"
    words.write_text(words.read_text().replace('= ""', '= "As somebody said, at some length."'))
    run("audit", "report", root / "cert", "--profile", "eu-ai-act")
    return {
        "sweep": root / "s" / "sweep.html",
        "measure": root / "m" / "measure.html",
        "compare": root / "c" / "compare.html",
        "dossier": root / "cert" / "dossier.html",
    }


@pytest.mark.parametrize("name", ["sweep", "measure", "compare", "dossier"])
@pytest.mark.parametrize(("size", "scheme"), [("phone", "dark"), ("phone", "light"), ("desktop", "dark")])
def test_a_page_is_quiet_accessible_and_fits(name, size, scheme, pages, browser):
    browser.open(pages[name], size=size, scheme=scheme)
    browser.expect_a_good_page(f"{name}-{size}-{scheme}", scheme=scheme)


@pytest.mark.parametrize("name", ["sweep", "measure", "compare", "dossier"])
def test_on_a_phone_every_cell_has_its_name(name, pages, browser):
    browser.open(pages[name], size="phone")
    cells = browser.driver.find_elements("css selector", ".cards td")
    assert len(cells) > 3
    assert all(cell.get_attribute("data-label") for cell in cells)
    shown = browser.js("return getComputedStyle(arguments[0], '::before').content", cells[0])
    assert cells[0].get_attribute("data-label") in shown


def test_conditions_unfold(pages, browser):
    browser.open(pages["compare"])
    details = browser.find("details")
    assert not details.find_element("css selector", "table").is_displayed()
    details.find_element("css selector", "summary").send_keys(browser.keys.ENTER)
    assert details.find_element("css selector", "table").is_displayed()
