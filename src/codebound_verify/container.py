"""The container of a certificate (docs/format.md, section 1)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from .header import BITS_LIMIT, Header, read_header
from .refusal import Refused

MAGIC = b"CBOUND\0"
VERSION = 4
OLD_VERSIONS, LAST_PROGRAM = (1, 2, 3), "that of the commit 26d2adb3 (docs/history.md)"
HEADER_LIMIT = 1 << 20
PREFIX = 12  # magic, version, length of the header
WITNESS_LIMIT = 1 << 24
DIGEST = 32
SMALLEST = PREFIX + 2 + 4 + DIGEST
FILE_LIMIT = PREFIX + HEADER_LIMIT + BITS_LIMIT // 8 + 4 + WITNESS_LIMIT + DIGEST

Source: TypeAlias = str | Path | bytes


@dataclass(frozen=True)
class Container:
    """A well-formed file: a header whose claims are unchecked, a message that is not decoded yet.

    The witness helps to decode the message, and cannot change what it decodes to.
    """

    header: Header
    message: bytes
    witness: bytes
    sha256: str  # of the whole file


def load(source: Source) -> bytes:
    """The bytes of a file. One that is too long for a certificate, or without an end, is refused unread."""
    if isinstance(source, bytes):
        return source
    path = Path(source)
    if (size := path.stat().st_size) > FILE_LIMIT or not (path.is_file() or path.is_dir()):
        raise Refused(f"cannot read {path}: {size} bytes are too many, or a queue or a device has no end")
    return path.read_bytes()


def read_container(data: bytes) -> Container:
    """Take a certificate apart. Raises :class:`Refused` with everything that is wrong with its form."""
    if data[:7] != MAGIC:
        raise Refused("The file does not start with the bytes CBOUND and zero: it is no certificate.")
    if len(data) > 7 and data[7] in OLD_VERSIONS:
        raise Refused(
            f"The file has the version byte {data[7]:02x}: the last program that reads it is {LAST_PROGRAM}."
        )
    if not SMALLEST <= len(data) <= FILE_LIMIT:
        raise Refused(f"The file has {len(data)} bytes; a certificate has {SMALLEST} to {FILE_LIMIT}.")
    if data[7] != VERSION:
        raise Refused(f"The file has the version byte {data[7]:02x}; this program reads {VERSION:02x}.")
    head, room = int.from_bytes(data[8:PREFIX], "little"), len(data) - PREFIX - 4 - DIGEST
    if not 2 <= head <= min(HEADER_LIMIT, room):
        raise Refused(
            f"The header claims {head} bytes; between 2 and {HEADER_LIMIT} are allowed, "
            f"and the file has room for {room}."
        )

    reasons = []
    if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
        reasons.append("The SHA-256 at the end of the file is not that of the bytes before it.")
    try:
        header = read_header(data[PREFIX : PREFIX + head])
    except Refused as refused:
        raise Refused(*reasons, *refused.reasons) from None

    end = PREFIX + head + (header.message.bits + 7) // 8
    message, size, witness = data[PREFIX + head : end], data[end : end + 4], data[end + 4 : -DIGEST]
    if (
        end + 4 + DIGEST > len(data)
        or int.from_bytes(size, "little") != len(witness)
        or len(witness) > WITNESS_LIMIT
    ):
        reasons.append(
            f"Behind the header come {end - PREFIX - head} bytes of message, the length of the witness, at "
            f"most {WITNESS_LIMIT}, the witness and 32 bytes: bytes are missing or left over."
        )
        raise Refused(*reasons)
    if message[-1] & ((1 << (-header.message.bits % 8)) - 1):
        reasons.append("The unused low bits of the last byte of the message are not zero.")
    if (digest := hashlib.sha256(message).hexdigest()) != header.message.sha256:
        reasons.append(f"The message has SHA-256 {digest}, but message.sha256 is {header.message.sha256}.")
    if reasons:
        raise Refused(*reasons)
    return Container(header, message, witness, hashlib.sha256(data).hexdigest())
