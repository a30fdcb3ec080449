"""The shape of weights against its formulas, and laws whose shape is known."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from scipy import stats

from codebound.run.errors import UsageError
from codebound_papers.measure.shape import weight_shape


@pytest.mark.few(2)
@pytest.mark.parametrize("law", ["normal", "laplace", "uniform"])
def test_it_is_what_the_formulas_say(law):
    sample = getattr(np.random.default_rng(1), law)(size=(40, 50)) * 0.03 + 0.01
    found, flat = weight_shape(torch.from_numpy(sample)), np.sort(sample.ravel())
    mean, deviation = math.fsum(flat) / 2000, math.sqrt(math.fsum((flat - flat.mean()) ** 2) / 2000)
    standard = (flat - mean) / deviation
    assert found.weights == 2000
    assert found.excess_kurtosis == pytest.approx(math.fsum(standard**4) / 2000 - 3.0, rel=1e-9)
    below = [NormalDist(mean, deviation).cdf(value) for value in flat]
    distance = max(max((i + 1) / 2000 - p, p - i / 2000) for i, p in enumerate(below))
    assert found.distance == pytest.approx(distance, rel=1e-9)
    assert found.beyond == np.mean(np.abs(standard) > 3.0)
    spread = math.fsum(np.abs(flat - flat[999])) / 2000  # torch's median, of an even number
    gain = 0.5 + math.log(math.sqrt(2.0 * math.pi) * deviation) - 1.0 - math.log(2.0 * spread)
    assert found.laplace_gain == pytest.approx(gain, rel=1e-9)
    assert (found.laplace_gain > 0.0) == (law == "laplace")
    assert (found.distance > found.usual_distance) == (law != "normal")


@pytest.mark.thorough
def test_one_in_a_hundred_gaussian_samples_is_farther_than_usual():
    rng = np.random.default_rng(0)
    shapes = [weight_shape(torch.from_numpy(rng.standard_normal(400))) for _ in range(2000)]
    far = sum(shape.distance > shape.usual_distance for shape in shapes)
    assert stats.binomtest(far, 2000, 0.01).pvalue > 1e-6


def test_equal_weights_have_no_shape():
    with pytest.raises(UsageError, match="two different weights"):
        weight_shape(torch.ones(5))
    assert math.isfinite(weight_shape(torch.tensor([0.0, 1.0])).distance)
