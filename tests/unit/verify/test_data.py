"""Data, weights and samples are read without unpickling, with sizes checked first."""

import io
import json
import struct
import zipfile

import cbound_writer as writer
import numpy as np
import pytest
from safetensors.numpy import save_file

from codebound_verify.data import load_data
from codebound_verify.refusal import Refused
from codebound_verify.sample import canonical_inputs, canonical_labels, sample_sha256
from codebound_verify.weights import read_weights, tensors_sha256


def test_npz(tmp_path):
    x, y = writer.clusters(10)
    np.savez_compressed(tmp_path / "s.npz", x=x, y=y)
    for found, expected in zip(load_data(str(tmp_path / "s.npz")), (x, y), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.savez(tmp_path / "u.npz", x=x)
    assert load_data(str(tmp_path / "u.npz"))[1] is None


def test_a_folder_of_npy_is_mapped_as_its_own_copy(tmp_path):
    """PyTorch warns of arrays that may not be written to; the files stay as they are."""
    np.save(tmp_path / "x.npy", np.zeros((3, 2), np.uint8))
    np.save(tmp_path / "y.npy", np.arange(3))
    x, y = load_data(str(tmp_path))
    assert isinstance(x.base, np.memmap) or isinstance(x, np.memmap)
    x[:], y[:] = 7, 7
    assert np.load(tmp_path / "x.npy").max() == 0
    assert np.load(tmp_path / "y.npy").tolist() == [0, 1, 2]


def npz_with(tmp_path, content: bytes):
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        archive.writestr("x.npy", content)
    return str(tmp_path / "bad.npz")


def test_an_npz_that_claims_more_than_it_has_is_refused(tmp_path):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f8", "fortran_order": False, "shape": (2**40, 8)}
    )
    with pytest.raises(Refused, match="does not fit"):
        load_data(npz_with(tmp_path, buffer.getvalue()))


def test_a_pickle_is_refused(tmp_path):
    np.savez(tmp_path / "p.npz", x=np.array([{"a": 1}], dtype=object), y=np.zeros(1))
    with pytest.raises(Refused, match="plain arrays"):
        load_data(str(tmp_path / "p.npz"))


@pytest.mark.parametrize("content", [b"", b"junk", b"\x93NUMPY\x03\0", b"\x93NUMPY\x01\0\x05\0{bad}"])
def test_a_damaged_npz_is_refused(tmp_path, content):
    with pytest.raises(Refused, match="plain arrays"):
        load_data(npz_with(tmp_path, content))
    (tmp_path / "no.npz").write_bytes(content)
    with pytest.raises(Refused, match="plain arrays"):
        load_data(str(tmp_path / "no.npz"))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("nothing", "unknown"),
        ("mnist:prior", "unknown"),
        ("digits:test", "no test part"),
        ("mnist", "no files"),
    ],
)
def test_what_is_not_there_is_said(tmp_path, monkeypatch, spec, reason):
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path))
    with pytest.raises(Refused, match=reason):
        load_data(spec)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("?", "f4"),
        ("i1", "f4"),
        ("u2", "f4"),
        ("f2", "f4"),
        ("i4", "f8"),
        ("u8", "f8"),
        ("u1", "u1"),
        ("f8", "f8"),
    ],
)
def test_inputs_have_three_types(given, expected):
    assert canonical_inputs(np.ones((2, 3), given)).dtype == np.dtype(expected)


def test_images_get_a_channel_and_big_endian_bytes_do_not_matter():
    x, y = np.arange(24.0).reshape(2, 3, 4), np.array([0, 1])
    assert canonical_inputs(x).shape == (2, 1, 3, 4)
    assert sample_sha256(x.astype(">f8"), y) == sample_sha256(x, y) == writer.sample_hash(x, y)


def test_a_transposed_view_has_the_hash_of_its_values():
    x, y = np.arange(12.0).reshape(4, 3).T, np.zeros(3, np.int64)
    assert sample_sha256(x, y) == writer.sample_hash(np.ascontiguousarray(x), y)


@pytest.mark.parametrize("x", [np.ones(3), np.ones((0, 3)), np.ones((2, 2), complex), np.array([["a"]])])
def test_inputs_that_are_no_table_of_numbers_are_refused(x):
    with pytest.raises(Refused, match="inputs"):
        canonical_inputs(x)


@pytest.mark.parametrize("y", [np.ones(3), np.ones((2, 1), int), np.ones(3, int)])
def test_labels_are_integers_one_each(y):
    with pytest.raises(Refused, match="labels"):
        canonical_labels(y, 2)


def test_safetensors_and_the_hash_of_tensors(tmp_path):
    tensors = {"b": np.float32([[1, 2], [3, 4]]), "a": np.float32([-0.0]), "c.s": np.array(7, np.float32)}
    save_file(tensors, tmp_path / "w.safetensors", metadata={"format": "pt"})
    found = read_weights(tmp_path / "w.safetensors")
    assert found.keys() == tensors.keys()
    for name, values in tensors.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].shape == values.shape
    assert tensors_sha256(found) == writer.tensors_hash(tensors)


def packed(entries: object, data: bytes = b"") -> bytes:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"12345678",
        packed(b"{"),
        packed([]),
        packed(b"[" * 100_000),
        packed({"a": 1}),
        packed({"a": {}}),
        packed({"a": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}}, b"12"),
        packed({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234"),
        packed({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}, b"1234"),
        packed({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}, b"1234"),
        packed({"a": {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]}}, b"1234"),
        packed({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}}, b"1234"),
        packed({"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 4]}}, b"1234"),
    ],
)
def test_a_damaged_safetensors_file_is_refused(tmp_path, content):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(Refused, match="safetensors"):
        read_weights(path)
