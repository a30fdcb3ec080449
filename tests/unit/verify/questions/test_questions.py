"""Errors on test data, and when they refute a bound; errors on every class, and limits that hold at once."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from file_judges import judged
from file_worlds import made
from file_writer import write_file
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from codebound_verify.losses import Question
from codebound_verify.questions.refutation import LEVEL, compare_with_test, judge, probability_of_more
from codebound_verify.refusal import Refused
from codebound_verify.sample import Data

CLASSES = np.array([0, 1, 2])
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(90, 3)), RANDOM.integers(0, 3, 90)
DATA = Data(X[:40], Y[:40])


def header(bound=0.4, loss="wrong"):
    return SimpleNamespace(claim=SimpleNamespace(bound=bound, loss=loss, subject="g"))


def blocks_of(data):
    """Scores that are the inputs, in two blocks; the last row is in doubt."""
    for rows in np.split(np.arange(len(data.y)), 2):
        yield rows, data.x[rows], np.where(rows == len(data.y) - 1, np.inf, 0.0)


def compared(question, x=X[30:], y=Y[30:]):
    checks = SimpleNamespace(
        container=SimpleNamespace(header=header(loss=question.loss)),
        scores=SimpleNamespace(classes=CLASSES),
        given=SimpleNamespace(test=(x, y)),
        learned=SimpleNamespace(on=lambda data: SimpleNamespace(blocks=lambda _: blocks_of(data))),
    )
    return compare_with_test(checks, SimpleNamespace(question=question), DATA)


def test_test_data_are_counted_as_the_sample_is():
    x, y = X[30:], Y[30:]
    wrong = x.argmax(axis=1) != y
    wrong[-1] = True
    found = compared(Question())
    assert (found.errors, found.n, found.shared) == (wrong.sum(), 60, 10)
    found = compared(Question("class:1", "each group"))
    assert (found.errors, found.n) == (wrong[y == 1].sum(), (y == 1).sum())
    second, first = np.sort(x, axis=1)[:, -2:].T
    answered = first - second > 1
    answered[-1] = True
    found = compared(Question("wrong", "answered:1"))
    assert (found.errors, found.n) == (wrong[answered].sum(), answered.sum())


@pytest.mark.parametrize(
    ("question", "x", "y", "reason"),
    [
        (Question("wrong", "one row a cluster"), X, Y, "about clusters"),
        (Question(), X[:, :2], Y, "have shape"),
        (Question(), X, Y[:5], "must be 90 integers"),
        (Question("class:1"), X[Y != 1], Y[Y != 1], "about none of the examples"),
    ],
)
def test_what_are_no_examples_for_it_is_refused(question, x, y, reason):
    with pytest.raises(Refused, match=reason):
        compared(question, x[: len(x) // 2 * 2], y[: len(y) // 2 * 2] if len(y) > 5 else y)


@given(st.integers(1, 200), st.floats(0.01, 0.9), st.data())
def test_a_bound_is_refuted_by_what_it_makes_unlikely(n, bound, data):
    errors = data.draw(st.integers(0, n))
    found = judge(header(bound), errors, n, 2)
    with mpmath.workdps(30):  # scipy has five digits of a tail of 1e-294
        p = mpmath.mpf(bound)
        terms = (mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k) for k in range(errors, n + 1))
        tail = float(mpmath.fsum(terms))
    assert found.tail == pytest.approx(tail, rel=1e-9, abs=1e-300)
    assert found.refuted is (found.tail < LEVEL)
    assert ("not to be believed" in found.sentence) is found.refuted
    assert f"errs on {errors} of {n} test examples, of which 2 occur in the sample" in found.sentence


@given(st.integers(1, 60), st.floats(0.0, 1.0), st.data())
def test_the_probability_of_more_errors_is_rounded_up(n, risk, data):
    errors, p = data.draw(st.integers(0, n)), Fraction(risk)
    exact = sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(errors, n + 1))
    value = probability_of_more(errors, n, risk)
    with mpmath.workdps(60):
        true = mpmath.mpf(exact.numerator) / exact.denominator
        assert true <= value * (1 + mpmath.mpf("1e-58"))
        assert value <= min(mpmath.mpf(1), true * (1 + mpmath.mpf("1e-25")) + mpmath.mpf("1e-29"))


def test_large_test_sets_take_no_time():
    for errors, n, risk in ((3_000, 10**5, 0.03), (99_999, 10**5, 0.5), (1, 10**7, 1e-9)):
        assert float(probability_of_more(errors, n, risk)) == pytest.approx(
            binom.sf(errors - 1, n, risk), rel=1e-6, abs=1e-290
        )


@pytest.mark.parametrize("name", ["first_table", "picks", "table_with_picks", "table_of_copies_repeated"])
def test_a_table_of_classes_holds_at_once(name):
    world, text = made(name)
    verdict = judged(world, write_file(world, text), by_class=True)
    limit = verdict.limits[0]
    rows = verdict.by_class
    assert [row.label for row in rows] == [0, 1, 2]
    assert sum(row.errors for row in rows) == limit.errors
    assert sum(row.picks for row in rows) == (limit.picks or 0)
    for row in rows if limit.picks is None else ():
        level = verdict.delta / 3 * 2.0**-verdict.code_bits
        assert row.bound == pytest.approx(beta.isf(level, row.errors + 1, row.n - row.errors), rel=1e-9)
    assert all(row.bound > limit.bound / 3 for row in rows)


def test_a_class_without_rows_has_no_limit_and_clusters_and_sums_no_table():
    world, text = made("a_class_without_counted_rows")
    found = judged(world, write_file(world, text), by_class=True).by_class
    assert [(row.n, row.bound) for row in found if not row.n] == [(0, None)]
    for name in ("clusters_one_row_of_a_table", "declared_answers"):
        world, text = made(name)
        assert judged(world, write_file(world, text), by_class=True).by_class == ()


def test_a_lower_level_has_a_larger_limit():
    world, text = made("first_table")
    world = replace(world, delta=0.001)
    lower = judged(world, write_file(world, text), by_class=True)
    world = replace(world, delta=0.05)
    for one, other in zip(
        judged(world, write_file(world, text), by_class=True).by_class, lower.by_class, strict=True
    ):
        assert one.bound < other.bound
