"""Errata of Shin 2021 on formulas of the text and on its list of networks."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from codebound_papers.shin21.items.table1 import gaussian_shares
from codebound_papers.shin21.laws import PowerLaw, Stable

FAMILIES = (
    ("resnet{}_cifar10", "20 56 110 164bn 272bn"),
    ("resnet{}_cifar100", "20 56 20 56 100"),
    ("resnet{}_svhn", "20 56 110"),
    ("densenet40_k12_{}", "cifar10 cifar100 bc_svhn"),
    ("xdensenet40_2_k24_bc_{}", "cifar10 svhn"),
    ("pyramidnet110_{}", "a48_svhn a48_cifar10 a84_cifar10"),
    ("preresnet{}_svhn", "20 56 110"),
    ("preresnet{}_cifar10", "20 56 110"),
    ("seresnet{}_cifar10", "20 56 110"),
    ("seresnet{}_svhn", "20 56 110"),
    ("sepreresnet{}", "20_cifar10 56_cifar10 110_cifar10 20_svhn 56_cifar10 110_cifar10"),
    ("wrn{}", "16_10_cifar10 28_10_cifar10 28_10_svhn 40_8_cifar10 40_8_svhn"),
)
LISTED = [pattern.format(variant) for pattern, variants in FAMILIES for variant in variants.split()]


def test_s_e11_the_share_above_a_threshold():
    """Eq. (40) prints tau^-alpha / alpha: it knows neither the start of the law nor its constant."""
    alpha, start, threshold = 3.0, 0.5, 1.0
    sample = PowerLaw(alpha, start).sample(200_000, seed=0)
    observed = (sample > threshold).mean()
    assert observed == pytest.approx((start / threshold) ** alpha, abs=0.003)
    assert observed == pytest.approx(PowerLaw(alpha, start).tail(threshold).item(), abs=0.003)
    assert threshold**-alpha / alpha > 2.5 * observed


def test_s_e19_the_list_of_architectures():
    """Claimed 43: the list has 44 entries and 40 names; the script behind it has 43 entries and 41 names."""
    assert (len(LISTED), len(set(LISTED))) == (44, 40)
    script = ["resnet110_cifar100" if name == "resnet100_cifar100" else name for name in LISTED]
    for repeated in ("resnet20_cifar100", "resnet56_cifar100"):
        script.remove(repeated)
    script.append("wrn16_10_svhn")
    assert (len(script), len(set(script))) == (43, 41)
    assert "densenet40_k12_svhn" not in LISTED  # a row of Table 1


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1])
def test_s_e17_ten_of_twelve_rows_are_smaller_than_gaussian_weights_give(seed):
    """With as many Gaussian weights as each last layer has, as pytorchcv builds it: 64, 256 or 264 inputs."""
    share = gaussian_shares(draws=200, seed=seed)
    borderline = [share.pop(name) for name in ("resnet164bn_cifar10", "pyramidnet110_a48_svhn")]
    assert len(share) == 10
    assert max(share.values()) <= 0.05
    assert sum(value < 0.005 for value in share.values()) >= 5
    assert all(0.01 < value < 0.15 for value in borderline)


def test_s_e23_the_cauchy_density():
    """The mass of the printed one is 1/sqrt(gamma): it is a density at gamma = 1, and positive everywhere."""
    gamma = 2.0

    def density(fraction: float) -> float:
        return 1.0 / (math.pi * gamma * (1.0 + fraction))

    half, whole = (
        quad(lambda x, power=power: density(x**2 / gamma**power), -np.inf, np.inf)[0] for power in (1, 2)
    )
    assert (half, whole) == pytest.approx((1.0 / math.sqrt(gamma), 1.0))
    assert min(density(x**2 / gamma) for x in np.linspace(-50.0, 50.0, 101)) > 0.0
    assert Stable(1.0, scale=gamma).density(1.3).item() == pytest.approx(density((1.3 / gamma) ** 2))
