"""A rule that learns from rows of a sample, what is usual, and its limits (docs/format.md, 7.2 and 7.10)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from codebound.learn.column_features import ColumnFeatures
from codebound.learn.features import MAX_SIZE, AbstractFeatures, FilterFeatures, is_picture
from codebound.learn.images import COPIES
from codebound.learn.patch_features import PatchFeatures
from codebound.run.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codebound.learn.images import Change

FIRST = (10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10_000, 15_000, 20_000, 30_000)
BATCHES = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300, 400, 500),
    *(600, 800, 1000, 1250, 1500, 2000, 2500),
)
ROUNDS = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 23, 26, 30, 34, 38, 43, 48, 54, 61, 69, 78, 88, 99),
    *(112, 126, 142, 160),
)
MIRRORED, _MOVED = 1, 2
LONGEST = 8
"""Most rows by which a round is longer."""
NUMBERS = {"gamma_index": 16, "ridge_index": 16, "score_index": 8}
"""Numbers of a rule, and how many values each has."""
MOST_SUPPORTS, MOST_NUMBERS = 1 << 15, 1 << 30  # in a kernel; of picks supports are points, too
_COPIED = 10_000  # supports up to which pictures are learned from with copies


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule that picks rows, where it has rounds, and learns.

    Attributes:
        features: What the learner sees of an input.
        weights: How much the numbers that tell classes apart count more: 0, or 1 to 3, the larger the more.
        copies: Which changed copies a picture is learned from with.
        gamma_index: Of the kernel's width, gamma = 2^(index - 5).
        ridge_index: Of the ridge, 2^(index - 8).
        score_index: Rows with a margin near -(index + 1) / 8 are picked.
        batch: Rows picked in a round.
        rounds: Number of rounds; 0 where nothing is picked.
        longer: Rounds that pick some more, with how many: where two rows are too close to tell apart.
    """

    features: AbstractFeatures = field(default_factory=ColumnFeatures)
    weights: int = 0
    copies: int = 0
    gamma_index: int = 4
    ridge_index: int = 4
    score_index: int = 3
    batch: int = 10
    rounds: int = 0
    longer: tuple[tuple[int, int], ...] = ()

    @property
    def gamma(self) -> float:
        """Width of the kernel, inverted."""
        return 2.0 ** (self.gamma_index - 5)

    @property
    def ridge(self) -> float:
        """Ridge on the diagonal of the kernel matrix."""
        return 2.0 ** (self.ridge_index - 8)

    @property
    def wanted_margin(self) -> float:
        """Rows with a margin near this are picked."""
        return -(self.score_index + 1) / 8.0

    @property
    def is_mirrored(self) -> bool:
        """Return True if a row and its mirror image share a support."""
        return self.copies == MIRRORED

    def batch_of(self, round_: int) -> int:
        """Rows picked in a round."""
        return self.batch + dict(self.longer).get(round_, 0)

    @property
    def picks(self) -> int:
        """Rows picked in all, without the first ones."""
        return self.rounds * self.batch + sum(more for _, more in self.longer)

    @property
    def supports_each(self) -> int:
        """Supports that one row becomes."""
        return 1 if self.is_mirrored else len(COPIES[self.copies])

    def changes(self) -> tuple[Change, ...]:
        """Return what makes the supports of a row."""
        return COPIES[self.copies][: self.supports_each]

    def check(self, shape: tuple[int, ...], *, n: int, learned: int, classes: int, dimension: int) -> None:
        """Refuse what takes more work than the format allows.

        Args:
            shape: Of an input.
            n: Rows of the sample.
            learned: Rows that are learned from in the end.
            classes: Number of classes.
            dimension: Numbers in a vector of features.
        """
        supports = self.supports_each * learned
        is_within = (
            supports <= MOST_SUPPORTS
            and (n + bool(self.rounds) * supports) * supports <= MOST_NUMBERS
            and (n + supports) * dimension <= 1 << 31
            and (n + supports) * classes <= 1 << 26
            and n * supports * classes * (self.rounds + 1) <= 1 << 44
            and dimension <= MAX_SIZE
        )
        if is_within and isinstance(self.features, PatchFeatures):
            places, size = math.prod(self.features.places(shape)), shape[0] * self.features.size**2
            work = places * (self.features.count + size)
            known = learned - self.picks
            is_within = (
                work <= 1 << 25
                and work * size <= 1 << 30
                and n * work * size <= 1 << 46
                and known * places * size**2 <= 1 << 40
            )
        if not is_within:
            raise ModelError(
                f"{supports} supports of {dimension} numbers for {n} rows are more than a certificate may "
                "ask of a verifier: learn from fewer rows, or take features with fewer numbers."
            )


def usual_rule(shape: tuple[int, ...], known: int) -> Rule:
    """The usual features and copies for inputs of a shape, when so many rows are known.

    Gamma, ridge and score are those that picks have as usual; those of a split are chosen (``usual_kernel``).
    """
    sides = shape[1:] or (0,)
    if is_picture(shape) and shape[0] == 1 and min(sides) >= 6:
        copies = _MOVED if len(COPIES[_MOVED]) * known <= _COPIED else 0
        return Rule(FilterFeatures(True, 3, min(5, max(2, min(sides) // 7))), copies=copies)
    if is_picture(shape) and shape[0] == 3 and min(sides) >= 16:
        return Rule(PatchFeatures(), copies=MIRRORED)
    return Rule()


def families_of(shape: tuple[int, ...], known: int) -> Iterator[Rule]:
    """A rule to start from for each kind of features that inputs may have."""
    usual = usual_rule(shape, known)
    if not usual.features.has_pictures:
        yield replace(usual, gamma_index=6, ridge_index=6)
        yield Rule(ColumnFeatures(True), gamma_index=6, ridge_index=6)
        yield Rule(ColumnFeatures(True), gamma_index=11, ridge_index=5)
        return
    yield replace(usual, ridge_index=6 if usual.is_mirrored else 8)
    side, colours = min(shape[1:]), min(2, shape[0])
    size, grid = (3, 3) if side < 16 else (5, 4) if side < 30 else (6, 3)
    features = PatchFeatures(size, 256 * colours, 4, grid, 3 * colours)
    for copies in (MIRRORED, 0):
        yield Rule(features, copies=copies, gamma_index=5, ridge_index=6)


def move_while(helps: Callable[[Rule, Rule], bool], rule: Rule, moves: Iterable[tuple[str, int]]) -> Rule:
    """A rule with its numbers moved by steps, each as far as one step after the other helps."""
    for name, step in moves:
        while 0 <= getattr(rule, name) + step < NUMBERS[name]:
            moved = replace(rule, **{name: getattr(rule, name) + step})
            if not helps(moved, rule):
                break
            rule = moved
    return rule
