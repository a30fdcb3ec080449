"""A folder of images, one sub-folder per class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codebound.data.dataset import Dataset, Scaling
from codebound.data.idx import MAX_BYTES
from codebound.errors import DataError

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm"})
_GREY = frozenset({"1", "L"})
_COLOUR = frozenset({"P", "PA", "LA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"})
_NAMED_CLASSES = 20


def read_image_folder(folder: Path, *, role: str, classes: int | None = None) -> Dataset:
    """The images under ``folder``, in a fixed order.

    Sub-folders sorted by name are the classes 0, 1, ...; inside a class, images are sorted by their path.
    Images are stored as bytes, ``(n, channels, height, width)``: one channel when all are grey, else three.

    Raises:
        DataError: There is no image, one cannot be read, or one differs in size from the first.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    files: list[tuple[Path, int]] = []
    skipped = 0
    for label, name in enumerate(names):
        inside = sorted((path for path in (folder / name).rglob("*") if path.is_file()), key=Path.as_posix)
        images = [path for path in inside if path.suffix.lower() in SUFFIXES]
        skipped += len(inside) - len(images)
        files += [(path, label) for path in images]
        if not images:
            raise DataError(
                f"{folder / name} holds no image ({', '.join(sorted(SUFFIXES))}). An image folder has one "
                "sub-folder per class with the images of that class in it."
            )
    if not files:
        raise DataError(
            f"{folder} has no sub-folders. An image folder has one sub-folder per class with its images in "
            "it; the files of a known dataset keep their usual names."
        )
    named = ", ".join(f"{label} = {name}" for label, name in enumerate(names[:_NAMED_CLASSES]))
    return Dataset(
        name=str(folder),
        role=role,
        x=_decode([path for path, _ in files]),
        y=np.array([label for _, label in files], dtype=np.int64),
        classes=len(names) if classes is None else classes,
        scaling=Scaling(divisor=255.0),
        source=f"image folder {folder}; classes {named}{', ...' if len(names) > _NAMED_CLASSES else ''}",
        warnings=(f"{skipped} files in {folder} are no images and were left out",) if skipped else (),
    )


def _decode(files: list[Path]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    from PIL import Image

    size, is_grey = (0, 0), True
    path = files[0]
    try:
        for path in files:  # headers first: nothing is decoded before all sizes are known to agree
            with Image.open(path) as image:
                if path == files[0]:
                    size = image.size
                if image.size != size:
                    raise DataError(
                        f"{path} is {image.width} x {image.height} pixels, "
                        f"{files[0]} is {size[0]} x {size[1]}. "
                        "All images must have one size: crop or resize them first."
                    )
                if image.mode not in _GREY | _COLOUR:
                    raise DataError(
                        f"{path} has mode {image.mode}; only images of 8 bits a channel are read."
                    )
                is_grey = is_grey and image.mode in _GREY
        shape = (len(files), size[1], size[0], 1 if is_grey else 3)
        if np.prod(shape, dtype=np.float64) > MAX_BYTES:
            raise DataError(
                f"{len(files)} images of {size[0]} x {size[1]} exceed {MAX_BYTES} bytes. Shrink them."
            )
        x = np.empty(shape, dtype=np.uint8)
        for row, path in zip(x, files, strict=True):
            with Image.open(path) as image:
                row[...] = np.asarray(image.convert("L" if is_grey else "RGB")).reshape(row.shape)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as an image: {error}.") from error
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
