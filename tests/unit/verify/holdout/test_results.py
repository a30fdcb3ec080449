"""Prices of answers: the logarithm of how many there could have been."""

import math
from itertools import product

import mpmath
import pytest

from codebound_verify.formulas import DIGITS
from codebound_verify.holdout.results import Price

SEAL = {"n": 5, "groups": None, "clusters": None, "levels": None, "loss": ["wrong"]}
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
    price = Price(SEAL | seal)
    with mpmath.workdps(DIGITS):
        price.add(line | {"result": {}})
        assert abs(price.bits - mpmath.log(possible, 2)) < mpmath.mpf("1e-50")


@pytest.mark.parametrize("is_any", [False, True])
def test_a_choice_of_thresholds_has_no_more_answers_than_are_paid(is_any):
    price = Price(SEAL | {"clusters": ANY if is_any else None})
    price.add(ABSTAIN | {"result": {}})
    assert len(answers_to_choice(5, is_any=is_any)) <= 2 ** float(price.bits) * (1 + 1e-12)


def test_levels_cost_what_they_say():
    price = Price(SEAL | {"levels": [4, 2, 0]})
    for errors, bits, left in ((4, math.log2(6), 2), (None, math.log2(4), 2), (0, math.log2(6 * 2 / 3), 0)):
        before = price.bits
        price.add({"kind": "look", "result": None if errors is None else {"errors": errors}})
        assert float(price.bits - before) == pytest.approx(bits)
        assert len(price.left) == left
