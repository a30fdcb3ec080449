"""The message of a picked network: a rule in place of architecture and tensors (docs/format.md, 10.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from codebound.chains.message import PICKED, Options, code_options
from codebound.chains.setting import FAULT, NEW_FAULT, Setting, code_fault, write_fault
from codebound.coding.arithmetic import Reader, Writer
from codebound.coding.numbers import gamma
from codebound.errors import FormatError
from codebound.faults import WRONG
from codebound.picks.rule import Rule

if TYPE_CHECKING:
    from codebound.chains.message import Ledger
    from codebound.coding.bits import Bits


@dataclass(frozen=True, slots=True)
class PickedMessage:
    """A rule as it is coded.

    Attributes:
        options: What every message says in front: classes and scaling.
        rule: How examples are picked and learned from.
        input_shape: Shape of one input.
    """

    options: Options
    rule: Rule
    input_shape: tuple[int, ...]
    needs_factory: ClassVar[bool] = False

    @property
    def version(self) -> int:
        """The oldest version of the format, from the second on, that can say it."""
        return 3 if self.setting.fault != WRONG or self.rule.has_layer else 2

    @property
    def setting(self) -> Setting:
        """What it says first."""
        assert self.options.setting is not None  # a rule is carried out for a task, which has one
        return self.options.setting

    def witness(self) -> bytes:
        """Nothing: a rule needs no proof."""
        return b""

    def encode(self) -> tuple[Bits, Ledger]:
        """The bits, and how many of them each part takes."""
        writer = Writer()
        ends = []
        self.setting.code(writer)
        ends.append(("setting", writer.shifts))
        if self.setting.fault != WRONG:
            write_fault(writer, self.setting.fault, self.setting.classes)
            ends.append(("fault", writer.shifts))
        gamma(writer, PICKED)
        ends.append(("method", writer.shifts))
        code_options(writer, self.options)
        ends.append(("options", writer.shifts))
        self.rule.code(writer, self.input_shape)
        ends.append(("rule", writer.shifts))
        word = writer.finish()
        ends.append(("end", word.length))
        starts = [0, *(end for _, end in ends)]
        return word, tuple((part, end - start) for (part, end), start in zip(ends, starts, strict=False))


def decode_rule(bits: Bits, *, input_shape: tuple[int, ...]) -> PickedMessage:
    """The message that these bits are; refuses bits that name no rule."""
    reader = Reader(bits)
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
    rule = Rule().code(reader, input_shape)
    end = reader.finish()
    if end != bits.length:
        raise FormatError(f"the message ends after {end} bits, the file has {bits.length}.")
    return PickedMessage(options, rule, input_shape)
