"""Sealed statements in worlds whose risks are known, and what is claimed where the page is not followed.

Each world gives, for every run, whether something false is claimed: as the ledger counts, or in a broken way.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from worlds import rates

from codebound.bounds.held_out import looked_risk, sorted_answer_bits
from codebound.bounds.monitoring import Mixture
from codebound.bounds.risk import LookFacts
from codebound.holdout.alarms import Watch, WatchTerms
from codebound.holdout.ledger import Ledger, seal_price
from codebound.holdout.seals import Abstention
from codebound.holdout.statements import threshold_result

DELTA = 0.1
RUNS = [1_000, pytest.param(10_000, marks=pytest.mark.slow)]


@cache
def limit(errors: int, n: int, parts: int = 1, bits: float = 0.0) -> float:
    """The limit of a look whose delta is shared by so many, after answers of so many bits."""
    if not n:
        return 1.0
    facts = LookFacts(errors=errors, n=n, delta=DELTA, looks=parts, answer_bits=bits)
    return looked_risk(facts).value


def best_of_columns(rng: np.random.Generator, *, is_broken: bool) -> bool:
    """The best of eight planned columns; broken: as if it had been the only one."""
    errors = rng.binomial(300, 0.1, size=8)
    return min(limit(int(each), 300, 1 if is_broken else 8) for each in errors) < 0.1


def precision_of_a_class(rng: np.random.Generator, *, is_broken: bool) -> bool:
    """Wrong among what is predicted as a class; broken: among all rows."""
    predicted = rng.binomial(200, 0.3)
    wrong = rng.binomial(predicted, 0.2)
    return limit(int(wrong), 200 if is_broken else int(predicted)) < 0.2


def groups_at_once(rng: np.random.Generator, *, is_broken: bool) -> bool:
    """All rows, and six groups; broken: each at the full delta."""
    risks, shares = np.array([0.02, 0.05, 0.1, 0.1, 0.2, 0.4]), np.array([0.4, 0.2, 0.1, 0.1, 0.1, 0.1])
    sizes = rng.multinomial(400, shares)
    errors = rng.binomial(sizes, risks)
    found = limit(int(errors.sum()), 400, 1 if is_broken else 2) < float(risks @ shares)
    for size, wrong, risk in zip(sizes.tolist(), errors.tolist(), risks, strict=True):
        found |= limit(wrong, size, 1 if is_broken else 12) < risk
    return bool(found)


def any_row_of_a_cluster(rng: np.random.Generator, *, is_broken: bool) -> bool:
    """Clusters of copies, a tenth of them lost; broken: their rows count as draws."""
    sizes, lost = rng.integers(1, 40, size=60), rng.random(60) < 0.1
    if is_broken:
        return limit(int(sizes[lost].sum()), int(sizes.sum())) < 0.1
    return limit(int(lost.sum()), 60) < 0.1


def one_row_of_a_cluster(rng: np.random.Generator, *, is_broken: bool) -> bool:
    """One random row of each cluster, lost with its own rate; broken: the row that is right is taken."""
    rates_of_clusters = np.where(rng.random(80) < 0.3, 0.5, 0.05)
    rows = rng.random((80, 3)) < rates_of_clusters[:, None]
    lost = rows.all(axis=1) if is_broken else rows[:, 0]
    return limit(int(lost.sum()), 80) < 0.3 * 0.5 + 0.7 * 0.05


def answers_alike(rng: np.random.Generator, *, is_broken: bool) -> bool:
    """A compressed classifier on fresh inputs; broken: the one of ten that agrees best on these inputs."""
    differ = rng.binomial(300, 0.08, size=10)
    return limit(int(differ.min() if is_broken else differ[0]), 300) < 0.08


def sizes_of_groups(rng: np.random.Generator, *, is_broken: bool) -> bool:
    """A column that was made from the sizes in the seal: wrong on the smaller half of the groups.

    Each of twelve groups is as likely as another, so it is wrong on half of new rows. Broken: not paid.
    """
    n = 200
    sizes = rng.multinomial(n, np.full(12, 1 / 12))
    seal = {"n": n, "rows": n, "inputs": None, "clusters": None, "groups": {"sizes": sizes}}
    errors = int(np.sort(sizes)[:6].sum())
    return limit(errors, n, 2, 0.0 if is_broken else seal_price(seal)) < 0.5


def looks_without_an_end(rng: np.random.Generator, *, is_broken: bool) -> bool:
    """Coins guessed eight times, then a vote by what was heard; broken: each look as if it were the first."""
    n, labels = 100, rng.integers(2, size=100)
    tried = rng.integers(2, size=(8, n))
    errors = (tried != labels).sum(axis=1)
    votes = ((2 * tried - 1) * (n / 2 - errors)[:, None]).sum(axis=0)
    found = False
    for number, wrong in enumerate([*errors.tolist(), int(((votes > 0) != labels).sum())], start=1):
        bits = (number - 1) * sorted_answer_bits(n, bins=2)
        told = {"number": 1} if is_broken else {"number": number, "answer_bits": bits}
        facts = LookFacts(errors=wrong, n=n, delta=DELTA, looks=None, **told)
        found |= looked_risk(facts).value < 0.5
    return found


def choice_of_a_threshold(rng: np.random.Generator, *, is_broken: bool) -> bool:
    """Any of three thresholds, all too risky by a hair, and its share; broken: each at the full delta."""
    rows = rng.multinomial(2000, [0.02, 0.08, 0.4, 0.5])[:3]
    answered, wrong = np.cumsum(rows).tolist(), np.cumsum(rng.binomial(rows, 0.1001)).tolist()
    if is_broken:
        return any(limit(*counts) <= 0.1 for counts in zip(wrong, answered, strict=True))
    how = Abstention(column="a", scores="s", risk=0.1, thresholds=(0.9, 0.8, 0.7), rule="choice")
    level = LookFacts(errors=0, n=1, delta=DELTA)
    return threshold_result(answered, wrong, 2000, level, how)["chosen"] is not None


def share_that_is_answered(rng: np.random.Generator, *, is_broken: bool) -> bool:
    """The share at the threshold chosen, which is any of three; broken: the share that was seen."""
    shares = np.array([0.1, 0.2, 0.2])
    rows = rng.multinomial(400, [*shares, 0.5])[:3]
    answered, wrong = np.cumsum(rows).tolist(), np.cumsum(rng.binomial(rows, [0.0, 0.03, 0.06])).tolist()
    how = Abstention(column="a", scores="s", risk=0.1, thresholds=(0.9, 0.8, 0.7), rule="choice")
    found = threshold_result(answered, wrong, 400, LookFacts(errors=0, n=1, delta=DELTA), how)
    if (at := found["chosen"]) is None:
        return False
    return (answered[at] / 400 if is_broken else found["share"]) > float(shares[: at + 1].sum())


TERMS = WatchTerms(bound=0.1, alpha=DELTA, group="site", groups=("a", "b", "c", "d"))


def watch_of_groups(rng: np.random.Generator, *, is_broken: bool) -> bool:
    """A stream whose error is the bound in each of four groups; broken: each alarm has all of alpha."""
    outcomes, groups = rng.random(1000) < 0.1, rng.integers(4, size=1000)
    watch = Watch(Path("none"), Ledger(Path("none")).with_line(TERMS.record("stream")))
    alarms = [watch.overall, *watch.groups.values()]
    if is_broken:
        alarms = [Mixture(bound=0.1, alpha=DELTA) for _ in alarms]
    for number, alarm in enumerate(alarms):
        alarm.update(outcomes[groups == number - 1] if number else outcomes)
    return any(alarm.alarm_at is not None for alarm in alarms)


WORLDS = (
    looks_without_an_end,
    choice_of_a_threshold,
    share_that_is_answered,
    watch_of_groups,
    best_of_columns,
    precision_of_a_class,
    groups_at_once,
    any_row_of_a_cluster,
    one_row_of_a_cluster,
    answers_alike,
    sizes_of_groups,
)


def false_claims(world, runs: int, *, is_broken: bool) -> int:
    rng = np.random.default_rng(1)
    return sum(world(rng, is_broken=is_broken) for _ in range(runs))


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("world", WORLDS, ids=lambda each: each.__name__)
def test_it_holds(world, runs):
    assert not rates.exceeds(false_claims(world, runs, is_broken=False), reps=runs, delta=DELTA, level=1e-6)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("world", WORLDS, ids=lambda each: each.__name__)
def test_it_has_teeth(world, runs):
    assert rates.exceeds(false_claims(world, runs, is_broken=True), reps=runs, delta=DELTA, level=1e-6)
