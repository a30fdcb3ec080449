"""Counts of a certificate of format 1.0: sample, declared scores and limits, by docs/format.md."""

import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from hashlib import sha256

import mpmath
import numpy as np
from certificate_reader import must


def hash_of(*arrays: np.ndarray, cells: bool = False) -> str:
    digest = sha256()
    for place, array in enumerate(arrays):
        name = "cells" if cells and place == 0 else array.dtype.name
        digest.update(f"{name}|{','.join(map(str, array.shape))}|".encode())
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def cell(value) -> np.float64:
    """Give the number that a cell is stored as (3.2)."""
    if value is None or isinstance(value, str):
        digits = sha256(unicodedata.normalize("NFC", (value or "").strip()).encode()).hexdigest()
        pattern = 0x7FF8 << 48 if value is None else int("7ff9" + digits[:12], 16)
        return np.uint64(pattern).view(np.float64)
    must(np.isfinite(value) and abs(value) <= 1e300, "cell that is no number")
    return np.float64(value)


def repeats(things: list) -> list[bytes]:
    """Give for each thing how many equal ones are before it."""
    return [np.int64(things[:place].count(thing)).tobytes() for place, thing in enumerate(things)]


@dataclass(eq=False)
class Sample:
    """Arrays as stored, and the header's words about them. Nobody writes to them."""

    x: np.ndarray
    y: np.ndarray
    order: str = "rows"
    salt: str = ""
    copies: str = "any"
    clusters: np.ndarray | None = None
    groups: np.ndarray | None = None

    def key(self, *parts: bytes) -> bytes:
        return sha256(bytes.fromhex(self.salt) + b"".join(parts)).digest()

    @cached_property
    def inputs(self) -> list[bytes]:
        """Give each input with 0.0 in place of -0.0, its patterns otherwise untouched."""
        rows = np.ascontiguousarray(self.x).reshape(len(self.x), -1).copy()
        rows[rows == 0] = 0
        return [row.tobytes() for row in rows]

    @cached_property
    def keys(self) -> list[bytes]:
        """Give the key of every row (3.3)."""
        numbers = np.stack([self.y] if self.groups is None else [self.y, self.groups], 1).astype("<i8")
        what = [x + row.tobytes() for x, row in zip(self.inputs, numbers, strict=True)]
        places = np.zeros(len(what)) if self.clusters is None else self.clusters
        before = repeats(list(zip(what, places.tolist(), strict=True)))
        return [self.key(*parts) for parts in zip(what, before, strict=True)]

    @cached_property
    def blocks(self) -> list[tuple[bytes, list[int]]]:
        """Give the clusters with their keys, in the order, each with its rows by key."""
        names = dict.fromkeys(self.clusters.tolist())  # by their first rows
        rows = [sorted(np.flatnonzero(self.clusters == c), key=self.keys.__getitem__) for c in names]
        lists = [b"".join(self.keys[i] for i in block) for block in rows]
        keys = [self.key(*parts) for parts in zip(lists, repeats(lists), strict=True)]
        return sorted(zip(keys, rows, strict=True))

    def one_row(self, t: int) -> list[int]:
        """Give the chosen row of each cluster but the first t."""
        blocks = self.blocks[t:]
        return sorted(min(rows, key=lambda i: sha256(key + self.keys[i]).digest()) for key, rows in blocks)

    def split(self, t: int) -> tuple[list[int], list[int]]:
        """Give the known rows and the others, in the order, after the share has grown."""
        rows = list(range(len(self.y)))
        if self.order == "clusters":
            rows = [i for _, block in self.blocks for i in block]
            t = sum(len(block) for _, block in self.blocks[:t])
        elif self.order == "rows":
            repeated = self.copies == "repeated"
            rows.sort(key=lambda i: (repeated and self.key(self.inputs[i]), self.keys[i]))
            while repeated and 0 < t < len(rows) and self.inputs[rows[t]] == self.inputs[rows[t - 1]]:
                t += 1
        must(t < len(rows), "no row is counted")
        return rows[:t], rows[t:]


def differences(scores: np.ndarray, labels: np.ndarray, message) -> tuple[np.ndarray, np.ndarray]:
    """Give the difference of each row, and the rows that the loss is about (6.1)."""
    kind, *numbers = message.loss.split(":")
    rows, classes = scores.shape
    fit = labels < classes
    y, at = np.where(fit, labels, 0), np.arange(rows)
    if kind in ("wrong", "class", "top"):
        others = scores.copy()
        others[at, y] = -np.inf
        found = scores[at, y] - np.sort(others, axis=1)[:, -int(numbers[0]) if kind == "top" else -1]
    elif kind in ("confused", "false-alarm"):
        away = int(numbers[-1])
        found = np.delete(scores, away, axis=1).max(axis=1) - scores[:, away]
    else:
        cheap = np.array(message.costs)[y] <= int(numbers[0])
        found = np.where(cheap, scores, -np.inf).max(1) - np.where(cheap, -np.inf, scores).max(1)
    label = int(numbers[0]) if kind in ("class", "confused", "false-alarm") else -1
    about = (labels == label) == (kind in ("class", "confused"))
    return np.where(fit, found, -np.inf), about


def count(sample: Sample, t: int, right: np.ndarray, counted: np.ndarray, picks=()) -> dict:
    """Count by the declared reading of copies (6.3), among rows after the known share for which `counted`."""
    (known, others), picked, x = sample.split(t), set(picks), sample.inputs
    must(picked <= set(others), "picks are of other rows than the known share")
    rows = [i for i in others if counted[i] and i not in picked]
    wrong, good = [i for i in rows if not right[i]], [i for i in rows if right[i]]
    if sample.copies != "independent":
        seen = {x[i] for i in (*known, *picked)}
        good = [i for i in good if x[i] not in seen]
    if sample.copies == "any":
        good = list({x[i] for i in good})
    elif sample.copies == "repeated":
        wrong = {(x[i], int(sample.y[i])) for i in wrong}
        labels = {(x[i], int(sample.y[i])) for i in range(len(x))}
        good = {(x[i], int(sample.y[i])) for i in good} - wrong
        good = {pair for pair in good if sum(each == pair[0] for each, _ in labels) == 1}
    own = int(counted[list(picked)].sum())
    return {"errors": len(wrong), "n": len(wrong) + len(good) + own, "picks": own}


def recount(sample: Sample, message, table: np.ndarray, picks=(), room=0.0) -> list[dict]:
    """Count the limits of a claim on scores (6.2, 6.5); differences within `room` are in doubt (7.8)."""
    known, others = sample.split(t := message.rows)
    scores = np.array(table, np.float64)
    must(np.isfinite(scores[others]).all(), "score that is no number")
    first = [*known, *picks] if message.form == "picks" else []
    must(max(sample.y[first], default=0) < scores.shape[1], "label of a first or picked row")
    scores[known] = 0.0
    scores = scores + np.array(message.biases or 0.0)
    difference, about = differences(scores, sample.y, message)
    right, top = difference > room, np.sort(scores, axis=1)
    kind, _, word = message.on.partition(":")
    if kind == "answered":
        lead = top[:, -1] - top[:, -2] - float(word)
        first = count(sample, t, right & (lead > room), about & (lead > -room))
        silent = count(sample, t, lead > room, np.ones(len(about), bool))
        return [first | {"of": "answered"}, silent | {"of": "silent"}]
    if kind == "predicted":
        lead = scores[:, int(word)] - np.delete(scores, int(word), axis=1).max(axis=1)
        about, right = about & (lead > -room), right & (lead > room)
    if kind in ("each class", "each group"):
        parts = sample.groups if kind == "each group" else sample.y
        numbers = np.unique(parts).tolist() if kind == "each group" else range(scores.shape[1])
        found = ((c, count(sample, t, right, about & (parts == c), picks)) for c in numbers)
        return [counts | {"of": f"{kind[5:]} {c}"} for c, counts in found]
    if sample.order == "clusters":
        blocks = sample.blocks[t:]
        if message.on == "one row a cluster":
            blocks = [(b"", [i]) for i in sample.one_row(t)]
        fine = [[bool(right[i]) for i in rows if about[i]] for _, rows in blocks]
        fine = [all(each) for each in fine if each]
        return [{"errors": fine.count(False), "n": len(fine), "picks": 0, "of": message.loss}]
    return [count(sample, t, right, about, picks) | {"of": message.loss}]


@cache
def limit_of(errors: int, n: int, delta, picks: int | None = None) -> mpmath.mpf:
    """Give the limit of the binomial law, or with `picks` of the picked one (6.4)."""
    k = errors + (picks or 0)
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    for _ in range(60 if k < n else 0):
        p = (low + high) / 2
        if picks is None:
            excess = mpmath.betainc(n - k, k + 1, 0, 1 - p, regularized=True) - delta
        else:
            mass = mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k)
            excess = n * p * mass - delta * mpmath.betainc(k + 1, n - k, 0, p, regularized=True)
        low, high = (p, high) if excess >= 0 else (low, p)
    return high


def check_limits(file, message, own: list[dict]) -> None:
    """Compare what is printed with what was counted (6.4, 6.5)."""
    claim, printed = file.header["claim"], file.header["claim"]["limits"]
    must([limit["of"] for limit in printed] == [counts["of"] for counts in own], "limits")
    small = mpmath.mpf(claim["delta"]) / len(own) / mpmath.mpf(2) ** file.header["message"]["bits"]
    for limit, counts in zip(printed, own, strict=True):
        picks, errors, n = limit["picks"] or 0, limit["errors"], limit["n"]
        must(n >= 1 or len(own) > 1, "nothing is counted")
        must(errors >= counts["errors"] and picks == counts["picks"], "errors or picks")
        must(n - errors - picks <= counts["n"] - counts["errors"] - counts["picks"], "right rows")
        value = limit_of(errors, n, small, limit["picks"])
        must(value <= limit["bound"] <= value * (1 + mpmath.mpf("1e-6")), "limit")
    values = [Fraction(limit["bound"]) for limit in printed]
    wanted = max(values) if message.on.startswith("each") else values[0]
    wanted = min(1, sum(values)) if claim["law"] == "sum" else wanted  # rounded up
    must(np.nextafter(claim["bound"], 0) < wanted <= claim["bound"], "bound")


def is_vacuous(file, message, labels: np.ndarray) -> bool:
    """Say whether guessing does as well (6.6); `labels` are those of all counted rows."""
    claim, classes = file.header["claim"], file.header["sample"]["classes"]
    if message.on.startswith("each"):
        return any(limit["bound"] >= 1 for limit in claim["limits"])
    kind, *numbers = message.loss.split(":")
    levels = {"confused": 1, "false-alarm": 1, "top": classes - int(numbers[0]) if numbers else 0}
    if kind == "cost-above":
        levels[kind] = int((np.array(message.costs) > int(numbers[0])).sum(axis=0).min())
    level = Fraction(levels.get(kind, classes - 1), classes)
    if kind == "wrong" and message.on == "all":
        level = min(level, 1 - Fraction(int(np.unique(labels, return_counts=True)[1].max()), len(labels)))
    return Fraction(claim["bound"]) >= level
