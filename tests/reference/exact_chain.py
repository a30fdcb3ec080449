"""Chains in 60 digits, number by number, by docs/format.md, 5.1: what rounding is measured against."""

import json
from pathlib import Path

import mpmath
import numpy as np

import codebound_verify

mp = mpmath.mp.clone()
mp.dps = 60
EPSILON = mp.mpf("1e-5")
FILTERS = json.loads((Path(codebound_verify.__file__).parent / "dictionaries.json").read_text())


def exact(values) -> np.ndarray:
    """Numbers as they are, in 60 digits."""
    values = np.asarray(values)
    return np.array([mp.mpf(float(value)) for value in values.flat], object).reshape(values.shape)


def relu(x):
    return np.vectorize(lambda value: max(value, mp.mpf(0)), otypes=[object])(x)


def patches(x, kernel, stride, padding):
    """For every pixel of the output, the numbers that its filters see, channel by channel."""
    padded = np.full((x.shape[0], x.shape[1] + 2 * padding, x.shape[2] + 2 * padding), mp.mpf(0), object)
    padded[:, padding : padding + x.shape[1], padding : padding + x.shape[2]] = x
    rows, columns = ((side - kernel) // stride + 1 for side in padded.shape[1:])
    for row in range(rows):
        for column in range(columns):
            top, left = row * stride, column * stride
            yield (row, column), padded[:, top : top + kernel, left : left + kernel].reshape(-1)


def conv(x, weight, bias=None, *, stride=1, padding=0, is_local=False):
    kernel = weight.shape[-1]
    found = dict(patches(x, kernel, stride, padding))
    rows, columns = (1 + max(place[axis] for place in found) for axis in (0, 1))
    filters = weight.reshape(*weight.shape[: 2 if is_local else 1], -1)
    result = np.empty((filters.shape[-2], rows, columns), object)
    for number, ((row, column), patch) in enumerate(found.items()):
        result[:, row, column] = (filters[number] if is_local else filters) @ patch
    return result if bias is None else result + bias[:, None, None]


def pooled(x, kernel, function):
    rows, columns = (side // kernel for side in x.shape[1:])
    result = np.empty((x.shape[0], rows, columns), object)
    for channel, row, column in np.ndindex(result.shape):
        top, left = row * kernel, column * kernel
        result[channel, row, column] = function(x[channel, top : top + kernel, left : left + kernel].ravel())
    return result


def mean(values):
    return mp.fsum(values) / len(values)


def normalised(x):
    centred = x - mean(x.ravel())
    return centred / mp.sqrt(mean((centred**2).ravel()) + EPSILON)


def features(table, pool, x):
    if len(x) == 3:
        r, g, b = x
        x = np.stack([(r + g + b) / 3, r - g, (r + g) / 2 - b])
    maps = []
    for plane in x:
        for entry in FILTERS[str(table)]:
            size = entry["size"]
            for filters in entry["filters"]:
                weight = exact(filters).reshape(2, 1, size, size) / 4096
                real, imaginary = conv(plane[None], weight, padding=size // 2)
                root = np.vectorize(mp.sqrt, otypes=[object])(real**2 + imaginary**2)
                maps.append(2 * pooled(root[None], pool, mean)[0])
    return normalised(np.stack([*maps, *pooled(x, pool, mean)]))


def straightened(x):
    _, height, width = x.shape
    p = sum(abs(plane) for plane in x)
    i, j = np.arange(height)[:, None], np.arange(width)
    total = mp.mpf("1e-6") + p.sum()
    r, s = (p * i).sum() / total, (p * j).sum() / total
    a = (p * (i - r) * (j - s)).sum() / (mp.mpf("1e-3") + (p * (i - r) ** 2).sum())
    result = np.empty(x.shape, object)
    for c, row, column in np.ndindex(x.shape):
        t = column + a * (row - r)
        k = int(mp.floor(t))
        left, right = (x[c, row, at] if 0 <= at < width else mp.mpf(0) for at in (k, k + 1))
        result[c, row, column] = left + (t - k) * (right - left)
    return result


def views(kind, x):
    if kind in (3, 4):
        x = straightened(x)
    found = [x]
    if kind == 1:
        found.append(x[:, :, ::-1])
    if kind in (2, 4):
        zero = mp.mpf(0)
        for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            moved = np.full_like(x, zero)
            for c, row, column in np.ndindex(x.shape):
                at = row - down, column - right
                if 0 <= at[0] < x.shape[1] and 0 <= at[1] < x.shape[2]:
                    moved[c, row, column] = x[c, at[0], at[1]]
            found.append(moved)
    return found


def residual(x, own):
    a, b = own["a.weight"], own["b.weight"]
    extra = len(a) - len(x)
    shortcut = np.full(
        (len(a), *x[:, :: 2 if extra else 1, :: 2 if extra else 1].shape[1:]), mp.mpf(0), object
    )
    shortcut[extra // 2 : extra // 2 + len(x)] = x[:, :: 2 if extra else 1, :: 2 if extra else 1]
    inner = relu(conv(x, a, own.get("a.bias"), stride=2 if extra else 1, padding=1))
    return relu(conv(inner, b, own.get("b.bias"), padding=1) + shortcut)


def applied(operation, own, x):
    """What one operation of the second program's chain is, without the ReLU behind it."""
    kind, weight, bias = operation.kind, own.get("weight"), own.get("bias")
    if kind == "linear":
        return weight @ x.reshape(-1) + (0 if bias is None else bias)
    if kind in ("conv", "local conv"):
        sizes = {"stride": operation.stride, "padding": operation.padding}
        return conv(x, weight, bias, **sizes, is_local=kind == "local conv")
    if kind == "normalised conv":
        return normalised(conv(x, weight, padding=operation.kernel // 2))
    if kind == "max pool":
        return pooled(x, operation.kernel, max)
    if kind == "average pool":
        return pooled(x, operation.kernel, mean)
    if kind == "global average pool":
        return np.array([[[mean(plane.ravel())]] for plane in x], object)
    if kind == "dictionary":
        return features(operation.table, operation.pool, x)
    return residual(x, own)


def logits(chain, weights, x) -> np.ndarray:
    """The logits of one example, in 60 digits, from the tensors of each operation."""
    owns = [{name: exact(value) for name, value in own.items()} for own in weights]
    operations = list(zip(chain.operations, owns, strict=True))
    seen = [x]
    if operations[0][0].kind == "views":
        seen, operations = views(operations[0][0].views, x), operations[1:]
    found = []
    for view in seen:
        for position, (operation, own) in enumerate(operations):
            view = applied(operation, own, view)
            if position < len(operations) - 1 and operation.kind in RELU:
                view = relu(view)
        found.append(view)
    return sum(found) / len(found)


RELU = ("linear", "conv", "local conv", "normalised conv")
