"""Similarity of the patches of a picture to whitened ones of the first pictures (docs/format.md, 7.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch.nn import functional

from codebound.bits.stream import Stream
from codebound.learn.features import NUMBERS, AbstractFeatures, RoomError, centre, chunks
from codebound.learn.images import pooling_windows
from codebound.run.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from codebound.bits.plain_code import PlainCoder

ROOM = 1e-7  # to the next half-integer, where a number is rounded; a verifier asks for half of it
DOUBT = 0.2e-7  # by how much a number may be off before it is rounded; 0.25e-7 for a verifier
_OFF = 1e-9  # W A W - 1, for the inverse root W of A
_ROW_SUM = 65_000  # of a filter: times 255 it stays below 2^24
_FILTERS = 256  # whose responses to a picture stay in the cache
_PICTURES = 32  # whose patches are looked at at a time
_DIGITS = 22  # of numbers of which some hundred products add up exactly


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
    def code(cls, coder: PlainCoder, value: AbstractFeatures) -> PatchFeatures:  # noqa: D102
        chosen = value if isinstance(value, cls) else cls()
        return cls(
            3 + coder.code(chosen.size - 3, 3),
            256 << coder.code((chosen.count // 256).bit_length() - 1, 2),
            coder.code(chosen.threshold, 3),
            2 + coder.code(chosen.grid - 2, 2),
            coder.code(chosen.whitening, 3),
            coder.code(chosen.seed, 2),
        )

    def places(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Rows and columns of patches."""
        return shape[1] - self.size + 1, shape[2] - self.size + 1

    def check(self, shape: tuple[int, ...]) -> None:  # noqa: D102
        AbstractFeatures.check(self, shape)
        if min(self.places(shape)) < self.grid:
            raise ModelError(f"patches of {self.size} pixels on a grid of {self.grid} do not fit {shape}.")

    def dimension(self, shape: tuple[int, ...], tensors: Mapping[str, Tensor]) -> int:  # noqa: D102
        return 2 * self.count * self.grid**2

    def fit(self, first: Tensor, *, is_mirrored: bool) -> dict[str, Tensor]:  # noqa: D102
        pictures = torch.cat([first, first.flip(-1)]) if is_mirrored else first
        ridge = 2.0 ** -(7 + self.whitening)
        total, count = torch.zeros((), dtype=torch.float64, device=pictures.device), 0
        for part in chunks(pictures, _PICTURES):
            patches = self._normalise(part)
            total, count = total + patches.T @ patches, count + len(patches)
        inverse_root, off = _inverse_root(total / (count * 2.0**20), ridge)
        atoms = self._atoms(first, self.count // 2 if is_mirrored else self.count) / 1024.0
        turned = torch.add(*_multiply(atoms, inverse_root))
        lengths = turned.norm(dim=1, keepdim=True)
        filters = torch.add(*_multiply(turned / lengths, inverse_root))
        turn = 1e-15 + off * float((atoms.norm(dim=1, keepdim=True) / lengths).max())
        doubt = off + 2.01 * turn / math.sqrt(ridge) + 1e-13 * float(filters.norm(dim=1).max())
        (numbers, own), (whitener, other) = _whole(filters, doubt), _whole(inverse_root, off)
        if is_mirrored:
            shape = (-1, first.shape[1], self.size, self.size)
            numbers = torch.cat([numbers, numbers.view(shape).flip(-1).flatten(1)])
        scale = torch.tensor(2.0 ** (4 + other - own), dtype=torch.float64, device=first.device)
        tensors = {"filters": numbers, "whitener": whitener, "scale": scale}
        parts = chunks(pictures, self._chunk(pictures))
        return {**tensors, "centre": centre(self.numbers(part, tensors) for part in parts)}

    def numbers(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        patches = functional.unfold(x, self.size).transpose(1, 2).flatten(0, 1)
        patches -= (patches.sum(1, keepdim=True) / patches.shape[1]).add_(0.5).floor_()
        white = (patches @ tensors["whitener"].T).div_(16.0).floor_().double()
        length = white.square_().sum(1, keepdim=True).sqrt_().add_(1.0)
        scales = (tensors["scale"] / length).float()
        pooling, sizes = pooling_windows(*self.places(tuple(x.shape[1:])), self.grid, x.device)
        step = _FILTERS if x.device.type == "cpu" else self.count
        sums = [self._sums(patches @ part.T, scales, pooling) for part in chunks(tensors["filters"], step)]
        means = torch.cat(sums, dim=3).sub_(sizes * 16.0 * self.threshold).mul_(256.0)
        means.div_(sizes).sqrt_().mul_(16.0).floor_()
        return means.transpose(2, 3).flatten(1).double()

    def fold(self, vectors: Tensor) -> Tensor:
        """Vectors together with their mirror images, as four blocks: half the numbers of each say it all.

        With s = x + x' and d = x - x' over the half of the numbers that the image exchanges with the others,
        x y = (s s + d d) / 2 and x y' = (s s - d d) / 2. Both are cut in two so that float32 counts exactly.
        """
        # sign, filter or its mirror image, which of them, rows and columns of windows
        seen = vectors.view(-1, 2, 2, self.count // 2, self.grid, self.grid)
        own, image = seen[:, :, 0].flatten(1), seen[:, :, 1].flip(-1).flatten(1)
        return torch.cat([part[:, at::2] for part in (own + image, own - image) for at in (0, 1)], dim=1)

    def _chunk(self, x: Tensor) -> int:
        room = (NUMBERS >> 3) // _FILTERS if x.device.type == "cpu" else (NUMBERS << 6) // self.count
        return max(1, room // (x.shape[2] * x.shape[3]))

    def _normalise(self, x: Tensor) -> Tensor:
        """Patches without their mean, of about the same length: integers up to 1024."""
        patches = functional.unfold(x, self.size).transpose(1, 2).flatten(0, 1)
        size = patches.shape[1]
        apart = (size * patches - patches.sum(1, keepdim=True)).double()
        lengths = (apart.square().sum(1, keepdim=True) + 10.0 * size**3).sqrt_()
        return apart.mul_(1024.0).div_(lengths).round_()

    def _atoms(self, first: Tensor, count: int) -> Tensor:
        """The patches that become filters: of those with contrast, the ones with the smallest keys."""
        has_contrast = torch.cat(
            [self._normalise(part).square().sum(1) >= 2.0**19 for part in chunks(first, _PICTURES)]
        )
        candidates = has_contrast.nonzero()[:, 0].cpu()
        if len(candidates) < count:
            raise ModelError(
                f"{count} filters need as many patches with contrast; there are {len(candidates)}."
            )
        keys = Stream(self.seed, "atoms").words(len(candidates))
        chosen = candidates[torch.from_numpy(keys.argsort(kind="stable")[:count])]
        each = math.prod(self.places(tuple(first.shape[1:])))
        return torch.stack([self._normalise(first[at // each :][:1])[at % each] for at in chosen.tolist()])

    def _sums(self, found: Tensor, scales: Tensor, pooling: Tensor) -> Tensor:
        """Sums over windows of what is above the threshold, or else of the threshold, for both signs."""
        cosines = found.mul_(scales).floor_().view(-1, pooling.shape[1], found.shape[1])
        plus = pooling @ cosines.clamp(min=16.0 * self.threshold)
        minus = pooling @ cosines.clamp_(max=-16.0 * self.threshold)
        return torch.stack([plus, minus.neg_()], dim=1)


def _inverse_root(covariance: Tensor, added: float) -> tuple[Tensor, float]:
    """(C + added)^(-1/2), and how far it may be off: one step of Newton's method leaves next to nothing."""
    values, vectors = torch.linalg.eigh(covariance)
    shifted = covariance + added * torch.eye(len(values)).to(values)
    scales = (values + added).rsqrt()
    root: Tensor = (vectors * scales) @ vectors.T
    shares = scales[:, None] * scales / (scales[:, None] + scales)
    for step in (1.0, 0.0):  # and what it leaves
        inner, rest = _multiply(shifted, root)
        outer, last = _multiply(root, inner)
        off = (outer - torch.eye(len(root)).to(root)) + (last + root @ rest)  # W A W - 1
        root = root - step * (vectors @ (shares * (vectors.T @ off @ vectors)) @ vectors.T)
    residual = float(off.norm())
    if not residual <= _OFF:
        raise RoomError("the patches of the first examples cannot be whitened accurately enough.")
    return root, 0.51 * residual / math.sqrt(added)


def _multiply(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """A product as an exact part and the small rest, which together have far more digits than float64."""

    def head(matrix: Tensor) -> Tensor:
        unit = 2.0 ** (math.frexp(float(matrix.abs().max()))[1] - _DIGITS)
        return (matrix / unit).round_().mul_(unit)

    large, own = head(left), head(right)
    return large @ own, large @ (right - own) + (left - large) @ right


def _whole(matrix: Tensor, off: float) -> tuple[Tensor, int]:
    """A matrix as integers with row sums below a limit, and the power of two that it was multiplied with.

    Refuses one with a rounding near to a tie, or that may be off by too much.
    """
    exponent = math.log2(_ROW_SUM / float(matrix.abs().sum(1).max()))
    scaled = matrix * 2.0 ** math.floor(exponent)
    nearest = min(float((scaled - scaled.floor() - 0.5).abs().min()), abs(exponent - round(exponent)))
    if not (nearest > ROOM and off * 2.0 ** math.floor(exponent) <= DOUBT):
        raise RoomError("a filter lies so near to a tie that two machines could round it differently.")
    return scaled.round().float(), math.floor(exponent)
