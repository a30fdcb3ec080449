"""Fixed features of an image: moduli of complex filters with literal coefficients (docs/format.md, 5.5)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from codebound.run.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

DICTIONARIES = Path(__file__).with_name("dictionaries.json")
EPSILON = 1e-5
"""Added to a variance before its root is taken."""
_UNIT = 4096


@dataclass(frozen=True, slots=True, eq=False)
class FilterTable:
    """Filters of one size.

    Attributes:
        size: Their side.
        filters: Real parts of all filters, then the imaginary parts, shape (2 F, size, size).
    """

    size: int
    filters: NDArray[np.float64]

    @property
    def count(self) -> int:
        """Number F of filters."""
        return len(self.filters) // 2


@cache
def filter_tables(table: int) -> tuple[FilterTable, ...]:
    """The tables of dictionary ``table``.

    Example:
        >>> [(found.size, found.count) for found in filter_tables(1)]
        [(9, 8), (15, 8)]
    """
    known = json.loads(DICTIONARIES.read_text(encoding="ascii"))
    if str(table) not in known:
        raise ModelError(f"there is no dictionary {table}. The dictionaries are {', '.join(known)}.")
    found = []
    for entry in known[str(table)]:
        size = entry["size"]
        parts = np.array(entry["filters"], dtype=np.float64).reshape(-1, 2, size, size) / _UNIT
        found.append(FilterTable(size, np.concatenate([parts[:, 0], parts[:, 1]])))
    return tuple(found)


def dictionary_channels(table: int, channels: int) -> int:
    """Channels of the features of an image with ``channels`` channels.

    Example:
        >>> dictionary_channels(1, 1), dictionary_channels(3, 3)
        (17, 51)
    """
    return channels * (1 + sum(found.count for found in filter_tables(table)))


class DictionaryFeatures(nn.Module):
    """The features of dictionary ``table``, average-pooled with windows of ``pool`` x ``pool``.

    The filters are constants and no part of the state; they follow the inputs in dtype and device.

    Example:
        >>> DictionaryFeatures(1, 4)(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 17, 7, 7])
    """

    def __init__(self, table: int, pool: int) -> None:
        super().__init__()
        self.table, self.pool = table, pool

    def extra_repr(self) -> str:  # noqa: D102
        return f"{self.table}, {self.pool}"

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return self.normalised(self.unnormalised(self.planes(x)))

    def planes(self, x: Tensor) -> Tensor:
        """Return the planes of images that the filters see."""
        return _opponent(x) if x.shape[1] == 3 else x

    def unnormalised(self, planes: Tensor) -> Tensor:
        """The features of planes as they are."""
        each = planes.flatten(0, 1).unsqueeze(1)
        maps = torch.cat([self._maps(each, found) for found in filter_tables(self.table)], dim=1)
        pooled = functional.avg_pool2d(planes, self.pool)
        return torch.cat([2.0 * maps.reshape(len(planes), -1, *pooled.shape[2:]), pooled], dim=1)

    def normalised(self, features: Tensor) -> Tensor:
        """Features of mean 0 and variance 1 in each image."""
        return functional.group_norm(features, 1, eps=EPSILON)

    def _maps(self, planes: Tensor, found: FilterTable) -> Tensor:
        filters = torch.from_numpy(found.filters).to(planes).unsqueeze(1)
        real, imaginary = functional.conv2d(planes, filters, padding=found.size // 2).chunk(2, dim=1)
        return functional.avg_pool2d((real.square() + imaginary.square()).sqrt(), self.pool)


def _opponent(x: Tensor) -> Tensor:
    """Brightness and two differences of colours."""
    red, green, blue = x.unbind(1)
    return torch.stack([(red + green + blue) / 3.0, red - green, (red + green) / 2.0 - blue], dim=1)
