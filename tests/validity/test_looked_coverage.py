"""C-16 against an adversary who builds networks from the answers, and what happens if he does not pay.

Labels are coins, so that every network errs on half of new data. The adversary knows the inputs of the test
set, tries networks, and puts together from the answers one that is right on far more than half of it.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from worlds import rates

from codebound.bounds.held_out import ladder_bits, looked_risk, sorted_answer_bits
from codebound.bounds.risk import LookFacts
from codebound.certificate.calculator import Counts, calculate

N, DELTA, RISK, REPS = 100, 0.1, 0.5, 300
Bound = Callable[[int, int, float], float]  # of the errors, the looks and the bits of the answers


exceeds = partial(rates.exceeds, reps=REPS, delta=DELTA)


def honest(errors: int, looks: int, bits: float) -> float:
    facts = LookFacts(errors=errors, n=N, delta=DELTA, looks=looks, answer_bits=bits)
    return looked_risk(facts).value


def as_if_fixed_beforehand(errors: int, looks: int, bits: float) -> float:
    return honest(errors, looks, 0.0)


def as_if_the_only_one(errors: int, looks: int, bits: float) -> float:
    return honest(errors, 1, 0.0)


def vote_attack(bound: Bound, rng: np.random.Generator, *, looks: int = 30) -> bool:
    """Exact answers: random networks vote, those that did worse than chance turned round."""
    labels = rng.integers(2, size=N)
    tried = rng.integers(2, size=(looks - 1, N))
    errors = (tried != labels).sum(axis=1)
    votes = ((2 * tried - 1) * np.sign(N / 2 - errors)[:, None]).sum(axis=0)
    last = int(((votes > 0) != labels).sum())
    return bound(last, looks, (looks - 1) * sorted_answer_bits(N, bins=2)) < RISK


def climbing_attack(bound: Bound, rng: np.random.Generator, *, looks: int = 150, step: int = 2) -> bool:
    """Answers by levels: change a few predictions of the best network, and keep what is better."""
    labels = rng.integers(2, size=N)
    levels, answers = list(range(N - 1, -1, -step)), []
    best, best_level, missed = rng.integers(2, size=N), N, False
    for _ in range(looks):
        tried = best.copy()
        tried[rng.integers(N, size=6)] ^= 1
        errors = int((tried != labels).sum())
        level = min((each for each in levels if errors <= each < best_level), default=None)
        if level is not None:
            missed |= bound(level, looks, ladder_bits(answers, levels)) < RISK
            best, best_level = tried, level
        answers.append(level)
    return missed


def passing_attack(bound: Bound, rng: np.random.Generator, *, looks: int = 400) -> bool:
    """One level: try until one passes."""
    labels = rng.integers(2, size=N)
    errors = (rng.integers(2, size=(looks, N)) != labels).sum(axis=1)
    first = int(np.argmax(errors <= 38))
    if errors[first] > 38:
        return False
    return bound(38, looks, ladder_bits([None] * first, [38])) < RISK


def misses(attack, bound: Bound, reps: int = REPS) -> int:
    rng = np.random.default_rng(0)
    return sum(attack(bound, rng) for _ in range(reps))


@pytest.mark.few(1)
@pytest.mark.parametrize("attack", [vote_attack, climbing_attack, passing_attack])
def test_paid_looks_hold_against_him(attack):
    assert not exceeds(misses(attack, honest))


@pytest.mark.slow
@pytest.mark.parametrize("attack", [vote_attack, climbing_attack, passing_attack])
def test_paid_looks_hold_at_full_size(attack):
    assert not rates.exceeds(misses(attack, honest, 10_000), reps=10_000, delta=DELTA, level=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("attack", [vote_attack, climbing_attack])
def test_answers_that_are_not_paid_are_caught(attack):
    assert exceeds(misses(attack, as_if_fixed_beforehand))


def led_by_answers(rng: np.random.Generator, *, is_fixed_before: bool) -> bool:
    """Nineteen guesses, and a majority vote by their numbers of errors, as the calculator bounds it."""
    n, looks = 397, 20
    labels = rng.integers(2, size=n)
    tried = rng.integers(2, size=(looks - 1, n))
    errors = (tried != labels).sum(axis=1)
    votes = ((2 * tried - 1) * (n / 2 - errors)[:, None]).sum(axis=0)
    last = int(((votes > 0) != labels).sum())
    counts = Counts(
        n=n, errors=last, delta=DELTA, is_holdout=True, looks=looks, is_fixed_before=is_fixed_before
    )
    return calculate(counts).forms[0].value < RISK


@pytest.mark.parametrize("is_fixed_before", [False, True])
def test_the_calculator_pays_for_the_answers_unless_it_is_told_that_none_was_used(is_fixed_before):
    rng = np.random.default_rng(0)
    found = sum(led_by_answers(rng, is_fixed_before=is_fixed_before) for _ in range(REPS))
    assert exceeds(found) is is_fixed_before


def test_a_choice_among_many_that_is_not_paid_is_caught():
    assert exceeds(misses(passing_attack, as_if_the_only_one))
