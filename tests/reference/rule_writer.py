"""Certificates of section 10, literally: the message of a rule, and the header of C-15 around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import comb

import cbound_writer as writer
import numpy as np

FIRST = (10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10000, 15000, 20000, 30000)
BATCH = """1 2 3 4 5 6 8 10 12 15 20 25 30 40 50 60 80 100 125 150 200 250 300 400 500 600 800 1000 1250 1500
    2000 2500"""
ROUNDS = """0 1 2 3 4 5 6 7 8 10 12 14 16 18 20 23 26 30 34 38 43 48 54 61 69 78 88 99 112 126 142 160"""
BATCHES, ROUND_COUNTS = ([int(word) for word in text.split()] for text in (BATCH, ROUNDS))

COLUMNS = ((0, 4), (0, 2))  # pairs of a uniform number: kind, choices
DIRECTIONS = ((0, 4), (1, 2))


def filters(*, straight: int, dictionary: int, pool: int):
    return ((1, 4), (straight, 2), ((3, 1).index(dictionary), 2), (pool - 2, 4))


def patches(
    *, size: int, filters: int = 256, threshold: int = 1, grid: int = 2, whitening: int = 7, seed: int = 0
):
    """``whitening`` is the exponent: 2^-whitening."""
    doublings = (256, 512, 1024, 2048).index(filters)
    return (
        (2, 4),
        (size - 3, 8),
        (doublings, 4),
        (threshold, 8),
        (grid - 2, 4),
        (whitening - 7, 8),
        (seed, 4),
    )


USUAL_BELOW = ((3, 4), (3, 4))  # and a bit: whether kernel, ridge and score are usual too


def layer(features, *, power: int = 0, by: int | None = None):
    """Features of kind 3 above others; ``by`` is coded above filters, for weights that are coded."""
    return ((3, 4), *features, (power, 4), *([] if by is None else [(by, 2)]))


@dataclass
class RuleMessage:
    """The message of 10.1; numbers are those of the page, not their indices, where they are listed.

    ``symbols`` are those of the weights of a layer.
    """

    first: int = 20
    features: tuple[tuple[int, int], ...] = COLUMNS
    copies: int = 0
    gamma: int = 0  # exponents of two
    ridge: int = -2
    score: int = 4  # eighths
    batch: int = 4
    rounds: int = 5
    longer: tuple[tuple[int, int], ...] = ()
    classes: int = 3
    scaling: dict = field(default_factory=lambda: {"divisor": 16, "mean": [0.0], "std": [1.0]})
    options: tuple[int, ...] = (0, 0, 0)
    longer_count: int | None = None
    loss: str = "wrong"
    witness: bytes = b""
    symbols: tuple[int, ...] = ()
    near: int = 0
    bits: str = field(init=False)
    ledger: list[list] = field(init=False)

    def __post_init__(self) -> None:
        coder = writer.Coder()
        self.ledger = []

        def close(part: str) -> None:
            self.ledger.append([part, coder.shifts - sum(bits for _, bits in self.ledger)])

        writer.write_setting(coder, self.classes, self.scaling)
        close("setting")
        coder.gamma(3)
        close("method")
        for bit in self.options:
            coder.bit(bit)
        close("options")
        coder.uniform(FIRST.index(self.first), 16)
        coder.bit(0)  # nothing is usual
        for number, total in self.features:
            coder.uniform(number, total)
        if self.features[0] == (3, 4) and self.symbols:
            self._write_weights(coder)
        if self.features[:2] != USUAL_BELOW:
            coder.uniform(self.copies, 8)
        if self.features[:3] != (*USUAL_BELOW, (1, 2)):
            coder.uniform(self.gamma + 5, 16)
            coder.uniform(self.ridge + 8, 16)
            coder.uniform(self.score - 1, 8)
        coder.uniform(BATCHES.index(self.batch), 32)
        coder.uniform(ROUND_COUNTS.index(self.rounds), 32)
        coder.gamma((len(self.longer) if self.longer_count is None else self.longer_count) + 1)
        for place, more in self.longer:
            coder.uniform(place, self.rounds)
            coder.uniform(more - 1, 8)
        close("rule")
        word = coder.end()
        self.ledger.append(["end", len(word) - coder.shifts])
        self.bits = word

    def _write_weights(self, coder: writer.Coder) -> None:
        coder.bit(self.near)
        contexts, before = [writer.Context(4) for _ in range(4)], 2
        for symbol in self.symbols:
            contexts[before if self.near else 0].code(coder, symbol)
            before = symbol

    @property
    def picks(self) -> int:
        return self.batch * self.rounds + sum(more for _, more in self.longer)

    def packed(self) -> bytes:
        return writer.pack_bits(self.bits)


def picked_limit(counted: int, n: int, code_bits: int, delta: float) -> float:
    """The smallest multiple of 2^-50 above the root of the sum that defines C-15, by integers alone."""
    if counted >= n:
        return 1.0
    one, target = 2**50, Fraction(n) * 2**code_bits / Fraction(delta)

    def is_above(p: int) -> bool:
        # sum over m of C(m, k) / C(n, k) (1 - p)^-(n - m), times C(n, k) (1 - p)^(n - k)
        q = one - p
        total = sum(comb(m, counted) * q ** (m - counted) * one ** (n - m) for m in range(counted, n))
        return total >= target * comb(n, counted) * q ** (n - counted)

    low, high = 0, one
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return high / one


def header(message: RuleMessage, x: np.ndarray, y: np.ndarray, *, errors: int, **changes) -> dict:
    """The header of C-15."""
    n = changes.get("n", len(x) - message.first)
    limit = picked_limit(message.picks + errors, n, len(message.bits), 0.05)
    return writer.header(
        message,
        x,
        y,
        errors=errors,
        classes=message.classes,
        **{
            "n": n,
            "statement": "C-15",
            "extra": {"first": message.first, "picks": message.picks},
            "forms": {"bound": limit, "kl": limit, "hoeffding": limit},
            "scaling": message.scaling,
            "commonest": int(np.bincount(y[order(len(y))[message.first :]]).max()),
            **changes,
        },
    )


def order(n: int) -> list[int]:
    """The permutation of section 7."""
    keys = writer.outputs(0, "split", n)
    return sorted(range(n), key=lambda i: (keys[i], i))


SIDE = 6


def shapes(n: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Grey pictures of three classes with values 0 to 16: bars that lie, stand or lean; some mislabelled."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    x = random.integers(0, 4, (n, 1, SIDE, SIDE))
    for picture, label in zip(x, y, strict=True):
        place, steps = random.integers(1, SIDE - 1), np.arange(SIDE)
        rows, columns = ((place, steps), (steps, place), (steps, (steps + place) % SIDE))[label]
        picture[0, rows, columns] = random.integers(9, 17, SIDE)
    y[::23] = (y[::23] + 1) % 3
    return x.astype(np.uint8), y


def certificate(
    message: RuleMessage, x: np.ndarray, y: np.ndarray, *, errors: int, version: int = 2, **changes
) -> bytes:
    if version == 3:
        changes = {"tally": None, **changes}
    head = writer.canonical(header(message, x, y, errors=errors, **changes))
    return writer.seal(head, message.packed(), version=version)
