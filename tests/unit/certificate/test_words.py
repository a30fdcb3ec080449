"""Every number says what it is, for every form and in every part of the file's own words."""

import pytest
from worlds.outcomes import FORMS, issued

from codebound.bits.plain_code import FIRST_TABLE, NETWORK, PICKS, USUAL_SPLIT
from codebound.certificate.words import describe_choice
from codebound.sample.order import Design
from codebound.sample.questions import parse_question


def counts(form=FIRST_TABLE, loss="wrong", on="all", **given):
    certificate, *_ = issued(form, question=parse_question(loss, on, classes=3), **given)
    return {each.key: each for each in certificate.counts}, certificate


@pytest.mark.parametrize("form", FORMS)
def test_counts_are_those_of_the_first_limit(form):
    found, certificate = counts(form)
    limit = certificate.limit
    assert (found["errors"].count, found["errors"].of) == (limit.errors, limit.n)
    assert ("picks" in found) == (form == PICKS)
    assert ("known" in found) == (certificate.known.rows > 0)
    if certificate.known.rows:
        assert (found["known"].count, found["known"].of) == (certificate.known.rows, 240)
        assert "among those that were not learned from" in found["errors"].meaning
    assert str(certificate).count(f"{limit.errors} of {limit.n}") >= 1


def test_a_choice_says_its_price():
    assert describe_choice(issued(USUAL_SPLIT)[0]) == "1 bit for the usual learner on the usual share"
    assert "24 bits for a rule that picks" in describe_choice(issued(PICKS)[0])
    assert "numbers of a network" in describe_choice(issued(NETWORK)[0])


@pytest.mark.parametrize("copies", ["any", "independent", "repeated"])
def test_the_reading_of_copies_is_said(copies):
    found, _ = counts(design=Design(copies=copies))
    words = {"any": "right rows with equal inputs count once", "independent": "every row counts"}
    assert words.get(copies, "rows that are equal count once") in found["errors"].meaning


def test_the_widest_of_parts_and_the_silence_of_answers_have_names():
    found, certificate = counts(on="each class")
    assert found["errors"].name == f"errors counted, {certificate.widest.of}"
    assert certificate.widest.bound == certificate.claim.bound
    found, certificate = counts(on="answered:0.5", loss="class:1")
    assert list(found) == ["errors", "silent"]
    assert found["errors"].name == "losses counted (class:1)"
    assert certificate.claim.bound == certificate.claim.limits[0].bound
