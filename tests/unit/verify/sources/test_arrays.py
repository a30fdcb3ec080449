"""Arrays are read without unpickling, with sizes checked first."""

import io
import zipfile

import numpy as np
import pytest

from codebound_verify.refusal import Refused
from codebound_verify.sources import arrays
from codebound_verify.sources.arrays import TooLarge, load_data, load_numbers

X, Y = np.arange(24.0).reshape(6, 4), np.arange(6)


def test_arrays_of_a_file_or_a_folder(tmp_path):
    arrays = {"x": X, "y": Y, "clusters": Y // 2, "groups": Y % 2, "cells": np.array(True)}
    np.savez_compressed(tmp_path / "s.npz", **arrays, other=np.zeros(9))
    for name, values in arrays.items():
        np.save(tmp_path / f"{name}.npy", values)
    for spec in (tmp_path / "s.npz", tmp_path):
        found = load_data(str(spec))
        for name in ("x", "y", "clusters", "groups"):
            np.testing.assert_array_equal(getattr(found, name), arrays[name])
        assert found.is_cells is True
    np.savez(tmp_path / "u.npz", x=X)
    found = load_data(str(tmp_path / "u.npz"))
    assert (found.y, found.clusters, found.groups, found.is_cells) == (None, None, None, False)


def test_a_folder_of_npy_is_mapped_as_its_own_copy(tmp_path):
    """PyTorch warns of arrays that may not be written to; the files stay as they are."""
    np.save(tmp_path / "x.npy", X)
    x = load_data(str(tmp_path)).x
    assert isinstance(x, np.memmap)
    x[:] = 7
    assert np.load(tmp_path / "x.npy").max() == 23


def test_numbers_of_clusters_lie_in_either_file(tmp_path):
    np.save(tmp_path / "n.npy", Y)
    np.savez(tmp_path / "n.npz", clusters=Y)
    for name in ("n.npy", "n.npz"):
        np.testing.assert_array_equal(load_numbers(tmp_path / name, "clusters"), Y)
    with pytest.raises(Refused, match="no array groups"):
        load_numbers(tmp_path / "n.npz", "groups")


def npz_with(tmp_path, content: bytes) -> str:
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        archive.writestr("x.npy", content)
    return str(tmp_path / "bad.npz")


def head(shape, kind="<f8", write=np.lib.format.write_array_header_1_0) -> bytes:
    buffer = io.BytesIO()
    write(buffer, {"descr": kind, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


@pytest.mark.parametrize("shape", [(2**40, 8), (2,), (0,), (2**62, 4)])
def test_an_npz_that_has_not_what_it_claims_is_refused(tmp_path, shape):
    with pytest.raises(Refused, match="does not fit"):
        load_data(npz_with(tmp_path, head(shape) + b"12345678"))


def test_a_pickle_is_never_opened(tmp_path):
    np.savez(tmp_path / "p.npz", x=np.array([{"a": 1}], dtype=object))
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object))
    for spec in (tmp_path / "p.npz", tmp_path):
        with pytest.raises(Refused, match="plain"):
            load_data(str(spec))


@pytest.mark.parametrize("content", [b"", b"junk", b"\x93NUMPY\x03\0", b"\x93NUMPY\x01\0\x05\0{bad}"])
def test_damaged_files_are_refused(tmp_path, content):
    (tmp_path / "no.npz").write_bytes(content)
    (tmp_path / "x.npy").write_bytes(content)
    for spec in (npz_with(tmp_path, content), tmp_path / "no.npz", tmp_path):
        with pytest.raises(Refused, match="plain"):
            load_data(str(spec))


def test_a_later_version_of_npy_may_promise_gigabytes(tmp_path):
    (tmp_path / "x.npy").write_bytes(head((1,), write=np.lib.format.write_array_header_2_0) + b"12345678")
    with pytest.raises(Refused, match="not version 1"):
        load_data(str(tmp_path))


def test_an_array_larger_than_the_sample_is_not_read(tmp_path, monkeypatch):
    """A few bytes of an archive may promise gigabytes; the header says how many numbers there are."""
    np.savez_compressed(tmp_path / "s.npz", x=np.zeros((1 << 12, 4)))
    spec = str(tmp_path / "s.npz")
    assert load_data(spec, expected=1).x.shape == (1 << 12, 4)  # small enough to say what is wrong with it
    monkeypatch.setattr(arrays, "READ_ANYWAY", 1 << 10)
    assert load_data(spec, expected=1 << 14).x.shape == (1 << 12, 4)
    monkeypatch.setattr(np.lib.format, "read_array", None)
    with pytest.raises(TooLarge, match=r"x\.npy has shape \(4096, 4\) .* It was not read"):
        load_data(spec, expected=(1 << 14) - 1)
    monkeypatch.setattr(arrays, "BYTES_LIMIT", 1 << 10)
    with pytest.raises(Refused, match="does not fit"):
        load_data(spec)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"y": Y}, "no inputs x"),
        ({"x": X, "cells": np.array([True])}, "true or false"),
        ({"x": X, "cells": np.array(1)}, "true or false"),
    ],
)
def test_what_a_file_has_to_have(tmp_path, arrays, reason):
    np.savez(tmp_path / "s.npz", **arrays)
    with pytest.raises(Refused, match=reason):
        load_data(str(tmp_path / "s.npz"))


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
    (tmp_path / "d.npz").mkdir()
    with pytest.raises(Refused, match="is no file"):
        load_data(str(tmp_path / "d.npz"))
    with pytest.raises(OSError, match="none"):
        load_data(str(tmp_path / "none.npz"))


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_few_bytes_do_not_promise_gigabytes(tmp_path, kind):
    with zipfile.ZipFile(tmp_path / "s.npz", "w", kind) as archive:
        archive.writestr("x.npy", head((4,)) + bytes(32))
    with pytest.raises(Refused, match="neither stored nor deflated"):
        load_data(str(tmp_path / "s.npz"))


def test_an_npy_that_is_an_archive_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "n.npy", "w") as archive:
        archive.writestr("a.npy", b"x")
    content = bytearray((tmp_path / "n.npy").read_bytes())
    content[6] = 1
    (tmp_path / "n.npy").write_bytes(content)
    with pytest.raises(Refused, match="version 1"):
        load_numbers(tmp_path / "n.npy", "clusters")
