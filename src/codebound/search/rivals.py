"""Other ways to spend the same labels: a hold-out set of the best share, and what a first part teaches.

Where a share is learned from and nothing is picked, the rest is a hold-out set too. A message says which
share and which learner: in at most 20 bits for tables, and for the usual learner of pictures.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from codebound.bounds.looked import looked_risk
from codebound.bounds.risk import percent
from codebound.certificate.picked import assess_picked
from codebound.errors import ModelError, UsageError
from codebound.facts import LookFacts
from codebound.numerics import binomial_inverse_upper
from codebound.picks.features import ColumnFeatures, RoomError
from codebound.picks.message import PickedMessage
from codebound.picks.picking import features_of, is_wrong, learner_of, permutation, pick
from codebound.picks.ridge import exact_products
from codebound.picks.rule import Rule, usual_rule
from codebound.search.search import UnsuitedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from codebound.data.dataset import Dataset
    from codebound.search.search import Search

TENTHS = (2, 3, 5, 7, 8, 9)
"""Of a sample, that a rival learns from; whoever takes the best of them pays for the choice."""
_MOST_VALUES = 60_000_000  # of the kernel of all examples with all that is learned from
_MOST_SUPPORTS = 4000
_RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
_FIFTH = 5
_LEAST = 12  # examples that a share can be taken of
_FEW = 1500  # examples for which learners are moved
_INDICES = 16  # of widths and ridges


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What a hold-out set would have said of the same learner, without picks.

    Attributes:
        rule: The learner; copies of what is learned from are left out where there would be too many.
        value: The bound at the share that came out best, with its choice paid for.
        learned: Examples that were learned from.
        tenths: Which share of the sample they are; None if less than any of them is affordable.
        errors: Errors on the others.
        n: The others.
        shares: Shares that were tried.
        is_whole: Whether all shares were; large ones cost time and memory.
    """

    rule: Rule
    value: float
    learned: int
    tenths: int | None
    errors: int
    n: int
    shares: int
    is_whole: bool


@torch.no_grad()
def best_held_out(
    rule: Rule,
    sample: Dataset,
    *,
    delta: float,
    keeps_copies: bool = False,
    device: str | torch.device = "cpu",
) -> HeldOut:
    """The smallest hold-out bound of the learner of a rule, over the shares that are affordable.

    The shares are fixed beforehand, so the best of them costs as much as that many looks (C-16).
    """
    copies = _copies_of(rule)
    sizes = {max(1, tenths * sample.n // 10): tenths for tenths in TENTHS}
    if max(sizes) * copies > _MOST_SUPPORTS and not keeps_copies:
        rule, copies = replace(rule, copies=rule.copies if rule.is_mirrored else 0), 1
    room = _room(sample.n) // copies
    tried = [size for size in sizes if size <= room] or [max(1, min(*sizes, room))]
    found = []
    for size, errors in zip(tried, _errors_after(tried, rule, sample, device), strict=True):
        n = sample.n - size
        value = looked_risk(LookFacts(errors=errors, n=n, delta=delta, looks=len(tried))).value
        found.append(
            HeldOut(rule, value, size, sizes.get(size), errors, n, len(tried), len(tried) == len(sizes))
        )
    return min(found, key=lambda each: each.value)


def _copies_of(rule: Rule) -> int:
    """Supports that one example becomes."""
    return 1 if rule.is_mirrored else len(rule.changes())


def _room(n: int) -> int:
    """Supports that are affordable for so many examples."""
    return min(_MOST_SUPPORTS, _MOST_VALUES // n)


def _errors_after(sizes: list[int], rule: Rule, sample: Dataset, device: str | torch.device) -> Iterator[int]:
    """Errors on the rest after learning from so many of the first examples, in the order of C-10."""
    features, vectors = features_of(rule, sample, device=device)
    labels = torch.from_numpy(sample.y).to(vectors.device)
    order = torch.from_numpy(permutation(sample.n)).to(vectors.device)
    changes = () if rule.is_mirrored else rule.changes()[1:]
    with exact_products():
        capacity = sizes[-1] * (len(changes) + 1)
        learner = learner_of(rule, features, vectors, labels, classes=sample.classes, capacity=capacity)
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


def propose_split(search: Search) -> None:
    """Share and learner of the best hold-out set that was found, as a rule that picks nothing (C-15)."""
    task, sample = search.task, search.task.sample
    if not task.claim.allows_picks or task.base is not None:
        raise UnsuitedError(
            "what learns from a share is a network of its own, counted on the rest of the sample."
        )
    if sample.n < _LEAST:
        raise UnsuitedError(f"a share needs at least {_LEAST} examples. Got {sample.n}.")
    if TENTHS[0] * sample.n // 10 > _room(sample.n):
        raise UnsuitedError(f"no share of {sample.n} examples is affordable; picks start with fewer.")
    promising = _Learners(search).best()
    if promising is None:
        raise UnsuitedError("no share of these examples can be learned from.")
    promise, rule = promising
    is_costly = rule.features.has_pictures and not search.is_asked
    if is_costly and search.best is not None and promise >= search.best.rank[0]:
        raise UnsuitedError(
            f"a share that is learned from promises {percent(promise)} here, and {search.method} came to "
            f"{percent(search.best.rank[0])}. To run it all the same, choose the method split."
        )
    try:
        picked = pick(rule, sample, device=search.device, progress=search.progress)
    except RoomError as error:
        raise UnsuitedError(f"no share can be learned from on every machine alike: {error}") from error
    search.offer(assess_picked(picked, task))


class _Learners:
    """Learners without picks, each at its best share, and the bounds that they promise."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.found: dict[Rule, tuple[float, Rule]] = {}

    def best(self) -> tuple[float, Rule] | None:
        """The smallest bound that is promised, and its rule."""
        search, shape = self.search, self.search.task.sample.input_shape
        starts = [usual_rule(shape)]
        if not starts[0].features.has_pictures:
            starts.append(Rule(ColumnFeatures(True), gamma_index=11, ridge_index=5))
        if search.best is not None and search.best.picked is not None:
            starts.append(search.best.picked.rule)
        for rule in starts:
            self._try(rule)
            if _copies_of(rule) > 1:
                self._try(rule, keeps_copies=True)
        if not self.found:
            return None
        if search.effort != "quick" and search.task.sample.n <= _FEW:
            self._improve()
        return min(self.found.values(), key=lambda each: each[0])

    def _improve(self) -> None:
        """Moves width and ridge of the best one while that helps."""
        rule = min(self.found, key=lambda each: self.found[each][0])
        for name, step in itertools.product(("gamma_index", "ridge_index"), (-1, 1)):
            while 0 <= getattr(rule, name) + step < _INDICES:
                moved = replace(rule, **{name: getattr(rule, name) + step})
                self._try(moved)
                if moved not in self.found or self.found[moved][0] >= self.found[rule][0]:
                    break
                rule = moved

    def _try(self, rule: Rule, *, keeps_copies: bool = False) -> None:
        task, device = self.search.task, self.search.device
        self.search.progress(len(self.found), None, f"shares that are learned from {self.search.note}")
        try:
            held = best_held_out(
                rule, task.sample, delta=task.delta, keeps_copies=keeps_copies, device=device
            )
        except (ModelError, RoomError):
            return
        if held.tenths is None:
            return
        plain = replace(held.rule, first=held.learned, rounds=0, longer=(), tenths=held.tenths, score_index=3)
        message = PickedMessage(task.options, plain, task.sample.input_shape)
        try:
            bits = message.encode()[0].length
        except UsageError:  # a literal scaling of pictures has no short code
            return
        promise = binomial_inverse_upper(held.errors, held.n, math.log(task.delta) - bits * math.log(2.0))
        if rule not in self.found or promise < self.found[rule][0]:
            self.found[rule] = promise, plain
        if self.search.held_out is None or held.value < self.search.held_out.value:
            self.search.held_out = held


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
