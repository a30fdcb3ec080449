"""Features as vectors of integers, whose scalar products are exact in float32 (docs/format.md, 10.4).

What a feature map needs to know of data it takes from the first examples alone, which are never counted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch.nn import functional

from codebound.bits.numbers import bit, uniform
from codebound.bits.stream import Stream
from codebound.learn.images import (
    colour_planes,
    dictionary_channels,
    levels,
    pooling_windows,
    spread_filters,
    straighten,
    window_moduli,
    window_sums,
)
from codebound.run.errors import CertificateError, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import Tensor

    from codebound.bits.arithmetic import AbstractCoder

LARGEST = 4095  # length of a vector; the square of one more is 2^24, below which float32 counts exactly
MAX_SIZE = 1 << 16
_TABLES = (3, 1)
_ROW_SUM = 65_000  # of a filter: times 255 it stays below 2^24
_NUMBERS = 1 << 21  # in the patches of a chunk of pictures: they stay in the cache
_FILTERS = 256  # whose responses to a picture stay there too
ROOM = 1e-6  # to the next half-integer, where a number is rounded; a verifier asks for half of it


class RoomError(CertificateError):
    """Two machines might round or pick differently: another rule has to be chosen."""


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A feature map that knows what it needs of the first examples.

    Attributes:
        settings: What it is.
        tensors: What it took from the first examples, by name.
        divisor: Of stored values: that of the scaling.
        unit: Length that a difference of two vectors is measured in, squared.
    """

    settings: AbstractFeatures
    tensors: Mapping[str, Tensor]
    divisor: float
    unit: float

    def __call__(self, x: Tensor, change: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Vectors of integers in float32, one a row, for stored inputs, or for changed copies of them."""
        read = self.settings.read(x, self.divisor)
        return self.settings.vectors(read if change is None else change(read), self.tensors)


class AbstractFeatures(ABC):
    """The choices of a feature map, which a message names."""

    kind: ClassVar[int]
    has_pictures: ClassVar[bool] = True

    @property
    def plain(self) -> AbstractFeatures:
        """The features below a coded layer: these, where there is none."""
        return self

    @classmethod
    @abstractmethod
    def code(cls, coder: AbstractCoder, value: AbstractFeatures) -> AbstractFeatures:
        """Codes the choices, or returns those that are read."""

    @abstractmethod
    def groups(self, shape: tuple[int, ...], *, by_window: bool) -> Tensor:
        """Return the weight index of each number of a vector. ``by_window`` matters to filters alone."""

    @abstractmethod
    def fit(self, first: Tensor, *, is_mirrored: bool) -> dict[str, Tensor]:
        """Return the tensors fitted to the first examples."""

    @abstractmethod
    def numbers(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Whole numbers in float64 that vectors are made of, for few inputs."""

    def vectors(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Vectors of integers in float32, one a row; ``weights`` among the tensors are those of a layer."""
        found = (self.numbers(part, tensors) for part in chunks(x, self._chunk(x)))
        return torch.cat([_scale_to_length(part, tensors.get("weights")) for part in found])

    def _chunk(self, x: Tensor) -> int:
        """Inputs whose numbers a core has at hand, or a GPU has room for."""
        return len(x)

    def read(self, x: Tensor, divisor: float) -> Tensor:
        """Stored inputs as pictures of levels."""
        return levels(x, divisor)

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuses inputs that have no such features."""
        if not is_picture(shape):
            raise ModelError(
                f"these features are of pictures with 1 or 3 channels and sides from 3 to 128. Got {shape}."
            )

    def halves(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers of vectors that mirroring exchanges with the others, and those of the mirror images."""
        raise ModelError("only patches have mirror images as one support.")

    def unit(self, size: int, tensors: Mapping[str, Tensor]) -> float:
        """Square of the length of every vector of ``size`` numbers, before it is rounded."""
        return float(_length(size) ** 2)

    def fit_map(
        self, first: Tensor, divisor: float, *, is_mirrored: bool, labels: Tensor | None = None
    ) -> FeatureMap:
        """The feature map, from the first examples as they are stored. Labels matter to a layer alone."""
        self.check(tuple(first.shape[1:]))
        tensors = self.fit(self.read(first, divisor), is_mirrored=is_mirrored)
        return self.map_with(tensors, first, divisor)

    def map_with(self, tensors: Mapping[str, Tensor], stored: Tensor, divisor: float) -> FeatureMap:
        """The feature map that tensors make, for inputs like those that are stored."""
        size = self.vectors(self.read(stored[:1], divisor), tensors).shape[1]
        return FeatureMap(self, tensors, divisor, self.unit(size, tensors))


@dataclass(frozen=True, slots=True)
class ColumnFeatures(AbstractFeatures):
    """The stored numbers: each column by its own middle and spread, or all of them by their length."""

    kind: ClassVar[int] = 0
    has_pictures: ClassVar[bool] = False
    is_normalised: bool = False

    @classmethod
    def code(cls, coder: AbstractCoder, value: AbstractFeatures) -> ColumnFeatures:  # noqa: D102
        chosen = value if isinstance(value, cls) else cls()
        return cls(bool(bit(coder, int(chosen.is_normalised))))

    def check(self, shape: tuple[int, ...]) -> None:  # noqa: D102
        if math.prod(shape) > MAX_SIZE:
            raise ModelError(f"columns are at most {MAX_SIZE}. Got {math.prod(shape)}.")

    def read(self, x: Tensor, divisor: float) -> Tensor:  # noqa: D102
        return x.flatten(1).double()

    def fit(self, first: Tensor, *, is_mirrored: bool) -> dict[str, Tensor]:  # noqa: D102
        if self.is_normalised:
            return {}
        ranked, n = first.sort(dim=0).values, len(first)
        spread, whole = ranked[9 * n // 10] - ranked[n // 10], ranked[-1] - ranked[0]
        spread = torch.where(spread == 0.0, torch.where(whole == 0.0, 1.0, whole), spread)
        return {"middle": ranked[n // 2], "spread": spread}

    def groups(self, shape: tuple[int, ...], *, by_window: bool) -> Tensor:  # noqa: D102
        return torch.arange(math.prod(shape))

    def vectors(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        if self.is_normalised:
            return AbstractFeatures.vectors(self, x, tensors)
        weights = tensors.get("weights")
        unit = float(_column_unit(x.shape[1], weights))
        return self._parts(x, tensors).mul_(unit if weights is None else weights * unit).round_().float()

    def numbers(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        if not self.is_normalised:
            return self._parts(x, tensors).mul_(256.0).round_()
        largest = x.abs().amax(1, keepdim=True)
        return (x * 32767.0 / largest).nan_to_num_(0.0).round_()

    @staticmethod
    def _parts(x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        return ((x - tensors["middle"]) / tensors["spread"]).clamp_(-4.0, 4.0)

    def unit(self, size: int, tensors: Mapping[str, Tensor]) -> float:  # noqa: D102
        if self.is_normalised:
            return AbstractFeatures.unit(self, size, tensors)
        weights = tensors.get("weights")
        return float(_squares(size, weights) * _column_unit(size, weights) ** 2)


@dataclass(frozen=True, slots=True)
class FilterFeatures(AbstractFeatures):
    """Moduli of the fixed filters of a dictionary, of the straightened picture or of the picture as it is."""

    kind: ClassVar[int] = 1
    is_straight: bool = True
    table: int = 3
    pool: int = 4

    @classmethod
    def code(cls, coder: AbstractCoder, value: AbstractFeatures) -> FilterFeatures:  # noqa: D102
        chosen = value if isinstance(value, cls) else cls()
        return cls(
            bool(bit(coder, int(chosen.is_straight))),
            _TABLES[uniform(coder, _TABLES.index(chosen.table), len(_TABLES))],
            2 + uniform(coder, chosen.pool - 2, 4),
        )

    def check(self, shape: tuple[int, ...]) -> None:  # noqa: D102
        AbstractFeatures.check(self, shape)
        if self.pool > min(shape[1:]):
            raise ModelError(f"windows of {self.pool} pixels are larger than the picture, {shape}.")

    def fit(self, first: Tensor, *, is_mirrored: bool) -> dict[str, Tensor]:  # noqa: D102
        return {"centre": _centre(self._pool(part) for part in chunks(first, self._chunk(first)))}

    def groups(self, shape: tuple[int, ...], *, by_window: bool) -> Tensor:  # noqa: D102
        channels = dictionary_channels(self.table, shape[0])
        windows = (shape[1] // self.pool) * (shape[2] // self.pool)
        if by_window:
            return torch.arange(windows).repeat(channels)
        return torch.arange(channels).repeat_interleave(windows)

    def numbers(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        return self._pool(x).double() - tensors["centre"]

    def _chunk(self, x: Tensor) -> int:
        room = _NUMBERS if x.device.type == "cpu" else _NUMBERS << 8
        return max(1, room // (128 * x[0].numel()))

    def _pool(self, x: Tensor) -> Tensor:
        if self.is_straight:
            x = straighten(x)
        planes = colour_planes(x).floor_() if x.shape[1] == 3 else x
        matrices = (torch.as_tensor(each, device=x.device) for each in spread_filters(self.table, self.pool))
        moduli = torch.cat([window_moduli(planes, matrix, self.pool) for matrix in matrices], dim=2).mul_(2.0)
        light = window_sums(planes, self.pool).double().mul_(4.0)
        sums = torch.cat([moduli.flatten(1), light.flatten(1)], dim=1)
        return sums.div_(self.pool**2).floor_()


@dataclass(frozen=True, slots=True)
class PatchFeatures(AbstractFeatures):
    """Similarity of whitened patches of a picture to those of the first pictures.

    Attributes:
        size: Side of a patch.
        count: Number of filters.
        threshold: Sixteenths below which a cosine is nothing.
        grid: Windows along a side.
        whitening: Added to every variance is 2^-(7 + whitening).
        seed: Which patches become filters.
    """

    kind: ClassVar[int] = 2
    size: int = 6
    count: int = 1024
    threshold: int = 4
    grid: int = 3
    whitening: int = 6
    seed: int = 0

    @classmethod
    def code(cls, coder: AbstractCoder, value: AbstractFeatures) -> PatchFeatures:  # noqa: D102
        chosen = value if isinstance(value, cls) else cls()
        return cls(
            3 + uniform(coder, chosen.size - 3, 8),
            256 << uniform(coder, (chosen.count // 256).bit_length() - 1, 4),
            uniform(coder, chosen.threshold, 8),
            2 + uniform(coder, chosen.grid - 2, 4),
            uniform(coder, chosen.whitening, 8),
            uniform(coder, chosen.seed, 4),
        )

    def check(self, shape: tuple[int, ...]) -> None:  # noqa: D102
        AbstractFeatures.check(self, shape)
        places = min(shape[1:]) - self.size + 1
        if places < self.grid or shape[0] * self.size**2 > 1024:
            raise ModelError(f"patches of {self.size} pixels on a grid of {self.grid} do not fit {shape}.")

    def fit(self, first: Tensor, *, is_mirrored: bool) -> dict[str, Tensor]:  # noqa: D102
        pictures = torch.cat([first, first.flip(-1)]) if is_mirrored else first
        inverse_root = _inverse_root(self._covariance(pictures), 2.0 ** -(7 + self.whitening))
        atoms = self._atoms(first, self.count // 2 if is_mirrored else self.count) / 1024.0
        turned = atoms @ inverse_root
        filters = (turned / turned.norm(dim=1, keepdim=True)) @ inverse_root
        (numbers, own), (whitener, other) = _whole(filters), _whole(inverse_root)
        if is_mirrored:
            shape = (-1, first.shape[1], self.size, self.size)
            numbers = torch.cat([numbers, numbers.view(shape).flip(-1).flatten(1)])
        tensors = {
            "filters": numbers,
            "whitener": whitener,
            "scale": torch.tensor(2.0 ** (4 + other - own), dtype=torch.float64, device=first.device),
        }
        parts = chunks(pictures, self._chunk(pictures))
        return {**tensors, "centre": _centre(self._windows(part, tensors) for part in parts)}

    def numbers(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        return self._windows(x, tensors).double() - tensors["centre"]

    def groups(self, shape: tuple[int, ...], *, by_window: bool) -> Tensor:  # noqa: D102
        places = torch.arange(self.grid)
        half = torch.minimum(places, self.grid - 1 - places)  # mirroring changes no group
        windows = places[:, None] * ((self.grid + 1) // 2) + half[None]
        return windows.flatten().repeat(2 * self.count)

    def halves(self, vectors: Tensor) -> tuple[Tensor, Tensor]:  # noqa: D102
        # sign, filter or its mirror image, which of them, rows and columns of windows
        seen = vectors.view(len(vectors), 2, 2, -1, self.grid, self.grid)
        return seen[:, :, 0].flatten(1), seen[:, :, 1].flip(-1).flatten(1)

    def _chunk(self, x: Tensor) -> int:
        room = (_NUMBERS >> 3) // _FILTERS if x.device.type == "cpu" else (_NUMBERS << 6) // self.count
        return max(1, room // (x.shape[2] * x.shape[3]))

    def _patches(self, x: Tensor) -> Tensor:
        return functional.unfold(x, self.size).transpose(1, 2).flatten(0, 1)

    def _normalise(self, x: Tensor) -> Tensor:
        """Patches without their mean, of about the same length: integers up to 1024."""
        patches = self._patches(x)
        size = patches.shape[1]
        apart = (size * patches - patches.sum(1, keepdim=True)).double()
        lengths = (apart.square().sum(1, keepdim=True) + 10.0 * size**3).sqrt_()
        return apart.mul_(1024.0).div_(lengths).round_()

    def _covariance(self, pictures: Tensor) -> Tensor:
        total, count = torch.zeros((), dtype=torch.float64, device=pictures.device), 0
        for part in chunks(pictures, 32):
            patches = self._normalise(part)
            total, count = total + patches.T @ patches, count + len(patches)
        return total / (count * 2.0**20)

    def _atoms(self, first: Tensor, count: int) -> Tensor:
        """The patches that become filters: of those with contrast, the ones with the smallest keys."""
        has_contrast = torch.cat(
            [self._normalise(part).square().sum(1) >= 2.0**19 for part in chunks(first, 32)]
        )
        candidates = has_contrast.nonzero()[:, 0].cpu()
        if len(candidates) < count:
            raise ModelError(
                f"{count} filters need as many patches with contrast; there are {len(candidates)}."
            )
        keys = Stream(self.seed, "atoms").words(len(candidates))
        chosen = candidates[torch.from_numpy(keys.argsort(kind="stable")[:count])]
        places = (first.shape[2] - self.size + 1) * (first.shape[3] - self.size + 1)
        found = [
            self._normalise(first[at // places : at // places + 1])[at % places] for at in chosen.tolist()
        ]
        return torch.stack(found)

    def _windows(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        patches = self._patches(x)
        patches -= (patches.sum(1, keepdim=True) / patches.shape[1]).add_(0.5).floor_()
        white = (patches @ tensors["whitener"].T).div_(16.0).floor_().double()
        length = white.square_().sum(1, keepdim=True).sqrt_().add_(1.0)
        scales = (tensors["scale"] / length).float()
        pooling, sizes = pooling_windows(
            x.shape[2] - self.size + 1, x.shape[3] - self.size + 1, self.grid, x.device
        )
        step = _FILTERS if x.device.type == "cpu" else self.count
        sums = [self._sums(patches @ part.T, scales, pooling) for part in chunks(tensors["filters"], step)]
        means = torch.cat(sums, dim=3).sub_(sizes * 16.0 * self.threshold).mul_(256.0)
        means.div_(sizes).sqrt_().mul_(16.0).floor_()
        return means.transpose(2, 3).flatten(1)

    def _sums(self, found: Tensor, scales: Tensor, pooling: Tensor) -> Tensor:
        """Sums over windows of what is above the threshold, or else of the threshold, for both signs."""
        cosines = found.mul_(scales).floor_().view(-1, pooling.shape[1], found.shape[1])
        plus = pooling @ cosines.clamp(min=16.0 * self.threshold)
        minus = pooling @ cosines.clamp_(max=-16.0 * self.threshold)
        return torch.stack([plus, minus.neg_()], dim=1)


FEATURES: dict[int, type[AbstractFeatures]] = {
    each.kind: each for each in (ColumnFeatures, FilterFeatures, PatchFeatures)
}


def is_picture(shape: tuple[int, ...]) -> bool:
    """Return True if inputs of a shape have filters and patches (docs/format.md, 10.3)."""
    return len(shape) == 3 and shape[0] in (1, 3) and 3 <= min(shape[1:]) <= max(shape[1:]) <= 128


def chunks(x: Tensor, size: int) -> Iterator[Tensor]:
    """The rows, so many at a time; all at once where their number stays open, for another program."""
    if torch.compiler.is_compiling():
        return iter((x,))
    return (x[start : start + size] for start in range(0, len(x), size))


def _length(size: int) -> int:
    """Length of a vector before it is rounded: afterwards it is still below 4096."""
    if size > MAX_SIZE:
        raise ModelError(f"a vector of features has at most {MAX_SIZE} numbers. Got {size}.")
    return LARGEST - math.ceil(math.sqrt(size) / 2.0)


def _squares(size: int, weights: Tensor | None) -> int:
    """The sum of the squares of all weights, which are 1 without a layer."""
    return size if weights is None else int(weights.square().sum())


def _column_unit(size: int, weights: Tensor | None) -> int:
    """Return the factor of a column of weight 1."""
    root = math.sqrt(_squares(size, weights))
    found = math.floor((LARGEST - math.sqrt(size) / 2.0) / (4.0 * root))
    if found < 1:
        raise ModelError(f"the weights of {size} columns are too large for whole numbers.")
    return found


def _scale_to_length(x: Tensor, weights: Tensor | None) -> Tensor:
    """Rows of integers, weighted, brought to the common length, and rounded."""
    x = x if weights is None else x * weights
    squares = x.square().sum(1, keepdim=True)
    found = x.mul(float(_length(x.shape[1]))).div_(squares.sqrt_())
    return found.nan_to_num_(0.0).round_().float()


def _centre(parts: Iterator[Tensor]) -> Tensor:
    """Whole part of the mean of all rows."""
    total, count = None, 0
    for part in parts:
        found = part.double().sum(0)
        total, count = found if total is None else total + found, count + len(part)
    assert total is not None  # there is a first example
    return (total / count).floor_()


def _inverse_root(covariance: Tensor, added: float) -> Tensor:
    """(C + added)^(-1/2), the same on every machine but for rounding."""
    values, vectors = torch.linalg.eigh(covariance)
    root: Tensor = (vectors * (values + added).rsqrt()) @ vectors.T
    identity = torch.eye(len(root), dtype=root.dtype, device=root.device)
    if float((root @ (covariance + added * identity) @ root - identity).norm()) > 1e-9:
        raise RoomError("the patches of the first examples cannot be whitened accurately enough.")
    return root


def _whole(matrix: Tensor) -> tuple[Tensor, int]:
    """A matrix as integers with row sums below a limit, and the power of two that it was multiplied with.

    Refuses one with a rounding near to a tie.
    """
    exponent = math.log2(_ROW_SUM / float(matrix.abs().sum(1).max()))
    scaled = matrix * 2.0 ** math.floor(exponent)
    nearest = float((scaled - scaled.floor() - 0.5).abs().min())
    if min(nearest, abs(exponent - round(exponent))) <= ROOM:
        raise RoomError("a filter lies so near to a tie that two machines could round it differently.")
    return scaled.round().float(), math.floor(exponent)
