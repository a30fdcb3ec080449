"""The message of a picked network: a rule in place of architecture and tensors (docs/format.md, 10.1).

A rule that picks a tenth or more first and then nothing has a short message (docs/format-3.md, 10.9).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codebound.bits.arithmetic import Reader, Writer
from codebound.bits.numbers import gamma
from codebound.bits.options import PICKED, Options, code_options
from codebound.bits.setting import (
    FAULT,
    FORM,
    NEW_FAULT,
    RULE,
    Setting,
    code_fault,
    code_form,
    code_scaling,
    has_fault,
    read_fault,
    write_fault,
)
from codebound.learn.rule import Rule
from codebound.run.errors import FormatError
from codebound.sample.losses import WRONG

if TYPE_CHECKING:
    from collections.abc import Callable

    from codebound.bits.bitstring import Bits
    from codebound.bits.options import Ledger


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
        is_old = self.setting.fault == WRONG and not self.is_short and not self.rule.has_layer
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
        if self.setting.fault != WRONG:
            write_fault(writer, self.setting.fault, self.setting.classes)
            enter("fault")
        gamma(writer, PICKED)
        enter("method")
        code_options(writer, self.options)
        enter("options")
        self.rule.code(writer, self.input_shape)
        enter("rule")

    def _write_short(self, writer: Writer, enter: Callable[[str], None]) -> None:
        code_form(writer, RULE)
        is_other = has_fault(writer, self.setting.fault)
        enter(FORM)
        if is_other:
            write_fault(writer, self.setting.fault, self.setting.classes)
            enter("fault")
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
    if scheme in (FAULT, NEW_FAULT):
        setting = replace(setting, fault=code_fault(reader, scheme, WRONG, setting.classes))
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
    fault = read_fault(reader, known.classes) if has_fault(reader, WRONG) else WRONG
    spare = gamma(reader, 0) - 1
    rule = replace(Rule().code_without_picks(reader, input_shape), first=first)
    scaling = known.scaling
    if rule.features.has_pictures:
        scaling = code_scaling(reader, scaling, input_shape, is_listed=True)
    setting = Setting(known.classes, scaling, fault)
    return PickedMessage(Options(setting=setting), rule, input_shape, spare)
