"""Answers of networks, and the inputs on which two differ or are unclear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from codebound.certificate.evaluate import chunk_size_of, judged_logits
from codebound.run.job import over_shards

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor, nn

    from codebound.run.job import Engine
    from codebound.sample.dataset import Dataset, DeviceData

_ROWS = 500


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of a network on every example of a sample.

    Attributes:
        labels: The class that wins.
        is_clear: Whether it does beyond the tolerance of counting.
        errors: Examples that count as errors, where there are labels to compare with.
    """

    labels: Tensor
    is_clear: Tensor
    errors: int = 0


def answered(f: nn.Module, sample: DeviceData, *, engine: Engine | None = None) -> Answers:
    """The answers of a network, and its errors: one evaluation in float64, of every example."""
    chunk_size = chunk_size_of(sample)
    if engine is None:
        return answers_in(f, sample, chunk_size=chunk_size)
    given = {"f": f, "sample": sample, "chunk_size": chunk_size}
    return joined(over_shards(f"{__name__}:answers_in", given, of="sample", engine=engine))


def answers_in(f: nn.Module, sample: DeviceData, *, chunk_size: int) -> Answers:
    """The answers in one part of a sample, and the errors in it."""
    judged = judged_logits(f, sample, chunk_size=chunk_size)
    parts = []
    for logits, errors, is_sure in judged:
        labels, is_clear = winners(logits)
        parts.append(Answers(labels, is_clear & is_sure, int(errors.sum())))
    return joined(parts)


def joined(parts: Sequence[Answers]) -> Answers:
    """The answers of all parts, in their order."""
    labels, is_clear = (torch.cat([getattr(each, name) for each in parts]) for name in ("labels", "is_clear"))
    return Answers(labels, is_clear, sum(each.errors for each in parts))


@torch.no_grad()
def differing(said: Answers, g: nn.Module, rows: Dataset, *, takes_stored: bool) -> int:
    """Inputs on which g predicts something else, or one of them not clearly; g takes the rows of them."""
    g = g if takes_stored else g.double().eval()
    total = 0
    for at in parts_of(rows):
        own = torch.from_numpy(rows.x[at])
        labels, is_clear = winners(g(own if takes_stored else rows.scaling.apply(own, torch.float64)))
        total += int((~(said.is_clear[at] & is_clear & (said.labels[at] == labels))).sum())
    return total


def parts_of(sample: Dataset) -> Iterator[slice]:
    """Slices of a sample that are evaluated at once."""
    return (slice(start, start + _ROWS) for start in range(0, sample.n, _ROWS))


def winners(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """The class that wins, and whether it does beyond the tolerance of counting."""
    from codebound.learn.picking import is_wrong  # a message needs no picks

    labels = outputs.argmax(1)
    return labels, ~is_wrong(outputs, labels)
