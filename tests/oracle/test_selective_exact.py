"""C-21 against exact fractions."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from codebound.bounds.selective import SelectiveFacts, choose_threshold, choose_with_share


def lower_tail(wrong: int, answered: int, risk: Fraction) -> Fraction:
    """``P(Bin(answered, risk) <= wrong)``."""
    return sum(
        (math.comb(answered, i) * risk**i * (1 - risk) ** (answered - i) for i in range(wrong + 1)),
        Fraction(0),
    )


@st.composite
def facts(draw):
    thresholds = draw(st.integers(1, 6))
    right = [draw(st.integers(0, 60)) for _ in range(thresholds)]
    wrong = [draw(st.integers(0, 4)) for _ in range(thresholds)]
    answered = tuple(sum(right[: i + 1]) + sum(wrong[: i + 1]) for i in range(thresholds))
    return SelectiveFacts(
        answered=answered,
        wrong=tuple(sum(wrong[: i + 1]) for i in range(thresholds)),
        n=max(1, answered[-1]) + draw(st.integers(0, 50)),
        risk=draw(st.sampled_from([0.02, 0.1, 0.5])),
        delta=draw(st.sampled_from([0.01, 0.05, 0.3])),
    )


def last_that_passes(each: SelectiveFacts, level: Fraction) -> int | None:
    """The sequence by its definition."""
    found = None
    for index, (answered, wrong) in enumerate(zip(each.answered, each.wrong, strict=True)):
        if wrong >= answered or lower_tail(wrong, answered, Fraction(each.risk)) > level:
            break
        found = index
    return found


@given(facts())
def test_the_choice_is_the_last_that_passes_in_a_row(each):
    found = choose_threshold(each)
    assert found.index == last_that_passes(each, Fraction(each.delta))
    assert len(found.limits) == min(len(each.answered), 1 if found.index is None else found.index + 2)


@given(facts())
def test_with_the_share_both_have_half(each):
    found = choose_with_share(each)
    assert found.index == last_that_passes(each, Fraction(each.delta) / 2)
    if found.index is None:
        assert found.share_limit == 0.0
        return
    answered, level = each.answered[found.index], Fraction(each.delta) / 2 / len(each.answered)
    if found.share_limit > 0.0:  # so many answers, or more, are that improbable with so small a share
        assert answered == 0 or upper_tail(answered, each.n, Fraction(found.share_limit)) <= level
    tighter = min(Fraction(1), Fraction(found.share_limit) * (1 + Fraction(1, 10**6)) + Fraction(1, 10**9))
    assert upper_tail(answered, each.n, tighter) >= level


def upper_tail(least: int, n: int, p: Fraction) -> Fraction:
    return 1 - lower_tail(least - 1, n, p) if least else Fraction(1)
