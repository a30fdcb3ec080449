"""The page about a certificate says what the certificate says; tests/browser has what needs a browser."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from worlds.bright_rows import images, solved
from worlds.commands import Page
from worlds.requests import request
from worlds.samples import clouds

from codebound.certification import certify
from codebound.report.html import (
    ExampleTiles,
    _tile,
    certificate_page,
    costs,
    formulas,
    scale_rows,
    select_examples,
)
from codebound.request import Run
from codebound.sample.arrays import from_arrays

SAMPLE, TEST = images(150, 0), images(60, 2, "test")
ASKED = {
    "message": {"method": "prune", "by_class": True},
    "picks": {"method": "picks", "by_class": True},
    "split": {"method": "split"},
    "domain": {"method": "prune", "input_range": (0, 255)},
    "unlabelled": {"method": "prune", "unlabelled": images(80, 1, "unlabelled")},
    "class": {"method": "split", "loss": "class:1"},
    "parts": {"method": "split", "on": "each class"},
    "answered": {"method": "split", "on": "answered:0.1"},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A saved certificate of each kind, with the certification."""
    root, network = tmp_path_factory.mktemp("pages"), solved().build()
    for tensor in network.parameters():
        noise = np.random.default_rng(0).normal(scale=0.05, size=tensor.shape)
        tensor.data += tensor.data.new_tensor(noise)
    found = {
        name: certify(SAMPLE, network=network, **request(**{"effort": "quick", "test": TEST} | asked))
        for name, asked in ASKED.items()
    }
    return {name: (each, each.save_to(root / name)) for name, each in found.items()}


@pytest.mark.parametrize("name", ASKED)
def test_the_terms_of_the_slider_are_those_of_the_certificate(name, folders):
    found, saved = folders[name]
    terms = formulas(found.certificate, saved.result)
    assert {"certified", "holdout"} <= set(terms)
    assert terms["certified"].joined == "sum"
    for delta in (0.05, 1e-3, 1e-9):
        own = found.certificate.terms.limits(delta)
        wanted = own[found.certificate.claim.limits.index(found.certificate.widest)]
        wanted = min(1.0, sum(own)) if found.certificate.claim.law == "sum" else wanted
        assert terms["certified"].bound(terms["certified"].limits(delta)) == pytest.approx(wanted, rel=1e-12)
    for row in found.by_class:
        part = terms[f"class-{row.label}"]
        assert part.bound(part.limits(0.05)) == pytest.approx(row.bound)


@pytest.mark.parametrize("name", ASKED)
def test_the_parts_of_the_error_add_up(name, folders):
    certificate = folders[name][0].certificate
    parts = costs(certificate)
    assert sum(value for _, value in parts) == pytest.approx(certificate.claim.bound, rel=1e-8)
    assert all(value >= 0.0 for _, value in parts)
    assert any(f"{certificate.message.bits} bit" in what for what, _ in parts)


@pytest.mark.parametrize("name", ASKED)
def test_the_page_fetches_nothing_and_has_every_number(name, folders):
    found, saved = folders[name]
    text = (saved.folder / "report.html").read_text()
    page = Page(text)
    assert [link for link in page.links if not link.startswith("data:image/png;base64,")] == []
    assert "undefined" not in page.text.partition("const page")[0].lower().replace("undefined in", "")
    rows = scale_rows(found.certificate, saved.result)
    kinds = [row["kind"] for row in rows]
    assert {"certified", "test", "holdout"} <= set(kinds)
    assert ("guessing" in kinds) == (name in ("message", "picks", "split", "domain", "unlabelled"))
    assert all(row["value"] in page.text for row in rows)


def test_a_bound_that_the_page_would_get_wrong_has_no_slider(folders):
    found, saved = folders["message"]
    claim = replace(found.certificate.claim, bound=found.certificate.claim.bound + 1e-6)
    other = replace(found.certificate, claim=claim)
    assert "certified" not in formulas(other, saved.result)
    assert 'type="range"' not in certificate_page(other, saved.result, title="")
    assert 'type="range"' in certificate_page(found.certificate, saved.result, title="")


@pytest.mark.parametrize("name", ["message", "picks", "split"])
def test_what_is_shown_as_wrong_is_wrong_and_all_of_it_is_there(name, folders):
    found, _ = folders[name]
    names = ("top", "middle", "low")
    liar = replace(SAMPLE, y=(SAMPLE.y + (np.arange(SAMPLE.n) % 10 == 0)) % 3, class_names=names)
    shown = select_examples(replace(found, task=replace(found.task, sample=liar)))
    seen = [] if name == "message" else found.network.examples.tolist()
    picked = seen[found.network.known :] if seen else []
    assert [tile.number for tile in shown.learned] == picked[:48]
    stored = torch.from_numpy(SAMPLE.x)
    given = stored if found.offer.outcome.takes_stored else SAMPLE.scaling.apply(stored)
    said = found.network(given).argmax(1).tolist()
    expected = [i for i in range(SAMPLE.n) if liar.y[i] != said[i] and i not in seen]
    assert found.certificate.limit.errors <= 1
    assert [tile.number for tile in shown.wrong] == expected[:24]
    assert all(
        (tile.label, tile.said) == (names[liar.y[tile.number]], names[said[tile.number]])
        for tile in shown.wrong
    )
    assert all(tile.picture.startswith("data:image/png;base64,") for tile in (*shown.wrong, *shown.learned))


def test_labels_that_are_not_all_known_have_their_own_names():
    """A split knows the labels 1 and 4 alone; those of the others stand as they are."""
    table = clouds(200, classes=2, features=3, apart=2.0)
    sample = replace(table, y=np.where(np.arange(200) % 50 == 49, 2, np.where(table.y, 4, 1)), classes=5)
    found = certify(sample, method="split", run=Run(effort="quick"))
    for tile in select_examples(found).wrong:
        assert tile.label == str(sample.y[tile.number])
        assert tile.said in {str(each) for each in found.network.classes.tolist()}
    assert all("e" not in tile.row for tile in select_examples(found).wrong)


def test_what_can_be_said_of_the_network_that_was_given_stands_beside(folders):
    found, saved = folders["picks"]
    page = (saved.folder / "report.html").read_text()
    assert "Nothing about the network that was given. Of that one the test set promises at most" in page
    assert found.result["g_is_new"]


def test_a_page_is_small(folders):
    """The limit is three megabytes; four dozen pictures of 64 x 64 colours stay below a third of it."""
    noise = np.random.default_rng(0).integers(256, size=(150, 3, 300, 300), dtype=np.uint8)
    large = from_arrays(noise, SAMPLE.y, name="large", classes=3)
    found, saved = folders["picks"]
    tiles = tuple(_tile(large, number, 0) for number in range(48))
    page = certificate_page(
        found.certificate, saved.result, title="", shown=ExampleTiles(tiles, tiles[:24], 150)
    )
    assert len(page.encode()) < 2_000_000


def test_a_smaller_bound_that_was_not_issued_is_explained(folders):
    found, saved = folders["split"]
    told = saved.result | {"offers": 2 * list(saved.result["offers"]), "offers_say": "Not issued, because."}
    assert "Not issued, because." in certificate_page(found.certificate, told, title="")


def test_test_data_that_object_take_the_green_away(folders):
    found, saved = folders["picks"]
    certificate = replace(found.certificate, claim=replace(found.certificate.claim, vacuous=False))
    calm = saved.result | {"vacuous": False, "alarm": ""}
    assert '<section class="claim hero" ' in certificate_page(certificate, calm, title="")
    page = certificate_page(certificate, calm | {"alarm": "REFUTED BY TEST DATA: too many."}, title="")
    assert '<section class="claim hero vacuous" ' in page
    assert page.index("REFUTED BY TEST DATA") < page.index("is wrong on at most")
