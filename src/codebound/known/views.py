"""Stored inputs as learners of scikit-learn read them; words and scales are those of the known share."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.learn.column_features import ColumnFeatures
from codebound.sample.columns import GAP, TEXTS, WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.sample.dataset import Sample

    View = Callable[[NDArray[Any]], Any]

MOST_CATEGORIES = 255
"""Words of a column that gradient boosting takes as categories; ranks of more of them are numbers."""
_UNIT = 256.0  # of the numbers of columns
_WORDS = 3  # of a text, on average: names have fewer


def flatten(x: NDArray[Any]) -> NDArray[Any]:
    """Inputs in rows, as they are stored; what is missing in a new one is zero."""
    rows = x.reshape(len(x), -1)
    return np.nan_to_num(rows) if rows.dtype.kind == "f" and np.isnan(rows).any() else rows


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Cells as numbers: a word is its rank by frequency, what does not fit its column is NaN.

    Attributes:
        levels: Patterns of the words of each column, the commonest first; None for a column of numbers.
        names: Of the columns.
    """

    levels: tuple[NDArray[np.uint64] | None, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, sample: Sample, known: NDArray[np.int64]) -> Codes:
        """Words as the known rows have them."""
        titles = [title.name for title in sample.columns] or [f"x{at}" for at in range(sample.x.shape[1])]
        levels = (_find_levels(_patterns(sample.x[known, at])) for at in range(sample.x.shape[1]))
        return cls(tuple(levels), tuple(titles))

    @property
    def are_categories(self) -> list[bool]:
        """Return for each column whether it holds few enough words."""
        return [each is not None and len(each) <= MOST_CATEGORIES for each in self.levels]

    def __call__(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Numbers of stored rows."""
        codes = np.where(np.isfinite(x), x, np.nan)
        for at, levels in enumerate(self.levels):
            if levels is not None:
                order, patterns = np.argsort(levels), _patterns(x[:, at])
                places = np.searchsorted(levels[order], patterns).clip(max=len(levels) - 1)
                is_known = levels[order][places] == patterns
                codes[:, at] = np.where(is_known, order[places], np.nan)
        return codes


@dataclass(frozen=True, slots=True, eq=False)
class TextColumns:
    """Columns of texts as one text a row, without those that this process has not read."""

    columns: tuple[int, ...]

    @classmethod
    def of(cls, sample: Sample, known: NDArray[np.int64]) -> TextColumns:
        """Columns whose known cells are mostly different texts, of several words each."""
        columns = range(sample.x.shape[1]) if sample.is_cells else ()
        cells = ((at, _patterns(sample.x[known, at])) for at in columns)
        return cls(tuple(at for at, patterns in cells if _are_texts(patterns[patterns != GAP])))

    def __call__(self, x: NDArray[Any]) -> NDArray[np.object_]:
        """Texts of stored rows."""
        columns = [_patterns(x[:, at]).tolist() for at in self.columns]
        texts = ["\n".join(TEXTS.get(each, "") for each in row) for row in zip(*columns, strict=True)]
        return np.array(texts, dtype=object)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Cells as a data frame of pandas, with the ranks of words as categories; as numbers without pandas."""

    codes: Codes

    def __call__(self, x: NDArray[Any]) -> Any:
        """Table of stored rows."""
        codes = self.codes(x)
        if find_spec("pandas") is None:
            return codes
        import pandas as pd  # type: ignore[import-untyped,unused-ignore]

        frame = pd.DataFrame(codes)
        for at, levels in enumerate(self.codes.levels):
            if levels is not None:
                ranks = np.nan_to_num(codes[:, at], nan=-1.0).astype(np.int64)
                frame[at] = pd.Categorical.from_codes(ranks, categories=range(len(levels)))
        frame.columns = pd.Index(self.codes.names)
        return frame


@dataclass(frozen=True, slots=True, eq=False)
class Standardised:
    """Columns by their middle and spread, with a number for each word and for what is missing."""

    tensors: Mapping[str, Tensor]

    @classmethod
    def of(cls, sample: Sample, known: NDArray[np.int64]) -> Standardised:
        """Middles, spreads and words of the known rows."""
        return cls(ColumnFeatures().fit(_rows_of(sample.x[known]), is_mirrored=False))

    def __call__(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Numbers of stored rows."""
        numbers: Tensor = ColumnFeatures().numbers(_rows_of(x), self.tensors)
        return numbers.div_(_UNIT).float().numpy()


def list_texts(sample: Sample) -> list[str]:
    """Texts of a sample, where it has columns of them: a learner needs them, and cells are hashes."""
    columns = TextColumns.of(sample, np.arange(sample.n)).columns
    patterns = {each for at in columns for each in _patterns(sample.x[:, at]).tolist()}
    return [TEXTS[each] for each in sorted(patterns) if each in TEXTS]


def view_for(sample: Sample, known: NDArray[np.int64]) -> View:
    """Return the view that a learner of the user's gets."""
    return Frame(Codes.of(sample, known)) if sample.is_cells else flatten


def _rows_of(x: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float64)).flatten(1)


def _patterns(column: NDArray[Any]) -> NDArray[np.uint64]:
    cells = np.array(column, dtype=np.float64)
    cells[cells == 0.0] = 0.0  # not -0.0
    return cells.view(np.uint64)


def _are_texts(patterns: NDArray[np.uint64]) -> bool:
    different = np.unique(patterns).tolist()
    if 2 * len(different) <= len(patterns) or not all(each in TEXTS for each in different):
        return False
    return sum(len(TEXTS[each].split()) for each in different) >= _WORDS * len(different)


def _find_levels(patterns: NDArray[np.uint64]) -> NDArray[np.uint64] | None:
    """Different cells of a column of words, the commonest first, without gaps; None if it has no word."""
    found, counts = np.unique(patterns, return_counts=True)
    if not (found >> 48 == WORD).any():
        return None
    is_there = found != GAP
    found, counts = found[is_there], counts[is_there]
    levels: NDArray[np.uint64] = found[np.lexsort((found, -counts))]
    return levels
