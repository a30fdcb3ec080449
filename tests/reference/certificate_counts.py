"""Counts of a certificate of format 1.0: sample, declared scores and limits, by docs/format-1.0.md."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import mpmath
import numpy as np
from certificate_reader import must

if TYPE_CHECKING:
    from certificate_reader import File, Message

# 3: sample


def hash_of(*arrays: np.ndarray, cells: bool = False) -> str:
    digest = hashlib.sha256()
    for place, array in enumerate(arrays):
        name = "cells" if cells and place == 0 else array.dtype.name
        digest.update(f"{name}|{','.join(map(str, array.shape))}|".encode())
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def cell(value) -> np.float64:
    """Give the number that a cell is stored as (3.2)."""
    if isinstance(value, str):
        start = hashlib.sha256(unicodedata.normalize("NFC", value.strip()).encode()).hexdigest()[:12]
        return np.array([int("7ff9" + start, 16)], np.uint64).view(np.float64)[0]
    if value is None:
        return np.array([0x7FF8 << 48], np.uint64).view(np.float64)[0]
    must(np.isfinite(value) and abs(value) <= 1e300, "cell that is no number")
    return np.float64(value)


def bytes_of(inputs: np.ndarray) -> list[bytes]:
    """Give each input with 0.0 in place of -0.0, its patterns otherwise untouched."""
    rows = np.ascontiguousarray(inputs).reshape(len(inputs), -1).copy()
    if rows.dtype.kind == "f":
        rows[rows == 0] = 0.0
    return [row.tobytes() for row in rows]


def number(value: int) -> bytes:
    return int(value).to_bytes(8, "little", signed=True)


@dataclass
class Sample:
    """Arrays as stored, and the header's words about them."""

    x: np.ndarray
    y: np.ndarray
    order: str = "rows"
    salt: str = ""
    copies: str = "any"
    clusters: np.ndarray | None = None
    groups: np.ndarray | None = None
    inputs: list[bytes] = field(init=False)

    def __post_init__(self):
        self.inputs = bytes_of(self.x)

    def key(self, *parts: bytes) -> bytes:
        return hashlib.sha256(bytes.fromhex(self.salt) + b"".join(parts)).digest()

    def keys(self) -> list[bytes]:
        """Give the key of every row in the order `rows` (3.3)."""
        seen: dict[tuple[bytes, int], int] = {}
        keys = []
        for x, y in zip(self.inputs, self.y.tolist(), strict=True):
            before = seen[x, y] = seen.get((x, y), -1) + 1
            keys.append(self.key(x, number(y), number(before)))
        return keys

    def split(self, t: int) -> tuple[list[int], list[int]]:
        """Give the known rows and the others, in the order, after the share has grown."""
        rows = list(range(len(self.y)))
        unit = None
        if self.order == "clusters":
            unit = [int(c) for c in self.clusters]
            rows.sort(key=lambda i: (self.key(number(unit[i])), unit[i], i))
        elif self.copies == "repeated":
            unit = self.inputs
            if self.order == "rows":
                rows.sort(key=lambda i: self.key(self.inputs[i]))
        elif self.order == "rows":
            keys = self.keys()
            rows.sort(key=keys.__getitem__)
        if unit is not None:  # in the order `file` this may end with nothing left
            last = {unit[i]: place for place, i in enumerate(rows)}
            place = 0
            while place < t:
                t = max(t, last[unit[rows[place]]] + 1)
                place += 1
        must(t < len(rows), "no row is counted")
        return rows[:t], rows[t:]


# 6: claim


def differences(scores: np.ndarray, labels: np.ndarray, message: Message) -> tuple[np.ndarray, np.ndarray]:
    """Give the difference of each row, and the rows that the loss is about (6.1)."""
    kind, *numbers = message.loss.split(":")
    rows, classes = scores.shape
    fits = labels < classes
    y, at = np.where(fits, labels, 0), np.arange(rows)
    if kind in ("wrong", "class", "top"):
        others = scores.copy()
        others[at, y] = -np.inf
        place = int(numbers[0]) if kind == "top" else 1
        found = scores[at, y] - np.sort(others, axis=1)[:, -place]
    elif kind in ("confused", "false-alarm"):
        away = int(numbers[-1])
        found = np.delete(scores, away, axis=1).max(axis=1) - scores[:, away]
    else:
        cheap = np.array(message.costs)[y] <= int(numbers[0])
        found = np.where(cheap, scores, -np.inf).max(1) - np.where(cheap, -np.inf, scores).max(1)
    about = np.ones(rows, bool)
    if kind in ("class", "confused"):
        about = labels == int(numbers[0])
    elif kind == "false-alarm":
        about = labels != int(numbers[0])
    return np.where(fits, found, -np.inf), about


def count(sample: Sample, t: int, right: np.ndarray, counted: np.ndarray, picks=()) -> dict:
    """Count by the declared reading of copies (6.3), among rows after the known share for which `counted`."""
    known, others = sample.split(t)
    picked = set(picks)
    must(picked <= set(others), "picks are of other rows than the known share")
    rows = [i for i in others if counted[i] and i not in picked]
    own = sum(bool(counted[i]) for i in picked)
    wrong = [i for i in rows if not right[i]]
    good = [i for i in rows if right[i]]
    if sample.copies == "any":
        seen = {sample.inputs[i] for i in known} | {sample.inputs[i] for i in picked}
        errors, fine = len(wrong), len({sample.inputs[i] for i in good} - seen)
    elif sample.copies == "repeated":  # of copies that differ, or were picked, the page says nothing
        bad = {(sample.inputs[i], int(sample.y[i])) for i in wrong}
        seen = {sample.inputs[i] for i in picked}
        kept = {(sample.inputs[i], int(sample.y[i])) for i in good if sample.inputs[i] not in seen}
        errors, fine = len(bad), len(kept - bad)
    else:
        errors, fine = len(wrong), len(good)
    return {"errors": errors, "n": errors + fine + own, "picks": own}


def recount(sample: Sample, message: Message, t: int, table: np.ndarray, picks=None) -> list[dict]:
    """Count the limits of a claim on declared scores (6.2, 6.5)."""
    known, others = sample.split(t)
    scores = np.array(table, np.float64)
    must(np.isfinite(scores[others]).all(), "score that is no number")
    scores[known] = 0.0
    if message.biases:
        scores = scores + np.array(message.biases)
    difference, about = differences(scores, sample.y, message)
    right, every, chosen = difference > 0, np.ones(len(about), bool), tuple(picks or ())
    top = np.sort(scores, axis=1)
    kind, _, word = message.on.partition(":")
    if kind == "answered":
        silent = ~(top[:, -1] - top[:, -2] > float(word))
        first = count(sample, t, right, about & ~silent)
        return [first | {"of": "answered"}, count(sample, t, ~silent, every) | {"of": "silent"}]
    if kind == "predicted":
        about &= scores[:, int(word)] == top[:, -1]
    if kind in ("each class", "each group"):
        parts = sample.groups if kind == "each group" else sample.y
        numbers = sorted(set(parts.tolist())) if kind == "each group" else range(table.shape[1])
        name = kind.split()[1]
        found = ((c, count(sample, t, right, about & (parts == c), chosen)) for c in numbers)
        return [counts | {"of": f"{name} {c}"} for c, counts in found]
    if "cluster" in kind:
        return [clustered(sample, others, right, about, kind) | {"of": message.loss}]
    return [count(sample, t, right, about, chosen) | {"of": message.loss}]


def clustered(sample: Sample, others: list[int], right, about, kind: str) -> dict:
    """Count clusters; one without a row that the loss is about is not counted (the page does not say)."""
    keys, groups = sample.keys(), {}
    for i in others:
        groups.setdefault(int(sample.clusters[i]), []).append(i)
    if kind == "one row a cluster":
        groups = {c: [min(rows, key=keys.__getitem__)] for c, rows in groups.items()}
    kept = [[i for i in rows if about[i]] for rows in groups.values()]
    kept = [rows for rows in kept if rows]
    return {"errors": sum(not all(right[i] for i in rows) for rows in kept), "n": len(kept), "picks": 0}


def binomial_limit(errors: int, n: int, delta) -> mpmath.mpf:
    """Invert the tail: the largest p with P(Bin(n, p) <= errors) >= delta."""
    if errors >= n:
        return mpmath.mpf(1)
    delta = mpmath.mpf(delta)
    return crossing(lambda p: mpmath.betainc(n - errors, errors + 1, 0, 1 - p, regularized=True) - delta)


def picked_limit(errors: int, picks: int, n: int, delta) -> mpmath.mpf:
    k = picks + errors
    if k >= n:
        return mpmath.mpf(1)
    delta, ways = mpmath.mpf(delta), mpmath.binomial(n, k)
    return crossing(
        lambda p: (
            n * p * ways * p**k * (1 - p) ** (n - k)
            - delta * mpmath.betainc(k + 1, n - k, 0, p, regularized=True)
        )
    )


def crossing(falling) -> mpmath.mpf:
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) >= 0 else (low, middle)
    return high


def shares(message: Message, delta: float, limits: int) -> Fraction:
    halves = message.on.startswith("answered")
    return Fraction(delta) / (2 if halves else limits if message.on.startswith("each") else 1)


def check_limits(file: File, message: Message, own: list[dict]) -> None:
    """Compare what is printed with what was counted (6.4, 6.5)."""
    claim, bits = file.header["claim"], file.header["message"]["bits"]
    printed = claim["limits"]
    must([limit["of"] for limit in printed] == [counts["of"] for counts in own], "limits")
    delta = shares(message, claim["delta"], len(own)) / 2**bits
    for limit, counts in zip(printed, own, strict=True):
        picks, picked = limit["picks"] or 0, limit["picks"] is not None
        must(limit["n"] >= 1 or message.on.startswith(("each", "answered")), "nothing is counted")
        must(limit["errors"] >= counts["errors"], "errors")
        must(not picked or picks == counts["picks"], "picks")
        right = counts["n"] - counts["errors"] - counts["picks"]
        must(limit["n"] - limit["errors"] - picks <= right, "right rows")
        small = mpmath.mpf(delta.numerator) / delta.denominator
        if picked:
            value = picked_limit(limit["errors"], picks, limit["n"], small)
        else:
            value = binomial_limit(limit["errors"], limit["n"], small)
        must(value <= limit["bound"] <= value * (1 + mpmath.mpf("1e-6")), "limit")
    values = [limit["bound"] for limit in printed]
    wanted = max(values) if message.on.startswith("each") else values[0]
    must(claim["bound"] == (min(1.0, sum(values)) if claim["law"] == "sum" else wanted), "bound")


def is_vacuous(file: File, message: Message, labels: np.ndarray) -> bool:
    """Say whether guessing does as well (6.6); `labels` are those of the rows that count."""
    claim, classes = file.header["claim"], file.header["sample"]["classes"]
    if message.on.startswith("each"):
        return any(limit["bound"] >= 1 for limit in claim["limits"])
    kind, *numbers = message.loss.split(":")
    if kind in ("confused", "false-alarm"):
        levels = [Fraction(1, classes)]
    elif kind == "top":
        levels = [1 - Fraction(int(numbers[0]), classes)]
    elif kind == "cost-above":
        above = (np.array(message.costs) > int(numbers[0])).sum(axis=0)
        levels = [Fraction(int(above.min()), classes)]
    else:
        levels = [1 - Fraction(1, classes), 1 - Fraction(int(np.bincount(labels).max()), len(labels))]
    return any(Fraction(claim["bound"]) >= level for level in levels)
