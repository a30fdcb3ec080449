"""The page about a certificate in Chromium: slider, terms, keys, phones, print, and no requests."""

import base64
import random

import numpy as np
import pytest
from worlds.bright_rows import images, solved
from worlds.requests import request

from codebound.bounds.held_out import looked_risk, picked_risk
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import LookFacts, OccamFacts, PickedFacts, percent
from codebound.certification import certify
from codebound.known.provenance import Pretrained
from codebound.report.html import formulas
from codebound.request import Run
from codebound.sample.arrays import from_arrays

pytestmark = pytest.mark.browser

ASKED = {
    "picks": {"method": "picks"},
    "message": {"by_class": True},
    "original": {"unlabelled": images(300, 1, "unlabelled")},
    "loss": {"loss": "class:1"},
    "split": {"method": "split"},
    "costs": {"loss": "cost-above:0:distance"},
    "base": {"base": Pretrained(solved().build(), "rows seen elsewhere, and never these")},
    "answered": {"method": "split", "on": "answered:1"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A certificate of each kind, and one of a table; with its folder."""
    root, given = tmp_path_factory.mktemp("made"), {"method": "prune", "effort": "quick"}
    sample, test = images(900), images(300, 2, "test")
    sample.y[::20] = (sample.y[::20] + 1) % 3  # something is wrong
    found = {
        name: certify(sample, network=solved().build(), test=test, **request(**given | asked))
        for name, asked in ASKED.items()
    }
    stream = np.random.default_rng(0)
    y = stream.integers(2, size=300)
    x = (stream.normal(size=(300, 12)) + y[:, None]).astype(np.float32)
    found["table"] = certify(from_arrays(x, y, name="a table"), method="picks", run=Run(effort="quick"))
    return {name: (each, each.save_to(root / name)) for name, each in found.items()}


def page_of(made, name):
    return made[name][1].folder / "report.html"


@pytest.mark.parametrize("name", [*ASKED, "table"])
@pytest.mark.parametrize("size", ["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_quiet_accessible_and_fits(name, size, scheme, made, browser):
    browser.open(page_of(made, name), size=size, scheme=scheme)
    browser.expect_a_good_page(f"{name}-{size}-{scheme}", scheme=scheme)


def test_axe_and_the_width_would_notice(made, browser):
    browser.open(page_of(made, "picks"), size="phone")
    browser.js("document.querySelector('img').removeAttribute('alt')")
    browser.js("document.querySelector('h1').style.width = '900px'")
    assert [name for name, _ in browser.violations()] == ["image-alt"]
    assert browser.overhang() > 0
    browser.js("console.error('seen')")
    browser.js("new Image().src = 'https://example.org/x.png'")
    assert len(browser.complaints()) == 2  # and the policy of the page refused the request


def cases():
    """Facts of every law, small and large, with what the library says."""
    stream = random.Random(0)
    for _ in range(150):
        n = round(10 ** stream.uniform(0.5, 7))
        k = round(n * stream.random() ** 3)
        bits, delta = stream.choice([0, round(10 ** stream.uniform(0, 4.5))]), 10 ** stream.uniform(-9, -0.31)
        occam = OccamFacts(errors=k, n=n, code_bits=bits, delta=delta)
        yield (
            {"law": "binomial", "count": k, "n": n, "bits": bits, "share": 1},
            delta,
            occam_binomial(occam).value,
        )
        picked = PickedFacts(picks=k - k // 3, errors=k // 3, n=n, code_bits=bits, delta=delta)
        yield (
            {"law": "picked", "count": k, "n": n, "bits": bits, "share": 1},
            delta,
            picked_risk(picked).value,
        )
        looked = LookFacts(errors=k, n=n, delta=delta, looks=1000)
        yield (
            {"law": "binomial", "count": k, "n": n, "bits": 0, "share": 1e-3},
            delta,
            looked_risk(looked).value,
        )


def test_the_formulas_of_the_page_equal_the_library_to_six_digits(made, browser):
    browser.open(page_of(made, "picks"))
    known = list(cases())
    found = browser.js(
        "return arguments[0].map(([term, delta]) => bounds.at([term], delta));",
        [[{"weight": 1, **term}, delta] for term, delta, _ in known],
    )
    for value, (term, delta, stated) in zip(found, known, strict=True):
        assert value == pytest.approx(stated, rel=5e-7), (term, delta)
    texts = browser.js("return arguments[0].map(bounds.percent);", [stated for _, _, stated in known])
    assert sum(text != percent(stated) for text, (_, _, stated) in zip(texts, known, strict=True)) == 0


@pytest.mark.parametrize("name", [*ASKED, "table"])
def test_the_slider_moves_every_bound_as_the_library_does(name, made, browser):
    found, saved = made[name]
    browser.open(page_of(made, name))
    assert browser.text("#bound") == percent(found.certificate.claim.bound)
    terms = formulas(found.certificate, saved.result)
    for exponent in (0.35, 2, 5.5, 9):
        browser.slide("#delta", exponent)
        delta = float(browser.text("#chosen"))
        assert delta == pytest.approx(10**-exponent, rel=1e-2)
        bound = {part: own.bound(own.limits(delta)) for part, own in terms.items()}
        assert float(browser.text("#digits")) == pytest.approx(bound["certified"], rel=1e-6)
        assert browser.text("#bound") == percent(bound["certified"]) == browser.text(".certified .value")
        for part in bound.keys() - {"certified"}:
            where = f".{part} .value" if part.startswith("holdout") else f"[data-bound={part}]"
            assert browser.text(where) == percent(bound[part])
    browser.find("#reset").click()
    assert (
        browser.text("#bound") == percent(found.certificate.claim.bound) == browser.text(".certified .value")
    )
    assert browser.text("#chosen") == "0.05"
    assert browser.complaints() == []


def test_keys_move_the_slider_and_it_says_what_it_shows(made, browser):
    browser.open(page_of(made, "picks"))
    before = browser.text("#bound")
    slider = browser.find("#delta")
    slider.send_keys(browser.keys.END)
    assert browser.text("#odds") == "1,000,000,000"
    assert browser.text("#bound") != before
    assert browser.text("#bound") in slider.get_attribute("aria-valuetext")


def test_every_control_is_reached_by_tab(made, browser):
    browser.open(page_of(made, "picks"))
    controls = browser.js("return document.querySelectorAll('button, input').length")
    seen = set()
    for _ in range(controls):
        browser.find("body").send_keys(browser.keys.TAB) if not seen else browser.active().send_keys(
            browser.keys.TAB
        )
        seen.add(browser.js("return document.activeElement.outerHTML"))
    assert len(seen) == controls > 8


def test_a_term_is_explained_on_hover_on_focus_and_goes_away(made, browser):
    browser.open(page_of(made, "picks"))
    tip = browser.find(".certified .term [role=tooltip]")
    assert not tip.is_displayed()
    browser.hover(".certified .term button")
    assert tip.is_displayed()
    assert "new data" in tip.text
    browser.find("body").send_keys(browser.keys.ESCAPE)
    assert not tip.is_displayed()
    browser.hover("h1")
    browser.js("document.querySelector('.certified .term button').focus()")
    assert tip.is_displayed()


def test_a_tip_stays_on_a_phone(made, browser):
    browser.open(page_of(made, "picks"), size="phone")
    for term in browser.driver.find_elements("css selector", ".term button"):
        browser.js("arguments[0].focus()", term)
        left, right = browser.js(
            "const box = arguments[0].nextElementSibling.getBoundingClientRect();"
            "return [box.left, box.right];",
            term,
        )
        assert 0 <= left < right <= 390


def test_the_command_can_be_copied(made, browser):
    browser.open(page_of(made, "picks"))
    browser.find("[data-copies=command]").click()
    assert browser.text("[data-copies=command]") == "Copied"
    assert browser.js("return getSelection().toString().trim()") == made["picks"][1].result["verify_here"]


def test_it_prints_in_black_on_white_without_controls(made, browser):
    browser.open(page_of(made, "picks"), scheme="dark")
    browser.look("dark", "print")
    assert browser.js("return getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert browser.js("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not browser.find("#delta").is_displayed()
    pdf = base64.b64decode(browser.tell("Page.printToPDF")["data"])
    assert pdf.startswith(b"%PDF")
    browser.look("light")


def test_it_is_a_page_without_scripts_too(made, browser):
    browser.tell("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page_of(made, "picks"))
        text = browser.find("main").text
    finally:
        browser.tell("Emulation.setScriptExecutionDisabled", value=False)
    assert percent(made["picks"][0].certificate.claim.bound) in text
    assert "codebound-verify certificate.cbound" in text
