"""Sealed statements in worlds whose risks are known, and what is claimed where the page is not followed.

Each world gives, for every run, whether something false is claimed: as the ledger counts, or in a broken way.
"""

from functools import cache

import numpy as np
import pytest
from worlds import rates

from codebound.bounds.held_out import looked_risk
from codebound.bounds.risk import LookFacts
from codebound.holdout.ledger import seal_price

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


WORLDS = (
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
