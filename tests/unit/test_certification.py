"""``certify`` from end to end: what it is asked, what stands beside, and what it refuses."""

import numpy as np
import pytest
import torch
from scipy.stats import beta
from worlds.outcomes import SAMPLE as PICTURES
from worlds.outcomes import table_of
from worlds.requests import request
from worlds.samples import clouds, written_clusters

from codebound.bits.plain_code import SPLIT, USUAL_SPLIT
from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.methods.search import METHODS, Search
from codebound.request import Claim, Known, Run
from codebound.run.errors import CertificateError, DataError, UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.order import Design, arrange

SAMPLE, TEST = clouds(300, features=4, apart=2.0), clouds(200, features=4, apart=2.0, seed=1, role="test")
QUICK = Run(effort="quick")


@pytest.mark.parametrize(
    ("loss", "on"),
    [
        ("class:1", "all"),
        ("wrong", "each class"),
        ("wrong", "answered:0.1"),
        ("wrong", "predicted:2"),
        ("top:2", "all"),
    ],
)
def test_every_question_is_answered_by_the_classifier_of_plain_errors(loss, on):
    plain = certify(SAMPLE, run=QUICK)
    found = certify(SAMPLE, claim=Claim(loss=loss, on=on), run=QUICK)
    claim = found.certificate.claim
    assert (claim.loss, claim.on) == (loss, on)
    assert found.certificate.form == plain.certificate.form
    assert found.certificate.message.bits > plain.certificate.message.bits
    assert ("guessing" in found.result, "guessing" in plain.result) == (False, True)
    assert verify(found.certificate, found.sample).is_accepted


def test_guessing_is_the_commonest_label_of_the_counted_rows():
    found = certify(SAMPLE, run=QUICK)
    rest = arrange(SAMPLE, Design()).split(found.certificate.known.rows)[1]
    labels = SAMPLE.y[rest]
    assert found.result["guessing"] == 1.0 - max(np.mean(labels == each) for each in range(3))


def test_the_test_sample_speaks_of_g_and_refutes_what_is_false():
    found = certify(SAMPLE, test=TEST, run=QUICK)
    errors = int((found.network(torch.from_numpy(TEST.x)).argmax(1).numpy() != TEST.y).sum())
    result = found.result
    assert (result["test_errors"], result["test_n"], result["refuted_by_test"]) == (errors, 200, False)
    assert result["holdout"] == pytest.approx(beta.isf(0.05, errors + 1, 200 - errors), rel=1e-9)
    wrong = clouds(200, features=4, apart=-6.0, seed=1, role="test")
    assert certify(SAMPLE, test=wrong, run=QUICK).result["refuted_by_test"]
    counted = certify(SAMPLE, test=TEST, claim=Claim(loss="class:1"), run=QUICK).holdout
    assert counted.facts.n == int((TEST.y == 1).sum())


def test_classes_stand_beside_and_hold_at_once():
    found = certify(SAMPLE, claim=Claim(by_class=True), run=QUICK)
    claim, bits = found.certificate.claim, found.certificate.message.bits
    assert sum(row.errors for row in found.by_class) == claim.limits[0].errors
    for row in found.by_class:
        level = 0.05 / 3 * 2.0**-bits
        assert row.bound == pytest.approx(beta.isf(level, row.errors + 1, row.n - row.errors), rel=1e-9)
    with pytest.raises(UsageError, match="nothing about single classes"):
        certify(SAMPLE, claim=Claim(by_class=True, input_range=(0, 1)), run=QUICK)


@pytest.mark.parametrize("is_out_of_time", [False, True])
def test_what_was_found_before_an_interruption_is_certified(monkeypatch, is_out_of_time):
    def interrupted(search: Search) -> None:
        if is_out_of_time:
            search.until = 0.0
            search.require_time(is_kept=True)
        raise KeyboardInterrupt

    monkeypatch.setitem(METHODS, "picks", type(METHODS["picks"])("", interrupted, is_own=True))
    found = certify(SAMPLE, run=Run(minutes=5.0) if is_out_of_time else QUICK)
    assert (found.is_interrupted, found.is_out_of_time) == (not is_out_of_time, is_out_of_time)
    assert found.certificate.form in (USUAL_SPLIT, SPLIT)
    assert found.result["interrupted"] is not is_out_of_time
    assert verify(found.certificate, found.sample).is_accepted


def test_nothing_before_the_interruption_is_no_certificate(monkeypatch):
    def interrupted(search: Search) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(METHODS, "split", type(METHODS["split"])("", interrupted, is_own=True))
    with pytest.raises(KeyboardInterrupt):
        certify(SAMPLE, method="split", run=QUICK)


def test_copies_never_make_a_certificate_better():
    rows = np.r_[np.arange(300), np.arange(100)]
    copied = SAMPLE.select(rows, role="train")
    by_reading = {
        copies: certify(copied, method="split", claim=Claim(copies=copies), run=QUICK).certificate
        for copies in ("any", "independent", "repeated")
    }
    n = {name: each.limit.n for name, each in by_reading.items()}
    assert n["independent"] == 200 > n["any"] > n["repeated"] - 60
    assert all(verify(each, copied).is_accepted for each in by_reading.values())


def test_declared_tables_groups_and_salts_are_in_the_file():
    groups = np.arange(240, dtype=np.int64) % 3
    found = certify(
        PICTURES,
        method="scores",
        known=Known(scores=table_of()),
        claim=Claim(groups=groups, salt="cd" * 32, seal="a newspaper", copies="independent", on="each group"),
        run=QUICK,
    )
    certificate = found.certificate
    assert (certificate.sample.salt, certificate.sample.seal) == ("cd" * 32, "a newspaper")
    assert [limit.of for limit in certificate.claim.limits] == ["group 0", "group 1", "group 2"]
    assert verify(certificate, found.sample, groups=groups, tables=[table_of().arrays]).is_accepted
    assert not verify(
        certificate, found.sample, groups=groups[::-1].copy(), tables=[table_of().arrays]
    ).is_accepted


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"method": "pick"}, UsageError, "Did you mean .picks."),
        ({"effort": "huge"}, UsageError, "unknown effort"),
        ({"minutes": -1.0}, UsageError, "positive number"),
        ({"minutes": 1.0, "effort": "quick"}, UsageError, "in place of an effort"),
        ({"delta": 2.0}, UsageError, ""),
        ({"loss": "class:9"}, UsageError, "does not fit 3 classes"),
        ({"on": "some"}, UsageError, "errors are counted on"),
        ({"on": "each group"}, UsageError, "only of a sample with groups"),
        ({"on": "one row a cluster"}, UsageError, "only with clusters"),
        (
            {"clusters": np.arange(300) // 2, "on": "each class"},
            UsageError,
            "never",
        ),
        ({"test": written_clusters(9, role="test")}, DataError, "the test inputs have the shape"),
        ({"unlabelled": SAMPLE}, UsageError, "give one"),
        ({"scores": table_of()}, DataError, "are of 240 examples"),
        ({"scores": 3}, UsageError, "or a list of them. Got int"),
        ({"method": None}, UsageError, "unknown method None"),
        ({"loss": 3}, UsageError, "unknown loss '3'"),
        ({"on": None}, UsageError, "Got 'None'"),
        ({"delta": "0.05"}, UsageError, "failure probability"),
        ({"share": 5.0}, UsageError, "between 0 and 1"),
    ],
)
def test_what_does_not_go_together_is_refused(asked, error, words):
    with pytest.raises((error, CertificateError), match=words or None):
        certify(SAMPLE, **request(**{"effort": "standard" if "minutes" in asked else "quick"} | asked))


def test_an_outcome_that_does_not_know_the_label_is_not_offered():
    rare = np.r_[np.arange(120) % 2, 2, 2]
    sample = from_arrays(np.c_[rare * 3.0, np.arange(122) % 7], rare, name="rare")
    with pytest.raises(UsageError, match="names a label of none"):
        certify(sample, method="split", claim=Claim(order="file", loss="class:2"), run=QUICK)
    found = certify(sample, claim=Claim(order="file", loss="class:2"), run=QUICK)
    assert (found.method, found.refusals) == ("picks", ())


def test_labels_that_mostly_never_occur_cost_no_time():
    x = np.random.default_rng(0).normal(size=(200, 2))
    labels = (x[:, 0] > 0) * 65_535
    with pytest.raises(CertificateError, match="most labels never occur"):
        certify((x, labels), method="picks", run=QUICK)
    assert certify((x, labels), run=QUICK).method == "split"


@pytest.mark.parametrize("x", [np.array(3.0), np.where(np.eye(9) > 0, np.nan, np.inf)])
def test_arrays_that_are_no_sample_are_told_so(x):
    with pytest.raises(DataError, match=r"inputs (need shape|contain NaN)"):
        certify((x, np.arange(9) % 2), run=QUICK)
