"""Errata of Guha, Dubey, Huo 2023 on their tables, at every width; tests/golden has the rest of G-E22."""

import math

import pytest

from codebound_papers.value import PublishedValue

EXAMPLES = 48_000  # a fifth of the 60 000 is for validation
WIDTHS = (500, 784, 1000, 1500, 2000, 2500)
NEYSHABUR17 = (17.91, 18.34, 18.70, 18.81, 21.50, 21.57)
BARTLETT = (11.51, 11.68, 11.87, 11.70, 13.96, 13.81)
OURS = (3.36, 3.77, 4.00, 4.40, 4.73, 4.96)


def test_g_e22_two_rows_differ_by_a_mean_fan_in_at_every_width():
    """It lies between the widths of the input and of the hidden layers, on a natural scale alone."""
    for width, neyshabur, bartlett in zip(WIDTHS, NEYSHABUR17, BARTLETT, strict=True):
        low, high = sorted((784, width))
        assert 0.99 * low <= math.exp(neyshabur - bartlett) <= 1.01 * high
        assert 10 ** (neyshabur - bartlett) > 1000 * high


def test_g_e22_like_for_like_bartlett_is_20_to_51_times_smaller():
    """As printed it is the other way round: e^7 times larger and more."""
    factors = []
    for ours, bartlett in zip(OURS, BARTLETT, strict=True):
        bar = PublishedValue(
            ref="I-17", name="bar", log_value=bartlett, unit="capacity", subject="f", sentence="A bar."
        )
        assert bar.log_value > ours + 7.0
        factors.append(math.exp(ours - bar.like_for_like(EXAMPLES).log_value))
    assert (min(factors), max(factors)) == pytest.approx((20, 51), abs=0.9)


def test_g_e22_on_cifar10_the_comparison_stands():
    like_for_like = (22.40 - math.log(40_000)) / 2.0
    assert like_for_like == pytest.approx(5.90, abs=0.01)
    assert math.exp(4.68 - like_for_like) == pytest.approx(0.295, abs=0.001)


def test_g_e22_the_true_errors():
    assert math.exp(-3.84) == pytest.approx(0.021, abs=5e-4)  # MNIST, width 784
    assert math.exp(-2.41) == pytest.approx(0.09, abs=5e-4)  # of a perceptron on CIFAR-10: hardly
