"""C-21 where every threshold is a little too risky: what is claimed, and what other ways would claim."""

from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import beta
from worlds import rates

from codebound.bounds.selective import SelectiveFacts, choose_threshold, choose_with_share

RISK, DELTA = 0.1, 0.05
SIZES = [700, pytest.param(20_000, marks=pytest.mark.slow)]
WORLDS = {  # rows expected at each step of the thresholds, and the risk of these rows
    "all a little too risky": ([60, 60, 120, 240, 480, 960], [0.1001] * 6),
    "steps far apart": ([2000, 8000, 40_000], [0.1001, 0.1001, 0.1001]),
    "the first two are safe": ([120, 200, 100, 300], [0.02, 0.03, 0.45, 0.12]),
    "the first is not": ([60, 200, 400], [0.12, 0.1, 0.09]),
}


def drawn(world: str, runs: int):
    """Rows and errors up to each threshold, and the true risks there."""
    sizes, risks = map(np.array, WORLDS[world])
    n = int(sizes.sum() * 1.25)
    rng = np.random.default_rng(5)
    shares = np.append(sizes / n, 1.0 - sizes.sum() / n)
    rows = rng.multinomial(n, shares, size=runs)[:, :-1]
    errors = rng.binomial(rows, risks)
    true = np.cumsum(sizes * risks) / np.cumsum(sizes)
    return np.cumsum(rows, axis=1), np.cumsum(errors, axis=1), true, np.cumsum(shares[:-1]), n


def exceeds(count: int, runs: int, delta: float = DELTA) -> bool:
    return rates.exceeds(count, reps=runs, delta=delta, level=1e-6)


def facts(answered, wrong, n) -> SelectiveFacts:
    counts = {"answered": tuple(map(int, answered)), "wrong": tuple(map(int, wrong))}
    return SelectiveFacts(**counts, n=n, risk=RISK, delta=DELTA)


def false_claims(world: str, runs: int, choose) -> int:
    answered, wrong, true, _, n = drawn(world, runs)
    found = 0
    for each in zip(answered, wrong, strict=True):
        index = choose(facts(*each, n))
        found += index is not None and bool((true[: index + 1] > RISK).any())
    return found


def by_sequence(each: SelectiveFacts) -> int | None:
    return choose_threshold(each).index


@lru_cache(None)
def limit(wrong: int, answered: int, delta: float) -> float:
    return float(beta.isf(delta, wrong + 1, answered - wrong)) if wrong < answered else 1.0


def last_below(each: SelectiveFacts, delta: float) -> int | None:
    """The last of all thresholds whose own limit is below the risk."""
    pairs = zip(each.wrong, each.answered, strict=True)
    below = [index for index, pair in enumerate(pairs) if limit(*pair, delta) <= each.risk]
    return below[-1] if below else None


def best_of_all(each: SelectiveFacts) -> int | None:
    return last_below(each, each.delta)


def paid_or_sequence(each: SelectiveFacts) -> int | None:
    """The better of two choices, each of which is valid by itself."""
    paid = last_below(each, each.delta / len(each.wrong))
    return max((index for index in (by_sequence(each), paid) if index is not None), default=None)


@pytest.mark.parametrize("runs", SIZES)
@pytest.mark.parametrize("world", WORLDS)
def test_a_threshold_that_is_too_risky_is_hardly_ever_claimed(world, runs):
    assert not exceeds(false_claims(world, runs, by_sequence), runs)


def test_the_best_of_all_is_caught():
    assert exceeds(false_claims("all a little too risky", 1000, best_of_all), 1000)


@pytest.mark.slow
def test_the_better_of_two_valid_choices_is_caught():
    assert exceeds(false_claims("steps far apart", 20_000, paid_or_sequence), 20_000)


def both_wrong(world: str, runs: int, share_of) -> int:
    answered, wrong, true, shares, n = drawn(world, runs)
    found = 0
    for each in zip(answered, wrong, strict=True):
        choice = choose_with_share(facts(*each, n))
        if choice.index is not None:
            too_risky = bool((true[: choice.index + 1] > RISK).any())
            found += too_risky or share_of(choice, each[0], n) > shares[choice.index]
    return found


def claimed(choice, answered, n) -> float:
    return choice.share_limit


def seen(choice, answered, n) -> float:
    return answered[choice.index] / n


@pytest.mark.parametrize("runs", SIZES)
@pytest.mark.parametrize("world", WORLDS)
def test_risk_and_share_hold_together(world, runs):
    assert not exceeds(both_wrong(world, runs, claimed), runs)


def test_the_share_that_was_seen_is_caught():
    assert exceeds(both_wrong("the first two are safe", 500, seen), 500)
