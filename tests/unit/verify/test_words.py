"""The second program's words: what each number is, and what is claimed."""

from fractions import Fraction

import pytest
from file_judges import judged
from file_worlds import made
from file_writer import write_file
from hypothesis import given
from hypothesis import strategies as st

from codebound_verify.words import percent

CLAIMS = {
    "usual_split": (
        "of the sample, the error of g on new data is at most",
        "rows after the first 150 are wrong",
    ),
    "class_on_a_domain": ("error on class 1 of f on new data with stored values from", "C-12a"),
    "declared_answers": ("and of the 400 unlabelled inputs, the error of f", "disagreement: at most"),
    "answered_of_first_table": ("that it answers (its best score leads by more than 0.2)", "silent: at most"),
    "costs_of_first_table": ("share of predictions that cost more than", "rows of the sample are wrong"),
    "clusters_one_row_of_a_table": ("one row of a new cluster, chosen as the page says,", "clusters"),
    "clusters_any_row": ("a new cluster, if one wrong row makes it wrong,", "clusters after the first"),
    "each_group": ("new data of each group", "group 11: at most"),
    "picks_by_class": ("new data of each class", "were picked to learn from; each of these counts as wrong"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_every_number_is_said_with_what_it_is(name):
    world, text = made(name)
    verdict = judged(world, write_file(world, text))
    claim, count = CLAIMS[name]
    assert claim in verdict.claim
    assert count in f"{verdict.claim} {' '.join(verdict.counts)}"
    assert f"1 - {verdict.delta} over the draw of" in verdict.claim
    assert f"{verdict.bound!r}, {verdict.statement}" in verdict.claim
    assert ("VACUOUS" in verdict.claim) == verdict.vacuous
    for limit, said in zip(verdict.limits, verdict.counts, strict=True):
        assert f"{limit.errors} of {limit.n}" in said


@given(st.floats(0.0, 1.0))
def test_a_percentage_is_never_too_small_and_at_most_a_hundredth_too_large(bound):
    shown = Fraction(percent(bound).removesuffix(" %")) / 100
    assert 0 <= shown - Fraction(bound) < Fraction(1, 10_000)
