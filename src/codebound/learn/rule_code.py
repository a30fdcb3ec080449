"""The words of a rule in a message (docs/format.md, 5.4 and 5.5)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from codebound.bits.forms import PICKS, SPLIT, USUAL_SPLIT, code_form
from codebound.bits.plain_code import PlainWriter
from codebound.learn.column_features import ColumnFeatures
from codebound.learn.features import AbstractFeatures, FilterFeatures, is_picture
from codebound.learn.patch_features import PatchFeatures
from codebound.learn.rule import BATCHES, FIRST, ROUNDS, Rule, usual_rule
from codebound.run.errors import UsageError
from codebound.sample.order import coded_share

if TYPE_CHECKING:
    from codebound.bits.bitstring import Bits
    from codebound.bits.plain_code import Ledger, PlainCoder

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
