"""The shape of weights against another library, and laws whose shape is known."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from codebound.errors import UsageError
from codebound_papers.measure.shape import weight_shape


@pytest.mark.few(2)
@pytest.mark.parametrize("law", ["normal", "laplace", "uniform"])
def test_it_is_that_of_another_library(law):
    sample = getattr(np.random.default_rng(1), law)(size=(40, 50)) * 0.03 + 0.01
    found, flat = weight_shape(torch.from_numpy(sample)), sample.ravel()
    assert found.weights == 2000
    assert found.excess_kurtosis == pytest.approx(stats.kurtosis(flat), rel=1e-9)
    distance = stats.kstest(flat, "norm", args=(flat.mean(), flat.std())).statistic
    assert found.distance == pytest.approx(distance, rel=1e-9)
    assert found.beyond == np.mean(np.abs(flat - flat.mean()) > 3 * flat.std())
    median = np.sort(flat)[999]  # torch's, for an even number
    gain = stats.laplace.logpdf(flat, median, np.abs(flat - median).mean()).mean()
    gain -= stats.norm.logpdf(flat, flat.mean(), flat.std()).mean()
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
