"""Routes side by side: what a hold-out set would have said, and which certificate is issued."""

import re
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta
from worlds.attempts import course_of
from worlds.samples import clouds

from codebound.bounds.facts import OccamFacts
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import percent
from codebound.certificate.assessment import Assessed
from codebound.certificate.claims import AboutG
from codebound.certification import certify
from codebound.methods import strategy as course
from codebound.methods.offers import Route, advice, compare_routes, route_of


def search_with(*routes):
    return SimpleNamespace(routes={each.name: each for each in routes})


@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_the_hold_out_row_is_the_split_that_was_counted_at_no_bits(delta):
    found = certify(None, clouds(240, features=6, apart=1.6), effort="quick", delta=delta)
    rows = {each.name: each for each in found.routes}
    counted, n = map(int, re.match(r"(\d+) errors? of (\d+), after", rows["split"].price).groups())
    assert rows["hold-out"].bound == pytest.approx(beta.ppf(1 - delta, counted + 1, n - counted), abs=1e-9)
    assert "had its learner and its share been fixed beforehand" in rows["hold-out"].price
    assert not rows["hold-out"].has_certificate
    assert not any("paid for" in each.price or "about" in each.price for each in found.routes)
    said = found.result["routes_say"]
    assert "Had the learner and the share of the split been fixed beforehand" in said


def test_without_a_split_nothing_is_said_of_a_hold_out_set():
    """Above all nothing that nobody counted."""
    rows = compare_routes([search_with(Route("picks", 0.2, ""))], Route("picks", 0.2, ""))
    assert [each.name for each in rows] == ["picks"]
    assert advice(rows) == ""


def issued_route(**bounds):
    routes = [Route(name, bound, "", is_issued=name == "split") for name, bound in bounds.items()]
    return sorted(routes, key=lambda each: each.bound)


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_what_two_routes_are_apart_is_the_difference_of_what_is_printed(held, certified):
    routes = [*issued_route(split=certified), Route("hold-out", held, "", has_certificate=False)]
    said = advice(routes)
    first, apart = re.search(r"said (\d+\.\d\d) %, (\d+\.\d\d) points", said).groups()
    sign = 1 if "less than" in said else -1
    assert percent(held) == f"{first} %"
    assert percent(certified) == f"{float(first) + sign * float(apart):.2f} %"
    assert ("the price of choosing after the look" in said) is (held < certified)


def test_why_a_smaller_bound_was_not_issued_is_said():
    said = advice(issued_route(helper=0.0949, split=0.1))
    assert "The helper came to 9.49 %, but what it saw is declared" in said
    assert "declared" not in advice(issued_route(helper=0.2, split=0.1))


def test_one_error_and_one_bit_are_one():
    facts = OccamFacts(errors=1, n=50, code_bits=1, delta=0.05)
    found = SimpleNamespace(facts=facts, kind=AboutG, bound=occam_binomial(facts))
    found.route = partial(Assessed.route, found)
    assert route_of("biases", found).price == "1 error of 50, 1 bit by biases"


def test_what_was_refused_is_no_route():
    issued = Route("picks", 0.3, "")
    search = search_with(Route("split", 0.1, "", beforehand=0.05), Route("picks", 0.3, ""))
    rows = compare_routes([search], issued, refused=[0.1])
    assert [(each.name, each.is_issued) for each in rows] == [("picks", True)]
    assert {each.name for each in compare_routes([search], issued)} == {"picks", "split", "hold-out"}


@pytest.mark.parametrize(
    ("replayed", "declared", "best"),
    [(0.1, 0.0901, "replayed"), (0.1, 0.0899, "declared"), (0.1, 0.2, "replayed"), (1.0, 1.0, "replayed")],
)
def test_what_the_second_program_repeats_wins_unless_another_is_better_by_a_tenth(replayed, declared, best):
    def attempt(bound, base):
        task = SimpleNamespace(base=base)
        return SimpleNamespace(best=SimpleNamespace(rank=(bound, 0.1)), task=task, others=[])

    attempts = {"replayed": attempt(replayed, None), "declared": attempt(declared, ("made of a part", {}))}

    def first(**changes):
        asked = {"method": "auto", "claims": [AboutG()], "encoder": None} | changes
        start = SimpleNamespace(base=None)
        return course_of(start=start, attempts=list(attempts.values()), **asked)._rank_offers()[0]

    assert first() is attempts[best]
    if declared < replayed:  # whoever asks for a way gets the best of it
        assert first(method="prune") is attempts["declared"]
        assert first(encoder="given") is attempts["declared"]


def test_a_near_tie_is_issued_as_what_can_be_replayed_and_both_are_shown(monkeypatch):
    sample = clouds(400, features=6, apart=1.6)
    bounds = {}
    for factor in (1e-9, 1e9):  # never, and whatever it comes to
        monkeypatch.setattr(course, "_CLEARLY", factor)
        found = certify(None, sample, effort="quick")
        bounds[factor] = found.bound
        rows = {each.name: each.bound for each in found.routes}
        assert {"linear helper", "split"} <= rows.keys()
        assert (found.certificate.claim.statement == "C-10") is (factor == 1e9)
        assert found.bound == next(each.bound for each in found.routes if each.is_issued)
    assert rows["linear helper"] == bounds[1e9]
