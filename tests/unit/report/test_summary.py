"""A certificate in rows: what is said, and what is said only where it is so."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
import torch
from torch import nn
from worlds.bright_rows import images

from codebound.certification import certify
from codebound.report.summary import refused_lines, result_rows, summary_html
from codebound.request import Claim, Known, Run
from codebound.sample.dataset import Sample
from codebound.sample.load import split
from codebound_networks.reading.loading import load_model
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit

RESULT = {
    "bound": 0.0832,
    "statement": "C-2",
    "subject": "g",
    "vacuous": False,
    "g_is_new": False,
    "network": "your network, pruned",
    "counts": [{"name": "errors", "count": 12, "of": 400, "meaning": "of g on the sample"}],
    "original_errors": 9,
    "rows": 400,
    "message": "120 bits for the numbers of a network",
    "assurance": "replayed",
    "declared": {},
    "method": "prune",
    "code_bits": 120,
    "verdict": "ACCEPT",
    "loss": None,
    "delta": 0.05,
    "warnings": [],
}
TESTED = {"test_n": 50, "test_errors": 3, "test_copies_in_sample": 0, "holdout_words": ""}


def rows(**changes):
    return {name: (value, words) for name, value, words in result_rows({**RESULT, **changes})}


def test_a_plain_result_has_these_rows_in_this_order():
    assert list(rows()) == ["certified error", "classifier", "errors", "paid", "verifier", "your network"]
    assert rows()["certified error"] == (
        "8.32 %",
        "at most, on new data, with probability 95 % over the draw of the sample",
    )
    assert rows()["errors"] == ("12 of 400", "of g on the sample")
    assert rows()["your network"][0] == "9 of 400"
    assert rows()["paid"][0] == "120 bits"
    assert "your network" not in rows(original_errors=None)


@pytest.mark.parametrize(
    ("changes", "name", "value", "words"),
    [
        ({"vacuous": True}, "certified error", "8.32 %", "VACUOUS"),
        ({"g_is_new": True}, "classifier", "a new one", "your network, pruned"),
        ({"g_is_new": True}, "your network", "9 of 400", "shares nothing with it"),
        ({"assurance": "recounted"}, "verifier", "ACCEPT", "is declared"),
        ({"refuted_by_test": True, "alarm": "too many errors"}, "ALARM", "refuted", "too many errors"),
        ({**TESTED, "holdout": 0.125}, "test set", "12.50 %", "at most, by 3 errors on 50 test examples"),
        (
            {**TESTED, "holdout_words": ": NO GUARANTEE"},
            "test set",
            "none",
            "examples: NO GUARANTEE",
        ),
        (
            {**TESTED, "holdout": 0.125, "test_errors_of_whole": 2},
            "test set",
            "12.50 %",
            "the same learner, fitted on the whole sample, makes 2",
        ),
        ({"loss": "class:1"}, "certified error", "8.32 %", "loss class:1, at most, on new data"),
        ({"on": "answered:0.5"}, "certified error", "8.32 %", "on new data (answered:0.5)"),
        (
            {**TESTED, "holdout": 0.25, "test_copies_in_sample": 2},
            "test set",
            "25.00 %",
            "2 of which are in the sample too",
        ),
        (
            {"offers": [{"bound": 0.0625, "assurance": "", "price": "4 errors of 128"}]},
            "hold-out set",
            "6.25 %",
            "for comparison: 4 errors of 128",
        ),
        (
            {"test_errors_f": 4, "holdout_f": 0.5, "holdout_f_words": ", if it is fresh"},
            "test set, your network",
            "50.00 %",
            "4 errors of your network, if it is fresh",
        ),
        (
            {"through_f": 0.375, "disagreements_f": 5, "holdout_f_words": ""},
            "your network, compared",
            "37.50 %",
            "probability 90 %: your network and this one differ on 5",
        ),
        ({"declared": {"base": "x, made of other data"}}, "DECLARED", "base", "without it the bound is void"),
    ],
)
def test_what_else_is_so_has_a_row(changes, name, value, words):
    found = rows(**changes)
    assert found[name][0] == value
    assert words in found[name][1]
    assert name == "certified error" or name not in rows() or found[name] != rows()[name]


@pytest.mark.parametrize(
    ("changes", "value", "words"),
    [
        ({}, "not proven", "its 9 errors of 400 are on rows that it may have learned from"),
        (
            {**TESTED, "test_errors_f": 4, "holdout_f": 0.125, "holdout_f_words": ", IF fresh"},
            "12.50 %",
            "4 errors of your network, IF fresh",
        ),
        (
            {**TESTED, "disagreements_f": 5, "through_f": 0.25, "holdout_f_words": ""},
            "25.00 %",
            "probability 90 %: your network and this one differ on 5",
        ),
        ({**TESTED, "test_errors_f": 4, "holdout_f_words": ": NO GUARANTEE"}, "not proven", "fresh inputs"),
    ],
)
def test_your_network_comes_before_the_offer_of_a_new_classifier(changes, value, words):
    found = rows(g_is_new=True, **changes)
    assert next(iter(found)) == "YOUR NETWORK"
    assert found["YOUR NETWORK"][0] == value
    assert words in found["YOUR NETWORK"][1]
    assert found["YOUR NETWORK"][1].endswith("an offer: a new classifier")
    assert "YOUR NETWORK" not in rows(**changes)


def test_a_table_escapes_all_that_others_named():
    page = summary_html("<b>", {**RESULT, "network": "by <script>:", "warnings": ["<i>"]})
    assert "<script>" not in page
    assert "<i>" not in page
    assert "by &lt;script&gt;:" in page
    assert page.count("<tr>") == len(result_rows(RESULT))


def test_what_was_refused_is_said_with_its_reasons():
    refused = {"method": "split", "bound": 0.0832, "reasons": ("Message: odd.", "Facts: odd.")}
    (line,) = refused_lines([refused])
    assert "split, 8.32 %: Message: odd.; Facts: odd." in line
    assert "please report it" in line


@pytest.mark.parametrize("spec", [".0%", ".1%", ".3%", ".2f", ".6f"])
def test_a_formatted_bound_is_never_below_the_bound(spec):
    found = certify(SAMPLE, method="constant")
    for bound in (0.0473330, 0.05, 0.999999, 1.0 / 3.0):
        claim = replace(found.certificate.claim, bound=bound)
        shown = format(replace(found, certificate=replace(found.certificate, claim=claim)), spec)
        value = Decimal(shown.rstrip("%")) / (100 if "%" in spec else 1)
        assert Decimal(bound) <= value < Decimal(bound) + Decimal(10) ** -(int(spec[1]) + 2 * ("%" in spec))
    assert len(repr(found)) + len(repr(found.certificate)) < 200


SAMPLE, OTHER, TEST = images(), images(100, 5), images(60, 2, "test")
SHORT = TrainConfig(epochs=1)


def trained(*samples):
    model = load_model("linear", input_shape=(1, 4, 4), classes=3)
    for sample in samples:
        model = fit(model, sample, SHORT).model
    return model


def made_elsewhere():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


CASES = {
    "on the sample": (lambda: trained(SAMPLE), True, ""),
    "nobody knows": (made_elsewhere, True, ", IF your network was neither trained nor selected on them"),
    "first elsewhere": (
        lambda: fit(made_elsewhere(), SAMPLE, SHORT).model,
        True,
        ", IF your network had seen none of them before",
    ),
    "on other data": (
        lambda: trained(OTHER, SAMPLE),
        False,
        ": NO GUARANTEE, your network was trained on other data",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("loss", ["wrong", "class:1"])
def test_what_is_withheld_of_f_is_withheld_of_what_was_made_of_it(name, loss):
    make, is_shown, words = CASES[name]
    found = certify(
        SAMPLE, network=make(), method="prune", test=TEST, claim=Claim(loss=loss), run=Run(effort="quick")
    )
    result = found.result
    assert ("holdout" in result) is is_shown
    assert result["holdout_words"].startswith(words)
    assert bool(result["holdout_words"]) is bool(words)
    assert result["test_errors"] == found.confrontation.test.errors  # an alarm is one all the same
    assert words in str(found)
    if loss == "wrong":
        assert ("holdout_f" in result) is is_shown


@pytest.mark.parametrize("name", CASES)
def test_a_network_of_its_own_has_seen_no_test_example(name):
    result = certify(
        SAMPLE, network=CASES[name][0](), method="picks", test=TEST, run=Run(effort="quick")
    ).result
    assert (result["holdout_words"], "holdout" in result) == ("", True)


def test_a_helper_of_the_first_part_is_no_network_that_was_given():
    model = trained(OTHER, SAMPLE)
    found = certify(
        SAMPLE, network=model, method="prune", test=TEST, known=Known(share=0.5), run=Run(effort="quick")
    )
    assert "holdout" in found.result


def test_a_network_that_saw_sample_and_test_data_has_no_hold_out_bound_in_any_form():
    """Random labels: every risk is 1/2, and errors on the test data say nothing of it."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 600)).astype(np.float32), rng.integers(0, 2, 400)
    whole = Sample("random", "train", x, y, 2)
    parts = split(whole, {"train": 0.5, "test": 0.5})
    torch.manual_seed(0)
    start = load_model("linear", input_shape=(600,), classes=2)
    f = fit(start, whole, TrainConfig(epochs=60, learning_rate=0.01)).model
    found = certify(parts["train"], network=f, method="lowrank", test=parts["test"], run=Run(effort="quick"))
    assert found.holdout.value < 0.5  # it would be false
    assert not {"holdout", "holdout_f", "through_f"} & set(found.result)
    assert str(found).count("NO GUARANTEE") == 2
