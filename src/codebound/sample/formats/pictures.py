"""Folders of images as samples: every image becomes bytes by itself, and remarks name the losses."""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codebound.bounds.risk import count_of
from codebound.run.errors import DataError
from codebound.sample.dataset import Sample, Scaling
from codebound.sample.memmap import allocate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from PIL import Image

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm"})
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # of no file is another program run
_GREY = frozenset({"1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "I;16N"})
_USUAL = (32, 32)
_PARTS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation"})
_MAX_SIDE = 20_000
_PIXELS = 1 << 24  # that any file may hold; more only at
_PIXELS_PER_BYTE = 100  # which no photograph reaches
_IN_MEMORY = 1 << 30  # bytes of decoded images
_NAMED_CLASSES = 20
_ADVICE = "An image folder has one sub-folder per class with the images of that class in it."
_ORIENTATION = 0x0112  # in EXIF
_ON_ITS_SIDE = (5, 6, 7, 8)
_LOST = {
    "frames": "have more than one frame, of which the first is read",
    "depth": "have 16 or more bits a pixel, which are divided by 256",
    "holes": "have a channel or a colour for transparency, and are put on white",
}


def read_image_folder(
    folder: Path,
    *,
    role: str,
    classes: int | None = None,
    shape: tuple[int, ...] = (),
) -> Sample:
    """Read the images under a folder, in a fixed order.

    Sub-folders sorted by name are the classes 0, 1, ...; inside a class, images are sorted by their path. An
    unlabelled folder may have no sub-folders. Images are stored as bytes, ``(n, channels, height, width)``:
    one channel when all are grey, else three, upright as their EXIF data say. Values of 16 bits are divided
    by 256, and what is transparent is put on white. More than a gigabyte is decoded into a file without a
    name.

    Args:
        folder: The folder.
        role: Use of the sample.
        classes: By default the number of sub-folders.
        shape: Channels, height and width of all, or the last two, or nothing: then colour decides, and their
            own size, or 32 x 32 where they differ.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if names and {name.lower() for name in names} <= _PARTS:
        raise DataError(
            f"{folder} holds {', '.join(names)}: parts of a sample, and no classes. Give the folder of one "
            "part, which has a sub-folder for each class, and that of another as the test sample."
        )
    places = [folder / name for name in names]
    if not places and role == "unlabelled":
        names, places = [folder.name], [folder]
    images, labels = list[Path](), list[int]()
    for label, place in enumerate(places):
        own = _images_in(place)
        images += own
        labels += [label] * len(own)
        if not own:
            raise DataError(f"{place} holds no image ({', '.join(sorted(SUFFIXES))}). {_ADVICE}")
    if not images:
        raise DataError(f"{folder} has no sub-folders. {_ADVICE}")
    remarks = []
    files = sum(not path.is_dir() or path.is_symlink() for path in folder.rglob("*"))
    if left_out := files - len(images):
        were = count_of(left_out, f"file in {folder} was", f"files in {folder} were")
        remarks.append(
            f"{were} left out: hidden, in no sub-folder, not named like an image, or links that lead nowhere "
            "or to folders"
        )
    sizes, are_grey, lost = _headers(images)
    size = shape[-2:] if len(shape) in (2, 3) else _USUAL if len(sizes) > 1 else min(sizes)
    if len(shape) not in (2, 3) and len(sizes) > 1:
        remarks.append(
            f"the images differ in size and were brought to {_USUAL[0]} x {_USUAL[1]} pixels, each by "
            f"itself; {folder}@64x64 takes another size"
        )
    remarks += [f"{lost[each]} of {len(images)} images {what}" for each, what in _LOST.items() if lost[each]]
    is_grey = shape[0] == 1 if len(shape) == 3 else are_grey
    if is_grey and not are_grey:
        remarks.append("the images have colours, and are made grey as those of the sample are")
    named = ", ".join(f"{label} = {name}" for label, name in enumerate(names[:_NAMED_CLASSES]))
    return Sample(
        name=str(folder),
        role=role,
        x=_decode(images, (size[0], size[1]), is_grey=is_grey),
        y=np.array(labels, dtype=np.int64) * (role != "unlabelled"),
        classes=len(names) if classes is None else classes,
        scaling=Scaling(divisor=255.0),
        source=f"image folder {folder}; classes {named}{', ...' if len(names) > _NAMED_CLASSES else ''}",
        warnings=tuple(remarks),
        class_names=tuple(names) if classes in (None, len(names)) else (),
    )


def _images_in(folder: Path) -> list[Path]:
    """Images under a folder, sorted by their paths; links to folders may lead back and are left out."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix.lower() in SUFFIXES)
    parts = ((path, path.relative_to(folder).parts) for path in found)
    return sorted((path for path, names in parts if not any(n[0] == "." for n in names)), key=Path.as_posix)


def _headers(files: Sequence[Path]) -> tuple[set[tuple[int, int]], bool, Counter[str]]:
    """Heights and widths, True if all are grey, and counts of losses."""
    sizes: set[tuple[int, int]] = set()
    modes: set[str] = set()
    lost: Counter[str] = Counter()
    for path in files:
        with _open(path) as image:
            if image.mode == "F":
                raise DataError(f"{path} has floating-point pixels, of unknown white. Save 8 bits a pixel.")
            if max(image.size) > _MAX_SIDE:
                raise DataError(f"{path} is {image.size} pixels; {_MAX_SIDE} a side are read.")
            pixels, size = math.prod(image.size), path.stat().st_size
            if pixels > max(_PIXELS, _PIXELS_PER_BYTE * size):
                raise DataError(
                    f"{path} promises {pixels} pixels in {size} bytes and may be meant to fill the memory; "
                    f"{_PIXELS} are read, or {_PIXELS_PER_BYTE} for every byte. Make the image smaller."
                )
            sizes.add(image.size if _lies_on_its_side(image) else image.size[::-1])
            modes.add(image.mode)
            lost["frames"] += getattr(image, "is_animated", False)
            lost["depth"] += image.mode.startswith("I")
            lost["holes"] += image.has_transparency_data
    return sizes, modes <= _GREY, lost


def _lies_on_its_side(image: Image.Image) -> bool:
    """Return True if EXIF says that the picture lies on its side.

    A PNG without EXIF in the header would be decoded to look for more.
    """
    if image.format == "PNG" and not {"exif", "Raw profile type exif"} & image.info.keys():
        return False
    return image.getexif().get(_ORIENTATION) in _ON_ITS_SIDE


def _decode(files: Sequence[Path], size: tuple[int, int], *, is_grey: bool) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps

    x = allocate((len(files), 1 if is_grey else 3, *size), np.uint8, memory=_IN_MEMORY)
    for row, path in zip(x, files, strict=True):
        with _open(path) as image:
            plain = _of_8_bits(ImageOps.exif_transpose(image))
            if plain.has_transparency_data:
                plain = plain.convert("RGBA")
                plain = Image.alpha_composite(Image.new("RGBA", plain.size, "white"), plain)
            plain = plain.convert("L" if is_grey else "RGB")
            if (plain.height, plain.width) != size:
                plain = plain.resize(size[::-1], Image.Resampling.BOX)
            row[...] = np.asarray(plain).reshape(*size, -1).transpose(2, 0, 1)
    return x


def _of_8_bits(image: Image.Image) -> Image.Image:
    """An image of 8 bits: deeper values divided by 256."""
    from PIL import Image

    if image.mode.startswith("I"):
        levels = np.asarray(image) >> 8
        return Image.fromarray(levels.clip(0, 255, out=levels).astype(np.uint8))
    return image


class _BoundedFile(BufferedReader):
    """A file that reads no more bytes than it has, whatever it promises."""

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, os.fstat(self.fileno()).st_size - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left))


@contextmanager
def _open(path: Path) -> Iterator[Image.Image]:
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings(), _BoundedFile(FileIO(path)) as file:
            warnings.simplefilter("ignore")  # what is wrong enough is an error
            with Image.open(file, formats=_FORMATS) as image:
                yield image
    except DataError:
        raise
    except UnidentifiedImageError as error:
        raise DataError(
            f"{path} cannot be read as an image: it begins like none that is read. Take it away."
        ) from error
    except Exception as error:  # a crafted file can make the parsers raise nearly anything
        raise DataError(f"{path} cannot be read as an image: {error}.") from error
