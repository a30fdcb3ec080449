"""Offers: which are kept, which wins, and what happens where the second program refuses one."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import typer
from scipy.stats import beta
from worlds.bright_rows import offer_of
from worlds.outcomes import issued, outcome, task_of
from worlds.samples import clouds

from codebound.bits.plain_code import FIRST_TABLE, NETWORK, PICKS, USUAL_SPLIT
from codebound.certificate import offers
from codebound.certificate.offers import assess, prefer_fewer_errors
from codebound.certification import certify
from codebound.cli.certify import print_result
from codebound.cli.console import Format
from codebound.methods.search import HOLD_OUT, Search, compare_offers, list_offers
from codebound.request import Run
from codebound.run.errors import RefusedError


def table(n=150):
    return clouds(n, features=4, apart=1.6)


@pytest.fixture
def refusing(monkeypatch):
    """The second program refuses so many certificates; those that it was asked about."""
    asked, left, verify = [], [1], offers.verify

    def told(certificate, *given, **options):
        asked.append(certificate)
        verdict = verify(certificate, *given, **options)
        assert verdict.is_accepted
        refused = SimpleNamespace(is_accepted=False, reasons=("Message: odd.",))
        return refused if len(asked) <= left[0] else verdict

    monkeypatch.setattr(offers, "verify", told)
    return asked, left


def test_the_next_best_certificate_is_issued_where_one_is_refused(refusing, tmp_path, capsys):
    asked, _ = refusing
    found = certify(table(), method="picks", run=Run(effort="quick"))
    assert found.certificate is asked[1]
    assert asked[0].claim.bound <= asked[1].claim.bound
    (refusal,) = found.refusals
    assert (refusal.bound, refusal.reasons) == (asked[0].claim.bound, ("Message: odd.",))
    assert refusal.message == asked[0].bits.data.hex()
    assert [each["bound"] for each in found.offers if each["is_issued"]] == [found.bound]
    assert "Refused, so that" in str(found)
    saved = found.save_to(tmp_path / "cert")
    recorded = json.loads((tmp_path / "cert" / "result.json").read_text())["refusals"]
    assert [each["reasons"] for each in recorded] == [["Message: odd."]]
    with pytest.raises(typer.Exit) as ended:
        print_result(saved, Format.table, quiet=False)
    assert ended.value.exit_code == 4
    assert "so that the next best certificate was issued" in " ".join(capsys.readouterr().err.split())


def test_only_where_all_are_refused_nothing_is_issued_and_all_reasons_are_said(refusing):
    asked, left = refusing
    left[0] = 100
    with pytest.raises(RefusedError, match=r"so none was issued.*please report") as refused:
        certify(table(), method="picks", run=Run(effort="quick"))
    assert len(asked) > 1
    assert refused.value.reasons == len(asked) * ("Message: odd.",)


@pytest.mark.parametrize(
    ("replayed", "declared", "wins"),
    [(0.1, 0.0901, "replayed"), (0.1, 0.0899, "declared"), (0.1, 0.2, "replayed")],
)
def test_what_the_second_program_repeats_wins_unless_another_is_better_by_a_tenth(replayed, declared, wins):
    offers = [offer_of(declared, is_recounted=True, method="declared"), offer_of(replayed, method="replayed")]
    assert min(offers, key=lambda each: each.rank).method == wins


def test_what_says_no_more_than_guessing_comes_after_all_others():
    vacuous = replace(offer_of(0.5, method="replayed"), is_vacuous=True)
    declared = offer_of(0.49, is_recounted=True, method="declared")
    assert min([vacuous, declared], key=lambda each: each.rank) is declared


@pytest.mark.parametrize(
    ("bound", "errors", "first"),
    [(0.1, 8, "declared"), (0.1, 9, "replayed"), (0.1001, 8, "replayed"), (0.095, 0, "declared")],
)
def test_what_promises_no_less_and_errs_less_by_a_tenth_comes_before_what_is_repeated(bound, errors, first):
    replayed = offer_of(0.1, errors=20, n=200, method="replayed")
    declared = offer_of(bound, errors=errors, n=100, is_recounted=True, method="declared")
    found = prefer_fewer_errors([replayed, declared])
    assert found[0].method == first
    assert len(found) == 2
    assert prefer_fewer_errors([declared, replayed])[0] is declared


def test_the_best_of_each_method_is_kept_and_all_of_one_that_was_asked_for():
    task = task_of()
    made = {form: outcome(form, task) for form in (USUAL_SPLIT, FIRST_TABLE, PICKS)}
    bounds = {form: assess(each, task).bound for form, each in made.items()}
    for is_asked in (False, True):
        search = Search(task, "quick")
        search.is_asked = is_asked
        for search.running, form in (("a", PICKS), ("a", USUAL_SPLIT), ("b", FIRST_TABLE), ("b", PICKS)):
            search.offer(made[form])
        kept = [(each.method, each.bound) for each in search.offers]
        assert kept[0] == ("a", bounds[USUAL_SPLIT])
        assert len(kept) == (4 if is_asked else 2)
        assert [each.rank for each in search.offers] == sorted(each.rank for each in search.offers)


def test_offers_stand_beside_a_hold_out_set_with_the_errors_of_a_split():
    task = task_of()
    offers = [assess(outcome(form, task), task, method=form) for form in (USUAL_SPLIT, PICKS, FIRST_TABLE)]
    offers.sort(key=lambda each: each.rank)
    rows = {each["name"]: each for each in list_offers(offers, offers[0], delta=0.05)}
    assert set(rows) == {USUAL_SPLIT, PICKS, FIRST_TABLE, HOLD_OUT}
    tally = offers[0].tally
    assert rows[HOLD_OUT]["bound"] == pytest.approx(beta.isf(0.05, tally.errors + 1, tally.n - tally.errors))
    assert not rows[HOLD_OUT]["assurance"]
    assert (rows[FIRST_TABLE]["assurance"], rows[PICKS]["assurance"]) == ("recounted", "replayed")
    assert [each["name"] for each in rows.values() if each["is_issued"]] == [USUAL_SPLIT]
    assert rows[USUAL_SPLIT]["price"].endswith("learned from 120 examples without picks; 1 bit")
    assert "6 picks beside 30 first ones" in rows[PICKS]["price"]
    (alone,) = [each for each in offers if each.method == PICKS]
    assert [each["name"] for each in list_offers([alone], alone, delta=0.05)] == [PICKS]
    network = replace(issued(NETWORK)[2], method="message")
    assert [each["name"] for each in list_offers([network], network, delta=0.05)] == ["message"]


def row(name, bound, assurance, *, is_issued=False):
    return {"name": name, "bound": bound, "assurance": assurance, "is_issued": is_issued}


def test_why_a_smaller_bound_was_not_issued_is_said():
    rows = [row("scores", 0.0949, "recounted"), row("split", 0.1, "replayed", is_issued=True)]
    assert "9.49 %" in compare_offers(rows)
    assert "9.49 %" not in compare_offers(rows[1:])
