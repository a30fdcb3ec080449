"""Training and test sets of the items."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from codebound.data.dataset import Dataset, Scaling
from codebound.data.load import load_dataset
from codebound.rng import numpy_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Samples(NamedTuple):
    """What a network is trained on, and what its errors are counted on besides."""

    train: Dataset
    test: Dataset | None = None


def named_samples(name: str) -> Samples:
    """Training and test set of a known dataset, from the cache."""
    return Samples(load_dataset(name), load_dataset(name, role="test"))


def made_up_samples(
    shape: tuple[int, ...] = (1, 8, 8), *, classes: int = 10, n: int = 200, seed: int = 0
) -> Samples:
    """Noisy copies of one random image a class: for runs of size ``tiny``, which need no files.

    Example:
        >>> train, test = made_up_samples(n=50)
        >>> train.x.shape, train.classes, test.n
        ((50, 1, 8, 8), 10, 50)
    """
    rng = numpy_stream(seed, "made-up samples")
    centres = rng.integers(0, 256, size=(classes, *shape))

    def drawn(role: str) -> Dataset:
        y: NDArray[np.int64] = np.arange(n, dtype=np.int64) % classes
        noisy = centres[y] + 60.0 * rng.standard_normal((n, *shape))
        x = noisy.clip(0, 255).astype(np.uint8)
        return Dataset("made-up", role, x, y, classes=classes, scaling=Scaling(divisor=255.0))

    return Samples(drawn("train"), drawn("test"))
