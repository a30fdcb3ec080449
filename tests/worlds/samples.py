"""Small samples, made with a seed: the same ones wherever they are asked for."""

import numpy as np

from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Sample, Scaling


def cloud_arrays(n, *, classes=3, features=None, apart=2.0, noise=1.0, seed=0, in_turn=False):
    """Inputs and labels: each class is a cloud around a point of its axis, at the distance ``apart``.

    Labels are drawn, or ``in_turn`` 0, 1, 2 and so on.
    """
    stream = np.random.default_rng(seed)
    y = np.arange(n, dtype=np.int64) % classes if in_turn else stream.integers(classes, size=n)
    features = features or classes
    x = apart * np.eye(classes, features)[y] + noise * stream.normal(size=(n, features))
    return x.astype(np.float32), y


def clouds(n, *, classes=3, role="train", scaling=None, **shape) -> Sample:
    """The sample of :func:`cloud_arrays`; an unlabelled one has labels 0."""
    x, y = cloud_arrays(n, classes=classes, **shape)
    return Sample("clouds", role, x, 0 * y if role == "unlabelled" else y, classes, scaling or Scaling())


def random_labels(n, *, shape=(8,), classes=4, seed=0, role="train") -> Sample:
    """Normal inputs, and labels that have nothing to do with them."""
    stream = np.random.default_rng(seed)
    x = stream.normal(size=(n, *shape)).astype(np.float32)
    return Sample("random labels", role, x, stream.integers(0, classes, n), classes)


def noise_images(n, *, shape=(1, 8, 8), classes=10) -> Sample:
    """Images of uniform noise, with the classes in turn."""
    x = np.random.default_rng(0).random((n, *shape), dtype=np.float32)
    return Sample("noise", "train", x, np.arange(n, dtype=np.int64) % classes, classes)


def decided_by_three(n=300, *, seed=0, shape=(10,)) -> Sample:
    """Three classes that the first three numbers of an input decide."""
    stream = np.random.default_rng(seed)
    y = stream.integers(3, size=n)
    x = stream.normal(size=(n, *shape)).astype(np.float32)
    x.reshape(n, -1)[np.arange(n), y] += 4.0
    return Sample("decided by three", "train", x, y, 3)


WEIGHT = np.array([[1, 2, -1, -1], [-1, -1, 1, 2], [1, -2, 1, -2]])
BIAS = np.array([0, 0, 1])
"""Of a linear network that tells clusters apart, for inputs over 16: in eighths, and in ones."""


def cluster_arrays(n=400, seed=0):
    """Images of two by two pixels, from 0 to 16, of three easy classes.

    No row occurs twice, and the sum of a row is as odd as the seed: samples of seeds 0 and 1 are disjoint.
    """
    stream = np.random.default_rng(seed)
    centres = np.array([[16, 16, 0, 0], [0, 0, 16, 16], [16, 0, 16, 0]])
    y = stream.integers(0, 3, n)
    x, again = np.zeros((n, 4), int), np.arange(n)
    while again.size:
        x[again] = np.clip(centres[y[again]] + stream.integers(-5, 6, (again.size, 4)), 0, 16)
        first = np.unique(x, axis=0, return_index=True)[1]
        again = np.union1d(np.setdiff1d(np.arange(n), first), np.flatnonzero((x.sum(1) + seed) % 2))
    y[::70] = (y[::70] + 1) % 3  # wrong labels: nobody makes no errors
    return x.reshape(n, 1, 2, 2).astype(np.uint8), y.astype(np.int64)


def written_clusters(n=400, *, seed=0, role="train") -> Sample:
    """The sample of :func:`cluster_arrays`; an unlabelled one has labels 0."""
    x, y = cluster_arrays(n, seed)
    labels = None if role == "unlabelled" else y
    return from_arrays(x, labels, name="clusters", role=role, classes=3, scaling=Scaling(16.0))


def rows_of(x, y=None, *, classes=3, dtype=None) -> Sample:
    """These very rows; their classes are in turn where none are given."""
    x = np.asarray(x, dtype=dtype)
    labels = np.arange(len(x)) % classes if y is None else np.asarray(y)
    return Sample("rows", "train", x, labels.astype(np.int64), classes)


def numbered(n, *, classes=3) -> Sample:
    """Each input is its place in the sample; the classes are in turn."""
    return rows_of(np.arange(n, dtype=np.float64)[:, None], classes=classes)
