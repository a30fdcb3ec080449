"""What a certificate says in words is true of what was held out: behind a helper, after a split, by picks."""

import re
from dataclasses import replace
from html import unescape

import pytest
import torch
from torch import nn
from worlds.bright_rows import images, solved

from codebound.certificate.claims import AfterSplit
from codebound.certification import certify
from codebound.cli.certify import print_result
from codebound.cli.console import Format
from codebound.known.base import Pretrained
from codebound.known.encoder import Encoder
from codebound.methods.inputs import largest_input
from codebound.methods.kernel_share import kernel_helper
from codebound.report.plain import describe_confidence, meanings

SAMPLE = images(300)
HARD = replace(SAMPLE, x=SAMPLE.x // 2 + images(300, 1).x // 2)  # so that something has to be picked
QUICK = {"effort": "quick"}
HELD_OUT = {
    "helper": lambda: certify(None, SAMPLE, prior_tenths=5, helper=kernel_helper, **QUICK),
    "split": lambda: certify(None, SAMPLE, method="split", **QUICK),
    "C-10": lambda: certify(None, SAMPLE, method="prune", claim=AfterSplit(5), **QUICK),
}
LEARNED = {
    "picks": lambda: certify(None, HARD, method="picks", **QUICK),
    "message": lambda: certify(solved().build(), SAMPLE, method="prune", **QUICK),
}
CASES = HELD_OUT | LEARNED
FALSE_OF_HELD_OUT = (
    "No label was set aside",
    "also there to learn from",
    "on the whole sample",
    "what is left of the one given",
    "Certificate for None",
    "Certificate for none",
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    root = tmp_path_factory.mktemp("plain")
    found = {name: make() for name, make in CASES.items()}
    settings = {"model": None, "data": "rows"}  # as the command line has them, where no model was given
    return {
        name: (each, each.save_to(root / name, settings=settings if name in HELD_OUT else None))
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


@pytest.mark.parametrize("name", HELD_OUT)
def test_what_was_held_out_is_not_called_training(name, saved, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    _, folder = saved[name]
    page, readme, screen = texts(folder, capsys)
    for text in (page, readme, screen):
        assert [each for each in (*FALSE_OF_HELD_OUT, "training error") if each in text] == []
    assert "which was set apart; the other" in page
    assert "counted error" in page
    assert "A new classifier, learned from these data," in page
    assert "A new classifier, learned from these data," in readme


@pytest.mark.parametrize("name", LEARNED)
def test_what_was_learned_from_everything_is_said_to_be(name, saved, capsys):
    page, *_ = texts(saved[name][1], capsys)
    assert "No label was set aside for it" in page
    assert ("training error" in page) is (name == "message")


def test_the_title_counts_the_whole_sample(saved, capsys):
    for name in HELD_OUT:
        page, *_ = texts(saved[name][1], capsys)
        counted = saved[name][0].certificate.facts.n
        assert f"{SAMPLE.n} examples, {counted} of them counted" in page
        assert counted < SAMPLE.n


def test_a_helper_says_on_which_examples_its_errors_are(saved, capsys):
    found, folder = saved["helper"]
    (counted,) = found.certificate.counts
    assert (counted.name, counted.of) == ("errors of g", 150)
    assert "on the 150 of 300 examples that its encoder was not made of" in counted.meaning
    assert folder.result["original_train_n"] == 300
    assert "Certificate for a new network made by helper on rows" in texts(folder, capsys)[0]


KERNEL = "the encoder codebound.methods.kernel_share:kernel_helper"


def test_the_condition_names_the_encoder(saved):
    sentence = saved["helper"][0].sentence
    assert sentence.endswith(f"of new data, provided that {KERNEL} never saw the examples that are counted.")
    assert "the base" not in sentence  # it takes the largest input: no number of it was learned


@pytest.mark.parametrize("method", ["picks", "split"])
def test_rules_behind_an_encoder_have_the_condition_too(method):
    table = Encoder("plane", lambda batch: batch.flatten(1), "0" * 64).table(HARD)
    found = certify(None, table, method=method, **QUICK)
    assert found.sentence.endswith("provided that the encoder plane never saw the examples that are counted.")
    assert "provided that" not in replace(found.certificate, declarations=()).sentence


def test_picks_behind_a_helper_say_what_was_set_apart():
    given = {"prior_tenths": 5, "helper": kernel_helper, "allow_copies": True}
    found = certify(None, HARD, method="picks", **given, **QUICK)
    assert found.certificate.facts.extra["picks"]  # else this test could not fail
    means, _ = meanings(found.certificate, found.result)
    assert any(line.startswith("Its encoder was made of 150 of 300 examples") for line in means)


def test_a_base_with_numbers_of_its_own_stays_in_the_condition():
    table = certify(None, SAMPLE, prior_tenths=5, helper=kernel_helper, **QUICK).sample
    other = largest_input(table.classes).network
    with torch.no_grad():
        other[0].weight += 0.01
    found = certify(
        nn.Sequential(nn.Linear(3, 3)),
        table,
        method="prune",
        base=Pretrained(other, "seen elsewhere"),
        **QUICK,
    )
    assert f"provided that the base and {KERNEL} never saw" in found.sentence


def test_a_number_of_samples_is_a_mean(saved):
    assert "on average at most 1" in describe_confidence(0.05)
    means, _ = meanings(saved["picks"][0].certificate, saved["picks"][1].result)
    assert re.fullmatch(r"Out of 1,000 new examples, on average at most \d+ count against it\.", means[0])
