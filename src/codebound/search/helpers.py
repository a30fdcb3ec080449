"""Helpers that are ready made: networks of the first part of a sample, whatever is chosen inside of it.

Nothing of the rest enters, so nothing of what is chosen here is paid for: ``kernel_helper`` as
the helper of ``certify`` is the hold-out bound of a kernel learner and 7 bits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from codebound.data.dataset import Dataset, Scaling
from codebound.errors import ModelError, UsageError
from codebound.picks.features import ColumnFeatures, RoomError
from codebound.picks.network import PickedNetwork
from codebound.picks.picking import features_of, learner_of, permutation
from codebound.picks.ridge import exact_products
from codebound.picks.rule import Rule
from codebound.search.picked import families_of
from codebound.search.rivals import errors_after

if TYPE_CHECKING:
    from torch import Tensor

_RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
_FIFTH = 5
_CENTRES = 6000  # examples that the kernel is taken with
_PART = 4000  # examples that learners are compared on
_KNOWN = 3000  # examples that features are made of
_STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))  # of width and ridge
_INDICES = range(16)


@torch.no_grad()
def kernel_helper(first: Dataset) -> nn.Module:
    """Kernel ridge regression from all of a first part, with at most 6,000 of its examples as centres.

    Features, width and ridge are those with the fewest errors when four fifths of a part are learned from.
    """
    known = Dataset(
        first.name, first.role, first.scaling.apply(torch.from_numpy(first.x)).numpy(), first.y, first.classes
    )
    rule = replace(_best_rule(known), first=min(_KNOWN, known.n))
    features, vectors = features_of(rule, known)
    rows = torch.from_numpy(permutation(known.n)[:_CENTRES].copy())
    labels = torch.from_numpy(known.y)
    learner = learner_of(rule, features, vectors, labels, classes=known.classes, capacity=len(rows))
    with exact_products():
        learner.add(rows)
        coefficients = learner.fitted_to_all()
    return PickedNetwork(
        rule,
        Scaling().divisor,
        picks=torch.from_numpy(known.x)[rows],
        examples=rows,
        coefficients=coefficients[None],
        known=features.tensors,
    )


def _best_rule(sample: Dataset) -> Rule:
    """The learner with the fewest errors, all of them counted inside a part of the first part."""
    part = sample
    if sample.n > _PART:
        part = sample.select(permutation(sample.n)[:_PART], role="train")
    size = max(1, part.n - part.n // _FIFTH)
    found: dict[Rule, int] = {}

    def errors(rule: Rule) -> int:
        if rule not in found:
            try:
                (found[rule],), _ = errors_after([size], rule, part, "cpu")
            except (ModelError, RoomError):
                found[rule] = part.n
        return found[rule]

    starts = [replace(rule, copies=rule.copies if rule.is_mirrored else 0) for rule in families_of(part)]
    if not starts[0].features.has_pictures:
        starts.append(Rule(ColumnFeatures(True), gamma_index=11, ridge_index=5))
    best = min(starts, key=errors)
    if found[best] == part.n:
        raise UsageError("no kernel suits these inputs. Give a helper of your own.")
    is_better = not best.features.has_pictures  # whose features take long
    while is_better:
        moved = min(_moves(best), key=errors)
        is_better = found[moved] < found[best]
        best = moved if is_better else best
    return best


def _moves(rule: Rule) -> list[Rule]:
    """The same learner with another width or ridge."""
    pairs = [(rule.gamma_index + wider, rule.ridge_index + more) for wider, more in _STEPS]
    return [
        replace(rule, gamma_index=gamma, ridge_index=ridge)
        for gamma, ridge in pairs
        if gamma in _INDICES and ridge in _INDICES
    ]


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
