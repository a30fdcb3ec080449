"""The rule that a message names, and its choices (docs/format.md, sections 5.4, 5.5 and 7.2 to 7.10)."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ..header import Header
from ..message import Bits
from ..order import Arranged, coded_share, usual_share
from ..refusal import Lacking, Refused
from ..sample import Data
from .columns import LONGEST_VECTOR, read_cells
from .dictionaries import tables
from .exact import Integers

MIRRORED = 1  # the number of "x and its mirror image as one support"
MOVED = 2  # the number of "x, moved by one pixel"
COPIES = (1, 1, 5, 9, 7, 11, 10, 3)  # supports of one row, by the number of 7.5
SIDES = range(3, 129)
FIRST = (10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10000, 15000, 20000, 30000)
BATCHES = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300),
    *(400, 500, 600, 800, 1000, 1250, 1500, 2000, 2500),
)
ROUNDS = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 23, 26, 30, 34, 38, 43, 48, 54, 61, 69, 78),
    *(88, 99, 112, 126, 142, 160),
)
MOST_MOVED = 10_000  # supports, up to which pictures are usually moved
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 1 << 60
"""Bytes that this machine has."""


def is_picture(shape: tuple[int, ...]) -> bool:
    """Return True for inputs of 1 or 3 channels with sides from 3 to 128 (7.2).

    Example:
        >>> is_picture((1, 28, 28)), is_picture((2, 28, 28)), is_picture((64,))
        (True, False, False)
    """
    return len(shape) == 3 and shape[0] in (1, 3) and shape[1] in SIDES and shape[2] in SIDES


@dataclass(frozen=True)
class Columns:
    """The numbers of an input (7.3)."""

    normalised: bool


@dataclass(frozen=True)
class Filters:
    """Maps of fixed filters, summed over windows (7.4)."""

    straight: bool
    dictionary: int
    pool: int

    def dimension(self, shape: tuple[int, ...]) -> int:
        """Length of a vector."""
        channels, height, width = shape
        if self.pool > min(height, width):
            raise Refused(f"Rule: windows of {self.pool} do not fit into pictures of {height} x {width}.")
        filters = sum(len(table.filters) for table in tables(self.dictionary))
        return channels * (filters + 1) * (height // self.pool) * (width // self.pool)


@dataclass(frozen=True)
class Patches:
    """Cosines with whitened patches of the first pictures, summed over windows (7.4)."""

    size: int
    filters: int
    threshold: int
    grid: int
    whitening: float
    seed: int

    def dimension(self, shape: tuple[int, ...]) -> int:
        """Length of a vector."""
        _, height, width = shape
        if self.size > min(height, width):
            raise Refused(f"Rule: patches of {self.size} do not fit into pictures of {height} x {width}.")
        if self.grid > min(height, width) - self.size + 1:
            raise Refused(f"Rule: there are fewer patches than the {self.grid} windows of a side.")
        return 2 * self.filters * self.grid**2


Features: TypeAlias = Columns | Filters | Patches


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule that learns from some rows: features, weights, copies, kernel and ridge."""

    features: Features
    copies: int  # the number of 7.5
    weights: int = 0  # the number of 7.6, 0 for none
    gamma: float | None = None  # both None: chosen by leaving out (7.7)
    ridge: float | None = None

    @property
    def is_mirrored(self) -> bool:
        """True if a row and its mirror image are one support."""
        return self.copies == MIRRORED

    def supports(self, rows: int) -> int:
        """Number of supports that so many rows make."""
        return rows * COPIES[self.copies]


@dataclass(frozen=True)
class Split:
    """A rule that learns from the known share. ``classes`` are the labels there."""

    rule: Rule
    classes: Integers
    work: int = 0  # multiplications, roughly


@dataclass(frozen=True, kw_only=True)
class PickRule:
    """A rule that picks rows behind the first ones. ``batches`` has their number in every round."""

    rule: Rule
    classes: Integers
    score: float  # c: rows are picked by |m + c|
    batches: tuple[int, ...]
    work: int = 0  # multiplications, roughly


def read_split(bits: Bits, form: str, data: Data, arranged: Arranged, header: Header) -> Split:
    """Read a split (5.4), of which form `0` says nothing. Refuse one above the limits of 7.10."""
    rows, shape = len(arranged.known), data.x.shape[1:]
    if form == "usual split":
        share, rule = usual_share(arranged.units, is_rule=True), _usual(shape, rows)
        _check_share(share, arranged, header)
    else:
        share = coded_share(bits.bits(4), arranged.units)
        bits.note("share")
        _check_share(share, arranged, header)
        rule = _read_learner(bits, data)
        bits.note("rule")
    classes = np.unique(data.y[arranged.known])
    if len(classes) < 2:
        raise Refused(f"Rule: the known rows have {len(classes)} label; a rule needs two or more.")
    _check_classes(len(classes), "the labels of the known rows", header)
    work = check_limits(rule, data, arranged.known, learned_from=rows, classes=len(classes), rounds=0)
    return Split(rule, classes, work)


def read_picks(bits: Bits, data: Data, arranged: Arranged, header: Header) -> PickRule:
    """Read a rule that picks (5.5). Refuse one above the limits of 7.10."""
    if arranged.clusters is not None:
        raise Refused("Message: rows in clusters are not picked.")
    count = bits.gamma() + 1
    bits.note("classes")
    _check_classes(count, "the message", header)
    share = FIRST[bits.bits(4)]
    bits.note("first")
    _check_share(share, arranged, header)
    rows = len(arranged.known)
    if bits.bits(1):
        rule = replace(_usual(data.x.shape[1:], rows), gamma=0.5, ridge=2.0**-4)
        score = 0.5
    else:
        rule = _read_learner(bits, data)
        score = (bits.bits(3) + 1) / 8
    batch, rounds = BATCHES[bits.bits(5)], ROUNDS[bits.bits(5)]
    bits.note("rule")
    batches = _read_longer(bits, batch, rounds)
    bits.note("longer")
    if (label := int(data.y[arranged.known].max())) >= count:
        raise Refused(f"Rule: a row that it starts with has label {label}; it has {count} classes.")
    if rows + sum(batches) > len(data.y):
        raise Refused(
            f"Rule: it starts with {rows} rows and picks {sum(batches)}; the sample has {len(data.y)}."
        )
    picked = rows + sum(batches)
    work = check_limits(rule, data, arranged.known, learned_from=picked, classes=count, rounds=rounds)
    return PickRule(rule=rule, classes=np.arange(count), score=score, batches=batches, work=work)


def _check_share(share: int, arranged: Arranged, header: Header) -> None:
    """Check the share that a message names against the header."""
    if share != (known := header.known.rows):
        raise Refused(f"Header: known.rows is {known}; the message has a known share of {share}.")
    if not share:
        raise Refused(f"Message: its known share of {arranged.units} leaves nothing to learn from.")


def _check_classes(count: int, what: str, header: Header) -> None:
    if count != header.sample.classes:
        raise Refused(f"Header: sample.classes is {header.sample.classes}; by {what} they are {count}.")


def _usual(shape: tuple[int, ...], rows: int) -> Rule:
    """The usual features and copies for inputs of a shape, with so many known rows."""
    if is_picture(shape):
        channels, side = shape[0], min(shape[1:])
        if channels == 1 and side >= 6:
            filters = Filters(straight=True, dictionary=3, pool=min(5, max(2, side // 7)))
            return Rule(features=filters, copies=MOVED if 5 * rows <= MOST_MOVED else 0)
        if channels == 3 and side >= 16:
            patches = Patches(size=6, filters=1024, threshold=4, grid=3, whitening=2.0**-13, seed=0)
            return Rule(features=patches, copies=MIRRORED)
    return Rule(features=Columns(normalised=False), copies=0)


def _read_learner(bits: Bits, data: Data) -> Rule:
    """Read features, weights, copies, kernel and ridge."""
    shape = data.x.shape[1:]
    features = _read_features(bits, bits.bits(2) if is_picture(shape) else 0)
    if isinstance(features, Columns):
        if features.normalised and data.is_cells:
            raise Refused("Rule: columns of cells are not normalised.")
    else:
        features.dimension(shape)  # refused where they do not fit
    weights = bits.bits(2)
    copies = 0 if isinstance(features, Columns) else bits.bits(3)
    if copies == MIRRORED and not isinstance(features, Patches):
        raise Refused("Rule: a picture and its mirror image are one support for patches alone.")
    gamma, ridge = math.ldexp(1.0, bits.bits(4) - 5), math.ldexp(1.0, bits.bits(4) - 8)
    return Rule(features=features, copies=copies, weights=weights, gamma=gamma, ridge=ridge)


def _read_features(bits: Bits, kind: int) -> Features:
    if kind == 0:
        return Columns(normalised=bool(bits.bits(1)))
    if kind == 1:
        return Filters(straight=bool(bits.bits(1)), dictionary=(3, 1)[bits.bits(1)], pool=bits.bits(2) + 2)
    if kind == 2:
        return Patches(
            size=bits.bits(3) + 3,
            filters=256 << bits.bits(2),
            threshold=bits.bits(3),
            grid=bits.bits(2) + 2,
            whitening=math.ldexp(1.0, -(7 + bits.bits(3))),
            seed=bits.bits(2),
        )
    raise Refused("Rule: features of kind 3 are not known; 0 to 2 are.")


def _read_longer(bits: Bits, batch: int, rounds: int) -> tuple[int, ...]:
    """Read which batches are longer than others, and give the sizes of all."""
    if (longer := bits.gamma() - 1) > rounds:
        raise Refused(f"Rule: {longer} longer batches are coded for {rounds} rounds.")
    batches, place = [batch] * rounds, -1
    for _ in range(longer):
        place += bits.gamma()
        if place >= rounds:
            raise Refused(f"Rule: the batch of round {place} is longer; there are {rounds}, counted from 0.")
        batches[place] += bits.bits(3) + 1
    return tuple(batches)


def check_limits(
    rule: Rule,
    data: Data,
    known: Integers,
    *,
    learned_from: int,
    classes: int,
    rounds: int,
    memory: int = MEMORY,
) -> int:
    """Refuse a rule that asks for more than 7.10 allows. Return its multiplications, roughly.

    At the end it learns from so many rows. The kernel of picks has their supports as points, too.
    """
    rows, supports = len(data.y), rule.supports(learned_from)
    _refuse_above(1 << 15, supports, "the number of supports")
    _refuse_above(1 << 30, (rows + bool(rounds) * supports) * supports, "the numbers in the kernel")
    _refuse_above(1 << 26, (rows + supports) * classes, "the scores")
    _refuse_above(1 << 44, rows * supports * classes * (rounds + 1), "the multiplications for the scores")
    if isinstance(rule.features, Patches):
        _check_patches(rule.features, data.x.shape, len(known))
    dimension = _dimension_of(rule.features, data, known)
    _refuse_above(LONGEST_VECTOR, dimension, "the length of a vector")
    _refuse_above(1 << 31, (rows + supports) * dimension, "the numbers in all vectors")
    kernel = (rows + supports) * supports * 4 if rounds else 0
    size = 8 * supports**2 + kernel + 2 * (rows + supports) * dimension
    if size > memory:  # neither accepted nor refused (7.10)
        raise Lacking(f"{size / 2**30:.1f} GiB of memory; this machine has {memory / 2**30:.1f}")
    return supports**3 // 3 + (rows + supports) * supports * (dimension + classes * (rounds + 1))


def _dimension_of(features: Features, data: Data, known: Integers) -> int:
    """Length of a vector. That of cells depends on what the known rows hold."""
    shape = data.x.shape[1:]
    if not isinstance(features, Columns):
        return features.dimension(shape)
    return read_cells(data.x[known]).dimension if data.is_cells else math.prod(shape)


def _check_patches(features: Patches, shape: tuple[int, ...], known: int) -> None:
    """Refuse patches that ask for too much, of a picture, of all and of the known ones."""
    rows, channels, height, width = shape
    d = channels * features.size**2
    places = (height - features.size + 1) * (width - features.size + 1)
    numbers = places * (features.filters + d)
    _refuse_above(1 << 25, numbers, "the numbers that a picture becomes")
    _refuse_above(1 << 30, numbers * d, "the multiplications for a picture")
    _refuse_above(1 << 46, rows * numbers * d, "the multiplications for all pictures")
    _refuse_above(1 << 40, known * places * d * d, "the multiplications for whitening")


def _refuse_above(limit: int, size: int, what: str) -> None:
    if size > limit:
        raise Refused(f"Rule: {what} would be {size}; at most {limit} is allowed.")
