"""Other ways to spend the same labels: a hold-out set of the best share, and a helper from a first part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from codebound.bounds.looked import looked_risk
from codebound.facts import LookFacts
from codebound.picks.picking import features_of, is_wrong, permutation
from codebound.picks.ridge import KernelRidge, exact_products

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from codebound.data.dataset import Dataset
    from codebound.picks.rule import Rule

SHARES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
"""Shares that a rival learns from; whoever takes the best of them pays for the choice."""
_MOST_VALUES = 60_000_000  # of the kernel of all examples with all that is learned from
_MOST_SUPPORTS = 4000
_RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
_FIFTH = 5


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What a hold-out set would have said of the same learner, without picks.

    Attributes:
        value: The bound at the share that came out best, with its choice paid for.
        learned: Examples that were learned from.
        errors: Errors on the others.
        n: The others.
        shares: Shares that were tried.
        is_whole: Whether all shares were; large ones cost time and memory.
    """

    value: float
    learned: int
    errors: int
    n: int
    shares: int
    is_whole: bool


@torch.no_grad()
def best_held_out(
    rule: Rule, sample: Dataset, *, delta: float, device: str | torch.device = "cpu"
) -> HeldOut:
    """The smallest hold-out bound of the learner of a rule, over the shares that are affordable.

    The shares are fixed beforehand, so the best of them costs as much as that many looks (C-16).
    """
    copies = 1 if rule.is_mirrored else len(rule.changes())
    sizes = [max(1, round(share * sample.n)) for share in SHARES]
    if max(sizes) * copies > _MOST_SUPPORTS:
        rule, copies = replace(rule, copies=rule.copies if rule.is_mirrored else 0), 1
    room = min(_MOST_SUPPORTS, _MOST_VALUES // sample.n)
    tried = [size for size in sizes if size * copies <= room] or [max(1, min(sizes[0], room))]
    found = []
    for size, errors in zip(tried, _errors_after(tried, rule, sample, device), strict=True):
        n = sample.n - size
        value = looked_risk(LookFacts(errors=errors, n=n, delta=delta, looks=len(tried))).value
        found.append(HeldOut(value, size, errors, n, len(tried), len(tried) == len(sizes)))
    return min(found, key=lambda each: each.value)


def _errors_after(sizes: list[int], rule: Rule, sample: Dataset, device: str | torch.device) -> Iterator[int]:
    """Errors on the rest after learning from so many of the first examples, in the order of C-10."""
    features, vectors = features_of(rule, sample, device=device)
    labels = torch.from_numpy(sample.y).to(vectors.device)
    order = torch.from_numpy(permutation(sample.n)).to(vectors.device)
    changes = () if rule.is_mirrored else rule.changes()[1:]
    with exact_products():
        learner = KernelRidge(
            vectors,
            labels,
            classes=sample.classes,
            gamma=rule.gamma,
            unit=features.unit,
            ridge=rule.ridge,
            is_joined=rule.is_mirrored,
            capacity=sizes[-1] * (len(changes) + 1),
        )
        for start, stop in zip([0, *sizes], sizes, strict=False):
            rows = order[start:stop]
            copies: list[Tensor] = []
            if changes:
                stored = torch.from_numpy(sample.x[rows.cpu().numpy()]).to(rows.device)
                pictures = features.settings.read(stored, features.divisor)
                copies = [features.of_pictures(change(pictures)) for change in changes]
            learner.add(rows, copies)
            wrong = is_wrong(learner.outputs(learner.coefficients()), labels)
            yield int(wrong[order[stop:]].sum())


def linear_helper(first: Dataset) -> nn.Module:
    """A linear network by ridge regression from a first part, whose ridge is chosen inside that part."""
    x = first.scaling.apply(torch.from_numpy(first.x), torch.float64).flatten(1)
    middle = x.mean(0)
    targets = torch.full((first.n, first.classes), -1.0, dtype=torch.float64)
    targets[torch.arange(first.n), torch.from_numpy(first.y)] = 1.0
    x = x - middle
    is_kept = torch.arange(first.n) % _FIFTH == 0
    unit = float(x.square().sum(1).mean()) or 1.0

    def errors(ridge: float) -> int:
        weight, bias = _ridge(x[~is_kept], targets[~is_kept], ridge * unit)
        scores = x[is_kept] @ weight + bias
        return int((scores.argmax(1) != targets[is_kept].argmax(1)).sum())

    ridge = min(_RIDGES, key=errors) if first.n > _FIFTH else _RIDGES[-1]
    weight, bias = _ridge(x, targets, ridge * unit)
    network = nn.Sequential(nn.Flatten(), nn.Linear(x.shape[1], first.classes))
    linear = network[1]
    assert isinstance(linear, nn.Linear)
    with torch.no_grad():
        linear.weight.copy_(weight.T)
        linear.bias.copy_(bias - middle @ weight)
    return network.eval()


def _ridge(x: Tensor, targets: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Weights and biases; the smaller of the two systems is solved."""
    bias = targets.mean(0)
    if len(x) < x.shape[1]:
        inner = x @ x.T + ridge * torch.eye(len(x), dtype=x.dtype)
        return x.T @ torch.linalg.solve(inner, targets - bias), bias
    inner = x.T @ x + ridge * torch.eye(x.shape[1], dtype=x.dtype)
    return torch.linalg.solve(inner, x.T @ (targets - bias)), bias
