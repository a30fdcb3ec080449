"""Reader of certificates of format 1.0, written from docs/format-1.0.md alone, whose sections are named.

Networks of views, subspaces and drawn tensors, and the learner of section 7, are beyond it: `Unread`.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field

import numpy as np


class Refused(Exception):  # noqa: N818
    """Verdict on a file that is no certificate."""


class Unread(Exception):  # noqa: N818
    """Answer about a part of the page that this reader does not have."""


def must(true, reason: str) -> None:
    if not true:
        raise Refused(reason)


# 1 and 2: container and header


def whole(low: int, high: int):
    return lambda value: type(value) is int and low <= value <= high


def one_of(*values):
    return lambda value: any(type(value) is type(each) and value == each for each in values)


def text(pattern: str = ".{0,400}"):
    return lambda value: type(value) is str and re.fullmatch(pattern, value, re.S) is not None


def maybe(check):
    return lambda value: value is None or check(value)


def listed(low: int, high: int, check):
    return lambda value: type(value) is list and low <= len(value) <= high and all(map(check, value))


def record(**checks):
    return lambda value: (
        type(value) is dict
        and value.keys() == checks.keys()
        and all(check(value[key]) for key, check in checks.items())
    )


def between(low: float, high: float):  # the page does not say that these are written with a point
    return lambda value: type(value) is float and low <= value <= high


def part(value) -> bool:
    return type(value) is list and len(value) == 2 and text()(value[0]) and whole(0, 2**32)(value[1])


SHA, DAY = text("[0-9a-f]{64}"), text(r"\d{4}-\d{2}-\d{2}")
MADE = record(by=text(), sha256=SHA)
TABLE = record(by=text(), columns=whole(2, 2**16), picks=maybe(whole(0, 2**32)), sha256=SHA)
LIMIT = record(
    bound=between(0, 1), errors=whole(0, 2**32), n=whole(0, 2**32), of=text(), picks=maybe(whole(0, 2**32))
)
HEADER = {
    "sample": record(
        rows=whole(1, 2**32),
        sha256=SHA,
        input_shape=listed(1, 3, whole(1, 2**24)),
        classes=whole(2, 2**16),
        order=one_of("rows", "clusters", "file"),
        salt=text("([0-9a-f]{64})?"),
        copies=one_of("any", "independent", "repeated"),
        clusters=maybe(SHA),
        groups=maybe(SHA),
    ),
    "known": record(
        rows=whole(0, 2**32 - 1), tables=listed(0, 256, TABLE), features=maybe(MADE), base=maybe(MADE)
    ),
    "message": record(bits=whole(1, 2**32), sha256=SHA, ledger=listed(1, 2**16, part)),
    "claim": record(
        loss=text(),
        on=text(),
        law=one_of("binomial", "picked", "sum"),
        subject=one_of("g", "f"),
        assurance=one_of("replayed", "recounted"),
        delta=lambda value: between(0, 1)(value) and 0 < value < 1,
        limits=listed(1, 256, LIMIT),
        bound=between(0, 1),
        vacuous=one_of(True, False),
    ),
    "original": lambda value: value is None or type(value) is dict,
    "declarations": listed(1, 64, text()),
    "made_by": record(codebound=text(), commit=text("([0-9a-f]{40})?"), date=DAY),
    "format": record(frozen=DAY, sha256=SHA),
}


@dataclass
class File:
    """Parts of a container that hold together."""

    header: dict
    message: bytes
    witness: bytes


def read_container(data: bytes) -> File:
    must(data[:7] == b"CBOUND\0", "magic")
    must(data[7:8] == b"\4", "version")
    length = int.from_bytes(data[8:12], "little")
    must(2 <= length <= 2**16 and len(data) >= 12 + length, "length of the header")
    header = read_header(data[12 : 12 + length])
    end = 12 + length + -(-header["message"]["bits"] // 8)
    must(len(data) >= end + 4, "length of the message")
    witness = int.from_bytes(data[end : end + 4], "little")
    must(witness <= 2**24 and len(data) == end + 4 + witness + 32, "length of the file")
    must(hashlib.sha256(data[:-32]).digest() == data[-32:], "hash of the file")
    message = data[12 + length : end]
    must(hashlib.sha256(message).hexdigest() == header["message"]["sha256"], "hash of the message")
    unused = -header["message"]["bits"] % 8
    must(message[-1] & ((1 << unused) - 1) == 0, "unused bits")
    return File(header, message, data[end + 4 : -32])


def read_header(data: bytes) -> dict:
    try:
        header = json.loads(data.decode("ascii"))
        again = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (ValueError, RecursionError) as problem:
        raise Refused("header is no JSON") from problem
    must(again == data, "header is written otherwise")
    must(type(header) is dict and header.keys() == HEADER.keys(), "keys of the header")
    for key, check in HEADER.items():
        must(check(header[key]), key)
    sample, known, claim = header["sample"], header["known"], header["claim"]
    must(int(np.prod(np.array(sample["input_shape"], object))) <= 2**24, "size of an input")
    must(known["rows"] < sample["rows"], "known share leaves nothing")
    must(sum(bits for _, bits in header["message"]["ledger"]) == header["message"]["bits"], "ledger")
    for limit in claim["limits"]:
        must((limit["picks"] is None) == (claim["law"] != "picked"), "picks of a limit")
        must(limit["errors"] + (limit["picks"] or 0) <= limit["n"] <= sample["rows"], "counts of a limit")
    return header


# 5: message


def usual_rows(n: int) -> int:
    return (10 if n < 2_000 else 12 if n < 10_000 else 14 if n < 50_000 else 16) * n // 20


WORDS = ("usual split", "first table", "another table", "another split", "picks", "network", "another loss")
SHARES = (100, 300, 1000, 3000, 10000, 30000)
FIRST = (10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10000, 15000, 20000, 30000)
SURE = (
    "0.01 0.02 0.03 0.05 0.07 0.1 0.15 0.2 0.25 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1 1.25 1.5 1.75 2 2.5 3 3.5 "
    "4 5 6 7 8 10 12 15"
)
BATCH = (
    "1 2 3 4 5 6 8 10 12 15 20 25 30 40 50 60 80 100 125 150 200 250 300 400 500 600 800 1000 1250 1500 "
    "2000 2500"
)
ROUNDS = "1 2 3 4 5 6 7 8 9 10 12 14 16 18 20 23 26 30 34 38 43 48 54 61 69 78 88 99 112 126 142 160"


class Bits:
    """Plain numbers of a message (5.2)."""

    def __init__(self, data: bytes, count: int):
        self.data, self.count, self.place = data, count, 0

    def one(self) -> int:
        must(self.place < self.count, "message is too short")
        self.place += 1
        return self.data[self.place - 1 >> 3] >> (-self.place & 7) & 1

    def bits(self, width: int) -> int:
        value = 0
        for _ in range(width):
            value = 2 * value + self.one()
        return value

    def gamma(self) -> int:
        zeros = 0
        while not self.one():
            zeros += 1
            must(zeros <= 40, "number is too large")
        return 1 << zeros | self.bits(zeros)

    def ones(self, most: int) -> int:
        count = 0
        while count < most and self.one():
            count += 1
        return count


@dataclass
class Message:
    """Choices that a message names."""

    form: str = ""
    loss: str = "wrong"
    costs: list[list[int]] | None = None
    on: str = "all"
    rows: int | None = None
    table: int | None = None
    biases: list[float] | None = None
    rule: dict = field(default_factory=dict)
    classes: int | None = None
    longer: dict[int, int] = field(default_factory=dict)
    network: dict | None = None
    ledger: list[list] = field(default_factory=list)


def decode(data: bytes, count: int, header: dict) -> Message:
    """Read a message, with the sample and the list of tables that the header names."""
    bits, message = Bits(data, count), Message()
    word = read_word(bits, message)
    if word == "another loss":
        read_loss(bits, message, header["sample"]["classes"])
        word = read_word(bits, message)
        must(word != "another loss", "two losses")
    message.form = word
    READERS[word](bits, message, header)
    must(bits.place == bits.count, "message is too long")
    return message


def read_message(file: File) -> Message:
    """Read the message of a file, and compare what the header repeats of it."""
    header, claim = file.header, file.header["claim"]
    message = decode(file.message, header["message"]["bits"], header)
    must(message.ledger == header["message"]["ledger"], "ledger is not that of the message")
    must((message.loss, message.on) == (claim["loss"], claim["on"]), "loss")
    must(message.rows in (None, header["known"]["rows"]), "share is not that of the message")
    must(message.classes in (None, header["sample"]["classes"]), "classes")
    recounted = message.table is not None
    must(claim["assurance"] == ("recounted" if recounted else "replayed"), "assurance")
    picks = header["known"]["tables"][message.table]["picks"] if recounted else None
    law = "picked" if message.form == "picks" or picks is not None else "binomial"
    must(claim["subject"] == "f" or claim["law"] == law, "law")
    parts = message.on in ("all", "each class", "each group")
    must(law != "picked" or parts, "choice of rows under the picked law")
    return message


def note(bits: Bits, message: Message, name: str) -> None:
    message.ledger.append([name, bits.place - sum(size for _, size in message.ledger)])


def read_word(bits: Bits, message: Message) -> str:
    ones = bits.ones(7)
    must(ones < 7, "reserved word")
    note(bits, message, "form")
    return WORDS[ones]


def read_loss(bits: Bits, message: Message, classes: int) -> None:
    kind = bits.bits(3)
    must(kind < 6, "loss")
    first, second = 0, 1
    if kind in (0, 2):
        first = bits.gamma() - 1
        message.loss = f"{('class', '', 'false-alarm')[kind]}:{first}"
    elif kind == 1:
        first, second = bits.gamma() - 1, bits.gamma() - 1
        must(first != second, "a class confused with itself")
        message.loss = f"confused:{first}:{second}"
    elif kind == 3:
        k = bits.gamma()
        must(k < classes, "all classes are among the largest")
        message.loss = f"top:{k}"
    elif kind == 4:
        read_costs(bits, message, classes, bits.gamma() - 1)
    must(max(first, second) < classes, "label without a class")
    choice = bits.ones(4)
    if choice == 1:
        message.on = f"answered:{SURE.split()[bits.bits(5)]}"
    elif choice == 2:
        wanted = bits.gamma() - 1
        must(wanted < classes, "label without a class")
        message.on = f"predicted:{wanted}"
    elif choice == 3:
        message.on = "each class"
    elif choice == 4:
        place = bits.bits(2)
        must(place < 3, "rows that count")
        message.on = ("each group", "one row a cluster", "any row of a cluster")[place]
    must(kind != 5 or choice, "loss is what no word says")
    note(bits, message, "loss")


def read_costs(bits: Bits, message: Message, classes: int, level: int) -> None:
    if bits.one():
        must(classes <= 19, "too many classes for costs")
        largest = bits.bits(4) + 1
        must(largest <= 15, "costs are too large")
        width = largest.bit_length()  # ceil(log2(W + 1))
        told = [[0 if j == y else bits.bits(width) for j in range(classes)] for y in range(classes)]
        words = "".join(f"{told[y][j]:x}" for y in range(classes) for j in range(classes) if j != y)
    else:
        must(classes <= 16, "too many classes for a distance")
        told = [[abs(y - j) for j in range(classes)] for y in range(classes)]
        words, largest = "distance", classes - 1
    must(max(map(max, told)) <= largest and level < max(map(max, told)), "costs")
    message.costs, message.loss = told, f"cost-above:{level}:{words}"  # the page has no text for costs


def read_usual(bits: Bits, message: Message, header: dict) -> None:
    message.rows = usual_rows(header["sample"]["rows"])
    must(message.rows > 0, "no known share")


def read_first_table(bits: Bits, message: Message, header: dict) -> None:
    must(header["known"]["tables"], "no declared table")
    message.table, message.classes = 0, header["known"]["tables"][0]["columns"]


def read_another_table(bits: Bits, message: Message, header: dict) -> None:
    message.table = bits.gamma() - 1
    must(message.table < len(header["known"]["tables"]), "no such table")
    message.classes = header["known"]["tables"][message.table]["columns"]
    note(bits, message, "table")
    if bits.one():
        unit = 2.0 ** (bits.bits(4) - 12)
        message.biases = [(0, 1, -1)[bits.ones(1) and 1 + bits.one()] * unit for _ in range(message.classes)]
    note(bits, message, "biases")


def is_picture(shape: list[int]) -> bool:
    return len(shape) == 3 and shape[0] in (1, 3) and all(3 <= side <= 128 for side in shape[1:])


def read_rule(bits: Bits, rule: dict, shape: list[int]) -> None:
    picture = is_picture(shape)
    kind = bits.bits(2) if picture else 0
    must(kind < 3, "features")
    rule["features"] = ("columns", "filters", "patches")[kind]
    if kind == 0:
        rule["normalised"] = bits.one()
    elif kind == 1:
        rule |= {"straight": bits.one(), "dictionary": (3, 1)[bits.one()], "pool": bits.bits(2) + 2}
    else:
        rule |= {"size": bits.bits(3) + 3, "filters": 256 << bits.bits(2), "threshold": bits.bits(3)}
        rule |= {"grid": bits.bits(2) + 2, "whitening": 2.0 ** -(7 + bits.bits(3)), "seed": bits.bits(2)}
    rule["weights"] = bits.bits(2)
    rule["copies"] = bits.bits(3) if kind else 0
    must(rule["copies"] != 1 or kind == 2, "mirror images as one support are of patches")
    rule |= {"gamma": 2.0 ** (bits.bits(4) - 5), "lambda": 2.0 ** (bits.bits(4) - 8)}


def read_another_split(bits: Bits, message: Message, header: dict) -> None:
    n, i = header["sample"]["rows"], bits.bits(4)
    message.rows = usual_rows(n) if i == 0 else i * n // 10 if i < 10 else SHARES[i - 10]
    must(0 < message.rows < n, "no such share")
    note(bits, message, "share")
    read_rule(bits, message.rule, header["sample"]["input_shape"])
    note(bits, message, "rule")


def read_picks(bits: Bits, message: Message, header: dict) -> None:
    message.classes = bits.gamma() + 1
    note(bits, message, "classes")
    message.rows = FIRST[bits.bits(4)]
    note(bits, message, "first")
    if bits.one():
        message.rule |= {"usual": True, "score": 0.5}
    else:
        read_rule(bits, message.rule, header["sample"]["input_shape"])
        message.rule["score"] = (bits.bits(3) + 1) / 8
    batch, rounds = int(BATCH.split()[bits.bits(5)]), int(ROUNDS.split()[bits.bits(5)])
    message.rule |= {"batch": batch, "rounds": rounds}
    note(bits, message, "rule")
    count, place = bits.gamma() - 1, -1
    must(count <= rounds, "more longer rounds than rounds")
    for _ in range(count):
        place += bits.gamma()
        must(place < rounds, "no such round")
        message.longer[place] = bits.bits(3) + 1
    note(bits, message, "longer")


def read_network(bits: Bits, message: Message, header: dict) -> None:
    from network_reader import read  # the arithmetic code has a module of its own

    known = header["known"]
    must(known["rows"] == 0 or known["base"] or known["features"], "rows are left out for nothing")
    read(bits, message, header)


READERS = dict(
    zip(
        WORDS,
        (read_usual, read_first_table, read_another_table, read_another_split, read_picks, read_network),
        strict=False,
    )
)
