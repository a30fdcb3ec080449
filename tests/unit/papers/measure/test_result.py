"""Columns that grow, and what is said about them."""

import math

import numpy as np
import pytest
import torch

from codebound.run.errors import UsageError
from codebound_papers.measure.noise.result import Distribution, Examples, Key


def test_columns_must_stay_the_same():
    seen = Examples()
    seen.update({Key("cushion", "a"): torch.ones(2)})
    with pytest.raises(UsageError, match="same columns"):
        seen.update({Key("cushion", "b"): torch.ones(2)})
    with pytest.raises(UsageError, match="one row per example"):
        Examples().update({Key("cushion", "a"): torch.ones(2), Key("cushion", "b"): torch.ones(3)})
    other = Examples()
    other.update({Key("cushion", "b"): torch.ones(2)})
    with pytest.raises(UsageError, match="do not merge"):
        seen.merge(other)


def test_a_distribution_has_order_statistics():
    found = Distribution(np.array([3.0, 1.0, np.inf, 2.0]))
    assert (found.n, found.minimum, found.maximum, found.quantile(0.5)) == (4, 1.0, math.inf, 2.0)
    counts, edges = found.histogram(bins=2)
    assert (counts.tolist(), edges.tolist()) == ([1, 2], [1.0, 2.0, 3.0])
    assert found.quantiles((0.0, 1.0)) == {0.0: 1.0, 1.0: math.inf}
    for bad in ([], [1.0, math.nan]):
        with pytest.raises(UsageError, match="NaN"):
            Distribution(np.array(bad))
    with pytest.raises(UsageError, match=r"\[0, 1\]"):
        found.quantile(1.5)
