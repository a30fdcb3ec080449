"""What a bit is worth, beside the bound itself."""

import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bounds.numerics import kl_inverse_upper
from codebound.bounds.risk import OccamFacts
from codebound_networks.methods.subspace_networks import best_polished, errors_per_bit


def bound(errors: float, n: int, bits: float) -> float:
    return kl_inverse_upper(errors / n, (bits * math.log(2.0) + math.log(20.0)) / n)


@pytest.mark.parametrize(("errors", "bits"), [(300, 1500), (900, 2000), (8000, 2500), (15_000, 6000)])
def test_a_bit_and_its_errors_move_the_bound_alike(errors, bits):
    n = 60_000
    price = errors_per_bit(OccamFacts(errors=errors, n=n, code_bits=bits, delta=0.05))
    by_a_bit = bound(errors, n, bits + 1) - bound(errors, n, bits - 1)
    by_an_error = bound(errors + 1, n, bits) - bound(errors - 1, n, bits)
    assert price == pytest.approx(by_a_bit / by_an_error, rel=0.01)


def test_what_the_datasets_of_the_results_have_shown():
    """About 0.5 errors a bit for MNIST, 1.2 for Fashion-MNIST, 0.8 for CIFAR-10, a third for digits."""
    for errors, n, bits, expected in (
        (900, 60_000, 2000, 0.5),
        (8400, 60_000, 2000, 1.2),
        (15_100, 50_000, 6700, 0.8),
        (90, 1797, 450, 0.35),
    ):
        found = errors_per_bit(OccamFacts(errors=errors, n=n, code_bits=bits, delta=0.05))
        assert found == pytest.approx(expected, abs=0.1)


@given(st.integers(1, 10**6), st.floats(0.0, 1.0), st.integers(1, 10**7), st.floats(1e-6, 0.5))
def test_it_is_a_positive_number_wherever_a_search_may_stand(n, share, bits, delta):
    price = errors_per_bit(OccamFacts(errors=round(share * n), n=n, code_bits=bits, delta=delta))
    assert 0.0 < price <= 7.0


class Trained(NamedTuple):
    """A candidate, and what is left of its bound after many counts."""

    bound: float
    limit: float


def test_the_best_few_are_polished_a_little_and_the_best_of_those_at_length():
    seen = []

    def polish(each: Trained, counts: int) -> Trained:
        seen.append((each.limit, counts))
        return Trained(max(each.limit, each.bound - 0.01 * counts), each.limit)

    start = [Trained(0.5, 0.0), Trained(0.4, 0.39), Trained(0.42, 0.1), Trained(0.41, 0.38)]
    assert best_polished(start, polish, few=10, many=100) == Trained(0.1, 0.1)
    assert seen == [(0.39, 10), (0.38, 10), (0.1, 10), (0.1, 100)]
