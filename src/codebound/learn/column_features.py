"""The stored numbers of an input as features, or its cells: words, numbers and gaps (docs/format.md, 7.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from codebound.learn.features import LARGEST, AbstractFeatures
from codebound.run.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from codebound.bits.plain_code import PlainCoder

GAP = 0x7FF8_0000_0000_0000
"""Bits of a cell without anything in it."""
MOST_WORDS = 256
"""Words of a column that have a number of their own."""
_STEPS = 256.0  # of a number of columns, in which weights are computed
_INTEGERS = 32767.0


@dataclass(frozen=True, slots=True)
class ColumnFeatures(AbstractFeatures):
    """The stored numbers: each column by its own middle and spread, or all of them by their length."""

    kind: ClassVar[int] = 0
    has_pictures: ClassVar[bool] = False
    is_normalised: bool = False

    @classmethod
    def code(cls, coder: PlainCoder, value: AbstractFeatures) -> ColumnFeatures:  # noqa: D102
        return cls(coder.flag(isinstance(value, cls) and value.is_normalised))

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuses nothing: how many numbers there are is known later."""

    def read(self, x: Tensor, divisor: float) -> Tensor:  # noqa: D102
        return x.flatten(1).double()

    def dimension(self, shape: tuple[int, ...], tensors: Mapping[str, Tensor]) -> int:  # noqa: D102
        if self.is_normalised:
            return math.prod(shape)
        return sum(len(tensors[name]) for name in ("plain", "missing", "words"))

    def fit(self, first: Tensor, *, is_mirrored: bool) -> dict[str, Tensor]:
        """Middle and spread of the plain columns, and which cells have a number of their own."""
        is_missing = first.isnan()
        if self.is_normalised:
            if is_missing.any():
                raise ModelError("rows of words and gaps have no length.")
            return {}
        has_words = (is_missing & (_patterns(first) != GAP)).any(0)
        there = (~is_missing).sum(0)
        plain = (~has_words & (there > 0)).nonzero()[:, 0]
        ranked, there = first[:, plain].sort(dim=0).values, there[plain]  # what is missing comes last

        def at(places: Tensor) -> Tensor:
            return ranked.gather(0, places[None])[0]

        spread, whole = at(9 * there // 10) - at(there // 10), at(there - 1) - at(torch.zeros_like(there))
        spread = torch.where(spread == 0.0, torch.where(whole == 0.0, 1.0, whole), spread)
        columns = has_words.nonzero()[:, 0].tolist()
        words = [_commonest(first[:, column]) for column in columns]
        owners = np.repeat(np.array(columns, dtype=np.int64), [len(each) for each in words])
        return {
            "plain": plain,
            "middle": at(there // 2),
            "spread": spread,
            "missing": plain[is_missing[:, plain].any(0)],
            "word_columns": torch.from_numpy(owners).to(first.device),
            "words": torch.cat([torch.zeros(0, dtype=torch.int64), *words]).to(first.device),
        }

    def vectors(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        if self.is_normalised:
            return AbstractFeatures.vectors(self, x, tensors)
        weights, parts = tensors.get("weights"), _parts(x, tensors)
        factor = float(_factor(parts.shape[1], weights))
        return parts.mul_(factor if weights is None else weights * factor).round_().float()

    def numbers(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        if not self.is_normalised:
            return _parts(x, tensors).mul_(_STEPS).round_()
        largest = x.abs().amax(1, keepdim=True)
        return (x * _INTEGERS / largest).nan_to_num_(0.0).round_()

    def unit(self, size: int, tensors: Mapping[str, Tensor]) -> float:  # noqa: D102
        if self.is_normalised:
            return AbstractFeatures.unit(self, size, tensors)
        weights = tensors.get("weights")
        return float(_squares(size, weights) * _factor(size, weights) ** 2)


def _patterns(x: Tensor) -> Tensor:
    """The bits of cells, with 0.0 in place of -0.0."""
    return torch.where(x == 0.0, 0, x.view(torch.int64))


def _commonest(column: Tensor) -> Tensor:
    """The different cells that most of a column has, without gaps; of equally many the smaller bits."""
    found, counts = np.unique(_patterns(column).cpu().numpy().view(np.uint64), return_counts=True)
    is_there = found != GAP
    found, counts = found[is_there], counts[is_there]
    return torch.from_numpy(found[np.lexsort((found, -counts))[:MOST_WORDS]].view(np.int64))


def _parts(x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
    """Numbers of about 1 for plain columns, then 1 for what is missing, then 1 for the words of cells."""
    plain, missing, words = (tensors[name] for name in ("plain", "missing", "words"))
    own = x if len(plain) == x.shape[1] else x[:, plain]
    found = ((own - tensors["middle"]) / tensors["spread"]).clamp_(-4.0, 4.0).nan_to_num_(0.0)
    parts = [found]
    if len(missing):
        parts.append(x[:, missing].isnan().double())
    if len(words):
        parts.append((_patterns(x)[:, tensors["word_columns"]] == words).double())
    return found if len(parts) == 1 else torch.cat(parts, dim=1)


def _squares(size: int, weights: Tensor | None) -> int:
    """The sum of the squares of all weights, which are 1 where none were computed."""
    return size if weights is None else int(weights.square().sum())


def _factor(size: int, weights: Tensor | None) -> int:
    """Factor of a number of weight 1."""
    root = math.sqrt(_squares(size, weights))
    found = math.floor((LARGEST - math.sqrt(size) / 2.0) / (4.0 * root))
    if found < 1:
        raise ModelError(f"the weights of {size} columns are too large for whole numbers.")
    return found
