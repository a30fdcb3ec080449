"""A literal writer of R's data frames in XDR form, for tests: made from R's manual, not from our reader."""

import struct

NULL = struct.pack(">i", 254)


def flags(kind: int, *, attributes: bool = False, is_object: bool = False, tag: bool = False) -> bytes:
    return struct.pack(">i", kind | is_object << 8 | attributes << 9 | tag << 10)


def chars(text: str | None) -> bytes:
    if text is None:
        return flags(9) + struct.pack(">i", -1)
    content = text.encode()
    return struct.pack(">i", 0x00040009) + struct.pack(">i", len(content)) + content


class Symbols:
    """Names as R writes them: in full at first, by number from then on."""

    def __init__(self):
        self.seen = []

    def __call__(self, name: str) -> bytes:
        if name in self.seen:
            return struct.pack(">i", (self.seen.index(name) + 1) << 8 | 255)
        self.seen.append(name)
        return flags(1) + chars(name)


def strings(values, extra: bytes = b"") -> bytes:
    return (
        flags(16, attributes=bool(extra))
        + struct.pack(">i", len(values))
        + b"".join(map(chars, values))
        + extra
    )


def reals(values) -> bytes:
    return flags(14) + struct.pack(f">i{len(values)}d", len(values), *values)


def integers(values, kind: int = 13) -> bytes:
    return flags(kind) + struct.pack(f">i{len(values)}i", len(values), *values)


def attributes(symbols: Symbols, **pairs) -> bytes:
    written = b""
    for name, value in pairs.items():
        written += flags(2, tag=True) + symbols(name.replace("_", "."))
        written += value() if callable(value) else value
    return written + NULL


def factor(symbols: Symbols, codes, levels) -> bytes:
    head = flags(13, attributes=True, is_object=True)
    body = struct.pack(f">i{len(codes)}i", len(codes), *codes)
    return head + body + attributes(symbols, levels=strings(levels), **{"class": strings(["factor"])})


def frame(symbols: Symbols, columns: dict, rows: int) -> bytes:
    """Columns are callables that write a vector, in order, since names count from the first use."""
    written = flags(19, attributes=True, is_object=True) + struct.pack(">i", len(columns))
    for column in columns.values():
        written += column()
    return written + attributes(
        symbols,
        names=strings(list(columns)),
        row_names=integers([-(1 << 31), -rows]),
        **{"class": strings(["data.frame"])},
    )


def save(objects: dict, symbols: Symbols, version: int = 2) -> bytes:
    """The file of ``save``: objects are callables that write a value."""
    written = f"RDX{version}\nX\n".encode() + struct.pack(">iii", version, 0x040201, 0x020300)
    if version == 3:
        written += struct.pack(">i", 5) + b"UTF-8"
    for name, value in objects.items():
        written += flags(2, tag=True) + symbols(name) + value()
    return written + NULL


def table(columns: dict, version: int = 2, name: str = "table") -> bytes:
    """A file with one data frame; a column is numbers, or a pair of codes from 1 and levels."""
    symbols = Symbols()

    def column(values):
        if isinstance(values, tuple):
            return lambda: factor(symbols, *values)
        is_whole = all(isinstance(value, int) for value in values)
        return lambda: integers(values) if is_whole else reals(values)

    first = next(iter(columns.values()))
    rows = len(first[0] if isinstance(first, tuple) else first)
    made = {key: column(values) for key, values in columns.items()}
    return save({name: lambda: frame(symbols, made, rows)}, symbols, version)
