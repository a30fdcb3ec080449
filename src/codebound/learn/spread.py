"""Features and kernels of a large sample on the nodes of a cluster: each holds a part of the examples.

What is picked and learned is what one process picks: the kernel's values are the same everywhere.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.learn.picking import feature_map_of, vectors_of
from codebound.learn.ridge import SupportKernel, Width
from codebound.run.device import exact_products

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.learn.features import FeatureMap
    from codebound.learn.rule import Rule
    from codebound.run.job import Engine, Residents
    from codebound.sample.dataset import Dataset


class Part:
    """Some of the examples, where they are: arrays come in and go out."""

    def __init__(self, x: NDArray[Any], rule: Rule, features: FeatureMap) -> None:
        self._vectors = vectors_of(rule, features, torch.from_numpy(np.array(x)))
        self._kernel: SupportKernel | None = None

    def dimension(self) -> int:
        """Length of a vector."""
        return self._vectors.shape[1]

    def open(self, width: Width) -> None:
        """Forgets all supports."""
        self._kernel = SupportKernel(self._vectors, width)

    def vectors_at(self, rows: NDArray[np.int64]) -> NDArray[np.int16]:
        """The features of some examples."""
        return self._vectors[torch.from_numpy(rows.copy())].numpy()

    def add(self, added: NDArray[np.int16]) -> None:
        """Adds supports."""
        assert self._kernel is not None
        with exact_products(), torch.no_grad():
            self._kernel.add(torch.from_numpy(added.copy()))

    def outputs(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of the kernel times coefficients."""
        assert self._kernel is not None
        with exact_products(), torch.no_grad():
            return self._kernel.outputs(torch.from_numpy(coefficients.copy())).numpy()


class Spread:
    """The kernel of supports with examples that are in parts on the nodes of an engine."""

    def __init__(self, parts: Residents, size: int, n: int) -> None:
        self._parts, self._size, self._n = parts, size, n
        self._dimension = int(parts.ask("dimension")[0])

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    def reopen(self, width: Width) -> Spread:
        """The same without any supports."""
        self._parts.tell_anew("open", width)
        return self

    def vectors_at(self, rows: Tensor) -> Tensor:
        """The features of some examples, from wherever they are."""
        wanted = rows.numpy()
        found = np.empty((len(wanted), self._dimension), dtype=np.int16)
        places = [np.flatnonzero(wanted // self._size == at) for at in range(-(-self._n // self._size))]
        given = [(wanted[each] - at * self._size,) for at, each in enumerate(places)]
        for each, part in zip(places, self._parts.ask_each("vectors_at", given), strict=True):
            found[each] = part
        return torch.from_numpy(found)

    def add(self, added: Tensor) -> None:
        """Adds supports of these vectors."""
        self._parts.tell("add", added.numpy())

    def outputs(self, coefficients: Tensor) -> Tensor:
        """Sums of the kernel times coefficients, for every example."""
        return torch.from_numpy(np.concatenate(self._parts.ask("outputs", coefficients.numpy())))

    def close(self) -> None:
        """Lets the parts go."""
        self._parts.close()


def spread_features(rule: Rule, sample: Dataset, engine: Engine) -> tuple[FeatureMap, Spread]:
    """The feature map of a rule, and the parts of the sample on the nodes of a cluster."""
    found = feature_map_of(rule, sample)
    size = math.ceil(sample.n / min(engine.slots, sample.n))
    given = (
        {"x": np.ascontiguousarray(sample.x[start : start + size]), "rule": rule, "features": found}
        for start in range(0, sample.n, size)
    )
    return found, Spread(engine.residents(f"{__name__}:Part", given), size, sample.n)
