"""A rule that learns from rows of a sample, what is usual, and its limits (docs/format.md, 7.2 and 7.10)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from codebound.bits.plain_code import PICKS, SPLIT, USUAL_SPLIT, PlainWriter, code_form
from codebound.learn.column_features import ColumnFeatures
from codebound.learn.features import MAX_SIZE, AbstractFeatures, FilterFeatures, is_picture
from codebound.learn.images import COPIES
from codebound.learn.patch_features import PatchFeatures
from codebound.run.errors import ModelError, UsageError
from codebound.sample.order import coded_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codebound.bits.plain_code import Bits, Ledger, PlainCoder
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
        """Refuse what takes more work than the format allows."""
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


FEATURES: dict[int, type[AbstractFeatures]] = {
    each.kind: each for each in (ColumnFeatures, FilterFeatures, PatchFeatures)
}
_OF_PICKS = ("batch", "rounds", "longer")  # chosen for a sample, whatever its inputs are


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """The words of a rule in a message.

    Attributes:
        form: Usual split, another split, or picks.
        share: Number of the known share of another split; place of the first rows of picks in their list.
        rule: The rule; of the usual split the kernel is found, not said.
        classes: Of picks.
    """

    form: str = USUAL_SPLIT
    share: int = 0
    rule: Rule = field(default_factory=Rule)
    classes: int = 2

    @classmethod
    def of(cls, form: str, rule: Rule, *, first: int, units: int, classes: int) -> RuleChoice:
        """The words for a known share of ``first`` units of a sample."""
        if form != PICKS:
            shares = [at for at in range(16 if form == SPLIT else 1) if coded_share(at, units) == first]
        else:
            shares = [at for at, each in enumerate(FIRST) if each == first]
        if not shares:
            raise UsageError(f"no message of the form {form!r} names a known share of {first} of {units}.")
        return cls(form, shares[0], rule, classes)

    def first(self, units: int) -> int:
        """The known share of a sample of so many units."""
        return FIRST[self.share] if self.form == PICKS else coded_share(self.share, units)

    def encode(self, input_shape: tuple[int, ...]) -> tuple[Bits, Ledger]:
        """The message from its word on."""
        writer = PlainWriter()
        code_rule(writer, code_form(writer, self.form), self, input_shape=input_shape)
        return writer.finish(), writer.ledger


def code_rule(
    coder: PlainCoder, form: str, choice: RuleChoice | None = None, *, input_shape: tuple[int, ...]
) -> RuleChoice:
    """The words behind that of a form: written, or read."""
    given = choice or RuleChoice(form)
    if form == USUAL_SPLIT:
        return given
    if form == SPLIT:
        share = coder.code(given.share, 4)
        coder.note("share")
        rule = _code_learner(coder, given.rule, input_shape)
        coder.note("rule")
        return RuleChoice(form, share, rule)
    classes = coder.gamma(given.classes - 1) + 1
    coder.note("classes")
    share = coder.code(given.share, 4)
    coder.note("first")
    rule = _code_picks(coder, given.rule, FIRST[share], input_shape)
    coder.note("rule")
    rule = replace(rule, longer=_code_longer(coder, given.rule.longer, rule.rounds))
    coder.note("longer")
    return RuleChoice(form, share, rule, classes)


def _code_picks(coder: PlainCoder, rule: Rule, first: int, input_shape: tuple[int, ...]) -> Rule:
    usual = usual_rule(input_shape, first)
    is_usual = replace(rule, **{name: getattr(usual, name) for name in _OF_PICKS}) == usual
    if coder.flag(is_usual):
        found = usual
    else:
        found = _code_learner(coder, rule, input_shape)
        found = replace(found, score_index=coder.code(rule.score_index, 3))
    batch = BATCHES[coder.code(BATCHES.index(rule.batch), 5)]
    return replace(found, batch=batch, rounds=ROUNDS[coder.code(ROUNDS.index(rule.rounds or 1), 5)])


def _code_learner(coder: PlainCoder, rule: Rule, input_shape: tuple[int, ...]) -> Rule:
    """Features, weights, copies, kernel and ridge."""
    kind = coder.code(rule.features.kind, 2) if is_picture(input_shape) else ColumnFeatures.kind
    coder.require(kind in FEATURES, "features of kind 3 are reserved.")
    features = FEATURES[kind].code(coder, rule.features)
    weights = coder.code(rule.weights, 2)
    copies = coder.code(rule.copies, 3) if features.has_pictures else 0
    found = Rule(features, weights, copies)
    coder.require(
        not found.is_mirrored or kind == PatchFeatures.kind, "only patches have mirror images as one support."
    )
    gamma_index = coder.code(rule.gamma_index, 4)
    return replace(found, gamma_index=gamma_index, ridge_index=coder.code(rule.ridge_index, 4))


def _code_longer(
    coder: PlainCoder, given: tuple[tuple[int, int], ...], rounds: int
) -> tuple[tuple[int, int], ...]:
    count = coder.gamma(len(given) + 1) - 1
    coder.require(count <= rounds, f"{count} of {rounds} rounds cannot be longer.")
    found, last = [], -1
    for at in range(count):
        number, more = given[at] if at < len(given) else (last + 1, 1)
        last += coder.gamma(number - last)
        coder.require(last < rounds, f"round {last} of {rounds} cannot be longer.")
        found.append((last, coder.code(more - 1, 3) + 1))
    return tuple(found)
