"""The promise itself, in worlds with known risk; each check must fail on a deliberately broken bound.

The world of the Occam checks is the worst one for a code of b bits: 2**b equally bad networks with
independent errors, of which the luckiest one is certified.
"""

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest
from worlds import rates

from codebound.bounds.held_out import holdout
from codebound.bounds.occam import occam_binomial, occam_hoeffding, occam_kl
from codebound.bounds.original import grid_theta, occam_domain, occam_margin, through_disagreement
from codebound.bounds.risk import HoldoutFacts, OccamFacts

N, RISK, DELTA, CLASS_BITS, REPS = 200, 0.3, 0.05, 8, 4000


exceeds = partial(rates.exceeds, reps=REPS, delta=DELTA)


def luckiest_errors(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.binomial(N, RISK, size=(REPS, 2**CLASS_BITS)).min(axis=1)


def misses(bound_of: Callable[[int], float], errors: np.ndarray, risk: float = RISK) -> int:
    """How often the certified value lies below the true risk."""
    table = cache(bound_of)
    return sum(table(int(k)) < risk for k in errors)


def occam(form, *, charged_bits: float, forgiven: int = 0) -> Callable[[int], float]:
    def value(errors: int) -> float:
        counted = max(0, errors - forgiven)
        return form(OccamFacts(errors=counted, n=N, code_bits=charged_bits, delta=DELTA)).value

    return value


@pytest.mark.parametrize("form", [occam_binomial, occam_kl, occam_hoeffding])
def test_occam_holds_at_the_claimed_level(form):
    assert not exceeds(misses(occam(form, charged_bits=CLASS_BITS), luckiest_errors(0)))


def test_the_exact_form_is_nearly_tight_so_the_check_is_sharp():
    rate = misses(occam(occam_binomial, charged_bits=CLASS_BITS), luckiest_errors(0)) / REPS
    assert rate > DELTA / 4


@pytest.mark.parametrize("form", [occam_binomial, occam_kl, occam_hoeffding])
def test_charging_no_bits_is_caught(form):
    assert exceeds(misses(occam(form, charged_bits=0), luckiest_errors(0)))


def test_dropping_a_few_errors_is_caught():
    assert exceeds(misses(occam(occam_binomial, charged_bits=CLASS_BITS, forgiven=3), luckiest_errors(0)))


def test_hoeffding_with_the_wrong_constant_is_caught():
    def broken(errors: int) -> float:
        nats = CLASS_BITS * math.log(2.0) - math.log(DELTA)
        return errors / N + math.sqrt(nats / (8.0 * N))

    assert exceeds(misses(broken, luckiest_errors(0)))


def fresh(n: int, risk: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).binomial(n, risk, size=100_000)


def clopper_pearson(n: int, forgiven: int = 0) -> Callable[[int], float]:
    def value(errors: int) -> float:
        return holdout(HoldoutFacts(errors=max(0, errors - forgiven), n=n, delta=DELTA)).value

    return value


@pytest.mark.parametrize(("n", "risk"), [(30, 0.1), (50, 0.5), (200, 0.01), (20, 0.95)])
def test_the_holdout_bound_holds(n, risk):
    assert not exceeds(misses(clopper_pearson(n), fresh(n, risk, 1), risk), reps=100_000)


def test_an_off_by_one_in_the_error_count_is_caught():
    # 30 examples at risk 0.1: P(Bin <= 0) = 0.042, P(Bin <= 1) = 0.18, so one error too few must show
    assert exceeds(misses(clopper_pearson(30, forgiven=1), fresh(30, 0.1, 1), 0.1), reps=100_000)


def margin_world(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Margins of f, and of a g whose scores moved by at most 1 in each class in the worst direction."""
    rng = np.random.default_rng(seed)
    f = rng.normal(1.5, 1.0, size=(REPS, N))
    return f, f - 2.0


def margin_misses(theta: float) -> int:
    f, g = margin_world(2)
    risk = normal_cdf(0.5)  # the margin of g is normal with mean -0.5
    counted = (f <= theta).sum(axis=1)
    assert theta < 2.0 or ((g <= 0).sum(axis=1) <= counted).all()

    def value(errors: int) -> float:
        facts = OccamFacts(errors=errors, n=N, code_bits=0, delta=DELTA)
        return occam_margin(facts).value

    return misses(value, counted, risk)


def normal_cdf(z: float) -> float:
    return 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))


def test_the_margin_route_holds_with_twice_the_deviation():
    assert not exceeds(margin_misses(theta=2.0))


def test_the_margin_route_with_the_slack_of_the_papers_is_caught():
    assert exceeds(margin_misses(theta=1.0))


def domain_misses(*, counted_below: float) -> int:
    """f has the margins of g less 1 everywhere: the most that a deviation of 1 / sqrt(2) allows."""
    g = np.random.default_rng(5).normal(1.5, 1.0, size=(REPS, N))
    risk = normal_cdf(-0.5)  # the margin of f is normal with mean 0.5
    assert grid_theta(0).value == 1.0

    def value(errors: int) -> float:
        at_theta = OccamFacts(errors=errors, n=N, code_bits=0, delta=DELTA)
        return occam_domain(at_theta, theta_index=0).value

    return misses(value, (g <= counted_below).sum(axis=1), risk)


def test_the_domain_bound_holds_for_the_original_network():
    assert not exceeds(domain_misses(counted_below=1.0))


def test_counting_the_plain_errors_of_the_decoded_network_is_caught():
    assert exceeds(domain_misses(counted_below=0.0))


def split_misses(*, count_everything: bool) -> int:
    """The helper is the best of 256 networks on the first half: a choice that costs no bits there."""
    rng = np.random.default_rng(3)
    first = rng.binomial(N, RISK, size=(REPS, 256))
    best_first = first.min(axis=1)
    second = rng.binomial(N, RISK, size=REPS)
    errors, n = (best_first + second, 2 * N) if count_everything else (second, N)

    def value(k: int) -> float:
        return occam_binomial(OccamFacts(errors=k, n=n, code_bits=0, delta=DELTA)).value

    return misses(value, errors)


def test_the_split_bound_holds_on_the_second_part():
    assert not exceeds(split_misses(count_everything=False))


def test_counting_the_first_part_too_is_caught():
    assert exceeds(split_misses(count_everything=True))


def disagreement_misses(*, use_limit: bool) -> int:
    """g and f differ on 2 % of the inputs, and f errs on all of those: R(f) = R(g) + 0.02."""
    rng = np.random.default_rng(4)
    risk_g, apart, n_unlabelled = 0.1, 0.02, 100
    errors = rng.binomial(N, risk_g, size=REPS)
    differ = rng.binomial(n_unlabelled, apart, size=REPS)

    @cache
    def value(k: int, u: int) -> float:
        if not use_limit:
            return k / N + u / n_unlabelled
        risk = OccamFacts(errors=k, n=N, code_bits=0, delta=DELTA / 2)
        other = HoldoutFacts(errors=u, n=n_unlabelled, delta=DELTA / 2)
        return through_disagreement(occam_binomial(risk).value, other)

    return sum(value(int(k), int(u)) < risk_g + apart for k, u in zip(errors, differ, strict=True))


def test_the_disagreement_bound_holds():
    assert not exceeds(disagreement_misses(use_limit=True))


def test_rates_in_place_of_limits_are_caught():
    assert exceeds(disagreement_misses(use_limit=False))


@pytest.mark.slow
@pytest.mark.parametrize("form", [occam_binomial, occam_kl, occam_hoeffding])
@pytest.mark.parametrize("seed", range(5))
def test_occam_holds_at_full_size(form, seed):
    """Twelve bits, 20,000 worlds."""
    rng = np.random.default_rng(100 + seed)
    luckiest = np.concatenate([rng.binomial(N, RISK, size=(1000, 2**12)).min(axis=1) for _ in range(20)])
    count = misses(occam(form, charged_bits=12), luckiest)
    assert not exceeds(count, reps=len(luckiest))
