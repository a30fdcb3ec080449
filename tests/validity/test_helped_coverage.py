"""The best of all helper shares in a world of random labels, where every network errs on half of new data.

Each share has one word of 7 bits, so that all nine together fail with probability 9/128 of delta.
"""

import math
from functools import cache

import numpy as np
import pytest
import torch
from worlds.rates import exceeds

from codebound.bounds.numerics import binomial_inverse_upper
from codebound.certificate.claims import prior_and_rest
from codebound.methods.kernel_share import kernel_helper, linear_helper
from codebound.sample.dataset import Dataset

DELTA, REPS, N = 0.5, 200, 60
CODE_BITS = 7  # of the word of a share


def world(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 4)).astype(np.float32)
    return Dataset("coins", "train", x, rng.integers(0, 2, N), 2)


@cache
def errors_of(seed, tenths, maker, peeks):
    """Errors on the rest, and of how many."""
    sample = world(seed)
    first, rest = prior_and_rest(sample, tenths)
    network = maker(sample if peeks else first)
    with torch.no_grad():
        return int((network(torch.from_numpy(rest.x)).argmax(1).numpy() != rest.y).sum()), rest.n


def misses(*, bits, shares=range(1, 10), maker=linear_helper, reps=REPS, peeks=False):
    """Samples for which the smallest bound of all shares is below the truth."""
    level = math.log(DELTA) - bits * math.log(2.0)
    return sum(
        min(binomial_inverse_upper(*errors_of(seed, each, maker, peeks), level) for each in shares) < 0.5
        for seed in range(reps)
    )


def test_the_best_of_all_shares_is_paid_for_by_their_words():
    assert not exceeds(misses(bits=CODE_BITS), reps=REPS, delta=9 * DELTA / 128)


def test_without_their_bits_it_is_not():
    assert exceeds(misses(bits=0), reps=REPS, delta=DELTA)


@pytest.mark.thorough
def test_the_kernel_helper_holds_at_its_level_and_one_that_peeks_does_not():
    def count(peeks):
        return misses(bits=1, shares=(5,), maker=kernel_helper, reps=100, peeks=peeks)

    assert not exceeds(count(peeks=False), reps=100, delta=DELTA / 2)
    assert exceeds(count(peeks=True), reps=100, delta=DELTA / 2)
