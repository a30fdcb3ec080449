"""The rule of picks by any learner on every small sample, with every option; each way to break it is caught.

As in test_picked_rules.py, but with the code that is shipped: samples are multisets of up to five examples of
four types, and learners are arbitrary functions of the picks in their order.
"""

import itertools
import random
from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from codebound.learn.any_picks import PickingRule, rounds

TYPES, MOST, LEARNERS = 4, 5, 6
APART = 2
"""Examples that are set apart, as far as a rule knows."""


def samples(types, most):
    return [
        each for n in range(1, most + 1) for each in itertools.combinations_with_replacement(range(types), n)
    ]


@dataclass(frozen=True)
class AnyLearner:
    """Its model is what it was shown, and its margins are draws of their own."""

    seed: int
    sample: tuple[int, ...]

    def learn(self, picks):
        return tuple(self.sample[each] for each in picks)

    def margin(self, model, example):
        return margin(self.seed, model, example)

    def judge(self, model, rest):
        return [np.array([self.margin(model, self.sample[each]) for each in rest])]


@cache
def margin(seed, model, example):
    return random.Random(f"{seed} {model} {example}").uniform(-1.0, 0.7)


class LookingLearner(AnyLearner):
    """Broken: its margins know the size of the sample."""

    def margin(self, model, example):
        return margin(self.seed, (model, len(self.sample)), example)


def run(learner, rule, stop):
    """All rounds up to where the message stops."""
    sample = learner.sample
    for at in rounds(np.arange(len(sample)), np.array(sample), learner, rule, apart=APART):
        yield at
        if at.number == stop:
            return


def kept(sample, picks, errors):
    return tuple(sorted(sample[each] for each in (*picks, *errors)))


def stated(rule, stop=None, *, kind=AnyLearner):
    """What is kept of a sample, and which types are wrong in the end."""

    def compress(seed, sample):
        learner = kind(seed, sample)
        *_, last = run(learner, rule, stop)
        return kept(sample, last.picks, last.errors), [
            z for z in range(TYPES) if learner.margin(last.model, z) <= 0.0
        ]

    return compress


def best_round_unpaid(seed, sample):
    learner = AnyLearner(seed, sample)
    best = min(run(learner, PickingRule(batch=1), None), key=lambda at: len(at.picks) + len(at.errors))
    return kept(sample, best.picks, best.errors), [
        z for z in range(TYPES) if learner.margin(best.model, z) <= 0.0
    ]


def batch_by_size(seed, sample):
    return stated(PickingRule(batch=max(1, len(sample) // 2)), 1)(seed, sample)


def copies_forgotten(seed, sample):
    """Broken: what equals a pick is not counted."""
    learner = AnyLearner(seed, sample)
    *_, last = run(learner, PickingRule(batch=1), 1)
    picks = tuple(sorted(sample[each] for each in last.picks))
    errors = tuple(sample[each] for each in last.errors if sample[each] not in picks)
    return tuple(sorted(picks + errors)), [z for z in range(TYPES) if learner.margin(last.model, z) <= 0.0]


def ended_by_errors(count):
    """Broken: the rounds end at a number of errors that may not have been picked."""

    def compress(seed, sample):
        learner = AnyLearner(seed, sample)
        for at in run(learner, PickingRule(), None):
            if len(at.errors) <= count:
                break
        found = kept(sample, at.picks, at.errors)
        return found, [z for z in range(TYPES) if learner.margin(at.model, z) <= 0.0]

    return compress


def beside_errors(rule, stop=None):
    """What is counted in the place of the errors: any function of the model."""

    def compress(seed, sample):
        learner = AnyLearner(seed, sample)
        *_, last = run(learner, rule, stop)
        is_counted = [margin(-1 - seed, last.model, z) <= 0.0 for z in range(TYPES)]
        found = [at for at in range(len(sample)) if is_counted[sample[at]] and at not in last.picks]
        return kept(sample, last.picks, found), np.flatnonzero(is_counted).tolist()

    return compress


def violations(compress, seed, *, types=TYPES, most=MOST):
    """How often throwing away what was not kept matters, or an error would not be kept."""
    compress = cache(compress)
    found = 0
    for sample in samples(types, most):
        whole, wrong = compress(seed, sample)
        spare = tuple((Counter(sample) - Counter(whole)).elements())
        for size in range(len(spare) + 1):
            for part in set(itertools.combinations(spare, size)):
                found += compress(seed, tuple(sorted(whole + part)))[0] != whole
        if len(sample) < most:
            found += sum(compress(seed, tuple(sorted((*whole, z))))[0] == whole for z in wrong)
    return found


SOUND = {
    "to the end": stated(PickingRule()),
    "to the end, two at a time": stated(PickingRule(batch=2)),
    "growing batches": stated(PickingRule(growth=0.5)),
    "one round": stated(PickingRule(), 1),
    "two rounds of two": stated(PickingRule(batch=2), 2),
    "limit of two rounds": stated(PickingRule(max_rounds=2)),
    "no rounds": stated(PickingRule(), 0),
    "beside the errors": beside_errors(PickingRule()),
    "beside the errors, limited": beside_errors(PickingRule(batch=2, max_rounds=1)),
    "beside the errors, growing batches": beside_errors(PickingRule(batch=2, growth=1.0), 2),
}
BROKEN = {
    "looks at the size": stated(PickingRule(), kind=LookingLearner),
    "ends at one error": ended_by_errors(1),
    "ends at two errors": ended_by_errors(2),
    "batch by size": batch_by_size,
    "best round unpaid": best_round_unpaid,
    "copies forgotten": copies_forgotten,
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", SOUND)
def test_every_option_keeps_both_promises_on_every_sample(name):
    assert sum(violations(SOUND[name], seed) for seed in range(LEARNERS)) == 0


@pytest.mark.few(3)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_caught(name):
    assert sum(violations(BROKEN[name], seed) for seed in range(LEARNERS)) > 0
