"""Losses on a part of the data, and tables, in worlds of known risk."""

from functools import partial

import numpy as np
import pytest
from worlds import rates

from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts
from codebound.sample.counting import Tally, terms_of

N, DELTA, REPS, CLASS_BITS = 300, 0.1, 1000, 5
SHARES = np.array([0.5, 0.3, 0.15, 0.05])  # of the classes
RISKS = np.array([0.1, 0.2, 0.3, 0.4])  # of an error on each


exceeds = partial(rates.exceeds, reps=REPS, delta=DELTA)


def drawn(seed: int = 0):
    """Examples of each class, and the fewest errors of many equally bad networks, on each class."""
    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(N, SHARES, size=REPS)
    errors = rng.binomial(sizes[:, None, :], RISKS, size=(REPS, 2**CLASS_BITS, len(SHARES)))
    return sizes, errors


def class_misses(*, bits: float, n_of) -> int:
    """The network that is luckiest on the second class."""
    sizes, errors = drawn()
    found = 0
    for size, each in zip(sizes, errors, strict=True):
        k, n = int(each[:, 1].min()), int(n_of(size))
        found += occam_binomial(OccamFacts(errors=k, n=n, code_bits=bits, delta=DELTA)).value < RISKS[1]
    return found


def test_errors_on_a_class_are_bounded_by_its_own_examples():
    assert not exceeds(class_misses(bits=CLASS_BITS, n_of=lambda size: size[1]))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("bits", "n_of"), [(CLASS_BITS, lambda size: size.sum()), (0.0, lambda size: size[1])], ids=["n", "bits"]
)
def test_the_whole_sample_in_place_of_the_class_or_no_bits_are_caught(bits, n_of):
    assert exceeds(class_misses(bits=bits, n_of=n_of))


def table_misses(*, share: float) -> int:
    sizes, errors = drawn(1)
    found = 0
    for size, each in zip(sizes, errors[:, 0], strict=True):
        counts = [(int(k), int(n)) for k, n in zip(each, size, strict=True)]
        limits = terms_of(
            "binomial", "each class", [Tally("a class", *each) for each in counts], bits=0
        ).limits(share)
        found += any(limit is not None and limit < risk for limit, risk in zip(limits, RISKS, strict=True))
    return found


@pytest.mark.thorough
def test_all_rows_hold_at_once():
    assert not exceeds(table_misses(share=DELTA))


@pytest.mark.thorough
def test_rows_that_do_not_share_are_caught():
    assert exceeds(table_misses(share=DELTA * len(SHARES)))
