"""Properties of the watch: blocks of any size are one stream, and no label is forgotten."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bounds.monitoring import Mixture, alternatives, steady_limit
from codebound.run.errors import UsageError

streams = st.lists(st.integers(0, 1), max_size=700)


@given(streams, st.lists(st.integers(0, 250), max_size=8), st.sampled_from([0.01, 0.2, 0.8]))
def test_blocks_of_any_size_are_one_stream(outcomes, cuts, bound):
    whole, parts = Mixture(bound=bound, alpha=0.05), Mixture(bound=bound, alpha=0.05)
    whole.update(outcomes)
    left = list(outcomes)
    for cut in [*cuts, len(outcomes)]:
        parts.update(left[:cut])
        left = left[cut:]
    assert (parts.labels, parts.errors, parts.alarm_at) == (whole.labels, whole.errors, whole.alarm_at)
    assert parts.log_wealth == pytest.approx(whole.log_wealth, abs=1e-9)
    assert parts.upper_limit() == whole.upper_limit()


@given(streams, st.sampled_from([0.01, 0.2, 0.8]))
def test_a_smaller_level_alarms_no_earlier(outcomes, bound):
    often, rarely = Mixture(bound=bound, alpha=0.2), Mixture(bound=bound, alpha=0.01)
    often.update(outcomes)
    rarely.update(outcomes)
    if rarely.alarm_at is not None:
        assert often.alarm_at is not None
        assert often.alarm_at <= rarely.alarm_at


@given(st.floats(1e-12, 1.0 - 1e-12))
def test_alternatives_lie_above_the_bound_and_a_fair_step_gains_nothing(bound):
    rates = alternatives(bound)
    assert np.all(rates > bound)
    assert np.all(rates < 1.0)
    mean = bound * (rates / bound) + (1.0 - bound) * ((1.0 - rates) / (1.0 - bound))
    assert mean == pytest.approx(1.0, abs=1e-12)


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_steady_limit_is_above_what_was_seen_and_rises_with_it(counts):
    errors, labels = counts
    limit = steady_limit(errors=errors, labels=labels, alpha=0.05)
    assert errors / labels <= limit <= 1.0
    if errors < labels:
        assert steady_limit(errors=errors + 1, labels=labels, alpha=0.05) >= limit
    assert steady_limit(errors=errors, labels=labels, alpha=0.01) >= limit


def test_kinds_of_outcomes_are_one():
    found = []
    for outcomes in ([1, 0, 1], np.array([True, False, True]), np.array([1.0, 0.0, 1.0]), iter([1, 0, 1])):
        watch = Mixture(bound=0.1, alpha=0.05)
        watch.update(outcomes)
        found.append(watch.log_wealth)
    assert len(set(found)) == 1


@pytest.mark.parametrize("wrong", [[0, 2], [0.5], [[0, 1]], ["1"], [float("nan")], [None]])
def test_outcomes_that_are_none_are_refused_and_leave_it_as_it_was(wrong):
    watch = Mixture(bound=0.1, alpha=0.05)
    watch.update([0, 1])
    before = (watch.labels, watch.errors, watch.log_wealth)
    with pytest.raises(UsageError, match="0 \\(right\\) and 1 \\(wrong\\)"):
        watch.update(wrong)
    assert (watch.labels, watch.errors, watch.log_wealth) == before


@pytest.mark.parametrize("wrong", [{"bound": 0.0}, {"bound": 1.0}, {"alpha": 0.0}, {"alpha": 1.0}])
def test_levels_that_cannot_be_are_refused(wrong):
    with pytest.raises(UsageError):
        Mixture(**({"bound": 0.1, "alpha": 0.05} | wrong))


def test_nothing_seen_says_nothing():
    watch = Mixture(bound=0.1, alpha=0.05)
    watch.update([])
    assert (watch.labels, watch.alarm_at, watch.upper_limit(), watch.log_wealth) == (0, None, 1.0, 0.0)


def test_it_goes_on_after_an_alarm_and_remembers_the_first():
    watch = Mixture(bound=0.05, alpha=0.01)
    watch.update([1] * 3000)
    first = watch.alarm_at
    watch.update([0] * 100_000)
    assert watch.alarm_at == first == 6
    assert np.isfinite(watch.log_wealth)


def test_a_million_labels_take_seconds():
    outcomes = np.random.default_rng(0).random(100_000) < 0.04
    watch = Mixture(bound=0.05, alpha=0.01)
    start = time.process_time()
    watch.update(outcomes)
    assert time.process_time() - start < 3.0  # of processor time; a tenth of that on an idle core
