"""What a picking rule must promise, tried on every small sample; each way to break it is caught.

Samples are multisets of up to six examples of four types. A learner is an arbitrary function of the picks in
their order: nothing that holds for all of them can hold by luck. Two promises make C-15 true: throwing away
what was not kept changes nothing (preference), and an example on which g errs would be kept (phi >= risk).
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

import pytest

TYPES = range(4)
MOST = 6
LEARNERS = 40

Sample = tuple[int, ...]  # sorted: a multiset
Margin = Callable[[Sample, int], float]
Rule = Callable[[Sample, Margin], tuple[Sample, Sample]]  # what is kept, and the picks in their order


def learner(seed: int) -> Margin:
    """Margins in (-1, 1), each its own draw, that depend on the picks in their order and on one example."""

    @cache
    def margin(picks: Sample, example: int) -> float:
        return random.Random(f"{seed} {picks} {example}").uniform(-1.0, 1.0)

    return margin


def without(sample: Sample, part: Sample) -> Sample:
    """The sample less one copy for each example of the part."""
    return tuple(sorted((Counter(sample) - Counter(part)).elements()))


def together(*parts: Sample) -> Sample:
    return tuple(sorted(itertools.chain(*parts)))


def middle(margin: Margin, picks: Sample, example: int) -> float:
    """The score of the product: confidently wrong, but not hopeless, comes first."""
    return abs(margin(picks, example) + 0.4)


def wrong(rest: Sample, picks: Sample, margin: Margin) -> Sample:
    return tuple(example for example in rest if margin(picks, example) <= 0.0)


def pick(rest: Sample, picks: Sample, count: int, score: Callable[[Sample, int], float]) -> Sample:
    """The picks with those of the smallest score behind them; ties go by content."""
    return (*picks, *sorted(rest, key=lambda example: (score(picks, example), example))[:count])


def rounds(
    sample: Sample,
    margin: Margin,
    *,
    count: int = 2,
    batch: int = 1,
    score: Callable[[Margin, Sample, int], float] = middle,
) -> Iterator[Sample]:
    """The picks after each round, from the first example on."""
    picks = sample[:1]
    yield picks
    for _ in range(count):
        picks = pick(without(sample, picks), picks, batch, lambda done, example: score(margin, done, example))
        yield picks


def kept(sample: Sample, picks: Sample, margin: Margin) -> tuple[Sample, Sample]:
    return together(picks, wrong(without(sample, picks), picks, margin)), picks


def stated(sample: Sample, margin: Margin) -> tuple[Sample, Sample]:
    """A first example, two rounds of one pick, then whatever is still wrong."""
    if len(sample) < 3:
        return sample, sample
    *_, picks = rounds(sample, margin)
    return kept(sample, picks, margin)


def until_nothing_is_wrong(sample: Sample, margin: Margin) -> tuple[Sample, Sample]:
    """Worst first, for as long as anything is wrong."""
    picks = sample[:1]
    while wrong(without(sample, picks), picks, margin):
        picks = pick(without(sample, picks), picks, 1, margin)
    return kept(sample, picks, margin)


def stopped_by_the_picks(sample: Sample, margin: Margin) -> tuple[Sample, Sample]:
    """Rounds until the last pick says stop: a decision that looks at picks alone."""
    picks = sample[:1]
    while len(picks) < len(sample) and margin(picks, picks[-1]) < 0.3:
        picks = pick(without(sample, picks), picks, 1, lambda done, each: middle(margin, done, each))
    return kept(sample, picks, margin)


def score_that_sees_the_sample(sample: Sample, margin: Margin) -> tuple[Sample, Sample]:
    if len(sample) < 3:
        return sample, sample
    shift = 0.2 * len(sample)
    *_, picks = rounds(sample, margin, score=lambda m, done, each: abs(m(done, each) + shift - 0.8))
    return kept(sample, picks, margin)


def rounds_by_the_errors_left(sample: Sample, margin: Margin) -> tuple[Sample, Sample]:
    picks = sample[:1]
    while len(wrong(without(sample, picks), picks, margin)) > 1:
        picks = pick(without(sample, picks), picks, 1, margin)
    return kept(sample, picks, margin)


def stop_at_zero_with_a_middle_score(sample: Sample, margin: Margin) -> tuple[Sample, Sample]:
    picks = sample[:1]
    while wrong(without(sample, picks), picks, margin):
        picks = pick(without(sample, picks), picks, 1, lambda done, each: middle(margin, done, each))
    return kept(sample, picks, margin)


def batch_by_the_size(sample: Sample, margin: Margin) -> tuple[Sample, Sample]:
    batch = max(1, len(sample) // 3)
    if len(sample) < 1 + 2 * batch:
        return sample, sample
    *_, picks = rounds(sample, margin, batch=batch)
    return kept(sample, picks, margin)


def dropped_picks(sample: Sample, margin: Margin) -> tuple[Sample, Sample]:
    """Picks that the last network gets right by far are forgotten."""
    if len(sample) < 3:
        return sample, sample
    *_, picks = rounds(sample, margin)
    left = tuple(each for each in picks if margin(picks, each) < 0.5)
    return kept(sample, left, margin)


def copies_removed(sample: Sample, margin: Margin) -> tuple[Sample, Sample]:
    """What equals a pick is neither picked nor counted."""
    if len(sample) < 3:
        return sample, sample
    picks = sample[:1]
    for _ in range(2):
        rest = tuple(each for each in sample if each not in picks)
        picks = pick(rest, picks, 1, lambda done, each: middle(margin, done, each))
    rest = tuple(each for each in sample if each not in picks)
    return together(picks, wrong(rest, picks, margin)), picks


def best_round_uncoded(sample: Sample, margin: Margin) -> tuple[Sample, Sample]:
    if len(sample) < 3:
        return sample, sample
    return min(
        (kept(sample, picks, margin) for picks in rounds(sample, margin)), key=lambda each: len(each[0])
    )


SOUND = (stated, until_nothing_is_wrong, stopped_by_the_picks)
BROKEN = (
    score_that_sees_the_sample,
    rounds_by_the_errors_left,
    stop_at_zero_with_a_middle_score,
    batch_by_the_size,
    dropped_picks,
    copies_removed,
    best_round_uncoded,
)
SAMPLES = [
    sample for size in range(1, MOST + 1) for sample in itertools.combinations_with_replacement(TYPES, size)
]


def violations(rule: Rule, seed: int) -> int:
    """How often a rule breaks a promise, over all samples, with one learner."""
    margin = learner(seed)
    kept_of = cache(lambda sample: rule(sample, margin))
    found = 0
    for sample in SAMPLES:
        whole, picks = kept_of(sample)
        parts = {
            together(whole, part)
            for size in range(len(sample) - len(whole) + 1)
            for part in itertools.combinations(without(sample, whole), size)
        }
        found += sum(kept_of(part)[0] != whole for part in parts)  # preference
        if len(sample) < MOST:
            errs = [each for each in TYPES if margin(picks, each) <= 0.0]
            found += sum(kept_of(together(whole, (each,)))[0] == whole for each in errs)  # phi >= risk
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("rule", SOUND, ids=lambda rule: rule.__name__)
def test_a_sound_rule_keeps_both_promises_on_every_sample(rule):
    assert sum(violations(rule, seed) for seed in range(LEARNERS)) == 0


@pytest.mark.few(3)
@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_a_broken_rule_is_caught(rule):
    assert sum(violations(rule, seed) for seed in range(LEARNERS)) > 0
