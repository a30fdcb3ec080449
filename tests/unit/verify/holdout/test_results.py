"""Prices of answers: the logarithm of how many there could have been."""

import math
from itertools import accumulate, product

import mpmath
import pytest

from codebound.holdout.ledger import seal_price
from codebound_verify.formulas import DIGITS
from codebound_verify.holdout.results import Price, chance_of_gain, upper

SEAL = {
    "n": 5,
    "rows": 9,
    "inputs": None,
    "groups": None,
    "clusters": None,
    "levels": None,
    "loss": ["wrong"],
}
GROUPS, ANY = {"sizes": [2, 3]}, {"claim": "any"}
ABSTAIN = {"kind": "abstain", "thresholds": [0.5, 0.1]}


def answers_to_choice(n: int, *, is_any: bool) -> set:
    """All lists of answered and of lost units, for two thresholds, that n units can give."""
    kinds = [(None, None), (0, None), (0, 0), (1, None), (1, 1), *([(0, 1)] if is_any else [])]
    found = set()
    for units in product(kinds, repeat=n):
        counts = [sum(first is not None and first <= at for first, _ in units) for at in (0, 1)]
        lost = [sum(second is not None and second <= at for _, second in units) for at in (0, 1)]
        found.add((*counts, *lost))
    return found


@pytest.mark.parametrize(
    ("seal", "line", "possible"),
    [
        ({}, {"kind": "look"}, 6),
        ({"loss": ["precision", "a"]}, {"kind": "look"}, math.comb(7, 2)),
        ({}, {"kind": "better"}, math.comb(7, 2)),
        ({}, ABSTAIN, math.comb(9, 4)),
        ({"clusters": ANY}, ABSTAIN, math.comb(7, 2) ** 2),
        ({"groups": GROUPS}, {"kind": "look"}, 3 * 4),
        ({"groups": GROUPS, "clusters": ANY}, {"kind": "look"}, 3 * 4 * 6),
        ({"groups": GROUPS}, {"kind": "better"}, math.comb(4, 2) * math.comb(5, 2)),
    ],
)
def test_an_answer_costs_the_bits_of_its_number_among_all(seal, line, possible):
    with mpmath.workdps(DIGITS):
        price = Price(SEAL | seal)
        before = price.bits
        price.add(line | {"result": {}})
        assert abs(price.bits - before - mpmath.log(possible, 2)) < mpmath.mpf("1e-50")


@pytest.mark.parametrize(
    ("seal", "bits"),
    [
        ({}, 0.0),
        ({"inputs": {"copies": 0}}, 1.0),
        ({"inputs": {"copies": 3}}, math.log2(20)),
        ({"clusters": ANY}, math.log2(110)),
        ({"groups": GROUPS}, 2 * math.log2(6)),
        ({"groups": GROUPS, "clusters": ANY, "inputs": {"copies": 0}}, math.log2(2 * 110 * 36)),
    ],
)
def test_what_the_seal_tells_is_paid(seal, bits):
    assert float(Price(SEAL | seal).bits) == pytest.approx(bits)
    assert seal_price(SEAL | seal) == pytest.approx(bits)


def test_the_weights_of_what_a_seal_can_tell_sum_to_one():
    assert sum(1 / ((count + 1) * (count + 2)) for count in range(10**5)) == pytest.approx(1, abs=1e-4)
    for n in (1, 2, 7):  # sizes from 0 to n
        assert (n + 1) * 2 ** -float(Price(SEAL | {"n": n, "groups": {"sizes": [n]}}).bits) == pytest.approx(
            1
        )


@pytest.mark.parametrize("is_any", [False, True])
def test_a_choice_of_thresholds_has_no_more_answers_than_are_paid(is_any):
    price = Price(SEAL | {"clusters": ANY if is_any else None})
    before = price.bits
    price.add(ABSTAIN | {"result": {}})
    assert len(answers_to_choice(5, is_any=is_any)) <= 2 ** float(price.bits - before) * (1 + 1e-12)


def test_levels_cost_what_they_say():
    price = Price(SEAL | {"levels": [4, 2, 0]})
    for errors, bits, left in ((4, math.log2(6), 2), (None, math.log2(4), 2), (0, math.log2(6 * 2 / 3), 0)):
        before = price.bits
        price.add({"kind": "look", "result": None if errors is None else {"errors": errors}})
        assert float(price.bits - before) == pytest.approx(bits)
        assert len(price.left) == left


def tail_of_difference(n: int, seen: int, a: mpmath.mpf, b: mpmath.mpf) -> mpmath.mpf:
    """P(Bin(n, a) - Bin(n, b) >= seen), all terms of which are positive."""

    def masses(p: mpmath.mpf) -> list[mpmath.mpf]:
        return [mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]

    tails = list(accumulate(reversed(masses(a))))[::-1]
    return mpmath.fsum(mass * tails[max(0, seen + j)] for j, mass in enumerate(masses(b)) if seen + j <= n)


@pytest.mark.parametrize(
    ("a_only", "b_only", "margin", "level"), [(11, 78, 0.162, "1e-70"), (30, 74, 0.204, "1e-120")]
)
def test_a_level_far_below_all_digits_is_not_met_by_rounding(a_only, b_only, margin, level):
    n, level = 2000, mpmath.mpf(level)
    with mpmath.workdps(DIGITS):
        chance = chance_of_gain(mpmath.mpf(-margin), a_only, b_only, n, level)
        rate = upper(b_only, n, level / 20)
        gap = 1 + mpmath.mpf(margin)
        b = (gap - mpmath.sqrt(gap * gap - 4 * rate)) / 2
        exact = tail_of_difference(n, a_only - b_only, b - mpmath.mpf(margin), b) + level / 20
        assert level < exact  # so "not worse by the margin" is not shown
        assert abs(chance / exact - 1) < mpmath.mpf("1e-20")
