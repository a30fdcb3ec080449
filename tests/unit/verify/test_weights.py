"""Files of tensors: what overlaps, leaves a gap or promises too much is refused unread."""

import hashlib
import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from codebound_verify import weights
from codebound_verify.refusal import Refused
from codebound_verify.weights import map_tensors, read_tensors, read_weights, same_tensors, tensors_sha256


def test_files_of_another_program_and_the_hash_of_tensors(tmp_path):
    tensors = {"b": np.float32([[1, 2], [3, 4]]), "a": np.float32([-0.0]), "c.s": np.array(7, np.float32)}
    save_file(tensors, tmp_path / "w.safetensors", metadata={"format": "pt"})
    found = read_weights(tmp_path / "w.safetensors")
    assert {name: (v.shape, v.tobytes()) for name, v in found.items()} == {
        name: (v.shape, v.tobytes()) for name, v in tensors.items()
    }
    text = (
        b"a|1|"
        + tensors["a"].tobytes()
        + b"b|2,2|"
        + tensors["b"].tobytes()
        + b"c.s||"
        + tensors["c.s"].tobytes()
    )
    assert tensors_sha256(found) == hashlib.sha256(text).hexdigest()
    found["a"][:] = 1  # PyTorch warns of arrays that may not be written to


@pytest.mark.parametrize("kind", ["f4", "f8", "u1", "i1", "i2", "i4", "i8"])
def test_types(tmp_path, kind):
    save_file({"a": np.arange(6, dtype=kind).reshape(2, 3)}, tmp_path / "w")
    found = read_tensors(tmp_path / "w")["a"]
    assert (found.dtype, found.tolist()) == (np.dtype(kind), [[0, 1, 2], [3, 4, 5]])
    if kind != "f4":
        with pytest.raises(Refused, match="dtype"):
            read_weights(tmp_path / "w")


def packed(entries: object, data: bytes = b"") -> bytes:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(*offsets, dtype="F32", shape=(1,)) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        b"12345678",
        packed(b"{"),
        packed([]),
        packed(b"[" * 100_000),
        packed({}, b"1"),
        packed({"a": 1}),
        packed({"a": {}}),
        packed({"a": entry(0, 4) | {"more": 1}}, b"1234"),
        packed({"a": entry(0, 2, dtype="F16")}, b"12"),
        packed({"a": entry(0, 8, shape=[2])}, b"1234"),
        packed({"a": entry(4, 0, shape=[-1])}, b"1234"),
        packed({"a": entry(0, 4, shape=[1.0])}, b"1234"),
        packed({"a": entry(0, 4, shape=[True])}, b"1234"),
        packed({"a": entry(0, 4, shape=1)}, b"1234"),
        packed({"a": entry(0, 4, shape=[1] * 33)}, b"1234"),
        packed({"a": entry(0, 4, 4)}, b"1234"),
        packed({"a": entry(0, 4, shape=[2**62, 4])}, b"1234"),
        packed({"a": entry(0, 4), "b": entry(0, 4)}, b"1234"),  # twice the same
        packed({"a": entry(0, 4), "b": entry(8, 12)}, b"123412341234"),  # a gap
        packed({"a": entry(4, 8)}, b"12341234"),  # a gap in front
        packed({"a": entry(0, 4)}, b"12341"),  # something behind
        packed({"a": entry(0, 0, shape=[0])}, b"1234"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content):
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(Refused, match="safetensors"):
        read_tensors(tmp_path / "w")


def test_sizes_are_checked_before_anything_is_read(tmp_path, monkeypatch):
    (tmp_path / "w").write_bytes(content := packed({"a": entry(0, 4)}, b"1234"))
    assert {*map_tensors(tmp_path / "w", ("F32",), len(content))} == {"a"}
    with pytest.raises(Refused, match=f"at most {len(content) - 1} bytes"):
        map_tensors(tmp_path / "w", ("F32",), len(content) - 1)
    monkeypatch.setattr(weights, "HEADER_LIMIT", 8)
    with pytest.raises(Refused, match="header does not fit"):
        read_weights(tmp_path / "w")
    with pytest.raises(Refused, match="are no safetensors file"):
        read_weights(tmp_path)


def test_tensors_are_those_that_a_hash_names():
    tensors = {"a": np.float32([1])}
    sha256 = tensors_sha256(tensors)
    assert same_tensors(tensors, sha256, "Base") is tensors
    for other, reason in (
        ({"a": np.float32([2])}, "have SHA-256"),
        ({"b": np.float32([1])}, "have SHA-256"),
        ({"a": np.float64([1])}, "must be float32"),
        ({"a": np.float32([np.nan])}, "finite"),
        ({"a|1|": np.float32([1])}, r"without \|"),
        ({"\u00e4": np.float32([1])}, "printable"),
        ({"a\n": np.float32([1])}, "printable"),
    ):
        with pytest.raises(Refused, match=f"^(Base|Tensors): .*{reason}"):
            same_tensors(other, sha256, "Base")
