"""Data frames in files of R (``.rda``, ``.RData``): read as plain columns, nothing in them is run.

Such a file is a serialised list of named objects, in big-endian (XDR) form, mostly compressed. Only what a
data frame consists of is read: vectors of numbers, truth values and strings, factors, and their attributes.
Functions, environments and every other object are refused.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_BYTES = 256 << 20
_MEMORY_BYTES = 256 << 20
_MAX_DEPTH = 16
_MAX_OBJECTS = 2_000_000
_ADVICE = "Write it in R with save(table, file = ..., version = 2), where table is a data frame."

_SYMBOL, _PAIRS, _STRING, _LOGICAL, _INTEGER, _REAL, _STRINGS, _LIST = 1, 2, 9, 10, 13, 14, 16, 19
_NULL, _REFERENCE = 254, 255
_MISSING = -(1 << 31)
_NUMBERS = {_LOGICAL: ">i4", _INTEGER: ">i4", _REAL: ">f8"}


@dataclass(frozen=True, slots=True)
class Column:
    """Numbers of a column, NaN where one is missing; of a factor the codes of its levels."""

    name: str
    values: NDArray[np.float64]
    levels: tuple[str, ...] = ()


def unpack(content: bytes, *, name: str, limit: int = MAX_BYTES) -> bytes:
    """The serialised bytes, at most ``limit``: unpacked when they begin like gzip, bzip2 or xz."""
    try:
        if content[:2] == b"\x1f\x8b":
            opened = zlib.decompressobj(wbits=31)
            unpacked, is_whole = opened.decompress(content, limit + 1), opened.eof
        elif content[:3] == b"BZh":
            packed = bz2.BZ2Decompressor()
            unpacked, is_whole = packed.decompress(content, limit + 1), packed.eof
        elif content[:6] == b"\xfd7zXZ\x00":
            stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES)
            unpacked, is_whole = stream.decompress(content, limit + 1), stream.eof
        else:
            unpacked, is_whole = content, True
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{name} cannot be unpacked: {error}. Fetch or copy it again.") from error
    if len(unpacked) > limit:
        raise DataError(f"{name} unpacks to more than the allowed {limit} bytes.")
    if not is_whole:
        raise DataError(f"{name} is truncated. Fetch or copy it again.")
    return unpacked


def read_frame(content: bytes, *, name: str) -> list[Column]:
    """The columns of the only data frame in a file of R.

    Raises:
        DataError: The file is damaged, holds something else, or more than one data frame.
    """
    serialised = unpack(content, name=name)
    if serialised[:7] not in (b"RDX2\nX\n", b"RDX3\nX\n"):
        raise DataError(f"{name} is no file of R in XDR form, version 2 or 3. {_ADVICE}")
    reader = _Reader(serialised, name, at=7)
    objects = reader.saved()
    frames = [each for each in objects if isinstance(each, _Vector) and each.has_class("data.frame")]
    if len(frames) != 1:
        raise DataError(
            f"{name} holds {len(frames)} data frames among {len(objects)} objects, not one. {_ADVICE}"
        )
    return _columns(frames[0], name)


@dataclass(frozen=True, slots=True)
class _Vector:
    """A vector with its attributes: numbers as an array, strings and lists as a Python list."""

    values: Any
    attributes: dict[str, Any]

    def strings(self, key: str) -> list[str]:
        """An attribute that consists of strings; empty where there is none."""
        found = self.attributes.get(key)
        strings = found.values if isinstance(found, _Vector) else None
        is_strings = isinstance(strings, list) and all(isinstance(each, str) for each in strings)
        return list(strings) if is_strings and strings is not None else []

    def has_class(self, name: str) -> bool:
        """Return True if this R class is among its classes."""
        return name in self.strings("class")


@dataclass(slots=True)
class _Reader:
    """A cursor in serialised bytes; every length is compared with what is left before it is believed."""

    content: bytes
    name: str
    at: int
    symbols: list[str] = field(default_factory=list)
    objects: int = 0

    def damaged(self, what: str) -> DataError:
        return DataError(f"{self.name} is damaged or no data frame: {what} at byte {self.at}. {_ADVICE}")

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.content) - self.at:
            raise self.damaged(f"{size} bytes are promised, {len(self.content) - self.at} are there")
        self.at += size
        return self.content[self.at - size : self.at]

    def integer(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def length(self, item_bytes: int) -> int:
        length = self.integer()
        if not 0 <= length <= (len(self.content) - self.at) // item_bytes:
            raise self.damaged(f"a vector of {length} values that is not there")
        return length

    def saved(self) -> list[Any]:
        """The values of the named objects in the file."""
        version = self.integer()
        self.take(8)  # versions of R that wrote it and that can read it
        if version == 3:
            self.take(self.length(1))  # native encoding; factors and names are read as UTF-8
        elif version != 2:
            raise self.damaged(f"version {version} of the serialisation, not 2 or 3,")
        values = list(self.pairs(self.integer(), depth=0).values())
        if self.at != len(self.content):
            raise self.damaged("bytes after the last object")
        return values

    def pairs(self, flags: int, *, depth: int) -> dict[str, Any]:
        """A chain of named values: the file itself, and the attributes of a vector."""
        found: dict[str, Any] = {}
        while flags & 0xFF != _NULL:
            if flags & 0xFF != _PAIRS or flags & 0x200 or not flags & 0x400:
                raise self.damaged(f"an object of type {flags & 0xFF} in place of a named value")
            key = self.symbol()
            found[key] = self.value(self.integer(), depth=depth + 1)
            flags = self.integer()
        return found

    def symbol(self) -> str:
        flags = self.integer()
        if flags & 0xFF == _REFERENCE:
            number = flags >> 8 or self.integer()
            if not 1 <= number <= len(self.symbols):
                raise self.damaged(f"a reference to name {number} of {len(self.symbols)}")
            return self.symbols[number - 1]
        if flags & 0xFF != _SYMBOL:
            raise self.damaged(f"an object of type {flags & 0xFF} in place of a name")
        text = self.string()
        if text is None:
            raise self.damaged("a name that is missing")
        self.symbols.append(text)
        return text

    def string(self) -> str | None:
        if self.integer() & 0xFF != _STRING:
            raise self.damaged("something else in place of a string")
        size = self.integer()
        return None if size == -1 else self.take(size).decode("utf-8", "replace")

    def value(self, flags: int, *, depth: int) -> Any:
        kind = flags & 0xFF
        self.objects += 1
        if depth > _MAX_DEPTH or self.objects > _MAX_OBJECTS:
            raise self.damaged("more nested or more numerous objects than a table has")
        if kind == _NULL:
            return None
        values: Any
        if kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[kind])
            values = np.frombuffer(self.take(self.length(dtype.itemsize) * dtype.itemsize), dtype)
        elif kind == _STRINGS:
            values = [self.string() for _ in range(self.length(8))]
        elif kind == _LIST:
            values = [self.value(self.integer(), depth=depth + 1) for _ in range(self.length(4))]
        else:
            raise self.damaged(f"an object of type {kind}, which is not read,")
        return _Vector(values, self.pairs(self.integer(), depth=depth) if flags & 0x200 else {})


def _columns(frame: _Vector, name: str) -> list[Column]:
    names, values = frame.strings("names"), frame.values
    if not isinstance(values, list) or not values or len(names) != len(values):
        raise DataError(f"{name}: the data frame has no columns, or columns without names. {_ADVICE}")
    columns = [_column(each, vector, name) for each, vector in zip(names, values, strict=True)]
    if len({len(column.values) for column in columns}) != 1:
        raise DataError(f"{name}: the columns differ in length. {_ADVICE}")
    return columns


def _column(title: str, vector: Any, name: str) -> Column:
    values = vector.values if isinstance(vector, _Vector) else None
    if isinstance(values, list) and all(each is None or isinstance(each, str) for each in values):
        raise DataError(
            f"{name}: column {title!r} holds strings without levels. Make it a factor in R, with the levels "
            "that can occur, or drop it."
        )
    if not isinstance(values, np.ndarray) or "dim" in vector.attributes:
        raise DataError(f"{name}: column {title!r} is neither numbers nor a factor. Drop or convert it in R.")
    numbers = _with_nan(values)
    if not vector.has_class("factor"):
        return Column(title, numbers)
    levels = vector.strings("levels")
    codes = numbers - 1.0
    known = codes[~np.isnan(codes)]
    if (
        not levels
        or len(set(levels)) != len(levels)
        or (known.size and not 0 <= known.min() <= known.max() < len(levels))
    ):
        raise DataError(f"{name}: the factor {title!r} has codes outside its levels. {_ADVICE}")
    return Column(title, codes, tuple(levels))


def _with_nan(values: NDArray[np.generic]) -> NDArray[np.float64]:
    numbers = values.astype(np.float64)
    if values.dtype.kind == "i":
        numbers[numbers == _MISSING] = np.nan
    return numbers
