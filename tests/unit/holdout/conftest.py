"""The test set that ledgers are tried on."""

import numpy as np
import pytest

from codebound.sample.arrays import from_arrays


@pytest.fixture
def data():
    """400 examples of four classes, with labels of three of them."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 3)).astype("f4"), rng.integers(0, 3, 400)
    return from_arrays(x, y, name="made", role="test", classes=4)
