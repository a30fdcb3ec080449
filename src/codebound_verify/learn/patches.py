"""Features that are cosines with whitened patches (docs/format.md, section 7.4)."""

from __future__ import annotations

import numpy as np
import torch

from ..refusal import Refused
from ..sample import Inputs, parts
from ..stream import Stream
from .exact import SINGLE, Doubles, Integers, Singles, Vectors, patches_of, product, side_by_side, windows
from .maps import CentredMap, Pictures
from .rule import Patches
from .whitening import filters_of, quantise, whitening_of

TOGETHER = 1 << 18  # numbers in the patches that are made at a time
AT_HAND = 256  # filters at a time
BRIGHT = 2**19  # sum of squares from which a patch is a candidate


class PatchMap(CentredMap):
    """Cosines above a threshold, with patches of the first pictures."""

    def __init__(self, choice: Patches, first: Inputs, *, divisor: float, is_mirrored: bool) -> None:
        super().__init__(divisor)
        self._choice, self.is_mirrored = choice, is_mirrored
        _, channels, height, width = first.shape
        self._patch = (channels, choice.size, choice.size)
        self._places = (height - choice.size + 1, width - choice.size + 1)
        pictures = self.prepare(first)
        self._learn(pictures)
        ranges = [
            [range(i * side // choice.grid, -(-(i + 1) * side // choice.grid)) for i in range(choice.grid)]
            for side in self._places
        ]
        self._windows = np.ascontiguousarray(windows(self._places, (ranges[0], ranges[1])).T)
        self._centre_at(pictures, choice.dimension(first.shape[1:]))

    def learned_from(self, prepared: Pictures) -> Doubles:
        """The numbers of pictures, and of their mirror images where a support has both."""
        found = self.raw(prepared)
        return np.concatenate([found, self.mirror(found)]) if self.is_mirrored else found

    def mirror(self, vectors: Doubles) -> Doubles:
        """The vectors of the mirror images: filters and windows change places."""
        grid = self._choice.grid
        seen = vectors.reshape(len(vectors), 2, 2, -1, grid, grid)  # sign, filter or its image, .., windows
        return seen[:, :, ::-1, :, :, ::-1].reshape(vectors.shape)

    def with_images(self, vectors: Vectors) -> Vectors:
        """Sums with the vectors of the mirror images, and differences: half of the numbers say it all.

        Each is in two blocks, of half of the filters, so that a block is hardly longer than a vector.
        """
        grid = self._choice.grid
        seen = vectors.reshape(len(vectors), 2, 2, 2, -1, grid, grid)  # .., which half of the filters, ..
        own, image = seen[:, :, 0], seen[:, :, 1, ..., ::-1]
        both = np.stack([own + image, own - image], axis=1)  # .., sum or difference, sign, half, ..
        return both.transpose(0, 1, 3, 2, 4, 5, 6).reshape(vectors.shape)

    def _learn(self, pictures: Pictures) -> None:
        """Whitening and filters, from the first pictures."""
        d = int(np.prod(self._patch))
        moments, candidates, places = np.zeros((d, d)), [], self._places[0] * self._places[1]
        step = max(1, TOGETHER // (d * places))

        def examined(part: slice) -> tuple[Doubles, Integers]:
            e = _contrast(patches_of(pictures[part].astype(np.float64), self._choice.size))
            bright = np.flatnonzero(np.einsum("ij,ij->j", e, e) >= BRIGHT)
            return product(e, np.ascontiguousarray(e.T)), np.asarray(bright + part.start * places)

        for some, bright in side_by_side(examined, parts(len(pictures), step)):
            moments += some
            candidates.append(bright)
        if self.is_mirrored:
            moments += moments[self._image][:, self._image]
        count = len(pictures) * places * (2 if self.is_mirrored else 1)
        ridge = self._choice.whitening
        root = whitening_of(moments / (2.0**20 * count) + ridge * np.eye(d), ridge)
        own = quantise(filters_of(root, self._atoms(pictures, np.concatenate(candidates)), ridge), "a filter")
        integers = own.integers
        if self.is_mirrored:
            integers = np.concatenate([integers, integers[:, self._image]])
        self._filters = np.ascontiguousarray(integers)
        whitening = quantise(root, "the whitening")
        self._whitening = whitening.integers
        self._gain = 2.0 ** (8 + whitening.exponent - own.exponent - 4)

    @property
    def _image(self) -> Integers:
        """Indices that turn a patch into its mirror image."""
        channels, size, _ = self._patch
        return np.arange(channels * size * size).reshape(self._patch)[:, :, ::-1].ravel()

    def _atoms(self, pictures: Pictures, candidates: Integers) -> Doubles:
        """The patches that become filters, as rows."""
        wanted = self._choice.filters // (2 if self.is_mirrored else 1)
        if len(candidates) < wanted:
            raise Refused(f"Rule: {wanted} patches are needed; the first pictures have {len(candidates)}.")
        keys = Stream(self._choice.seed, "atoms").words(0, len(candidates))
        chosen = candidates[np.argsort(keys, kind="stable")[:wanted]]
        size = self._choice.size
        picture, place = np.divmod(chosen, self._places[0] * self._places[1])
        rows, columns = np.divmod(place, self._places[1])
        seen = [
            pictures[p, :, i : i + size, j : j + size].ravel()
            for p, i, j in zip(picture, rows, columns, strict=True)
        ]
        return np.ascontiguousarray(_contrast(np.stack(seen, axis=1).astype(np.float64)).T)

    def raw(self, prepared: Pictures) -> Doubles:
        """The numbers of pictures: of every filter the windows, cosines above the threshold, then below."""
        together = max(1, TOGETHER // (AT_HAND * self._places[0] * self._places[1]))
        found = np.concatenate([self._window_sums(prepared[part]) for part in parts(len(prepared), together)])
        if not np.all(found < SINGLE):
            raise Refused("Rule: a sum over a window is too large for exact arithmetic.")
        sizes = self._windows.sum(axis=1)
        found -= np.float32(16 * self._choice.threshold) * sizes
        found *= 256
        found /= sizes
        np.sqrt(found, out=found)
        found *= 16
        np.floor(found, out=found)
        return found.reshape(len(prepared), -1).astype(np.float64)

    def _window_sums(self, pictures: Pictures) -> Singles:
        """Sums of max(T, t) and of max(T, -t), T the threshold: m T more than those of plus and minus.

        Pictures and filters are taken a few at a time, so that a core has them at hand.
        """
        g = patches_of(pictures.astype(np.float32), self._choice.size)
        g -= np.floor(g.sum(axis=0) / np.float32(len(g)) + np.float32(0.5))
        gains, patches = torch.from_numpy(self._gains(g))[:, None], torch.from_numpy(g).T
        limit, summing = 16 * self._choice.threshold, torch.from_numpy(self._windows)
        found = torch.empty(len(pictures), 2, len(self._filters), len(summing))
        for part in parts(len(self._filters), AT_HAND):
            t = torch.mm(patches, torch.from_numpy(self._filters[part]).T).mul_(gains).floor_()
            t = t.reshape(len(pictures), summing.shape[1], -1)
            found[:, 0, part] = (summing @ t.clamp(min=limit)).transpose(1, 2)
            found[:, 1, part] = (summing @ t.clamp_(max=-limit)).transpose(1, 2)
        found[:, 1].neg_()
        return found.numpy()

    def _gains(self, g: Singles) -> Singles:
        """Factors that turn the responses of patches into cosines."""
        whitened = product(self._whitening, g)
        whitened /= 16
        lengths = np.floor(whitened, out=whitened).astype(np.float64)
        lengths *= lengths
        return np.asarray(self._gain / (np.sqrt(lengths.sum(axis=0)) + 1)).astype(np.float32)


def _contrast(patches: Doubles) -> Doubles:
    """e of patches, as columns: their contrast in units of 1/1024."""
    d = len(patches)
    patches *= d
    patches -= patches.sum(axis=0) / d
    squares = np.einsum("ij,ij->j", patches, patches)
    patches *= 1024
    patches /= np.sqrt(squares + 10 * d**3)
    return np.rint(patches, out=patches)
