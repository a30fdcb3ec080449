"""The rule of a picked network, and its message: in place of architecture and tensors (docs/format.md, 10.1).

A rule that picks a tenth or more first and then nothing has a short message (docs/format-3.md, 10.9).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from codebound.bits.arithmetic import Reader, Writer
from codebound.bits.messages import PICKED, Options, code_options
from codebound.bits.numbers import bit, gamma, uniform
from codebound.bits.setting import (
    FORM,
    LOSS,
    NEW_LOSS,
    RULE,
    Setting,
    code_form,
    code_loss,
    code_scaling,
    has_other_loss,
    read_loss,
    write_loss,
)
from codebound.learn.feature_weights import AnyFeatures, LayerFeatures
from codebound.learn.features import FEATURES, ColumnFeatures, FilterFeatures, PatchFeatures, is_picture
from codebound.learn.images import mirror, move, rotate
from codebound.run.errors import FormatError
from codebound.sample.losses import WRONG

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from codebound.bits.arithmetic import AbstractCoder
    from codebound.bits.bitstring import Bits
    from codebound.bits.messages import Ledger

FIRST = (10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10_000, 15_000, 20_000, 30_000)
BATCHES = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300, 400, 500),
    *(600, 800, 1000, 1250, 1500, 2000, 2500),
)
ROUNDS = (
    *(0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 23, 26, 30, 34, 38, 43, 48, 54, 61, 69, 78, 88, 99),
    *(112, 126, 142, 160),
)
MIRRORED = 1
_MOVED = 2
_TURN = 178
_NEAR = ((0, 1), (0, -1), (1, 0), (-1, 0))
_DIAGONAL = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_LONGER = 8
_OF_THE_SIZE = ("first", "batch", "rounds", "longer")  # chosen for a sample, whatever its inputs are
_WITHOUT_PICKS = (*_OF_THE_SIZE, "tenths", "score_index")
_OF_THE_LEARNER = ("gamma_index", "ridge_index", "score_index")


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule that picks examples and learns from them.

    Attributes:
        features: What the learner sees of an input.
        first: Examples it starts with, which are not counted.
        copies: Which changed copies a picked picture enters with.
        gamma_index: Of the kernel's width, gamma = 2^(index - 5).
        ridge_index: Of the ridge, 2^(index - 8).
        score_index: Examples with a margin near -(index + 1) / 8 are picked.
        batch: Examples picked in a round.
        rounds: Number of rounds.
        longer: Rounds that pick some more, with how many: where two examples are too close to tell apart.
        tenths: Of the sample, that come first where nothing is picked; None: their number is coded.
    """

    features: AnyFeatures = field(default_factory=ColumnFeatures)
    first: int = 100
    copies: int = 0
    gamma_index: int = 5
    ridge_index: int = 6
    score_index: int = 3
    batch: int = 10
    rounds: int = 20
    longer: tuple[tuple[int, int], ...] = ()
    tenths: int | None = None

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
        """Examples with a margin near this are picked."""
        return -(self.score_index + 1) / 8.0

    @property
    def is_mirrored(self) -> bool:
        """Return True if a pick and its mirror image share a support."""
        return self.copies == MIRRORED

    def batch_of(self, round_: int) -> int:
        """Examples picked in a round."""
        return self.batch + dict(self.longer).get(round_, 0)

    @property
    def picks(self) -> int:
        """Examples picked in all, without the first ones."""
        return self.rounds * self.batch + sum(more for _, more in self.longer)

    @property
    def supports_each(self) -> int:
        """Supports that one example becomes."""
        return 1 if self.is_mirrored else len(self.changes())

    def changes(self) -> tuple[Callable[[Tensor], Tensor], ...]:
        """Return the maps from a picture to its copies."""
        return _COPIES[self.copies]

    def code(self, coder: AbstractCoder, input_shape: tuple[int, ...]) -> Rule:
        """Codes the rule, or returns the one that is read; what is usual for such inputs costs a bit."""
        first = _one_of(coder, FIRST, self.first)
        usual = usual_rule(input_shape)
        if bit(coder, self._is_like(usual, _OF_THE_SIZE)):
            known = usual
        else:
            known = self._code_learner(coder, usual, input_shape)
        batch, rounds = _one_of(coder, BATCHES, self.batch), _one_of(coder, ROUNDS, self.rounds)
        longer = self._code_longer(coder, rounds)
        return replace(known, first=first, batch=batch, rounds=rounds, longer=longer)

    def code_without_picks(self, coder: AbstractCoder, input_shape: tuple[int, ...]) -> Rule:
        """The same for a rule that picks nothing, in fewer bits: the rule that is read knows no ``first``."""
        tenths = uniform(coder, (self.tenths or 1) - 1, 9) + 1
        known = usual_rule(input_shape)
        is_plain = known.copies == _MOVED and self.copies == 0
        if bit(coder, self._is_like(replace(known, copies=0) if is_plain else known, _WITHOUT_PICKS)):
            if known.copies == _MOVED and bit(coder, is_plain):
                known = replace(known, copies=0)
        else:
            kind = self.features.kind  # of what is read, columns until a picture says otherwise
            if is_picture(input_shape):
                kind = uniform(coder, kind, 4)
            else:
                coder.require(not self.features.plain.has_pictures, "these inputs are no pictures.")
            coder.require(kind in FEATURES, "a rule that picks nothing has no layer.")
            features = FEATURES[kind].code(coder, self.features.plain)
            copies = self._code_copies(coder, features) if features.has_pictures else 0
            gamma_index, ridge_index = (
                uniform(coder, each, 16) for each in (self.gamma_index, self.ridge_index)
            )
            known = Rule(features, copies=copies, gamma_index=gamma_index, ridge_index=ridge_index)
        return replace(known, first=0, rounds=0, tenths=tenths)

    def _is_like(self, other: Rule, apart: tuple[str, ...]) -> bool:
        return self == replace(other, **{name: getattr(self, name) for name in apart})

    def _code_learner(self, coder: AbstractCoder, usual: Rule, input_shape: tuple[int, ...]) -> Rule:
        layer, plain, is_usual = LayerFeatures.kind, self.features.plain, False
        kind = below = uniform(coder, self.features.kind, 4)
        if kind == layer:
            is_known = (plain, self.copies) == (usual.features, usual.copies)
            below = uniform(coder, layer if is_known else plain.kind, 4)
        if below == layer:
            features = usual.features
            same = all(getattr(self, name) == getattr(usual, name) for name in _OF_THE_LEARNER)
            is_usual = bool(bit(coder, same))
        else:
            features = FEATURES[below].code(coder, plain)
        if kind == layer:
            features = LayerFeatures.code_above(coder, features.plain, self.features, input_shape)
        if is_usual:
            return replace(usual, features=features)
        copies = usual.copies if below == layer else self._code_copies(coder, features)
        gamma_index, ridge_index = (uniform(coder, each, 16) for each in (self.gamma_index, self.ridge_index))
        score_index = uniform(coder, self.score_index, 8)
        return Rule(
            features, copies=copies, gamma_index=gamma_index, ridge_index=ridge_index, score_index=score_index
        )

    def _code_copies(self, coder: AbstractCoder, features: AnyFeatures) -> int:
        copies = uniform(coder, self.copies, 8)
        coder.require(copies == 0 or features.plain.has_pictures, "columns have no copies.")
        coder.require(
            copies != MIRRORED or features.plain.kind == PatchFeatures.kind,
            "only patches have mirror images as one support.",
        )
        return copies

    def _code_longer(self, coder: AbstractCoder, rounds: int) -> tuple[tuple[int, int], ...]:
        count = gamma(coder, len(self.longer) + 1) - 1
        coder.require(count <= rounds, f"{count} of {rounds} rounds cannot be longer.")
        longer = []
        for at in range(count):
            round_, more = self.longer[at] if at < len(self.longer) else (0, 1)
            longer.append((uniform(coder, round_, rounds), 1 + uniform(coder, more - 1, _LONGER)))
            coder.require(at == 0 or longer[at - 1][0] < longer[at][0], "longer rounds are not in order.")
        return tuple(longer)


def usual_rule(input_shape: tuple[int, ...]) -> Rule:
    """Return the usual rule for inputs of a shape. The size of a sample decides the rest."""
    sides = input_shape[1:] or (0,)
    if len(input_shape) == 3 and input_shape[0] == 1 and 6 <= min(sides) <= max(sides) <= 128:
        filters = FilterFeatures(True, 3, min(5, max(2, min(sides) // 7)))
        return Rule(filters, copies=_MOVED, gamma_index=4, ridge_index=8)
    if len(input_shape) == 3 and input_shape[0] == 3 and 16 <= min(sides) <= max(sides) <= 128:
        return Rule(PatchFeatures(), copies=MIRRORED, gamma_index=4, ridge_index=6)
    return Rule(ColumnFeatures(), gamma_index=6, ridge_index=6)


def _one_of(coder: AbstractCoder, values: tuple[int, ...], value: int) -> int:
    return values[uniform(coder, values.index(value), len(values))]


def _same(x: Tensor) -> Tensor:
    return x


def _mirror_of(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: mirror(change(x))


_MOVES: tuple[Callable[[Tensor], Tensor], ...] = (
    _same,
    *(partial(move, down=down, right=right) for down, right in _NEAR),
)
_FAR_MOVES: tuple[Callable[[Tensor], Tensor], ...] = (
    *_MOVES,
    *(partial(move, down=down, right=right) for down, right in _DIAGONAL),
)
_TURNS = (partial(rotate, sine=_TURN), partial(rotate, sine=-_TURN))
_COPIES: tuple[tuple[Callable[[Tensor], Tensor], ...], ...] = (
    (_same,),
    (_same, mirror),
    _MOVES,
    _FAR_MOVES,
    (*_MOVES, *_TURNS),
    (*_FAR_MOVES, *_TURNS),
    (*_MOVES, *(_mirror_of(move) for move in _MOVES)),
    (_same, *_TURNS),
)


@dataclass(frozen=True, slots=True)
class PickedMessage:
    """A rule as it is coded.

    Attributes:
        options: What every message says in front: classes and scaling.
        rule: How examples are picked and learned from.
        input_shape: Shape of one input.
        spare_classes: Classes above the largest label of the first examples, which a short message codes.
    """

    options: Options
    rule: Rule
    input_shape: tuple[int, ...]
    spare_classes: int = 0

    @property
    def version(self) -> int:
        """The oldest version of the format, from the second on, that can say it."""
        is_old = (
            self.setting.loss == WRONG
            and not self.is_short
            and not isinstance(self.rule.features, LayerFeatures)
        )
        return 2 if is_old else 3

    @property
    def is_short(self) -> bool:
        """Return True if the message is short.

        Then nothing is picked, and tenths of the sample come first.
        """
        return self.rule.tenths is not None

    @property
    def setting(self) -> Setting:
        """Setting at the start of the message."""
        assert self.options.setting is not None  # a rule is carried out for a task, which has one
        return self.options.setting

    def witness(self) -> bytes:
        """Nothing: a rule needs no proof."""
        return b""

    def encode(self) -> tuple[Bits, Ledger]:
        """The bits, and how many of them each part takes."""
        writer = Writer()
        ends: list[tuple[str, int]] = []
        write = self._write_short if self.is_short else self._write
        write(writer, lambda part: ends.append((part, writer.shifts)))
        word = writer.finish()
        ends.append(("end", word.length))
        starts = [0, *(end for _, end in ends)]
        return word, tuple((part, end - start) for (part, end), start in zip(ends, starts, strict=False))

    def _write(self, writer: Writer, enter: Callable[[str], None]) -> None:
        self.setting.code(writer)
        enter("setting")
        write_loss(writer, self.setting, enter)
        gamma(writer, PICKED)
        enter("method")
        code_options(writer, self.options)
        enter("options")
        self.rule.code(writer, self.input_shape)
        enter("rule")

    def _write_short(self, writer: Writer, enter: Callable[[str], None]) -> None:
        code_form(writer, RULE)
        has_other_loss(writer, self.setting.loss)
        enter(FORM)
        write_loss(writer, self.setting, enter)
        gamma(writer, self.spare_classes + 1)
        self.rule.code_without_picks(writer, self.input_shape)
        if self.rule.features.has_pictures:
            code_scaling(writer, self.setting.scaling, is_listed=True)
        enter("rule")


def decode_rule(
    bits: Bits, *, input_shape: tuple[int, ...], known: tuple[Setting, int] | None = None
) -> PickedMessage:
    """The message that these bits are; refuses bits that name no rule.

    A short one does not say what is ``known``: the setting, and how many examples come first.
    """
    reader = Reader(bits)
    found = _read(reader, input_shape) if known is None else _read_short(reader, input_shape, *known)
    end = reader.finish()
    if end != bits.length:
        raise FormatError(f"the message ends after {end} bits, the file has {bits.length}.")
    return found


def _read(reader: Reader, input_shape: tuple[int, ...]) -> PickedMessage:
    setting = Setting(2).code(reader, input_shape)
    scheme = gamma(reader, 0)
    if scheme in (LOSS, NEW_LOSS):
        setting = replace(setting, loss=code_loss(reader, scheme, WRONG, setting.classes))
        scheme = gamma(reader, 0)
    if scheme != PICKED:
        raise FormatError(f"this message names no rule: its scheme is {scheme}, not {PICKED}.")
    options = code_options(reader, Options(setting=setting))
    if replace(options, setting=None) != Options():
        raise FormatError("a rule has neither a split nor a margin nor a base.")
    return PickedMessage(options, Rule().code(reader, input_shape), input_shape)


def _read_short(reader: Reader, input_shape: tuple[int, ...], known: Setting, first: int) -> PickedMessage:
    if code_form(reader, RULE) != RULE:
        raise FormatError("this message names no rule: it is a base with biases.")
    loss = read_loss(reader, known.classes) if has_other_loss(reader, WRONG) else WRONG
    spare = gamma(reader, 0) - 1
    rule = replace(Rule().code_without_picks(reader, input_shape), first=first)
    scaling = known.scaling
    if rule.features.has_pictures:
        scaling = code_scaling(reader, scaling, input_shape, is_listed=True)
    setting = Setting(known.classes, scaling, loss)
    return PickedMessage(Options(setting=setting), rule, input_shape, spare)
