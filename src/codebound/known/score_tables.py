"""Declared tables of scores: a row for each example, a column for each class (docs/format.md, 4.2)."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from codebound.run.errors import DataError, UsageError
from codebound.run.files import write_atomically
from codebound.run.progress import Progress, silent
from codebound.sample.dataset import arrays_sha256, integers, require_printable, whole

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.sample.dataset import Sample

MOST_TABLES = 256
_MOST_COLUMNS, _MOST_ENTRIES = 1 << 16, 1 << 31
_ROWS = 500  # at a time


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of every example of a sample, which were made without the examples that are counted.

    Attributes:
        scores: Shape (examples, classes), float32 or float64.
        by: Who made them: a learner with its parameters, seed and versions, or a network.
        of: The data that they were made from.
        rows: How many of the first examples of the sample were among these.
        picks: Places of examples that the learner picked by a rule (C-15), rising; None for other learners.
        classifier: The network behind it, of inputs as they are stored, where there is one.
    """

    scores: NDArray[Any]
    by: str
    of: str
    rows: int = 0
    picks: NDArray[np.int64] | None = None
    classifier: nn.Module | None = None

    def __post_init__(self) -> None:
        require_printable("by (who made the scores)", self.by)
        require_printable("of (what the scores were made from)", self.of)
        object.__setattr__(self, "scores", np.asarray(self.scores))
        object.__setattr__(self, "rows", whole("rows of a table of scores", self.rows))
        if self.scores.ndim != 2 or self.scores.dtype not in (np.float32, np.float64):
            raise DataError(
                f"a table of scores has the shape (examples, classes), of float32 or float64. Got "
                f"{self.scores.shape} of {self.scores.dtype}."
            )
        if not 2 <= self.scores.shape[1] <= _MOST_COLUMNS or self.scores.size > _MOST_ENTRIES:
            raise DataError(f"a table of scores has 2 to 2^16 columns. Got shape {self.scores.shape}.")
        if not np.isfinite(self.scores).all():
            raise DataError(f"scores of {self.by} are NaN or infinite.")
        if self.picks is not None:
            object.__setattr__(self, "picks", integers("picks", self.picks))
            if (np.diff(self.picks, prepend=-1, append=len(self.scores)) < 1).any():
                raise DataError(
                    f"picks are rising places of rows, from 0 to {len(self.scores) - 1}: sort them."
                )

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays of its file."""
        picks = {} if self.picks is None else {"picks": self.picks}
        return {"scores": np.ascontiguousarray(self.scores), **picks}

    @property
    def sha256(self) -> str:
        """Hash of these."""
        return arrays_sha256(*self.arrays.values())

    def save(self, path: Path) -> None:
        """Write its file."""
        from safetensors.numpy import save

        write_atomically(path, save(self.arrays))


@torch.no_grad()
def run_on(
    network: nn.Module, sample: Sample, *, device: str | torch.device = "cpu", progress: Progress = silent
) -> NDArray[np.float32]:
    """Scores of a network that takes inputs as they are stored, for every example."""
    evaluated = copy.deepcopy(network).to(device).float().eval()
    parts = []
    for start in range(0, sample.n, _ROWS):
        stored = torch.from_numpy(np.ascontiguousarray(sample.x[start : start + _ROWS])).to(device)
        parts.append(evaluated(stored).float().cpu().numpy())
        progress(min(start + _ROWS, sample.n), sample.n, "scores")
    return np.concatenate(parts)


class Scaled(nn.Module):
    """A network of scaled inputs, for inputs as they are stored."""

    def __init__(self, network: nn.Module, scaling: Any) -> None:
        super().__init__()
        self.network, self.scaling = network, scaling

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        outputs: Tensor = self.network(self.scaling.apply(x))
        return outputs


class Biased(nn.Module):
    """A classifier with biases on its scores."""

    biases: Tensor

    def __init__(self, classifier: nn.Module, biases: tuple[float, ...]) -> None:
        super().__init__()
        self.classifier = classifier
        self.register_buffer("biases", torch.tensor(biases, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        scores: Tensor = self.classifier(x)
        return scores.double() + self.biases


def require_tables(tables: tuple[ScoreTable, ...], sample: Sample) -> None:
    """Refuses tables that are not of a sample, or were made from examples that count."""
    if len(tables) > MOST_TABLES:
        raise UsageError(f"at most {MOST_TABLES} tables of scores can be declared. Got {len(tables)}.")
    for table in tables:
        if not isinstance(table, ScoreTable):
            raise UsageError(f"scores are a ScoreTable, or a list of them. Got {type(table).__name__}.")
        if len(table.scores) != sample.n:
            raise DataError(
                f"the scores of {table.by} are of {len(table.scores)} examples, the sample has {sample.n}."
            )
        if not 0 <= table.rows <= sample.n:
            raise UsageError(f"the scores of {table.by} were made from {table.rows} of the examples.")
        if sample.features is not None and table.rows < sample.features.rows:
            raise UsageError(
                f"the features were made of {sample.features.rows} examples: then no table was made of "
                f"fewer. Got {table.rows} for {table.by}."
            )
