"""The kernel of vectors of integers against the formula of the page (section 7.7), number by number."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from codebound_verify.learn.kernel import squared_distances, values_of


@pytest.mark.parametrize("largest", [100, 4095])
def test_distances_of_integers_are_exact(largest):
    vectors = np.random.default_rng(largest).integers(-largest, largest + 1, (9, 50)).astype(np.int16)
    whole = vectors.astype(object)
    found = squared_distances(vectors)
    assert found.tolist() == [[float(((a - b) ** 2).sum()) for b in whole] for a in whole]


@pytest.mark.parametrize("gamma", [0.25, 1.0, 4.0])
def test_values_are_those_of_the_page(gamma):
    squared = [0.0, 1.0, 4096.0, 2.0**30 + 1]
    found = values_of(torch.tensor(squared, dtype=torch.float64), 4091.0**2, gamma)
    for value, each in zip(found.tolist(), squared, strict=True):
        exact = 1 / (1 + Fraction(gamma) / 4 * Fraction(each) / 4091**2) ** 4
        assert abs(Fraction(value) / exact - 1) < Fraction(1, 10**14)
