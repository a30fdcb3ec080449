"""The published expressions of Arora and Shin at 40 digits, on random networks, by another route."""

import random

import pytest
from mpmath import e, erfc, exp, inf, log, mp, mpf, quad, sqrt

from codebound_papers.arora18.noise_stability import (
    convolutional_risk,
    fully_connected_risk,
    margin_numbers,
    noise_stability_bar,
)
from codebound_papers.arora18.truncation import spectral_margin_risk
from codebound_papers.facts import LayerFacts, NetworkFacts
from codebound_papers.framework import _scaled_erfc, dudley_integral


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(40):
        yield


def random_network(seed: int, *, conv: bool) -> NetworkFacts:
    draw = random.Random(seed)
    layers = []
    for i in range(draw.randint(1, 40)):
        spectral = 10 ** draw.uniform(-2, 9)
        layers.append(
            LayerFacts(
                name=str(i),
                rows=draw.randint(1, 4000),
                columns=draw.randint(1, 4000),
                frobenius=spectral * draw.uniform(1, 30),
                spectral=spectral,
                operator_norm=spectral,
                l2_1=1.0,
                l1_inf=1.0,
                variance=1.0,
                patch=draw.randint(1, 5) if conv and draw.random() < 0.5 else None,
                cushion=10 ** draw.uniform(-6, 0),
                interlayer_cushion=10 ** draw.uniform(-6, 0),
                contraction=draw.uniform(1, 5),
                spread=draw.uniform(1, 5),
            )
        )
    return NetworkFacts(
        layers=tuple(layers),
        examples=draw.randint(10, 10**6),
        classes=10,
        margin=10 ** draw.uniform(-3, 0),
        margin_loss=draw.random(),
        input_norm=10 ** draw.uniform(-2, 3),
        input_size=10,
        largest_output=10 ** draw.uniform(0, 3),
        delta=0.05,
        parameters=10**6,
    )


def total(facts: NetworkFacts, *, local: bool) -> mpf:
    """``sum c^2 beta^2 patch^2 / (mu^2 mu_{i->}^2)`` with the factors of each layer, or the largest ones."""
    last = len(facts.layers) - 1
    c = [mpf(x.contraction) if i < last else mpf(1) for i, x in enumerate(facts.layers)]
    beta = [mpf(x.spread) if i < last and x.patch else mpf(1) for i, x in enumerate(facts.layers)]
    if not local:
        c, beta = [max(c)] * len(c), [max(beta)] * len(beta)
    return sum(
        (a * b * (x.patch or 1) / (mpf(x.cushion) * mpf(x.interlayer_cushion))) ** 2
        for a, b, x in zip(c, beta, facts.layers, strict=True)
    )


def check(found: float, expected: mpf) -> None:
    assert found == pytest.approx(float(log(expected)), abs=1e-11, rel=1e-13)


@pytest.mark.parametrize("seed", range(20))
def test_noise_stability(seed):
    facts = random_network(seed, conv=False)
    d, n, h = facts.depth, facts.examples, facts.width
    ratio = (mpf(facts.largest_output) / mpf(facts.margin)) ** 2
    cushions = total(facts, local=False)
    check(fully_connected_risk(facts).log_value, facts.margin_loss + sqrt(d**2 * ratio * cushions / n))
    check(margin_numbers(facts).log_value, 144 * d**2 * log(mpf(n) * d * h / mpf(0.05)) * ratio * cushions)
    facts = random_network(seed, conv=True)
    ratio = (mpf(facts.largest_output) / mpf(facts.margin)) ** 2
    risk = facts.margin_loss + sqrt(facts.depth**2 * ratio * total(facts, local=False) / facts.examples)
    check(convolutional_risk(facts).log_value, risk)
    check(noise_stability_bar(facts).log_value, ratio * total(facts, local=True))


@pytest.mark.parametrize("seed", range(20))
def test_spectral_margin(seed):
    facts = random_network(seed, conv=False)
    product, ranks = mpf(1), mpf(0)
    for layer in facts.layers:
        product *= mpf(layer.spectral) ** 2
        ranks += (mpf(layer.frobenius) / mpf(layer.spectral)) ** 2
    x, gamma = mpf(facts.input_norm), mpf(facts.margin)
    capacity = facts.width * facts.depth**2 * x**2 * product * ranks / gamma**2
    check(spectral_margin_risk(facts).log_value, facts.margin_loss + sqrt(capacity / facts.examples))
    condition = next(each for each in spectral_margin_risk(facts).hypotheses if "gamma <=" in each.statement)
    assert condition.holds is bool(gamma <= e * x * sqrt(product))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("q", "log_kappa", "diameter"),
    [(1, 0, 1), (100, 5, 1), (10_520, 12.5, 1), (3, 0.2, 2.5), (1e6, 700, 1), (1e6, 9000, 0.5)],
)
def test_the_entropy_integral_against_quadrature(q, log_kappa, diameter):
    end = 2 * mpf(q) * exp(mpf(log_kappa))
    # u = sqrt(log(end/eps)) makes the integrand smooth down to eps = 0
    lower = sqrt(log(end / diameter))
    expected = quad(lambda u: sqrt(mpf(q)) * u * 2 * u * end * exp(-(u**2)), [lower, lower + 1, lower + 9])
    plain = quad(
        lambda eps: sqrt(q * log(end / eps)), [mpf(10) ** -k * diameter for k in (30, 9, 4, 2, 1, 0)]
    )
    assert float(abs(plain / expected - 1)) < 1e-6
    found = dudley_integral(q, log_kappa=log_kappa, diameter=diameter)
    assert found == pytest.approx(float(expected), rel=1e-11)


@pytest.mark.parametrize(("q", "log_kappa"), [(1, -2.0), (0.3, 0.1)])
def test_the_entropy_integral_ends_where_one_network_covers_all(q, log_kappa):
    end = 2 * mpf(q) * exp(mpf(log_kappa))
    assert end < 1
    expected = quad(lambda u: sqrt(mpf(q)) * 2 * u**2 * end * exp(-(u**2)), [0, 1, inf])
    assert dudley_integral(q, log_kappa=log_kappa) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("x", [0.0, 1e-9, 0.5, 3.0, 19.999, 20.0, 20.001, 26.0, 27.5, 1e3, 1e9])
def test_scaled_erfc(x):
    with mp.workdps(60):
        expected = exp(mpf(x) ** 2) * erfc(mpf(x)) if x < 1e4 else 1 / (mpf(x) * sqrt(mp.pi))
    assert _scaled_erfc(x) == pytest.approx(float(expected), rel=1e-12)
