"""C-15 in worlds of known risk, and how much goes wrong when something that counts is left out.

Inputs are cells 0 to 19; a cell has a probability of the label 1. The learner votes among the picks of a
cell, so that its risk is known exactly, and it can learn noise by heart if it is allowed to.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from worlds import rates

from codebound.bounds.held_out import picked_risk
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts, PickedFacts

N, CELLS, DELTA, REPS = 60, 20, 0.2, 1500
WORLDS = {
    "clean": np.repeat([0.0, 1.0], CELLS // 2),
    "noisy": np.repeat([0.2, 0.8], CELLS // 2),
    "coins": np.full(CELLS, 0.5),
    "one rare cell": np.append(np.zeros(CELLS - 1), 1.0),
}
Bound = Callable[[int, int, int], float]  # of picks, errors and the number of rules looked at


def votes(cells: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Votes for the label 1 in every cell, less those against it; it wins where there are none."""
    return np.bincount(cells, weights=2.0 * labels - 1.0, minlength=CELLS) + 0.25


def run_rule(cells: np.ndarray, labels: np.ndarray, *, rounds: int) -> tuple[int, int, np.ndarray]:
    """Picks, errors and predictions of the rule: in each round the two worst examples are picked."""
    picked = np.zeros(len(cells), dtype=bool)
    signs = 2.0 * labels - 1.0
    order = np.lexsort((labels, cells))  # by content
    cells, signs, labels = cells[order], signs[order], labels[order]
    for _ in range(rounds):
        margins = signs * votes(cells[picked], labels[picked])[cells]
        margins[picked] = np.inf
        picked[np.argsort(margins, kind="stable")[:2]] = True
    scores = votes(cells[picked], labels[picked])
    errors = int(np.sum(~picked & (signs * scores[cells] <= 0.0)))
    return int(picked.sum()), errors, scores > 0.0


def misses(world: np.ndarray, bound: Bound, *, choices: tuple[int, ...], seed: int = 0) -> int:
    """How often the bound lies below the risk, where the rounds with the smallest bound are taken."""
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(REPS):
        cells = rng.integers(CELLS, size=N)
        labels = (rng.random(N) < world[cells]).astype(int)
        runs = [run_rule(cells, labels, rounds=rounds) for rounds in choices]
        picks, errors, predicts_one = min(runs, key=lambda run: run[0] + run[1])
        risk = float(np.where(predicts_one, 1.0 - world, world).mean())
        found += bound(picks, errors, len(choices)) < risk
    return found


exceeds = partial(rates.exceeds, reps=REPS, delta=DELTA)


def honest(picks: int, errors: int, rules: int) -> float:
    facts = PickedFacts(picks=picks, errors=errors, n=N, code_bits=np.log2(rules), delta=DELTA)
    return picked_risk(facts).value


def free_picks(picks: int, errors: int, rules: int) -> float:
    return picked_risk(PickedFacts(picks=0, errors=errors, n=N, delta=DELTA)).value


def free_errors(picks: int, errors: int, rules: int) -> float:
    return picked_risk(PickedFacts(picks=picks, errors=0, n=N, delta=DELTA)).value


@pytest.mark.few(1)
@pytest.mark.parametrize("name", WORLDS)
def test_it_holds_with_every_choice_paid(name):
    assert not exceeds(misses(WORLDS[name], honest, choices=(1, 3, 6, 12)))


@pytest.mark.thorough
def test_picks_that_count_for_nothing_are_caught():
    assert exceeds(misses(WORLDS["coins"], free_picks, choices=(25,)))


@pytest.mark.thorough
def test_errors_that_count_for_nothing_are_caught():
    assert exceeds(misses(WORLDS["coins"], free_errors, choices=(1,)))


@pytest.mark.parametrize("bits", [6, 0])
def test_the_best_of_many_learners_is_paid_for_on_a_hold_out_set(bits):
    """64 networks that guess, of which the one with the fewest errors is taken: 6 bits."""
    rng, n, missed = np.random.default_rng(0), 60, 0
    for errors in rng.binomial(n, 0.5, size=(REPS, 64)).min(axis=1):
        facts = OccamFacts(errors=int(errors), n=n, code_bits=bits, delta=DELTA)
        missed += occam_binomial(facts).value < 0.5
    assert exceeds(missed) == (bits == 0)
