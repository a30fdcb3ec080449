"""The container of a certificate (docs/format.md, section 1)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from .header import CODE_BITS_LIMIT, Header, parse_header
from .refusal import Refused
from .versions import VERSIONS

MAGIC = b"CBOUND\0"
HEADER_LIMIT = 65_536
PREFIX = 12  # magic, version, length of the header
WITNESS_LIMIT = 1 << 24
DIGEST = 32
FILE_LIMIT = PREFIX + HEADER_LIMIT + CODE_BITS_LIMIT // 8 + 4 + WITNESS_LIMIT + DIGEST

Source: TypeAlias = str | Path | bytes


@dataclass(frozen=True)
class Certificate:
    """A well-formed file: a header whose claims are unchecked, a message that is not decoded yet.

    The witness helps to decode the message, and cannot change what it decodes to.
    """

    header: Header
    message: bytes
    witness: bytes = b""


def load(source: Source) -> bytes:
    """The bytes of a certificate; a file that is too long to be one is refused unread."""
    if isinstance(source, bytes):
        return source
    path = Path(source)
    if (size := path.stat().st_size) > FILE_LIMIT:
        raise Refused(f"The file has {size} bytes; a certificate has at most {FILE_LIMIT}.")
    return path.read_bytes()


def read(data: bytes) -> Certificate:
    """Take a certificate apart; raises :class:`Refused` with everything that is wrong with its form."""
    if len(data) < PREFIX + 2 + DIGEST:
        raise Refused(f"The file has {len(data)} bytes; the shortest certificate has {PREFIX + 2 + DIGEST}.")
    if data[:7] != MAGIC:
        raise Refused("The file does not start with the bytes CBOUND and zero: it is no certificate.")
    if (version := VERSIONS.get(data[7])) is None:
        known = ", ".join(map(str, VERSIONS))
        raise Refused(f"The file has format version {data[7]}; this program knows the versions {known}.")
    head = int.from_bytes(data[8:PREFIX], "little")
    if not 2 <= head <= min(HEADER_LIMIT, len(data) - PREFIX - DIGEST):
        raise Refused(
            f"The header claims {head} bytes; between 2 and {HEADER_LIMIT} are allowed, "
            f"and the file has room for {len(data) - PREFIX - DIGEST}."
        )

    reasons = []
    if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
        reasons.append("The SHA-256 at the end of the file is not that of the bytes before it.")
    try:
        header = parse_header(data[PREFIX : PREFIX + head], version)
    except Refused as refused:
        raise Refused(*reasons, *refused.reasons) from None

    expected = (header.code_bits + 7) // 8
    message, witness = data[PREFIX + head : -DIGEST], b""
    if version.is_second:
        message, size, witness = message[:expected], message[expected : expected + 4], message[expected + 4 :]
        if len(size) < 4 or int.from_bytes(size, "little") != len(witness) or len(witness) > WITNESS_LIMIT:
            reasons.append(
                f"Behind the message come the length of the witness, at most {WITNESS_LIMIT}, and the "
                f"witness; found {size.hex()} and {len(witness)} bytes: bytes are missing or left over."
            )
    if len(message) != expected:
        reasons.append(
            f"The file has {len(message)} bytes of message; {header.code_bits} bits need {expected}: "
            "bytes are missing or left over."
        )
    elif message and message[-1] & ((1 << (-header.code_bits % 8)) - 1):
        reasons.append("The unused low bits of the last byte of the message are not zero.")
    if (digest := hashlib.sha256(message).hexdigest()) != header.message_sha256:
        reasons.append(
            f"The message has SHA-256 {digest}, but facts.message_sha256 is {header.message_sha256}."
        )
    if reasons:
        raise Refused(*reasons)
    return Certificate(header, message, witness)
