"""What a certificate says in words is true of what was held out: by splits, tables, picks and messages."""

import re
from dataclasses import replace
from fractions import Fraction
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.bright_rows import images, solved

from codebound.certification import certify
from codebound.cli.certify import print_result
from codebound.cli.console import Format
from codebound.known.encoder import Encoder
from codebound.report.plain import answer, describe_confidence, describe_failure, in_words, meanings
from codebound.request import Claim, Known, Run
from codebound.sample.caveats import DEVELOPED

SAMPLE = images(300)
HARD = replace(SAMPLE, x=SAMPLE.x // 2 + images(300, 1).x // 2)  # so that something has to be picked
QUICK = Run(effort="quick")
HELD_OUT = {
    "split": lambda: certify(SAMPLE, method="split", run=QUICK),
    "scores": lambda: certify(SAMPLE, method="scores", run=QUICK),
    "prior": lambda: certify(
        SAMPLE, network=solved().build(), method="prune", known=Known(share=0.5), run=QUICK
    ),
}
CASES = HELD_OUT | {
    "picks": lambda: certify(HARD, method="picks", run=QUICK),
    "message": lambda: certify(SAMPLE, network=solved().build(), method="prune", run=QUICK),
    "class": lambda: certify(SAMPLE, method="split", claim=Claim(loss="class:1"), run=QUICK),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    root = tmp_path_factory.mktemp("plain")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("codebound_networks.methods.inputs._PRIOR_STEPS", 50)
        found = {name: make() for name, make in CASES.items()}
    settings = {"model": None, "data": "rows"}  # as the command line has them, where no model was given
    return {
        name: (each, each.save_to(root / name, settings=settings if name == "split" else None))
        for name, each in found.items()
    }


def texts(saved, capsys):
    """Page, README and screen; what the page explains in general is left out."""
    print_result(saved, Format.table, quiet=False)
    screen = capsys.readouterr()
    page = (saved.folder / "report.html").read_text().partition("<h2>Words</h2>")[0]
    page = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    words = " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())
    return [words, (saved.folder / "README.md").read_text(), " ".join((screen.out + screen.err).split())]


@pytest.mark.parametrize("name", CASES)
def test_what_was_set_apart_is_said_and_nothing_is_called_training(name, saved, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    certificate = saved[name][0].certificate
    page, readme, screen = texts(saved[name][1], capsys)
    assert ("No label was set aside" in page) == (name == "message")
    assert ("which were set apart; the other" in page) == (name not in ("message", "picks"))
    assert "training error" not in page + readme + screen
    assert "Certificate for None" not in page + readme
    assert "counted error" in page
    assert certificate.sentence in readme
    for each in certificate.counts:
        assert each.name in page
        assert f"{each.count:,} of {each.of:,}" in page


def test_who_the_answer_is_about(saved):
    words = {name: answer(found.certificate, folder.result) for name, (found, folder) in saved.items()}
    for name in ("split", "scores", "picks", "class"):
        assert words[name].startswith("A new classifier, learned from these data, "), words[name]
    assert words["message"].startswith("The compressed network (what is left of the one given)")
    assert "new data of class 1" in words["class"]
    assert words["scores"].endswith("provided that the scores never saw the examples that are counted.")
    assert "provided that the base never saw" in saved["prior"][0].sentence
    assert "provided" not in words["split"]
    found, folder = saved["split"]
    claim = replace(found.certificate.claim, vacuous=True)
    assert answer(replace(found.certificate, claim=claim), folder.result).startswith(
        "Nothing useful can be promised"
    )


def test_the_page_counts_the_whole_sample_and_marks_guessing(saved, capsys):
    page, *_ = texts(saved["split"][1], capsys)
    assert "300 examples, 150 of them counted" in page
    assert "always the commonest label" in page
    page, *_ = texts(saved["class"][1], capsys)
    assert "always the commonest label" not in page


def test_rules_behind_an_encoder_have_its_condition():
    table = Encoder("plane", lambda batch: batch.flatten(1), "0" * 64).table(HARD)
    for method in ("picks", "split"):
        found = certify(table, method=method, run=QUICK)
        assert found.sentence.endswith("provided that the features never saw the examples that are counted.")
        assert found.certificate.claim.assurance == "replayed on declared inputs"


@pytest.mark.parametrize("name", CASES)
def test_every_declaration_says_how_it_could_fail(name, saved):
    found, folder = saved[name]
    page = (folder.folder / "report.html").read_text()
    for line in found.certificate.declarations:
        assert describe_failure(line), line
        assert describe_failure(line) in unescape(page)
    assert describe_failure(DEVELOPED)
    assert describe_failure("Nobody ever wrote this.") == ""


def test_a_better_promise_of_the_test_set_is_recommended_unless_it_is_none(saved):
    found, folder = saved["split"]
    better = folder.result | {"holdout": 0.001, "test_n": 9, "test_copies_in_sample": 0}
    assert "quote that instead" in " ".join(meanings(found.certificate, better)[0])
    for other in ({"holdout": 1.0}, {"test_copies_in_sample": 1}):
        assert "quote that" not in " ".join(meanings(found.certificate, better | other)[0])


@given(st.floats(1e-6, 1.0))
def test_a_count_in_words_is_never_smaller_than_the_share(share):
    count, of = map(int, in_words(share).replace(",", "").split(" in "))
    assert Fraction(count, of) >= Fraction(share)


@given(st.floats(1e-9, 0.5))
def test_the_promise_never_sounds_surer_than_it_is(delta):
    samples = int(describe_confidence(delta).split()[1].replace(",", ""))
    assert Fraction(1, samples) >= Fraction(delta) * (1 - Fraction(1, 10**6))
