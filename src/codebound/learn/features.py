"""Features as vectors of integers, whose scalar products are exact in float32 (docs/format.md, 7.3 to 7.6).

What a feature map needs to know of data it takes from the first examples alone, which are never counted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from codebound.learn.images import (
    colour_planes,
    dictionary_channels,
    levels,
    spread_filters,
    straighten,
    window_moduli,
    window_sums,
)
from codebound.run.device import exact_products
from codebound.run.errors import CertificateError, ModelError
from codebound.run.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.bits.plain_code import PlainCoder
    from codebound.learn.images import Change
    from codebound.learn.rule import Rule
    from codebound.sample.dataset import Sample
    from codebound.sample.order import Arranged

LARGEST = 4095  # length of a vector; the square of one more is 2^24, below which float32 counts exactly
MAX_SIZE = 1 << 16
NUMBERS = 1 << 21  # in the patches of a chunk of pictures: they stay in the cache
_DIVISORS = (1.0, 16.0, 255.0)
_TABLES = (3, 1)
_ROWS = 1024  # whose numbers are looked at at a time


class RoomError(CertificateError):
    """Two machines might round or pick differently: another rule has to be chosen."""


class AbstractFeatures(ABC):
    """The choices of a feature map, which a message names."""

    kind: ClassVar[int]
    has_pictures: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def code(cls, coder: PlainCoder, value: AbstractFeatures) -> AbstractFeatures:
        """Codes the choices, or returns those that are read."""

    @abstractmethod
    def dimension(self, shape: tuple[int, ...], tensors: Mapping[str, Tensor]) -> int:
        """Return the numbers in a vector."""

    @abstractmethod
    def fit(self, first: Tensor, *, is_mirrored: bool) -> dict[str, Tensor]:
        """Return the tensors fitted to the first examples."""

    @abstractmethod
    def numbers(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Whole numbers in float64 that vectors are made of, for few inputs."""

    def vectors(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Vectors of integers in float32, one a row: weighted, brought to the common length, and rounded."""
        found = []
        for part in chunks(x, self._chunk(x)):
            numbers = self.numbers(part, tensors)
            if "centre" in tensors:
                numbers = numbers - tensors["centre"]
            if "weights" in tensors:
                numbers = numbers * tensors["weights"]
            squares = numbers.square().sum(1, keepdim=True)
            length = LARGEST - math.ceil(math.sqrt(numbers.shape[1]) / 2.0)
            scaled = numbers.mul(float(length)).div_(squares.sqrt_())
            found.append(scaled.nan_to_num_(0.0).round_().float())
        return torch.cat(found)

    def _chunk(self, x: Tensor) -> int:
        """Inputs whose numbers a core has at hand, or a GPU has room for."""
        return _ROWS

    def read(self, x: Tensor, divisor: float) -> Tensor:
        """Stored inputs as pictures of levels."""
        return levels(x, divisor)

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuses inputs that have no such features."""
        if not is_picture(shape):
            raise ModelError(
                f"these features are of pictures with 1 or 3 channels and sides from 3 to 128. Got {shape}."
            )

    def fold(self, vectors: Tensor) -> Tensor:
        """Vectors together with those of the mirror images, as one support."""
        raise ModelError("only patches have mirror images as one support.")

    def unit(self, size: int, tensors: Mapping[str, Tensor]) -> float:
        """Square of the length of every vector of ``size`` numbers, before it is rounded."""
        return float((LARGEST - math.ceil(math.sqrt(size) / 2.0)) ** 2)


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A feature map with the tensors that it took from the first examples, and the divisor of pictures.

    Where it is mirrored, vectors say what the mirror image looks like, too (``fold``).
    """

    settings: AbstractFeatures
    tensors: Mapping[str, Tensor]
    divisor: float
    dimension: int
    is_mirrored: bool = False

    @property
    def unit(self) -> float:
        """Length that a difference of two vectors is measured in, squared."""
        return self.settings.unit(self.dimension, self.tensors)

    def __call__(self, x: Tensor, change: Change | None = None) -> Tensor:
        """Vectors of integers in float32, one a row, for stored inputs, or for changed copies of them."""
        read = self.settings.read(x, self.divisor)
        found = self.settings.vectors(read if change is None else change(read), self.tensors)
        return self.settings.fold(found) if self.is_mirrored else found


def fit_features(
    settings: AbstractFeatures, first: Tensor, labels: Tensor, *, weights: int = 0, is_mirrored: bool = False
) -> FeatureMap:
    """The feature map that is made of the first examples as they are stored, and of their labels.

    Raises:
        ModelError: The inputs have no such features.
    """
    shape = tuple(first.shape[1:])
    settings.check(shape)
    divisor = 1.0
    if settings.has_pictures:
        largest = float(first.max())
        if not largest <= _DIVISORS[-1]:  # or NaN
            raise ModelError(
                f"pictures have values up to {_DIVISORS[-1]:g}; the first examples have {largest:g}. Store "
                "them as bytes, or divided by a constant that was fixed before."
            )
        divisor = next(each for each in _DIVISORS if largest <= each)
    read = settings.read(first, divisor)
    tensors = settings.fit(read, is_mirrored=is_mirrored)
    if weights:
        tensors["weights"] = _weigh(settings, read, tensors, labels, weights, is_mirrored)
    size = settings.dimension(shape, tensors)
    if not 1 <= size <= MAX_SIZE:
        raise ModelError(f"a vector of features has 1 to {MAX_SIZE} numbers. Got {size}.")
    settings.unit(size, tensors)  # which refuses weights that are too large
    return FeatureMap(settings, tensors, divisor, size, is_mirrored)


def _weigh(
    settings: AbstractFeatures,
    first: Tensor,
    tensors: Mapping[str, Tensor],
    labels: Tensor,
    power: int,
    is_mirrored: bool,
) -> Tensor:
    """Weights by the share of the spread of each number that lies between the classes (7.6)."""
    total = squares = between = torch.zeros(1, dtype=torch.float64, device=first.device)
    for label in sorted(set(labels.tolist())):
        chosen, own = first[labels == label], torch.zeros_like(total)
        chosen = torch.cat([chosen, chosen.flip(-1)]) if is_mirrored else chosen
        for part in chunks(chosen, settings._chunk(chosen)):
            numbers = settings.numbers(part, tensors)
            own, squares = own + numbers.sum(0), squares + numbers.square().sum(0)
        total, between = total + own, between + own * own / len(chosen)
    apart = total * total / (len(first) * (2 if is_mirrored else 1))
    between, spread = between - apart, squares - apart
    shares = torch.where((between > 0.0) & (spread > 0.0), between / spread, 0.0)
    if not bool(shares.any()):
        return torch.ones_like(shares)
    shares = shares / shares.max()
    for _ in range(3 - power):
        shares = shares.sqrt()
    return (8.0 * shares).round()


@dataclass(frozen=True, slots=True)
class FilterFeatures(AbstractFeatures):
    """Moduli of the fixed filters of a dictionary, of the straightened picture or of the picture as it is."""

    kind: ClassVar[int] = 1
    is_straight: bool = True
    table: int = 3
    pool: int = 4

    @classmethod
    def code(cls, coder: PlainCoder, value: AbstractFeatures) -> FilterFeatures:  # noqa: D102
        chosen = value if isinstance(value, cls) else cls()
        return cls(
            coder.flag(chosen.is_straight),
            _TABLES[coder.code(_TABLES.index(chosen.table), 1)],
            2 + coder.code(chosen.pool - 2, 2),
        )

    def check(self, shape: tuple[int, ...]) -> None:  # noqa: D102
        AbstractFeatures.check(self, shape)
        if self.pool > min(shape[1:]):
            raise ModelError(f"windows of {self.pool} pixels are larger than the picture, {shape}.")

    def dimension(self, shape: tuple[int, ...], tensors: Mapping[str, Tensor]) -> int:  # noqa: D102
        windows = (shape[1] // self.pool) * (shape[2] // self.pool)
        return dictionary_channels(self.table, shape[0]) * windows

    def fit(self, first: Tensor, *, is_mirrored: bool) -> dict[str, Tensor]:  # noqa: D102
        return {"centre": centre(self.numbers(part, {}) for part in chunks(first, self._chunk(first)))}

    def numbers(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        if self.is_straight:
            x = straighten(x)
        planes = colour_planes(x).floor_() if x.shape[1] == 3 else x
        matrices = (torch.as_tensor(each, device=x.device) for each in spread_filters(self.table, self.pool))
        moduli = torch.cat([window_moduli(planes, matrix, self.pool) for matrix in matrices], dim=2).mul_(2.0)
        light = window_sums(planes, self.pool).double().mul_(4.0)
        sums = torch.cat([moduli.flatten(1), light.flatten(1)], dim=1)
        return sums.div_(self.pool**2).floor_()

    def _chunk(self, x: Tensor) -> int:
        room = NUMBERS if x.device.type == "cpu" else NUMBERS << 8
        return max(1, room // (128 * x[0].numel()))


def is_picture(shape: tuple[int, ...]) -> bool:
    """Return True if inputs of a shape have filters and patches (docs/format.md, 7.2)."""
    return len(shape) == 3 and shape[0] in (1, 3) and 3 <= min(shape[1:]) <= max(shape[1:]) <= 128


def chunks(x: Tensor, size: int) -> Iterator[Tensor]:
    """The rows, so many at a time; all at once where their number stays open, for another program."""
    if torch.compiler.is_compiling():
        return iter((x,))
    return (x[start : start + size] for start in range(0, len(x), max(1, size)))


def centre(parts: Iterator[Tensor]) -> Tensor:
    """Whole part of the mean of all rows."""
    total, count = torch.zeros(()), 0
    for part in parts:
        total, count = total.to(part.device) + part.sum(0), count + len(part)
    return (total / count).floor_()


FEATURES = "features"
"""Name of the progress before anything is learned."""
_CHUNK = 500


def vectors_of(
    features: FeatureMap,
    stored: Tensor,
    *,
    change: Change | None = None,
    device: str | torch.device = "cpu",
    progress: Progress = silent,
) -> Tensor:
    """Vectors of stored inputs, or of their changed copies, in 16 bits."""
    size = features.dimension
    found = torch.empty(len(stored), size, dtype=torch.int16, device=device)

    def make(start: int) -> Tensor:
        with torch.no_grad():  # which every thread has to say
            return features(stored[start : start + _CHUNK].to(device), change).to(torch.int16)

    is_on_cpu = torch.device(device).type == "cpu"
    with exact_products():
        for start, part in _side_by_side(make, range(0, len(stored), _CHUNK), is_on_cpu=is_on_cpu):
            found[start : start + len(part)] = part
            progress(start, len(stored), FEATURES)
    return found


def _side_by_side(
    make: Callable[[int], Tensor], starts: range, *, is_on_cpu: bool
) -> Iterator[tuple[int, Tensor]]:
    """Make the parts in parallel, in order. The steps are small, so that each core has a part of its own."""
    threads = torch.get_num_threads()
    if not is_on_cpu or threads == 1:
        yield from ((start, make(start)) for start in starts)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for at in range(0, len(starts), 2 * threads):
                some = starts[at : at + 2 * threads]
                yield from zip(some, pool.map(make, some), strict=True)
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """The feature map, which knows the known rows alone, and the vectors of every row in 16 bits."""

    features: FeatureMap
    vectors: Tensor


def prepare(
    rule: Rule,
    arranged: Arranged,
    first: int,
    *,
    device: str | torch.device = "cpu",
    progress: Progress = silent,
) -> Prepared:
    """The features that a known share of ``first`` rows or clusters makes.

    Raises:
        ModelError: The inputs have no such features.
        RoomError: Two machines might make others.
    """
    sample = arranged.sample
    features = features_of(rule, sample, arranged.split(first)[0], device=device)
    stored = torch.from_numpy(np.ascontiguousarray(sample.x))
    return Prepared(features, vectors_of(features, stored, device=device, progress=progress))


@torch.no_grad()
def features_of(
    rule: Rule, sample: Sample, known: NDArray[np.int64], *, device: str | torch.device = "cpu"
) -> FeatureMap:
    """The feature map of a rule that is made of known rows, in their order."""
    if len(known) == 0:
        raise ModelError("features are made of known rows. There are none.")
    if getattr(rule.features, "is_normalised", False) and sample.is_cells:
        raise ModelError("rows of cells have no length.")
    first, labels = (torch.from_numpy(each[known]).to(device) for each in (sample.x, sample.y))
    with exact_products():
        return fit_features(rule.features, first, labels, weights=rule.weights, is_mirrored=rule.is_mirrored)
