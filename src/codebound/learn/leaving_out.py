"""The kernel that suits rows, by errors on each when it is left out (docs/format.md, 7.7)."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.learn.features import RoomError
from codebound.learn.kernels import Kernel
from codebound.learn.prepared import features_of
from codebound.learn.rule import Rule, families_of, move_while
from codebound.learn.vectors import vectors_of
from codebound.run.device import exact_products
from codebound.run.errors import ModelError, UsageError
from codebound.run.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.learn.prepared import Prepared
    from codebound.sample.order import Arranged

_GAMMAS = {True: (3, 4, 5), False: (4, 5, 6, 7)}  # indices that are tried, by whether inputs are pictures
_RIDGES = {True: (2, 4, 6), False: (2, 4, 6, 8)}
_ROWS = 1000  # that the usual kernel is chosen on
_APART = 1e-9  # relatively, by which the second best is worse; a verifier asks for half of it
_PART = 2400  # rows that learners are compared on
_SUPPORTS = 4000  # at most, where changed copies are learned from too
_LEAST = 12  # rows that learners can be compared on
_NEAR = 1.2  # times the fewest errors: what makes no more is moved too
_CLEARLY = 0.9  # of a sum of squares
_MOVED = 2  # kinds of features whose numbers are moved
_NEXT, _FAR = (-1, 1), (-1, 1, -3, 3)  # steps on the grids of width and ridge


def leave_out(inner: Tensor, ridge: float, targets: Tensor, groups: Tensor) -> Tensor:
    """Targets less what is said by a learner without the group of each support.

    Args:
        inner: The kernel of supports, whose diagonal is changed.
        ridge: What is added to it.
        targets: Of each support.
        groups: Number of the group of each, from 0.
    """
    inner.diagonal().add_(ridge)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(inner))
    found, order = inverse @ targets, groups.argsort(stable=True)
    sizes = groups.bincount()
    for size in set(sizes.tolist()):
        rows = order[sizes[groups[order]] == size].view(-1, size)
        blocks = inverse[rows[:, :, None], rows[:, None, :]]
        found[rows] = torch.linalg.solve(blocks, found[rows])
    return found


@torch.no_grad()
def usual_kernel(rule: Rule, arranged: Arranged, first: int, prepared: Prepared) -> tuple[Rule, bool]:
    """The rule with the kernel that suits its known rows best, and whether it is clearly the best one."""
    known = arranged.split(first)[0]
    rows, labels, vectors = known[:_ROWS], arranged.sample.y, prepared.vectors
    at = torch.from_numpy(rows)
    own = vectors[at] if isinstance(vectors, torch.Tensor) else vectors.vectors_at(at)
    groups = _number(arranged.inputs[rows]).to(own.device)
    targets = _targets(labels[rows], np.unique(labels[known])).to(own.device)
    is_picture, found = rule.features.has_pictures, []
    with exact_products():
        # to the rows as they are, not to their mirror images
        apart = Kernel.of(rule, prepared.features).distances(own, own)[0]
    for gamma, ridge in itertools.product(_GAMMAS[is_picture], _RIDGES[is_picture]):
        tried = replace(rule, gamma_index=gamma, ridge_index=ridge)
        inner = Kernel(tried.gamma, prepared.features.unit).values([apart.clone()])
        errors = leave_out(inner, tried.ridge, targets, groups)
        found.append((float(errors.square().mean()), tried))
    found.sort(key=lambda each: each[0])
    (least, best), (second, _) = found[:2]
    return best, second - least > _APART * least


def _number(inputs: NDArray[np.int64]) -> Tensor:
    """Groups of equal numbers, numbered from 0."""
    return torch.from_numpy(np.unique(inputs, return_inverse=True)[1].reshape(-1))


def _targets(labels: NDArray[np.int64], classes: NDArray[np.int64]) -> Tensor:
    """+1 for the class of a row and -1 for the others."""
    return torch.from_numpy(np.where(labels[:, None] == classes, 1.0, -1.0))


@torch.no_grad()
def best_rule(
    arranged: Arranged, first: int, *, device: str | torch.device = "cpu", progress: Progress = silent
) -> Rule:
    """The learner with the fewest errors on known rows that are left out.

    Raises:
        UsageError: There are too few of them, or no learner suits them.
    """
    rows = arranged.split(first)[0][:_PART]
    if len(rows) < _LEAST:
        raise UsageError(f"a kernel is learned from at least {_LEAST} rows. Got {len(rows)}.")
    tried: list[_Trial] = []
    for family in families_of(arranged.sample.input_shape, len(rows)):
        progress(len(tried), None, f"comparing learners on {len(rows)} rows")
        is_small = family.supports_each * len(rows) <= _SUPPORTS
        for rule in dict.fromkeys(
            (replace(family, copies=family.copies if family.is_mirrored else 0), family)
        ):
            if is_small or rule.supports_each == 1:
                with suppress(ModelError, RoomError):
                    tried.append(_Trial(rule, arranged, rows, device))
    if not tried:
        raise UsageError("no kernel suits these inputs. Give scores of a learner of your own.")
    tried.sort(key=_Trial.best)
    fewest = tried[0].best()[0]
    for trial in tried[:_MOVED]:
        if trial.best()[0] <= _NEAR * fewest:
            trial.improve()
    return min(tried, key=_Trial.best).rule


class _Trial:
    """One kind of features on known rows."""

    def __init__(
        self, rule: Rule, arranged: Arranged, rows: NDArray[np.int64], device: str | torch.device
    ) -> None:
        sample, count = arranged.sample, rule.supports_each
        self.rule, self.labels = rule, torch.from_numpy(sample.y[rows]).to(device)
        features, stored = features_of(rule, sample, rows, device=device), torch.from_numpy(sample.x[rows])
        vectors = torch.cat(
            [vectors_of(features, stored, change=change, device=device) for change in rule.changes()]
        )
        self.groups = _number(arranged.inputs[rows]).repeat(count).to(device)
        self.targets = _targets(sample.y[rows], np.arange(sample.classes)).repeat(count, 1).to(device)
        self.unit = features.unit
        with exact_products():
            self.apart = Kernel.of(rule, features).distances(vectors, vectors)
        self.found: dict[Rule, tuple[int, float]] = {}
        self._try(rule)

    def best(self) -> tuple[int, float]:
        """Errors and squared deviation at the best width and ridge."""
        return self.found[self.rule]

    def _try(self, rule: Rule) -> tuple[int, float]:
        """Errors on what is left out; and where these are the same, how far outputs are off."""
        if rule not in self.found:
            kernel = Kernel(rule.gamma, self.unit, rule.is_mirrored)
            inner = kernel.values([each.clone() for each in self.apart])
            off = leave_out(inner, rule.ridge, self.targets, self.groups)[: len(self.labels)]
            said = (self.targets[: len(off)] - off).argmax(1)
            self.found[rule] = int((said != self.labels).sum()), float(off.square().sum())
        return self.found[rule]

    def improve(self) -> None:
        """Moves width and ridge as long as errors become fewer, or outputs are clearly less far off.

        For tables, whose scale tells little of the width, farther too and until nothing helps: where one
        error more or less, which is rounding, ends a way, another one leads there.
        """

        def helps(moved: Rule, rule: Rule) -> bool:
            (errors, apart), (fewest, least) = self._try(moved), self.found[rule]
            return errors < fewest or (errors == fewest and apart <= _CLEARLY * least)

        is_table, before = not self.rule.features.has_pictures, None
        while before != self.rule:
            before = self.rule
            moves = itertools.product(("ridge_index", "gamma_index"), _FAR if is_table else _NEXT)
            self.rule = move_while(helps, before, moves)
            if not is_table:
                break
