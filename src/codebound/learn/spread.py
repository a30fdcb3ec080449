"""Features and kernels of a large sample on the nodes of a cluster: each holds a part of the rows.

What is picked and learned is what one process picks: the kernel's values are the same everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.learn.kernels import KeptRows, Kernel
from codebound.learn.vectors import vectors_of
from codebound.run.device import exact_products

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.learn.features import FeatureMap
    from codebound.run.job import Engine, Residents
    from codebound.sample.dataset import Dataset


class Part:
    """Some of the rows, where they are: arrays come in and go out."""

    def __init__(self, x: NDArray[Any], features: FeatureMap) -> None:
        self._vectors = vectors_of(features, torch.from_numpy(np.array(x)))
        self._rows: KeptRows | None = None

    def open(self, kernel: Kernel) -> None:
        """Forgets all supports."""
        self._rows = KeptRows(self._vectors, kernel)

    def vectors_at(self, rows: NDArray[np.int64]) -> NDArray[np.int16]:
        """The features of some rows."""
        return self._vectors[torch.from_numpy(rows.copy())].numpy()

    def add(self, added: NDArray[np.int16]) -> None:
        """Adds supports."""
        assert self._rows is not None
        with exact_products(), torch.no_grad():
            self._rows.add(torch.from_numpy(added.copy()))

    def outputs(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of the kernel times coefficients."""
        assert self._rows is not None
        with exact_products(), torch.no_grad():
            return self._rows.outputs(torch.from_numpy(coefficients.copy())).numpy()


class Spread:
    """The kernel of supports with rows that are in parts on the nodes of an engine."""

    def __init__(self, parts: Residents, size: int, n: int) -> None:
        self._parts, self._size, self._n = parts, size, n

    @classmethod
    def of(cls, sample: Dataset, features: FeatureMap, engine: Engine, size: int) -> Spread:
        """The rows of a sample in parts of a size."""
        given = (
            {"x": np.ascontiguousarray(sample.x[start : start + size]), "features": features}
            for start in range(0, sample.n, size)
        )
        return cls(engine.residents(f"{__name__}:Part", given), size, sample.n)

    def reopen(self, kernel: Kernel) -> Spread:
        """The same without any supports."""
        self._parts.tell_anew("open", kernel)
        return self

    def vectors_at(self, rows: Tensor) -> Tensor:
        """The features of some rows, from wherever they are."""
        wanted = rows.numpy()
        places = [np.flatnonzero(wanted // self._size == at) for at in range(-(-self._n // self._size))]
        given = [(wanted[each] - at * self._size,) for at, each in enumerate(places)]
        found = np.concatenate(self._parts.ask_each("vectors_at", given))
        return torch.from_numpy(found[np.argsort(np.concatenate(places))])

    def add(self, added: Tensor) -> Tensor | None:
        """Adds supports of these vectors."""
        self._parts.tell("add", added.numpy())
        return None

    def outputs(self, coefficients: Tensor) -> Tensor:
        """Sums of the kernel times coefficients, for every row."""
        return torch.from_numpy(np.concatenate(self._parts.ask("outputs", coefficients.numpy())))

    def __enter__(self) -> Spread:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()
