"""IDX files, plain or gzipped, and the bounded reading that every file format here goes through."""

from __future__ import annotations

import gzip
import math
import zlib
from typing import IO, TYPE_CHECKING

import numpy as np

from codebound.run.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MAX_BYTES = 4 << 30
"""No file here may unpack to more than 4 GiB; declared sizes are checked before anything is allocated."""

_CHUNK_BYTES = 1 << 20
_UNSIGNED_BYTE = 0x08
_MAX_DIMENSIONS = 4


def read_exactly(stream: IO[bytes], size: int, *, name: str) -> bytearray:
    """The next ``size`` bytes; memory grows with what is really there, whatever a header promised."""
    content = bytearray()
    while len(content) < size:
        chunk = stream.read(min(_CHUNK_BYTES, size - len(content)))
        if not chunk:
            raise DataError(
                f"{name} is truncated: its header promises {size} more bytes, {len(content)} are there. "
                "Fetch or copy it again."
            )
        content += chunk
    return content


def read_whole(path: Path, *, limit: int = MAX_BYTES) -> bytearray:
    """All bytes of a file, unpacked when its name ends in ``.gz``."""
    content = bytearray()
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                content += chunk
                if len(content) > limit:
                    raise DataError(f"{path} unpacks to more than the allowed {limit} bytes.")
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}. Fetch or copy it again.") from error
    return content


def parse_idx(content: bytearray | bytes, *, name: str) -> NDArray[np.uint8]:
    """The array inside the bytes of an IDX file.

    IDX is: two zero bytes, a type code (08: unsigned bytes, the only one read here), the number of
    dimensions, each dimension as a big-endian 32-bit integer, then the values row by row.

    Example:
        >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]), name="three labels")
        array([7, 8, 9], dtype=uint8)
    """
    if len(content) < 4 or content[0] or content[1]:
        raise DataError(
            f"{name} is no IDX file: it must start with two zero bytes, not {bytes(content[:4])!r}."
        )
    code, dimensions = content[2], content[3]
    if code != _UNSIGNED_BYTE or not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise DataError(
            f"{name}: only IDX files of unsigned bytes (type code 08) with 1 to {_MAX_DIMENSIONS} dimensions "
            f"are read. Got type code {code:02x} with {dimensions} dimensions."
        )
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise DataError(f"{name} is truncated inside its {start}-byte header. Fetch or copy it again.")
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    if math.prod(shape) == 0:
        raise DataError(f"{name} holds no values: its header says {' x '.join(map(str, shape))}.")
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{name} is damaged: its header promises {' x '.join(map(str, shape))} = {math.prod(shape)} "
            f"bytes, {len(content) - start} are there. Fetch or copy it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
