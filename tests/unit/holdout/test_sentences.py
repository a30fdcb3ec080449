"""Lines in words: upper limits rounded up, lower limits down, and what was not shown said so."""

from fractions import Fraction

import pytest

from codebound.holdout.ledger import Ledger
from codebound.holdout.seals import Abstention, Plan, seal
from codebound.holdout.sentences import all_digits, describe_line, percent_down
from codebound.holdout.statements import abstain, better, look


@pytest.mark.parametrize("share", [0.02359, 0.0, -0.0101, 0.99999, 1e-9, -1e-9])
def test_a_lower_limit_is_rounded_down(share):
    shown = Fraction(percent_down(share).removesuffix(" %")) / 100
    assert shown <= Fraction(share) < shown + Fraction(1, 10_000)


@pytest.mark.parametrize("share", [0.05, 0.5, 1e-7, 0.123456789, 0.9999999, 0.012345678901234567])
def test_a_number_that_was_chosen_is_not_rounded(share):
    shown = all_digits(share).removesuffix(" %")
    assert float(Fraction(shown) / 100) == share
    assert "e" not in shown.lower()


def said(ledger: Ledger) -> str:
    return describe_line(ledger, ledger.statements[-1])


def test_every_statement_has_its_sentence(answers):
    how = Abstention(column="a", scores="conf", risk=0.1, thresholds=(0.5, 0.2))
    pairs = [("a", "b"), ("b", "a")]
    path = seal(answers, Plan(look=("a",), better=pairs, abstain=[how], looks=9, tell="exact")).path
    assert said(look(path, "a", data=answers)) == "a is wrong on at most 20.07 % of new rows"
    assert "b errs less often than a, by at least" in said(better(path, "a", "b", data=answers))
    assert "it is NOT shown that a errs less often than b" in said(better(path, "b", "a", data=answers))
    assert "it is NOT shown that a errs at most 1 % of new rows" in said(
        better(path, "b", "a", margin=0.01, data=answers)
    )
    assert "where conf is at least 0.2, a is wrong on at most 10 %" in said(abstain(path, how, data=answers))
    other = Abstention(column="a", scores="conf", risk=0.001, thresholds=(0.5,))
    assert "no threshold is shown at which a" in said(abstain(path, other, data=answers))


def test_groups_and_clusters_are_named(answers):
    plan = Plan(look=("a",), better=[("a", "b")], group="topic", cluster="patient", claim="any")
    path = seal(answers, plan).path
    told = said(look(path, "a", data=answers))
    assert "of new clusters (any row of a new cluster); of each group at most" in told
    assert "(the worst: topic = north)" in told
    assert "; shown in 0 of 2 groups" in said(better(path, "a", "b", data=answers))


@pytest.mark.parametrize("loss", ["precision:spam", "class:spam"])
def test_a_loss_on_some_rows_is_a_share_of_these(answers, loss):
    path = seal(answers, Plan(look=("a",), loss=loss)).path
    assert said(look(path, "a", data=answers)).endswith(" % of such new rows")


def test_a_look_by_levels_may_tell_nothing(answers):
    path = seal(answers, Plan(looks=5)).path
    look(path, "b", data=answers)
    assert said(look(path, "a", data=answers)) == "a is not better than the best so far; no more is told"
