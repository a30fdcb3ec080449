"""C-15 on a part of the data, with abstaining, and costs, in worlds of known risk; what is broken is caught.

Inputs are cells with a probability of the label 1 each. The learner votes among the picks of a cell and
abstains where few votes decide, so that everything about it is known exactly.
"""

from functools import cache, partial

import numpy as np
import pytest
from worlds import rates

from codebound.bounds.facts import HoldoutFacts, OccamFacts, PickedFacts
from codebound.bounds.held_out import holdout
from codebound.bounds.loss_bounds import kept_disagreement, part_disagreement, picked_abstaining, picked_cost
from codebound.bounds.occam import occam_binomial
from codebound.bounds.picked import picked_risk

N, CELLS, DELTA, REPS, FEW = 80, 12, 0.2, 600, 40
WORLDS = {
    "noisy": np.repeat([0.2, 0.8], CELLS // 2),
    "coins": np.full(CELLS, 0.5),
    "few ones": np.repeat([0.05, 0.4], CELLS // 2),
}


exceeds = partial(rates.exceeds, reps=REPS, delta=DELTA)


def votes(cells: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.bincount(cells, weights=2.0 * labels - 1.0, minlength=CELLS) + 0.25


def runs(world: np.ndarray, rounds: int):
    """Cells, labels, picks and the votes that were learned: in each round the two worst are picked."""
    rng = np.random.default_rng(0)
    for _ in range(REPS):
        cells = rng.integers(CELLS, size=N)
        labels = (rng.random(N) < world[cells]).astype(int)
        order = np.lexsort((labels, cells))
        cells, labels = cells[order], labels[order]
        picked = np.zeros(N, dtype=bool)
        for _ in range(rounds):
            margins = (2.0 * labels - 1.0) * votes(cells[picked], labels[picked])[cells]
            margins[picked] = np.inf
            picked[np.argsort(margins, kind="stable")[:2]] = True
        yield cells, labels, picked, votes(cells[picked], labels[picked])


def part_misses(world: np.ndarray, bound) -> int:
    """How often the bound on the errors on label 1 lies below their probability."""
    found = 0
    for cells, labels, picked, scores in runs(world, 10):
        is_one = labels == 1
        wrong = is_one & ~picked & (scores[cells] <= 0.0)
        risk = float(world[scores <= 0.0].sum() / world.sum())
        found += (
            bool(is_one.any())
            and bound(int((is_one & picked).sum()), int(wrong.sum()), int(is_one.sum())) < risk
        )
    return found


@cache
def honest(picks: int, errors: int, n: int) -> float:
    return picked_risk(PickedFacts(picks=picks, errors=errors, n=n, delta=DELTA)).value


def test_a_part_is_bounded_by_its_own_picks_errors_and_examples():
    for world in WORLDS.values():
        assert not exceeds(part_misses(world, honest))


@pytest.mark.parametrize(
    "broken",
    [lambda picks, errors, n: honest(0, errors, n), lambda picks, errors, n: honest(picks, errors, N)],
    ids=["picks not counted", "the whole sample"],
)
def test_a_part_without_its_picks_or_with_all_examples_is_caught(broken):
    assert any(exceeds(part_misses(world, broken)) for world in WORLDS.values())


def abstaining_misses(world: np.ndarray, bound) -> int:
    """How often one of the two limits lies below what it bounds; two votes too few are no answer."""
    found = 0
    for cells, labels, picked, scores in runs(world, 30):
        is_kept = np.abs(scores) > 1.0
        wrong = (scores[cells] > 0.0) != (labels == 1)
        errors = int((~picked & wrong & is_kept[cells]).sum())
        abstained = int((~picked & ~is_kept[cells]).sum())
        chance = np.where(scores > 0.0, 1.0 - world, world)
        risk = float(chance[is_kept].mean()) if is_kept.any() else 0.0
        limit, share = bound(int(picked.sum()), errors, abstained)
        found += limit < risk or share < 1.0 - is_kept.mean()
    return found


@cache
def pair(picks: int, errors: int, abstained: int) -> tuple[float, float]:
    return picked_abstaining(PickedFacts(picks=picks, errors=errors, n=N, delta=DELTA), abstained=abstained)


def as_if_drawn(picks: int, errors: int, abstained: int) -> tuple[float, float]:
    """Those that are kept as a test set of their own."""
    kept = N - picks - abstained
    if not kept:
        return 1.0, 1.0
    facts = OccamFacts(errors=errors, n=kept, code_bits=0, delta=DELTA / 2)
    return occam_binomial(facts).value, 1.0


@pytest.mark.thorough
def test_abstaining_after_picks_holds():
    for world in WORLDS.values():
        assert not exceeds(abstaining_misses(world, pair))


@pytest.mark.thorough
def test_the_kept_as_a_test_set_are_caught():
    assert any(exceeds(abstaining_misses(world, as_if_drawn)) for world in WORLDS.values())


def disagreement_misses(*, is_divided: bool) -> int:
    """A part of a tenth of the data, on which alone f differs from g, and is then wrong."""
    rng, share, apart, error = np.random.default_rng(1), 0.1, 0.3, 0.05
    found, n, fresh = 0, 400, 1500
    for _ in range(REPS):
        inside = int(rng.binomial(n, share))
        risk = OccamFacts(errors=int(rng.binomial(inside, error)), n=inside, code_bits=0, delta=DELTA / 2)
        gone = HoldoutFacts(errors=int(rng.binomial(fresh, share * apart)), n=fresh, delta=DELTA / 4)
        value, least = part_disagreement(risk=risk, disagreement=gone, examples=n)
        if not is_divided:
            value = occam_binomial(risk).value + (value - occam_binomial(risk).value) * least
        found += value < error + apart
    return found


@pytest.mark.thorough
def test_faults_of_f_on_a_part_hold():
    assert not exceeds(disagreement_misses(is_divided=True))


@pytest.mark.thorough
def test_disagreements_that_are_not_divided_by_the_share_are_caught():
    assert exceeds(disagreement_misses(is_divided=False))


def named_misses(choose) -> int:
    """Of many classes one is named; g is right, and f differs from it on half of every class."""
    rng, classes, n, fresh = np.random.default_rng(2), 400, 8_000_000, 10**9
    found = 0
    for _ in range(FEW):
        inside = int(choose(rng.multinomial(n, np.full(classes, 1.0 / classes))))
        risk = OccamFacts(errors=0, n=inside, code_bits=22, delta=DELTA / 2)
        gone = HoldoutFacts(errors=int(rng.binomial(fresh, 0.5 / classes)), n=fresh, delta=DELTA / 4)
        value, _ = part_disagreement(risk=risk, disagreement=gone, examples=n)
        found += value < 0.5
    return found


def test_a_part_that_was_named_beforehand_holds():
    assert not exceeds(named_misses(lambda counts: counts[0]), reps=FEW)


def test_a_part_that_was_named_after_a_look_is_caught():
    """The class that occurs too often: no bits pay for that, so certificates declare that nobody looked."""
    assert exceeds(named_misses(max), reps=FEW)


def cost_misses(world: np.ndarray, picks_of) -> int:
    """A false alarm costs 1, a missed one 5; how often the limit lies below the mean."""
    found = 0
    for cells, labels, picked, scores in runs(world, 10):
        missed = int((~picked & (labels == 1) & (scores[cells] <= 0.0)).sum())
        alarms = int((~picked & (labels == 0) & (scores[cells] > 0.0)).sum())
        mean = float(np.where(scores > 0.0, 1.0 - world, 5.0 * world).mean() / 5.0)
        found += cost_limit(picks_of(int(picked.sum())), missed + alarms, missed) < mean
    return found


@cache
def cost_limit(picks: int, *above: int) -> float:
    facts = PickedFacts(picks=picks, errors=0, n=N, delta=DELTA)
    return picked_cost(facts, above=above, costs=[1, 5])


def test_a_mean_cost_after_picks_holds():
    for world in WORLDS.values():
        assert not exceeds(cost_misses(world, lambda picks: picks))


def test_a_mean_cost_without_its_picks_is_caught():
    assert any(exceeds(cost_misses(world, lambda picks: 0)) for world in WORLDS.values())


KEEPS, ERRS, APART = 0.6, 0.1, 0.1
"""How often g answers, errs where it does, and f is apart from it."""
RIVALS = {  # what f does where it is apart: its error where it answers, and how often it abstains
    "wrong where g is right": (ERRS + APART / KEEPS, 1.0 - KEEPS),
    "wrong where g abstains": ((ERRS * KEEPS + APART) / (KEEPS + APART), 1.0 - KEEPS - APART),
    "silent where g is right": (ERRS * KEEPS / (KEEPS - APART), 1.0 - KEEPS + APART),
}


@cache
def quarter(errors: int, n: int) -> float:
    return occam_binomial(OccamFacts(errors=errors, n=n, code_bits=0, delta=DELTA / 4)).value


def kept_misses(rival: str, bound) -> int:
    """How often one of the two limits for f lies below what it bounds."""
    rng, n, fresh, found = np.random.default_rng(2), 800, 3000, 0
    for _ in range(REPS):
        kept = int(rng.binomial(n, KEEPS))
        counts = ((int(rng.binomial(kept, ERRS)), kept), (n - kept, n))
        error, silent = (quarter(*each) for each in counts)
        apart = HoldoutFacts(errors=int(rng.binomial(fresh, APART)), n=fresh, delta=DELTA / 2)
        limit, share = bound(error, silent, apart)
        found += limit < RIVALS[rival][0] or share < RIVALS[rival][1]
    return found


def through(error: float, silent: float, apart: HoldoutFacts) -> tuple[float, float]:
    return kept_disagreement(error, silent, disagreement=apart)


def undivided(error: float, silent: float, apart: HoldoutFacts) -> tuple[float, float]:
    return error + holdout(apart).value, 1.0


def of_g(error: float, silent: float, apart: HoldoutFacts) -> tuple[float, float]:
    """As if nothing but another prediction were a disagreement: then f is never apart in the last world."""
    return error, silent


@pytest.mark.few(2)
@pytest.mark.parametrize("rival", RIVALS)
def test_what_f_does_where_it_does_not_abstain_holds(rival):
    assert not exceeds(kept_misses(rival, through))


@pytest.mark.parametrize(
    ("rival", "broken"), [("wrong where g is right", undivided), ("silent where g is right", of_g)]
)
def test_disagreements_that_are_not_divided_or_not_seen_are_caught(rival, broken):
    assert exceeds(kept_misses(rival, broken))


@pytest.mark.parametrize("errors", [0, 7])
def test_where_g_may_abstain_from_everything_nothing_is_known(errors):
    apart = HoldoutFacts(errors=errors, n=100, delta=0.05)
    assert kept_disagreement(0.1, 1.0, disagreement=apart) == (None, 1.0)
