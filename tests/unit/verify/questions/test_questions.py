"""Errors on test data, and when they refute a bound; errors on every class, and limits that hold at once."""

from dataclasses import replace

import cbound_writer as writer
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta
from worlds.literal import float32, linear_logits, wrong

from codebound_verify.header import parse_header
from codebound_verify.losses import read_loss
from codebound_verify.networks.chain import parse_chain
from codebound_verify.networks.evaluation import chain_evaluator
from codebound_verify.questions.classes import class_table
from codebound_verify.questions.refutation import LEVEL, compare_with_test, judge
from codebound_verify.refusal import Refused
from codebound_verify.versions import VERSIONS

CASE = writer.linear_case(400)
X, Y = CASE.x, np.asarray(CASE.y)
HEADER = parse_header(writer.canonical(CASE.fields), VERSIONS[2])
TENSORS = float32(CASE.message.tensors)
CHAIN = parse_chain((("linear", 3, True),), (1, 2, 2), 3)
EVALUATOR = chain_evaluator(CHAIN, TENSORS, header=HEADER)


def loss(text):
    return read_loss(text, 3, has_new=True)


def of(**changes):
    return replace(HEADER, **{"errors": 12, **changes})


def test_test_data_are_counted_as_the_sample_is():
    x, y = writer.clusters(90, 5)
    x[:4] = X[:4]
    found = compare_with_test(HEADER, EVALUATOR, X, (x, y))
    assert (found.errors, found.n, found.shared) == (wrong(linear_logits(x, TENSORS), y).sum(), 90, 4)
    of_class = replace(HEADER, loss=loss("class:1"))
    found = compare_with_test(of_class, EVALUATOR, X, (x, y))
    assert (found.errors, found.n) == (wrong(linear_logits(x, TENSORS), y)[y == 1].sum(), (y == 1).sum())
    with pytest.raises(Refused, match="Test data"):
        compare_with_test(HEADER, EVALUATOR, X, (x, y + 1))
    none = x[y != 1], y[y != 1]
    with pytest.raises(Refused, match="about none of the examples"):
        compare_with_test(of_class, EVALUATOR, X, none)


@given(st.integers(1, 200), st.floats(0.01, 0.9), st.data())
def test_a_bound_is_refuted_by_what_it_makes_unlikely(n, bound, data):
    errors = data.draw(st.integers(0, n))
    found = judge(of(bound=bound), errors, n, 2)
    with mpmath.workdps(30):  # scipy has five digits of a tail of 1e-294
        p = mpmath.mpf(bound)
        terms = (mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k) for k in range(errors, n + 1))
        tail = float(mpmath.fsum(terms))
    assert found.tail == pytest.approx(tail, rel=1e-9, abs=1e-300)
    assert found.refuted is (found.tail < LEVEL)
    assert ("not to be believed" in found.sentence) is found.refuted
    assert f"errs on {errors} of {n} test examples, of which 2 occur in the sample" in found.sentence


def test_a_table_of_classes_holds_at_once():
    for row in class_table(HEADER, Y, lambda own: (0, EVALUATOR.count_errors(X[own], Y[own]))):
        own = wrong(linear_logits(X, TENSORS), Y)[row.label == Y]
        assert (row.errors, row.n, row.picks) == (own.sum(), len(own), 0)
        level = HEADER.delta / 3 * 2.0**-HEADER.code_bits
        assert row.bound == pytest.approx(
            float(beta.isf(level, row.errors + 1, row.n - row.errors)), rel=1e-9
        )
