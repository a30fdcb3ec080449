"""Files of datasets that have a name: what is damaged is refused, and they are found where they lie."""

import gzip
import struct

import numpy as np
import pytest
from sklearn.datasets import load_digits

from codebound_verify.refusal import Refused
from codebound_verify.sources import datasets
from codebound_verify.sources.arrays import load_data


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def arrays(*given):
    found = load_data(*given)
    return found.x, found.y


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layout", ["", "MNIST/raw", "mnist"])
def test_idx_files(tmp_path, packed, layout):
    images = np.arange(5 * 28 * 28).reshape(5, 28, 28).astype(np.uint8)
    labels = np.arange(5, dtype=np.uint8)
    folder = tmp_path / layout
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in (("t10k-images-idx3-ubyte", images), ("t10k-labels-idx1-ubyte", labels)):
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))
    x, y = arrays("mnist:test", tmp_path)
    np.testing.assert_array_equal(x, images[:, None])
    assert x.flags.writeable  # PyTorch warns of arrays that are not
    assert y.flags.writeable
    np.testing.assert_array_equal(y, labels)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\x08",
        b"\0\0\x08\x03\xff\xff\xff\xff",
        idx(np.zeros(3)),
        b"\0\0\x08d" + b"\0\0\0\1" * 100 + b"1",
    ],
)
def test_a_damaged_idx_file_is_refused(tmp_path, content):
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(Refused, match="IDX"):
        load_data("mnist", tmp_path)


def test_a_damaged_gzip_is_refused(tmp_path):
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"abc" * 100)[:-20])
    with pytest.raises(Refused, match="unpacked"):
        load_data("mnist", tmp_path)


def test_cifar_batches(tmp_path):
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 15).astype(np.uint8)
    images = random.integers(0, 256, (15, 3, 32, 32)).astype(np.uint8)
    records = np.concatenate([labels[:, None], images.reshape(15, -1)], axis=1)
    for i in range(5):
        (tmp_path / f"data_batch_{i + 1}.bin").write_bytes(records[3 * i : 3 * i + 3].tobytes())
    x, y = arrays("cifar10", tmp_path)
    np.testing.assert_array_equal(x, images)
    np.testing.assert_array_equal(y, labels)
    (tmp_path / "data_batch_3.bin").write_bytes(b"123")
    with pytest.raises(Refused, match="3073"):
        load_data("cifar10", tmp_path)


def test_digits_are_those_of_scikit_learn():
    x, y = arrays("digits")
    assert x.shape == (1797, 1, 8, 8)
    np.testing.assert_array_equal(x.reshape(1797, 64), load_digits().data)
    np.testing.assert_array_equal(y, load_digits().target)


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_unpacks_to_more_than_memory_is_not_read_to_its_end(tmp_path, monkeypatch, packed):
    monkeypatch.setattr(datasets, "BYTES_LIMIT", 10_000)
    content, name = bytes(1 << 20), "train-images-idx3-ubyte"
    (tmp_path / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(Refused, match="larger than 10000 bytes"):
        load_data("mnist", tmp_path)
