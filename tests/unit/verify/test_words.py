"""The second program's words: what each number is, and what is claimed."""

from dataclasses import replace
from fractions import Fraction

import cbound_writer as writer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound_verify.header import (
    Disagreement,
    Domain,
    Named,
    PartOfPicks,
    Picked,
    Split,
    parse_header,
)
from codebound_verify.losses import read_loss
from codebound_verify.versions import VERSIONS
from codebound_verify.words import counts, percent, state_claim

HEADER = parse_header(writer.canonical(writer.linear_case(400).fields), VERSIONS[2])
SECOND = Disagreement(
    n_unlabelled=300,
    disagreements=7,
    delta_risk=0.025,
    delta_disagreement=0.025,
    unlabelled_sha256="",
    subject_sha256="",
    subject_chain=(),
)


def of(**changes):
    return replace(HEADER, **{"errors": 12, **changes})


def loss(text):
    return read_loss(text, 3, has_new=True)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (of(), ["12 of 400: training errors of g on the whole sample."]),
        (of(base=Named("b", "0" * 64)), ["12 of 400: errors of g on the whole sample."]),
        (of(extra=Split(n_prior=100)), ["after the split (the sample has 500)"]),
        (of(extra=Picked(first=50, picks=0)), ["learned from the 50 others, nothing picked"]),
        (
            of(extra=Picked(first=50, picks=30)),
            ["30 of 400: examples that the rule picked", "12 of 370: errors"],
        ),
        (of(extra=Domain(0.0, 16.0, "")), ["margin of g is at most theta"]),
        (of(extra=SECOND), ["12 of 400", "7 of 300: unlabelled inputs, a second draw"]),
        (of(loss=loss("class:1")), ["12 of 400: losses class:1 of g"]),
        (
            of(loss=loss("class:1"), extra=Picked(first=5, picks=30), tally=PartOfPicks(picks=9)),
            ["9 of 400: examples that the rule picked", "12 of 391: losses"],
        ),
        (of(loss=loss("cost-above:1:distance")), ["12 of 400: losses cost-above:1:distance of g"]),
    ],
)
def test_every_number_is_said_with_what_it_is(header, said):
    sentences = [each.sentence for each in counts(header)]
    assert len(sentences) == len(said)
    assert all(part in sentence for part, sentence in zip(said, sentences, strict=True))


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (of(), "over the draw of the sample, the "),
        (of(extra=SECOND), "of the sample and of the 300 unlabelled inputs"),
        (of(extra=Domain(0.0, 16.0, "")), "stored values from 0.0 to 16.0"),
        (of(base=Named("b", "0" * 64)), "if the base never saw the sample"),
        (of(base=Named("b", "0" * 64), extra=Split(1)), "if the base never saw the examples after the split"),
    ],
)
def test_the_guarantee_names_what_it_hangs_on(header, part):
    sentence = state_claim(header, vacuous=False)
    assert part in sentence
    assert f"1 - {header.delta}" in sentence
    assert repr(header.bound) in sentence
    assert "VACUOUS" not in sentence
    assert "VACUOUS" in state_claim(header, vacuous=True)


@given(st.floats(0.0, 1.0))
def test_a_percentage_is_never_too_small_and_at_most_a_hundredth_too_large(bound):
    shown = Fraction(percent(bound).removesuffix(" %")) / 100
    assert 0 <= shown - Fraction(bound) < Fraction(1, 10_000)
