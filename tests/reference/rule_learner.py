"""The learner of docs/format-1.0.md, section 7, literally and slowly: columns, filters, patches and picks."""

import hashlib
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
from certificate_reader import must
from numpy.lib.stride_tricks import sliding_window_view

DICTIONARIES = Path(__file__).parents[2] / "src/codebound/learn/dictionaries.json"
DICTIONARIES_SHA = "1a3375e1242968b4599e4f84121724a3e2b93b5a0a5914d00679b4dfaacf28ea"
SIDES = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
CORNERS = ((1, 1), (1, -1), (-1, 1), (-1, -1))


def radius(size: int) -> int:
    return 4095 - math.ceil(math.sqrt(size) / 2)


def lengthened(y: np.ndarray) -> np.ndarray:
    """Give every vector nearly the same length: rint((y s) / sqrt(N))."""
    n = (y * y).sum(axis=1, keepdims=True)
    return np.where(n == 0, 0.0, np.rint(y * radius(y.shape[1]) / np.sqrt(np.where(n == 0, 1, n))))


def weights(t: np.ndarray, labels: np.ndarray, power: int) -> np.ndarray:
    """Compute weights by how far classes lie apart (7.6)."""
    if power == 0:
        return np.ones(t.shape[1])
    ratios = []
    for column in t.T.astype(float):
        common, between = column.sum() * column.sum() / len(column), 0.0
        for c in np.unique(labels):
            own = column[labels == c]
            between += own.sum() * own.sum() / len(own)
        between, error = between - common, (column * column).sum() - common
        ratios.append(between / error if between > 0 and error > 0 else 0.0)
    if not max(ratios):
        return np.ones(len(ratios))
    p = np.array(ratios) / max(ratios)
    return np.rint(8 * (np.sqrt(np.sqrt(p)), np.sqrt(p), p)[power - 1])


def plain(column: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Scale a column by the values that first rows have; what is missing has that of the middle."""
    v, m = np.sort(known), len(known)
    spread = v[9 * m // 10] - v[m // 10] or v[-1] - v[0] or 1.0
    return np.where(np.isnan(column), 0.0, np.clip((column - v[m // 2]) / spread, -4, 4))


def numbers_of_cells(x: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Make numbers of words, gaps and columns (7.3); equality is by value."""
    x = np.where(x == 0, 0.0, x)
    patterns, found = np.ascontiguousarray(x).view(np.uint64), []
    for column, bits in zip(x.T, patterns.T, strict=True):
        text, gap, here = bits >> 48 == 0x7FF9, bits == 0x7FF8 << 48, bits[first]
        if text[first].any():
            words, counts = np.unique(here[here != 0x7FF8 << 48], return_counts=True)
            most = sorted(zip((-counts).tolist(), words.tolist(), strict=True))[:256]
            found += [(bits == word).astype(float) for _, word in most]
        elif not gap[first].all():
            found.append(plain(column, column[first][~gap[first]]))
            found += [(gap | text).astype(float)] if gap[first].any() else []
    must(found, "no column is left")
    return np.stack(found, axis=1)


def columns(x, y, first, rule, cells) -> tuple[np.ndarray, float]:
    """Give the vectors of all rows and the square of their scale."""
    x = np.ascontiguousarray(x).reshape(len(x), -1).astype(np.float64)
    if rule["normalised"]:
        must(not cells, "cells are not normalised")
        m = np.abs(x).max(axis=1, keepdims=True)
        w = np.where(m == 0, 0.0, np.rint(x * 32767 / np.where(m == 0, 1.0, m)))
        w = w * weights(w[first], y[first], rule["weights"])
        return lengthened(w), float(radius(x.shape[1]) ** 2)
    z = numbers_of_cells(x, first) if cells else np.stack([plain(c, c[first]) for c in x.T], axis=1)
    w = weights(np.rint(256 * z[first]), y[first], rule["weights"])
    d, v = z.shape[1], float((w * w).sum())
    u = math.floor((4095 - math.sqrt(d) / 2) / (4 * math.sqrt(v)))
    must(u >= 1, "no room for the weights")
    return np.rint(z * (w * u)), v * u * u


def levels(x: np.ndarray, first: np.ndarray) -> np.ndarray:
    d = min((d for d in (1, 16, 255) if d >= x[first].max()), default=None)
    must(d is not None, "values of pictures")
    return np.clip(np.floor(x.astype(np.float64) * 255 / d + 0.5), 0, 255).astype(np.int64)


def straightened(picture: np.ndarray) -> np.ndarray:
    _, height, width = picture.shape
    i, j, p = np.arange(height)[:, None], np.arange(width), picture.sum(axis=0)
    total, of_i, of_j, of_ij, of_ii = (float((p * each).sum()) for each in (1, i, j, i * j, i * i))
    a = (total * of_ij - of_i * of_j) / max(1.0, total * of_ii - of_i * of_i)
    t = np.clip(j + a * (i - of_i / max(1.0, total)), -1, width)
    k = np.floor(t).astype(int)
    f = np.floor(16 * (t - k) + 0.5).astype(int)
    wide = np.pad(picture, ((0, 0), (0, 0), (1, 2)))
    left, right = (np.stack([np.take_along_axis(c, k + s, 1) for c in wide]) for s in (1, 2))
    return ((16 - f) * left + f * right + 8) // 16


def moved(x: np.ndarray, u: int, v: int) -> np.ndarray:
    height, width = x.shape[-2:]
    return np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))[..., 1 - u : 1 - u + height, 1 - v : 1 - v + width]


def turned(x: np.ndarray, s: int) -> np.ndarray:
    height, width = x.shape[-2:]
    k = 1024 - s * s // 2048
    down, right = 2 * np.arange(height)[:, None] - (height - 1), 2 * np.arange(width) - (width - 1)
    y = (k * down + s * right + 1024 * (height - 1) + 64) // 128
    z = (k * right - s * down + 1024 * (width - 1) + 64) // 128
    top, left = np.clip(y // 16, -1, height) + 1, np.clip(z // 16, -1, width) + 1
    v, h, wide = y % 16, z % 16, np.pad(x, ((0, 0), (0, 0), (1, 2), (1, 2)))
    near = (16 - v) * (16 - h) * wide[..., top, left] + (16 - v) * h * wide[..., top, left + 1]
    far = v * (16 - h) * wide[..., top + 1, left] + v * h * wide[..., top + 1, left + 1]
    return (near + far + 128) // 256


def copies_of(x: np.ndarray, a: int) -> list[np.ndarray]:
    """Make the copies of pictures (7.5), but for those of one support."""
    found = [moved(x, *m) for m in (SIDES if 2 <= a <= 6 else SIDES[:1])]
    found += [moved(x, *m) for m in CORNERS] if a in (3, 5) else []
    found += [turned(x, s) for s in (178, -178)] if a in (4, 5, 7) else []
    return found + [each[..., ::-1] for each in found] if a == 6 else found


@cache
def dictionary(number: int) -> list[dict]:
    data = DICTIONARIES.read_bytes()
    must(hashlib.sha256(data).hexdigest() == DICTIONARIES_SHA, "dictionaries")
    return json.loads(data)[str(number)]


def filter_values(x: np.ndarray, rule: dict) -> np.ndarray:
    """Correlate pictures with the filters of a dictionary, and pool (7.4)."""
    if rule["straight"]:
        x = np.stack([straightened(picture) for picture in x])
    planes = x
    if x.shape[1] == 3:
        r, g, b = x[:, 0], x[:, 1], x[:, 2]
        planes = np.stack([(r + g + b) // 3, r - g, (r + g) // 2 - b], axis=1)
    maps, pool = [], rule["pool"]
    for plane in planes.swapaxes(0, 1):
        for entry in dictionary(rule["dictionary"]):
            side = entry["size"] // 2
            seen = sliding_window_view(
                np.pad(plane, ((0, 0), (side, side), (side, side))), (2 * side + 1,) * 2, (1, 2)
            )
            answers = np.einsum("nijd,fcd->cfnij", seen.reshape(*plane.shape, -1), np.array(entry["filters"]))
            maps += [*(2 * np.floor(np.sqrt((answers.astype(float) ** 2).sum(axis=0)) / 1024))]
    values = np.stack([*maps, *(4 * planes).swapaxes(0, 1)], axis=1).astype(np.int64)
    high, wide = (side // pool for side in x.shape[2:])
    values = values[:, :, : high * pool, : wide * pool].reshape(len(x), -1, high, pool, wide, pool)
    return (values.sum(axis=(3, 5)) // pool**2).reshape(len(x), -1)


def patch_values(first: np.ndarray, rule: dict):
    """Give the function from pictures to numbers, by the slow reference of patches; and if it is mirrored."""
    from picked_oracle import Bank

    names, mirrored = ("size", "filters", "whitening", "seed"), rule["copies"] == 1
    bank = Bank(first.tolist(), **{name: rule[name] for name in names}, is_mirrored=mirrored)
    steps = {"threshold": rule["threshold"], "grid": rule["grid"]}
    return lambda x: np.array([bank.values(picture, **steps) for picture in x.tolist()])


def completed(rule: dict, shape: tuple[int, ...], t: int) -> dict:
    """Add what is usual (7.2) to a rule that does not say it."""
    if "features" in rule:
        return rule
    usual = {"features": "columns", "normalised": 0, "weights": 0, "copies": 0}
    if len(shape) == 3 and shape[0] == 1 and all(6 <= side <= 128 for side in shape[1:]):
        pool = min(5, max(2, min(shape[1:]) // 7))
        usual |= {"features": "filters", "straight": 1, "dictionary": 3, "pool": pool}
        usual["copies"] = 2 if 5 * t <= 10_000 else 0
    elif len(shape) == 3 and shape[0] == 3 and all(16 <= side <= 128 for side in shape[1:]):
        usual |= {"features": "patches", "size": 6, "filters": 1024, "threshold": 4, "grid": 3, "copies": 1}
        usual |= {"whitening": 2.0**-13, "seed": 0}
    return usual | rule


def check_limits(rule: dict, n: int, d: int, learned: int, t: int, *, classes: int, shape) -> None:
    """Refuse what is more than 7.10 allows, of n rows and vectors of d numbers."""
    s = learned * (1, 1, 5, 9, 7, 11, 10, 3)[rule["copies"]]
    rounds = rule.get("rounds", 0)
    most = [(s, 15), ((n + s if rounds else n) * s, 30), ((n + s) * d, 31), ((n + s) * classes, 26)]
    most += [(n * s * classes * (rounds + 1), 44), (d, 16)]
    if rule["features"] == "patches":
        size, (channels, height, width) = rule["size"], shape
        own, places = channels * size**2, (height - size + 1) * (width - size + 1)
        made = places * (rule["filters"] + own)
        most += [(made, 25), (made * own, 30), (n * made * own, 46), (t * places * own * own, 40)]
    must(all(number <= 1 << power for number, power in most), "limits of a rule")


class Learner:
    """A rule with the vectors of all rows of a sample, made by the first ones."""

    def __init__(self, sample, first, rule: dict, *, classes, cells: bool = False):
        x, self.sample, self.classes, self.first = sample.x, sample, np.array(classes), np.array(first)
        self.rule = completed(rule, x.shape[1:], len(first))
        self.mirrored = self.rule["copies"] == 1
        if self.rule["features"] == "columns":
            self.points, self.scale = columns(x, sample.y, self.first, self.rule, cells)
            self.supports_of = self.points.__getitem__
        else:
            self.see_pictures(levels(x, self.first))
        n, d = self.points.shape
        check_limits(self.rule, n, d, self.learned, len(first), classes=len(classes), shape=x.shape[1:])
        if "gamma" not in self.rule:
            self.rule |= self.usual_kernel()

    @property
    def learned(self) -> int:
        """Rows that are learned from at last."""
        longer, batch, rounds = (self.rule.get(name, 0) for name in ("longer", "batch", "rounds"))
        return len(self.first) + batch * rounds + (sum(longer.values()) if longer else 0)

    def see_pictures(self, x: np.ndarray) -> None:
        """Make vectors of levels (7.4, end); the centre is that of the first rows, without their copies."""
        rule, first, labels = self.rule, x[self.first], self.sample.y[self.first]
        of_filters = rule["features"] == "filters"
        values = (lambda x: filter_values(x, rule)) if of_filters else patch_values(first, rule)
        if self.mirrored:
            first, labels = np.concatenate([first, first[..., ::-1]]), np.tile(labels, 2)
        seen = values(first)
        centre, w = seen.sum(axis=0) // len(seen), weights(seen, labels, rule["weights"])
        self.scale = float(radius(seen.shape[1]) ** 2)

        def vectors(x):
            return lengthened((values(x) - centre) * w)

        def supports_of(rows):
            return np.concatenate([vectors(each) for each in copies_of(x[rows], rule["copies"])])

        self.points, self.supports_of = vectors(x), supports_of
        self.mirror_of = lambda rows: vectors(x[rows][..., ::-1])

    def kernel(self, one, other, gamma) -> np.ndarray:
        squares = [(each * each).sum(axis=1) for each in (one, other)]
        v = 1 + gamma / 4 * ((squares[0][:, None] + squares[1] - 2 * one @ other.T) / self.scale)
        return 1 / ((v * v) * (v * v))

    def signs(self, rows) -> np.ndarray:
        return np.where(self.sample.y[rows][:, None] == self.classes, 1.0, -1.0)

    def usual_kernel(self) -> dict:
        """Choose kernel and ridge by what groups of equal inputs lose when they are left out (7.7)."""
        rows, groups = self.first[:1000], {}
        for place, row in enumerate(rows.tolist()):
            groups.setdefault(self.sample.inputs[row], []).append(place)
        q, y, scores = self.points[rows], self.signs(rows), []
        of_columns = self.rule["features"] == "columns"
        for gamma in (1 / 2, 1, 2, 4) if of_columns else (1 / 4, 1 / 2, 1):
            for ridge in (1 / 64, 1 / 16, 1 / 4, 1)[: 3 + of_columns]:
                h = np.linalg.inv(self.kernel(q, q, gamma) + ridge * np.eye(len(q)))
                left = [np.linalg.solve(h[np.ix_(g, g)], (h @ y)[g]) for g in groups.values()]
                scores.append((float((np.concatenate(left) ** 2).mean()), gamma, ridge))
        best, second = sorted(scores)[:2]
        must(second[0] > best[0] * (1 + 1e-9), "the usual kernel is in doubt")
        return {"gamma": best[1], "lambda": best[2]}

    def scores(self, picked) -> np.ndarray:
        """Learn from rows, and give the scores of all."""
        rows, gamma = np.array(picked), self.rule["gamma"]
        supports = [self.supports_of(rows), *([self.mirror_of(rows)] if self.mirrored else [])]
        s, copies = supports[0], len(supports[0]) // len(rows)
        own, across = (sum(self.kernel(q, each, gamma) for each in supports) for q in (s, self.points))
        y = np.tile(self.signs(rows), (copies, 1))
        return across @ np.linalg.solve(own + self.rule["lambda"] * np.eye(len(s)), y)

    def picks(self) -> tuple[list[int], np.ndarray]:
        """Pick in rounds (7.9); give the picked rows behind the first ones, and the scores at last."""
        picked, y = self.first.tolist(), self.sample.y
        for place in range(self.rule["rounds"]):
            size, z = self.rule["batch"] + self.rule["longer"].get(place, 0), self.scores(picked)
            away = np.where(y[:, None] == self.classes, -np.inf, z).max(axis=1)
            m = np.where(y < len(self.classes), z[np.arange(len(y)), y % len(self.classes)] - away, np.inf)
            left = sorted((abs(m[i] + self.rule["score"]), i) for i in set(range(len(y))) - set(picked))
            must(len(left) >= size, "too few rows")
            must(len(left) == size or self.is_clear(left, size), "no gap")
            picked += [i for _, i in left[:size]]
        return picked[len(self.first) :], self.scores(picked)

    def is_clear(self, left: list[tuple[float, int]], size: int) -> bool:
        """Say whether a batch is the same on all machines: a gap, or equal rows around its border."""
        inside, outside = left[size - 1][0], left[size][0]
        near = [i for score, i in left[:size] if score >= outside - 1e-6]
        near += [i for score, i in left[size:] if score <= inside + 1e-6]
        rows = {(self.sample.inputs[i], int(self.sample.y[i])) for i in near}
        return outside - inside > 1e-6 or len(rows) == 1
