"""The rule that a message names (docs/format.md and docs/format-3.md, 10.1), and its limits (10.8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..arithmetic import Context
from ..header import Picked
from ..message import read_scaling
from ..refusal import Refused
from .dictionaries import tables

if TYPE_CHECKING:
    from ..arithmetic import Decoder
    from ..message import Message
    from ..sample import Labels
    from .exact import Integers

FIRST = (10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10000, 15000, 20000, 30000)
BATCHES = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300),
    *(400, 500, 600, 800, 1000, 1250, 1500, 2000, 2500),
)
ROUNDS = (
    *(0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 23, 26, 30, 34, 38, 43, 48, 54, 61, 69, 78),
    *(88, 99, 112, 126, 142, 160),
)
MIRRORED = 1  # the number of "x and its mirror image, as one"
MOVED = 2  # the number of "x, and x moved by one pixel"
COPIES = (1, 1, 5, 9, 7, 11, 10, 3)  # supports of one pick, by the number of 10.5
LAYER = 3  # the kind of features with weights
WEIGHTS = (0, 1, 2, 4)  # by their symbols
START = 2  # the symbol before the first

SIDES = range(3, 129)
DIMENSION_LIMIT = 1 << 16
SUPPORTS_LIMIT = 1 << 15
KERNEL_LIMIT = 1 << 30  # numbers in the kernel of all examples and all supports: 8 GiB
VECTORS_LIMIT = 1 << 31  # numbers in the vectors of all examples and all supports: 4 GiB
OUTPUTS_LIMIT = 1 << 26  # outputs for all examples and all supports
OUTPUTS_WORK_LIMIT = 1 << 44  # multiplications for them, in all rounds
PATCHES_LIMIT = 1 << 25  # numbers that the patches of one picture become
PICTURE_LIMIT = 1 << 30  # multiplications for one picture
MOMENTS_LIMIT = 1 << 40  # multiplications for the moments of all patches of the first pictures


@dataclass(frozen=True)
class Columns:
    """Kind 0: the numbers of an input."""

    normalised: bool

    def dimension(self, shape: tuple[int, ...]) -> int:
        """Length of a vector."""
        return math.prod(shape)

    def groups(self, shape: tuple[int, ...], *, windows: bool) -> Integers:
        """The group that a layer puts every number of a vector into."""
        return np.arange(self.dimension(shape))


@dataclass(frozen=True)
class Filters:
    """Kind 1: maps of fixed filters, summed over windows."""

    straight: bool
    dictionary: int
    pool: int

    def dimension(self, shape: tuple[int, ...]) -> int:
        """Length of a vector."""
        channels, height, width = _picture(shape)
        if self.pool > min(height, width):
            raise Refused(f"Rule: windows of {self.pool} do not fit into pictures of {height} x {width}.")
        filters = sum(len(table.filters) for table in tables(self.dictionary))
        return channels * (filters + 1) * (height // self.pool) * (width // self.pool)

    def groups(self, shape: tuple[int, ...], *, windows: bool) -> Integers:
        """The group that a layer puts every number of a vector into."""
        places = (shape[1] // self.pool) * (shape[2] // self.pool)
        channel, window = np.divmod(np.arange(self.dimension(shape)), places)
        return window if windows else channel


@dataclass(frozen=True)
class Patches:
    """Kind 2: cosines with whitened patches of the first pictures, summed over windows."""

    size: int
    filters: int
    threshold: int
    grid: int
    whitening: float
    seed: int

    def dimension(self, shape: tuple[int, ...]) -> int:
        """Length of a vector."""
        _, height, width = _picture(shape)
        if self.size > min(height, width):
            raise Refused(f"Rule: patches of {self.size} do not fit into pictures of {height} x {width}.")
        if self.grid > min(height, width) - self.size + 1:
            raise Refused(f"Rule: there are fewer patches than the {self.grid} windows of a side.")
        return 2 * self.filters * self.grid**2

    def groups(self, shape: tuple[int, ...], *, windows: bool) -> Integers:
        """The group that a layer puts every number of a vector into."""
        row, column = np.divmod(np.arange(self.dimension(shape)) % self.grid**2, self.grid)
        return np.asarray(row * -(-self.grid // 2) + np.minimum(column, self.grid - 1 - column))

    def check_work(self, shape: tuple[int, ...], first: int) -> None:
        """Refuse patches that ask for too much."""
        channels, height, width = shape
        d = channels * self.size**2
        patches = (height - self.size + 1) * (width - self.size + 1)
        numbers = patches * (self.filters + d)
        if numbers > PATCHES_LIMIT or numbers * d > PICTURE_LIMIT:
            raise Refused(
                f"Rule: a picture takes {numbers} numbers and {numbers * d} multiplications; at most "
                f"{PATCHES_LIMIT} and {PICTURE_LIMIT} are allowed."
            )
        if (work := first * patches * d * d) > MOMENTS_LIMIT:
            raise Refused(
                f"Rule: whitening takes {work} multiplications; at most {MOMENTS_LIMIT} are allowed."
            )


Features: TypeAlias = Columns | Filters | Patches
Layer: TypeAlias = tuple[int, ...] | int  # a weight for every number of a vector, or how they are computed
Learner: TypeAlias = tuple[Features, int, float, float, float]


@dataclass(frozen=True)
class Rule:
    """Rule that learns a network from the sample; ``batches`` has the number of picks of every round."""

    first: int
    features: Features
    copies: int  # the number of 10.5
    gamma: float
    ridge: float
    target: float  # the margin of the examples that are picked first, times -1
    batches: tuple[int, ...]
    layer: Layer | None = None
    tenths: int | None = None  # of the sample, that come first (docs/format-3.md, 10.9)
    more_classes: int = 0  # than the labels of the first examples need, where ``tenths`` says how many

    @property
    def picks(self) -> int:
        """Examples that are picked, without the first."""
        return sum(self.batches)

    def supports(self, picked: int) -> int:
        """Number of supports that the learner has after so many picks."""
        return picked * COPIES[self.copies]


def decode_rule(message: Message) -> Rule:
    """Decode the rest of a message that names a rule, and check that it ends where the header says."""
    header, decoder = message.header, message.decoder
    if message.form is None:
        rule = read_rule(decoder, header.input_shape, has_layers=header.version.is_third)
    else:
        if not isinstance(header.extra, Picked):
            raise Refused("Rule: a rule belongs to a certificate of C-15.")
        rule = read_rule_without_picks(decoder, header.input_shape, header.extra.first)
        if not isinstance(rule.features, Columns):
            read_scaling(decoder, header, literal=False)
    message.close("rule")
    message.finish_word()
    message.finish()
    return rule


def read_rule(decoder: Decoder, shape: tuple[int, ...], *, has_layers: bool) -> Rule:
    """The rule of a message, as coded, for inputs of a shape."""
    first = FIRST[decoder.uniform(len(FIRST))]
    learner, layer = _usual(shape), None
    if not decoder.bit():
        learner, layer = _read_learner(decoder, shape, has_layers=has_layers)
    batch = BATCHES[decoder.uniform(len(BATCHES))]
    rounds = ROUNDS[decoder.uniform(len(ROUNDS))]
    return Rule(first, *learner, _read_batches(decoder, batch, rounds), layer)


def read_rule_without_picks(decoder: Decoder, shape: tuple[int, ...], first: int) -> Rule:
    """The rule of a short message (docs/format-3.md, 10.9); ``first`` is what the header says."""
    more_classes = decoder.gamma() - 1
    tenths = decoder.uniform(9) + 1
    if decoder.bit():
        learner = _usual(shape)
        if learner[1] == MOVED and decoder.bit():
            learner = learner[0], 0, *learner[2:]
    else:
        has_kinds = len(shape) == 3 and shape[0] in (1, 3) and shape[1] in SIDES and shape[2] in SIDES
        if (kind := decoder.uniform(4) if has_kinds else 0) == LAYER:
            raise Refused("Rule: features of kind 3 belong to a rule that picks.")
        features = _read_features(decoder, kind)
        copies = 0 if isinstance(features, Columns) else _read_copies(decoder, features)
        learner = features, copies, *_read_widths(decoder), 0.0
    return Rule(first, *learner, (), tenths=tenths, more_classes=more_classes)


def check_share(rule: Rule, labels: Labels, order: Integers, classes: int) -> None:
    """Check that the first examples are the coded share and that their labels give the classes."""
    if rule.tenths is None:
        return
    first = rule.tenths * len(labels) // 10
    if first != rule.first:
        raise Refused(
            f"Facts: first is {rule.first}; {rule.tenths}/10 of {len(labels)} examples are {first}."
        )
    found = int(labels[order[:first]].max()) + 1 + rule.more_classes
    if found != classes:
        raise Refused(
            f"Message: by the labels of the first examples there are {found} classes; facts.classes is "
            f"{classes}."
        )


def _usual(shape: tuple[int, ...]) -> Learner:
    """Default learner for such inputs: features, copies, gamma, ridge and target."""
    if len(shape) == 3 and max(shape[1:]) <= 128:
        channels, side = shape[0], min(shape[1:])
        if channels == 1 and side >= 6:
            return Filters(straight=True, dictionary=3, pool=min(5, max(2, side // 7))), 2, 0.5, 1.0, 0.5
        if channels == 3 and side >= 16:
            patches = Patches(size=6, filters=1024, threshold=4, grid=3, whitening=2.0**-13, seed=0)
            return patches, MIRRORED, 0.5, 0.25, 0.5
    return Columns(normalised=False), 0, 2.0, 0.25, 0.5


def _read_learner(
    decoder: Decoder, shape: tuple[int, ...], *, has_layers: bool
) -> tuple[Learner, Layer | None]:
    kind, layer, copies, is_usual = decoder.uniform(4), None, None, False
    if kind < LAYER:
        features = _read_features(decoder, kind)
    elif not has_layers:
        raise Refused("Rule: features of kind 3 are reserved in version 2; 0 to 2 are known.")
    else:
        if (below := decoder.uniform(4)) < LAYER:
            features = _read_features(decoder, below)
        else:
            features, copies = _usual(shape)[:2]
            is_usual = bool(decoder.bit())
        layer = _read_layer(decoder, features, shape)
    if copies is None:
        copies = _read_copies(decoder, features)
    if is_usual:
        return _usual(shape), layer
    return (features, copies, *_read_widths(decoder), (decoder.uniform(8) + 1) / 8), layer


def _read_copies(decoder: Decoder, features: Features) -> int:
    copies = decoder.uniform(len(COPIES))
    if copies and isinstance(features, Columns):
        raise Refused(f"Rule: columns have no copies; number {copies} is coded.")
    if copies == MIRRORED and not isinstance(features, Patches):
        raise Refused("Rule: a picture and its mirror image are one for patches alone.")
    return copies


def _read_widths(decoder: Decoder) -> tuple[float, float]:
    """gamma and lambda."""
    return 2.0 ** (decoder.uniform(16) - 5), 2.0 ** (decoder.uniform(16) - 8)


def _read_features(decoder: Decoder, kind: int) -> Features:
    if kind == 0:
        return Columns(normalised=bool(decoder.bit()))
    if kind == 1:
        return Filters(
            straight=bool(decoder.bit()), dictionary=(3, 1)[decoder.uniform(2)], pool=decoder.uniform(4) + 2
        )
    return Patches(
        size=decoder.uniform(8) + 3,
        filters=256 << decoder.uniform(4),
        threshold=decoder.uniform(8),
        grid=decoder.uniform(4) + 2,
        whitening=2.0 ** -(7 + decoder.uniform(8)),
        seed=decoder.uniform(4),
    )


def _read_layer(decoder: Decoder, features: Features, shape: tuple[int, ...]) -> Layer:
    """The weights of all numbers of a vector, of which each group has one; or how they are computed."""
    power = decoder.uniform(4)
    windows = bool(decoder.bit()) if isinstance(features, Filters) and not power else False
    if (dimension := features.dimension(shape)) > DIMENSION_LIMIT:
        raise Refused(
            f"Rule: the length of a vector would be {dimension}; at most {DIMENSION_LIMIT} is allowed."
        )
    if power:
        return power
    groups = features.groups(shape, windows=windows)
    near = decoder.bit()
    contexts, before, weights = [Context(len(WEIGHTS)) for _ in WEIGHTS], START, []
    for _ in range(groups.max() + 1):
        before = contexts[before if near else 0].read(decoder)
        weights.append(WEIGHTS[before])
    if not any(weights):
        raise Refused("Rule: all weights of the layer are 0.")
    return tuple(weights[group] for group in groups)


def _read_batches(decoder: Decoder, batch: int, rounds: int) -> tuple[int, ...]:
    """The sizes of the batches, some of them longer."""
    if (longer := decoder.gamma() - 1) > rounds:
        raise Refused(f"Rule: {longer} longer batches are coded for {rounds} rounds.")
    batches, last = [batch] * rounds, -1
    for _ in range(longer):
        if (place := decoder.uniform(rounds)) <= last:
            raise Refused(f"Rule: longer batches must be in order; {place} comes after {last}.")
        batches[place] += decoder.uniform(8) + 1
        last = place
    return tuple(batches)


def check_sizes(rule: Rule, shape: tuple[int, ...], *, examples: int, classes: int) -> None:
    """Refuse a rule that does not fit these examples, or asks for more than it may (10.8)."""
    picked = rule.first + rule.picks
    if rule.first >= examples or picked > examples:
        raise Refused(
            f"Rule: it starts with {rule.first} examples and picks {rule.picks}; the sample has {examples}."
        )
    dimension = rule.features.dimension(shape)
    if isinstance(rule.features, Patches):
        rule.features.check_work(shape, rule.first)
    supports = rule.supports(picked)
    work = examples * supports * classes * (len(rule.batches) + 1)
    for what, size, limit in (
        ("the length of a vector", dimension, DIMENSION_LIMIT),
        ("the number of supports", supports, SUPPORTS_LIMIT),
        ("the numbers in the kernel", examples * supports, KERNEL_LIMIT),
        ("the numbers in all vectors", (examples + supports) * dimension, VECTORS_LIMIT),
        ("the outputs", (examples + supports) * classes, OUTPUTS_LIMIT),
        ("the multiplications for the outputs", work, OUTPUTS_WORK_LIMIT),
    ):
        if size > limit:
            raise Refused(f"Rule: {what} would be {size}; at most {limit} is allowed.")


def _picture(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """The sizes of a picture that filters and patches can be made of (10.3)."""
    if len(shape) != 3 or shape[0] not in (1, 3) or not (shape[1] in SIDES and shape[2] in SIDES):
        raise Refused(
            f"Rule: its features are of pictures of 1 or 3 channels and sides from 3 to 128; "
            f"an input has shape {shape}."
        )
    channels, height, width = shape
    return channels, height, width
