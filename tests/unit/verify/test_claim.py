"""Laws, limits, the bound and the word vacuous, against exact fractions and SciPy."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy.stats import beta, binom

from codebound_verify.claim import (
    bound_of,
    check_counts,
    check_kind,
    check_limits,
    check_vacuous,
    is_vacuous,
    statement_of,
)
from codebound_verify.counting import Tally
from codebound_verify.formulas import binomial, is_honest, picked
from codebound_verify.header import Claim, Limit, Original, Unlabelled
from codebound_verify.losses import Question
from codebound_verify.questions.refutation import probability_of_more
from codebound_verify.refusal import Refused


def header_of(*limits, law="binomial", bits=7, classes=4, original=None, **changes):
    claim = {"loss": "wrong", "on": "all", "law": law, "subject": "g", "assurance": "replayed"}
    claim |= {"delta": 0.05, "limits": limits, "bound": limits[0].bound, "vacuous": False} | changes
    known = SimpleNamespace(rows=3, features=None, base=None, tables=())
    return SimpleNamespace(
        claim=Claim(**claim),
        message=SimpleNamespace(bits=bits),
        sample=SimpleNamespace(classes=classes, order="rows"),
        original=original,
        known=known,
    )


def limit(bound=0.5, errors=3, n=50, of="wrong", picks=None):
    return Limit(bound=bound, errors=errors, n=n, of=of, picks=picks)


def exact(value) -> Fraction:
    with mpmath.workdps(60):
        return Fraction(int(mpmath.nint(mpmath.ldexp(value, 300))), 2**300)


def mass(n, k, p):
    return math.comb(n, k) * p**k * (1 - p) ** (n - k)


@pytest.mark.parametrize(("errors", "n"), [(0, 1), (0, 40), (7, 40), (39, 40), (20, 41)])
@pytest.mark.parametrize(("bits", "delta"), [(0, 0.05), (13, 0.5), (1, 0.9999)])
def test_the_binomial_law_is_the_largest_p_with_a_probable_tail(errors, n, bits, delta):
    p, target = exact(binomial(errors=errors, n=n, bits=bits, delta=delta)), Fraction(delta) / 2**bits

    def tail(p):
        return sum(mass(n, k, p) for k in range(errors + 1))

    tiny = p / 10**25
    assert tail(min(Fraction(1), p + tiny)) <= target <= tail(p - tiny)


@pytest.mark.parametrize(("k", "n"), [(0, 1), (0, 40), (7, 40), (39, 40)])
@pytest.mark.parametrize(("bits", "delta"), [(0, 0.05), (13, 0.5)])
def test_the_picked_law_is_the_largest_p_of_its_equation(k, n, bits, delta):
    p, target = exact(picked(counted=k, n=n, bits=bits, delta=delta)), Fraction(delta) / 2**bits

    def excess(p):
        return n * p * mass(n, k, p) - target * sum(mass(n, i, p) for i in range(k + 1, n + 1))

    tiny = min(p, 1 - p) / 10**15
    assert excess(p - tiny) > 0 > excess(p + tiny)
    assert picked(counted=n, n=n, bits=0, delta=0.5) == binomial(errors=n, n=n, bits=0, delta=0.5) == 1


def test_large_counts_are_those_of_scipy():
    for errors, n, bits in ((0, 10**6, 3), (1234, 60_000, 40), (500_000, 10**6, 2)):
        found = float(binomial(errors=errors, n=n, bits=bits, delta=0.05))
        assert found == pytest.approx(beta.isf(0.05 / 2**bits, errors + 1, n - errors), rel=1e-9)
    assert float(probability_of_more(17, 50, 0.3)) == pytest.approx(binom.sf(16, 50, 0.3))
    assert not is_honest(0.4999999, mpmath.mpf(0.5))
    assert not is_honest(0.500001, mpmath.mpf(0.5))
    assert is_honest(0.5000004, mpmath.mpf(0.5))


LAWS = {"binomial": (None, binomial(errors=3, n=50, bits=7, delta=0.05))}
LAWS["picked"] = (2, picked(counted=5, n=50, bits=7, delta=0.05))


@pytest.mark.parametrize("law", LAWS)
def test_a_printed_limit_is_that_of_its_law_or_a_little_more(law):
    picks, value = LAWS[law]
    up = math.nextafter(float(value), 1)
    for bound, is_fine in ((up, True), (up * (1 + 9e-7), True), (up * (1 + 1.1e-6), False)):
        header = header_of(limit(bound, picks=picks), law=law)
        if is_fine:
            check_limits(header)
        else:
            with pytest.raises(Refused, match="larger"):
                check_limits(header)
    with pytest.raises(Refused, match="smaller"):
        check_limits(header_of(limit(float(value) * (1 - 1e-12), picks=picks), law=law))
    for change in ({"bits": 8}, {"delta": 0.025}, {"law": "picked" if law == "binomial" else "binomial"}):
        with pytest.raises(Refused, match=r"smaller|larger"):
            check_limits(header_of(limit(up, picks=picks), **{"law": law} | change))


def test_several_limits_share_delta_and_the_bound_is_the_largest_or_the_first():
    parts = [(0, 20), (5, 30), (0, 0)]
    values = [binomial(errors=k, n=n, bits=7, delta=mpmath.mpf(0.05) / 3) for k, n in parts]
    told = [limit(min(1.0, float(v) * (1 + 1e-9)), *each) for v, each in zip(values, parts, strict=True)]
    check_limits(header_of(*told, on="each class", bound=1.0))
    with pytest.raises(Refused, match="the bound is printed as"):
        check_limits(header_of(*told, on="each class", bound=told[1].bound))
    with pytest.raises(Refused, match="limit on"):
        check_limits(header_of(*told[:2], on="each class", bound=told[1].bound))
    silent = header_of(*told[:2], on="answered:1", bound=told[0].bound)
    assert bound_of(silent) == told[0].bound


@pytest.mark.parametrize("pair", [(0.1, 0.2), (0.3, 0.4), (1e-20, 1.0), (0.7, 0.7), (1e-20, 0.5)])
def test_a_sum_is_rounded_up_and_at_most_one(pair):
    header = header_of(*(limit(bound) for bound in pair), law="sum", bound=0.5)
    found, wanted = bound_of(header), min(Fraction(1), sum(map(Fraction, pair)))
    assert math.nextafter(found, 0) < wanted <= found


def test_limits_hide_no_error_pick_or_right_row():
    own = (Tally("wrong", 3, 50, 2),)
    fine = [limit(picks=2), limit(errors=4, n=51, picks=2), limit(errors=9, n=11, picks=2)]
    for told in fine:
        check_counts(header_of(told, law="picked"), own)
    wrong = [limit(errors=2, n=49, picks=2), limit(n=51, picks=2), limit(picks=1), limit(picks=None)]
    wrong += [limit(of="errors", picks=2), limit(n=4, picks=2), limit(picks=3), limit(n=49, picks=1)]
    for told in wrong:
        with pytest.raises(Refused):
            check_counts(header_of(told, law="picked"), own)
    with pytest.raises(Refused, match="nothing"):
        check_counts(header_of(limit(errors=0, n=0)), (Tally("wrong", 0, 0),))
    check_counts(
        header_of(limit(errors=0, n=0, of="a"), limit(of="b")), (Tally("a", 0, 0), Tally("b", 3, 50))
    )
    empty = (limit(errors=0, n=0, of="a"), limit(errors=0, n=0, of="b"))
    check_counts(header_of(*empty), (Tally("a", 0, 0), Tally("b", 0, 0)))  # each is 1, and says nothing
    with pytest.raises(Refused, match="limits"):
        check_counts(header_of(limit(), limit()), (Tally("wrong", 3, 50),))
    original = Original(None, None, "", Unlabelled(disagreements=4, rows=50, sha256=""))
    limits, own = (
        (limit(of="risk"), limit(of="disagreement")),
        (
            Tally("risk", 3, 50),
            Tally("disagreement", 3, 50),
        ),
    )
    with pytest.raises(Refused, match="disagreements"):
        check_counts(header_of(*limits, law="sum", original=original), own)
    told = replace(original, unlabelled=replace(original.unlabelled, disagreements=3))
    check_counts(header_of(*limits, law="sum", original=told), own)


COSTS = ((0, 1, 2), (0, 0, 2), (2, 0, 0))
LEVELS = [
    (Question("class:1"), 3, Fraction(2, 3)),
    (Question("confused:0:1"), 3, Fraction(1, 3)),
    (Question("false-alarm:0"), 7, Fraction(1, 7)),
    (Question("top:2"), 3, Fraction(1, 3)),
    (Question("cost-above:0:120220", "all", COSTS), 3, Fraction(1, 3)),
    (Question("cost-above:1:120220", "all", COSTS), 3, Fraction(0)),
    (Question("wrong", "one row a cluster"), 3, Fraction(2, 3)),
    (Question("wrong"), 3, Fraction(3, 10)),
    (Question("wrong", "predicted:1"), 3, Fraction(2, 3)),
]


@pytest.mark.parametrize(("question", "classes", "level"), LEVELS, ids=lambda each: str(each))
def test_guessing_is_compared_in_exact_fractions(question, classes, level):
    labels = np.array([1] * 7 + [0] * 2 + [2])
    near = float(level)
    for bound in (near, math.nextafter(near, 0), math.nextafter(near, 1), 0.0, 1.0):
        header = header_of(limit(bound), classes=classes, bound=bound)
        assert is_vacuous(header, question, labels) == (Fraction(bound) >= level)
        lie = not is_vacuous(header, question, labels)
        with pytest.raises(Refused, match="vacuous"):
            check_vacuous(
                header_of(limit(bound), classes=classes, bound=bound, vacuous=lie), question, labels
            )


def test_parts_are_vacuous_when_one_limit_is():
    for bounds, wanted in (((0.5, 1.0), True), ((0.5, 0.9999), False)):
        header = header_of(*map(limit, bounds), on="each class", bound=max(bounds))
        assert is_vacuous(header, Question("wrong", "each class"), np.zeros(10, int)) == wanted


def test_law_and_assurance_follow_from_the_form():
    plain, table = Question(), {"assurance": "recounted"}
    domain = Original((("linear", 2, 0),), (0.0, 1.0), "", None)
    answers = Original(None, None, "", Unlabelled(disagreements=0, rows=9, sha256=""))
    on_declared = {"assurance": "replayed on declared inputs"}
    check_kind(header_of(limit()), "usual split", plain)
    check_kind(header_of(limit(), **table), "first table", plain)
    check_kind(header_of(limit(picks=0), law="picked", **table), "first table", plain, has_picks=True)
    check_kind(header_of(limit(picks=0), law="picked"), "picks", plain)
    check_kind(header_of(limit(), original=domain), "network", Question("class:1", "each group"))
    check_kind(header_of(limit(), law="sum", original=answers, **on_declared), "network", plain)
    for header, form, question, has_picks in (
        (header_of(limit()), "first table", plain, False),
        (header_of(limit(), **table), "another split", plain, False),
        (header_of(limit(), **table), "first table", plain, True),
        (header_of(limit(picks=0), law="picked", **table), "first table", plain, False),
        (header_of(limit()), "picks", plain, False),
        (header_of(limit(picks=0), law="picked"), "picks", Question("wrong", "answered:1"), False),
        (header_of(limit(), original=domain), "usual split", plain, False),
        (header_of(limit(), original=domain), "network", Question("wrong", "predicted:1"), False),
        (header_of(limit(), law="sum", original=answers), "network", plain, False),
        (header_of(limit(), law="sum", original=answers, **on_declared), "network", Question("top:2"), False),
        (header_of(limit(), original=answers, **on_declared), "network", plain, False),
    ):
        with pytest.raises(Refused):
            check_kind(header, form, question, has_picks=has_picks)
    for name, form in (("features", "usual split"), ("base", "network")):
        header = header_of(limit(), **on_declared)
        setattr(header.known, name, object())
        check_kind(header, form, plain)
    with pytest.raises(Refused):  # a base is of networks
        check_kind(header, "usual split", plain)
    assert statement_of(header_of(limit())) == "C-10"
    assert statement_of(header_of(limit(), original=domain)) == "C-12a"
    assert statement_of(header_of(limit(), law="sum", original=answers)) == "C-12b"
    assert statement_of(header_of(limit(), law="picked")) == "C-15"
