"""Errata of Arora et al. 2018 on the compression framework and on the reading of their figures."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from codebound.bounds.occam import choice_bits, occam_binomial, parameter_bits
from codebound.bounds.original import margin_for_deviation
from codebound.bounds.risk import OccamFacts
from codebound.sample.outputs import margins
from codebound_papers.arora18.projection_plan import epsilon_for_margin
from codebound_papers.measure.norms import frobenius_norm, l1_inf_norm
from codebound_papers.measure.outputs import MarginReport


def test_a_e1_scores_within_gamma_in_l2_do_not_keep_the_label():
    gamma = 1.0
    f, g = np.array([1.2, 0.0]), np.array([0.5, 0.7])
    assert np.linalg.norm(f - g) <= gamma < f[0] - f[1]
    assert g[0] < g[1]
    assert margin_for_deviation(gamma / math.sqrt(2), norm="l2") == pytest.approx(gamma)


@pytest.mark.parametrize("angle", np.linspace(0.0, 2.0 * math.pi, 25))
def test_a_e1_scores_within_gamma_over_the_root_of_two_do(angle):
    moved = np.array([math.cos(angle), math.sin(angle)]) / math.sqrt(2)
    g = np.array([1.0 + 1e-9, 0.0]) + moved  # margin just above gamma = 1
    assert g[0] > g[1]


def test_a_e3_a_constant_network_is_perfect_if_ties_are_no_errors():
    found = margins(torch.zeros(50, 10), torch.arange(50) % 10).numpy()
    assert (found < 0.0).mean() == 0.0  # with the strict inequality
    assert MarginReport(found).loss(0.0) == 1.0


def test_a_e22_the_first_bar_of_figure_2_depends_on_the_unit_of_the_scores():
    """Doubling the last layer doubles gamma: every bar with squares stays, the printed l_{1,inf} halves."""
    layers = [torch.randn(6, 6, generator=torch.Generator().manual_seed(i)) for i in range(3)]

    def bar(norm, power: int, scale: float) -> float:
        return math.prod(norm(layer) ** power for layer in (*layers[:2], scale * layers[2])) / scale**2

    assert bar(frobenius_norm, 2, 2.0) == pytest.approx(bar(frobenius_norm, 2, 1.0))
    assert bar(l1_inf_norm, 1, 2.0) == pytest.approx(bar(l1_inf_norm, 1, 1.0) / 2)
    assert bar(l1_inf_norm, 2, 2.0) == pytest.approx(bar(l1_inf_norm, 2, 1.0))


def test_a_e23_a_count_that_depends_on_the_sample_has_to_be_named():
    """Numbers of r levels, k of them, k chosen freely up to N: without naming k the prior mass is N + 1."""
    most, levels = 12, 5

    def mass(extra_bits: float) -> float:
        return sum(
            levels**k * 2.0 ** -(parameter_bits(k, levels=levels) + extra_bits) for k in range(most + 1)
        )

    assert mass(0.0) == pytest.approx(most + 1)
    assert mass(choice_bits(most + 1)) == pytest.approx(1.0)


def test_a_e25_a_seed_that_was_chosen_after_looking_has_to_be_paid():
    """256 seeds give networks of risk 0.3 with independent errors; the luckiest one is certified."""
    n, risk, delta, seeds = 200, 0.3, 0.05, 256

    def failure(code_bits: float) -> float:
        def is_wrong(errors: int) -> bool:
            facts = OccamFacts(errors=errors, n=n, code_bits=code_bits, delta=delta)
            return occam_binomial(facts).value < risk

        most = max(errors for errors in range(n) if is_wrong(errors))
        return 1.0 - (1.0 - binom.cdf(most, n, risk)) ** seeds

    assert failure(0.0) > 0.99
    assert failure(choice_bits(seeds)) <= delta


def test_a_e2_with_the_printed_sign_there_is_no_probability():
    """q parameters with r values each, at a deviation of sqrt(q ln r / m): the union bound leaves r^-q."""
    q, r, m = 3, 4, 100
    deviation = math.sqrt(q * math.log(r) / m)
    fails = r**q * math.exp(-2.0 * m * deviation**2)
    assert fails == pytest.approx(math.exp(-q * math.log(r)))
    assert 1.0 - math.exp(q * math.log(r)) < 0.0


def test_a_e16_an_accuracy_by_gamma_and_not_its_square_turns_labels_round():
    """Lemma 10 allows eps^2 = gamma^2 / (2 max ||f||^2), a change of gamma / sqrt(2)."""
    gamma = 0.01
    f, g = np.array([0.02, 0.0]), np.array([0.02 - 0.049, 0.049])
    change = np.linalg.norm(f - g)
    assert f[0] - f[1] > gamma
    assert g[0] < g[1]
    assert change <= math.sqrt(gamma / 2.0)
    allowed = epsilon_for_margin(gamma, largest_output=0.02) * 0.02
    assert allowed == pytest.approx(gamma / math.sqrt(2.0))
    assert change > allowed
