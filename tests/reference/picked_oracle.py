"""Section 10 of docs/format.md, slowly: Python's integers and floats, one number at a time.

Nothing here is shared with either program. Pictures are nested lists [channel][row][column] of levels.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction

import cbound_writer as writer
import mpmath
import numpy as np
from certificate_reader import must

from codebound_verify.learn.dictionaries import FILE


def level(x: float, divisor: float) -> int:
    return min(255, max(0, math.floor(x * 255 / divisor + 0.5)))


def at(rows, i: int, j: int) -> int:
    return rows[i][j] if 0 <= i < len(rows) and 0 <= j < len(rows[0]) else 0


def straightened(picture):
    height, width = len(picture[0]), len(picture[0][0])
    total = of_i = of_j = of_ij = of_ii = 0
    for rows in picture:
        for i in range(height):
            for j in range(width):
                total += rows[i][j]
                of_i += rows[i][j] * i
                of_j += rows[i][j] * j
                of_ij += rows[i][j] * i * j
                of_ii += rows[i][j] * i * i
    a = float(total * of_ij - of_i * of_j) / float(max(1, total * of_ii - of_i * of_i))
    r = float(of_i) / float(max(1, total))
    found = []
    for rows in picture:
        new = [[0] * width for _ in range(height)]
        for i in range(height):
            for j in range(width):
                t = min(float(width), max(-1.0, j + a * (i - r)))
                k = math.floor(t)
                f = math.floor(16 * (t - k) + 0.5)
                new[i][j] = ((16 - f) * at(rows, i, k) + f * at(rows, i, k + 1) + 8) // 16
        found.append(new)
    return found


def moved(picture, u: int, v: int):
    return [
        [[at(rows, i - u, j - v) for j in range(len(rows[0]))] for i in range(len(rows))] for rows in picture
    ]


def mirrored(picture):
    return [[row[::-1] for row in rows] for rows in picture]


def turned(picture, s: int):
    height, width = len(picture[0]), len(picture[0][0])
    k = 1024 - s * s // 2048
    found = []
    for rows in picture:
        new = [[0] * width for _ in range(height)]
        for i in range(height):
            for j in range(width):
                down, right = 2 * i - (height - 1), 2 * j - (width - 1)
                y = (k * down + s * right + 1024 * (height - 1) + 64) // 128
                x = (k * right - s * down + 1024 * (width - 1) + 64) // 128
                top, left = min(height, max(-1, y // 16)), min(width, max(-1, x // 16))
                v, h = y % 16, x % 16
                new[i][j] = (
                    (16 - v) * (16 - h) * at(rows, top, left)
                    + (16 - v) * h * at(rows, top, left + 1)
                    + v * (16 - h) * at(rows, top + 1, left)
                    + v * h * at(rows, top + 1, left + 1)
                    + 128
                ) // 256
        found.append(new)
    return found


def copies(picture, a: int):
    side = [picture, *(moved(picture, *m) for m in ((0, 1), (0, -1), (1, 0), (-1, 0)))]
    corners = [moved(picture, *m) for m in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
    turns = [turned(picture, 178), turned(picture, -178)]
    return {
        0: [picture],
        2: side,
        3: side + corners,
        4: side + turns,
        5: side + corners + turns,
        6: side + [mirrored(each) for each in side],
        7: [picture, *turns],
    }[a]


def radius(d: int) -> int:
    return 4095 - math.ceil(math.sqrt(d) / 2)


def rint(value: float) -> int:
    return round(value)  # ties to even


def lengthened(y: list[int], weights: list[int] | None = None) -> list[int]:
    y = [v * w for v, w in zip(y, weights or [1] * len(y), strict=True)]
    n = sum(v * v for v in y)
    return [rint(float(v * radius(len(y))) / math.sqrt(n)) if n else 0 for v in y]


def column_vectors(first, inputs, *, normalised: bool, weights: list[int] | None = None):
    """``first`` and ``inputs`` are lists of flat lists of floats; ``weights`` are those of a layer."""
    d, t0 = len(inputs[0]), len(first)
    if normalised:
        found = []
        for x in inputs:
            m = max(abs(v) for v in x)
            found.append(lengthened([rint(v * 32767 / m) if m else 0 for v in x], weights))
        return found
    weights = weights or [1] * d
    u = math.floor((4095 - math.sqrt(d) / 2) / (4 * math.sqrt(sum(w * w for w in weights))))
    vectors = [[0] * d for _ in inputs]
    for j in range(d):
        v = sorted(x[j] for x in first)
        spread = v[9 * t0 // 10] - v[t0 // 10] or v[-1] - v[0] or 1.0
        for q, x in zip(vectors, inputs, strict=True):
            q[j] = rint(min(4.0, max(-4.0, (x[j] - v[t0 // 2]) / spread)) * (weights[j] * u))
    return vectors


def computed_weights(columns: list[list[int]], labels: list[int], power: int) -> list[int]:
    """The weights of 10.4 in version 3, from the numbers of all first examples, column by column."""
    ratios = []
    for t in columns:
        n, total = len(t), sum(t)
        between = 0.0
        for c in sorted(set(labels)):
            own = [v for v, label in zip(t, labels, strict=True) if label == c]
            between += float(sum(own)) * float(sum(own)) / len(own)
        common = float(total) * float(total) / n
        between, spread = between - common, float(sum(v * v for v in t)) - common
        ratios.append(between / spread if between > 0 and spread > 0 else 0.0)
    if not max(ratios):
        return [1] * len(ratios)
    shares = [ratio / max(ratios) for ratio in ratios]
    roots = {1: lambda p: math.sqrt(math.sqrt(p)), 2: math.sqrt, 3: float}
    return [rint(8 * roots[power](p)) for p in shares]


def filter_values(picture, *, straight: bool, dictionary: int, pool: int) -> list[int]:
    if straight:
        picture = straightened(picture)
    if len(picture) == 3:
        r, g, b = (np.array(rows, int).tolist() for rows in picture)
        cells = [(i, j) for i in range(len(r)) for j in range(len(r[0]))]
        planes = [[[0] * len(r[0]) for _ in r] for _ in range(3)]
        for i, j in cells:
            planes[0][i][j] = (r[i][j] + g[i][j] + b[i][j]) // 3
            planes[1][i][j] = r[i][j] - g[i][j]
            planes[2][i][j] = (r[i][j] + g[i][j]) // 2 - b[i][j]
    else:
        planes = picture
    height, width = len(planes[0]), len(planes[0][0])
    entries = json.loads(FILE.read_bytes())[str(dictionary)]
    maps = []
    for rows in planes:
        for entry in entries:
            size = entry["size"]
            padded = np.pad(np.array(rows), size // 2)
            for real, imaginary in entry["filters"]:
                answer = []
                for i in range(height):
                    line = []
                    for j in range(width):
                        seen = padded[i : i + size, j : j + size].ravel()
                        re, im = (int(np.ravel(taps) @ seen) for taps in (real, imaginary))
                        line.append(2 * math.floor(math.sqrt(re * re + im * im) / 1024))
                    answer.append(line)
                maps.append(answer)
    maps += [[[4 * v for v in row] for row in rows] for rows in planes]
    return [
        sum(rows[i * pool + a][j * pool + b] for a in range(pool) for b in range(pool)) // pool**2
        for rows in maps
        for i in range(height // pool)
        for j in range(width // pool)
    ]


def patches(picture, size: int) -> list[list[int]]:
    height, width = len(picture[0]), len(picture[0][0])
    return [
        [rows[i + a][j + b] for rows in picture for a in range(size) for b in range(size)]
        for i in range(height - size + 1)
        for j in range(width - size + 1)
    ]


def contrasted(p: list[int]) -> list[int]:
    d = len(p)
    centred = [d * v - sum(p) for v in p]
    n = sum(v * v for v in centred)
    return [rint(float(1024 * v) / math.sqrt(n + 10 * d**3)) for v in centred]


def flipped(patch: list, size: int) -> list:
    """A patch with its columns reversed."""
    return [patch[t - t % size + size - 1 - t % size] for t in range(len(patch))]


class Bank:
    """Integers of filters and whitening, from 40 digits."""

    def __init__(self, first, *, size, filters, whitening, seed, is_mirrored) -> None:
        seen = [p for picture in first for p in patches(picture, size)]
        e = [contrasted(p) for p in seen]
        all_e = np.array(e + [flipped(v, size) for v in e] if is_mirrored else e)
        sums, count = (all_e.T @ all_e).tolist(), 2**20 * len(all_e)
        d = len(e[0])
        with mpmath.workdps(40):
            moments = mpmath.matrix(d, d)
            for i in range(d):
                for j in range(d):  # float64, as all that the page does not say otherwise of
                    moments[i, j] = float(sums[i][j]) / count + (whitening if i == j else 0.0)
            values, vectors = mpmath.eigsy(moments)
            scaled = vectors.copy()
            for i in range(d):
                for j in range(d):
                    scaled[i, j] /= mpmath.sqrt(values[j])
            root = scaled * vectors.T
            candidates = [v for v in e if sum(a * a for a in v) >= 2**19]
            keys = writer.outputs(seed, "atoms", len(candidates))
            k = filters // 2 if is_mirrored else filters
            chosen = sorted(range(len(candidates)), key=lambda t: (keys[t], t))[:k]
            rows = []
            for t in chosen:
                x = root * mpmath.matrix(candidates[t]) / 1024
                y = root * x / mpmath.norm(x)
                rows.append([y[i] for i in range(d)])
            self.filters, b_filters = self.rounded(rows)
            self.whitening, b_whitening = self.rounded([[root[i, j] for j in range(d)] for i in range(d)])
        if is_mirrored:
            self.filters += [flipped(row, size) for row in self.filters]
        self.shift = 8 + b_whitening - b_filters - 4
        self.size = size

    @staticmethod
    def rounded(rows):
        largest = max(sum(abs(v) for v in row) for row in rows)
        exact = mpmath.log(65000 / largest, 2)
        b = int(mpmath.floor(exact))
        scaled = [[mpmath.ldexp(v, b) for v in row] for row in rows]
        room = min(abs(v - mpmath.floor(v) - 0.5) for row in scaled for v in row)
        must(min(room, abs(exact - mpmath.nint(exact))) >= 0.5e-7, "room of a filter or of the whitening")
        return [[int(mpmath.nint(v)) for v in row] for row in scaled], b

    def values(self, picture, *, threshold: int, grid: int) -> list[int]:
        single = np.float32
        p_side = len(picture[0]) - self.size + 1
        q_side = len(picture[0][0]) - self.size + 1
        answers = []
        for p in patches(picture, self.size):
            mean = math.floor(single(single(sum(p)) / single(len(p))) + single(0.5))
            g = [v - mean for v in p]
            o = [v // 16 for v in (np.array(self.whitening) @ g).tolist()]
            length = math.sqrt(sum(v * v for v in o)) + 1
            r = single(2.0**self.shift / length)
            products = (np.array(self.filters) @ g).tolist()
            answers.append([math.floor(single(single(a) * r)) for a in products])
        found = []
        for sign in (1, -1):
            for k in range(len(self.filters)):
                for i in range(grid):
                    for j in range(grid):
                        cells = [
                            (a, b)
                            for a in range(i * p_side // grid, math.ceil(Fraction((i + 1) * p_side, grid)))
                            for b in range(j * q_side // grid, math.ceil(Fraction((j + 1) * q_side, grid)))
                        ]
                        total = sum(
                            max(0, sign * answers[a * q_side + b][k] - 16 * threshold) for a, b in cells
                        )
                        share = single(single(256 * total) / single(len(cells)))
                        found.append(math.floor(single(16) * single(np.sqrt(share))))
        return found


def ended(
    first_values: list[list[int]], values: list[list[int]], weights: list[int] | None = None
) -> list[list[int]]:
    """The end of 10.4; ``first_values`` are those whose mean is the centre."""
    centre = [sum(column) // len(first_values) for column in zip(*first_values, strict=True)]
    return [lengthened([v - c for v, c in zip(row, centre, strict=True)], weights) for row in values]
