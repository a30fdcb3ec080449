"""Files of others that Shin 2021 starts from: checkpoints of pytorchcv, and SVHN as MATLAB files."""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from codebound.run.errors import DataError, ModelError
from codebound.sample.dataset import Dataset, Scaling
from codebound.sample.formats.catalogue import cache_folder

_MATRIX, _COMPRESSED = 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_HEADER, _LARGEST = 128, 2**31
_SIDE, _CHANNELS, _DIGITS = 32, 3, 10


def find_checkpoint(folder: Path, name: str) -> Path | None:
    """The checkpoint of a network, named as pytorchcv stores it: ``resnet20_cifar10-0597-9b0024ac.pth``.

    Several of one network are of different training runs: the last name counts, which is the newest there.
    """
    exact = folder / f"{name}.pth"
    found = sorted(folder.glob(f"{name}-*.pth"))
    return exact if exact.is_file() else found[-1] if found else None


def read_checkpoint(path: Path) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint; nothing in the file is run."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as cause:  # whatever the reader of another format raises
        reason = type(cause).__name__
        raise ModelError(f"{path} is no checkpoint of weights alone; PyTorch says {reason}.") from cause
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ModelError(f"{path} holds something else than named tensors.")
    return {str(name): value for name, value in state.items()}


def last_dense(path: Path) -> torch.Tensor:
    """The matrix of the last dense layer in a checkpoint, which pytorchcv calls ``output``."""
    matrices = {
        name: value for name, value in read_checkpoint(path).items() if value.dim() == 2 and "weight" in name
    }
    if not matrices:
        raise ModelError(f"{path} has no dense layer: no weight in it is a matrix.")
    name = "output.weight" if "output.weight" in matrices else list(matrices)[-1]
    return matrices[name].float()


def svhn_path() -> Path:
    """Return the path of the test images of SVHN."""
    return cache_folder() / "svhn" / "test_32x32.mat"


def read_svhn(path: Path) -> Dataset:
    """The images of a MATLAB file of SVHN, channels first, with digits as labels; the file calls 0 a 10."""
    arrays = dict(read_mat(path.read_bytes(), where=str(path)))
    if not {"X", "y"} <= arrays.keys():
        raise DataError(f"{path} is no file of SVHN: it has {', '.join(arrays) or 'no array'}, not X and y.")
    x, y = arrays["X"], arrays["y"].ravel().astype(np.int64)
    if x.shape != (_SIDE, _SIDE, _CHANNELS, len(y)) or not np.isin(y, range(1, _DIGITS + 1)).all():
        raise DataError(f"{path} is no file of SVHN: X has shape {x.shape}, y {len(y)} labels.")
    images = np.ascontiguousarray(x.astype(np.uint8).transpose(3, 2, 0, 1))
    return Dataset("svhn", "test", images, y % _DIGITS, classes=_DIGITS, scaling=Scaling(divisor=255.0))


def read_mat(content: bytes, *, where: str = "the file") -> Iterator[tuple[str, NDArray[np.generic]]]:
    """The numeric arrays of a MATLAB 5 file, little-endian, by name; other values are passed over.

    An element is a tag, which has its type and its length, and so many bytes; an array is an element of
    elements: flags, dimensions, name, numbers. Numbers may be stored in a shorter type than that of the
    array.
    """
    if len(content) < _HEADER or content[126:128] != b"IM":
        raise DataError(f"{where} is no MATLAB 5 file, or one of a big-endian machine.")
    try:
        for kind, body in _elements(content[_HEADER:]):
            if kind == _COMPRESSED:
                unpacker = zlib.decompressobj()
                ((kind, body),) = _elements(unpacker.decompress(body, _LARGEST))
            if kind == _MATRIX and (found := _array(body)) is not None:
                yield found
    except (struct.error, zlib.error, ValueError) as cause:
        raise DataError(f"{where} is damaged: {cause}") from cause


def _elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + 8 <= len(content):
        kind, length = struct.unpack_from("<II", content, place)
        if kind >> 16:  # the short form: type, length and up to four bytes in one
            yield kind & 0xFFFF, content[place + 4 : place + 4 + (kind >> 16)]
            place += 8
            continue
        body = content[place + 8 : place + 8 + length]
        if len(body) < length:
            raise ValueError("an element is longer than the file")
        yield kind, body
        place += 8 + length + (0 if kind == _COMPRESSED else -length % 8)


def _array(body: bytes) -> tuple[str, NDArray[np.generic]] | None:
    parts = list(_elements(body))
    if len(parts) != 4 or parts[3][0] not in _TYPES:
        return None  # a structure, a sparse or a complex array
    _, (_, sizes), (_, name), (kind, numbers) = parts
    shape = tuple(np.frombuffer(sizes, "<i4").tolist())
    values = np.frombuffer(numbers, "<" + _TYPES[kind])
    if len(values) != math.prod(shape):
        raise ValueError(f"an array of shape {shape} has {len(values)} numbers")
    return name.decode("ascii"), values.reshape(shape, order="F")
