"""Advice against the bounds themselves, on cases that can be worked out by hand."""

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts
from codebound.holdout.advice import Situation, plan
from codebound.run.errors import UsageError


def clopper_pearson(errors, n, delta):
    return 1.0 if errors == n else beta.ppf(1.0 - delta, errors + 1, n - errors)


def test_the_hold_out_set_is_the_best_of_all_shares():
    situation = Situation(n=400, error=0.1, delta=0.05)
    found = plan(situation).ways[0]
    assert found.name == "hold-out"
    sizes = np.unique(np.round(np.arange(2, 11) / 20 * 400).astype(int))
    expected = [
        clopper_pearson(int(binom.ppf(0.5, m, min(1.0, 0.1 * (400 / (400 - m)) ** 0.25))), m, 0.05)
        for m in sizes
    ]
    assert found.expected == pytest.approx(min(expected), rel=1e-9)
    assert expected[list(sizes).index(found.held_out)] == pytest.approx(min(expected), rel=1e-9)


@pytest.mark.parametrize("n", [40, 300, 5000])
def test_the_ends_of_the_interval_are_the_bounds_at_the_exact_quantiles(n):
    situation = Situation(n=n, error=0.05, bits=10.0)
    message = next(way for way in plan(situation).ways if way.name == "message")
    for found, tail in ((message.low, 0.1), (message.expected, 0.5), (message.high, 0.9)):
        errors = int(binom.ppf(tail, n, 0.05))
        assert found == occam_binomial(OccamFacts(errors=errors, n=n, code_bits=10.0, delta=0.05)).value
    assert message.low < message.expected < message.high


@pytest.mark.parametrize("n", [60, 300, 3000])
def test_eight_draws_of_ten_lie_in_the_interval(n):
    """The learner is as guessed: all that chance decides is which examples are drawn."""
    found = plan(Situation(n=n, error=0.08, bits=12.0))
    stream = np.random.default_rng(0)
    for way in found.ways:
        counted, learned = way.held_out or n, n - way.held_out
        error = 0.08 if way.name == "message" else 0.08 * (n / learned) ** 0.25
        price = {"message": 2.0**-12, "split": 2.0**-2, "hold-out": 1.0}[way.name]
        bounds = np.array(
            [clopper_pearson(int(k), counted, 0.05 * price) for k in stream.binomial(counted, error, 2000)]
        )
        inside = (way.low - 1e-9 <= bounds) & (bounds <= way.high + 1e-9)
        assert inside.mean() >= 0.78  # of 2,000; a standard deviation is 0.009
        if n == 3000:
            assert inside.mean() <= 0.9  # and is no wider than it has to be


def test_the_longest_message_that_wins_is_where_the_ways_cross():
    situation = Situation(n=300, error=0.1, delta=1e-6)
    found = plan(situation)
    held_out = found.ways[0].expected
    for bits, wins in ((found.most_bits, True), (found.most_bits + 1, False)):
        ways = {
            way.name: way.expected for way in plan(Situation(n=300, error=0.1, delta=1e-6, bits=bits)).ways
        }
        assert (ways["message"] <= held_out) is wins


@pytest.mark.thorough
def test_the_labels_for_a_target_reach_it_and_few_less_do_not():
    situation = Situation(n=1000, error=0.05)
    needed = plan(situation, target=0.07).needed["hold-out"]
    assert plan(situation.with_labels(needed)).ways[0].expected <= 0.07
    assert plan(situation.with_labels(int(0.9 * needed))).ways[0].expected > 0.07


def test_a_target_far_below_the_error_is_out_of_reach():
    needed = plan(Situation(n=100, error=0.2), target=1e-3).needed
    assert needed == {"hold-out": None, "split": None}


def test_a_split_is_a_hold_out_set_that_pays_for_a_short_message():
    situation = Situation(n=400, error=0.1)
    split = next(way for way in plan(situation).ways if way.name == "split")
    errors = int(binom.ppf(0.5, split.held_out, situation.error_after(400 - split.held_out)))
    expected = clopper_pearson(errors, split.held_out, 0.05 * 2.0**-2)
    assert split.expected == pytest.approx(expected, rel=1e-6)
    many_looks = plan(Situation(n=400, error=0.1, looks=2**3)).ways
    assert [way.name for way in many_looks] == ["split", "hold-out"]


@examples(25)
@given(st.integers(2, 3000), st.floats(0.0, 0.5), st.sampled_from([0.05, 1e-6, 1e-12]))
def test_it_is_never_below_what_it_was_told(n, error, delta):
    for way in plan(Situation(n=n, error=error, delta=delta)).ways:
        assert way.low <= way.expected <= way.high <= 1.0
        assert 1 <= way.held_out < n


@pytest.mark.parametrize(
    "changed",
    [{"n": 1}, {"error": 1.5}, {"delta": 0.0}, {"looks": 0}, {"picks": 101}, {"bits": -1}],
)
def test_what_cannot_be_is_refused(changed):
    with pytest.raises(UsageError):
        Situation(**{"n": 100, "error": 0.1, **changed})
