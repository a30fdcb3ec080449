"""Networks drawn from sketches: the promise in a world of known risk, and a family of real sketches."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import optimize, special
from worlds import rates

from codebound.run.errors import UsageError
from codebound_networks.codes.modes import encode_tensors
from codebound_papers.guha23.sketch.codec import smallest_sketch
from codebound_papers.guha23.sketching import drawn_sketch_risk

N, RISK, DELTA, CLASS_BITS, REPS = 100, 0.3, 0.05, 12, 1000
exceeds = partial(rates.exceeds, reps=REPS, delta=DELTA)


def misses(*, charged_bits, drawn):
    """How often the bound on the luckiest networks of a class is below their risk."""
    errors = np.random.default_rng(0).binomial(N, RISK, size=(REPS, 2**CLASS_BITS))
    luckiest = np.sort(errors, axis=1)[:, :drawn].tolist()
    bits = [charged_bits] * drawn
    return sum(drawn_sketch_risk(each, code_bits=bits, n=N, delta=DELTA) < RISK for each in luckiest)


@pytest.mark.parametrize("drawn", [1, 16])
def test_the_bound_holds_at_its_level(drawn):
    assert not exceeds(misses(charged_bits=CLASS_BITS, drawn=drawn))


@pytest.mark.parametrize("drawn", [1, 4])
def test_the_level_has_teeth(drawn):
    assert exceeds(misses(charged_bits=0.0, drawn=drawn))


@pytest.fixture(scope="module")
def family():
    """A sparse matrix and seven like it, with one value changed; each comes back from its sketch."""
    matrix = np.zeros((24, 24), dtype=np.int64)
    matrix[np.arange(24), np.random.default_rng(1).permutation(24)] = 3
    codes = []
    for change in range(8):
        levels = matrix.copy()
        levels[tuple(np.argwhere(matrix)[0])] += change
        attempt = smallest_sketch(levels, step=0, m=18, seed=1)
        assert attempt.code is not None
        assert (attempt.code.matrix == levels).all()
        codes.append(attempt.code)
    return codes


def test_drawing_from_sketches_saves_the_logarithm_of_their_number(family):
    bits, n = [encode_tensors([code]).length for code in family], 20_000
    errors = [1000 + 3 * k for k in range(len(bits))]
    found = drawn_sketch_risk(errors, code_bits=bits, n=n)
    nats = np.mean(bits) * math.log(2.0) - math.log(8.0) + math.log(2.0 * math.sqrt(n) / 0.05)
    rate = np.mean(errors) / n

    def excess(p):
        return special.rel_entr(rate, p) + special.rel_entr(1 - rate, 1 - p) - nats / n

    assert found == pytest.approx(optimize.brentq(excess, rate, 1 - 1e-9), rel=1e-6)
    alone = drawn_sketch_risk([round(np.mean(errors))], code_bits=[float(np.mean(bits))], n=n)
    assert rate < found < alone


@pytest.mark.parametrize(
    ("errors", "bits", "n"),
    [([], [], 20), ([1], [1, 2], 20), ([1], [1], 7), ([1], [-1], 20), ([30], [1], 20)],
)
def test_what_is_no_family_is_refused(errors, bits, n):
    with pytest.raises(UsageError):
        drawn_sketch_risk(errors, code_bits=bits, n=n)
