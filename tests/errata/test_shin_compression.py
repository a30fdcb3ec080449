"""Errata of Shin 2021 on the compression of heavy-tailed matrices, with their numbers."""

import math

import numpy as np
import pytest
import torch

from codebound_networks.train.rng import torch_stream
from codebound_papers.guha23.magnitude import binomial_tail, count_bits
from codebound_papers.shin21.compressor import (
    Corrected,
    ScaleFree,
    published_spread,
    replace_bulk,
    replace_small,
    split,
    split_signed,
    spread,
)

TAU, T, ETA = 2.0, 0.5, 0.05
STATED = math.sqrt((TAU**2 + T) * math.log(3 / ETA))
CORRECTED = math.sqrt(2 * (TAU**2 + T) * math.log(2 / ETA))


def products(side: int, *, signs: bool, centred: bool = False, reps: int = 200) -> np.ndarray:
    """``|u^T (W - W(t)) v|`` for Pareto weights with index 2 from 1 on and flat unit vectors."""
    stream, noise = np.random.default_rng(0), torch_stream(0, "s-e1")
    found = []
    for _ in range(reps):
        weights = stream.random((side, side)) ** -0.5
        if signs:
            weights *= stream.choice([-1.0, 1.0], size=weights.shape)
        matrix = torch.from_numpy(weights)
        parts = split(matrix, TAU) if signs else split_signed(matrix, TAU)
        mean = float(parts.bulk.mean()) if centred else 0.0
        gap = matrix - replace_bulk(parts, variance=T, mean=mean, generator=noise)
        found.append(abs(float(gap.sum())) / side)
    return np.array(found)


@pytest.mark.parametrize("side", [10, 100])
def test_s_e1_proposition_1_1_is_false_for_positive_weights(side):
    assert pytest.approx(4.29, abs=0.005) == STATED
    assert math.sqrt(published_spread(STATED, ETA)) == pytest.approx(math.sqrt(TAU**2 + T))
    literal = products(side, signs=False)
    assert literal.mean() == pytest.approx(side, rel=0.1)
    assert (literal > STATED).mean() == 1.0
    assert (literal > CORRECTED).mean() == 1.0


@pytest.mark.parametrize("side", [10, 100])
def test_s_e1_it_holds_for_symmetric_and_for_centred_weights(side):
    assert spread(CORRECTED, ETA) == pytest.approx(TAU**2 + T)
    assert (products(side, signs=True) > CORRECTED).mean() == 0.0
    assert (products(side, signs=False, centred=True) > CORRECTED).mean() == 0.0


def test_s_e2_the_published_constants_fail_even_for_symmetric_entries():
    """The Gaussian limit at eta = 0.001 fails with probability 0.0047 and, by the appendix, 0.045."""

    def two_sided(size: float) -> float:
        return math.erfc(size / math.sqrt(2.0))

    stated, appendix = math.sqrt(math.log(3000.0)), math.sqrt(math.log(3000.0) / 2.0)
    assert published_spread(stated, 0.001) == pytest.approx(1.0)
    assert two_sided(stated) == pytest.approx(0.0047, abs=5e-5)
    assert two_sided(appendix) == pytest.approx(0.045, abs=5e-4)
    assert two_sided(math.sqrt(2.0 * math.log(2000.0))) < 0.001
    # exactly, for 400 entries +-1 and flat vectors: the sum of the signs over 20
    for size, fails in ((stated, True), (math.sqrt(2.0 * math.log(2000.0)), False)):
        ones = math.floor((400 + 20 * size) / 2) + 1  # more than these signs are plus
        failure = 2.0 * binomial_tail(ones, trials=400, probability=0.5)
        assert (failure > 0.001) is fails


def test_s_e7_a_relu_network_is_not_its_jacobian_at_another_point():
    weight = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    x, eta = torch.tensor([1.0, -0.5]), torch.tensor([-1.2, 1.0])

    def m(point: torch.Tensor) -> torch.Tensor:
        return weight @ point.relu()

    jacobian = torch.autograd.functional.jacobian(m, x)
    assert m(x).tolist() == pytest.approx((jacobian @ x).tolist())
    assert m(x + eta).tolist() == pytest.approx([-0.5, 0.5])
    assert (jacobian @ (x + eta)).tolist() == pytest.approx([-0.2, 0.2])


def test_s_e13_noise_never_helps():
    """At equal epsilon and eta, more noise means a lower threshold and more entries to code."""
    matrix = torch.from_numpy(np.random.default_rng(0).standard_t(2.0, size=(60, 50)))
    rule = Corrected(4.0, 0.05)
    kept = [
        int(split(matrix, rule.of(matrix, variance=t)).tail.count_nonzero()) for t in (0.0, 0.5, 1.0, 2.0)
    ]
    assert kept == sorted(kept)
    assert kept[0] < kept[-1]
    # and at an equal threshold the squared error of u^T W v is sum a^2 (A^2 + t)
    parts = split(matrix, 1.0)
    errors = [
        float((matrix - replace_bulk(parts, variance=t, generator=torch_stream(0, "s-e13"))).square().sum())
        for t in (0.0, 0.5, 2.0)
    ]
    bulk = float(parts.bulk.square().sum())
    assert errors == pytest.approx([bulk, bulk + 0.5 * 3000, bulk + 2.0 * 3000], rel=0.1)


def test_s_e18_the_literal_rule_redraws_every_negative_weight():
    matrix = torch.randn(100, 64, generator=torch_stream(0, "s-e18"))
    negative = matrix < 0
    literal = replace_small(matrix, mask="signed", generator=torch_stream(1, "s-e18"))
    released = replace_small(matrix, mask="absolute", generator=torch_stream(1, "s-e18"))
    assert not (literal[negative] == matrix[negative]).any()
    large = matrix.abs() > matrix.double().std(correction=0)
    assert torch.equal(released[large], matrix[large])
    assert (negative & large).sum() > 500


@pytest.mark.parametrize(
    ("depth", "width", "cushion", "threshold"), [(3, 100, 0.3, 1.8e-4), (5, 500, 0.2, 3e-5)]
)
def test_s_e22_the_thresholds_of_theorem_2_leave_nothing_to_replace(depth, width, cushion, threshold):
    """Relative to ||W||_F; an entry has root mean square 1/width, 50 times the threshold and more."""
    epsilon = cushion / math.sqrt(width) / (6 * 1.4 * depth)
    eta = 0.05 / (2 * depth**2 * 50_000 * width)
    matrix = torch.randn(width, width, generator=torch_stream(0, "s-e22"), dtype=torch.float64)
    matrix /= matrix.norm()
    found = ScaleFree(epsilon, eta).of(matrix, variance=0.0)
    assert found == pytest.approx(threshold, rel=0.05)
    assert (split(matrix, found).bulk != 0).double().mean() < 0.02


def test_s_e4_a_negative_coefficient_turns_the_inequality_round():
    """a A <= a tau fails for a < 0; Hoeffding's lemma bounds the exponential moment for either sign."""
    entry, coefficient = -TAU, -1.0
    assert coefficient * entry > coefficient * TAU
    for exponent in (0.1, 0.5, 3.0):
        moment = math.cosh(exponent * TAU)  # of an entry +-tau, whatever the sign of the exponent
        assert moment > math.exp(-exponent * TAU)
        assert moment <= math.exp(exponent**2 * TAU**2 / 2)


def test_s_e5_two_sides_cost_a_factor_of_two():
    """The sum of 100 signs over 10 lies above 1 as often as below -1; for positive entries it never does."""
    upper = binomial_tail(56, trials=100, probability=0.5)  # more than 55 plus signs
    both = sum(math.comb(100, k) for k in range(101) if abs(2 * k - 100) > 10) / 2**100
    assert both == pytest.approx(2 * upper)
    positive = np.random.default_rng(0).random((1000, 100)).sum(axis=1) / 10
    assert (positive > 1.0).mean() == 1.0
    assert (positive < -1.0).mean() == 0.0


def test_s_e6_directions_that_know_the_matrix_break_the_bound():
    """The probability is over the weights; Jacobians and activations of a trained network depend on them."""
    side = 100
    bulk = np.random.default_rng(0).choice([-1.0, 1.0], size=(side, side))
    bound = math.sqrt(2 * math.log(2 / ETA))  # tau = 1, t = 0
    left, values, right = np.linalg.svd(bulk)
    assert left[:, 0] @ bulk @ right[0] == pytest.approx(values[0])
    assert values[0] > 6 * bound
    directions = np.random.default_rng(1).normal(size=(2, 2000, side))
    u, v = directions / np.linalg.norm(directions, axis=2, keepdims=True)
    assert (np.abs(np.einsum("ri,ij,rj->r", u, bulk, v)) > bound).mean() <= ETA


def test_s_e12_positions_cost_bits_too():
    """All matrices of six entries with two large ones: counted by values alone, their mass is 15."""
    entries, large, levels = 6, 2, 5
    matrices = math.comb(entries, large) * (levels - 1) ** large
    assert matrices * 2.0 ** -(large * math.log2(levels - 1)) == pytest.approx(15)
    total = sum(
        math.comb(entries, k) * (levels - 1) ** k * 2.0 ** -count_bits(entries, nonzeros=k, levels=levels)
        for k in range(entries + 1)
    )
    assert total == pytest.approx(1.0)


def test_s_e21_the_norm_of_the_replacement_is_not_that_of_the_matrix():
    """E||W(t)||_F^2 = t N + ||B||_F^2; the paper takes the norm for at most (1 + 1/d) that of W."""
    matrix = torch.from_numpy(np.random.default_rng(0).standard_t(3.0, size=(60, 50)))
    parts = split(matrix, 2.0)
    large = replace_bulk(parts, variance=9.0, generator=torch_stream(0, "s-e21"))
    assert float(large.norm()) > 1.5 * float(matrix.norm())
    expected = 9.0 * 3000 + float(parts.tail.square().sum())
    assert float(large.square().sum()) == pytest.approx(expected, rel=0.1)


def test_s_e3_markov_needs_a_variable_that_is_not_negative_and_chernoff_does_not():
    values, weights, level = np.array([-1.0, 1.0]), np.array([0.5, 0.5]), 0.5
    chance = float(weights[values >= level].sum())
    assert chance == 0.5 > float(values @ weights) / level
    assert all(
        chance <= float(np.exp(t * values) @ weights) / math.exp(t * level) for t in (0.1, 0.55, 1.0, 3.0)
    )


def test_s_e9_what_layers_change_adds_up():
    """Equation (77) multiplies the changes of the layers; the induction of A's lemma 3 adds them."""
    changes = np.array([0.1, 0.2, 0.1])
    happens = math.prod(1.0 + changes) - 1.0  # every layer a number that was 1
    assert changes.sum() <= happens
    assert changes.prod() < 0.01 * happens


@pytest.mark.parametrize(("gamma", "moved"), [(1.0, -0.5), (1.0, -0.3), (0.2, -0.1), (2.0, 0.4)])
def test_s_e20_the_square_belongs_to_the_whole_bracket(gamma, moved):
    """a - c moves the score of the label, and the other has to move by gamma + a - c to meet it: the squared
    distance is half of gamma^2 + (gamma + 2 (a - c))^2, so at least gamma^2 / 2.
    """
    squared = moved**2 + (gamma + moved) ** 2
    assert squared == pytest.approx(0.5 * (gamma**2 + (gamma + 2.0 * moved) ** 2))
    assert squared >= 0.5 * gamma**2
    assert squared != pytest.approx(0.5 * (gamma**2 + gamma + 2.0 * moved**2))
