"""Short messages of docs/format-3.md, 5.7 and 10.9, literally, with headers of version 3 around them."""

from __future__ import annotations

from dataclasses import dataclass, field

import cbound_writer as writer
import numpy as np
import rule_writer as rules

LISTED = [{"divisor": divisor, "mean": [0.0], "std": [1.0]} for divisor in (1, 255, 16)]


@dataclass
class Short:
    """What both kinds have in common; ``starts`` are the bits in front, of which the first is a one."""

    loss: str = "wrong"
    classes: int = 3
    scaling: dict = field(default_factory=lambda: dict(LISTED[2]))
    starts: tuple[int, ...] = ()
    ledger: list[list] = field(init=False, default_factory=list)
    bits: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.coder = writer.Coder()
        for bit in self.starts:
            self.coder.bit(bit)
        self.coder.symbol(*((0, 7, 8) if self.loss == "wrong" else (7, 1, 8)))
        self.close("form")
        if self.loss != "wrong":
            writer.write_loss(self.coder, self.classes, self.loss)
            self.close("fault")
        self.write()
        self.bits = self.coder.end()
        self.ledger.append(["end", len(self.bits) - self.coder.shifts])

    def close(self, part: str) -> None:
        self.ledger.append([part, self.coder.shifts - sum(bits for _, bits in self.ledger)])

    def packed(self) -> bytes:
        return writer.pack_bits(self.bits)


@dataclass
class Head(Short):
    """A base with biases; ``operations`` None is the linear layer that costs one bit."""

    starts: tuple[int, ...] = (1, 1)
    split: int | None = None
    operations: list[list] | None = None
    unit: int = 0  # exponent of two
    biases: tuple[int, ...] | None = None

    def write(self) -> None:
        if self.split is not None:
            self.coder.uniform(self.split - 1, 9)
        writer.write_scaling(self.coder, self.scaling)
        self.close("setting")
        self.coder.bit(self.operations is None)
        if self.operations is not None:
            writer.write_chain(self.coder, self.operations)
        self.close("architecture")
        self.coder.bit(self.biases is not None)
        if self.biases is not None:
            self.coder.uniform(self.unit + 12, 16)
            for q in self.biases:
                self.coder.symbol(*{-1: (0, 1, 4), 0: (1, 2, 4), 1: (3, 1, 4)}[q])
        self.close("biases")


@dataclass
class PlainRule(Short):
    """A rule that picks nothing; ``learner`` None is the usual one, else pairs of uniform numbers."""

    starts: tuple[int, ...] = (1, 0, 0)
    more_classes: int = 0
    tenths: int = 5
    learner: tuple[tuple[int, int], ...] | None = None
    copies_off: int | None = None
    has_scaling: bool = False

    def write(self) -> None:
        self.coder.gamma(self.more_classes + 1)
        self.coder.uniform(self.tenths - 1, 9)
        self.coder.bit(self.learner is None)
        if self.learner is None and self.copies_off is not None:
            self.coder.bit(self.copies_off)
        for number, total in self.learner or ():
            self.coder.uniform(number, total)
        if self.has_scaling:
            writer.write_scaling(self.coder, self.scaling)
        self.close("rule")


def rule_header(message: PlainRule, x: np.ndarray, y: np.ndarray, *, errors: int, **changes) -> dict:
    """The header of C-15 with the limit of a hold-out set."""
    first = changes.get("first", message.tenths * len(x) // 10)
    n = changes.get("n", len(x) - first)
    limit = writer.binomial_limit(errors, n, len(message.bits), 0.05)
    return writer.header(
        message,
        x,
        y,
        errors=errors,
        **{
            "classes": message.classes,
            "n": n,
            "statement": "C-15",
            "extra": {"first": first, "picks": 0},
            "forms": dict.fromkeys(("bound", "kl", "hoeffding"), limit),
            "commonest": int(np.bincount(y[rules.order(len(y))[first:]]).max()),
            "tally": None,
            **{name: value for name, value in changes.items() if name != "first"},
        },
    )


def sealed(message: Short, fields: dict, *, version: int = 3) -> bytes:
    return writer.seal(writer.canonical(fields), message.packed(), version=version)
