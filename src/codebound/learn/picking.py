"""Picking, learning and counting: a rule carried out on a sample (docs/format.md, 10.6)."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.bits.stream import Stream
from codebound.bounds.facts import PickedFacts
from codebound.bounds.risk import count_of
from codebound.learn.features import RoomError
from codebound.learn.ridge import KernelRidge, Width, fold
from codebound.learn.rule import ROUNDS
from codebound.run.device import exact_products
from codebound.run.errors import UsageError
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.losses import margins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.learn.features import FeatureMap
    from codebound.learn.rule import Rule
    from codebound.learn.spread import Spread
    from codebound.sample.dataset import Dataset
    from codebound.sample.losses import Loss

_TOLERANCE = 1e-4  # as in counting; a verifier uses half of these three
_LEAST_MARGIN = 1e-6
_GAP = 1e-6
_ROUNDING = 0.6e-7  # a verifier allows 1e-7
_LONGEST = 8
_CHUNK = 500
_PATIENCE = 8
FEATURES = "features"
"""Name of the progress before the first round."""


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """Counts after some rounds.

    Attributes:
        picks: Examples picked until then, without the first ones.
        errors: Examples outside of these that are wrong.
    """

    picks: int
    errors: int

    @property
    def counted(self) -> int:
        """Count that enters the bound."""
        return self.picks + self.errors


@dataclass(frozen=True, eq=False)
class Learned:
    """A network after some rounds: what is left of the learner, whose kernel takes gigabytes.

    Attributes:
        coefficients: Of every support, shape (supports, classes).
        outputs: What the network says of every example of the sample.
    """

    coefficients: Tensor
    outputs: Tensor

    def on_cpu(self) -> Learned:
        """The same where the sample is."""
        return Learned(self.coefficients.cpu(), self.outputs.cpu())


def _least(rounds: Sequence[RoundCounts]) -> int:
    """The number of rounds, of those with a code, at which the bound is smallest."""
    return min((each for each in ROUNDS if each < len(rounds)), key=lambda each: rounds[each].counted)


@dataclass(frozen=True, eq=False)
class Picked:
    """A rule with what it picked.

    Attributes:
        rule: The rule, with the rounds that had to be longer.
        order: Examples in the order of picking, the first ones included.
        rounds: What was counted before the first round and after each.
        gap: The smallest gap between an example that was picked and one that was not.
        rounding: The largest bound on rounding errors.
        features: The feature map.
        dimension: Numbers in a vector of features, as the learner takes it.
        learned: What was learned in the end.
        least: What was learned at the number of rounds, of those with a code, at which the bound is smallest.
        n: Examples of the sample.
        is_interrupted: Whether there would have been more rounds.
    """

    rule: Rule
    order: NDArray[np.int64]
    rounds: tuple[RoundCounts, ...]
    gap: float
    rounding: float
    features: FeatureMap
    dimension: int
    learned: Learned
    least: Learned
    n: int
    is_interrupted: bool = False

    @property
    def last(self) -> RoundCounts:
        """Counts at the end."""
        return self.rounds[-1]

    def best(self) -> Picked:
        """The same after that number of rounds, of those with a code, at which the bound is smallest."""
        rounds = _least(self.rounds)
        longer = tuple(pair for pair in self.rule.longer if pair[0] < rounds)
        rule = replace(self.rule, rounds=rounds, longer=longer)
        kept = self.rounds[: rounds + 1]
        order = self.order[: rule.first + rule.picks]
        return replace(self, rule=rule, order=order, rounds=kept, learned=self.least)

    def facts(self, *, code_bits: int, delta: float, classes: int) -> PickedFacts:
        """Return the inputs of the bound."""
        return PickedFacts(
            picks=self.last.picks,
            errors=self.last.errors,
            n=self.n - self.rule.first,
            n_first=self.rule.first,
            code_bits=code_bits,
            delta=delta,
            classes=classes,
            is_held_out=self.rule.rounds == 0,
        )


def is_wrong(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return a mask of wrong and nearly wrong outputs. Another machine might count the latter as wrong."""
    return _too_small(margins(outputs, labels), outputs)


def losses_of(outputs: Tensor, labels: Tensor, loss: Loss) -> int:
    """Count the outputs that incur a loss, or nearly. Another machine might count the latter."""
    return int(_too_small(loss.leads(outputs, labels), outputs).sum())


def _too_small(leads: Tensor, outputs: Tensor) -> Tensor:
    room = (_TOLERANCE * outputs.abs().amax(dim=1)).clamp(min=_LEAST_MARGIN)
    return ~(leads > room)  # negated, so that what is not finite is a loss


def permutation(n: int) -> NDArray[np.int64]:
    """The fixed order of C-10, of which the first examples are taken."""
    return np.argsort(Stream(0, "split").words(n), kind="stable")


@implements("C-15:rule", kind="algorithm")
@torch.no_grad()
def pick(
    rule: Rule,
    sample: Dataset,
    *,
    device: str | torch.device = "cpu",
    is_checked: bool = True,
    patience: bool = False,
    features: tuple[FeatureMap, Tensor | Spread] | None = None,
    progress: Progress = silent,
) -> Picked:
    """Carries out a rule on a sample.

    Args:
        rule: The rule; rounds that do not separate what is picked from the rest become longer.
        sample: All examples, in their order.
        device: Where it is computed; the result is the same everywhere.
        is_checked: Whether rounding errors are bounded, as a certificate needs it; a search does not.
        patience: Whether to stop when the count has not fallen for some rounds, or no longer can: their
            number is coded.
        features: What ``features_of`` found, where it is known already, or ``spread_features``.
        progress: Told the rounds done.

    Raises:
        RoomError: Two machines might pick differently.
    """
    if rule.first + rule.picks >= sample.n:
        raise UsageError(f"{rule.first} first and {rule.picks} picked examples leave none of {sample.n}.")
    found, vectors = features or features_of(rule, sample, device=device, progress=progress)
    labels = torch.from_numpy(sample.y)
    if isinstance(vectors, torch.Tensor):
        labels = labels.to(vectors.device)
    with exact_products():
        return _Run(rule, sample, found, vectors, labels, is_checked).finish(progress, patience=patience)


def learner_of(
    rule: Rule,
    features: FeatureMap,
    vectors: Tensor | Spread,
    labels: Tensor,
    *,
    classes: int,
    capacity: int,
) -> KernelRidge:
    """The learner of a rule, which has no supports yet, for :func:`features_of` a sample and its labels."""
    return KernelRidge(
        vectors,
        labels,
        classes=classes,
        width=Width(rule.gamma, features.unit, rule.is_mirrored),
        ridge=rule.ridge,
        capacity=capacity,
    )


def features_of(
    rule: Rule, sample: Dataset, *, device: str | torch.device = "cpu", progress: Progress = silent
) -> tuple[FeatureMap, Tensor]:
    """The feature map of a rule, and the features of every example in 16 bits, as the learner takes them."""
    found = feature_map_of(rule, sample, device=device)
    stored = torch.from_numpy(np.ascontiguousarray(sample.x))
    return found, vectors_of(rule, found, stored, device=device, progress=progress)


def feature_map_of(rule: Rule, sample: Dataset, *, device: str | torch.device = "cpu") -> FeatureMap:
    """The feature map of a rule, which knows the first examples alone."""
    chosen = permutation(sample.n)[: rule.first]
    first, labels = (torch.from_numpy(each[chosen]).to(device) for each in (sample.x, sample.y))
    with exact_products(), torch.no_grad():
        return rule.features.fit_map(
            first, sample.scaling.divisor, is_mirrored=rule.is_mirrored, labels=labels
        )


def vectors_of(
    rule: Rule,
    found: FeatureMap,
    stored: Tensor,
    *,
    device: str | torch.device = "cpu",
    progress: Progress = silent,
) -> Tensor:
    """The features of examples in 16 bits, as the learner takes them."""

    def made(start: int) -> Tensor:
        with torch.no_grad():  # which every thread has to say
            part = found(stored[start : start + _CHUNK].to(device)).to(torch.int16)
        return fold(*found.settings.halves(part)) if rule.is_mirrored else part

    vectors = None
    with exact_products():
        for start, part in _side_by_side(
            made, range(0, len(stored), _CHUNK), is_on_cpu=torch.device(device).type == "cpu"
        ):
            if vectors is None:
                vectors = torch.empty(len(stored), part.shape[1], dtype=torch.int16, device=part.device)
            vectors[start : start + len(part)] = part
            progress(start, len(stored), FEATURES)
    assert vectors is not None  # a sample has an example
    return vectors


def _side_by_side(
    made: Callable[[int], Tensor], starts: range, *, is_on_cpu: bool
) -> Iterator[tuple[int, Tensor]]:
    """Make the parts in parallel, in order. The steps are small, so that each core has a part of its own."""
    threads = torch.get_num_threads()
    if not is_on_cpu or threads == 1:
        yield from ((start, made(start)) for start in starts)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for at in range(0, len(starts), 2 * threads):
                some = starts[at : at + 2 * threads]
                yield from zip(some, pool.map(made, some), strict=True)
    finally:
        torch.set_num_threads(threads)


class _Run:
    """A rule while it is carried out."""

    def __init__(
        self,
        rule: Rule,
        sample: Dataset,
        features: FeatureMap,
        vectors: Tensor | Spread,
        labels: Tensor,
        is_checked: bool,
    ) -> None:
        self.rule, self.sample, self.features, self.labels = rule, sample, features, labels
        self.is_checked = is_checked
        capacity = (rule.first + rule.rounds * (rule.batch + _LONGEST)) * rule.supports_each
        self.learner = learner_of(rule, features, vectors, labels, classes=sample.classes, capacity=capacity)
        self.is_picked = torch.zeros(sample.n, dtype=torch.bool, device=labels.device)
        self.gap, self.rounding = math.inf, 0.0
        self.longer: list[tuple[int, int]] = []

    def finish(self, progress: Progress, *, patience: bool) -> Picked:
        """Everything that the rule picks; if interrupted, what it picked until then."""
        rows = torch.from_numpy(permutation(self.sample.n)[: self.rule.first]).to(self.labels.device)
        order: list[Tensor] = []
        rounds: list[RoundCounts] = []
        known: dict[int, Learned] = {}
        is_interrupted = False
        try:
            for number in range(self.rule.rounds + 1):
                self._add(rows)
                known[number] = learned = self._record(number)
                order.append(rows)
                wrong = is_wrong(learned.outputs, self.labels)
                picks = int(self.is_picked.sum()) - self.rule.first
                rounds.append(RoundCounts(picks, int((wrong & ~self.is_picked).sum())))
                known = {each: known[each] for each in (_least(rounds), number)}
                progress(
                    number,
                    self.rule.rounds,
                    f"{count_of(picks, 'pick')}, {count_of(rounds[-1].errors, 'error')}",
                )
                if number == self.rule.rounds or (patience and self._is_done(rounds)):
                    break
                rows = self._next(margins(learned.outputs, self.labels), number)
        except RoomError:
            if not (patience and rounds):  # the rounds until then are sound
                raise
        except KeyboardInterrupt:
            if not rounds:
                raise
            is_interrupted = True
        return Picked(
            rule=replace(self.rule, longer=tuple(self.longer)),
            order=torch.cat(order).cpu().numpy(),
            rounds=tuple(rounds),
            gap=self.gap,
            rounding=self.rounding,
            features=self.features,
            dimension=self.learner.dimension,
            learned=known[len(rounds) - 1].on_cpu(),
            least=known[_least(rounds)].on_cpu(),
            n=self.sample.n,
            is_interrupted=is_interrupted,
        )

    def _is_done(self, rounds: Sequence[RoundCounts]) -> bool:
        """Return True if further rounds are unlikely to help.

        The count has not fallen for long, or the next picks alone are as many as its least.
        """
        least = min(range(len(rounds)), key=lambda at: rounds[at].counted)
        next_picks = rounds[-1].picks + self.rule.batch
        return len(rounds) - 1 - least >= _PATIENCE or next_picks >= rounds[_least(rounds)].counted

    def _add(self, rows: Tensor) -> None:
        self.is_picked[rows] = True
        changes = () if self.rule.supports_each == 1 else self.rule.changes()[1:]
        stored = torch.from_numpy(self.sample.x[rows.cpu().numpy()]).to(rows.device)
        self.learner.add(rows, [self.features(stored, change) for change in changes])

    def _record(self, number: int) -> Learned:
        coefficients = self.learner.coefficients()
        if self.is_checked:
            found = self.learner.bound_rounding(coefficients)
            self.rounding = max(self.rounding, found)
            if not found <= _ROUNDING:
                raise RoomError(
                    f"rounding errors may reach {found:.1e} in round {number}: take a larger ridge."
                )
        return Learned(coefficients, self.learner.outputs(coefficients))

    def _next(self, margin: Tensor, number: int) -> Tensor:
        """The examples with the smallest scores; some more of them where the next one is too close."""
        scores = (margin - self.rule.wanted_margin).abs_().masked_fill_(self.is_picked, math.inf)
        most = min(self.rule.batch + _LONGEST + 1, int((~self.is_picked).sum()))
        found = scores.topk(most, largest=False)
        for count in range(self.rule.batch, most):
            gap = float(found.values[count] - found.values[count - 1])
            if gap > _GAP or self._are_copies(found.values, found.indices, count):
                self.gap = min(self.gap, gap) if gap > _GAP else self.gap
                if count > self.rule.batch:
                    self.longer.append((number, count - self.rule.batch))
                return found.indices[:count]
        raise RoomError(f"examples cannot be told apart in round {number}: take another batch size.")

    def _are_copies(self, scores: Tensor, indices: Tensor, count: int) -> bool:
        """Return True if all examples around the border are copies of one.

        Then it does not matter which go in.
        """
        low, high = float(scores[count]) - _GAP, float(scores[count - 1]) + _GAP
        near = indices[(scores >= low) & (scores <= high)].tolist()
        if float(scores[-1]) <= high:
            return False  # there may be more of them
        contents = {(int(self.sample.y[each]), self.sample.x[each].tobytes()) for each in near}
        return len(contents) == 1
