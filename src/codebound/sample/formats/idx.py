"""IDX files, and bounded reading of files of any format."""

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
_MAX_DIMENSIONS = 4


def read_exactly(stream: IO[bytes], size: int, *, name: str) -> bytearray:
    """Read the next ``size`` bytes; memory grows with the file, whatever a header promised."""
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
    """Read all bytes of a file, unpacked where it is gzipped."""
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
    """Parse an IDX file of unsigned bytes.

    IDX is: two zero bytes, a type code (08: unsigned bytes), the number of dimensions, each dimension as a
    big-endian 32-bit integer, then the values row by row.

    Example:
        >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]), name="three labels")
        array([7, 8, 9], dtype=uint8)
    """
    dimensions = content[3] if len(content) > 3 else 0
    start = 4 + 4 * dimensions
    if bytes(content[:3]) != b"\0\0\x08" or not 1 <= dimensions <= _MAX_DIMENSIONS or len(content) < start:
        raise DataError(
            f"{name} is no IDX file of unsigned bytes with 1 to {_MAX_DIMENSIONS} dimensions: it begins with "
            f"{bytes(content[:4])!r}."
        )
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    size, words = math.prod(shape), " x ".join(map(str, shape))
    if not size or len(content) - start != size:
        raise DataError(
            f"{name} is damaged: its header promises {words} = {size} bytes, {len(content) - start} are "
            "there. Fetch or copy it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
