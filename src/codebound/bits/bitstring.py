"""Bit strings of exact length: the only thing whose length is a code length."""

from dataclasses import dataclass

from codebound.run.errors import FormatError


@dataclass(frozen=True, slots=True)
class Bits:
    """A bit string: the first bit is the most significant of ``data``, unused bits of the last byte are zero.

    Example:
        >>> Bits(b"\\xa0", 3)
        Bits(data=b'\\xa0', length=3)
        >>> print(Bits(b"\\xa0", 3))
        101
    """

    data: bytes
    length: int

    def __post_init__(self) -> None:
        spare = 8 * len(self.data) - self.length
        if not 0 <= spare <= 7:
            raise FormatError(f"{self.length} bits do not fill {len(self.data)} bytes.")
        if spare and self.data[-1] & ((1 << spare) - 1):
            raise FormatError(f"the {spare} bits after the last of {self.length} bits are not zero.")

    def __len__(self) -> int:
        return self.length

    def __str__(self) -> str:
        return "".join(f"{byte:08b}" for byte in self.data)[: self.length]

    def whole_bytes(self, start: int, most: int) -> bytes:
        """At most ``most`` whole bytes from bit ``start`` on, fewer where the string ends."""
        count = min(most, (self.length - start) // 8)
        if count <= 0:
            return b""
        chunk = self.data[start // 8 : start // 8 + count + 1]
        window = int.from_bytes(chunk, "big") >> 8 * (len(chunk) - count) - start % 8
        return (window & ((1 << 8 * count) - 1)).to_bytes(count, "big")


def join(*parts: Bits) -> Bits:
    """The parts one after the other, without padding between them.

    Example:
        >>> print(join(Bits(b"\\xa0", 3), Bits(b"\\xc0", 2)))
        10111
    """
    data, length = bytearray(), 0
    for part in parts:
        used = length % 8
        if used:
            shifted = (int.from_bytes(part.data, "big") << 8 - used).to_bytes(len(part.data) + 1, "big")
            data[-1] |= shifted[0]
            data += shifted[1:]
        else:
            data += part.data
        length += part.length
        del data[(length + 7) // 8 :]
    return Bits(bytes(data), length)
