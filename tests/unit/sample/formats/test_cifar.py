"""CIFAR batches: binary, pickled as Python 2 did, pickled today, and pickles that try something."""

import os
import pickle
import struct

import numpy as np
import pytest

from codebound.run.errors import DataError
from codebound.sample.formats.cifar import read_binary, read_pickled

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (3, 3072), dtype=np.uint8)
LABELS = [6, 0, 9]
ROWS = np.column_stack([np.array(LABELS, np.uint8), PIXELS])


def text(value: bytes) -> bytes:
    return b"U" + bytes([len(value)]) + value  # SHORT_BINSTRING: Python 2's str


def python2_batch(data: np.ndarray = PIXELS, labels: list[int] = LABELS, code: bytes = b"u1") -> bytes:
    """A protocol 2 pickle opcode by opcode, as Python 2 wrote these files."""
    fortran = data.flags.f_contiguous and not data.flags.c_contiguous
    raw = data.tobytes(order="A")
    dtype = b"cnumpy\ndtype\nq\x07" + text(code) + b"K\x00K\x01\x87Rq\x08"
    dtype += b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"".join(b"M" + struct.pack("<H", size) for size in data.shape) + b"\x86"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85" + text(b"b") + b"\x87R"
    )
    array += b"(K\x01" + shape + dtype + (b"\x88" if fortran else b"\x89")
    array += b"T" + struct.pack("<I", len(raw)) + raw + b"tb"
    items = text(b"batch_label") + text(b"training batch 1 of 5")
    items += text(b"labels") + b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    items += text(b"data") + array
    items += text(b"filenames") + b"](" + b"".join(text(b"f.png") for _ in labels) + b"e"
    return b"\x80\x02}q\x01(" + items + b"u."


def write(tmp_path, content: bytes):
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    return path


def test_handmade_pickle_is_what_pickle_means():
    record = pickle.loads(python2_batch(), encoding="bytes")
    np.testing.assert_array_equal(record[b"data"], PIXELS)
    assert record[b"labels"] == LABELS


@pytest.mark.parametrize("order", ["C", "F"])
def test_reads_batches_of_python_2(tmp_path, order):
    path = write(tmp_path, python2_batch(np.asarray(PIXELS, order=order)))
    np.testing.assert_array_equal(read_pickled(path, labels=("labels",)), ROWS)


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("key", [str, str.encode])
def test_reads_batches_of_today(tmp_path, protocol, key):
    record = {key("data"): PIXELS, key("labels"): LABELS, key("batch_label"): "one"}
    path = write(tmp_path, pickle.dumps(record, protocol=protocol))
    np.testing.assert_array_equal(read_pickled(path, labels=("labels",)), ROWS)


def test_reads_both_labels_of_cifar100(tmp_path):
    record = {"data": PIXELS, "coarse_labels": [1, 2, 3], "fine_labels": [99, 98, 97]}
    rows = read_pickled(
        write(tmp_path, pickle.dumps(record, protocol=4)), labels=("coarse_labels", "fine_labels")
    )
    assert rows[:, :2].tolist() == [[1, 99], [2, 98], [3, 97]]


class Runs:
    """Unpickled by an ordinary unpickler, this creates a folder."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path, protocol):
    target = tmp_path / "executed"
    content = pickle.dumps({"data": Runs(target), "labels": LABELS}, protocol=protocol)
    with pytest.raises(DataError, match="refused"):
        read_pickled(write(tmp_path, content), labels=("labels",))
    assert not target.exists()
    pickle.loads(content)
    assert target.exists()  # the same bytes do run where nothing stops them


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"\x80\x02cbuiltins\neval\nU\x011\x85R.",
        b"\x80\x04\x8c\x05numpy\x8c\x04load\x93\x8c\x01x\x85R.",
        b"\x80\x02cnumpy.core.multiarray\nscalar\n.",
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".",  # BYTEARRAY8 that reserves a terabyte
        b"\x80\x02}r\xff\xff\xff\x7f.",  # memo index that makes the C unpickler reserve gigabytes
        b"T\xff\xff\xff\x7f.",
        b"",
        b".",
        b"\x80\x02K\x01.",
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\n)Ru.",  # an array without its state
        b"\x80\x02cnumpy\nndarray\n}U\x06valuesK\x01sb.",  # a state for the class itself
        python2_batch()[:-100],
        python2_batch(code=b"O8"),
        python2_batch(labels=[1, 2]),
        python2_batch(data=PIXELS[:, :100]),
        pickle.dumps({"data": PIXELS.tolist(), "labels": LABELS}, protocol=4),
        pickle.dumps({"data": PIXELS, "labels": [1, 2, 256]}, protocol=4),
        pickle.dumps({"data": PIXELS, "labels": [1, 2, "3"]}, protocol=4),
        pickle.dumps({"data": PIXELS.astype(np.float64), "labels": LABELS}, protocol=4),
        pickle.dumps({"data": PIXELS.ravel(), "labels": LABELS}, protocol=4),
    ],
)
def test_anything_but_a_batch_is_a_data_error(tmp_path, content):
    with pytest.raises(DataError):
        read_pickled(write(tmp_path, content), labels=("labels",))


def test_reads_binary_batches(tmp_path):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(ROWS.tobytes())
    np.testing.assert_array_equal(read_binary(path, labels=1), ROWS)


@pytest.mark.parametrize("content", [b"", ROWS.tobytes()[:-1]])
def test_damaged_binary_batches_are_data_errors(tmp_path, content):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(content)
    with pytest.raises(DataError, match="3073 bytes an example"):
        read_binary(path, labels=1)
