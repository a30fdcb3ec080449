"""Groups, clusters, predictions of a class and answers alike, in worlds of known risk."""

import numpy as np
import pytest
from scipy.stats import beta
from worlds import rates

from codebound.bounds.held_out import holdout
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import HoldoutFacts, OccamFacts
from codebound.sample.counting import Tally, terms_of

DELTA = 0.05
SIZES = [700, pytest.param(10_000, marks=pytest.mark.slow)]


def exceeds(count: int, runs: int) -> bool:
    return rates.exceeds(count, reps=runs, delta=DELTA, level=1e-6)


def limit(errors: int, n: int, delta: float = DELTA) -> float:
    return holdout(HoldoutFacts(errors=errors, n=n, delta=delta)).value


def at_whole_delta(errors: int, n: int) -> float:
    return float(beta.isf(DELTA, errors + 1, n - errors)) if errors < n else 1.0


SHARES = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.03, 0.02])
RISKS = np.array([0.05, 0.3, 0.1, 0.2, 0.02, 0.5, 0.1])


def groups_missed(runs: int, limits_of, n: int = 400) -> int:
    rng = np.random.default_rng(0)
    found = 0
    for sizes in rng.multinomial(n, SHARES, size=runs):
        errors = rng.binomial(sizes, RISKS)
        overall, groups = limits_of(errors, sizes)
        missed = [limit is not None and limit < risk for limit, risk in zip(groups, RISKS, strict=True)]
        found += any(missed) or overall < float(SHARES @ RISKS)
    return found


def shared(errors, sizes):
    counts = [(int(k), int(n)) for k, n in zip(errors, sizes, strict=True)]
    whole = limit(int(errors.sum()), int(sizes.sum()), DELTA / 2)
    return whole, terms_of(
        "binomial", "each class", [Tally("a class", *each) for each in counts], bits=0
    ).limits(DELTA / 2)


def not_shared(errors, sizes):
    groups = [at_whole_delta(k, n) if n else None for k, n in zip(errors, sizes, strict=True)]
    return 1.0, groups


@pytest.mark.parametrize("runs", SIZES)
def test_all_groups_and_the_whole_hold_at_once(runs):
    assert not exceeds(groups_missed(runs, shared), runs)


def test_groups_that_do_not_share_are_caught():
    assert exceeds(groups_missed(700, not_shared), 700)


def test_a_group_that_is_formed_by_its_errors_is_caught():
    """Of 40 groups that err equally, the one that looks best."""
    rng = np.random.default_rng(1)
    errors = rng.binomial(30, 0.2, size=(2000, 40)).min(axis=1)
    missed = sum(shared(np.array([k]), np.array([30]))[1][0] < 0.2 for k in errors)
    assert exceeds(missed, 2000)


# One cluster of ten has 30 rows, half of them wrong; the others have one row that is right.
LARGE, ROWS, WRONG, CLUSTERS = 0.1, 30, 0.5, 150


def clusters_drawn(runs: int):
    """For each run: large clusters, those with a row wrong, those whose one row is wrong, and wrong rows."""
    rng = np.random.default_rng(2)
    large = rng.binomial(CLUSTERS, LARGE, size=runs)
    for count in large:
        # rows of a cluster are alike: in half of the clusters nearly all are wrong
        inclined = rng.choice([0.05, 0.95], size=count)
        wrong = rng.binomial(ROWS, inclined)
        picked = rng.random(count) < wrong / ROWS
        yield count, int((wrong > 0).sum()), int(picked.sum()), int(wrong.sum())


ANY = LARGE * (1.0 - 0.5 * (0.95**ROWS + 0.05**ROWS))
ONE = LARGE * WRONG
PER_ROW = LARGE * ROWS * WRONG / (LARGE * ROWS + 1.0 - LARGE)


@pytest.mark.parametrize("runs", SIZES)
@pytest.mark.parametrize("claim", ["any", "row"])
def test_a_new_cluster_is_lost_no_more_often_than_claimed(claim, runs):
    lost = [each[1] if claim == "any" else each[2] for each in clusters_drawn(runs)]
    truth = ANY if claim == "any" else ONE
    assert not exceeds(sum(limit(k, CLUSTERS) < truth for k in lost), runs)


def test_rows_of_clusters_counted_as_independent_are_caught():
    missed = sum(
        at_whole_delta(wrong, count * ROWS + CLUSTERS - count) < PER_ROW
        for count, _, _, wrong in clusters_drawn(2000)
    )
    assert exceeds(missed, 2000)


def test_a_limit_for_one_row_of_a_cluster_says_nothing_per_row():
    limits = [limit(each[2], CLUSTERS) for each in clusters_drawn(300)]
    assert np.mean(np.array(limits) < PER_ROW) > 0.99


def predictions(runs: int, n: int = 300):
    """Rows predicted as the class, and errors among them: of three in ten, one in five is wrong."""
    rng = np.random.default_rng(3)
    predicted = rng.binomial(n, 0.3, size=runs)
    return zip(map(int, rng.binomial(predicted, 0.2)), map(int, predicted), strict=True)


@pytest.mark.parametrize("runs", SIZES)
def test_precision_is_bounded_by_what_was_predicted(runs):
    facts = [OccamFacts(errors=k, n=m, code_bits=0, delta=DELTA) for k, m in predictions(runs)]
    missed = sum(occam_binomial(each).value < 0.2 for each in facts)
    assert not exceeds(missed, runs)


def test_all_rows_in_place_of_those_predicted_are_caught():
    assert exceeds(sum(at_whole_delta(k, 300) < 0.2 for k, _ in predictions(2000)), 2000)


@pytest.mark.parametrize("runs", SIZES)
def test_answers_alike_are_bounded_on_fresh_inputs(runs):
    apart = np.random.default_rng(6).binomial(500, 0.03, size=runs)
    missed = sum(limit(int(k), 500) < 0.03 for k in apart)
    assert not exceeds(missed, runs)


def test_inputs_on_which_it_was_chosen_are_caught():
    apart = np.random.default_rng(6).binomial(500, 0.03, size=(2000, 20)).min(axis=1)
    missed = sum(limit(int(k), 500) < 0.03 for k in apart)
    assert exceeds(missed, 2000)
