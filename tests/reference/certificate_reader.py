"""Reader of certificates of format 1.0, written from docs/format.md alone, but for its learner."""

import hashlib
import json
import math
import re
from collections import namedtuple
from dataclasses import dataclass, field
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs/format.md").read_text("utf-8")


class Refused(Exception):  # noqa: N818
    """Verdict on a file that is no certificate."""


def must(true, reason: str) -> None:
    if not true:
        raise Refused(reason)


def fits(value, form) -> bool:
    """Compare a value with a pattern of text, a range, a list of one form, or alternatives."""
    if form is float:
        return type(value) is float and 0 <= value <= 1
    if isinstance(form, str):
        return type(value) is str and re.fullmatch(form, value, re.S) is not None
    if isinstance(form, range):
        return type(value) is int and value in form
    if isinstance(form, dict):
        same = type(value) is dict and value.keys() == form.keys()
        return same and all(fits(value[key], each) for key, each in form.items())
    if isinstance(form, list):  # of a form and how many
        return type(value) is list and len(value) in form[1] and all(fits(each, form[0]) for each in value)
    if isinstance(form, tuple):
        return any(fits(value, each) for each in form)
    return form(value) if callable(form) else value is form


SHA, DAY, COUNT, ANY = "[0-9a-f]{64}", "[0-9]{4}-[0-9]{2}-[0-9]{2}", range(2**32 + 1), ".{0,400}"
ASSURANCE = ("replayed", "replayed on declared inputs", "recounted")
MADE = {"by": ANY, "of": ANY, "rows": COUNT, "sha256": SHA}
SAMPLE = {"rows": range(1, 2**32 + 1), "sha256": SHA, "input_shape": [range(1, 2**24 + 1), range(1, 4)]}
SAMPLE |= {"classes": range(2, 2**16 + 1), "order": "rows|clusters|file", "salt": f"({SHA})?", "seal": ANY}
SAMPLE |= {"copies": "any|independent|repeated", "clusters": (None, SHA), "groups": (None, SHA)}
TABLE = {**MADE, "columns": range(2, 2**16 + 1), "picks": (None, COUNT)}
KNOWN = {"rows": COUNT, "tables": [TABLE, range(257)], "features": (None, MADE), "base": (None, MADE)}
LIMIT = {"bound": float, "errors": COUNT, "n": COUNT, "of": ANY, "picks": (None, COUNT)}
CLAIM = {"loss": ANY, "on": ANY, "law": "binomial|picked|sum", "subject": "g|f", "assurance": ASSURANCE}
CLAIM |= {"delta": float, "limits": [LIMIT, range(1, 1025)], "bound": float, "vacuous": (True, False)}
ORIGINAL = {"chain": (None, [[(ANY, COUNT), range(1, 7)], range(1, 257)]), "sha256": SHA}
ORIGINAL |= {"domain": (None, [lambda value: type(value) is float, range(2, 3)])}
ORIGINAL |= {"unlabelled": (None, {"disagreements": COUNT, "rows": COUNT, "sha256": SHA})}
PART = {0: ANY, 1: COUNT}
MESSAGE = {"bits": range(1, 2**32 + 1), "sha256": SHA}
MESSAGE |= {"ledger": [lambda part: type(part) is list and fits(dict(enumerate(part)), PART), COUNT]}
HEADER = {"sample": SAMPLE, "known": KNOWN, "claim": CLAIM, "message": MESSAGE, "original": (None, ORIGINAL)}
HEADER |= {"declarations": [ANY, range(1, 65)], "format": {"frozen": DAY, "sha256": SHA}}
HEADER |= {"made_by": {"codebound": ANY, "commit": "([0-9a-f]{40})?", "date": DAY}}
File = namedtuple("File", ("header", "message", "witness"))


def read_container(data: bytes) -> File:
    must(data[:7] == b"CBOUND\0", "magic")
    must(data[7:8] == b"\4", "version")
    length = int.from_bytes(data[8:12], "little")
    must(2 <= length <= 2**20 and len(data) >= 12 + length, "length of the header")
    header = read_header(data[12 : 12 + length])
    end = 12 + length + -(-header["message"]["bits"] // 8)
    must(len(data) >= end + 4, "length of the message")
    witness = int.from_bytes(data[end : end + 4], "little")
    must(witness <= 2**24 and len(data) == end + 4 + witness + 32, "length of the file")
    must(hashlib.sha256(data[:-32]).digest() == data[-32:], "hash of the file")
    message = data[12 + length : end]
    must(hashlib.sha256(message).hexdigest() == header["message"]["sha256"], "hash of the message")
    must(message[-1] & ((1 << -header["message"]["bits"] % 8) - 1) == 0, "unused bits")
    return File(header, message, data[end + 4 : -32])


def rows_of(made: dict | None) -> int:
    return made["rows"] if made else 0


def read_header(data: bytes) -> dict:
    try:
        header = json.loads(data)
        again = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError) as problem:
        raise Refused("header is no JSON") from problem
    must(again == data, "header is written otherwise")
    must(fits(header, HEADER), "keys or values of the header")
    sample, known, claim, original = (header[key] for key in ("sample", "known", "claim", "original"))
    must(math.prod(sample["input_shape"]) <= 2**24, "size of an input")
    must((sample["salt"] == "") == (sample["seal"] == ""), "salt without a seal")
    must((sample["clusters"] is not None) == (sample["order"] == "clusters"), "clusters")
    must(sample["clusters"] is None or sample["copies"] == "independent", "copies of clusters")
    must(all(table["columns"] * sample["rows"] <= 2**31 for table in known["tables"]), "table is too large")
    must(not rows_of(known["features"]) or sample["order"] == "file", "features")
    must(known["rows"] < sample["rows"], "known share leaves nothing")
    must(0 < claim["delta"] < 1, "delta")
    must(sum(bits for _, bits in header["message"]["ledger"]) == header["message"]["bits"], "ledger")
    must((original is not None) == (claim["subject"] == "f"), "subject")
    unlabelled = original and original["unlabelled"]
    must(original is None or (unlabelled is None) == (original["domain"] is not None), "original")
    must((unlabelled is not None) == (claim["law"] == "sum"), "law of an original")
    for limit in claim["limits"]:
        must((limit["picks"] is None) == (claim["law"] != "picked"), "picks of a limit")
        rows = unlabelled["rows"] if limit["of"] == "disagreement" and unlabelled else sample["rows"]
        must(limit["errors"] + (limit["picks"] or 0) <= limit["n"] <= rows, "counts of a limit")
    return header


def listed(start: str, count: int) -> list[str]:
    """Give the numbers of the page behind some words."""
    return re.findall(r"\d+(?:\.\d+)?", PAGE[PAGE.index(start) + len(start) :])[:count]


def usual_rows(n: int) -> int:
    """Give the usual share of n rows for a split: it leaves what is counted, and is learned from."""
    steps = ((50_000, 16, 15_000), (10_000, 14, 4_000), (2_000, 12, 1_000), (0, 10, 0))
    part, counted = next((part, counted) for least, part, counted in steps if n >= least)
    return min(part * n // 20, n - counted, 10_000)


WORDS = ("usual split", "first table", "another table", "another split", "picks", "network", "another loss")
SHARES = (100, 300, 1000, 3000, 10000, 30000)
FIRST, BATCH, ROUNDS = (
    listed(f"{letter}, the i-th of", n) for letter, n in (("t", 16), ("B", 32), ("R", 32))
)
SURE = listed("T the i-th of", 32)
OF_CLUSTERS = ("one row a cluster", "any row of a cluster")


class Bits:
    """Plain numbers of a message (5.2), with the ledger of what was read."""

    def __init__(self, data: bytes, count: int):
        self.data, self.count, self.place, self.noted, self.ledger = data, count, 0, 0, []

    def peek(self, place: int) -> int:
        return self.data[place >> 3] >> (~place & 7) & 1 if place < self.count else 0

    def one(self) -> int:
        must(self.place < self.count, "message is too short")
        self.place += 1
        return self.peek(self.place - 1)

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

    def note(self, name: str) -> None:
        self.ledger.append([name, self.place - self.noted])
        self.noted = self.place

    def read_loss(self, message, classes: int) -> None:
        kind = self.bits(3)
        must(kind < 6, "loss")
        labels = message.labels = [self.gamma() - 1 for _ in range((1, 2, 1, 0, 0, 0)[kind])]
        must(kind != 1 or labels[0] != labels[1], "a class confused with itself")
        if kind < 3:
            message.loss = ":".join(map(str, (("class", "confused", "false-alarm")[kind], *labels)))
        elif kind == 3:
            k = self.gamma()
            must(k < classes, "all classes are among the largest")
            message.loss = f"top:{k}"
        elif kind == 4:
            self.read_costs(message, classes, self.gamma() - 1)
        choice = self.ones(4)
        if choice == 1:
            message.on = f"answered:{SURE[self.bits(5)]}"
        elif choice == 2:
            labels.append(self.gamma() - 1)
            message.on = f"predicted:{labels[-1]}"
        else:
            place = self.bits(2) if choice == 4 else 0
            must(
                place < 3 and (choice not in (0, 4) or kind != 5 or (place in (0, 2) and choice)),
                "rows that count, or a loss that no word needs",
            )
            message.on = ("all", "", "", "each class", ("each group", *OF_CLUSTERS)[place])[choice]
        self.note("loss")

    def read_costs(self, message, classes: int, level: int) -> None:
        told, largest, words = self.one(), 15, "distance"
        must(classes <= (19 if told else 16), "too many classes for costs")
        pairs = [(y, j) for y in range(classes) for j in range(classes)]
        costs = [abs(y - j) for y, j in pairs]
        if told:
            largest = self.bits(4) + 1
            must(largest <= 15, "costs are too large")
            costs = [0 if y == j else self.bits(largest.bit_length()) for y, j in pairs]
            words = "".join(f"{cost:x}" for cost, (y, j) in zip(costs, pairs, strict=True) if y != j)
        must(level < max(costs) <= largest, "costs")
        message.costs = [costs[y * classes :][:classes] for y in range(classes)]
        message.loss = f"cost-above:{level}:{words}"

    def read_table(self, message, tables: list[dict], first: bool) -> None:
        i = 1 if first else self.gamma()
        must(i <= len(tables), "no such table")
        message.table, message.classes, message.rows = i - 1, tables[i - 1]["columns"], tables[i - 1]["rows"]
        if not first:
            self.note("table")
            if self.one():
                unit = 2.0 ** (self.bits(4) - 12)
                signs = [self.ones(1) and 1 - 2 * self.one() for _ in range(message.classes)]
                message.biases = [sign * unit for sign in signs]
            self.note("biases")

    def read_features(self, rule: dict, shape: list[int]) -> None:
        """Read features, weights, copies, kernel and ridge of 5.4."""
        picture = len(shape) == 3 and shape[0] in (1, 3) and all(3 <= side <= 128 for side in shape[1:])
        kind = self.bits(2) if picture else 0
        must(kind < 3, "features")
        rule["features"] = ("columns", "filters", "patches")[kind]
        if kind == 0:
            rule["normalised"] = self.one()
        elif kind == 1:
            rule |= {"straight": self.one(), "dictionary": (3, 1)[self.one()], "pool": self.bits(2) + 2}
        else:
            rule |= {"size": self.bits(3) + 3, "filters": 256 << self.bits(2), "threshold": self.bits(3)}
            rule |= {"grid": self.bits(2) + 2, "whitening": 2.0 ** -(7 + self.bits(3)), "seed": self.bits(2)}
        rule |= {"weights": self.bits(2), "copies": self.bits(3) if kind else 0}
        must(rule["copies"] != 1 or kind == 2, "mirror images as one support are of patches")
        rule |= {"gamma": 2.0 ** (self.bits(4) - 5), "lambda": 2.0 ** (self.bits(4) - 8)}

    def read_picks(self, message, shape: list[int]) -> None:
        rule, message.classes = message.rule, self.gamma() + 1
        self.note("classes")
        message.rows = int(FIRST[self.bits(4)])
        self.note("first")
        if self.one():
            rule |= {"usual": True, "gamma": 1 / 2, "lambda": 1 / 16, "score": 1 / 2}
        else:
            self.read_features(rule, shape)
            rule["score"] = (self.bits(3) + 1) / 8
        rule |= {"batch": int(BATCH[self.bits(5)]), "rounds": int(ROUNDS[self.bits(5)]), "longer": {}}
        self.note("rule")
        count, place = self.gamma() - 1, -1
        must(count <= rule["rounds"], "more longer rounds than rounds")
        for _ in range(count):
            place += self.gamma()
            must(place < rule["rounds"], "no such round")
            rule["longer"][place] = self.bits(3) + 1
        self.note("longer")


@dataclass
class Message:
    """Choices that a message names."""

    form: str = ""
    loss: str = "wrong"
    costs: list[list[int]] | None = None
    on: str = "all"
    labels: list[int] = field(default_factory=list)
    rows: int = 0
    table: int | None = None
    biases: list[float] | None = None
    rule: dict = field(default_factory=dict)
    classes: int | None = None
    network: dict | None = None
    ledger: list[list] = field(default_factory=list)


def decode(data: bytes, count: int, header: dict, units: int | None = None) -> Message:
    """Read a message; `units` is the number of clusters, where there are some."""
    bits, clusters = Bits(data, count), header["sample"]["order"] == "clusters"
    message = Message(on=OF_CLUSTERS[0] if clusters else "all", ledger=bits.ledger)
    n, form = units or header["sample"]["rows"], bits.ones(7)
    bits.note("form")
    if form == 6:
        bits.read_loss(message, header["sample"]["classes"])
        must((message.on in OF_CLUSTERS) == clusters, "clusters")
        form = bits.ones(7)
        bits.note("form")
    must(form < 6, "reserved word, or two losses")
    message.form = WORDS[form]
    if form == 5:
        from network_reader import read  # the arithmetic code has a module of its own

        read(bits, message, header)
    elif form in (1, 2):
        bits.read_table(message, header["known"]["tables"], first=form == 1)
    elif form == 4:
        bits.read_picks(message, header["sample"]["input_shape"])
    else:
        i = bits.bits(4) if form == 3 else 0
        message.rows = usual_rows(n) if i == 0 else i * n // 10 if i < 10 else SHARES[i - 10]
        must(message.rows > 0, "no known share")
    if form == 3:
        bits.note("share")
        bits.read_features(message.rule, header["sample"]["input_shape"])
        bits.note("rule")
    must(bits.place == bits.count, "message is too long")
    must(not message.classes or max(message.labels, default=0) < message.classes, "label that is no class")
    must(rows_of(header["known"]["features"]) <= message.rows < n, "share")
    return message


def read_message(file: File, units: int | None = None) -> Message:
    """Read the message of a file, and compare what the header repeats of it."""
    header, claim, known = file.header, file.header["claim"], file.header["known"]
    message = decode(file.message, header["message"]["bits"], header, units)
    must(message.ledger == header["message"]["ledger"], "ledger is not that of the message")
    same = [claim["loss"], claim["on"], known["rows"], message.classes and header["sample"]["classes"]]
    must([message.loss, message.on, message.rows, message.classes] == same, "loss, share or classes")
    table, original, network = message.table is not None, header["original"], message.form == "network"
    declared = known["features"] or (network and known["base"]) or (original and original["chain"] is None)
    must(claim["assurance"] == ASSURANCE[2 if table else 1 if declared else 0], "assurance")
    picks = known["tables"][message.table]["picks"] if table else None
    law = "picked" if message.form == "picks" or picks is not None else "binomial"
    must(claim["law"] in (law, "sum") and (not original or network), "law or subject")
    must(law != "picked" or message.on in ("all", "each class", "each group"), "choice of rows of picks")
    must(claim["law"] != "sum" or (message.loss, message.on) == ("wrong", "all"), "loss of a sum")
    return message
